"""Noisy tables made to agree where they overlap: generalized least squares in closed form."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sottovoce.privacy.numbers import Floats

_PROJECTIONS, _CLOSE = 200, 1e-3
"""Projections at most, and how far below zero a share may be left, in standard deviations of its noise."""


@dataclass(frozen=True, eq=False)
class OverlappingTables:
    r"""Tables over some columns, each with independent noise of one variance in all its cells.

    A table splits into orthogonal parts, one for every set of its columns: what their margin has beyond those of
    smaller sets. A part that several tables have is the mean of theirs, weighted by the inverse of the variance that
    each gives it; all other parts stay (Hay, Rastogi, Miklau and Suciu 2010; Xiao, Yang, Wang and Kifer 2023).

    Attributes
    ----------
    cliques, shapes
        The columns of each table, and its shape.
    variances
        The variance of the noise in each.

    Examples
    --------
    >>> both = OverlappingTables((("a", "b"), ("a",)), ((2, 2), (2,)), (1.0, 2.0))
    >>> [table.tolist() for table in both.agreeing([np.array([[[1.0, 2], [3, 4]]]), np.array([[5.0, 5]])])]
    [[[[1.5, 2.5], [2.5, 3.5]]], [[4.0, 6.0]]]
    """

    cliques: tuple[tuple[str, ...], ...]
    shapes: tuple[tuple[int, ...], ...]
    variances: tuple[float, ...]

    @cached_property
    def _shared(self) -> list[tuple[frozenset[str], list[int]]]:
        """Every set of columns that several tables have, small ones first and none at first, and which tables."""
        holders: dict[frozenset[str], list[int]] = {}
        for place, clique in enumerate(self.cliques):
            for size in range(len(clique) + 1):
                for subset in itertools.combinations(clique, size):
                    holders.setdefault(frozenset(subset), []).append(place)
        return sorted(
            ((s, p) for s, p in holders.items() if len(p) > 1 or not s),
            key=lambda item: (len(item[0]), sorted(item[0])),
        )

    def non_negative(self, tables: Sequence[Floats]) -> list[Floats]:
        """Return the nearest tables of shares, none below zero, that agree on every common margin and are one in total.

        They are come to by alternating projections with corrections (Boyle and Dykstra 1986).
        """
        deviations = [math.sqrt(variance) for variance in self.variances]
        result = self.agreeing(tables, total=1.0)
        corrections = [np.zeros_like(table) for table in result]
        for _ in range(_PROJECTIONS):
            lifted = [table + more for table, more in zip(result, corrections, strict=True)]
            clipped = [np.maximum(table, 0.0) for table in lifted]
            corrections = [table - above for table, above in zip(lifted, clipped, strict=True)]
            result = self.agreeing(clipped, total=1.0)
            if all(np.all(table > -_CLOSE * s) for table, s in zip(result, deviations, strict=True)):
                break
        return [np.maximum(table, 0.0) for table in result]

    def agreeing(self, tables: Sequence[Floats], total: float | None = None) -> list[Floats]:
        """Return the tables, (draws, categories ...), with the nearest counts that agree on every common margin.

        They agree on their totals too, and these are `total` where it is given.
        """
        result = [np.array(table, dtype=np.float64) for table in tables]
        for subset, places in self._shared:
            order = [name for name in self.cliques[places[0]] if name in subset]
            margins, weights = [], []
            for place in places:
                clique, table = self.cliques[place], result[place]
                beside = tuple(1 + k for k, name in enumerate(clique) if name not in subset)
                kept = [name for name in clique if name in subset]
                margin = table.sum(axis=beside).transpose(0, *(1 + kept.index(name) for name in order))
                others = math.prod(
                    size for name, size in zip(clique, self.shapes[place], strict=True) if name not in subset
                )
                margins.append(margin)
                weights.append(1 / (self.variances[place] * others))
            mean = sum(w * margin for w, margin in zip(weights, margins, strict=True)) / sum(weights)
            if total is not None and not subset:
                mean = np.full_like(mean, total)
            for place, margin in zip(places, margins, strict=True):
                clique, shape = self.cliques[place], self.shapes[place]
                kept = [name for name in clique if name in subset]
                off = (mean - margin).transpose(0, *(1 + order.index(name) for name in kept))
                spread = [size if name in subset else 1 for name, size in zip(clique, shape, strict=True)]
                others = math.prod(shape) // math.prod(spread)
                result[place] += off.reshape(len(off), *spread) / others
        return result
