"""Combinations of verb, shape, n, share of the budget, persons, secret n and groups: how often intervals hold.

150 of all combinations, drawn once; shapes are of this file alone, so nothing was ever chosen by them. With persons,
each has one to ten rows, more where the person's own part is high; a marginal law stays what it is, for rows of a
person go together by a Gaussian copula. There is no oracle here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from benchmarks.sharpness.questions import ask, ends
from benchmarks.sharpness.store import Cell, Fit, data_rng
from sottovoce.records.facts import Category, Count, Flag, Number, Person

__all__ = ["cells"]

Array = npt.NDArray[Any]
COMBINATIONS = 150
SIZES, SHARES = (100, 1_000, 10_000), (0.02, 0.1, 0.5)
GROUPS = ("a", "b", "c", "d")
_GROUP_SHARES = np.array([0.5, 0.25, 0.15, 0.1])
_GROUP_SCALES = np.array([1.0, 0.7, 1.4, 1.0])
_WITHIN, _MOST_ROWS, _MOST = 0.5, 10, 50
AT = (0.25, 0.5, 0.9)
_GRID = (np.arange(20_000) + 0.5) / 20_000
"""Probabilities at which laws are integrated."""

Inverse = Callable[[Array], Array]
"""A law by its quantile function."""


def _steps(values: Sequence[float], shares: Sequence[float]) -> Inverse:
    return lambda u: np.asarray(values)[np.searchsorted(np.cumsum(shares)[:-1], u)]


NUMBERS: dict[str, Inverse] = {
    "Gumbel": lambda u: stats.gumbel_r.ppf(u, 30, 8),
    "log-logistic": lambda u: stats.fisk.ppf(u, 3.0, scale=12),
    "triangle": lambda u: stats.triang.ppf(u, 0.8, 5, 60),
    "arcsine": lambda u: stats.arcsine.ppf(u, 10, 50),
    "half at zero, half uniform": lambda u: np.where(u < 0.5, 0.0, (u - 0.5) * 120),
    "four values": _steps((5.0, 20.0, 21.0, 60.0), (0.2, 0.35, 0.3, 0.15)),
}
"""Of numbers with bounds 0 and 100."""
RATES: dict[str, Inverse] = {
    "geometric": lambda u: stats.geom.ppf(u, 0.3) - 1,
    "zeros and a Poisson law": lambda u: np.where(u < 0.6, 0.0, stats.poisson.ppf((u - 0.6) / 0.4, 6)),
    "Zipf": _steps(tuple(range(40)), tuple(stats.zipfian.pmf(np.arange(1, 41), 1.5, 40))),
    "binomial": lambda u: stats.binom.ppf(u, 20, 0.4),
}
FLAGS: dict[str, Inverse] = {f"{p:.0%}": (lambda u, p=p: (u > 1 - p).astype(float)) for p in (0.03, 0.2, 0.5, 0.92)}
KINDS: dict[str, Inverse] = {
    "even": _steps((0, 1, 2), (1 / 3, 1 / 3, 1 / 3)),
    "a rare one": _steps((0, 1, 2), (0.78, 0.2, 0.02)),
}
_SHAPES = {"proportion": FLAGS, "mean": NUMBERS, "quantiles": NUMBERS, "rate": RATES, "counts": KINDS}


@dataclass(frozen=True)
class Combination:
    """One question to one kind of table."""

    verb: str
    shape: str
    n: int
    share: float
    persons: bool
    secret: bool
    grouped: bool

    @property
    def name(self) -> str:
        """What it is called."""
        words = [self.verb, self.shape, f"n = {self.n:,}", f"{self.share:.0%}"]
        words += [word for word in ("persons", "secret", "grouped") if getattr(self, word)]
        return ", ".join(words)

    def answer(self, k: int) -> Fit:
        """Answer for the k-th table."""
        rng = data_rng(self.name, k)
        columns, group, whose = self.table(rng)
        facts: dict[str, Any] = {"x": self.fact}
        asked: dict[str, Any] = {"spend": self.share}
        if self.grouped:
            columns, facts["g"] = columns | {"g": np.array(GROUPS)[group][whose]}, Category(list(GROUPS))
            asked["by"] = "g"
        if self.persons:
            columns, facts["p"] = columns | {"p": whose}, Person()
        rest = [list(AT)] if self.verb == "quantiles" else []
        options = {"n": "private"} if self.secret else {}
        rows, seconds = ask(columns, facts, lambda curator: getattr(curator, self.verb)("x", *rest, **asked), **options)
        low, high, estimate = ends(rows)
        none = np.full(len(low), np.nan)
        return Fit(low, high, estimate, self.truth(rows, columns, group, whose), none, none, seconds)

    @property
    def fact(self) -> Any:
        """What is public of the column."""
        numbers = Number(0, 100)
        return {"proportion": Flag(), "rate": Count(_MOST), "counts": Category(["0", "1", "2"])}.get(self.verb, numbers)

    def values(self, u: Array, group: Array) -> Array:
        """Return the values at these probabilities; numbers of groups differ by their scale."""
        raw = _SHAPES[self.verb][self.shape](u)
        if self.grouped and self.verb in ("mean", "quantiles"):
            raw = raw * _GROUP_SCALES[group]
        return np.clip(raw, 0, _MOST if self.verb == "rate" else 100)

    def table(self, rng: np.random.Generator) -> tuple[dict[str, Array], Array, Array]:
        """Return the rows, the group of each person, and whose each row is."""
        group = rng.choice(len(GROUPS), self.n, p=_GROUP_SHARES)
        whose, e = np.arange(self.n), rng.standard_normal(self.n)
        if self.persons:
            rows = np.minimum(rng.geometric(1 / (1 + 2 * np.exp(0.7 * e))), _MOST_ROWS)
            whose = np.repeat(whose, rows)
            if self.verb in (
                "mean",
                "rate",
                "proportion",
            ):  # quantiles are of persons' averages, counts of their shares
                e = np.sqrt(_WITHIN) * e[whose] + np.sqrt(1 - _WITHIN) * rng.standard_normal(len(whose))
            else:
                e = e[whose]
        values = self.values(special.ndtr(e), group[whose])
        if self.verb == "proportion":
            values = values.astype(bool)
        elif self.verb in ("rate", "counts"):
            values = values.astype(int)
        return {"x": values.astype(str) if self.verb == "counts" else values}, group, whose

    def truth(self, rows: Any, columns: dict[str, Array], group: Array, whose: Array) -> Array:
        """Return what each row of the answer is about: of the law, or of this table where it is counted."""
        groups = [GROUPS.index(one) for one in rows["g"]] if self.grouped else [0] * len(rows)
        if self.verb == "counts":
            first = np.unique(whose, return_index=True)[1]
            kind = columns["x"][first]
            return np.array(
                [
                    np.sum((kind == str(one)) & ((group == g) if self.grouped else True))
                    for g, one in zip(groups, rows["x"], strict=True)
                ],
                dtype=float,
            )
        found = []
        for place, g in enumerate(groups):
            values = self.values(_GRID, np.full(len(_GRID), g))
            found.append(
                float(np.quantile(values, AT[place % len(AT)])) if self.verb == "quantiles" else float(values.mean())
            )
        return np.array(found)


def cells() -> list[Cell]:
    """Return the combinations that were drawn."""
    every = [
        Combination(verb, shape, *others)
        for verb, shapes in _SHAPES.items()
        for shape, *others in itertools.product(shapes, SIZES, SHARES, (False, True), (False, True), (False, True))
    ]
    order = np.random.default_rng(23).permutation(len(every))[:COMBINATIONS]
    return [Cell("combinations", one.name, one.answer, one.verb) for one in (every[k] for k in sorted(order))]
