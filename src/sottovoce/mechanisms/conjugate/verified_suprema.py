"""Suprema that are proven: branch and bound in ball arithmetic.

A ball is a number and a radius in which the truth provably lies (Arb, by python-flint). Where a function is known in
balls, its largest value over an interval lies between one that is attained and one that no point exceeds.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import cache
from typing import Any, TypeVar

from sottovoce.privacy.errors import InvalidValue

__all__ = [
    "Ball",
    "Box",
    "ball",
    "derivatives_along",
    "ends",
    "interval",
    "monotone",
    "precision",
    "rational",
    "supremum",
    "supremum_in_boxes",
    "supremum_of",
]

Ball = Any
"""An `arb` of python-flint."""
_BOXES, _BLIND = 600, 40
"""How many boxes a search may open, and how many where it sees no bound at all."""

Box = tuple[tuple[Any, Any], ...]
"""The ends of every side, as rational numbers."""
Case = TypeVar("Case")


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


def rational(x: Fraction | int) -> Any:
    """Return a fraction as python-flint's, which counts faster."""
    return _flint().fmpq(*x.as_integer_ratio())


def ball(x: Any) -> Ball:
    """Return the ball of a fraction, of ours or of python-flint's."""
    flint = _flint()
    return flint.arb(x if isinstance(x, flint.fmpq) else rational(x))


def interval(low: object, high: object) -> Ball:
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


def derivatives_along(
    function: Callable[[Any, Any], Any], region: Sequence[Ball], way: tuple[int, int]
) -> tuple[Ball, Ball]:
    """Return balls of the second and third derivatives of a function of two numbers along a direction, over a region.

    The function is asked about power series c + t·way, whose coefficients are balls.

    >>> wide = [interval(Fraction(1), Fraction(2)), ball(3)]
    >>> [[round(end, 6) for end in ends(one)] for one in derivatives_along(lambda x, y: x * x * x * y, wide, (1, 0))]
    [[18.0, 36.0], [18.0, 18.0]]
    """
    series = _flint().arb_series
    moved = (series([centre, step, 0, 0], prec=4) for centre, step in zip(region, way, strict=True))
    value = function(*moved)
    return 2 * value[2], 6 * value[3]


def supremum_in_boxes(
    boxes: Sequence[tuple[Box, Case]],
    over: Callable[[Box, Case], tuple[float, float, int | None]],
    *,
    rtol: float,
    most: int,
) -> tuple[float, float, tuple[Box, Case]]:
    """Return (attained, bound, where) over all boxes, each of them a case of its own: `supremum` in several dimensions.

    Of a box `over` says what its middle attains, what nothing in it exceeds, and the side to halve; None where there is
    none. A search that has opened `most` boxes stops with what it has, whose bound holds.

    >>> def tent(box, sign):
    ...     (a, b), (c, d) = box
    ...     middle, half = abs(a + b) / 2 + sign * (c + d) / 2, (b - a + d - c) / 2
    ...     return float(middle), float(middle + half), 0 if b - a > d - c else 1
    >>> square = ((Fraction(-1), Fraction(1)), (Fraction(0), Fraction(1)))
    >>> attained, bound, _ = supremum_in_boxes([(square, 1), (square, -1)], tent, rtol=1e-3, most=999)
    >>> 1.99 < attained <= 2.0 <= bound < 2.003
    True
    """
    best, where = -math.inf, boxes[0]
    heap: list[tuple[float, int, int | None, Box, Any]] = []
    for count, (box, case) in enumerate(boxes):
        value, bound, side = over(box, case)
        if value > best:
            best, where = value, (box, case)
        heap.append((-bound, count, side, box, case))
    heapq.heapify(heap)
    for opened in range(len(heap), len(heap) + most, 2):
        if not heap or -heap[0][0] <= best + rtol * abs(best) or heap[0][2] is None:
            break
        _, _, side, box, case = heapq.heappop(heap)
        assert side is not None
        low, high = box[side]
        for count, half in enumerate(((low, (low + high) / 2), ((low + high) / 2, high)), opened):
            smaller = (*box[:side], half, *box[side + 1 :])
            value, bound, further = over(smaller, case)
            if value > best:
                best, where = value, (smaller, case)
            if bound > best:
                heapq.heappush(heap, (-bound, count, further, smaller, case))
    return best, max(best, -heap[0][0] if heap else best), where
