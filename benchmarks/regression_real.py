"""Do private intervals hold the ordinary coefficients of real tables, of which no formula is quite right?

A bundled set is taken for everybody, and its ordinary coefficients for the truth: tables are drawn from it, with
repetition, and regressed privately by formulas of one to five columns that were picked by chance. The bounds of numbers
are those of the set, or wider by a fifth or by the whole of them on either side.

python -m benchmarks.regression_real --out real.csv --fits 3000 --processes 16
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from papers.data import data_path

from benchmarks.fitting import Cells, fit, options, run, show_csv, write_cells
from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks
from sottovoce.inference.regression.formula import Formula
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.promises import ApproxDP
from sottovoce.records.facts import Category, Column, Count, Facts, Number
from sottovoce.records.readings.in_memory_records import as_columns

SIZES, EPSILONS, DELTA = (1_000, 5_000, 30_000), (0.3, 1.0, 3.0), 1e-6
FORMULAS = 40
"""So many are picked of each set."""
_WIDER = (0.0, 0.2, 1.0)
_MOST_COUNTED = 60
_SURE = 12.0
"""A set in which a flag goes with an outcome always, or never, has no ordinary coefficient: its formula is left out."""
_FIELDS = ("set", "family", "n", "epsilon", "fits", "held", "off")
_SETS = {
    "adult": ("adult.data.gz", "age:0 school:4 hours:12 gain:10 sex=9 race=8 relationship=7 rich=14"),
    "abalone": ("abalone.data", "sex=0 length:1 diameter:2 height:3 whole:4 shucked:5 viscera:6 shell:7 rings#8"),
    "housing": ("race/housing.csv.gz", "crime:0 zone:1 industry:2 nox:4 rooms:5 age:6 far:7 tax:9 poor:12 value:13"),
    "wine": ("race/winequality-white.csv.gz", "acid:0 sugar:3 salt:4 free:5 all:6 density:7 ph:8 alcohol:10"),
    "pima": ("race/pima-indians-diabetes.csv.gz", "born#0 glucose:1 pressure:2 skin:3 bmi:5 tree:6 age:7 ill=8"),
    "magic": ("race/magic04.data.gz", "length:0 width:1 size:2 near:3 side:5 third:6 angle:8 far:9 kind=10"),
    "mammography": ("race/mammography.csv.gz", "a:0 b:1 c:2 d:3 e:4 f:5 ill=6"),
    "insurance": ("small/randhie.csv.gz", "visits#0 share:1 own=2 paid:3 most:4 limits=5 ill:6 good=7 fair=8 poor=9"),
    "fires": ("pt_forest_fires_1994_2000.csv.gz", "month:1 hour:3 cause=5 again=6 minutes:9 size=11"),
}
"""Where each lies, and its columns: numbers, counts and words, by place."""


@cache
def table(name: str) -> dict[str, Any]:
    """Return the columns of a set, without records that lack a value and without a head."""
    path, columns = data_path(_SETS[name][0]), {}
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        cells = [[cell.strip() for cell in line] for line in csv.reader(file) if len(line) > 1]
    cells = cells[name in ("magic", "insurance", "fires") :]
    for word in _SETS[name][1].split():
        mark = next(mark for mark in ":=#" if mark in word)
        column, place = word.split(mark)
        columns[column] = (mark, [line[int(place)] for line in cells])
    kept = np.array([all(one) for one in zip(*(values for _, values in columns.values()), strict=True)])
    kinds = {":": float, "#": int, "=": str}
    return {column: np.array(values)[kept].astype(kinds[mark]) for column, (mark, values) in columns.items()}


def fact(column: Any, wider: float) -> Column:
    """Return what is public of a column."""
    if column.dtype.kind == "U":
        words = tuple(sorted(set(column.tolist())))
        return Category(words)
    if column.dtype.kind == "i":
        return Count(min(int(column.max()), _MOST_COUNTED))
    low, high = float(column.min()), float(column.max())
    room = wider * (high - low)
    return Number(0.0 if 0 <= low < room else low - room, high + room)


@cache
def asked(name: str, number: int) -> tuple[Formula, Floats, Any, Floats | None]:
    """Return a formula of a set, its rows and outcomes, and its ordinary coefficients; none where they are not told."""
    rng, columns = np.random.default_rng([7, number]), table(name)
    names = list(columns)
    fitting = [one for one in names if columns[one].dtype.kind != "U" or len(set(columns[one].tolist())) == 2]
    response = fitting[rng.integers(len(fitting))]
    others = rng.permutation([one for one in names if one != response])[: rng.integers(1, 6)].tolist()
    wider = rng.choice(_WIDER)
    facts = Facts({one: fact(columns[one], wider) for one in (response, *others)})
    formula = Formula(f"{response} ~ {' + '.join(others)}", facts)
    look = formula.look(len(columns[response]))
    *some, last = as_columns(look.columns, [columns[one].tolist() for one in formula.columns])
    rows, _ = look.encoding.rows(some, len(last))
    outcome = np.minimum(last, _MOST_COUNTED) if formula.family == "poisson" else look.model.outcome(last)
    return formula, rows, outcome, ordinary(formula, rows, np.asarray(outcome, dtype=float))


def ordinary(formula: Formula, rows: Floats, y: Floats) -> Floats | None:
    """Return the coefficients of least squares, or of largest likelihood by Newton's method."""
    found = np.zeros(rows.shape[1])
    if formula.family == "poisson":
        found = np.linalg.lstsq(rows, np.log(y + 0.5), rcond=None)[0]
    for _ in range(1 if formula.family == "linear" else 60):
        t = rows @ found
        mean = {"linear": t, "poisson": np.exp(np.minimum(t, 30.0))}.get(formula.family, 1 / (1 + np.exp(-t)))
        slope = {"linear": np.ones_like(t), "poisson": mean}.get(formula.family, mean * (1 - mean))
        information = (rows.T * slope) @ rows
        step = np.linalg.lstsq(information, rows.T @ (y - mean), rcond=1e-12)[0]
        found = found + step
        if np.abs(step).max() < 1e-9:
            break
    A, b = formula.units
    ones = np.array([bool(one) for one in formula.encoding.ones])
    sure = formula.family == "logistic" and np.any(np.abs(found[ones]) > _SURE)
    return None if sure or not np.all(np.isfinite(found)) else np.asarray(A @ found + b)


