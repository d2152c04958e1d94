"""The page of results: one section for each area, each with the machine and the versions it was measured with.

An area that is measured again replaces its own section and leaves the others alone, so every section says for itself
where its numbers come from. What a person wrote in a section, between ``<!-- by hand -->`` and ``<!-- end -->``, stays:
what the figures of several machines say together, and whether a target is met.
"""

from __future__ import annotations

import ast
import os
import platform
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from types import ModuleType

from benchmarks.timing import Shown

__all__ = ["PAGE", "Area", "write"]

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"

FRONT = """\
# Benchmarks

Each table sets Sottovoce beside a peer, or beside the bare engine it is built on, **in the same run on the same
machine**. Look at the ratios: times depend on the machine and its mood, ratios much less. A ratio of times below 1 says
that we are faster, above 1 that we are slower. Short times are processor time, over all threads.

```console
$ make bench                             # everything
$ python -m benchmarks --quick           # smaller sizes
$ python -m benchmarks ledger --write    # one area, and its section of this page
```

A peer that cannot live beside current versions of the other libraries gets an environment of its own under
`.venv-peers/`, made on first use with the versions pinned in `benchmarks/peers/environment.py`. Without a network its
columns stay empty and the note says why.
"""

_TITLES = {
    "calibration": "Calibration",
    "privacy": "Profiles and composition",
    "mechanisms": "Mechanisms",
    "answers": "Answers",
    "tables": "Statistics of tables",
    "verbs": "Questions in groups",
    "glm": "Generalized linear models: speed",
    "glm_error": "Generalized linear models: error",
    "race": "The race of private regressions",
    "profiles": "Linear programs for local privacy",
}
"""The titles of areas whose name is not title enough, in the order of the page; the others follow by name."""
_SECTION = re.compile(r"^<!-- (\w+) -->\n.*?^<!-- end of \1 -->\n", re.M | re.S)
_BY_HAND = re.compile(r"^<!-- by hand -->\n.*?^<!-- end -->\n", re.M | re.S)
_OURS = {"sottovoce", "benchmarks", "support", "numpy", "scipy"} | set(sys.stdlib_module_names)


@dataclass(frozen=True)
class Area:
    """What one area measured, and with what."""

    name: str
    about: str
    tables: tuple[Shown, ...]
    stamp: str

    @classmethod
    def of(cls, module: ModuleType, tables: Sequence[Shown], *, seconds: float, quick: bool, memory: str = "") -> Area:
        """Describe the run of a module."""
        name = module.__name__.rpartition(".")[2]
        about = (module.__doc__ or "").strip().splitlines()[0]
        about = re.sub(rf"^{name}: (.)", lambda found: found[1].upper(), about, flags=re.I)
        size = "quick sizes, " if quick else ""
        stamp = f"{machine()}; {versions(module)}; {time.strftime('%Y-%m-%d', time.gmtime())}, {size}{seconds:.0f} s"
        stamp += f", {memory}" if memory else ""
        return cls(name, about, tuple(tables), stamp)

    def markdown(self, by_hand: str = "") -> str:
        """Return the section, with what a person wrote in it."""
        title = _TITLES.get(self.name, self.name.replace("_", " ").capitalize())
        parts = [f"## {title}\n\n{self.about}"]
        for table in self.tables:
            head = "| " + " | ".join(table.columns) + " |"
            rule = "|" + "|".join([" --- ", *[" ---: "] * (len(table.columns) - 1)]) + "|"
            rows = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table.rows]
            parts.append("\n".join([f"**{table.title}**", "", head, rule, *rows]))
            if table.note:
                parts.append(table.note)
        parts += [by_hand.strip()] if by_hand else []
        parts.append(f"*{self.stamp}. `python -m benchmarks {self.name}`*")
        return "\n\n".join(parts) + "\n"


def machine() -> str:
    """Return the processor, its number of cores, how many processes wanted them, and the system."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists() and (found := re.search(r"model name\s*:\s*(.+)", info.read_text())):
        model = found[1]
    return f"{os.cpu_count()} cores of {model}, load {os.getloadavg()[1]:.0f}, {platform.system()}"


@cache
def _homes() -> Mapping[str, list[str]]:
    """Return which libraries hold a package: every one that is installed is looked through."""
    return metadata.packages_distributions()


def versions(module: ModuleType) -> str:
    """Return the versions of Python, NumPy, SciPy and of the other libraries that the module's own file imports."""
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    homes = _homes()
    packages = {homes[name][0] for name in names - _OURS if name in homes} | {"numpy", "scipy"}
    found = [f"{name} {metadata.version(name)}" for name in sorted(packages, key=str.lower)]
    return ", ".join([f"Python {platform.python_version()}", *found])


def write(area: Area, path: Path = PAGE) -> None:
    """Put the area's section into the page, in the place of the one it had."""
    marks = f"<!-- {area.name} -->", f"<!-- end of {area.name} -->"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    sections = {match[1]: match[0] for match in _SECTION.finditer(text)}
    by_hand = "\n".join(_BY_HAND.findall(sections.get(area.name, "")))
    sections[area.name] = f"{marks[0]}\n{area.markdown(by_hand)}{marks[1]}\n"
    order = sorted(sections, key=lambda name: ([*_TITLES].index(name) if name in _TITLES else len(_TITLES), name))
    path.write_text("\n".join([FRONT, *(sections[name] for name in order)]), encoding="utf-8")
