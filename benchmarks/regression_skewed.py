"""Do the intervals of a private regression hold beside a skewed column, and what is predicted far out in its tail?

python -m benchmarks.regression_skewed --out skewed.csv --fits 200 --processes 16
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

from benchmarks.fitting import DELTA, Cells, fit, options, run, show_csv, write_cells
from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks
from sottovoce.inference.regression.formula import Formula
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.promises import ApproxDP
from sottovoce.records.facts import Count, Facts, Flag, Number

LAWS: dict[str, Callable[[Any, int], Any]] = {
    "lognormal": lambda rng, n: np.exp(rng.normal(-0.5, 1.0, n)),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "gamma, shape 2": lambda rng, n: rng.gamma(2.0, 0.5, n),
    "gamma, shape 1/2": lambda rng, n: rng.gamma(0.5, 2.0, n),
    "one in twenty far out": lambda rng, n: np.where(rng.random(n) < 0.05, rng.normal(5, 1, n), rng.normal(1, 0.5, n)),
    "normal": lambda rng, n: rng.normal(3, 1, n),
    "uniform": lambda rng, n: rng.uniform(0, math.sqrt(12), n),
}
SIZES, EPSILONS, FAMILIES = (2_000, 20_000), (1.0, 3.0), ("poisson", "logistic")
HIGH, WIDE = 30, 20.0
"""The bounds of counts, and of the column, which is not negative."""
PLACES = (0.5, 0.9, 0.99)
"""The quantiles of the column at which a response is predicted."""
_FIELDS = ("law", "family", "n", "epsilon", "fits", "slope", "others", "predicted", "width")


def some_fits(job: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Fit several tables with one law of the column x, beside a normal column and a flag, at every ε."""
    law, family, n, seed, count = job
    facts = Facts(x=Number(0, WIDE), w=Number(-6, 6), f=Flag(), y=Count(HIGH) if family == "poisson" else Flag())
    asked = Formula("y ~ x + w + f", facts, family)
    mechanisms = {epsilon: AdaptiveLooks.calibrate(asked, n, ApproxDP(epsilon, DELTA)) for epsilon in EPSILONS}
    rng, found = np.random.default_rng(seed), []
    for _ in range(count):
        columns = {"x": LAWS[law](rng, n).clip(0, WIDE), "w": rng.standard_normal(n).clip(-6, 6)}
        columns["f"] = (rng.random(n) < 0.3).astype(float)
        slopes = dict(zip("xwf", (rng.choice([-1, 1]) * rng.uniform(0.15, 0.5), *rng.normal(0, 0.3, 2)), strict=True))
        t = sum(slopes[name] * columns[name] for name in "xwf")
        start = -0.5 - float(np.mean(t))
        counts = np.minimum(rng.poisson(np.exp(np.minimum(start + t, 20.0))), HIGH)
        y = counts if family == "poisson" else rng.random(n) < special.expit(start + t)
        rows, _ = asked.encoding.rows([columns[name] for name in asked.encoding.names], n)
        truth = np.array([slopes.get(term, start) for term in asked.terms])
        for epsilon, mechanism in mechanisms.items():
            posterior = fit(mechanism, rows, np.asarray(y, dtype=float), rng)
            low, high = posterior.interval().T
            held = dict(zip(asked.terms, (low <= truth) & (truth <= high), strict=True))
            told = []
            for place in PLACES:
                record = {"Intercept": 1.0, "x": float(np.quantile(columns["x"], place)), "w": 0.5, "f": 1.0}
                row = np.array([record[term] for term in asked.terms])
                _, _, least, most = posterior.combined(row)
                told.append(least <= row @ truth <= most)
            others = np.mean([one for term, one in held.items() if term != "x"])
            width = float(posterior.sd[asked.terms.index("x")])
            found.append(((law, family, n, epsilon), held["x"], others, np.mean(told), width))
    return found


def write(path: Path, cells: Cells) -> None:
    """Write one line a cell: how often intervals hold of x, of all else and of what is predicted; and x's sd."""
    write_cells(path, _FIELDS, cells, lambda *parts: (*(one.mean() for one in parts[:-1]), _middle(parts[-1])))


def _middle(widths: Floats) -> float:
    return math.exp(np.log(widths).mean())


def main(quick: bool = False) -> None:
    """Fit regressions beside columns of every law, and show how often their intervals hold."""
    some = ["--fits", "2", "--sizes", "2000"] if quick else []
    show_csv("Regressions beside a skewed column", _FIELDS, lambda path: command(["--out", str(path), *some]))


def command(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = options(__doc__, "regression_skewed.csv", SIZES, 1200.0)
    parser.add_argument("--fits", type=int, default=200)
    given = parser.parse_args(words)
    lots = range(-(-given.fits // 2))
    kinds = list(enumerate(itertools.product(given.sizes, LAWS, FAMILIES)))
    jobs = [(law, family, n, [given.seed, lot, k], 2) for lot in lots for k, (n, law, family) in kinds]
    run(given, jobs, some_fits, write)


if __name__ == "__main__":
    command()
