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


def rows_of(page: str) -> list[tuple[str, str, str]]:
    """Return the faults of the page's table: name, place, checks."""
    table = page.partition(BEGIN)[2].strip().partition("\n\n")[0]
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in table.splitlines()]
    return [(name, where, checks) for name, where, checks, _ in cells[2:]]


def expected_rows() -> list[tuple[str, str, str]]:
    """Return the same for the faults that are planted."""
    from audit.faults import all_faults

    return [(f.name, f.where, "; ".join(f.caught_by)) for f in all_faults()]


def table() -> str:
    """Plant every fault and return the table of what caught it."""
    from audit.faults import all_faults, planted
    from audit.faults.audits import AUDITS, run
    from sottovoce.audit.checks import known_checks

    lines = ["| fault | where | caught by | what the first of them said |", "| --- | --- | --- | --- |"]
    counts: Counter[str] = Counter()
    for fault in all_faults():
        with planted(fault):
            results = [run(name) for name in fault.caught_by]
        missed = [result.name for result in results if result.passed]
        if missed:
            raise SystemExit(f"{fault.name!r} was not caught by {missed}")
        counts.update(fault.caught_by)
        said = " ".join(results[0].evidence.replace("|", "/").partition(" (and ")[0].split())
        lines.append(f"| {fault.name} | {fault.where} | {'; '.join(fault.caught_by)} | {said} |")
    results = [run(name) for name in [*known_checks(), *AUDITS]]
    fired = [result.name for result in results if not result.passed]
    if fired:
        raise SystemExit(f"without any fault these fire: {fired}")
    lines += ["", f"Without a fault, none of the {len(results)} checks and audits fires:", ""]
    lines += ["| check or audit | faults it catches | what it says of the library as it is |", "| --- | --- | --- |"]
    lines += [f"| {r.name} | {counts[r.name]} | {r.evidence.replace('|', '/')} |" for r in results]
    return "\n".join(lines)


def main() -> None:
    """Rewrite the part of the page between the markers."""
    page = PAGE.read_text(encoding="utf-8")
    head, _, rest = page.partition(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]
    main()
