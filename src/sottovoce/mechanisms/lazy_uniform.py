"""A uniform number drawn bit by bit, and the cell of a law in which it lies, for sure."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from sottovoce.mechanisms.ball_arithmetic import Ball, BallFunction, ball, precision
from sottovoce.mechanisms.rounding_cells import RoundingCells, exact
from sottovoce.privacy.randomness import SecureGenerator

_FIRST = 8
"""Bytes of U that are drawn at once."""
_IN_WORDS = (np.random.Philox, np.random.SFC64, np.random.PCG64, np.random.PCG64DXSM)
"""Generators whose words have as many; those of a Mersenne twister have half."""
_LARGEST = float(np.finfo(np.float64).max)
_GUARD = 40
"""Bits of precision beyond those of U at first: what sums of a million records lose, and some."""


class BitSource(Protocol):
    """Where bits come from: a secure generator, or a test's own list."""

    def bytes(self, length: int, /) -> bytes:
        """Return so many random bytes."""


class LazyUniform:
    """A uniform number of which as many bits are known as were asked for: value·2^-bits <= U < (value+1)·2^-bits."""

    def __init__(self, source: BitSource, word: int | None = None) -> None:
        self._source = source
        self.bits, self.value = (0, 0) if word is None else (8 * _FIRST, word)
        if word is None:
            self.refine()

    def refine(self) -> None:
        """Draw more bits."""
        self.value = self.value << (8 * _FIRST) | int.from_bytes(_drawn(self._source), "big")
        self.bits += 8 * _FIRST

    def beyond(self, threshold: Any) -> bool:
        """Say whether threshold <= U, for sure; `threshold(precision)` returns a ball around a number."""
        bits = self.bits + _GUARD
        while True:
            result: Ball = threshold(bits)
            with precision(bits):
                low, high = ball((self.value, -self.bits)), ball((self.value + 1, -self.bits))
                if result <= low:
                    return True
                if result >= high:
                    return False
                narrow = result.rad() < ball((1, -self.bits))
            if narrow:
                self.refine()
            bits = max(self.bits + _GUARD, bits + (0 if narrow else bits // 2))

    @property
    def double(self) -> tuple[float, float]:
        """About U and 1 - U, neither of them zero."""
        full = 1 << (self.bits + 1)
        odd = 2 * self.value + 1
        return odd / full, (full - odd) / full


def _drawn(source: BitSource) -> bytes:
    """Return the next bytes: where they are a generator's next word, that, in a twentieth of the time."""
    kind, words = type(source), getattr(source, "bit_generator", None)
    # A generator that draws in a way of its own is asked for bytes.
    if words is not None and (kind is SecureGenerator or (kind is np.random.Generator and type(words) in _IN_WORDS)):
        return int(words.random_raw()).to_bytes(_FIRST, "little")
    return source.bytes(_FIRST)


def find_cell(function: BallFunction, cells: RoundingCells, uniform: LazyUniform) -> int:
    """Return the cell k with F(edge k) <= U < F(edge k+1), for sure."""
    first, last = cells.ends

    def reached(k: int) -> bool:
        if first is not None and k <= first:
            return True
        if last is not None and k >= last:
            return False
        return uniform.beyond(lambda bits: function(exact(cells.edge(k)), bits))

    k = _start(function, cells, uniform)
    step = 1
    if reached(k):
        low, high = k, k + 1
        while reached(high):
            step *= 2
            low, high = high, high + step
    else:
        low, high = k - 1, k
        while not reached(low):
            step *= 2
            low, high = low - step, low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if reached(middle) else (low, middle)
    return low


def _start(function: BallFunction, cells: RoundingCells, uniform: LazyUniform) -> int:
    """Return about where the cell is, by the quantile in doubles."""
    x = function.guess(*uniform.double)
    at = Fraction(min(x, _LARGEST)) if x > -math.inf else function.low or Fraction(0)
    at = at if function.low is None else max(at, function.low)
    at = at if function.high is None else min(at, function.high)
    return cells.index(at)
