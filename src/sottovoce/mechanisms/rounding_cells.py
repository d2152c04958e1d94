"""Public cells: what a sample is rounded to. They depend on no data, and hardly on the mechanism.

A sample leaves as the middle of the cell it lies in. Cells are numbered in order; edge k is the dyadic number
mantissa·2^exponent between cell k - 1 and cell k. They come in three shapes: of equal width, for a mean; as many
significant bits as a double of fewer bits has, for a rate; and so from both ends, for a share.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from sottovoce.privacy.numbers import Floats

__all__ = ["EvenCells", "FloatingCells", "RoundingCells", "SignedCells", "UnitCells"]

Dyadic = tuple[int, int]
"""mantissa, exponent."""

_BITS = 32
"""A cell is at most 2⁻³¹ of its value, or of its value's complement: a posterior of up to 2³⁰ records is 2¹⁵ cells wide
or more."""
_LEAST = -1000
"""Below 2⁻⁹⁶⁸ cells are of equal width."""


class RoundingCells(ABC):
    """A division of a range into cells, numbered in order."""

    @abstractmethod
    def edge(self, k: int) -> Dyadic:
        """Return the lower edge of cell k."""

    @abstractmethod
    def index(self, x: Fraction) -> int:
        """Return a cell at x: the one that holds it, or a neighbour where x is an edge."""

    @property
    def ends(self) -> tuple[int | None, int | None]:
        """The first edge and the last, where there are such."""
        return None, None

    def middle(self, k: int) -> Fraction:
        """Return what leaves when the sample lies in cell k, before it becomes a double."""
        return (exact(self.edge(k)) + exact(self.edge(k + 1))) / 2

    def value(self, k: int) -> float:
        """Return the double that leaves when the sample lies in cell k."""
        return nearest_double(self.middle(k))

    @abstractmethod
    def around(self, values: Floats) -> tuple[Floats, Floats]:
        """Return both edges of the cell at each of many doubles; NaN where a double is too coarse for an edge."""

    def round(self, values: Floats) -> Floats:
        """Return doubles as they would leave: for experiments, whose samples are doubles to begin with."""
        flat = [self.value(self.index(Fraction(x))) for x in np.ravel(values).tolist()]
        return np.reshape(np.array(flat, dtype=np.float64), np.shape(values))

    def complement(self, values: Floats) -> Floats:
        """Return the doubles nearest to one less the middle of the cell at each of many doubles."""
        return np.asarray(1 - self.round(values))


def exact(edge: Dyadic) -> Fraction:
    """Return a dyadic number as a fraction."""
    mantissa, exponent = edge
    return Fraction(mantissa << exponent) if exponent >= 0 else Fraction(mantissa, 1 << -exponent)


def nearest_double(x: Fraction) -> float:
    """Return the double nearest to x, the largest there is where x is beyond it."""
    try:
        return float(x)
    except OverflowError:
        return sys.float_info.max if x > 0 else -sys.float_info.max


@dataclass(frozen=True)
class EvenCells(RoundingCells):
    """Cells of width 2^exponent.

    >>> cells = EvenCells.beside(3.0)
    >>> cells.exponent, cells.value(cells.index(Fraction(1, 3)))
    (-23, 0.3333333134651184)
    """

    exponent: int

    @classmethod
    def beside(cls, spread: float, bits: int = 24) -> EvenCells:
        """Return cells between 2^-bits and half of that of a public spread."""
        return cls(math.frexp(spread)[1] - 1 - bits)

    def edge(self, k: int) -> Dyadic:
        """Return k·2^exponent."""
        return k, self.exponent

    def index(self, x: Fraction) -> int:
        """Return the cell that holds x."""
        return math.floor(x / exact((1, self.exponent)))

    def around(self, values: Floats) -> tuple[Floats, Floats]:
        """Return both edges of the cell at each of many doubles."""
        steps = np.floor(np.ldexp(np.asarray(values, dtype=np.float64), -self.exponent))
        steps = np.where(np.abs(steps) < 2.0**52, steps, np.nan)
        return np.ldexp(steps, self.exponent), np.ldexp(steps + 1, self.exponent)

    def round(self, values: Floats) -> Floats:
        """Return doubles as they would leave."""
        steps = np.floor(np.ldexp(np.asarray(values, dtype=np.float64), -self.exponent)) + 0.5
        return np.asarray(np.ldexp(steps, self.exponent))


@dataclass(frozen=True)
class FloatingCells(RoundingCells):
    """Cells on [0, ∞) of `bits` significant bits, and of width 2^least near zero.

    >>> cells = FloatingCells(3, -3)
    >>> [str(exact(cells.edge(k))) for k in range(13)]
    ['0', '1/8', '1/4', '3/8', '1/2', '5/8', '3/4', '7/8', '1', '5/4', '3/2', '7/4', '2']
    >>> cells.index(Fraction(13, 10)), cells.value(9)
    (9, 1.375)
    """

    bits: int = _BITS
    least: int = _LEAST

    @property
    def ends(self) -> tuple[int | None, int | None]:
        """Zero is the first edge."""
        return 0, None

    def edge(self, k: int) -> Dyadic:
        """Return the k-th number of so many bits, as the bits of a double count them."""
        if k < 1 << self.bits:
            return k, self.least
        top = self.bits - 1
        return (k & ((1 << top) - 1)) | (1 << top), self.least + (k >> top) - 1

    def index(self, x: Fraction) -> int:
        """Return the cell that holds x."""
        steps = (x.numerator << -self.least) // x.denominator if x > 0 else 0
        shift = max(steps.bit_length() - self.bits, 0)
        return (shift << (self.bits - 1)) + (steps >> shift)

    def around(self, values: Floats) -> tuple[Floats, Floats]:
        """Return both edges of the cell at each of many doubles."""
        x = np.maximum(np.asarray(values, dtype=np.float64), 0.0)
        if self.bits < 53 and np.all((x >= 2.0 ** max(self.least + self.bits, -1022)) & (x < np.inf)):
            # Bits of a double beyond so many are struck off; one more in the last place is the next edge.
            unit = 1 << (53 - self.bits)
            words = x.view(np.int64) & -unit
            return words.view(np.float64), (words + unit).view(np.float64)
        width = np.maximum(np.frexp(x)[1] - self.bits, self.least)
        steps = np.floor(np.ldexp(x, -width))
        return np.ldexp(steps, width), np.ldexp(steps + 1, width)

    def round(self, values: Floats) -> Floats:
        """Return doubles as they would leave."""
        low, high = self.around(values)
        return np.asarray(low + (high - low) / 2)


@dataclass(frozen=True)
class UnitCells(RoundingCells):
    """Cells on [0, 1]: those of `FloatingCells` up to one half, and their mirror image from there on.

    >>> cells = UnitCells(2, -3)
    >>> [str(exact(cells.edge(k))) for k in range(9)]
    ['0', '1/8', '1/4', '3/8', '1/2', '5/8', '3/4', '7/8', '1']
    """

    bits: int = _BITS
    least: int = _LEAST

    @cached_property
    def _half(self) -> int:
        return self._lower.index(Fraction(1, 2))

    @cached_property
    def _lower(self) -> FloatingCells:
        return FloatingCells(self.bits, self.least)

    @property
    def ends(self) -> tuple[int | None, int | None]:
        """Zero and one."""
        return 0, 2 * self._half

    def edge(self, k: int) -> Dyadic:
        """Return an edge below one half, or one less its mirror image."""
        half = self._half
        if k <= half:
            return self._lower.edge(k)
        mantissa, exponent = self._lower.edge(2 * half - k)
        return (1 << -exponent) - mantissa, exponent

    def index(self, x: Fraction) -> int:
        """Return a cell at x."""
        if 2 * x.numerator < x.denominator:
            return self._lower.index(x)
        return 2 * self._half - 1 - self._lower.index(max(1 - x, Fraction(0)))

    def value(self, k: int) -> float:
        """Return the double that leaves, never one itself."""
        return min(super().value(k), 1 - 2.0**-53)

    def around(self, values: Floats) -> tuple[Floats, Floats]:
        """Return both edges of the cell at each of many doubles; NaN near one, where doubles are too coarse."""
        x, y = self._sides(values)
        low, high = self._lower.around(y)
        fine = (1 - (1 - low) == low) & (1 - (1 - high) == high)
        above = [np.where(fine, 1 - edge, np.nan) for edge in (high, low)]
        return np.where(x < 0.5, low, above[0]), np.where(x < 0.5, high, above[1])

    def round(self, values: Floats) -> Floats:
        """Return doubles as they would leave."""
        x, y = self._sides(values)
        below = self._lower.round(y)
        return np.where(x < 0.5, below, np.minimum(1 - below, 1 - 2.0**-53))

    def complement(self, values: Floats) -> Floats:
        """Return one less the middle: near one the middle is no double, and what is left of one is."""
        x, y = self._sides(values)
        below = self._lower.round(y)
        return np.where(x < 0.5, 1 - below, below)

    @staticmethod
    def _sides(values: Floats) -> tuple[Floats, Floats]:
        """Return shares, and how far each is from its nearer end: always less than one half."""
        x = np.clip(np.asarray(values, dtype=np.float64), 0.0, 1.0)
        return x, np.minimum(np.minimum(x, 1 - x), np.nextafter(0.5, 0.0))


@dataclass(frozen=True)
class SignedCells(RoundingCells):
    """`FloatingCells` on both sides of zero."""

    bits: int = 50
    least: int = _LEAST

    @cached_property
    def _upper(self) -> FloatingCells:
        return FloatingCells(self.bits, self.least)

    def edge(self, k: int) -> Dyadic:
        """Return an edge, mirrored below zero."""
        mantissa, exponent = self._upper.edge(abs(k))
        return (mantissa if k >= 0 else -mantissa), exponent

    def index(self, x: Fraction) -> int:
        """Return a cell at x."""
        return self._upper.index(x) if x >= 0 else -1 - self._upper.index(-x)

    def around(self, values: Floats) -> tuple[Floats, Floats]:
        """Return both edges of the cell at each of many doubles."""
        x = np.asarray(values, dtype=np.float64)
        low, high = self._upper.around(np.abs(x))
        return np.where(x < 0, -high, low), np.where(x < 0, -low, high)

    def round(self, values: Floats) -> Floats:
        """Return doubles as they would leave."""
        return np.copysign(self._upper.round(np.abs(values)), values)
