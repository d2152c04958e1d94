"""What the records of a regression are taken to be where nobody says: as a survey of columns has them, or rarer."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import special

from sottovoce.inference.regression.formula import Formula
from sottovoce.inference.regression.joint_priors import JointPriors
from sottovoce.privacy.numbers import Floats, real
from sottovoce.records.facts.assumed_distribution import AssumedDistribution, counted
from sottovoce.records.facts.columns import Category, Column, Count, Number
from sottovoce.records.facts.encodings import levels_of, scale_of
from sottovoce.records.readings.families import PoissonFamily

__all__ = ["evenly_spread", "predictors", "rarely", "responses"]

_NEVER = 1e-9
"""The share of what is never met."""
_RARE = 0.1
"""How often what is rare is met; and which part of real columns is narrower than a narrow one."""
_SURVEYED = JointPriors()
_USUAL = _SURVEYED.spread_median / 2
_NARROW = _USUAL * math.exp(_SURVEYED.spread_scale * special.stdtrit(_SURVEYED.spread_freedom, _RARE))
"""How far numbers spread of which nothing is said, as a part of their range: half, and nine in ten, of the columns of a
survey spread farther."""


def rarely(formula: Formula, imagined: AssumedDistribution | None = None) -> AssumedDistribution:
    """Return records that tell little, but for what is said of their columns.

    A flag is set once in ten records, and so often is any value of categories but the first met, or a quarter as often
    as if all were met alike; numbers spread less than nine in ten real columns, but for one that is explained; counts
    that are explained are 0.1 on average.
    """
    said = AssumedDistribution() if imagined is None else imagined
    response = formula.parsed.response
    result = {name: _little(formula.facts[name]) for name in formula.design.names}
    if isinstance(formula.model, PoissonFamily):
        result[response] = _RARE
    elif isinstance(formula.response, Category):
        result[response] = _little(formula.response)
    unsaid = {name: value for name, value in result.items() if value is not None and name not in said.columns}
    return replace(said, share=_RARE, columns={**said.columns, **unsaid})


def evenly_spread(formula: Formula, said: AssumedDistribution) -> AssumedDistribution:
    """Return records whose numbers spread as real columns do, but for what is said of them."""
    if said.spread is not None:
        return said
    spreads = {name: _spreading(formula.facts[name], _USUAL) for name in formula.design.names}
    return replace(said, columns={k: v for k, v in spreads.items() if v is not None} | dict(said.columns))


def _little(column: Column) -> Any:
    """Return what is said of a column that tells little; None of a flag."""
    if isinstance(column, Category):
        return dict.fromkeys(column.categories[1:], min(_RARE, 1 / (4 * len(column.categories))))
    return _spreading(column, _NARROW)


def _spreading(column: Column, spread: float) -> float | None:
    """Return what is said of a number that spreads so far; None of another column."""
    match column:
        case Count(high):  # a mean with which they spread so far
            return min((spread * high) ** 2, high / 2)
        case Number():
            return spread
    return None


def predictors(formula: Formula, said: AssumedDistribution) -> tuple[Floats, Floats]:
    """Return where the linear predictors of a mean that bends lie, and how far they go with log-odds or log-rates."""
    name, levels = formula.parsed.response, levels_of(formula.response)
    if levels is None:
        return np.log(np.maximum([real(name, said.columns.get(name, 1.0))], _NEVER)), np.ones(1)
    shares = np.maximum(said.shares(name, formula.response), _NEVER)
    odds, ways = np.log(shares[1:] / shares[0]), np.resize([1.0, -1.0], len(levels) - 1)
    if formula.family != "probit":
        return odds, ways
    middle, part = special.ndtri(special.expit(odds)), special.expit(odds) * special.expit(-odds)
    return middle, part * np.sqrt(2 * np.pi) * np.exp(middle**2 / 2)


def responses(formula: Formula, said: AssumedDistribution, t: Floats, places: Floats) -> Any:
    """Return what is explained, at places of its law: log-odds or log-rates, or standard deviations, are moved by t."""
    name, column, levels = formula.parsed.response, formula.response, levels_of(formula.response)
    if levels is not None:
        ways = np.resize([1.0, -1.0], len(levels) - 1)
        odds = said.shares(name, column) * np.exp(np.multiply.outer(t, np.append(0.0, ways)))
        below = np.cumsum(odds, axis=1)[:, :-1] / odds.sum(axis=1, keepdims=True)
        return np.array(levels)[(places[:, None] > below).sum(axis=1)]
    if isinstance(formula.model, PoissonFamily):
        rate = real(name, said.columns.get(name, 1.0))
        return counted(places, rate * np.exp(t), column.high)  # type: ignore[attr-defined]
    scale = scale_of(column, centred=True)
    result = said.values(name, column, len(places))[np.floor(places * len(places)).astype(np.intp)]
    return result + (scale.high - scale.low) * said.spread_of(name, column) * t
