"""Rows on devices: clipped, padded, cut into chunks, spread over as many devices as there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from sottovoce.glm.design import Design

__all__ = ["Placement", "Rows", "clip_rows", "place"]


@dataclass(frozen=True)
class Placement:
    """Where and how the rows are held.

    Attributes
    ----------
    devices
        The devices to spread the rows over; JAX's default device where empty.
    precision
        ``"float64"``, or ``"float32"`` for speed. The certificate is a statement about real numbers. Rounding
        moves the sum of n gradients by about n·1e-16 of one record's share in double precision, which is
        nothing, and by n·1e-7 in single: a tenth of a record at n = 10⁶. Publish from double.
    chunk_rows
        At most this many rows are multiplied at once, so that the n × chains predictors fit in memory.
    stream
        Keep the rows on the host (a NumPy memory map will do) and send them chunk by chunk at every step.
    """

    devices: Sequence[Any] = ()
    precision: str = "float64"
    chunk_rows: int | None = None
    stream: bool = False

    @property
    def dtype(self) -> Any:
        """The NumPy type of the arithmetic."""
        return np.dtype(self.precision)


@dataclass(frozen=True)
class Rows:
    """Clipped rows in chunks, X of shape (chunks, rows, d) and y of shape (chunks, rows).

    Padding rows are zero, so that they add nothing to any gradient.
    """

    X: Any
    y: Any
    placement: Placement

    def chunks(self) -> Iterator[tuple[Any, Any]]:
        """Yield one chunk after another on the device."""
        dtype = self.placement.dtype
        for X, y in zip(self.X, self.y, strict=True):
            yield jnp.asarray(X, dtype), jnp.asarray(y, dtype)


def clip_rows(X: jax.Array, data_norm: float) -> jax.Array:
    """Scale every row of norm above `data_norm` down to it, a few units in the last place inside."""
    norm = jnp.sqrt(jnp.sum(X * X, axis=-1, keepdims=True))
    limit = data_norm * (1 - 16 * float(np.finfo(X.dtype).eps))
    return X * (limit / jnp.maximum(norm, limit))


def place(design: Design, X: Any, y: Any, placement: Placement, *, chains: int) -> Rows:
    """Check the records against `design`, cut them into chunks and put them where they are to stay."""
    rows, labels = design.rows(X), design.responses(y)
    most = placement.chunk_rows or max(1024, (1 << 26) // chains)
    share, any_label = max(1, len(placement.devices)), design.loss.labels[0]
    chunks = -(-design.n // most)
    length = -(-design.n // (chunks * share)) * share
    if placement.stream:
        cuts = [slice(i * length, (i + 1) * length) for i in range(chunks)]
        return Rows(
            [_padded(rows[c], length, 0.0) for c in cuts],
            [_padded(labels[c], length, any_label) for c in cuts],
            placement,
        )
    rows = _padded(rows, chunks * length, 0.0).reshape(chunks, length, design.dimension)
    labels = _padded(labels, chunks * length, any_label).reshape(chunks, length)
    dtype = placement.dtype
    if not placement.devices:
        return Rows(jnp.asarray(rows, dtype), jnp.asarray(labels, dtype), placement)
    mesh = Mesh(np.array(placement.devices), ("rows",))
    shard = NamedSharding(mesh, PartitionSpec(None, "rows"))  # type: ignore[no-untyped-call]
    return Rows(jax.device_put(rows.astype(dtype), shard), jax.device_put(labels.astype(dtype), shard), placement)


def _padded(array: Any, length: int, filler: float) -> Any:
    missing = length - array.shape[0]
    if missing == 0:
        return array
    return np.concatenate([array, np.full((missing, *array.shape[1:]), filler, array.dtype)])
