"""Choose how looks are allotted: widths beside the oracle's, averaged over made-up tables that are reported nowhere.

    python -m benchmarks.sharpness.allotment --family linear --tables 40
    python -m benchmarks.sharpness.allotment --family linear --settings "as it is" "last score .85"

Tables: n from 2,000 to 60,000 and ε from .3 to 3 (both even in their logarithms), 2 to 8 columns. A column's mean is
even between ∓.4 of its half range, its deviation between .1 and .45; it is normal, even, gamma of shape 2 or t₅ along a
normal law in which a common factor has three tenths of the variance. Slopes move the linear predictor by one residual
deviation in all (of logistic ones by one). The formula misses what it is taken to miss before anything is seen: τ is
log-normal, and τ(e² − 1)/√2 of the first column is added. Residuals are normal, t₄, log-normal with κ = .6, or normal
with a deviation that grows with the first column. Truth: the ordinary coefficients of the population.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from benchmarks.fitting import fit
from benchmarks.sharpness import oracle
from benchmarks.sharpness.regressions import ordinary
from benchmarks.timing import show
from sottovoce.inference.regression import adaptive_newton, budget_allocation
from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks
from sottovoce.inference.regression.budget_allocation import Step
from sottovoce.inference.regression.formula import Formula
from sottovoce.privacy.promises import ApproxDP
from sottovoce.records.facts import Count, Facts, Flag, Number

Array = npt.NDArray[Any]
_DELTA, _SEED, _STANDING, _HIGH = 1e-6, 77, 20_000, 60
_MISSES = 0.15


def _shares(*shares: float) -> tuple[Step, ...]:
    """Return the steps of a linear regression with other shares."""
    return tuple((share, parts) for share, (_, parts) in zip(shares, budget_allocation._STRAIGHT, strict=True))


def _bending(*shares: float) -> tuple[Step, ...]:
    return tuple((share, parts) for share, (_, parts) in zip(shares, budget_allocation._BENDS, strict=True))


_LAST = {"score": 0.85, "information": 0.1, "meat": 0.05}
"""Of a linear regression's last look more for the score."""
SETTINGS: dict[str, dict[str, Any]] = {
    "as it is": {},
    **{f"cut from {far}": {"_FAR": far} for far in (3.0, 2.5, 2.0, 1.5)},
    "shares .15, .15, .3, .4": {"_STRAIGHT": _shares(0.15, 0.15, 0.3, 0.4)},
    "shares .1, .1, .1, .7": {"_STRAIGHT": _shares(0.1, 0.1, 0.1, 0.7)},
    "shares .05, .08, .12, .75": {"_STRAIGHT": _shares(0.05, 0.08, 0.12, 0.75)},
    "last score .85": {"_STRAIGHT": (*budget_allocation._STRAIGHT[:3], (0.58, _LAST))},
    "shares .25, .25, .5": {"_BENDS": _bending(0.25, 0.25, 0.5)},
    "shares .1, .2, .7": {"_BENDS": _bending(0.1, 0.2, 0.7)},
}
"""Named settings: what they put in place of constants of `adaptive_newton` and `budget_allocation`."""


