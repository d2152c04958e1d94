"""Factors of the categories of crossed columns, by Laplace's method: one for all cells, and one for every category.

No two categories of one column meet in a cell, so the curvature of the largest column's factors is diagonal, and what
is left beside it is as small as the other columns are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Self

import numpy as np

from sottovoce.inference.cells.crossed_centres import are_crossed
from sottovoce.privacy.numbers import Floats, Integers


@cache
def places(shape: tuple[int, ...]) -> tuple[Integers, Integers]:
    """Return which factors are few, and which are those of the largest column; of one column there is but a common one.

    >>> [some.tolist() for some in places((2, 3))]
    [[0, 1, 2], [3, 4, 5]]
    """
    if not are_crossed(shape):
        return np.arange(1), np.arange(0)
    ends = 1 + np.cumsum([size for size in shape if size > 1])
    others = np.arange(ends[-1])[slice(*_widest(shape, ends.tolist()))]
    return np.setdiff1d(np.arange(ends[-1]), others), others


def _widest(shape: tuple[int, ...], ends: list[int]) -> tuple[int, int]:
    """Return where the factors of the largest column, the last of several, begin and end."""
    size, end = max(zip((size for size in shape if size > 1), ends, strict=True))
    return end - size, end


def of_cells(factors: Floats, shape: tuple[int, ...]) -> Floats:
    """Return the sum of the factors of every cell, (draws, cells).

    Of one column, what holds for a cell holds for all: (draws, 1).
    """
    total, at = factors[:, :1], 1
    for size in shape if factors.shape[1] > 1 else ():
        if size > 1:
            total = (total[:, :, None] + factors[:, None, at : at + size]).reshape(len(factors), -1)
            at += size
    return total


def of_categories(values: Floats, shape: tuple[int, ...]) -> Floats:
    """Return the sum of what every factor's cells have.

    >>> of_categories(np.arange(6.0), (2, 3)).tolist()
    [15.0, 3.0, 12.0, 3.0, 5.0, 7.0]
    """
    table, parts = values.reshape(shape), [np.array([values.sum()])]
    for column, size in enumerate(shape if are_crossed(shape) else ()):
        if size > 1:
            parts.append(table.sum(axis=tuple(k for k in range(len(shape)) if k != column)))
    return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class Curvature:
    """The curvature of all factors: of the few, of both together, and of the largest column's, which is diagonal."""

    few: Integers
    many: Integers
    near: Floats
    crossed: Floats
    alone: Floats

    @classmethod
    def of(cls, weights: Floats, shape: tuple[int, ...], precision: Floats) -> Self:
        """Return that of cells of such weights, and of a prior of such precisions."""
        few, others = places(shape)
        sums = of_categories(weights, shape)
        crossed, near = np.empty((len(few), len(others))), np.diag(precision[few])
        if not len(others):
            return cls(few, others, near + sums[0], crossed, np.empty(0))
        sizes = [size for size in shape if size > 1]
        widest = max(range(len(sizes)), key=lambda k: (sizes[k], k))
        table = np.moveaxis(weights.reshape(sizes), widest, -1).reshape(-1, sizes[widest])
        remainder = tuple(size for k, size in enumerate(sizes) if k != widest)
        which = of_cells(np.eye(len(few)), remainder) if len(few) > 1 else np.ones((1, 1))
        return cls(
            few, others, near + (which * table.sum(axis=1)) @ which.T, which @ table, sums[others] + precision[others]
        )

    @cached_property
    def _left(self) -> Floats:
        """What the few have beside the largest column's."""
        return np.asarray(self.near - (self.crossed / self.alone) @ self.crossed.T)

    def solve(self, right: Floats) -> Floats:
        """Return C⁻¹r."""
        result, others = np.empty_like(right), right[self.many] / self.alone
        result[self.few] = np.linalg.solve(self._left, right[self.few] - self.crossed @ others)
        result[self.many] = others - (self.crossed.T @ result[self.few]) / self.alone
        return result

    @property
    def volume(self) -> float:
        """The logarithm of the determinant."""
        return float(np.log(self.alone).sum() + np.linalg.slogdet(self._left)[1])

    @cached_property
    def root(self) -> tuple[Floats, Floats, Floats]:
        """The parts of `Roots`."""
        beside = np.sqrt(self.alone)
        return np.linalg.cholesky(np.linalg.inv(self._left)), self.crossed / beside, beside


@dataclass(frozen=True, eq=False)
class Roots:
    """Roots of the inverses of several curvatures: that of the few, and how the largest column's go with them."""

    few: Integers
    many: Integers
    near: Floats
    crossed: Floats
    alone: Floats

    @classmethod
    def of(cls, several: list[Curvature]) -> Self:
        """Return the roots of each."""
        parts = zip(*(item.root for item in several), strict=True)
        return cls(several[0].few, several[0].many, *(np.stack(part) for part in parts))

    def times(self, standard: Floats) -> Floats:
        """Return every root times its row: factors of that covariance, of standard numbers."""
        result = np.empty_like(standard)
        few = (self.near @ standard[:, self.few, None])[:, :, 0]
        result[:, self.few] = few
        result[:, self.many] = (standard[:, self.many] - (few[:, None] @ self.crossed)[:, 0]) / self.alone
        return result
