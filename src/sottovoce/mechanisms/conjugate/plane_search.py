"""The worst pair of a family of two statistics: a search of boxes in the plane, bounded by interval arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sottovoce.mechanisms.conjugate.verified_suprema import (
    Ball,
    Box,
    ball,
    derivatives_along,
    ends,
    interval,
    rational,
    supremum_in_boxes,
)
from sottovoce.privacy.errors import InvalidValue

Point = tuple[Fraction, Fraction]
_UP = 1 + 2.0**-48
"""What a few sums and products of doubles may have lost, and more."""


@dataclass(frozen=True)
class WorstOfTwo:
    """What the search found at one order: R_λ is at least `attained` for the pair (P, Q) and nowhere above `bound`."""

    order: float
    attained: float
    bound: float
    pair: tuple[Point, Point]


@dataclass(frozen=True)
class PlaneSearch:
    """C in the plane, the polygon of what the prior and the other records make, and that of one record."""

    at: Callable[[Any, Any], Any]
    domain: Callable[[Ball, Ball], tuple[Ball, ...]]
    others: tuple[Any, ...]
    record: tuple[Any, ...]
    word: str
    near: float
    boxes: int
    sizes: list[Ball] | None
    """How far each natural parameter reaches, where it has bounds."""

    def worst(self, order: float) -> WorstOfTwo:
        """Return the largest divergence of this order over all corners, edges and others."""
        low, high = (tuple(pick(p[i] for p in self.others) for i in (0, 1)) for pick in (min, max))
        start: Box = ((low[0], high[0]), (low[1], high[1]), (rational(0), rational(1)))
        edges = list(zip(self.record, (*self.record[1:], self.record[0]), strict=True))
        # An edge that ends at Q's corner is left by going straight away from there, to its other end.
        cases = [
            _CornerAndEdge(self, rational(Fraction(order)), e, corner)
            for corner in self.record
            for e in edges
            if corner not in e
        ]
        # The sums at the corners of their polygon, one by one: the worst is often there.
        known = [(((x, x), (y, y), (t, t)), case) for case in cases for x, y in self.others for t in start[2]]
        boxes = [*known, *((start, case) for case in cases)]
        attained, bound, (box, case) = supremum_in_boxes(
            boxes, lambda box, case: case.over(box), rtol=self.near, most=self.boxes
        )
        p, _, q = case.points(*((low + high) / 2 for low, high in box))
        pair = tuple(tuple(Fraction(int(x.p), int(x.q)) for x in point) for point in (p, q))
        return WorstOfTwo(order, attained, bound, pair)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class _CornerAndEdge:
    """Q has the record at a corner, P one on an edge."""

    search: PlaneSearch
    order: Any
    edge: tuple[Any, Any]
    corner: Any

    def points(self, x: Any, y: Any, place: Any) -> tuple[Any, Any, Any]:
        """Return P, the mixture λP + (1 − λ)Q, and Q, of the others' sum and a place on the edge."""
        (p, mixed), b = self._moves(place), (x, y)
        moved = [(b[0] + m[0], b[1] + m[1]) for m in (p, mixed, self.corner)]
        return moved[0], moved[1], moved[2]

    def _moves(self, place: Any) -> tuple[Any, Any]:
        """Return what P and the mixture have beside the others' sum."""
        start, end = self.edge
        p = tuple(a + place * (b - a) for a, b in zip(start, end, strict=True))
        mixed = tuple(self.order * a + (1 - self.order) * c for a, c in zip(p, self.corner, strict=True))
        return (p[0], p[1]), (mixed[0], mixed[1])

    def over(self, box: Box) -> tuple[float, float, int | None]:
        """Return R_λ at the middle of a box, rounded down, a bound on it over the box, and the side to halve."""
        sizes = [high - low for low, high in box]
        longest = max(range(3), key=lambda side: float(sizes[side].p) / float(sizes[side].q)) if max(sizes) else None
        if longest is not None and _outside(box, self.search.others):
            return -math.inf, -math.inf, None
        middle = tuple((low + high) / 2 for low, high in box)
        here = longest is None or inside(middle[:2], self.search.others)
        value = self._value(*middle)
        if value is None:
            # The middle has no finite divergence: that is what is attained, where records can be there.
            return (math.inf if here and self._leaves(*middle) else -math.inf), math.inf, longest
        below, above = ends(value)
        if above < 0:
            raise InvalidValue(f"the normalizer of {self.search.word} is not convex, so it is none; check its formula")
        attained = max(below, 0.0) if here else -math.inf
        return (attained, above, None) if longest is None else (attained, *self._bound(box, above, longest))

    def _value(self, x: Any, y: Any, place: Any) -> Ball | None:
        """Return R_λ at one point; None where some of the three is not seen to lie in the domain."""
        points = [(ball(a), ball(b)) for a, b in self.points(x, y, place)]
        if not all(gap > 0 for point in points for gap in self.search.domain(*point)):
            return None
        p, mixed, q = (self.search.at(*point) for point in points)
        lam = ball(self.order)
        value = (mixed - lam * p) / (lam - 1) + q
        return value if value.is_finite() else None

    def _leaves(self, x: Any, y: Any, place: Any) -> bool:
        points = [(ball(a), ball(b)) for a, b in self.points(x, y, place)]
        return any(bool(gap <= 0) for point in points for gap in self.search.domain(*point))

    def _bound(self, box: Box, above: float, longest: int) -> tuple[float, int]:
        """Return the least of two bounds over a box, by second derivatives and from the middle by slopes, and the side
        along which the slopes leave most.
        """
        moves = [self._moves(place) for place in box[2]]
        spans = [[[m[k][i] for m in moves] for k in (0, 1)] for i in (0, 1)]  # of P and the mixture, by coordinate
        v = [interval(*sorted(x - self.corner[i] for x in spans[i][0])) for i in (0, 1)]
        near = [interval(*_reach(box[i], [*spans[i][0], self.corner[i]])) for i in (0, 1)]
        far = [interval(*_reach(box[i], [*spans[i][0], *spans[i][1]])) for i in (0, 1)]
        if not all(gap > 0 for region in (near, far) for gap in self.search.domain(*region)):
            return math.inf, longest
        (bend, third), (far_bend, further) = (self._bends(region, v) for region in (near, far))
        lam = ball(self.order)
        # ∫k is 1/2 up to 1 and (λ − 1)/2 beyond.
        by_bends = ends(_dot(bend, v) / 2 + (lam - 1) / 2 * _dot(far_bend, v))[1]
        slopes = [(a + (lam - 1) * b) / 2 for a, b in zip(third, further, strict=True)]
        slopes.append(lam * _dot([ball(b - a) for a, b in zip(*self.edge, strict=True)], far_bend))
        drifts = [
            max(map(abs, ends(slope))) * ends(ball((high - low) / 2))[1] if high > low else 0.0
            for slope, (low, high) in zip(slopes, box, strict=True)
        ]
        bound = min(by_bends, (above + math.fsum(drifts) * _UP) * _UP)
        side = max(range(3), key=drifts.__getitem__)
        return bound, side if 0 < drifts[side] < math.inf else longest

    def _bends(self, region: list[Ball], v: list[Ball]) -> tuple[list[Ball], list[Ball]]:
        """Return balls over a region: the second derivatives of C times v, and the third ones times v twice."""
        ways = [derivatives_along(self.search.at, region, way) for way in ((1, 0), (0, 1), (1, 1), (1, -1))]
        (xx, xxx), (yy, yyy), (plus, plus3), (minus, minus3) = ways
        xy = (plus - minus) / 4
        xxy, xyy = (plus3 - minus3 - 2 * yyy) / 6, (plus3 + minus3 - 2 * xxx) / 6
        squares, product = (v[0] * v[0], v[1] * v[1]), 2 * v[0] * v[1]
        second = [xx * v[0] + xy * v[1], xy * v[0] + yy * v[1]]
        third = [
            xxx * squares[0] + xxy * product + xyy * squares[1],
            xxy * squares[0] + xyy * product + yyy * squares[1],
        ]
        sizes = self.search.sizes
        if sizes is None:
            return second, third
        # Derivatives of C are cumulants of η: where it has bounds, covariances are at most a quarter of both reaches,
        # and E[(X − EX)²(Y − EY)] is at most a quarter of X's reach squared times Y's.
        reach = abs(v[0]) * sizes[0] + abs(v[1]) * sizes[1]
        return [_within(bend, reach * size / 4) for bend, size in zip(second, sizes, strict=True)], [
            _within(bend, reach * reach * size / 4) for bend, size in zip(third, sizes, strict=True)
        ]