class _Table:
    """The k-th made-up table, and the truth and the oracle's widths of its slopes."""

    def __init__(self, family: str, k: int) -> None:
        rng = np.random.default_rng([_SEED, k])
        self.family, self.k = family, k
        self.n = round(math.exp(rng.uniform(math.log(2_000), math.log(60_000))))
        self.epsilon, self.d = math.exp(rng.uniform(math.log(0.3), math.log(3.0))), int(rng.integers(2, 9))
        self.mean, self.spread = rng.uniform(-0.4, 0.4, self.d), rng.uniform(0.1, 0.45, self.d)
        self.laws = rng.integers(0, 4, self.d)
        self.slopes = rng.standard_normal(self.d) / (math.sqrt(self.d) * self.spread)
        self.level = rng.uniform(-1.0, 1.0)
        self.bend = _MISSES * math.exp(rng.standard_normal() - 1) / math.sqrt(2)
        self.size, self.residuals = math.exp(rng.uniform(math.log(0.05), math.log(0.3))), int(rng.integers(0, 4))
        rows, e = self.rows(_STANDING, np.random.default_rng([_SEED, k, 1]))
        mean = self.expected(rows, e)
        theta = ordinary(family, rows, mean)
        at = rows @ theta
        fitted, slope = at, np.ones_like(at)
        if family == "logistic":
            fitted = special.expit(at)
            slope = fitted * (1 - fitted)
        elif family == "poisson":
            fitted = slope = np.exp(at)
        y = self.responses(mean, e, np.random.default_rng([_SEED, k, 2]))
        logistic = family == "logistic"
        population = oracle.given(rows, slope, y - fitted, 1.0 if logistic else None, not logistic)
        best, plain = oracle.coefficients(population, self.n, oracle.rho_of(self.epsilon, _DELTA))
        self.truth, self.best, self.plain = theta[1:], best[1:], plain[1:]

    def rows(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Return encoded rows, and what the first column has in its own deviations."""
        e = math.sqrt(0.7) * rng.standard_normal((n, self.d)) + math.sqrt(0.3) * rng.standard_normal((n, 1))
        p = special.ndtr(e).clip(1e-9, 1 - 1e-9)
        laws = [
            e,
            math.sqrt(12) * (p - 0.5),
            (special.gammaincinv(2, p) - 2) / math.sqrt(2),
            stats.t.ppf(p, 5) / math.sqrt(5 / 3),
        ]
        unit = np.stack([laws[law][:, j] for j, law in enumerate(self.laws)], axis=1)
        values = np.clip(self.mean + self.spread * unit, -1, 1)
        return np.column_stack([np.ones(n), values]), unit[:, 0]

    def expected(self, rows: Array, e: Array) -> Array:
        """Return the mean of the response."""
        t = self.level + (rows[:, 1:] - self.mean) @ self.slopes
        if self.family == "linear":
            return np.asarray(0.2 * self.level + self.size * (t - self.level + self.bend * (e * e - 1)))
        if self.family == "poisson":
            return np.exp(np.clip(0.4 * t + 0.5 * self.bend * (np.minimum(e * e, 9) - 1), -6, 4))
        return special.expit(t + 2 * self.bend * (np.minimum(e * e, 9) - 1))

    def responses(self, mean: Array, e: Array, rng: np.random.Generator) -> Array:
        """Return responses of these means."""
        n = len(mean)
        if self.family == "logistic":
            return (rng.random(n) < mean) * 1.0
        if self.family == "poisson":
            return np.minimum(rng.poisson(mean), _HIGH) * 1.0
        z, k = rng.standard_normal(n), 0.6
        skewed = (np.exp(k * z) - math.exp(k * k / 2)) / math.sqrt(math.expm1(k * k) * math.exp(k * k))
        grows = np.exp(0.25 * np.clip(e, -3, 3))
        noise = [z, rng.standard_t(4, n) / math.sqrt(2), skewed, z * grows / 1.06]
        return np.clip(mean + self.size * noise[self.residuals], -1, 1)

    def answer(self) -> tuple[Array, Array]:
        """Return whether the slopes are held, and the logarithms of their widths beside the oracle's."""
        rng = np.random.default_rng([_SEED, self.k, 3])
        rows, e = self.rows(self.n, rng)
        y = self.responses(self.expected(rows, e), e, rng)
        response = {"logistic": Flag(), "linear": Number(-1, 1), "poisson": Count(_HIGH)}[self.family]
        names = [f"x{j}" for j in range(self.d)]
        facts = Facts({name: Number(-1, 1) for name in names} | {"y": response})
        formula = Formula(f"y ~ {' + '.join(names)}", facts, self.family)
        mechanism = AdaptiveLooks.calibrate(formula, self.n, ApproxDP(self.epsilon, _DELTA))
        low, high = np.asarray(fit(mechanism, rows, y, rng).interval(0.95)).T[:, 1:]
        return (low <= self.truth) & (self.truth <= high), np.log((high - low) / self.best)


def _put(setting: dict[str, Any]) -> list[Any]:
    """Return what puts a setting in place."""
    modules = (adaptive_newton, budget_allocation)
    return [
        mock.patch.object(module, name, value)
        for name, value in setting.items()
        for module in modules
        if hasattr(module, name)
    ]


def measure(family: str, names: Sequence[str], tables: int, seconds: float) -> list[list[str]]:
    """Return a line for each setting: tables, how often slopes are held, and widths beside the oracle's."""
    held: dict[str, list[Array]] = {name: [] for name in names}
    logs: dict[str, list[Array]] = {name: [] for name in names}
    started = time.time()
    warnings.simplefilter("ignore")
    for k in range(tables):
        if time.time() - started > seconds:
            break
        table = _Table(family, k)
        for name in names:
            patches = _put(SETTINGS[name])
            for patch in patches:
                patch.start()
            try:
                inside, width = table.answer()
            finally:
                for patch in patches:
                    patch.stop()
            held[name].append(inside)
            logs[name].append(width)
        print(k, table.n, round(table.epsilon, 2), table.d, table.residuals, round(table.bend, 3), end=" ")
        print(*(f"{math.exp(logs[name][-1].mean()):.2f} {held[name][-1].mean():.2f};" for name in names), flush=True)
    lines = []
    for name in names:
        if not logs[name]:
            continue
        each = np.array([part.mean() for part in logs[name]])
        every = np.concatenate(logs[name])
        lines.append(
            [
                name,
                str(len(each)),
                f"{np.concatenate(held[name]).mean():.3f}",
                f"{math.exp(each.mean()):.3f}",
                f"{math.exp(np.median(every)):.3f}",
                f"{math.exp(np.quantile(every, 0.95)):.3g}",
            ]
        )
    return lines


def main(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", choices=("linear", "logistic", "poisson"), default="linear")
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--tables", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=600.0)
    asked = parser.parse_args(words)
    head = ["setting", "tables", "held", "width / oracle (geometric mean)", "median", "95 %"]
    show(
        f"Allotment of looks: {asked.family}", head, measure(asked.family, asked.settings, asked.tables, asked.seconds)
    )


if __name__ == "__main__":
    main()
