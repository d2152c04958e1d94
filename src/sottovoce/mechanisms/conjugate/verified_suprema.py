"""Suprema that are proven: branch and bound in ball arithmetic.

A ball is a number and a radius in which the truth provably lies (Arb, by python-flint). Where a function is known in
balls, its largest value over an interval lies between one that is attained and one that no point exceeds.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import cache
from typing import Any

from sottovoce.privacy.errors import InvalidValue

__all__ = ["Ball", "ball", "ends", "interval", "monotone", "precision", "supremum", "supremum_of"]

Ball = Any
"""An `arb` of python-flint."""
_BOXES, _BLIND = 600, 40
"""How many boxes a search may open, and how many where it sees no bound at all."""


@cache
def _flint() -> Any:
    import flint  # noqa: PLC0415 - only a search needs it

    return flint


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Compute with so many bits inside."""
    ctx = _flint().ctx
    before, ctx.prec = ctx.prec, bits
    try:
        yield
    finally:
        ctx.prec = before


def ball(x: Fraction | int) -> Ball:
    """Return the ball of a fraction."""
    flint = _flint()
    return flint.arb(flint.fmpq(*x.as_integer_ratio()))


def interval(low: Fraction, high: Fraction) -> Ball:
    """Return a ball that holds everything between two fractions."""
    return ball(low).union(ball(high))


def monotone(function: Callable[[Ball], Ball], x: Ball) -> Ball:
    """Return a ball of a monotone function over a wide ball: all it takes lies between its ends.

    >>> wide = monotone(lambda t: 1 / t, interval(Fraction(1), Fraction(4)))
    >>> [round(end, 6) for end in ends(wide)]
    [0.25, 1.0]
    """
    return function(x.lower()).union(function(x.upper()))


def ends(value: Ball) -> tuple[float, float]:
    """Return doubles below and above everything in a ball; infinite where it holds no bound.

    >>> low, high = ends(ball(Fraction(1, 3)))
    >>> low < 1 / 3 < high or low <= 1 / 3 <= high
    True
    """
    if not value.is_finite():
        return -math.inf, math.inf
    low, high = float(value.lower()), float(value.upper())
    return math.nextafter(low, -math.inf), math.nextafter(high, math.inf)


def supremum(
    over: Callable[[Fraction, Fraction], tuple[float, float]], low: Fraction, high: Fraction, *, rtol: float = 1e-9
) -> tuple[float, float, Fraction]:
    """Return (attained, bound, where): no point of [low, high] exceeds `bound`, and `where` has at least `attained`.

    Parameters
    ----------
    over
        Of the ends of a box: a number that the function has at the box's middle at least, and one that it nowhere in
        the box exceeds.
    low, high
        The interval.
    rtol
        How near the two ends of the answer must come; a search that opens too many boxes stops with what it has.

    Examples
    --------
    >>> def parabola(a, b):
    ...     middle = (a + b) / 2
    ...     return float(middle * (1 - middle)), float(middle * (1 - middle) + (b - a) / 2)
    >>> attained, bound, where = supremum(parabola, Fraction(0), Fraction(1), rtol=1e-3)
    >>> 0.2499 < attained <= 0.25 <= bound < 0.2503
    True
    """
    best, where, boxes = -math.inf, low, []
    for a, b in [(low, low), (high, high), (low, high)] if low < high else [(low, low)]:
        result, most = over(a, b)
        if result > best:
            best, where = result, (a + b) / 2
        boxes.append((-most, a, b))
    heapq.heapify(boxes)
    for k in range(_BOXES):
        top = -boxes[0][0]
        if k >= _BLIND and math.isinf(top):
            break
        if top <= best + rtol * max(abs(best), 1e-12) or boxes[0][1] == boxes[0][2]:
            break
        _, a, b = heapq.heappop(boxes)
        middle = (a + b) / 2
        for left, right in ((a, middle), (middle, b)):
            result, most = over(left, right)
            if result > best:
                best, where = result, (left + right) / 2
            heapq.heappush(boxes, (-most, left, right))
    return best, -boxes[0][0], where


def supremum_of(function: Callable[[Ball], Ball], low: Fraction, high: Fraction, *, rtol: float = 1e-6) -> float:
    """Return a bound that a ball function nowhere exceeds between `low` and `high`, nearly attained.

    >>> round(supremum_of(lambda x: x * (1 - x), Fraction(0), Fraction(1)), 3)
    0.25
    """
    if not low <= high:
        raise InvalidValue(f"an interval has its lower end first. Got {float(low):g} and {float(high):g}")

    def over(a: Fraction, b: Fraction) -> tuple[float, float]:
        return ends(function(ball((a + b) / 2)))[0], ends(function(interval(a, b)))[1]

    return supremum(over, low, high, rtol=rtol)[1]
