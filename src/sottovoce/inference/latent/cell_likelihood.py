"""The likelihoods of all noisy counts of many cells, evaluated again and again: in place, or in a compiled program.

All of this is post-processing of a release: it costs no privacy, and none rests on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from sottovoce.inference.latent.noised_poisson import NODES, NoisedPoisson
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.numbers import Floats, Integers

_LAST_BITS = 1.5 * 2.0**52
"""A whole number added to this is the last bits of the sum."""


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

    offset: Any
    first: Any
    inverse: Any
    pieces: Any

    @classmethod
    def of(cls, noisy: Sequence[Integers], noises: Sequence[IntegerNoise]) -> CellLikelihood:
        """Tabulate what these tables need, (cells, categories) each."""
        table = NoisedPoisson.of(noisy, noises)

        def turned(array: Any) -> Floats:
            return np.ascontiguousarray(np.swapaxes(array, -1, -2), dtype=np.float64)

        return cls(turned(table.offset), turned(table.first), turned(table.inverse), table.pieces)

    def fixed(self, part: object) -> Any:
        """Return what the part of log-means that stays comes to, (..., column, cell), for `self(moving, fixed)`."""
        return (part - self.first) * self.inverse

    def __call__(self, moving: Any, fixed: Any) -> Any:
        """Return the log-likelihoods of all noisy counts, (..., column, cell), which last until the next call."""
        if not isinstance(self.pieces, np.ndarray):
            return self._traced(moving, fixed)
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

    def _traced(self, moving: object, fixed: object) -> Any:
        """Return the same within a compiled program."""
        import jax.numpy as jnp  # noqa: PLC0415 - an extra
        from jax import lax  # noqa: PLC0415

        u = moving * self.inverse + fixed
        node = lax.clamp(-1.0, jnp.floor(u), NODES - 1.0)
        u = u - node
        # The last bits of such a double are the whole number, which a cast would ask whether it is one; as many as
        # the rows are long (`placed` makes that a power of two) need not be asked whether they lie within them.
        bits = lax.bitcast_convert_type(node + (self.offset + _LAST_BITS), jnp.int64)
        piece = (bits & (self.pieces.shape[1] - 1)).astype(jnp.uint32)
        first, second, third, last = (row.at[piece].get(mode="promise_in_bounds") for row in self.pieces)
        return ((last * u + third) * u + second) * u + first

    @cached_property
    def placed(self) -> CellLikelihood:
        """The same for compiled programs: where they run, and as long as the next power of two, so that few differ."""
        import jax  # noqa: PLC0415 - an extra

        _register()
        width = self.pieces.shape[1]
        pieces = np.pad(self.pieces, ((0, 0), (0, (1 << width.bit_length()) - width)))
        with jax.enable_x64(True):
            mine = CellLikelihood(self.offset, self.first, self.inverse, pieces)
            placed: CellLikelihood = jax.device_put(mine, jax.local_devices(backend="cpu")[0])
            return placed

    def _room(self, shape: tuple[int, ...]) -> tuple[Floats, Floats, Floats, Integers]:
        """Return arrays to work in."""
        if shape not in self._rooms:
            self._rooms[shape] = *np.empty((3, *shape)), np.empty(shape, dtype=np.intp)
        return self._rooms[shape]

    @cached_property
    def _rooms(self) -> dict[tuple[int, ...], tuple[Floats, Floats, Floats, Integers]]:
        return {}


@cache
def _register() -> None:
    """Let compiled programs take these likelihoods as arguments."""
    import jax  # noqa: PLC0415 - an extra

    jax.tree_util.register_dataclass(CellLikelihood, ["offset", "first", "inverse", "pieces"], [])
