"""What the looks of a regression tell of its records, as what a plan imagines: made of what was released alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sottovoce.inference.regression.joint_likelihood import JointLikelihood
from sottovoce.privacy.numbers import Floats
from sottovoce.records.facts.assumed_distribution import AssumedDistribution, parse_imagined
from sottovoce.records.facts.columns import Category, Column, Count, Number
from sottovoce.records.facts.encodings import levels_of

_MOST_SPREAD = 0.5
"""The largest standard deviation of a number, as a part of the range of its bounds."""


@dataclass(frozen=True)
class LearnedRows:
    """The records as far as looks tell: posterior medians where something is hidden, and modes.

    Attributes
    ----------
    records
        How many have no value missing.
    said
        How far numbers spread, as a part of their range, how often levels are met, and the mean of counts, in the words
        that `parse_imagined` reads: ``age=0.1``, ``smoker=0.2``, ``ward:C=0.05``.
    """

    records: int
    said: tuple[str, ...]

    @classmethod
    def of(cls, model: JointLikelihood, u: Floats, medians: Mapping[int, float]) -> Self:
        """Return what is told at a mode; of latents that lie on grids, at their medians."""
        law, formula = model.law, model.formula
        at = u.copy()
        at[list(medians)] = list(medians.values())
        pseudo = law.rows(at, model.normals, model.odds, slopes=False)
        columns: dict[str, Any] = {}
        for place, part in zip(law.numbers, law.spread(at[law.spreads])[0] / 2, strict=True):
            name = formula.encoding.names[place]
            columns |= _number(name, formula.encoding.columns[place], float(part))
        shares = law.shares(at)[0]
        for k, place in enumerate(law.discrete):
            levels = levels_of(formula.encoding.columns[place]) or ()
            each = [float(shares[law.combinations[:, k] == level].sum()) for level in range(len(levels))]
            columns |= _shares(formula.encoding.names[place], formula.encoding.columns[place], each)
        columns |= _response(model, at, pseudo.rows, pseudo.weights)
        known = {name: value for name, value in columns.items() if name in formula.facts}
        records = max(round(model.n * model.records_known(u)), 1)
        return cls(records, tuple(AssumedDistribution(columns=known).texts))

    def imagined(self, facts: Mapping[str, Column]) -> AssumedDistribution:
        """Return them as what a plan imagines."""
        return parse_imagined(self.said, facts)

    def to_dict(self) -> dict[str, Any]:
        """Return them as plain values; `from_dict` reads them back."""
        return {"records": self.records, "said": list(self.said)}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Read them from `to_dict`'s form."""
        return cls(int(state["records"]), tuple(map(str, state["said"])))


def _number(name: str, column: Column, part: float) -> dict[str, float]:
    """Return what is said of a number: of counts the mean of those that spread so far as a Poisson law's do."""
    part = _digits(min(part, _MOST_SPREAD))
    return {name: _digits(min((part * column.high) ** 2, float(column.high))) if isinstance(column, Count) else part}


def _shares(name: str, column: Column, shares: Sequence[float]) -> dict[str, Any]:
    """Return what is said of flags and categories; the share of the first value is what others leave."""
    levels, rounded = levels_of(column) or (), [_digits(share) for share in shares]
    return {name: dict(zip(levels[1:], rounded[1:], strict=True)) if isinstance(column, Category) else rounded[1]}


def _response(model: JointLikelihood, u: Floats, rows: Floats, weights: Floats) -> dict[str, Any]:
    """Return what is said of what is explained."""
    formula, name = model.formula, model.formula.parsed.response
    t = rows @ model.place(u)[0].reshape(model.outputs, -1).T
    if model.linear:
        varies = float(weights @ (t[:, 0] - weights @ t[:, 0]) ** 2) + model.residual_law(u).variance
        return _number(name, Number(-1, 1), math.sqrt(varies) / 2)
    mean = weights @ (formula.model.expected(t[:, 0])[:, None] if model.outputs == 1 else formula.model.mean(t))
    if model.counts:
        return {name: _digits(float(np.clip(mean[0], 0.0, formula.response.high)))}  # type: ignore[attr-defined]
    return _shares(name, formula.response, [1 - float(mean.sum()), *map(float, mean)])


def _digits(value: float) -> float:
    """Return three digits of a number: more are not known."""
    return float(f"{value:.3g}")