def some_fits(job: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Fit one table drawn from a set."""
    name, number, n, epsilon, seed, misses = job
    formula, rows, y, truth = asked(name, number)
    if truth is None:
        return []
    formula, rng = replace(formula, misses=misses), np.random.default_rng(seed)
    drawn = rng.integers(0, len(rows), n)
    mechanism = AdaptiveLooks.calibrate(formula, n, ApproxDP(epsilon, DELTA))
    found = fit(mechanism, rows[drawn], y[drawn], rng)
    low, high = found.interval().T
    held, off = np.mean((low <= truth) & (truth <= high)), np.mean(np.minimum(np.abs(found.mean - truth) / found.sd, 9))
    return [((name, formula.family, n, epsilon), held, off)]


def write(path: Path, cells: Cells) -> None:
    """Write one line a cell: how often intervals hold, and how far off the middle of them is in standard deviations."""
    write_cells(path, _FIELDS, cells, lambda *parts: tuple(one.mean() for one in parts))


def main(quick: bool = False) -> None:
    """Regress real tables, and show how often intervals hold what an ordinary regression of everybody has."""
    some = ["--fits", "8", "--sizes", "1000"] if quick else []
    show_csv("Regressions of real tables", _FIELDS, lambda path: command(["--out", str(path), *some]))


def command(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = options(__doc__, "regression_real.csv", SIZES, 1200.0)
    parser.add_argument("--fits", type=int, default=3000)
    parser.add_argument("--misses", type=float, help="How much formulas may miss; 0 takes them to be right.")
    given = parser.parse_args(words)
    rng, names = np.random.default_rng(given.seed), list(_SETS)
    jobs = [
        (
            names[rng.integers(len(names))],
            int(rng.integers(FORMULAS)),
            int(rng.choice(given.sizes)),
            float(rng.choice(EPSILONS)),
            [given.seed, k],
            given.misses,
        )
        for k in range(given.fits)
    ]
    run(given, jobs, some_fits, write)


if __name__ == "__main__":
    command()
