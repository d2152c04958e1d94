"""A number made of two rows of an answer, a difference or a ratio, with its interval."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sottovoce.inference.cells.intervals import central
from sottovoce.privacy.numbers import Floats
from sottovoce.service.answers.digits import formatted

_NO_END = float(np.finfo(np.float64).max / 2)
"""What a ratio to nothing is told as: two of them can still be added."""
_ENDLESS = 1e15
"""A ratio beyond this is one to nothing."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """One number made of two rows of an answer, with its interval."""

    what: str
    draws: Floats = field(repr=False)
    level: float = 0.95
    ends: Callable[[float], Floats] | None = field(default=None, repr=False)
    """The interval of a level, where it is not that of the draws alone."""
    told: bool = True
    """Whether noise hides neither row."""

    @property
    def estimate(self) -> float:
        """The posterior median; NaN where noise hides a row: it would be the middle of all that there can be."""
        return float(np.median(self.draws)) if self.told else math.nan

    def interval(self, level: float | None = None) -> Floats:
        """Return (low, high) of the interval that holds `level`, with as many draws below as above.

        It is drawn out as far as the intervals of both rows are where noise hides one of them.
        """
        level = self.level if level is None else level
        if self.ends is not None:
            return np.asarray(self.ends(level))
        return np.asarray(central(self.draws[:, None], level)[0] if self.told else [-_NO_END, _NO_END])

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return float(self.interval()[0])

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return float(self.interval()[1])

    @property
    def row(self) -> dict[str, float | None]:
        """The numbers as plain values, as in a row of an answer: the estimate is None where it is not told."""
        return {"estimate": self.estimate if self.told else None, "low": self.low, "high": self.high}

    def __repr__(self) -> str:
        if max(abs(self.low), abs(self.high)) < _NO_END:
            middle, low, high = formatted(self.row)
        else:
            middle, low, high = (_told(value) for value in (self.estimate, self.low, self.high))
        return f"{self.what}: {middle} ({low} to {high})"


def ratio_or_endless(first: Any, second: Any) -> Any:
    """Return one number over another, as large as two of them can be added where the second is nothing beside it."""
    tiny = np.finfo(np.float64).tiny
    with np.errstate(over="ignore"):
        result = first / np.where(np.abs(second) < tiny, tiny, second)
    return np.where(np.abs(result) > _ENDLESS, np.copysign(_NO_END, result), result)


def _told(value: float) -> str:
    if math.isnan(value):
        return "?"
    return f"{value:.3g}" if abs(value) < _NO_END else "∞" if value > 0 else "-∞"
