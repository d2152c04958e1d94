"""Do the intervals of a private regression of counts hold where counts vary more than a Poisson law's?

Counts of mean e^t are made by rates that vary between records of the same t; fits are made as in
`benchmarks.regression_coverage`.

    python -m benchmarks.regression_counts --out counts.csv --fits 150 --processes 16
"""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fitting import DELTA, SIDE, Cells, fit, options, run, show_csv
from benchmarks.regression_coverage import design
from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks
from sottovoce.inference.regression.formula import Formula
from sottovoce.privacy.promises import ApproxDP
from sottovoce.records.facts import Count, Facts, Number

LAWS: dict[str, Callable[[Any, int], Any]] = {
    "poisson": lambda rng, n: np.ones(n),
    "gamma, variance 1/3": lambda rng, n: rng.gamma(3.0, 1 / 3, n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "lognormal, variance 1": lambda rng, n: np.exp(rng.normal(-math.log(2) / 2, math.sqrt(math.log(2)), n)),
    "none or twice": lambda rng, n: 2.0 * (rng.random(n) < 0.5),
    "lognormal, variance 4": lambda rng, n: np.exp(rng.normal(-math.log(5) / 2, math.sqrt(math.log(5)), n)),
    "none or four times": lambda rng, n: 4.0 * (rng.random(n) < 0.25),
    "one in fifty twenty times": lambda rng, n: np.where(rng.random(n) < 0.02, 20.0, 0.6 / 0.98),
}
"""Laws of the rates, each of mean 1."""
SIZES, EPSILONS = (6_000, 20_000, 200_000), (0.3, 1.0, 3.0)
HIGH = 60
_FIELDS = ("law", "n", "epsilon", "fits", "slopes", "error", "intercept", "cut", "width")


def asked() -> Formula:
    names = ("a", "b", "c")
    return Formula("y ~ a + b + c", Facts({name: Number(-6, 6) for name in names} | {"y": Count(HIGH)}), "poisson")


def some_fits(job: tuple[str, int, int, list[int]]) -> list[tuple[Any, ...]]:
    """Fit counts of one law and size at every ε, several times."""
    law, n, count, seed = job
    rng = np.random.default_rng(seed)
    question = asked()
    mechanisms = {epsilon: AdaptiveLooks.calibrate(question, n, ApproxDP(epsilon, DELTA)) for epsilon in EPSILONS}
    found = []
    for _ in range(count):
        x = design(n, 4, "light", rng)
        truth = np.array([-0.8, *rng.normal(0, 0.3, 3)])
        mean = np.exp(truth[0] + x @ truth[1:])
        y = np.minimum(rng.poisson(mean * LAWS[law](rng, n)), HIGH).astype(float)
        encoded = np.column_stack([np.ones(n), x / 6.0])
        for epsilon, mechanism in mechanisms.items():
            posterior = fit(mechanism, encoded, y, rng)
            low, high = posterior.interval().T
            held = (low <= truth) & (truth <= high)
            cut = HIGH if posterior.cut is None else posterior.cut
            found.append(((law, n, epsilon), held, cut, float(np.median(high[1:] - low[1:])) / (2 * SIDE)))
    return found


def write(path: Path, cells: Cells) -> list[list[str]]:
    """Write one line a cell: how often slopes and the intercept hold, where counts were cut, and the median sd."""
    rows = []
    for key in itertools.product(LAWS, SIZES, EPSILONS):
        if key not in cells:
            continue
        held, cuts, widths = (np.array(part, dtype=float) for part in zip(*cells[key], strict=True))
        each = held[:, 1:].mean(axis=1)
        numbers = (each.mean(), each.std() / math.sqrt(len(each)), held[:, 0].mean(), np.median(cuts))
        shown = [*(f"{number:.4f}" for number in numbers[:3]), f"{numbers[3]:g}", f"{np.median(widths):.5f}"]
        rows.append([*map(str, key), str(len(each)), *shown])
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(_FIELDS)
        writer.writerows(rows)
    return rows


def main(quick: bool = False) -> None:
    """Fit counts of every law, and show how often their intervals hold."""
    some = ["--fits", "2", "--sizes", "6000"] if quick else []
    show_csv("Counts that vary more than Poisson's", _FIELDS, lambda path: command(["--out", str(path), *some]))


def command(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = options(__doc__, "regression_counts.csv", SIZES, 600.0)
    parser.add_argument("--fits", type=int, default=150)
    parser.add_argument("--laws", default=";".join(LAWS))
    given = parser.parse_args(words)
    kinds = list(itertools.product(sorted(given.sizes, reverse=True), given.laws.split(";")))
    lots = range(-(-given.fits // 2))
    jobs = [(law, n, 2, [given.seed, lot, number]) for lot in lots for number, (n, law) in enumerate(kinds)]
    run(given, jobs, some_fits, write)


if __name__ == "__main__":
    command()
