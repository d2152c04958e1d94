"""All looks of a regression in one likelihood beside the last look alone: width and coverage on the same releases.

Cells are made-up tables (`regressions`), counts whose rates follow eleven laws, and linear regressions whose residuals
follow ten; `wide` has the latter in bounds fifty of their deviations away.

python -m benchmarks.sharpness.joint --cells large,counts,residuals --repeats 40
"""

from __future__ import annotations

import argparse
import itertools
import math
import multiprocessing
import time
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import regression_counts
from benchmarks.fitting import DELTA, released
from benchmarks.regression_coverage import design
from benchmarks.sharpness import regressions
from benchmarks.sharpness.store import data_rng, noise_rng
from benchmarks.timing import show
from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks
from sottovoce.inference.regression.formula import Formula
from sottovoce.mechanisms.single_threaded import one_thread
from sottovoce.privacy.promises import ApproxDP
from sottovoce.records.facts import Facts, Number

__all__ = ["cells", "compare", "main"]

Array = npt.NDArray[Any]
Cell = tuple[str, str, int, float, int]
"""Family, law, n, ε and d; d is 0 where the table is not one of `regressions`."""

RATES: dict[str, Callable[[Any, int], Array]] = regression_counts.LAWS | {
    "inverse Gaussian, variance 2": lambda rng, n: rng.wald(1.0, 0.5, n),
    "Weibull, shape 1/2": lambda rng, n: rng.weibull(0.5, n) / 2,
    "none or gamma": lambda rng, n: (rng.random(n) < 0.4) * rng.gamma(2.0, 0.5, n) / 0.4,
}
_SPREAD, _WIDE = 0.1, 0.02
"""The residuals' deviation, in half widths of the response's bounds; and where those are wide."""


def _log_normal(rng: Any, n: int, sd: float) -> Array:
    scale = math.sqrt(math.expm1(sd * sd) * math.exp(sd * sd))
    return np.asarray((np.exp(sd * rng.standard_normal(n)) - math.exp(sd * sd / 2)) / scale)


RESIDUALS: dict[str, Callable[[Any, int], Array]] = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "t5": lambda rng, n: rng.standard_t(5, n) / math.sqrt(5 / 3),
    "t3": lambda rng, n: rng.standard_t(3, n) / math.sqrt(3),
    "bimodal": lambda rng, n: (rng.choice([-1, 1], n) + 0.4 * rng.standard_normal(n)) / math.sqrt(1.16),
    "log-normal": lambda rng, n: _log_normal(rng, n, 1.0),
    "log-normal, 1.5": lambda rng, n: _log_normal(rng, n, 1.5),
    "log-normal, .6": lambda rng, n: _log_normal(rng, n, 0.6),
    "log-normal, downwards": lambda rng, n: -_log_normal(rng, n, 1.0),
    "exponential": lambda rng, n: rng.exponential(size=n) - 1,
    "gamma, shape .3": lambda rng, n: (rng.gamma(0.3, size=n) - 0.3) / math.sqrt(0.3),
}
"""Laws of residuals, each of mean 0 and variance 1."""


def cells(groups: Sequence[str]) -> list[Cell]:
    """Return the cells of several groups."""
    large = ("skewed", "exponential", "heavy tails", "bent formula")
    families = ("logistic", "linear", "poisson")
    each: dict[str, list[Cell]] = {
        "grid": [
            (family, "normal", n, epsilon, d)
            for family, n, epsilon, d in itertools.product(families, (3_000, 20_000), (0.3, 1.0, 3.0), (3, 10))
        ],
        "large": [("logistic", law, 200_000, 1.0, d) for law, d in itertools.product(large, (3, 10))],
        "counts": [
            ("poisson", law, n, epsilon, 0)
            for law in RATES
            for n, epsilon in ((6_000, 0.3), (20_000, 1.0), (20_000, 3.0), (200_000, 1.0))
        ],
        "residuals": [("linear", law, n, 1.0, 0) for law, n in itertools.product(RESIDUALS, (3_000, 20_000, 200_000))],
        "wide": [
            ("linear", f"{law}, wide bounds", n, epsilon, 0)
            for law in RESIDUALS
            for n, epsilon in ((3_000, 1.0), (20_000, 3.0), (200_000, 1.0))
        ],
    }
    return [cell for group in groups for cell in each[group]]


@cache
def _mechanism(family: str, n: int, epsilon: float) -> AdaptiveLooks:
    facts = Facts({name: Number(-6, 6) for name in "abc"} | {"y": Number(-1, 1)})
    linear = family == "linear"
    formula = Formula("y ~ a + b + c", facts, "linear") if linear else regression_counts.asked()
    return AdaptiveLooks.calibrate(formula, n, ApproxDP(epsilon, DELTA))


