"""Statistics of a large Parquet file beside the same query written by hand for DuckDB, in the same process.

50 million rows and 1.2 GB of temporary disk, 2 million when quick. It reports the least processor time of several
alternating runs, their ratio, and the peak memory of a process that only reads the statistics through Sottovoce.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.timing import show
from sottovoce.records.readings import BallSum, CategoryCounts, ClippedSum, Moments
from sottovoce.records.tables import Table, open_table

ROWS, QUICK_ROWS = 50_000_000, 2_000_000
MOST_RATIO, MOST_MEMORY = 1.2, 300.0

RECORDS = """
    SELECT CASE WHEN h % 50 = 0 THEN NULL ELSE (h % 1000003) / 1e4 - 3 END AS income,
           (h // 64 % 100)::INTEGER AS age,
           ['north', 'south', 'east', 'west', 'abroad'][1 + (h // 8192 % 5)::INTEGER] AS region,
           sin(h % 65537) AS u, cos(h % 65539) * 1.5 AS v
    FROM (SELECT hash(range) AS h FROM range({rows}))
"""

# Null and NaN as 0 and infinities cut, as ours counts them: without that one NaN would make the sum NaN.
TAME = "least(greatest(CASE WHEN isnan({0}) THEN 0 ELSE coalesce({0}, 0) END, -1e90), 1e90) AS {0}"
SHRUNK = (
    "(SELECT *, 1 / greatest(1, sqrt(u * u + v * v)) AS s FROM "
    f"(SELECT {TAME.format('u')}, {TAME.format('v')}, "
    "CASE WHEN isnan(income) THEN 0 ELSE least(greatest(coalesce(income, 0), 0), 80) END AS y FROM '{path}'))"
)

CASES: dict[str, tuple[Callable[[Table], Any], str]] = {
    "clipped sum of doubles": (
        lambda table: table.read(ClippedSum(0, 80), "income"),
        "SELECT count(*), sum(CASE WHEN isnan(income) THEN 0 ELSE least(greatest(coalesce(income, 0), 0), 80) END) "
        "FROM '{path}'",
    ),
    "clipped sum of integers": (
        lambda table: table.read(ClippedSum(0, 90), "age"),
        "SELECT count(*), sum(least(greatest(coalesce(age, 0), 0), 90)) FROM '{path}'",
    ),
    "category counts": (
        lambda table: table.read(CategoryCounts(("north", "south", "east", "west")), "region"),
        "SELECT region, count(*) FROM '{path}' GROUP BY region",
    ),
    "condition": (
        lambda table: table.read(ClippedSum(0, 1), where="age > 40 and region in ('north', 'east')"),
        "SELECT count(*), count(*) FILTER (age > 40 AND region IN ('north', 'east')) FROM '{path}'",
    ),
    "ball sum, 2 columns": (
        lambda table: table.read(BallSum(2, 1.0), ["u", "v"]),
        f"SELECT count(*), sum(u * s), sum(v * s) FROM {SHRUNK}",
    ),
    "X'X, X'y, X'1 and y'y, 2 columns": (
        lambda table: table.read(Moments(2, 1.0, (0, 80), binary=False), ["u", "v", "income"]),
        "SELECT count(*), sum(u * s * u * s), sum(u * s * v * s), sum(v * s * v * s), "
        f"sum(u * s * y), sum(v * s * y), sum(u * s), sum(v * s), sum(y * y) FROM {SHRUNK}",
    ),
}


def measure(path: Path, repeats: int) -> list[tuple[str, float, float]]:
    """Return the least processor seconds of ours and of the hand-written query, run in turns.

    Processor time, over all threads of the engine, stays fair on a machine that does other work too.
    """
    found = []
    with open_table(path) as table, duckdb.connect() as connection:
        for name, (ours, by_hand) in CASES.items():
            query = by_hand.format(path=path)
            times: tuple[list[float], list[float]] = ([], [])
            for _ in range(repeats):
                start = time.process_time()
                ours(table)
                middle = time.process_time()
                connection.execute(query).fetchall()
                times[0].append(middle - start)
                times[1].append(time.process_time() - middle)
            found.append((name, min(times[0]), min(times[1])))
    return found


def read_all(path: Path) -> None:
    """Read every statistic once and print the peak memory of this process in MB."""
    with open_table(path) as table:
        for ours, _ in CASES.values():
            ours(table)
    # Not getrusage: its peak would count the process that started this one, up to the moment of the start.
    peak = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert peak is not None
    print(int(peak[1]) / 1024)


def main(quick: bool = False) -> None:
    """Print the table."""
    rows = QUICK_ROWS if quick else ROWS
    with tempfile.TemporaryDirectory(prefix="sottovoce-bench-") as folder:
        path = Path(folder) / "records.parquet"
        with duckdb.connect() as connection:
            connection.execute(f"COPY ({RECORDS.format(rows=rows)}) TO '{path}' (FORMAT parquet)")
        size = path.stat().st_size / 1e6
        command = [sys.executable, "-m", "benchmarks.tables", "--read", str(path)]
        memory = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        results = measure(path, repeats=9 if quick else 3)
    shown = [[name, f"{ours:.3f} s", f"{hand:.3f} s", f"{ours / hand:.2f}"] for name, ours, hand in results]
    show(
        f"Statistics of {rows:,} rows, {size:,.0f} MB of Parquet",
        ["", "Sottovoce", "by hand", f"ratio (wanted ≤ {MOST_RATIO})"],
        shown,
        f"Processor time over all threads. Peak memory of a process that only reads: {memory:.0f} MB (wanted "
        f"< {MOST_MEMORY:.0f}).",
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--read"]:
        read_all(Path(sys.argv[2]))
    else:
        main()
