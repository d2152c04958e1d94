"""Imagined tables for the verbs, and what their answers should hold: every table has truths of its own.

Of `plain` data each group's truth is drawn anew for every table from the prior that a question has by default: it is
over this prior that intervals are to keep their level. (Quantiles have no such prior; they get normal laws.) Of other
shapes laws are drawn too, but not from any prior of ours; and in `fixed` worlds truths are few and awkward. Records
come by inverting a law's distribution function, so its truths (of values cut to the bounds) are integrals.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special, stats

from sottovoce.inference.cells.questions import Question
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.promises import ApproxDP, Promise, PureDP
from sottovoce.records.facts import Category, Count, Facts, Flag, Number

__all__ = ["AT", "SHARED", "Cell", "budget_price", "question_of", "world"]

AT = (0.25, 0.5, 0.9)
SHARED = {
    "difference": "proportion",
    "ratio": "proportion",
    "mean difference": "mean",
    "mean ratio": "mean",
    "rate ratio": "rate",
}
"""What is made of two rows of which verb's answer."""
_MOST = 20
"""The largest count."""
_PRIOR = Question.prior
_RATES = 4 / 3
"""Rates of the default prior are the largest count times a uniform number to this power."""
_PLACES = (np.arange(4000) + 0.5) / 4000


@dataclass(frozen=True)
class Cell:
    """One place of the design."""

    verb: str
    n: int
    epsilon: float
    groups: int
    shape: str = "plain"
    missing: float = 0.0
    selected: float = 1.0
    pure: bool = False
    pool: bool = False
    fixed: bool = False

    @property
    def promise(self) -> Promise:
        """What each answer keeps."""
        return PureDP(self.epsilon) if self.pure else ApproxDP(self.epsilon, 1e-6)


def budget_price(cell: Cell) -> Callable[[Any], float]:
    """Return what the budget of a curator would charge: it chooses the noise."""
    return PrivacyFilter(PureDP(1.0) if cell.pure else ApproxDP(1.0, 1e-6)).cost


def question_of(cell: Cell) -> Question:
    """Return the question of a cell."""
    named: dict[str, Any] = {"yes": Flag(), "x": Number(0, 100), "k": Count(_MOST), "years": Number(0, 10)}
    named |= {"part": Category(("a", "b", "c")), "group": Category(tuple(range(cell.groups)))}
    by = ("group",) if cell.groups > 1 or cell.selected < 1 else ()
    verb = SHARED.get(cell.verb, cell.verb)
    facts = Facts(named)
    options: dict[str, Any] = {"by": by}
    match verb:
        case "quantiles":
            return Question(verb, ("x",), facts, at=AT, **options)
        case "rate" | "exposure":
            per = "years" if verb == "exposure" else None
            return Question("rate", ("k",), facts, exposure=per, pool=cell.pool, **options)
    column = {"proportion": "yes", "mean": "x", "counts": "part"}[verb]
    return Question(verb, (column,), facts, pool=cell.pool, **options)


def world(cell: Cell, rng: np.random.Generator) -> tuple[dict[str, Any], Floats]:
    """Return the records of one imagined table, and what its answer is about."""
    n, groups = cell.n, cell.groups
    sizes = np.arange(1.0, groups + 1) if cell.fixed else rng.uniform(0.3, 1.7, groups)
    group = rng.choice(groups, n, p=sizes / sizes.sum())
    placed = np.where(rng.random(n) < cell.selected, group, -1)  # outside of a condition: in no group
    gone = rng.random(n) < cell.missing
    records: dict[str, Any] = {"group": placed}
    match SHARED.get(cell.verb, cell.verb):
        case "proportion":
            truth = _shares(cell, rng)
            records["yes"] = np.where(gone, -1, rng.random(n) < truth[group])
        case "mean" if cell.shape == "plain" and not cell.fixed:
            truth = rng.uniform(0, 100, groups)
            varied = np.minimum(rng.beta(0.5, 0.5, groups), 1 - 1e-6)  # the variance, beside the largest there can be
            strength = (1 / varied - 1)[group]
            values = 100 * rng.beta(strength * truth[group] / 100, strength * (1 - truth[group] / 100))
            records["x"] = np.where(gone, np.nan, values)
        case "mean" | "quantiles" as verb:
            laws = [_law(cell, g, rng) for g in range(groups)]
            values = np.empty(n)
            for g, law in enumerate(laws):
                inside = group == g
                values[inside] = np.clip(law(rng.random(int(inside.sum()))), 0, 100)
            records["x"] = np.where(gone, np.nan, values)
            told = _PLACES if verb == "mean" else np.array(AT)
            truths = [np.clip(law(told), 0, 100) for law in laws]
            truth = np.array([t.mean() for t in truths]) if verb == "mean" else np.concatenate(truths)
        case "rate":
            chances = [_chances(cell, g, rng) for g in range(groups)]
            found = np.array([rng.choice(_MOST + 1, n, p=each) for each in chances])[group, np.arange(n)]
            records["k"] = np.where(gone, np.nan, found)
            truth = np.array([each @ np.arange(_MOST + 1) for each in chances])
        case "exposure":
            rates = np.resize([0.2, 0.6, 1.0, 0.4], groups) if cell.fixed else rng.uniform(0.05, 1, groups)
            powers = np.full(groups, 3.0 if cell.shape == "skewed" else 1.0)
            if cell.shape == "plain" and not cell.fixed:  # the means of counts and of years over their whole ranges
                powers = 1 / np.clip(rng.random(groups), 0.02, 0.98) - 1
                rates = np.minimum(_MOST * rng.random(groups) ** _RATES * (1 + powers) / 10, 1e3)
            years = 10 * rng.random(n) ** powers[group]
            frailty = rng.gamma(1.5, 1 / 1.5, n) if cell.shape == "heavy" else 1.0
            records["k"] = np.where(gone, np.nan, np.minimum(rng.poisson(rates[group] * years * frailty), _MOST))
            records["years"] = years
            truth = np.array([_cut_rate(cell, r, p) for r, p in zip(rates, powers, strict=True)])
        case _:
            alpha = 0.3 if cell.shape == "sparse" else _PRIOR / 2
            shares = np.array([[0.98, 0.015, 0.005]]) if cell.fixed else rng.dirichlet([alpha] * 3, groups)
            part = (rng.random((n, 1)) > np.cumsum(np.resize(shares, (groups, 3)), axis=1)[group][:, :2]).sum(axis=1)
            records["part"] = [None if g else "abc"[p] for g, p in zip(gone, part, strict=True)]
            kept = (placed >= 0) & ~gone
            pairs = itertools.product(range(groups), range(3))
            truth = np.array([np.sum(kept & (group == g) & (part == p)) for g, p in pairs], dtype=float)
    return records, _made_of_two(cell, truth)