def _table(cell: Cell, k: int) -> tuple[AdaptiveLooks, Array, Array, Array, Array]:
    """Return a mechanism, rows and responses, the truth and what widths are told beside: the intercept's first."""
    family, law, n, epsilon, d = cell
    if d:
        mechanism, rows, y, truth, best = regressions.table(_name(cell), family, law, n, epsilon, d, k)
        return mechanism, rows, y, np.concatenate([[math.nan], truth]), np.concatenate([[math.nan], best])
    rng = data_rng(_name(cell), k)
    x = design(n, 4, "light", rng)
    if family == "linear":
        truth = np.array([-0.2, *rng.normal(0, 0.05, 3)])
        usual = law.removesuffix(", wide bounds")
        size = _SPREAD if usual == law else _WIDE
        truth[1:] *= size / _SPREAD
        y = np.clip(truth[0] + x @ truth[1:] + size * RESIDUALS[usual](rng, n), -1, 1)
    else:
        truth = np.array([-0.8, *rng.normal(0, 0.3, 3)])
        rates = np.exp(truth[0] + x @ truth[1:]) * RATES[law](rng, n)
        y = np.minimum(rng.poisson(rates), regression_counts.HIGH).astype(float)
    rows = np.column_stack([np.ones(n), x / 6.0])
    return _mechanism(family, n, epsilon), rows, y, truth, np.full(4, math.nan)


def _name(cell: Cell) -> str:
    family, law, n, epsilon, d = cell
    return f"{family}, {law}, n = {n:,}, ε = {epsilon:g}" + (f", d = {d}" if d else "")


def compare(job: tuple[Cell, int]) -> tuple[Cell, Array, Array, float]:
    """Return of each term, by the last look and by all, whether its interval holds the truth, its width and that beside
    the oracle's; and the seconds that took.
    """
    cell, k = job
    warnings.simplefilter("ignore")
    mechanism, rows, y, truth, best = _table(cell, k)
    path = mechanism.walk(released(mechanism, rows, y, noise_rng(_name(cell), k)))
    (last,) = mechanism.conclude_last([path])
    started = time.process_time()
    with one_thread():
        joint = mechanism.conclude_jointly(path) or last
    seconds = time.process_time() - started
    low, high = np.array([posterior.interval().T for posterior in (last, joint)]).transpose(1, 0, 2)
    held = np.where(np.isnan(truth), math.nan, (low <= truth) & (truth <= high))
    return cell, np.array([held, high - low]), (high - low) / best, seconds


def _line(cell: Cell, results: Sequence[tuple[Array, Array, float]]) -> list[str]:
    """Return one line: coverage of the intercept and of slopes, and widths, of the last look and of all."""
    held, width = np.array([found for found, _, _ in results]).transpose(1, 0, 2, 3)
    ratio = np.log(width[:, 1] / width[:, 0]).mean(axis=0)
    beside = np.array([found[:, 1:] for _, found, _ in results])
    figures = []
    for way in (0, 1):
        level, slopes = held[:, way, 0].mean(), held[:, way, 1:].mean()
        oracle = [math.exp(np.log(beside[:, way]).mean()), beside[:, way].max()]
        figures += ["" if math.isnan(level) else f"{level:.3f}", f"{slopes:.3f}"]
        figures += ["" if math.isnan(value) else f"{value:.3g}" for value in oracle]
    seconds = np.median([item for *_, item in results])
    ratios = [f"{math.exp(ratio[0]):.2f}", f"{math.exp(ratio[1:].mean()):.2f}"]
    return [_name(cell), str(len(results)), *figures, *ratios, f"{seconds:.2f}"]


def main(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", default="grid,large,counts,residuals,wide")
    parser.add_argument("--only", default="", help="cells whose name has this in it")
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin nothing after so many")
    given = parser.parse_args(words)
    asked = [cell for cell in cells(given.cells.split(",")) if given.only in _name(cell)]
    results: dict[Cell, list[tuple[Array, Array, float]]] = {cell: [] for cell in asked}
    started = time.time()
    with multiprocessing.Pool(given.processes) as pool:
        for cell, *found in pool.imap_unordered(compare, [(cell, k) for k in range(given.repeats) for cell in asked]):
            results[cell].append(tuple(found))  # type: ignore[arg-type]
            if time.time() - started > given.seconds:
                break
    lines = [_line(cell, found) for cell, found in results.items() if found]
    head = ["cell", "repeats"]
    each = ("level", "slopes", "width/oracle", "worst")
    head += [f"{kind}: {word}" for kind in ("last look", "all looks") for word in each]
    for line in lines:
        print(" | ".join(line), flush=True)
    show("One likelihood over all looks", [*head, "all/last: level", "slopes", "s"], lines)


if __name__ == "__main__":
    main()