def _within(value: Ball, most: Ball) -> Ball:
    """Return what of a ball is at most so large."""
    limit = (-most.upper()).union(most.upper())
    return value.intersection(limit) if value.is_finite() else limit


def _dot(first: list[Ball], second: list[Ball]) -> Ball:
    return first[0] * second[0] + first[1] * second[1]


def _reach(side: tuple[Any, Any], moves: list[Any]) -> tuple[Any, Any]:
    return side[0] + min(moves), side[1] + max(moves)


def _turn(a: Any, b: Any, c: Any) -> Any:
    """Return twice the area of a triangle, above zero where it turns left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def convex_hull(points: Sequence[Point]) -> tuple[Point, ...]:
    """Return the corners of the convex hull, turning left (Andrew's monotone chain)."""
    unique = sorted(set(points))
    if len(unique) < 3:
        return tuple(unique)
    halves = []
    for way in (unique, unique[::-1]):
        half: list[Point] = []
        for point in way:
            while len(half) > 1 and _turn(half[-2], half[-1], point) <= 0:
                half.pop()
            half.append(point)
        halves.append(half[:-1])
    return tuple(halves[0] + halves[1])


def inside(point: Any, hull: tuple[object, ...]) -> bool:
    """Say whether a point lies in a convex hull, or on its edge."""
    where = tuple(point)
    return all(_turn(a, b, where) >= 0 for a, b in zip(hull, (*hull[1:], hull[0]), strict=True))


def _outside(box: Box, hull: tuple[object, ...]) -> bool:
    """Say whether a box lies beyond an edge of the polygon, so that no point of it is inside."""
    places = [(x, y) for x in box[0] for y in box[1]]
    return any(all(_turn(a, b, p) < 0 for p in places) for a, b in zip(hull, (*hull[1:], hull[0]), strict=True))
