"""The likelihoods of all noisy counts of many cells, evaluated again and again without a new array each time.

All of this is post-processing of a release: it costs no privacy, and none rests on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.latent.noised_poisson import NODES, NoisedPoisson
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.numbers import Floats

__all__ = ["CellLikelihood"]

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CellLikelihood:
    """A `NoisedPoisson` with its cells last, (..., column, cell), for one sampler: what it returns, it writes over.

    A mean's logarithm is a sum of two parts, a cell's size and a probability; a sampler moves one while the other
    stays. What depends on the part that stays, `fixed` works out once.

    Attributes
    ----------
    offset, first, inverse, pieces
        As those of `NoisedPoisson`.

    Examples
    --------
    >>> likelihood = CellLikelihood.of((np.array([[7, -2], [3, 1]]),), (IntegerNoise("laplace", 3.0),))
    >>> logs, theta = np.log([9.0, 4.0]), np.log([[0.9], [0.1]])
    >>> by_cell = likelihood(theta, likelihood.fixed(logs)).sum(axis=-2)
    >>> bool(np.allclose(by_cell, likelihood(logs, likelihood.fixed(theta)).sum(axis=-2)))
    True
    """

    offset: Floats
    first: Floats
    inverse: Floats
    pieces: Floats

    @classmethod
    def of(cls, noisy: Sequence[Integers], noises: Sequence[IntegerNoise]) -> CellLikelihood:
        """Tabulate what these tables need, (cells, categories) each."""
        table = NoisedPoisson.of(noisy, noises)

        def turned(array: Any) -> Floats:
            return np.ascontiguousarray(np.swapaxes(array, -1, -2), dtype=np.float64)

        return cls(turned(table.offset), turned(table.first), turned(table.inverse), table.pieces)

    def fixed(self, part: Floats) -> Floats:
        """Return what the part of log-means that stays comes to, (..., column, cell), for `self(moving, fixed)`."""
        return np.asarray((part - self.first) * self.inverse)

    def __call__(self, moving: Floats, fixed: Floats) -> Floats:
        """Return the log-likelihoods of all noisy counts, (..., column, cell), which last until the next call."""
        u, node, out, piece = self._room(np.broadcast(moving, fixed).shape)
        np.multiply(moving, self.inverse, out=u)
        u += fixed
        np.floor(u, out=node)
        if node.min(initial=0) < -1:
            np.maximum(node, -1, out=node)
        if node.max(initial=0) >= NODES:
            np.minimum(node, NODES - 1, out=node)
        u -= node
        node += self.offset
        np.copyto(piece, node, casting="unsafe")
        self.pieces[3].take(piece, out=out, mode="clip")
        for k in (2, 1, 0):
            out *= u
            self.pieces[k].take(piece, out=node, mode="clip")
            out += node
        return out

    def _room(self, shape: tuple[int, ...]) -> tuple[Floats, Floats, Floats, Integers]:
        """Return arrays to work in."""
        if shape not in self._rooms:
            self._rooms[shape] = *np.empty((3, *shape)), np.empty(shape, dtype=np.intp)
        return self._rooms[shape]

    @cached_property
    def _rooms(self) -> dict[tuple[int, ...], tuple[Floats, Floats, Floats, Integers]]:
        return {}
