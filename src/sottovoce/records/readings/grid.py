"""A public fixed-point grid, so that a sum is the same number in any order and on every engine.

Floating-point addition depends on its order, and every engine adds in its own. Integers do not: each record
is rounded to a multiple of 2⁻ᵏ that the public bounds choose, and the integers are added exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Self

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, Integers, real

PLACES = 51
"""Integers to 2⁵¹ survive a double, with room for half a step and a sign."""
_NARROWEST, _WIDEST = 2.0**-400, 2.0**400
"""Squares, and squares times n, stay numbers."""
_HALF = 26
_FINE = 2.0**-20
"""Grid step of a noisy sum of fractions, beside the width of a record."""


@dataclass(frozen=True)
class Grid:
    """The multiples of 2⁻ᵏ, k = `bits`.

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
        mantissa, exponent = math.frexp(bound)
        return cls(PLACES - exponent + (mantissa == 0.5))

    @cached_property
    def scale(self) -> float:
        """2ᵏ, by which a record is multiplied; exact in a double."""
        return math.ldexp(1.0, self.bits)

    @cached_property
    def unit(self) -> Fraction:
        """2ᵏ as a fraction."""
        return Fraction(2) ** self.bits

    def nearest(self, x: float) -> int:
        """Return the integer nearest to x·2ᵏ, ties to even."""
        return round(Fraction(x) * self.unit)

    def inside(self, low: float, high: float) -> tuple[int, int]:
        """Return the first and last step within [low, high]: rounding takes no record out of its bounds."""
        return math.ceil(Fraction(low) * self.unit), math.floor(Fraction(high) * self.unit)

    def steps(self, values: Floats, first: int, last: int) -> Integers:
        """Return the step nearest to each value, ties to even, cut to first..last (at most 2⁵³ in size)."""
        with np.errstate(over="ignore", under="ignore"):
            scaled = np.ldexp(values, self.bits)
        return np.clip(np.rint(scaled), first, last).astype(np.int64)

    def value(self, steps: int) -> float:
        """Return steps·2⁻ᵏ, rounded once."""
        return float(steps / self.unit)


def exact_sum(steps: Integers) -> int:
    """Return the sum of whole numbers, none of which can overflow: halves of their bits are added apart.

    >>> exact_sum(np.full(5, 2**62)) == 5 * 2**62
    True
    """
    return exact_sums(steps[:, None])[0]


def exact_sums(steps: Integers) -> list[int]:
    """Return the sum of each column, as `exact_sum` does."""
    high, low = (part.sum(axis=0).tolist() for part in (steps >> _HALF, steps & ((1 << _HALF) - 1)))
    return [(above << _HALF) + below for above, below in zip(high, low, strict=True)]


def check_span(low: float, high: float, what: str = "the bounds") -> float:
    """Return how far two public bounds lie apart, rounded up, or raise `InvalidValue`.

    Widths near the ends of what a double can hold are refused: one more step and a claim would be 0 or infinite.

    >>> check_span(1e9, 1e9 + 1), round(check_span(0.1, 0.3), 9)
    (1.0, 0.2)
    """
    low, high = real("low", low, -math.inf), real("high", high, -math.inf)
    if not low < high:
        raise InvalidValue(f"{what} must be finite, the lower one first. Got {low} and {high}")
    width = high - low
    if not _NARROWEST <= width <= _WIDEST:
        raise InvalidValue(f"{what} lie too close together or too far apart; use another unit. Got {low} and {high}")
    return width if Fraction(width) >= Fraction(high) - Fraction(low) else math.nextafter(width, math.inf)


def sum_error(n: int, largest: float) -> float:
    """Return more than what adding n doubles of this size pairwise, or compensated, can be off by."""
    return 2.0**-48 * math.log2(n + 2) * n * largest


def noisy_grid(n: int, width: float, largest: float) -> float:
    """Return the grid step of a noisy sum of fractions: fine beside a record and far above the error of a sum.

    Pairwise or compensated sums of n numbers up to M err by less than 2⁻⁵³·2·log₂(n)·n·M; the step is 16 times that or
    more, and at least 2⁻²⁰ of a record's width.
    """
    error = 2.0**-53 * 2 * math.log2(n + 2) * max(n, 1) * largest
    return float(2.0 ** math.ceil(math.log2(max(width * _FINE, 16 * error))))
