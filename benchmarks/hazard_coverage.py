r"""Do intervals of hazard ratios hold, and how wide are they beside those without privacy?

Hazards are constant between the cuts that the regression has, even or falling; a number, a flag and a category of
three levels move them. The oracle is the piecewise exponential model of the very records, by Newton's method, without
privacy.

    python -m benchmarks.hazard_coverage --out hazard.csv --tables 100 --processes 2
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

from benchmarks.fitting import SIDE, Cells, options, run, show_csv
from sottovoce.inference.regression import HazardFormula, HazardLooks
from sottovoce.privacy.numbers import Floats, Mask
from sottovoce.privacy.promises import ApproxDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Facts, Flag, Number

CUTS = (30.0, 90.0, 180.0, 365.0, 730.0)
BASELINES = {"even": (1.0, 1.0, 1.0, 1.0, 1.0), "falling": (4.0, 2.0, 1.0, 0.7, 0.5)}
CENSORED = {"little": 3000.0, "much": 800.0}
SIZES, EPSILONS, DELTA = (3_000, 20_000), (0.3, 1.0, 3.0), 1e-6
TRUTH = np.array([0.03, 0.7, 0.5, -0.3])
FACTS = Facts(days=Number(0, 730), died=Flag(), age=Number(18, 100), frail=Flag(), ward=Category(("A", "B", "C")))
_FIELDS = ("baseline", "censored", "n", "epsilon", "fits", "share_died", "slopes", "least", "width", "oracle", "worse")


@dataclass(frozen=True)
class HazardCell:
    """One cell of the design."""

    baseline: str
    censored: str
    n: int
    epsilon: float


@cache
def mechanism_of(n: int, epsilon: float) -> HazardLooks:
    """Return the looks that are asked."""
    formula = HazardFormula("days ~ age + frail + C(ward)", FACTS, event="died", cuts=CUTS)
    return HazardLooks.calibrate(formula, n, ApproxDP(epsilon, DELTA))


def subjects(cell: HazardCell, rng: np.random.Generator) -> tuple[Floats, Floats, Mask]:
    """Return rows of the columns as they are, how long each subject was followed, and who had the event."""
    n = cell.n
    ward = rng.integers(3, size=n)
    X = np.stack([rng.normal(60, 12, n).clip(18, 100), rng.random(n) < 0.3, ward == 1, ward == 2], axis=1)
    growth = np.exp((X - [60, 0, 0, 0]) @ TRUTH)
    rates = np.array(BASELINES[cell.baseline]) / 900
    edges = np.array([0.0, *CUTS])
    gathered = np.concatenate([[0.0], np.cumsum(rates * np.diff(edges))])
    times = np.interp(rng.exponential(1, n) / growth, [*gathered, 1e3], [*edges, 1e6])
    ends = np.minimum(rng.uniform(0, CENSORED[cell.censored], n), 730.0)
    return X, np.minimum(times, ends), times <= ends


def newton(X: Floats, days: Floats, died: Mask, cuts: Sequence[float] = CUTS) -> tuple[Floats, Floats]:
    """Return log hazards and slopes of largest likelihood, without privacy, and their covariance."""
    starts, J = (0.0, *cuts[:-1]), len(cuts)
    lived = np.stack([np.clip(np.minimum(days, b) - a, 0, None) for a, b in zip(starts, cuts, strict=True)], axis=1)
    ended = np.stack([died & (days > a) & (days <= b) for a, b in zip(starts, cuts, strict=True)], axis=1)
    middle = X.mean(axis=0)
    x = X - middle
    theta = np.concatenate([np.log(np.maximum(ended.sum(axis=0), 0.5) / lived.sum(axis=0)), np.zeros(x.shape[1])])
    for _ in range(50):
        hazard = lived * np.exp(theta[:J] + (x @ theta[J:])[:, None])
        score = np.concatenate([(ended - hazard).sum(axis=0), x.T @ (ended - hazard).sum(axis=1)])
        cross = hazard.T @ x
        information = np.block(
            [[np.diag(hazard.sum(axis=0)), cross], [cross.T, x.T @ (hazard.sum(axis=1)[:, None] * x)]]
        )
        step = np.linalg.solve(information, score)
        theta = theta + step / max(1.0, np.abs(step).max())
        if np.abs(step).max() < 1e-10:
            break
    covariance = np.linalg.inv(information)
    theta[:J] -= middle @ theta[J:]
    return theta, covariance


def one_fit(job: tuple[HazardCell, int]) -> list[tuple[Any, ...]]:
    """Return of each slope whether its interval held, half its width and that without privacy."""
    cell, seed = job
    rng = seeded_rng(seed)
    X, days, died = subjects(cell, rng)
    mechanism = mechanism_of(cell.n, cell.epsilon)
    wards = np.array(["A", "B", "C"])[(X[:, 2] + 2 * X[:, 3]).astype(int)]
    records = {"age": X[:, 0], "frail": X[:, 1], "ward": wards.tolist(), "died": died, "days": days}
    ends = mechanism.release(records, rng=rng).value.interval(0.95)[len(CUTS) :]
    held = (ends[:, 0] <= TRUTH) & (ends[:, 1] >= TRUTH)
    oracle = SIDE * np.sqrt(np.diag(newton(X, days, died)[1]))[len(CUTS) :]
    return [(cell, held, (ends[:, 1] - ends[:, 0]) / 2, oracle, died.mean())]


def write(path: Path, cells: Cells) -> None:
    """Write a line a cell."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(_FIELDS)
        order = sorted(cells.items(), key=lambda item: (item[0].baseline, item[0].censored, item[0].n, item[0].epsilon))
        for cell, fits in order:
            held, width, oracle, died = (np.array(column) for column in zip(*fits, strict=True))
            wide, narrow = (float(np.median(column[:, 0])) for column in (width, oracle))
            shown = (f"{died.mean():.2f}", f"{held.mean():.3f}", f"{held.mean(axis=0).min():.3f}")
            worse = f"{np.median(width / oracle):.3g}"
            writer.writerow(
                (
                    cell.baseline,
                    cell.censored,
                    cell.n,
                    cell.epsilon,
                    len(fits),
                    *shown,
                    f"{wide:.3g}",
                    f"{narrow:.3g}",
                    worse,
                )
            )


def main(quick: bool = False) -> None:
    """Show a table of how often intervals held."""
    few = ["--tables", "2", "--sizes", "3000", "--processes", "2"] if quick else []
    show_csv("Hazard ratios", _FIELDS, lambda path: command(["--out", str(path), *few]))


def command(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = options(__doc__, "hazard_coverage.csv", SIZES, 1200.0)
    parser.add_argument("--tables", type=int, default=100)
    parsed = parser.parse_args(words)
    cells = [HazardCell(*parts) for parts in itertools.product(BASELINES, CENSORED, parsed.sizes, EPSILONS)]
    jobs = [
        (cell, 10**6 * parsed.seed + 100 * k + table) for table in range(parsed.tables) for k, cell in enumerate(cells)
    ]
    run(parsed, jobs, one_fit, write)


if __name__ == "__main__":
    command()
