"""Are intervals of a private regression as wide as its plan says, of even and of rare columns?

python -m benchmarks.regression_plans --fits 5 --families logistic,linear
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import special

from benchmarks.fitting import DELTA, fit
from benchmarks.timing import show
from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks
from sottovoce.inference.regression.assumed_rows import rarely
from sottovoce.inference.regression.formula import Formula
from sottovoce.inference.regression.precision_forecast import foresee
from sottovoce.privacy.promises import ApproxDP
from sottovoce.records.facts import Category, Count, Facts, Flag, Number
from sottovoce.records.facts.assumed_distribution import AssumedDistribution

SIZES, EPSILONS = (500, 5_000, 50_000), (0.5, 3.0, 10.0)
RESPONSES = {
    "logistic": Flag(),
    "probit": Flag(),
    "linear": Number(-4, 4),
    "poisson": Count(12),
    "multinomial": Category(["p", "q", "r"]),
}
_WARDS = tuple("abcdefghijkl")
_FACTS = {"x": Number(-1, 1), "f": Flag(), "c": Category(["a", "b", "c"]), "w": Category(list(_WARDS))}
TABLES: dict[str, tuple[str, dict[str, Any]]] = {
    "even": ("x + f + c", {"x": 0.25}),
    "narrow number, flag of 10 %, level of 5 %": ("x + f + c", {"x": 0.08, "f": 0.1, "c": {"a": 0.65, "b": 0.3}}),
    "flag of 5 %, outcome of 20 %": ("x + f", {"x": 0.25, "f": 0.05, "y": 0.2}),
    "flag of 1 %": ("x + f", {"x": 0.25, "f": 0.01}),
    "twelve levels": ("f + w", {}),
    "twelve levels, some rare": (
        "f + w",
        {"w": dict(zip(_WARDS[1:], np.geomspace(0.2, 0.01, 11).tolist(), strict=True))},
    ),
}
"""The right side of each formula, and what is so of its columns: as `AssumedDistribution` says it."""
_SLOPE = 0.3


def made(
    family: str, formula: Formula, truth: AssumedDistribution, n: int, rng: np.random.Generator
) -> tuple[Any, Any]:
    """Return rows and responses of records, their columns as they are said to be, each with a small effect."""
    values = []
    for name, column in zip(formula.encoding.names, formula.encoding.columns, strict=True):
        found = truth.values(name, column, rng.random(n))
        values.append(np.searchsorted(column.categories, found) if isinstance(column, Category) else found)
    rows, _ = formula.encoding.rows([np.asarray(one, dtype=np.float64) for one in values], n)
    t = rows[:, 1:] @ (_SLOPE * rng.choice([-1, 1], rows.shape[1] - 1))
    t = t - t.mean()
    share = truth.shares("y", formula.response)[-1] if isinstance(formula.response, Flag) else 0.5
    if family == "logistic":
        return rows, (rng.random(n) < special.expit(special.logit(share) + t)).astype(float)
    if family == "probit":
        return rows, (rng.random(n) < special.ndtr(special.ndtri(share) + 0.6 * t)).astype(float)
    if family == "poisson":
        return rows, np.minimum(rng.poisson(np.exp(t)), 12).astype(float)
    if family == "linear":
        return rows, np.clip(0.5 * t + 0.5 * rng.uniform(-1, 1, n) * 3**0.5, -1, 1)
    odds = np.stack([np.ones(n), np.exp(t), np.exp(-t)], axis=1)
    return rows, (rng.random((n, 1)) > np.cumsum(odds / odds.sum(1, keepdims=True), axis=1)).sum(axis=1).astype(float)


def compared(family: str, table: str, n: int, epsilon: float, fits: int) -> list[tuple[str, ...]]:
    """Return, for each term, what was planned for even, rare and true columns, and what was got in the middle."""
    text, said = TABLES[table]
    response = RESPONSES[family]
    told = said if family in ("logistic", "probit") else {name: v for name, v in said.items() if name != "y"}
    formula = Formula(f"y ~ {text}", Facts(_FACTS | {"y": response}), family)
    mechanism = AdaptiveLooks.calibrate(formula, n, ApproxDP(epsilon, DELTA))
    truth = AssumedDistribution(columns=told)
    plans = [foresee(mechanism, imagined=one) for one in (AssumedDistribution(), rarely(formula), truth)]
    halves = []
    for seed in range(fits):
        rng = np.random.default_rng([seed, n])
        halves.append(np.diff(fit(mechanism, *made(family, formula, truth, n, rng), rng).interval(), axis=1)[:, 0] / 2)
    got = np.median(halves, axis=0)
    found = []
    for k, term in enumerate(formula.terms):
        even, rare, as_it_is = (plan[k].width for plan in plans)
        ratio = f"{got[k] / as_it_is:.2f}"
        found.append(
            (
                family,
                table,
                f"{n:,}",
                f"{epsilon:g}",
                term,
                *(f"{w:.3g}" for w in (even, rare, as_it_is, got[k])),
                ratio,
            )
        )
    return found


def main(quick: bool = False) -> None:
    """Plan and fit, and show both."""
    some = ["--fits", "2", "--families", "logistic", "--sizes", "500", "--epsilons", "3", "--tables", "0"]
    command(some if quick else [])


def command(words: Sequence[str] | None = None) -> None:
    """Read what to plan and fit, and show both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=5)
    parser.add_argument("--families", default=",".join(RESPONSES))
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--epsilons", default=",".join(map(str, EPSILONS)))
    parser.add_argument("--tables", default=",".join(map(str, range(len(TABLES)))), help="Their places in the list.")
    given = parser.parse_args(words)
    names, found = list(TABLES), []
    for family, place, n, epsilon in itertools.product(
        *(getattr(given, name).split(",") for name in ("families", "tables", "sizes", "epsilons"))
    ):
        found += compared(family, names[int(place)], int(n), float(epsilon), given.fits)
    columns = ("family", "table", "n", "ε", "term", "planned, even", "rare", "as it is", "got", "got beside as it is")
    show("Plans of regressions", columns, found)


if __name__ == "__main__":
    command()
