"""Persons in a large Parquet file beside the bare grouped query, written by hand for DuckDB, in the same process.

50 million rows of 2 million persons, 100 thousand of 4 thousand when quick. It reports the least processor time of
several runs in turns, and their ratio. By hand: one group-by on the person, numbers cut to their bounds.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.timing import show
from sottovoce.records.readings import PersonCells, PersonMoments, PersonRows
from sottovoce.records.tables import Table, open_table

ROWS, QUICK_ROWS, EACH = 50_000_000, 100_000, 25
MOST_RATIO = 1.5
WARDS = ("A", "B", "C", "D")
RECORDS = """
    SELECT ((h % {persons}) * 7919)::BIGINT AS person, (h // 64 % 1900)::DOUBLE / 10 + 60 AS sbp,
           ['A', 'B', 'C', 'D'][1 + (h // 8192 % 4)::INTEGER] AS ward
    FROM (SELECT hash(range) AS h FROM range({rows}))
"""
_CUT = "CASE WHEN isnan(sbp) THEN NULL ELSE least(greatest(sbp, 60), 250) END"
CASES: dict[str, tuple[Callable[[Table], Any], str]] = {
    "mean of persons' averages": (
        lambda table: table.read(
            PersonMoments((), (), measures=((60.0, 250.0),), fillers=(None,), squared=True), ["sbp", "person"]
        ),
        f"SELECT count(*), sum(m), sum(m * m) FROM (SELECT person, avg({_CUT}) AS m FROM '{{path}}' GROUP BY person)",
    ),
    "shares of persons in wards": (
        lambda table: table.read(PersonCells((False,), (WARDS,), (-1,)), ["ward", "person"]),
        "SELECT ward, count(*), sum(share) FROM (SELECT person, ward, count(*) / sum(count(*)) OVER (PARTITION BY "
        "person) AS share FROM '{path}' GROUP BY person, ward) GROUP BY ward",
    ),
    "averages in the commonest ward": (
        lambda table: table.read(
            PersonMoments((WARDS,), (-1,), measures=((60.0, 250.0),), fillers=(None,), squared=True),
            ["ward", "sbp", "person"],
        ),
        f"SELECT ward, count(*), sum(m), sum(m * m) FROM (SELECT person, arg_max(ward, r) AS ward, arg_max(m, r) AS m "
        f"FROM (SELECT person, ward, count(*) AS r, avg({_CUT}) AS m FROM '{{path}}' GROUP BY person, ward) "
        "GROUP BY person) GROUP BY ward",
    ),
    "at most 3 rows a person": (
        lambda table: table.read(PersonRows((False,), (WARDS,), (-1,), rows=3), ["ward", "person"]),
        "SELECT ward, count(*) FROM (SELECT ward FROM '{path}' QUALIFY row_number() OVER (PARTITION BY person "
        "ORDER BY hash(ward, person)) <= 3) GROUP BY ward",
    ),
}


def measure(path: Path, repeats: int, cases: dict[str, Any] | None = None) -> list[tuple[str, float, float]]:
    """Return the least processor seconds of ours and of the hand-written query, run in turns."""
    found = []
    with open_table(path) as table, duckdb.connect() as connection:
        for name, (ours, by_hand) in (CASES if cases is None else cases).items():
            sides: tuple[list[float], list[float]] = ([], [])
            calls = (lambda ours=ours: ours(table), lambda q=by_hand: connection.sql(q.format(path=path)).fetchall())
            for _ in range(repeats):
                for times, call in zip(sides, calls, strict=True):
                    start = time.process_time()
                    call()
                    times.append(time.process_time() - start)
            found.append((name, min(sides[0]), min(sides[1])))
    return found


def main(quick: bool = False) -> None:
    """Show ours beside the query by hand."""
    rows = QUICK_ROWS if quick else ROWS
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "persons.parquet"
        with duckdb.connect() as connection:
            query = RECORDS.format(rows=rows, persons=rows // EACH)
            connection.sql(f"COPY ({query}) TO '{path}' (FORMAT parquet)")
        found = measure(path, 3)
    table = [
        [name, f"{ours:.2f} s", f"{bare:.2f} s", f"{ours / bare:.2f}" + (f" (≤ {MOST_RATIO})" if k == 0 else "")]
        for k, (name, ours, bare) in enumerate(found)
    ]
    show(f"{rows:,} rows of {rows // EACH:,} persons", ["what", "ours", "by hand", "ratio"], table)


if __name__ == "__main__":
    main()
