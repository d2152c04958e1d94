"""Rows scaled into a ball inside the engine; the arithmetic overflows, underflows and reorders nowhere."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.readings.ball_sum import ball_limit
from sottovoce.records.tables.engine import Engine, number
from sottovoce.records.tables.grid import LARGEST, SMALLEST

_LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class Ball:
    """The ball of `radius` around the origin in `dimension` coordinates."""

    dimension: int
    radius: float

    def __post_init__(self) -> None:
        if not SMALLEST <= self.radius <= LARGEST:
            raise InvalidValue(f"a radius must lie between {SMALLEST:.3g} and {LARGEST:.3g}. Got {self.radius}")

    @property
    def limit(self) -> float:
        """The norm that rows are scaled to: short of `radius` by more than all rounding can add."""
        return ball_limit(self.dimension, self.radius)

    @property
    def huge(self) -> float:
        """Where coordinates are cut: 2³⁰⁰ times the radius or more."""
        return math.ldexp(1.0, math.frexp(self.radius)[1] + 300)

    def project(
        self,
        engine: Engine,
        table: Any,
        columns: Sequence[Any],
        *,
        fillers: Sequence[float] | None = None,
        bounded: bool = False,
        kept: Any = None,
        scale: float = 1.0,
        **others: Any,
    ) -> Any:
        """Return a table with the coordinates w0, w1, … of each row, scaled down to `limit` where longer.

        A row outside `kept` counts as the origin, a missing coordinate as 0 and an infinite one as `huge`; where there
        are `fillers`, what is not there or not finite counts as these. `bounded` says that no coordinate is missing or
        beyond `huge`. All are multiplied by `scale`, a power of two. `others` are carried along.
        """
        plain = {f"x{i}": column.cast("float64") for i, column in enumerate(columns)}
        far = [None] * len(plain) if fillers is None else fillers
        rows, carried = table, others
        if bounded and not engine.underflows:
            tame = plain
        elif engine.underflows:
            tame = {name: self._tame(_filled(value, f)) for (name, value), f in zip(plain.items(), far, strict=True)}
        else:  # one question for the whole row, which most rows answer with yes
            square = functools.reduce(operator.add, [value * value for value in plain.values()])
            near = isfinite(square * number((2.0**512 / self.huge) ** 2))
            rows = table.select(**plain, near=near, **others, **({} if kept is None else {"kept": kept}))
            tame = {
                name: ibis.cases((rows.near, rows[name]), else_=self._tame(_filled(rows[name], f)))
                for name, f in zip(plain, far, strict=True)
            }
            carried, kept = {name: rows[name] for name in others}, None if kept is None else rows.kept
        if kept is not None:
            tame = {name: ibis.cases((kept, column), else_=number(0.0)) for name, column in tame.items()}
        rows = engine.stage(rows.select(**tame, **carried))
        squares = [rows[name] * rows[name] for name in tame]
        length = ibis.greatest(functools.reduce(operator.add, squares).sqrt(), number(self.limit))
        rows = engine.stage(rows.mutate(shrink=number(self.limit * scale) / length))
        scaled = {f"w{i}": rows[f"x{i}"] * rows.shrink for i in range(len(tame))}
        return engine.stage(rows.select(**scaled, **{name: rows[name] for name in others}))

    def _tame(self, value: Any) -> Any:
        # Some engines raise an error where a product overflows or underflows, so what could is cut off first:
        # a coordinate below 2⁻¹⁰⁰ of the radius counts as 0, one beyond 2³⁰⁰ times the radius as that.
        tiny, huge = math.ldexp(1.0, math.frexp(self.radius)[1] - 100), self.huge
        return ibis.cases(
            (value.isnan(), number(0.0)),
            (value.abs().between(number(tiny), number(huge)), value),
            (value > number(huge), number(huge)),
            (value < number(-huge), number(-huge)),
            else_=number(0.0),
        )


def _filled(value: Any, filler: float | None) -> Any:
    """Return a column of numbers with a public one in place of what is missing, NaN or infinite."""
    if filler is None:
        return value
    return ibis.cases(
        (value.isnan(), number(filler)),
        (value.abs().between(number(0.0), number(_LARGEST)), value),
        else_=number(filler),
    )


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def isfinite(value: dt.Float64) -> dt.Boolean:
    """Say whether a number is there and finite; null where it is not there."""
