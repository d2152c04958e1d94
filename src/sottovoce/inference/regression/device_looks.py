r"""Looks at records that are held on devices: the same sums in JAX, on a GPU or on many.

Rows are held as whole numbers of 2⁻²³, and the matrix that turns them is split into two of whole numbers, so that every
product and every sum on the way is exact in double precision: what a record becomes does not depend on its place, and
the sums do not depend on how records are cut into chunks or spread over devices.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from sottovoce.inference.regression.formula import Formula
from sottovoce.mechanisms.jax_compilation import compiler_options
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.records.readings import Look, ReadableRecords, Statistics
from sottovoce.records.readings.families import EDGE, FARTHEST, HART
from sottovoce.records.readings.in_memory_records import as_columns

_FINE = 23
"""Rows are whole numbers of 2 to minus this."""
_CHUNK = 1 << 17


@dataclass(frozen=True, eq=False)
class DeviceRecords(ReadableRecords):
    """Encoded records on devices, that may be looked at again and again.

    Attributes
    ----------
    n
        The number of records.
    shards
        For each device its rows, whole numbers of 2⁻²³ by chunk, entry and record, and its responses by chunk and
        record; what fills the last chunk is zero.

    Examples
    --------
    >>> from sottovoce.records.facts import Facts, Flag, Number
    >>> from sottovoce.inference.regression import AdaptiveLooks
    >>> formula = Formula("y ~ a", Facts(y=Flag(), a=Number(-1, 1)))
    >>> held = DeviceRecords.of(formula, {"a": [0.5, -0.25, 1.0], "y": [True, False, True]})
    >>> held.look(formula.look(3)).n
    3
    >>> AdaptiveLooks(formula, 3, 0.5).release(held).value.mean.shape
    (2,)
    """

    n: int
    shards: tuple[tuple[Any, Any], ...]

    @classmethod
    def of(
        cls,
        formula: Formula,
        records: Mapping[str, Any],
        devices: Sequence[Any] = (),
        chunk: int = _CHUNK,
    ) -> Self:
        """Return columns, encoded and spread over devices: all of JAX's unless given."""
        if formula.where is not None:
            raise InvalidValue("a regression where a condition holds reads a table; ask it through a curator")
        if formula.look_kind is not Look:
            raise InvalidValue("devices hold rows, one a record: no averages of persons and no ordered responses")
        if isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < 1:
            raise InvalidValue(f"chunk must be a whole number above zero. Got {chunk!r}")
        look = formula.look(0)
        try:
            columns = as_columns(look.columns, [records[name] for name in formula.columns])
        except (KeyError, TypeError, IndexError):
            raise InvalidData(f"this regression reads the columns {', '.join(formula.columns)}") from None
        n, places = len(columns[-1]), tuple(devices) or tuple(jax.devices())
        share = max(1, -(-n // (chunk * len(places)))) * chunk
        shards = []
        for number, device in enumerate(places):
            subset = [column[number * share : (number + 1) * share] for column in columns]
            shards.append(_shard(look, subset, chunk, device))
        return cls(n, tuple(shards))

    def look(self, reading: Any) -> Statistics:
        """Return the sums of a look at the records."""
        if not isinstance(reading, Look):
            raise InvalidValue(f"records on devices can be looked at, and nothing else. Got a {type(reading).__name__}")
        reading.check_sums(self.n)
        turn = _DeviceTurn.of(reading)
        with jax.enable_x64(True):
            parts = [turn.sums(*shard) for shard in self.shards]
            sums = {name: np.sum([part[i] for part in parts], axis=0) for i, name in enumerate(reading.parts)}
        return Statistics(self.n, reading.join(**sums))


def _shard(look: Look, columns: list[Floats], chunk: int, device: Any) -> tuple[Any, Any]:
    """Return the rows and the responses of a device."""
    n = len(columns[-1])
    chunks = -(-n // chunk)
    rows = np.zeros((chunks, look.encoding.size, chunk), dtype=np.int32)
    y = np.zeros((chunks, chunk))
    for k in range(chunks):
        subset = [column[k * chunk : (k + 1) * chunk] for column in columns]
        encoded, known = look.encoding.rows(subset[:-1], len(subset[-1]))
        outcome = look.model.uncut(subset[-1])
        known = known & ~np.isnan(outcome)
        rows[k, :, : len(known)] = np.rint(np.where(known[:, None], encoded, 0.0) * 2.0**_FINE).T
        y[k, : len(known)] = np.where(known, outcome, 0.0)
    with jax.enable_x64(True):
        return jax.device_put(rows, device), jax.device_put(y, device)


@dataclass(frozen=True)
class _DeviceTurn:
    """What a look does to rows: matrices of whole numbers, and the family."""

    reading: Look
    high: Floats
    low: Floats
    scales: tuple[float, float]

    @classmethod
    def of(cls, reading: Look) -> Self:
        """Return the turn to z and to the linear predictors, in two parts of which each product is exact."""
        full = np.concatenate([reading.matrix, reading.predictors @ reading.matrix])
        fine = 52 - _FINE - (full.shape[1] - 1).bit_length()
        unit = 2.0 ** (math.frexp(float(np.abs(full).max()))[1] - fine)
        high = np.rint(full / unit)
        low = np.rint((full / unit - high) * 2.0**fine)
        return cls(reading, high, low, (unit * 2.0**-_FINE, 2.0**-fine))

    def sums(self, rows: Any, y: Any) -> tuple[Any, ...]:
        """Return the sums of one device, which may still be at work."""
        reading, model = self.reading, self.reading.model
        extra = getattr(model, "extra", 0.0)
        numbers = (*self.scales, reading.norm, *reading.factors, reading.cap, extra, reading.beyond)
        kind = (reading.family, model.outputs, reading.parts, model.stretch, extra > 0)
        powers = np.array(getattr(model, "powers", ((0.0,), (0.0,))))
        result: tuple[Any, ...] = _program()(rows, y, self.high, self.low, np.array(numbers), powers, kind)
        return result


@functools.cache
def _program() -> Any:
    """The sums, to be compiled in half of the time that they would take unasked: they run as fast."""
    return jax.jit(_sums, static_argnums=6, compiler_options=compiler_options())


def _sums(rows: Any, y: Any, high: Any, low: Any, numbers: Any, powers: Any, kind: tuple[Any, ...]) -> tuple[Any, ...]:
    """Add up chunks: whole numbers and their products, none of which double precision rounds."""
    family, outputs, parts, stretch, more = kind
    d = rows.shape[1]
    D = d * outputs
    shapes = {"score": (D,), "information": (D, D), "meat": (D, D)}

    def add(totals: tuple[Any, ...], chunk: tuple[Any, Any]) -> tuple[tuple[Any, ...], None]:
        x, outcome = chunk[0].astype(jnp.float64), chunk[1]
        turned = (_times(high, x) + _times(low, x) * numbers[1]) * numbers[0]
        z, t = turned[:d], turned[d:]
        squares = functools.reduce(operator.add, [column * column for column in z])
        if stretch == 1:
            v = numbers[2] ** 2 / jnp.maximum(squares, numbers[2] ** 2)
        else:
            part = numbers[2] / jnp.sqrt(jnp.maximum(squares, numbers[2] ** 2))
            v = part * jnp.minimum(stretch * part, 1.0)
        if outputs == 1:
            pull, lean = _one(family, powers, numbers[5], numbers[6] if more else None, numbers[7], outcome, t[0])
            w = jnp.rint(z * (numbers[3] * v * pull))
            roots = [jnp.rint(z * (numbers[4] * jnp.sqrt(v * lean)))]
        else:
            w, roots = _several(outputs, numbers, outcome, t, z, v)
        built: dict[str, Any] = {
            "score": w.sum(axis=1),
            "meat": _times(w, w.T),
        }  # what is not asked for is not computed
        built["information"] = functools.reduce(operator.add, [_times(u, u.T) for u in roots])
        return tuple(total + built[part] for total, part in zip(totals, parts, strict=True)), None

    start = tuple(jnp.zeros(shapes[part]) for part in parts)
    return jax.lax.scan(add, start, (rows, y))[0]


def _times(left: Any, right: Any) -> Any:
    return jnp.matmul(left, right, precision=jax.lax.Precision.HIGHEST)


def _one(family: str, powers: Any, cap: Any, extra: Any, beyond: Any, y: Any, t: Any) -> tuple[Any, Any]:
    """Return the residual and the slope of a family of one linear predictor, as `Family` has them."""
    if family == "logistic":
        p = 1 / (1 + jnp.exp(-jnp.clip(t, -FARTHEST, FARTHEST)))
        return y - p, p * (1 - p)
    if family == "probit":
        size = jnp.minimum(jnp.abs(t), EDGE)
        bell = jnp.exp(-size * size / 2)
        tail = bell * jnp.polyval(jnp.array(HART[0]), size) / jnp.polyval(jnp.array(HART[1]), size)
        return y - jnp.where(t > 0, 1 - tail, tail), bell / math.sqrt(2 * math.pi)
    if family == "poisson":
        most = powers.shape[1]
        mu = jnp.exp(jnp.clip(t, -FARTHEST, math.log(4.0 * most + 8.0) + (0.0 if extra is None else 3.0)))
        s, e = mu, jnp.exp(-mu)
        if extra is not None:
            s, e = mu / (1 + extra * mu), jnp.exp(-jnp.log(1 + extra * mu) / extra)
        above, below = (jnp.polyval(part, s) for part in powers)
        kept = jnp.minimum(y, most) - (most - e * above)
        far = jnp.clip(y, beyond, cap) - beyond
        return jnp.where(beyond > 0, far, kept), s * e * below
    off = y - t
    cut = jnp.where(cap > 0, cap, jnp.inf)
    kept = jnp.clip(off, -cut, cut)
    return kept - jnp.clip(kept, -beyond, beyond), (jnp.abs(off) <= cut).astype(jnp.float64)


def _several(outputs: int, numbers: Any, y: Any, t: Any, z: Any, v: Any) -> tuple[Any, list[Any]]:
    """Return w, and the u whose squares add up to the information, with a linear predictor for each class but one."""
    powers = [jnp.exp(jnp.clip(row, -FARTHEST, FARTHEST)) for row in t]
    below = 1 + functools.reduce(operator.add, powers)
    p = [power / below for power in powers]
    remainder = jnp.maximum(1 - functools.reduce(operator.add, p), 0.0)
    weighed = z * (numbers[3] * v)
    w = jnp.rint(jnp.concatenate([weighed * ((y == k + 1) - p[k]) for k in range(outputs)]))
    roots = []
    for m, share in enumerate([remainder, *p]):
        scaled = z * (numbers[4] * jnp.sqrt(v * share))
        roots.append(jnp.rint(jnp.concatenate([scaled * ((m == k + 1) - p[k]) for k in range(outputs)])))
    return w, roots
