r"""Do intervals of rates hold where records are watched for unequal times, and how wide are they beside no privacy?

Counts follow Poisson's law with rates of two columns, times an exposure: log-normal, evenly spread, or one of two far
apart. The oracle is the Poisson regression with an offset of the very records, without privacy.

    python -m benchmarks.exposure_coverage --out exposure.csv --tables 300 --processes 16
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fitting import SIDE, Cells, fit, options, run, show_csv
from sottovoce.inference.regression import AdaptiveLooks, Formula
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.promises import ApproxDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Count, Facts, Number

LAWS, SIZES, EPSILONS, DELTA = ("log-normal", "even", "two apart"), (3_000, 20_000), (0.3, 1.0, 3.0), 1e-6
TRUTH = np.array([-5.0, 0.02, 0.5])
FACTS = Facts(visits=Count(60), age=Number(18, 90), ward=Category(("A", "B")), days=Number(1, 365))
_FIELDS = ("law", "n", "epsilon", "fits", "intercept", "slopes", "width", "oracle", "worse")


@dataclass(frozen=True)
class ExposureCell:
    """One cell of the design."""

    law: str
    n: int
    epsilon: float


def exposures(law: str, n: int, rng: np.random.Generator) -> Floats:
    """Return the days that each record was watched."""
    if law == "log-normal":
        return np.asarray(np.exp(rng.normal(3.5, 1.0, n)).clip(1, 365))
    if law == "even":
        return np.asarray(rng.uniform(1, 365, n))
    return np.where(rng.random(n) < 0.5, 14.0, 365.0)


@cache
def mechanism_of(n: int, epsilon: float) -> AdaptiveLooks:
    """Return the looks that are asked."""
    formula = Formula("visits ~ age + C(ward)", FACTS, exposure="days")
    return AdaptiveLooks.calibrate(formula, n, ApproxDP(epsilon, DELTA))


def one_fit(job: tuple[ExposureCell, int]) -> list[tuple[Any, ...]]:
    """Return of each term whether its interval held, half its width and that without privacy."""
    cell, seed = job
    rng, n = seeded_rng(seed), cell.n
    age, ward, days = rng.normal(50, 12, n).clip(18, 90), rng.integers(2, size=n), exposures(cell.law, cell.n, rng)
    x = np.stack([np.ones(n), age, ward], axis=1)
    mean = days * np.exp(x @ TRUTH)
    y = rng.poisson(mean).astype(np.float64)
    mechanism = mechanism_of(n, cell.epsilon)
    values = {"age": age, "ward": ward, mechanism.system.log_exposure: np.log(days)}
    rows, _ = mechanism.system.encoding.rows([values[name] for name in mechanism.system.encoding.names])
    ends = fit(mechanism, rows, y, rng).interval(0.95)[:3]
    held = (ends[:, 0] <= TRUTH) & (ends[:, 1] >= TRUTH)
    oracle = SIDE * np.sqrt(np.diag(np.linalg.inv(x.T @ (x * mean[:, None]))))
    return [(cell, held, (ends[:, 1] - ends[:, 0]) / 2, oracle)]


def write(path: Path, cells: Cells) -> None:
    """Write a line a cell."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(_FIELDS)
        for cell, found in sorted(cells.items(), key=lambda item: (item[0].law, item[0].n, item[0].epsilon)):
            held, width, oracle = (np.array(part) for part in zip(*found, strict=True))
            wide, narrow = (np.median(part[:, 1]) for part in (width, oracle))
            shown = (f"{held[:, 0].mean():.3f}", f"{held[:, 1:].mean():.3f}", f"{wide:.3g}", f"{narrow:.3g}")
            writer.writerow((cell.law, cell.n, cell.epsilon, len(found), *shown, f"{wide / narrow:.3g}"))


def main(quick: bool = False) -> None:
    """Show a table of how often intervals held."""
    some = ["--tables", "2", "--sizes", "3000", "--processes", "2"] if quick else []
    show_csv("Rates per exposure", _FIELDS, lambda path: command(["--out", str(path), *some]))


def command(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = options(__doc__, "exposure_coverage.csv", SIZES, 1200.0)
    parser.add_argument("--tables", type=int, default=300)
    given = parser.parse_args(words)
    cells = [ExposureCell(*parts) for parts in itertools.product(LAWS, given.sizes, EPSILONS)]
    jobs = [
        (cell, 10**6 * given.seed + 100 * k + table) for table in range(given.tables) for k, cell in enumerate(cells)
    ]
    run(given, jobs, one_fit, write)


if __name__ == "__main__":
    command()
