"""Every Python block in the README and the documentation runs, and prints what the page says it prints."""

import contextlib
import doctest
import io
import re
import shlex
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import pytest
import typer

from sottovoce.faces.cli import application

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\s*^```(?:text|(txt))\n(.*?)^```)?", re.S | re.M)
COMMAND = re.compile(r"^(?:\$ )?sottovoce ((?:[^\n]*\\\n)*[^\n]*)$", re.M)
NUMBER = re.compile(r"\d[\d.,]*")


SHORT = {
    "sottovoce.inference.latent.hidden_markov._SEARCH": 5,
    "sottovoce.inference.latent.hidden_markov._LEAST_SWEEPS": 8,
    "sottovoce.inference.latent.hidden_markov._MOST_SWEEPS": 8,
    "sottovoce.inference.latent.moment_posterior._LEAST": 40,
    "sottovoce.inference.latent.moment_posterior._MOST": 40,
    "sottovoce.inference.latent.field_evidence._LEARN": 6,
    "sottovoce.inference.latent.random_field._LEAST": 8,
    "sottovoce.inference.latent.random_field._MOST": 8,
    "sottovoce.inference.latent.latent_classes._LEAST": 25,
    "sottovoce.inference.latent.latent_classes._MOST": 25,
    "sottovoce.inference.latent.latent_counts._MANY": 1 << 40,
    "sottovoce.inference.latent.forward_backward._MANY": 1 << 40,
}
"""How far chains go here: what a page prints of them is not compared, and other tests look at where they end. So few
steps are not worth compiling."""


@cache
def blocks(page: Path) -> list[tuple[str, str | None, bool]]:
    """Return what runs, what it prints, and whether that is compared but for its numbers, as noisy ``txt`` is."""
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [(code, output or None, bool(noisy)) for code, noisy, output in found]


class Page:
    """The blocks of a page, which run one after the other, each once, in a folder of their own."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.path, self.folder, self.done = path, folder, 0
        self.names: dict[str, object] = {"__name__": "__main__"}
        (folder / "data").symlink_to(ROOT / "data")

    def run(self, last: int) -> None:
        """Run the blocks up to the last one asked for that have not run."""
        for code, expected, noisy in blocks(self.path)[self.done : last]:
            self.done += 1
            if code.startswith(">>>"):
                session = doctest.DocTestParser().get_doctest(code, self.names, f"block {self.done}", str(self.path), 0)
                assert doctest.DocTestRunner(optionflags=FLAGS).run(session, clear_globs=False).failed == 0
                self.names |= session.globs
                continue
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, f"{self.path.name}:block {self.done}", "exec"), self.names)
            if expected is not None:
                said = [NUMBER.sub("0", text) if noisy else text for text in (printed.getvalue(), expected)]
                assert said[0].split() == said[1].split(), f"block {self.done} prints something else"


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Page]:
    """Open a page, and hold it until another is opened."""
    return lru_cache(maxsize=1)(lambda path: Page(path, tmp_path_factory.mktemp(path.stem)))


@pytest.mark.parametrize(
    ("path", "block"),
    [
        pytest.param(page, block, id=f"{page.relative_to(ROOT)}:{block}")
        for page in PAGES
        for block in range(1, len(blocks(page)) + 1)
    ],
)
def test_the_code_on_this_page_runs(
    path: Path, block: int, opened: Callable[[Path], Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOTTOVOCE_DATA", str(ROOT / "data"))
    page = opened(path)
    monkeypatch.chdir(page.folder)
    for place, sweeps in SHORT.items():
        monkeypatch.setattr(place, sweeps)
    page.run(block)


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert not broken


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_a_page_begins_with_a_sentence_that_says_what_it_is_for(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if "--8<--" in text or page.name == "index.md" or page.parent.name == "gallery":  # of other files, drawn
        return
    title, first = text.split("\n\n")[:2]
    assert re.fullmatch(r"# [^\n]+", title)
    assert len(first) > 40 and not re.match(r"#|:::|```|\||!\[|- |\d+\. ", first), first


def commands() -> list[tuple[str, str]]:
    """Return every command on a page that is typed into a shell, and where it stands."""
    found = []
    for page in PAGES:
        for kind, shell in re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M):
            typed = [match.replace("\\\n", " ") for match in COMMAND.findall(shell)] if kind in ("", "console") else []
            found += [(f"{page.relative_to(ROOT)}: {line}", line) for line in typed]
    return found


@pytest.mark.parametrize("line", [pytest.param(line, id=name) for name, line in commands()])
def test_what_a_page_tells_people_to_type_is_a_command_with_its_options(line: str) -> None:
    words = shlex.split(line, comments=True)
    words = words[: next((place for place, word in enumerate(words) if word in ("|", ">")), len(words))]
    if words[0].startswith("--"):
        return
    parsed: Any = typer.main.get_command(application(words[0]))
    name = "sottovoce"
    while hasattr(parsed, "commands"):
        name, *words = words
        assert name in parsed.commands, f"{name} is no command"
        parsed = parsed.commands[name]
    parsed.make_context(name, words)
