"""Write docs/guide/planted-faults.md anew: plant every fault, run what must catch it, and note what it says.

Run it from the repository's root: ``python tests/audit/write_page.py``.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guide" / "planted-faults.md"
BEGIN, END = "<!-- faults: begin -->", "<!-- faults: end -->"
WITHOUT = "Without a fault"
HEAD = ["fault", "where", "caught by", "what the first of them said"]


def rows_of(page: str) -> list[tuple[str, str, str]]:
    """Return the faults of the page's tables: name, place, checks."""
    listed = page.partition(BEGIN)[2].partition(WITHOUT)[0]
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in listed.splitlines() if line.startswith("| ")]
    return [(one[0], one[1], one[2]) for one in cells if one != HEAD and set(one[0]) != {"-"}]


def expected_rows() -> list[tuple[str, str, str]]:
    """Return the same for the faults that are planted."""
    from audit.faults import all_faults

    return [(f.name, f.where, "; ".join(f.caught_by)) for f in all_faults()]


def folded(title: str, rows: list[list[str]]) -> str:
    """Return a table, head first, that opens when its title is clicked."""
    head, *body = ["| " + " | ".join(row) + " |" for row in rows]
    lines = [head, "|" + " --- |" * len(rows[0]), *body]
    return f'<details markdown="1"><summary>{title}</summary>\n\n' + "\n".join(lines) + "\n\n</details>\n"


def rooms() -> dict[str, list[str]]:
    """Return the names of the faults of each room, under what its file says it holds."""
    from audit import faults

    found: dict[str, list[str]] = {}
    for one in faults.all_faults():
        module = sys.modules[f"{faults.__name__}.{Path(one.place[0]).stem}"]
        said = str(module.__doc__).partition("\n")[0].rstrip(".").removeprefix("Faults of ")
        found.setdefault(said[0].upper() + said[1:].replace(" and of ", " and "), []).append(one.name)
    return found


def tables() -> str:
    """Plant every fault and return the tables of what caught it, one for each room."""
    from audit.checks import known_checks
    from audit.faults import all_faults, planted
    from audit.faults.audits import AUDITS, run

    rows: dict[str, list[str]] = {}
    counts: Counter[str] = Counter()
    for fault in all_faults():
        with planted(fault):
            results = [run(name) for name in fault.caught_by]
        missed = [result.name for result in results if result.passed]
        if missed:
            raise SystemExit(f"{fault.name!r} was not caught by {missed}")
        counts.update(fault.caught_by)
        said = " ".join(results[0].evidence.replace("|", "/").partition(" (and ")[0].split())
        rows[fault.name] = [fault.name, fault.where, "; ".join(fault.caught_by), said]
    results = [run(name) for name in [*known_checks(), *AUDITS]]
    fired = [result.name for result in results if not result.passed]
    if fired:
        raise SystemExit(f"without any fault these fire: {fired}")
    parts = [f"{len(rows)} faults, room by room; open one to see what caught each.\n"]
    parts += [
        folded(f"{room} ({len(names)})", [HEAD, *(rows[name] for name in names)]) for room, names in rooms().items()
    ]
    parts += [f"{WITHOUT}, none of the {len(results)} checks and audits fires.\n"]
    quiet = [["check or audit", "faults it catches", "what it says of the library as it is"]]
    quiet += [[r.name, str(counts[r.name]), r.evidence.replace("|", "/")] for r in results]
    return "\n".join([*parts, folded("What each of them says", quiet)])


def main() -> None:
    """Rewrite the part of the page between the markers."""
    page = PAGE.read_text(encoding="utf-8")
    head, _, rest = page.partition(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n{tables()}{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]
    main()
