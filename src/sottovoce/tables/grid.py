"""A public fixed-point grid, so that a sum is the same number on every engine.

Floating-point addition depends on its order, and every engine adds in its own. Integers do not: each record
is rounded to a multiple of 2⁻ᵏ that the public bounds choose, and the integers are added exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from sottovoce.privacy.errors import InvalidValue

__all__ = ["Grid"]

PLACES = 51
"""Integers to 2⁵¹ survive a double, with room for half a step and a sign."""

SMALLEST, LARGEST = 2.0**-64, 2.0**PLACES


@dataclass(frozen=True)
class Grid:
    """The multiples of 2⁻ᵏ, k = `bits` ≥ 0.

    Examples
    --------
    >>> grid = Grid.covering(100.0)
    >>> grid.bits, grid.nearest(0.5) == 2**43, grid.value(3 * 2**43)
    (44, True, 1.5)
    >>> Grid(0).inside(0.5, 3.7)
    (1, 3)
    """

    bits: int

    @classmethod
    def covering(cls, bound: float) -> Self:
        """Return the finest grid on which every number within ±`bound` is at most 2⁵¹ steps from zero."""
        if bound == 0:
            return cls(0)
        if not SMALLEST <= bound <= LARGEST:
            raise InvalidValue(
                f"bounds must lie between {SMALLEST:.3g} and {LARGEST:.3g} in size. Got {bound}; "
                "measure the column in another unit"
            )
        mantissa, exponent = math.frexp(bound)
        return cls(PLACES - exponent + (mantissa == 0.5))

    @property
    def scale(self) -> float:
        """2ᵏ, by which a record is multiplied; exact in a double."""
        return math.ldexp(1.0, self.bits)

    def nearest(self, x: float) -> int:
        """Return the integer nearest to x·2ᵏ, ties to even."""
        return round(Fraction(x) * (1 << self.bits))

    def inside(self, low: float, high: float) -> tuple[int, int]:
        """Return the first and last step within [low, high]: rounding takes no record out of its bounds."""
        unit = 1 << self.bits
        return math.ceil(Fraction(low) * unit), math.floor(Fraction(high) * unit)

    def value(self, steps: int) -> float:
        """Return steps·2⁻ᵏ, rounded once."""
        return steps / (1 << self.bits)
