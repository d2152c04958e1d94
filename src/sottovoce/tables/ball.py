"""Rows scaled into a ball inside the engine; the arithmetic overflows, underflows and reorders nowhere."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ibis

from sottovoce.privacy.errors import InvalidValue
from sottovoce.readings.ball_sum import ball_limit
from sottovoce.tables.engine import Engine, number
from sottovoce.tables.grid import LARGEST, SMALLEST

__all__ = ["Ball"]


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

    def project(
        self,
        engine: Engine,
        table: Any,
        columns: Sequence[Any],
        *,
        kept: Any = None,
        finite: bool = False,
        **others: Any,
    ) -> Any:
        """Return a table with the coordinates w0, w1, … of each row, scaled down to `limit` where longer.

        A missing coordinate counts as 0, an infinite one as 2³⁰⁰ times the radius or more, a row outside
        `kept` as the origin; `finite` says that none is missing or infinite. `others` are carried along.
        """
        cut = self._cut if finite and not engine.underflows else self._tame
        tame = {f"x{i}": cut(column.cast("float64")) for i, column in enumerate(columns)}
        if kept is not None:
            tame = {name: ibis.cases((kept, column), else_=number(0.0)) for name, column in tame.items()}
        rows = engine.stage(table.select(**tame, **others))
        squares = [rows[name] * rows[name] for name in tame]
        limit = number(self.limit)
        length = ibis.greatest(functools.reduce(operator.add, squares).sqrt(), limit)
        rows = engine.stage(rows.mutate(shrink=limit / length))
        scaled = {f"w{i}": rows[f"x{i}"] * rows.shrink for i in range(len(tame))}
        return engine.stage(rows.select(**scaled, **{name: rows[name] for name in others}))

    def _cut(self, value: Any) -> Any:
        huge = math.ldexp(1.0, math.frexp(self.radius)[1] + 300)
        return ibis.greatest(ibis.least(value, number(huge)), number(-huge))

    def _tame(self, value: Any) -> Any:
        # Some engines raise an error where a product overflows or underflows, so what could is cut off first:
        # a coordinate below 2⁻¹⁰⁰ of the radius counts as 0, one beyond 2³⁰⁰ times the radius as that.
        exponent = math.frexp(self.radius)[1]
        tiny, huge = math.ldexp(1.0, exponent - 100), math.ldexp(1.0, exponent + 300)
        return ibis.cases(
            (value.isnan(), number(0.0)),
            (value.abs().between(number(tiny), number(huge)), value),
            (value > number(huge), number(huge)),
            (value < number(-huge), number(-huge)),
            else_=number(0.0),
        )