def _made_of_two(cell: Cell, truth: Floats) -> Floats:
    if cell.verb not in SHARED:
        return truth
    first, second = truth[:2]
    return np.array([first / second if cell.verb.endswith("ratio") else first - second])


def _shares(cell: Cell, rng: np.random.Generator) -> Floats:
    if cell.fixed:
        return np.resize([0.02, 0.01, 0.03] if cell.shape == "rare" else [0.3, 0.05, 0.5, 0.9, 0.15], cell.groups)
    a, b = (0.8, 20.0) if cell.shape == "rare" else (_PRIOR / 2, _PRIOR / 2)
    return np.asarray(rng.beta(a, b, cell.groups))


def _law(cell: Cell, group: int, rng: np.random.Generator) -> Callable[[Floats], Any]:
    """Return the inverse distribution function of a group's numbers."""
    u, v = ((group % 5) / 6 + 0.1, 0.4) if cell.fixed else rng.random(2)
    match cell.shape:
        case "skewed":
            return lambda p: (5 + 35 * u) / (0.6 + 2 * v) * special.gammaincinv(0.6 + 2 * v, p)
        case "heavy":
            return lambda p: 25 + 50 * u + (2 + 8 * v) * special.stdtrit(3.0, p)
        case "zeros":
            none = 0.2 + 0.6 * v
            return lambda p: -(5 + 35 * u) * np.log1p(-np.clip((p - none) / (1 - none), 0, 1 - 1e-12))
        case "ends":
            return lambda p: np.where(p < 0.1 + 0.8 * u, 0.0, 100.0)
        case "two hills":
            low, part = 10 + 30 * u, 0.3 + 0.1 * v  # no quantile of ours lies in the gap, where it is no one number
            return lambda p: np.where(
                p < part,
                low + 4 * special.ndtri(np.clip(p / part, 0, 1)),
                low + 45 + 6 * special.ndtri(np.clip((p - part) / (1 - part), 0, 1)),
            )
    return lambda p: 15 + 70 * u + (2 + 18 * v) * special.ndtri(p)


def _chances(cell: Cell, group: int, rng: np.random.Generator) -> Floats:
    """Return the chances of 0, 1, ... of a group's counts, those above the bound put at the bound."""
    u = (group % 4) / 5 + 0.1 if cell.fixed else rng.random()
    mean, k = 0.3 + 6 * u, np.arange(_MOST)
    if cell.shape == "plain" and not cell.fixed:
        return np.asarray(stats.binom.pmf(np.arange(_MOST + 1), _MOST, u**_RATES))
    match cell.shape:
        case "skewed" | "heavy":
            size = 1.5 if cell.shape == "skewed" else 0.4
            found = stats.nbinom.pmf(k, size, size / (size + mean))
        case "zeros":
            found = 0.35 * stats.poisson.pmf(k, 1.5 * mean) + 0.65 * (k == 0)
        case _:
            found = stats.poisson.pmf(k, mean)
    return np.append(found, max(0.0, 1 - found.sum()))


def _cut_rate(cell: Cell, rate: float, power: float) -> float:
    """Return the mean count, cut at the bound, over the mean exposure."""
    years = 10 * _PLACES[::20] ** power
    k = np.arange(_MOST)[:, None]
    means = rate * years
    chances: Any = (
        stats.nbinom.pmf(k, 1.5, 1.5 / (1.5 + means)) if cell.shape == "heavy" else stats.poisson.pmf(k, means)
    )
    counted = (k * chances).sum(axis=0) + _MOST * (1 - chances.sum(axis=0))
    return float(counted.mean() / years.mean())
