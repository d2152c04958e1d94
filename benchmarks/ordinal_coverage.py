r"""Do intervals of ordinal regressions hold, and how wide are they beside those without privacy?

A response of five ordered values by proportional odds; a number, a flag and a category of three levels move it. The
oracle is the likelihood of the very records, without privacy.

    python -m benchmarks.ordinal_coverage --out ordinal.csv --tables 50
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
from scipy import optimize, special

from benchmarks.fitting import SIDE, Cells, options, run, show_csv
from sottovoce.inference.regression import AdaptiveLooks, OrdinalFormula
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.promises import ApproxDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Facts, Flag, Number

VALUES = ("none", "mild", "moderate", "severe", "worst")
FACTS = Facts(pain=Category(VALUES), age=Number(18, 100), frail=Flag(), ward=Category(("A", "B", "C")))
TRUTH = np.array([0.03, 0.7, -0.4, 0.5])
CUTS = {"usual": (-1.0, 0.3, 1.5, 3.0), "rare": (1.0, 2.0, 3.0, 4.5)}
SIZES, EPSILONS, DELTA = (3_000, 20_000), (0.3, 1.0, 3.0), 1e-6
_FIELDS = ("cuts", "n", "epsilon", "fits", "slopes", "least", "cut_shares", "width", "oracle", "worse")


@dataclass(frozen=True)
class OrdinalCell:
    """One cell of the design."""

    cuts: str
    n: int
    epsilon: float


@cache
def mechanism_of(n: int, epsilon: float) -> AdaptiveLooks:
    """Return the looks that are asked."""
    formula = OrdinalFormula("pain ~ age + frail + C(ward)", FACTS, "ordinal")
    return AdaptiveLooks.calibrate(formula, n, ApproxDP(epsilon, DELTA))


def patients(n: int, rng: np.random.Generator, cuts: str = "usual") -> dict[str, Any]:
    """Return records by proportional odds."""
    age, frail, ward = rng.normal(60, 14, n).clip(18, 100), rng.random(n) < 0.3, rng.choice(3, n, p=[0.5, 0.3, 0.2])
    t = (np.stack([age - 60, frail, ward == 1, ward == 2], axis=1)) @ TRUTH
    y = np.digitize(t + rng.logistic(size=n), CUTS[cuts])
    return {"age": age, "frail": frail, "ward": np.array(["A", "B", "C"])[ward], "pain": np.array(VALUES)[y]}


def maximum_likelihood(data: dict[str, Any]) -> tuple[Floats, Floats]:
    """Return slopes of largest likelihood, without privacy, and their standard errors: a search of its own."""
    X = np.stack([data["age"] / 100, data["frail"], data["ward"] == "B", data["ward"] == "C"], axis=1).astype(float)
    middle, y = X.mean(axis=0), np.array([VALUES.index(value) for value in data["pain"].tolist()])
    x, K = X - middle, len(VALUES) - 1
    at_cut = np.eye(K + 2)  # at the places of −∞, the cuts and ∞

    def ends(theta: Floats) -> tuple[Floats, Floats]:
        places = np.concatenate([[-np.inf], theta[:K], [np.inf]])
        t = x @ theta[K:]
        return special.expit(places[y + 1] - t), special.expit(places[y] - t)

    def loss(theta: Floats) -> tuple[float, Floats]:
        high, low = ends(theta)
        met = np.maximum(high - low, 1e-300)
        up, down = high * (1 - high) / met, low * (1 - low) / met
        by_cut = (up @ at_cut[y + 1] - down @ at_cut[y])[1:-1]
        return -float(np.log(met).sum()), -np.concatenate([by_cut, -(up - down) @ x])

    starts = special.logit([np.mean(y <= k) for k in range(K)])
    found = optimize.minimize(
        loss, np.concatenate([starts, np.zeros(4)]), jac=True, method="BFGS", options={"gtol": 0.01}
    )
    theta, step = found.x, 1e-5
    hessian = np.array([(loss(theta + step * e)[1] - loss(theta - step * e)[1]) / (2 * step) for e in np.eye(K + 4)])
    covariance = np.linalg.inv((hessian + hessian.T) / 2)[K:, K:]
    scale = np.array([100.0, 1, 1, 1])
    return theta[K:] / scale, np.sqrt(np.diag(covariance)) / scale


def one_fit(job: tuple[OrdinalCell, int]) -> list[tuple[Any, ...]]:
    """Return of each slope whether its interval held, of how many cuts, half its width and that without privacy."""
    cell, seed = job
    rng = seeded_rng(seed)
    data = patients(cell.n, rng, cell.cuts)
    ends = mechanism_of(cell.n, cell.epsilon).release(data, rng=rng).value.interval(0.95)
    slopes, cuts = ends[1:5], ends[[0, 5, 6, 7]]
    held = (slopes[:, 0] <= TRUTH) & (slopes[:, 1] >= TRUTH)
    levels = -np.array(CUTS[cell.cuts]) - 60 * TRUTH[0]
    inside = (cuts[:, 0] <= levels) & (cuts[:, 1] >= levels)
    return [(cell, held, (slopes[:, 1] - slopes[:, 0]) / 2, SIDE * maximum_likelihood(data)[1], inside)]


def write(path: Path, cells: Cells) -> None:
    """Write a line a cell."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(_FIELDS)
        for cell, fits in sorted(cells.items(), key=lambda item: (item[0].cuts, item[0].n, item[0].epsilon)):
            held, width, oracle, inside = (np.array(column) for column in zip(*fits, strict=True))
            wide, narrow = (f"{np.median(column[:, 0]):.3g}" for column in (width, oracle))
            shares = (f"{held.mean():.3f}", f"{held.mean(axis=0).min():.3f}", f"{inside.mean():.3f}")
            worse = f"{np.median(width / oracle):.3g}"
            writer.writerow((cell.cuts, cell.n, cell.epsilon, len(fits), *shares, wide, narrow, worse))


def main(quick: bool = False) -> None:
    """Show a table of how often intervals held."""
    few = ["--tables", "2", "--sizes", "3000", "--processes", "2"] if quick else []
    show_csv("Ordinal regressions", _FIELDS, lambda path: command(["--out", str(path), *few]))


def command(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = options(__doc__, "ordinal_coverage.csv", SIZES, 1200.0)
    parser.add_argument("--tables", type=int, default=50)
    parsed = parser.parse_args(words)
    cells = [OrdinalCell(*parts) for parts in itertools.product(CUTS, parsed.sizes, EPSILONS)]
    jobs = [
        (cell, 10**6 * parsed.seed + 100 * k + table) for table in range(parsed.tables) for k, cell in enumerate(cells)
    ]
    run(parsed, jobs, one_fit, write)


if __name__ == "__main__":
    command()
