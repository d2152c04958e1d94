"""What a search for quantiles tells of a column: counts of coarse cells, and how values lie within any cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sottovoce.inference.cells.quantile_posterior import QuantilePosterior
from sottovoce.inference.cells.quantile_search import merged
from sottovoce.inference.synthesis.counted_cells import CountedCells
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import mapping, restoring
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Count
from sottovoce.records.facts.cells import Axis

__all__ = ["WithinCells", "searched_counts"]

_CELLS = 10
"""Cells of about as many records each that the last round is joined to: as fine as deciles."""
_SEED = 20181130
"""Draws are a function of what was released."""


@dataclass(frozen=True, eq=False)
class WithinCells:
    """Draws of the distribution function of a column of numbers, by linear interpolation between edges.

    Attributes
    ----------
    edges
        Rising, from the least value to the greatest.
    heights
        The share of records below each, (draws, edges).

    Examples
    --------
    >>> within = WithinCells(np.array([0.0, 1.0, 10.0]), np.array([[0.0, 0.9, 1.0]]))
    >>> within.values(0, np.array([0.0]), np.array([10.0]), np.array([0.45])).round(6).tolist()
    [0.5]
    """

    edges: Floats
    heights: Floats

    @classmethod
    def of(cls, posterior: QuantilePosterior, draws: int) -> Self:
        """Return what all rounds of a search over all records tell."""
        known = posterior.groups[0]
        return cls(known.edges, known.population(draws, posterior.question.prior, seeded_rng(_SEED)))

    def values(self, draw: int, low: Floats, high: Floats, chances: Floats) -> Floats:
        """Return values between two ends, at chances between 0 and 1 of what lies there; evenly where nothing does."""
        heights = self.heights[draw % len(self.heights)]
        below, above = (np.interp(end, self.edges, heights) for end in (low, high))
        # Where nothing lies heights stand still: a slope that no table sees makes every chance one value.
        rising = heights + np.linspace(0.0, np.finfo(float).eps * heights.size, heights.size)
        values = np.interp(below + chances * (above - below), rising, self.edges)
        return np.asarray(np.where(above > below, np.clip(values, low, high), low + chances * (high - low)))

    def to_dict(self) -> dict[str, Any]:
        """Return the draws as plain values; `from_dict` reads them back."""
        return {"edges": self.edges.tolist(), "heights": self.heights.tolist()}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Read draws from `to_dict`'s form."""
        state = mapping("values within cells", state)
        with restoring("values within cells"):
            return cls(np.array(state["edges"], dtype=float), np.array(state["heights"], dtype=float))


def searched_counts(posterior: QuantilePosterior) -> tuple[CountedCells, Floats, Floats]:
    """Return what the last round of a search counts in cells of about as many records each, and their variances.

    Where these cells end follows from what was released.
    """
    question = posterior.question
    if question.groups.size > 1 or question.facts.person is not None:
        raise InvalidValue("it searched each group or person by cells of its own")
    last, known = posterior.rounds[-1], posterior.groups[0]
    fine, (name,) = last.edges[0], question.columns_asked
    heights = np.interp(fine, known.edges, known.rising)
    wanted = np.linspace(0, heights[-1], _CELLS + 1)[1:-1]
    inner = np.unique(fine[1:-1][np.abs(heights[1:-1, None] - wanted).argmin(axis=0)])
    coarse = np.concatenate([fine[:1], inner, fine[-1:]])
    column = question.facts[name]
    if isinstance(column, Count):
        inner = np.ceil(inner)  # halfway between two whole numbers: the upper one is in the cell above
    missing = getattr(column, "missing", None)
    place = -1 if missing is None else int(np.searchsorted(inner, missing, side="right"))
    marks = (-np.inf, *inner.tolist(), np.inf)
    axis = Axis(name, True, marks, tuple(map(str, range(inner.size + 1))), place)
    counts, joined = (merged(part, fine, coarse) for part in (last.counts[0], np.ones(fine.size - 1)))
    variance = last.of_group(0, posterior.noise).noise.variance
    cells = CountedCells((axis,), question.where)
    return cells, np.append(counts, last.outside).astype(float), variance * np.append(joined, 1.0)
