"""Do the intervals of means hold at every level, over seven shapes of records, sizes and ε?

Laws are drawn anew for every table (`papers.verb_worlds`): of the plain shape from the default prior.

    python -m benchmarks.mean_coverage --out means.csv --tables 328 --processes 16
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from papers.verb_worlds import Cell, budget_price, question_of, world

from benchmarks.fitting import Cells, options, run, show_csv, write_cells
from sottovoce.inference.cells.noisy_cells import NoisyCells
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.service.answers.answer import Answer

SHAPES = ("plain", "normal", "skewed", "heavy", "zeros", "ends", "two hills")
SIZES, EPSILONS, LEVELS = (20, 50, 500, 5_000), (0.05, 0.5, 5.0), (0.5, 0.8, 0.95)
GROUPED, FEW = 500, 4
"""Tables of so many records are asked in so many groups too."""
_LOT = 4
"""Tables at a time."""
_FIELDS = (
    "shape",
    "n",
    "epsilon",
    "groups",
    "tables",
    *(f"{what} {at:.0%}" for at in LEVELS for what in ("held", "width")),
)


def some_means(job: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Answer several tables of one cell: how often intervals of every level hold, and how wide they are."""
    cell, seed, count = job
    rng, mechanism, found = seeded_rng(seed), _mechanism(cell), []
    for _ in range(count):
        records, truth = world(cell, rng)
        posterior, told = Answer(mechanism.release(records, rng)).posterior, []
        for level in LEVELS:
            low, high = posterior.interval(level).T
            told += [np.mean((low <= truth + 1e-9) & (truth - 1e-9 <= high)), np.mean(high - low)]
        found.append(((cell.shape, cell.n, cell.epsilon, cell.groups), *told))
    return found


@cache
def _mechanism(cell: Cell) -> NoisyCells:
    return NoisyCells.calibrate(question_of(cell), cell.n, cell.promise, price=budget_price(cell))


def write(path: Path, cells: Cells) -> None:
    """Write one line a cell."""
    write_cells(path, _FIELDS, cells, lambda *parts: tuple(one.mean() for one in parts))


def main(quick: bool = False) -> None:
    """Ask for means of every shape, and show how often their intervals hold."""
    some = ["--tables", "4", "--sizes", "50"] if quick else []
    show_csv("Means at three levels", _FIELDS, lambda path: command(["--out", str(path), *some]))


def command(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = options(__doc__, "mean_coverage.csv", SIZES, 1200.0)
    parser.add_argument("--tables", type=int, default=328)
    given = parser.parse_args(words)
    cells = [Cell("mean", n, e, 1, shape) for shape, n, e in itertools.product(SHAPES, given.sizes, EPSILONS)]
    if GROUPED in given.sizes:
        cells += [Cell("mean", GROUPED, e, FEW, shape) for shape, e in itertools.product(SHAPES, EPSILONS[1:])]
    lots = range(-(-given.tables // _LOT))
    jobs = [(cell, 10**6 * given.seed + 1000 * lot + k, _LOT) for lot in lots for k, cell in enumerate(cells)]
    run(given, jobs, some_means, write)


if __name__ == "__main__":
    command()
