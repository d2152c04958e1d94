"""Every Python block in the README and the documentation runs, and prints what the page says it prints."""

import contextlib
import doctest
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\s*^```text\n(.*?)^```)?", re.S | re.M)


SHORT = {
    "sottovoce.latent.hidden_markov._SEARCH": 5,
    "sottovoce.latent.hidden_markov._LEAST_SWEEPS": 8,
    "sottovoce.latent.hidden_markov._MOST_SWEEPS": 8,
    "sottovoce.latent.moment_posterior._LEAST": 80,
    "sottovoce.latent.moment_posterior._MOST": 80,
    "sottovoce.latent.random_field._LEAST": 8,
    "sottovoce.latent.random_field._MOST": 8,
    "sottovoce.latent.latent_classes._LEAST": 25,
    "sottovoce.latent.latent_classes._MOST": 25,
    "sottovoce.latent.latent_counts._MANY": 1 << 40,
    "sottovoce.latent.chains._MANY": 1 << 40,
}
"""How far chains go here: what a page prints of them is not compared, and other tests look at where they end. So few
steps are not worth compiling."""


def blocks(page: Path) -> list[tuple[str, str | None]]:
    return [(code, output or None) for code, output in BLOCK.findall(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_the_code_on_this_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOTTOVOCE_DATA", str(ROOT / "data"))
    (tmp_path / "data").symlink_to(ROOT / "data")
    monkeypatch.chdir(tmp_path)
    for place, sweeps in SHORT.items():
        monkeypatch.setattr(place, sweeps)
    names: dict[str, object] = {"__name__": "__main__"}
    for number, (code, expected) in enumerate(blocks(page), start=1):
        printed = io.StringIO()
        if code.startswith(">>>"):
            session = doctest.DocTestParser().get_doctest(code, names, f"block {number}", str(page), 0)
            assert doctest.DocTestRunner(optionflags=FLAGS).run(session, clear_globs=False).failed == 0
            names |= session.globs
            continue
        with contextlib.redirect_stdout(printed):
            exec(compile(code, f"{page.name}:block {number}", "exec"), names)
        if expected is not None:
            assert printed.getvalue().split() == expected.split(), f"block {number} prints something else"


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert not broken
