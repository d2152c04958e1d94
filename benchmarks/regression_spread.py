"""Do the intervals of linear regressions hold where residuals spread over much of the bounds, alone and beside groups?

The truth is the line through the means of responses cut to their bounds; the middle of all responses lies up to a fifth
of the bounds from theirs.

    python -m benchmarks.regression_spread --out spread.csv --fits 100 --processes 16
    python -m benchmarks.regression_spread --out long.csv --long --sizes 2000,20000,200000

The second command has residuals with long tails to one side.
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
from sottovoce.records.facts import Category, Facts, Number

LAWS: dict[str, Callable[[Any], Any]] = {
    "normal": special.ndtri,
    "uniform": lambda p: np.sqrt(12) * (p - 0.5),
    "skewed (gamma, shape 2)": lambda p: (special.gammaincinv(2.0, p) - 2) / np.sqrt(2),
    "heavy (t, 3 degrees)": lambda p: special.stdtrit(3.0, p) / np.sqrt(3),
}
"""Inverse distribution functions of residuals of variance 1."""


def _log_normal(sigma: float) -> Callable[[Any], Any]:
    mean, sd = math.exp(sigma**2 / 2), math.exp(sigma**2 / 2) * math.sqrt(math.expm1(sigma**2))
    return lambda p: (np.exp(sigma * special.ndtri(p)) - mean) / sd


LONG: dict[str, Callable[[Any], Any]] = {
    "log-normal, 1": _log_normal(1.0),
    "log-normal, 1.5": _log_normal(1.5),
    "Pareto, 2.5": lambda p: ((1 - p) ** -0.4 - 5 / 3) / math.sqrt(20 / 9),
}
"""The same of long tails to one side."""
GROUPS, SIZES, EPSILONS = (0, 3, 6, 30), (2_000, 20_000, 50_000), (0.5, 5.0)
SPREADS = (0.05, 0.1, 0.18, 0.25, 0.32, 0.4)
"""The standard deviation of residuals, as a part of the bounds."""
LOW, HIGH, SLOPE = 60.0, 250.0, 0.3
EFFECTS = (2.0, 6.0, 15.0)
"""How far groups spread: in each table one of these."""
_PLACES, _MANY = ((np.arange(size) + 0.5) / size for size in (400, 20_000))
_AGES = np.clip(50 + 15 * special.ndtri(_PLACES), 0, 110)
_FIELDS = ("law", "groups", "n", "epsilon", "spread", "fits", "slope", "differences", "levels", "effects", "width")


def some_fits(job: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Fit several tables of one law, number of groups, size and spread at every ε."""
    law, groups, n, spread, seed, count = job
    wards = tuple(f"w{k}" for k in range(groups))
    facts: dict[str, Any] = {"y": Number(LOW, HIGH), "age": Number(0, 110)}
    facts |= {"ward": Category(wards)} if groups else {}
    asked = Formula("y ~ age + (1 | ward)" if groups else "y ~ age", Facts(facts))
    mechanisms = {epsilon: AdaptiveLooks.calibrate(asked, n, ApproxDP(epsilon, DELTA)) for epsilon in EPSILONS}
    rng, found = np.random.default_rng(seed), []
    for _ in range(count):
        table, y, truth = imagined(law, groups, n, spread * (HIGH - LOW), rng)
        rows, _ = asked.encoding.rows([table[name] for name in asked.encoding.names], n)
        outcome = asked.model.outcome(y)
        for epsilon, mechanism in mechanisms.items():
            posterior = fit(mechanism, rows, outcome, rng)
            held = [
                np.mean([_held(posterior, row, truth) for row in some]) if len(some) else np.nan
                for some in _asked_of(groups)
            ]
            _, _, low, high = posterior.combined(np.eye(2 + groups)[1])
            found.append(((law, groups, n, epsilon, spread), *held, high - low))
    return found


def imagined(law: str, groups: int, n: int, sd: float, rng: np.random.Generator) -> tuple[dict[str, Any], Any, Floats]:
    """Return the columns of a table, its responses, and the line through their means: one intercept, slope, effects."""
    residuals, effects = (LAWS | LONG)[law], rng.normal(0, rng.choice(EFFECTS), groups)
    sizes = np.ones(max(groups, 1)) if rng.random() < 0.5 else 0.85 ** np.arange(max(groups, 1))
    shares = sizes / sizes.sum()
    middle = (LOW + HIGH) / 2 + rng.uniform(-0.2, 0.2) * (HIGH - LOW)
    own = effects if groups else np.zeros(1)
    age, ward = rng.normal(50, 15, n).clip(0, 110), rng.choice(len(own), n, p=shares)
    y = np.clip(middle + SLOPE * (age - 50) + own[ward] + sd * residuals(rng.random(n)), LOW, HIGH)
    # The means of what is cut, by group and age, and of a group in the middle of all.
    lines = np.append(own, 0.0)[:, None] + middle + SLOPE * (_AGES - 50)
    means = np.clip(lines[:, :, None] + sd * residuals(_MANY if law in LONG else _PLACES), LOW, HIGH).mean(axis=2)
    off = _AGES - _AGES.mean()
    slope = float(shares @ (means[:-1] @ off)) / float(off @ off)
    levels = means.mean(axis=1) - slope * _AGES.mean()
    start = levels[-1]
    truth = np.concatenate([[start, slope], levels[:-1] - start if groups else []])
    return {"age": age, "ward": ward.astype(float)}, y, truth


def _asked_of(groups: int) -> tuple[Floats, ...]:
    """Return the combinations of coefficients that are asked for: slope, differences, levels, and effects."""
    unit, some = np.eye(2 + groups), range(2, 2 + min(groups, 6))
    differences = [unit[k] - unit[k + 1] for k in some[:-1:2]]
    own = [unit[2 + k] if groups else 0 * unit[0] for k in range(3)]
    levels = [unit[0] + age * unit[1] + one for age, one in zip((30, 50, 70), own, strict=True)]
    return unit[1:2], np.array(differences), np.array(levels), np.array([unit[k] for k in some])


def _held(posterior: Any, row: Floats, truth: Floats) -> bool:
    _, _, low, high = posterior.combined(row)
    return bool(low <= row @ truth <= high)


def write(path: Path, cells: Cells) -> None:
    """Write one line a cell: how often intervals hold, by what is asked for, and how wide the slope's are (median)."""
    write_cells(path, _FIELDS, cells, lambda *parts: (*(one.mean() for one in parts[:-1]), float(np.median(parts[-1]))))


def main(quick: bool = False) -> None:
    """Fit regressions of every law of residuals and every spread, and show how often their intervals hold."""
    some = ["--fits", "1", "--sizes", "2000"] if quick else []
    title = "Linear regressions whose residuals spread"
    show_csv(title, _FIELDS, lambda path: command(["--out", str(path), *some]))


def command(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = options(__doc__, "regression_spread.csv", SIZES, 3600.0)
    parser.add_argument("--fits", type=int, default=100)
    parser.add_argument("--long", action="store_true", help="Residuals with long tails to one side.")
    given = parser.parse_args(words)
    groups, laws, spreads = ((0, 3), LONG, (0.03, 0.1)) if given.long else (GROUPS, LAWS, SPREADS)
    kinds = list(enumerate(itertools.product(given.sizes, groups, laws, spreads)))
    jobs = [
        (law, groups, n, spread, [given.seed, lot, k], 1)
        for lot in range(given.fits)
        for k, (n, groups, law, spread) in kinds
    ]
    run(given, jobs, some_fits, write)


if __name__ == "__main__":
    command()
