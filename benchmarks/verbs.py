"""Questions about a large Parquet file, in four groups, beside the same query written by hand for DuckDB.

50 million rows and 0.4 GB of temporary disk, 2 million when quick. What is timed is the query: the noise and the
posterior take as long for ten rows. By hand, numbers are cut to the bounds and NaN is left out, as an answer needs it.
Groups of texts are read by Arrow, because DuckDB gives up at the first text that is not UTF-8 and one record must not
be able to end a question; groups of numbers and flags are read by DuckDB itself.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.timing import show
from sottovoce.inference.cells.quantile_search import union_of
from sottovoce.inference.cells.questions import Question
from sottovoce.inference.cells.searched_quantiles import SearchedQuantiles
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Count, Facts, Flag, Number
from sottovoce.records.readings import ReadableRecords
from sottovoce.records.tables import Table, open_table

ROWS, QUICK_ROWS = 50_000_000, 2_000_000
MOST_RATIO = 1.2

RECORDS = """
    SELECT CASE WHEN h % 50 = 0 THEN NULL ELSE (h % 1000003) / 1e4 - 3 END AS income,
           (h // 64 % 100)::INTEGER AS age, (h // 4096 % 4)::INTEGER AS ward, h % 3 = 0 AS smoker,
           ['north', 'south', 'east', 'west'][1 + (h // 8192 % 4)::INTEGER] AS region
    FROM (SELECT hash(range) AS h FROM range({rows}))
"""
FACTS = Facts(
    income=Number(0, 80),
    age=Count(90),
    ward=Category([0, 1, 2, 3]),
    smoker=Flag(),
    region=Category(["north", "south", "east", "west"]),
)
CUT = "CASE WHEN NOT isnan(income) THEN least(greatest(income, 0), 80) END"
YEARS = "least(greatest(age, 0), 90)"
MEAN = f"count({CUT}), avg({CUT}), stddev({CUT})"
CASES = {
    "mean by ward": (Question("mean", "income", FACTS, by="ward"), f"SELECT ward, {MEAN} FROM '{{}}' GROUP BY ward"),
    "mean by ward, with a condition": (
        Question("mean", "income", FACTS, by="ward", where="age >= 40"),
        f"SELECT ward, {MEAN} FROM '{{}}' WHERE age >= 40 GROUP BY ward",
    ),
    "rate by ward": (
        Question("rate", "age", FACTS, by="ward"),
        f"SELECT ward, count(age), avg({YEARS}), stddev({YEARS}) FROM '{{}}' GROUP BY ward",
    ),
    "proportion by ward": (
        Question("proportion", "smoker", FACTS, by="ward"),
        "SELECT ward, smoker, count(*) FROM '{}' GROUP BY ward, smoker",
    ),
    "counts": (Question("counts", "ward", FACTS), "SELECT ward, count(*) FROM '{}' GROUP BY ward"),
    "mean by region (texts)": (
        Question("mean", "income", FACTS, by="region"),
        f"SELECT region, {MEAN} FROM '{{}}' GROUP BY region",
    ),
    "counts by region (texts)": (
        Question("counts", "region", FACTS),
        "SELECT region, count(*) FROM '{}' GROUP BY region",
    ),
}


def measure(table: Table, path: Path, repeats: int) -> list[tuple[str, float, float]]:
    """Return the least processor seconds of ours and of the query by hand, run in turns."""
    found = []
    with duckdb.connect() as connection:
        for name, (question, by_hand) in CASES.items():
            times: tuple[list[float], list[float]] = ([], [])
            for _ in range(repeats):
                start = time.process_time()
                table.read(question.reading, question.columns, where=question.where)
                middle = time.process_time()
                connection.execute(by_hand.format(path)).fetchall()
                times[0].append(middle - start)
                times[1].append(time.process_time() - middle)
            found.append((name, min(times[0]), min(times[1])))
    return found


def searched(table: Table, path: Path, repeats: int) -> tuple[str, float, float]:
    """Return the least processor seconds of a search for medians, and of the GROUP BYs of its rounds by hand."""
    question = Question("quantiles", "income", FACTS, by="ward", at=(0.5,))
    mechanism = SearchedQuantiles(question, table.count(), "gaussian", 100.0)
    times: tuple[list[float], list[float]] = ([], [])
    with duckdb.connect() as connection:
        for _ in range(repeats):
            start = time.process_time()
            rounds = mechanism.release(Asked(table, question.columns), seeded_rng(1)).value.rounds
            middle = time.process_time()
            for released in rounds:
                inner = union_of(released.edges)[1:-1].tolist()
                bins = " ".join(f"WHEN {CUT} < {edge!r} THEN {place}" for place, edge in enumerate(inner))
                cell = f"CASE {bins} WHEN {CUT} IS NULL THEN -1 ELSE {len(inner)} END"
                connection.execute(f"SELECT ward, {cell} AS cell, count(*) FROM '{path}' GROUP BY ALL").fetchall()
            times[0].append(middle - start)
            times[1].append(time.process_time() - middle)
    return f"medians by ward, {len(rounds)} rounds", min(times[0]), min(times[1])


@dataclass(frozen=True, eq=False)
class Asked(ReadableRecords):
    """A table, read as a curator reads it."""

    table: Table
    columns: list[str]

    def look(self, reading: Any) -> Any:
        """Return what a reading makes of the table."""
        return self.table.read(reading, self.columns)


def main(quick: bool = False) -> None:
    """Print the table."""
    rows = QUICK_ROWS if quick else ROWS
    with tempfile.TemporaryDirectory(prefix="sottovoce-bench-") as folder:
        path = Path(folder) / "records.parquet"
        with duckdb.connect() as connection:
            connection.execute(f"COPY ({RECORDS.format(rows=rows)}) TO '{path}' (FORMAT parquet)")
        size = path.stat().st_size / 1e6
        with open_table(path) as table:
            results = measure(table, path, repeats=9 if quick else 2)
            results.append(searched(table, path, repeats=3 if quick else 2))
    show(
        f"Questions in four groups of {rows:,} rows, {size:,.0f} MB of Parquet",
        ["", f"{os.cpu_count()} threads, Sottovoce", "by hand", f"ratio (wanted ≤ {MOST_RATIO})"],
        [[name, f"{1e3 * ours:.0f} ms", f"{1e3 * hand:.0f} ms", f"{ours / hand:.2f}"] for name, ours, hand in results],
        "Processor time over all threads. Of medians, by hand are the GROUP BYs of all rounds.",
    )


if __name__ == "__main__":
    main()
