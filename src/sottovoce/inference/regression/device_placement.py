"""Rows on devices: clipped, padded, cut into chunks, spread over as many devices as there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from sottovoce.inference.regression.design import Design
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats

__all__ = ["LOT", "Placed", "Placement", "are_few", "current", "place", "place_apart", "placed"]

_FEW = 1 << 16
"""Bytes of rows that are not worth a place on a device."""
LOT = 64
"""How many releases run side by side, for an attack: always as many, so that one compiled program serves all."""
_TOGETHER = 1 << 18
"""How many numbers the rows of a lot may hold together."""


@dataclass(frozen=True)
class Placement:
    """Where and how the rows are held.

    Attributes
    ----------
    devices
        The devices to spread the rows over; JAX's default device where empty.
    precision
        ``"float64"``, or ``"float32"`` for speed. The certificate counts what rounding can do, in any order of
        summation; where single precision would add more than a tenth to μ, a release is unproven and refused
        unless you accept that.
    chunk_rows
        At most this many rows are multiplied at once, so that the n × chains predictors fit in memory.
    stream
        Keep the rows on the host (a NumPy memory map will do) and send them chunk by chunk at every step.
    """

    devices: Sequence[Any] = ()
    precision: str = "float64"
    chunk_rows: int | None = None
    stream: bool = False

    def __post_init__(self) -> None:
        if self.precision not in ("float64", "float32"):
            raise InvalidValue(f"precision must be 'float64' or 'float32'. Got {self.precision!r}")
        size = self.chunk_rows
        if size is not None and (isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1):
            raise InvalidValue(f"chunk_rows must be a whole number >= 1. Got {size!r}")

    @property
    def dtype(self) -> Any:
        """The NumPy type of the arithmetic."""
        return np.dtype(self.precision)


Progress = Callable[[float], None]
_CURRENT: ContextVar[tuple[Placement, Progress | None]] = ContextVar("placement", default=(Placement(), None))


@contextmanager
def placed(placement: Placement | None = None, progress: Progress | None = None) -> Iterator[None]:
    """Run the chains of all releases within on these devices, and tell `progress` the fraction done.

    Where a chain runs is nobody's business but the machine's: it is no part of the mechanism.
    """
    token = _CURRENT.set((placement or Placement(), progress))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current() -> tuple[Placement, Progress | None]:
    """Return where chains run now, and whom to tell."""
    return _CURRENT.get()


@dataclass(frozen=True)
class Placed:
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


def place(design: Design, X: Any, y: Any, placement: Placement, *, chains: int) -> Placed:
    """Clip the records to `design`, cut them into chunks and put them where they are to stay.

    Rows are clipped in double precision on the host and cast afterwards: a number that single precision cannot hold
    is brought back into range before it becomes infinite. Rows to be streamed are clipped whenever they are sent.
    """
    rows, labels = design.rows(X), design.responses(y)
    if len(rows) != len(labels):
        raise InvalidData(f"every row has one label. Got {len(rows)} rows and {len(labels)} labels")
    most = placement.chunk_rows or max(1024, (1 << 26) // chains)
    share, any_label = max(1, len(placement.devices)), design.loss.labels[0]
    chunks = -(-len(rows) // most)
    length = -(-len(rows) // (chunks * share)) * share
    labels = _padded(labels, chunks * length, any_label).reshape(chunks, length).astype(placement.dtype)
    cuts = [slice(i * length, (i + 1) * length) for i in range(chunks)]

    def clipped(cut: slice) -> Any:
        return _padded(design.clip(rows[cut], placement.dtype).astype(placement.dtype), length, 0.0)

    if placement.stream:
        return Placed(_Lazy([partial(clipped, cut) for cut in cuts]), labels, placement)
    held = np.empty((chunks, length, design.dimension), placement.dtype)
    for chunk, cut in zip(held, cuts, strict=True):
        chunk[:] = clipped(cut)
    if not placement.devices:
        if held.nbytes <= _FEW:  # they travel with each call in less time than it takes to put them anywhere
            return Placed(held, labels, placement)
        return Placed(jax.device_put(held), jax.device_put(labels), placement)
    mesh = Mesh(np.array(placement.devices), ("rows",))
    shard = NamedSharding(mesh, PartitionSpec(None, "rows"))  # type: ignore[no-untyped-call]
    return Placed(jax.device_put(held, shard), jax.device_put(labels, shard), placement)


def are_few(releases: int, size: int) -> bool:
    """Say whether releases of tables of so many numbers each are run side by side here and now."""
    return releases > 1 and LOT * size <= _TOGETHER and current()[0] == Placement()


def place_apart(design: Design, X: Floats, y: Floats, placement: Placement) -> Placed:
    """Clip few rows of several releases, a table each, with labels of their own or the same; one chunk each."""
    releases, n, d = X.shape
    rows = design.clip(X.reshape(-1, d), placement.dtype).astype(placement.dtype)
    labels = np.broadcast_to(design.responses(np.ravel(y)).reshape(y.shape), (releases, n)).astype(placement.dtype)
    return Placed(rows.reshape(releases, 1, n, d), labels[:, None], placement)


@dataclass(frozen=True)
class _Lazy:
    """Chunks that are made anew each time they are gone through."""

    makers: Sequence[Callable[[], Any]]

    def __iter__(self) -> Iterator[Any]:
        return (make() for make in self.makers)


def _padded(array: Any, length: int, filler: float) -> Any:
    missing = length - array.shape[0]
    if missing == 0:
        return array
    return np.concatenate([array, np.full((missing, *array.shape[1:]), filler, array.dtype)])
