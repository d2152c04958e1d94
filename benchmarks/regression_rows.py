"""A whole regression in DuckDB, beside the same sums written by hand: time and memory, each in a process of its own.

python -m benchmarks.regression_rows --n 50000000 --threads 16
SOTTOVOCE_MEMORY=200MB python -m benchmarks.regression_rows --n 50000000 --threads 4

Beyond two million records a file stands in the folder several times, under other names: it is read as often. Both ways
have as many cores as there are to be threads; by hand each thread holds some 50 MB.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import duckdb
import numpy as np

import sottovoce as sv
from benchmarks.memory import own_peak
from benchmarks.timing import show
from sottovoce.inference.regression import Formula

D = 20
NAMES = [f"x{i}" for i in range(1, D + 1)]
_PIECE = 2_000_000
_FIELDS = ("what", "n", "columns", "threads", "CPU seconds", "seconds", "memory, MB")


def make(n: int, folder: Path) -> Path:
    """Write n records of twenty numbers and a flag; return the pattern that names their files."""
    numbers = ", ".join(f"(hash(i * 31 + {k}) % 1000003) / 1000003.0 * 2 - 1 AS x{k}" for k in range(1, D + 1))
    pieces = -(-n // _PIECE)
    first = folder / "rows0.parquet"
    with duckdb.connect() as connection:
        connection.execute("SET memory_limit = '4GB'; SET preserve_insertion_order = false")
        flag = "(hash(i * 31 + 77) % 1000003) / 1000003.0 < 0.4 AS y"
        query = f"SELECT {numbers}, {flag} FROM range({n // pieces}) t(i)"
        connection.execute(f"COPY ({query}) TO '{first}' (FORMAT parquet)")
    for piece in range(1, pieces):
        (folder / f"rows{piece}.parquet").hardlink_to(first)
    return folder / "rows*.parquet"


def facts() -> sv.Facts:
    return sv.Facts({name: sv.Number(-1, 1) for name in NAMES} | {"y": sv.Flag()})


def ours(n: int, path: Path, threads: int) -> None:
    """Ask for the regression; DuckDB has as many threads as there are cores."""
    del n, threads
    with (
        tempfile.TemporaryDirectory() as folder,
        sv.Curator(path, Path(folder) / "l", sv.ApproxDP(3.0, 1e-6), facts=facts(), dataset="rows") as curator,
    ):
        curator.regress("y ~ " + " + ".join(NAMES), family="logistic", spend=0.3)


def by_hand(n: int, path: Path, threads: int) -> None:
    """Add up what three looks add up, in plain doubles."""
    formula, rng = Formula("y ~ " + " + ".join(NAMES), facts(), "logistic"), np.random.default_rng(0)
    size = D + 1
    dense = np.eye(size) + 0.01 * rng.normal(size=(size, size))
    looks = [
        formula.look(n),
        formula.look_at(n, 0.1 * rng.normal(size=size), dense, 4.0, ("score", "information")),
        formula.look_at(n, 0.1 * rng.normal(size=size), dense, 4.0, ("score", "information", "meat")),
    ]
    with duckdb.connect() as connection:
        connection.execute(f"SET memory_limit = '4GB'; SET preserve_insertion_order = false; SET threads = {threads}")
        connection.execute(f"SELECT count(*) FROM '{path}'").fetchone()
        for look in looks:
            x = ["1.0", *NAMES]
            z = [
                " + ".join(f"{weight:.17g} * {column}" for weight, column in zip(row, x, strict=True))
                for row in look.matrix
            ]
            t = " + ".join(f"{weight:.17g} * z{i}" for i, weight in enumerate(look.predictors[0]))
            squares = " + ".join(f"z{i} * z{i}" for i in range(size))
            pull, lean = look.factors
            whole = ", ".join(f"z{i} * fw AS w{i}, z{i} * fu AS u{i}" for i in range(size))
            sums = [f"sum(w{i})" for i in range(size)]
            pairs = [(i, j) for i in range(size) for j in range(i, size)]
            sums += [f"sum(u{i} * u{j})" for i, j in pairs]
            sums += [f"sum(w{i} * w{j})" for i, j in pairs] if "meat" in look.parts else []
            turned = ", ".join(f"{one} AS z{i}" for i, one in enumerate(z))
            connection.execute(f"""
                WITH rows AS (SELECT {turned}, y::DOUBLE AS y FROM '{path}'),
                    turned AS (SELECT *, {look.norm**2:.17g} / greatest({squares}, {look.norm**2:.17g}) AS v,
                        1 / (1 + exp(-({t}))) AS p FROM rows),
                    weighed AS (SELECT *, {pull:.17g} * v * (y - p) AS fw, {lean:.17g} * sqrt(v * p * (1 - p)) AS fu
                        FROM turned),
                    steps AS (SELECT {whole} FROM weighed)
                SELECT {", ".join(sums)} FROM steps""").fetchone()


def measured(what: str, n: int, path: Path, threads: int) -> dict[str, float]:
    """Return the seconds and the megabytes of one way, in a process of its own."""
    words = [sys.executable, "-m", "benchmarks.regression_rows", "--n", str(n), "--what", what, "--path", str(path)]
    words += ["--threads", str(threads)]
    told: dict[str, float] = json.loads(
        subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()[-1]
    )
    return told


def main(quick: bool = False) -> None:
    """Compare a regression in DuckDB with its sums by hand."""
    compare(100_000 if quick else 2_000_000, 2)


def compare(n: int, threads: int) -> None:
    """Make the records, measure both ways, and show them."""
    rows, shape = [], [f"{n:,}", str(D), str(threads)]
    with tempfile.TemporaryDirectory() as folder:
        path = make(n, Path(folder))
        found = {what: measured(what, n, path, threads) for what in ("by hand", "ours")}
    for what, told in found.items():
        rows.append([what, *shape, f"{told['cpu']:.1f}", f"{told['wall']:.1f}", f"{told['memory']:.0f}"])
    ratios = [f"{found['ours'][of] / found['by hand'][of]:.2f}" for of in ("cpu", "wall")]
    rows.append(["ratio", *shape, *ratios, ""])
    show("A regression where its records are", _FIELDS, rows)


def command(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=50_000_000)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--what", choices=("by hand", "ours"))
    parser.add_argument("--path", type=Path)
    given = parser.parse_args(words)
    if given.what is None:
        compare(given.n, given.threads)
        return
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: given.threads])
    cpu, wall = time.process_time(), time.perf_counter()
    (ours if given.what == "ours" else by_hand)(given.n, given.path, given.threads)
    told = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall, "memory": own_peak() / 1024}
    print(json.dumps(told))


if __name__ == "__main__":
    command()
