"""Noisy tables made to agree where they overlap: generalized least squares in closed form."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sottovoce.privacy.numbers import Floats


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
        """Every set of columns that several tables have, small ones first, and which tables."""
        holders: dict[frozenset[str], list[int]] = {}
        for place, clique in enumerate(self.cliques):
            for size in range(len(clique) + 1):
                for subset in itertools.combinations(clique, size):
                    holders.setdefault(frozenset(subset), []).append(place)
        return sorted(
            ((s, p) for s, p in holders.items() if len(p) > 1), key=lambda item: (len(item[0]), sorted(item[0]))
        )

    def agreeing(self, tables: Sequence[Floats]) -> list[Floats]:
        """Return the tables, (draws, categories ...), with the nearest counts that agree on every common margin."""
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
            for place, margin in zip(places, margins, strict=True):
                clique, shape = self.cliques[place], self.shapes[place]
                kept = [name for name in clique if name in subset]
                off = (mean - margin).transpose(0, *(1 + order.index(name) for name in kept))
                spread = [size if name in subset else 1 for name, size in zip(clique, shape, strict=True)]
                others = math.prod(shape) // math.prod(spread)
                result[place] += off.reshape(len(off), *spread) / others
        return result
