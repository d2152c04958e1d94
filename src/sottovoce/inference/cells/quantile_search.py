"""Quantiles by search: in a few rounds of noisy histograms, each cut where those before it left a quantile.

A round counts the records of every group between public edges, and the edges of a round are a function of the noisy
counts of the rounds before it, never of the records: so the rounds compose adaptively. Within a round a record lies in
one cell, so all quantiles and all groups cost what one histogram costs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.inference.cells.cumulative_counts import CumulativeCounts
from sottovoce.mechanisms.integer_noise import NoiseKind
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats

__all__ = ["ValueAxis", "first_edges", "limited", "merged", "next_edges", "round_shares", "union_of"]

ROUNDS = {"gaussian": 5, "laplace": 4}
"""Rounds of a search. Laplace noise composes linearly, not in squares, so fewer of them pay."""
LAST = {"gaussian": 0.3, "laplace": 0.4}
"""What part of ρ, or of ε, is kept for the last round, whose cells are the finest; the others share the rest evenly.

Half as much again as an even share (1/5 of ρ) and more (1/4 of ε): an earlier round's cells tell of the last bracket,
too. No answer hangs on it, but widths do. Of eleven settings of rounds, cells, this part and ending the search where a
bracket no longer shrinks, on a normal and a lognormal column (n = 300 to 20,000, 2 and 10 % of (1, 10⁻⁶), 24 tables
each), none was better throughout: some were narrower by a tenth to a third in single cells and most wider; with n = 300
a search that ended early after small early shares was up to 100 times as wide.
"""
CELLS = 10
"""Into so many cells a round cuts what it searches for one quantile: with five rounds 10⁵ places can be told apart. Of
more cells each is narrower, and their noise adds up to more."""
_BY_VALUE = 0.2
"""How far edges are told apart by their values, and not by the test alone: two of ten cells are left to places where
the test tells nothing, the least by which such a stretch is cut in halves."""
BRACKET = 1e-3
"""A round searches the cells that a test at this level does not reject: it misses a quantile once in a thousand."""
EDGE_LIMIT, _TABLE = 2**12, 2**20
"""Edges, and cells of all groups, that one round counts at most: an engine compares a record with few of many edges,
but reads all of them first. Of more groups than that each is cut at some of the edges of all."""
_STEPS = 2.0**32
"""Edges of a column that has no grid of its own lie on one as fine as this part of its range."""


@dataclass(frozen=True)
class ValueAxis:
    """Where edges may lie: from `low` to `high`, at whole steps from low.

    >>> ValueAxis.whole_numbers(20).cut(-0.5, 20.5, 4).tolist()
    [-0.5, 4.5, 9.5, 15.5, 20.5]
    """

    low: float
    high: float
    step: float

    @classmethod
    def whole_numbers(cls, high: int) -> ValueAxis:
        """Return the axis of 0, 1, ..., high: edges lie halfway between two of them."""
        return cls(-0.5, high + 0.5, 1.0)

    @classmethod
    def between(cls, low: float, high: float) -> ValueAxis:
        """Return the axis of numbers of which nobody knows how they are rounded."""
        return cls(low, high, (high - low) / _STEPS)

    def cut(self, first: float, last: float, cells: int) -> Floats:
        """Return edges that cut from first to last evenly into so many cells, or into fewer where steps are wide."""
        inner = self.low + self.step * np.rint((np.linspace(first, last, cells + 1) - self.low) / self.step)
        inner = inner[(inner > first) & (inner < last)]
        return np.unique(np.concatenate([[first], inner, [last]]))


def round_shares(noise: NoiseKind, axis: ValueAxis) -> Floats:
    """Return each round's share of ρ (Gaussian noise) or of ε (Laplace), from public numbers: the last is the largest.

    >>> round_shares("gaussian", ValueAxis.between(0.0, 1.0)).round(3).tolist()
    [0.175, 0.175, 0.175, 0.175, 0.3]
    """
    places = (axis.high - axis.low) / axis.step
    rounds = int(min(ROUNDS[noise], max(1, np.ceil(np.log(places) / np.log(CELLS)))))
    last = LAST[noise] if rounds > 1 else 1.0
    return np.append(np.full(rounds - 1, (1 - last) / max(rounds - 1, 1)), last)


def first_edges(axis: ValueAxis, quantiles: int) -> Floats:
    """Return the edges of the first round, the same for every group."""
    return axis.cut(axis.low, axis.high, CELLS * quantiles)


def next_edges(axis: ValueAxis, known: CumulativeCounts, at: Sequence[float]) -> Floats:
    """Return the edges of a group's next round: each quantile's bracket is cut, what lies outside is not.

    All that enters is public or was released: the posterior of the rounds before.
    """
    return np.unique(np.concatenate([[axis.low, axis.high], *(_bracket_edges(axis, known, p) for p in at)]))


def _bracket_edges(axis: ValueAxis, known: CumulativeCounts, p: float) -> Floats:
    """Return edges that cut the bracket of one quantile into about `CELLS` cells that are as hard to tell apart.

    How far apart two edges are is measured by the test of the quantile: by how much its statistic, in standard
    deviations, changes from one to the other; and a little by their values, for where it does not change nothing is
    known. Edges of before are kept where they may be: what earlier rounds tell of F at an edge then counts in full.
    """
    first, last = known.interval(p, 1 - BRACKET)
    edges, statistic = known.edges, known.statistic(p, 1 - BRACKET)
    inside = (edges >= first) & (edges <= last)
    edges, statistic = edges[inside], statistic[inside]
    by_value, span = (edges - first) / (last - first), statistic[-1] - statistic[0]
    by_test = (statistic - statistic[0]) / span if span > 0 else by_value
    places = CELLS * (_BY_VALUE * by_value + (1 - _BY_VALUE) * by_test)
    kept = [0]
    for k in range(1, edges.size - 1):
        if places[k + 1] - places[kept[-1]] > 1:  # without it the cell would be wider than one of so many
            kept.append(k)
    kept.append(edges.size - 1)
    cells = [(edges[j], edges[k], max(1, round(places[k] - places[j]))) for j, k in itertools.pairwise(kept)]
    return np.unique(np.concatenate([axis.cut(*cell) for cell in cells]))


def limited(edges: Sequence[Floats], limit: int | None = None) -> list[Floats]:
    """Return edges of several groups, moved to some of all of them where those are too many for one table.

    >>> [part.tolist() for part in limited([np.array([0.0, 1, 2, 9]), np.array([0.0, 3, 4, 9])], 3)]
    [[0.0, 2.0, 9.0], [0.0, 2.0, 9.0]]
    """
    limit = max(3, min(EDGE_LIMIT, _TABLE // len(edges))) if limit is None else limit
    every = union_of(edges)
    if every.size <= limit:
        return list(edges)
    kept = every[np.linspace(0, every.size - 1, limit).astype(np.int64)]
    middles = (kept[1:] + kept[:-1]) / 2
    return [np.unique(np.concatenate([kept[[0, -1]], kept[np.searchsorted(middles, part)]])) for part in edges]


def union_of(edges: Iterable[Floats]) -> Floats:
    """Return all edges of several groups: a table that is cut at them is a refinement of every group's cells."""
    return np.unique(np.concatenate(list(edges)))


def merged(counts: NDArray[Any], fine: Floats, coarse: Floats) -> NDArray[Any]:
    """Return the counts of coarse cells from those of fine ones, of which every coarse edge is an edge.

    >>> merged(np.array([1, 2, 3]), np.array([0.0, 1.0, 2.0, 5.0]), np.array([0.0, 2.0, 5.0])).tolist()
    [3, 3]
    """
    starts = np.searchsorted(fine, coarse[:-1])
    if starts[0] != 0 or not np.array_equal(fine[np.append(starts, fine.size - 1)], coarse):
        raise InvalidValue("cells are merged at edges that both have")
    return np.asarray(np.add.reduceat(counts, starts, axis=-1))
