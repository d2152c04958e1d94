"""The family of numbers with noise of unknown variance."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from sottovoce.privacy.numbers import Floats
from sottovoce.records.facts.columns import Column, Count, Number
from sottovoce.records.facts.encodings import Scale, scale_of
from sottovoce.records.readings.family import Family


@dataclass(frozen=True)
class LinearFamily(Family):
    """y is t and noise of unknown variance; y is measured in half widths of its public bounds, from their middle.

    Where rows have no constant it is measured from zero, in units of the bound that is farthest from it.

    Where `cap` is above 0, what lies farther from t than that pulls as if it lay there (Huber 1964). Where `beyond` is
    too, below it, only what lies farther out than that pulls, by how much farther.
    """

    word: ClassVar[str] = "linear"
    wants: ClassVar[str] = "a number or a count"
    curved: ClassVar[bool] = False
    missed: ClassVar[float] = 0.15
    cutting: ClassVar[str] = "residuals cut at ±{:.3g}; what long tails lose is measured and allowed for"
    unmeasured: ClassVar[str] = "residuals cut at ±{:.3g}; what long tails lose is guessed and allowed for"
    cap: float = 0.0
    beyond: float = 0.0
    centred: bool = True

    @classmethod
    def of(cls, response: Column, cap: float, extra: float, beyond: float) -> Self:
        """Return the family of a response, residuals cut at `cap`."""
        del extra
        return cls(response, float(cap), float(beyond))

    def takes(self) -> bool:
        """Say whether it is a number."""
        return isinstance(self.response, Number | Count)

    def from_zero(self) -> Self:
        """Return the family with its response measured from zero."""
        return replace(self, centred=False)

    @property
    def scale(self) -> Scale:
        """How the response is measured."""
        return scale_of(self.response, centred=self.centred)

    def outcome(self, values: Floats) -> Floats:
        """Return the response between −1 and 1."""
        return self.scale(super().outcome(values))

    def mean(self, t: Floats) -> Floats:
        """Return t."""
        return t

    def expected(self, t: Floats) -> Floats:
        """Return t in the units of the response, within its public bounds."""
        return np.clip(self.scale.middle + self.scale.half * t, self.scale.low, self.scale.high)

    def slope(self, t: Floats) -> Floats:
        """Return 1."""
        return np.ones_like(t)

    def residual(self, y: Floats, t: Floats) -> Floats:
        """Return y − t, cut at the cap; or what of it lies beyond."""
        off = np.clip(y - t, -self.cap, self.cap) if self.cap else y - t
        return off - np.clip(off, -self.beyond, self.beyond) if self.beyond else off

    def steepness(self, y: Floats, t: Floats) -> Floats:
        """Return 1, or 0 beyond the cap."""
        return (np.abs(y - t) <= self.cap).astype(np.float64) if self.cap else np.ones_like(t)

    steepest = 1.0

    def bound(self, reach: float) -> float:
        """Return 1 + reach, or the cap; or how far beyond the cap is."""
        return self.cap - self.beyond if self.beyond else min(1.0 + reach, self.cap or math.inf)
