r"""An exponential family with two sufficient statistics, its worst neighbours found by a proven search.

As `ExponentialFamily`, with S(x) and χ in the plane: a normal with unknown mean and variance has S(x) = (x, x²), a Beta
likelihood S(x) = (log x, log(1 − x)). All S(x) lie within a public polygon, to which records are held. With
P = b + ws, Q = b + wt, where b is what the prior and the other n − 1 records make,

.. math:: R_\lambda(P \Vert Q) = \frac{C(\lambda P + (1-\lambda)Q) - \lambda C(P)}{\lambda - 1} + C(Q).

C is convex, so that for a given b

* as a function of Q the divergence is convex (Geumlek 2020, Theorem 10, its first part): t is a corner of the polygon;
* as P moves straight away from Q it grows: s lies on an edge.

(In P it need not be convex, so that an edge is searched and not only its ends; and Theorem 10's criterion, which would
put b at corners too, is not asked for.) What is left are three numbers, b and the place on an edge, for every corner
and edge: branch and bound in ball arithmetic. With v = P − Q and k(t) = t up to 1, (λ − t)/(λ − 1) beyond,

.. math:: R_\lambda(P \Vert Q) = \int_0^\lambda k(t)\; v^\top \nabla^2 C(Q + tv)\, v \;\mathrm dt,

so that balls of second derivatives bound it over a box, and balls of third ones its slopes in b; they come from C
itself, as coefficients of its power series. Three statistics or more are not searched.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.mechanisms.conjugate.conjugate import Conjugate, check_weights
from sottovoce.mechanisms.conjugate.distributions import Distribution
from sottovoce.mechanisms.conjugate.verified_suprema import (
    Ball,
    Box,
    ball,
    derivatives_along,
    ends,
    interval,
    precision,
    rational,
    supremum_in_boxes,
)
from sottovoce.privacy.concentrated import RenyiProfile
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.minimum_profile import LeastProfile
from sottovoce.privacy.numbers import as_floats, ceil_float, real
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.pure import BoundedRangeProfile
from sottovoce.records.facts import Column
from sottovoce.records.readings import FunctionSum, Statistics

__all__ = ["TwoStatisticFamily", "WorstOfTwo"]

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


@dataclass(frozen=True, eq=False)
class TwoStatisticFamily(Conjugate):
    """A conjugate system from C alone, of two statistics.

    A subclass gives `statistic`, `columns`, `low` and `high`, `corners`, `normalizer`, `domain` and `distribution`.

    Parameters
    ----------
    chi, nu
        The prior's natural parameters, of which chi is a pair.

    Examples
    --------
    The mean and the variance of normal records in [-1, 1], with all S(x) = (x, x²) in a triangle:

    >>> from sottovoce.records.facts import Number
    >>> class MeanAndVariance(TwoStatisticFamily):
    ...     word = "mean and variance"
    ...     columns = (Number(-1, 1),)
    ...     low, high = -1.0, 1.0
    ...     corners = ((-1, 1), (1, 1), (0, -1))
    ...
    ...     def statistic(self, x):
    ...         return x, x * x
    ...
    ...     def normalizer(self, first, second, nu):
    ...         return (nu / 2).lgamma() - nu.log() / 2 - nu / 2 * (second - first * first / nu).log()
    ...
    ...     def domain(self, first, second, nu):
    ...         return (second - first * first / nu,)
    ...
    ...     def distribution(self, chi, nu):
    ...         raise NotImplementedError
    >>> worst = MeanAndVariance(chi=(0.0, 40.0), nu=6.0).worst(2, 1.5)
    >>> bool(worst.attained <= worst.bound <= 1.051 * worst.attained), round(worst.attained, 3)
    (True, 0.076)
    """

    orders: ClassVar[tuple[float, ...]] = (1.1, 1.5, 2.0, 3.0, 5.0, 10.0)
    """The orders at which the search is made; those at which it finds no bound are left out."""
    near: ClassVar[float] = 0.05
    """How near the bound of a search must come to what is attained, relative to it, for the search to end."""
    boxes: ClassVar[int] = 20_000
    """How many boxes a search may open, some seconds of work; then its bound is looser, and holds."""
    bits: ClassVar[int] = 128
    """The precision of the search."""
    natural: ClassVar[tuple[tuple[float, float], tuple[float, float]] | None] = None
    """Public bounds of both natural parameters, where there are some: then a release is purely private as well."""
    mechanisms: ClassVar[tuple[str, ...]] = ("direct posterior", "diffused posterior", "concentrated posterior")
    columns: ClassVar[tuple[Column, ...]]
    """What is public of the columns that a record has."""
    low: ClassVar[float]
    high: ClassVar[float]
    """Public bounds of both statistics."""
    corners: ClassVar[Sequence[tuple[float, float]]]
    """Corners of a public polygon in which all S(x) lie; for a record whose S(x) does not, its middle stands."""
    chi: tuple[float, float]
    nu: float

    def __post_init__(self) -> None:
        chi = as_floats("chi", self.chi, -math.inf)
        if chi.shape != (2,):
            raise InvalidValue(f"chi must be two numbers, one a statistic: more are not searched. Got {chi.size}")
        object.__setattr__(self, "chi", tuple(chi.tolist()))
        object.__setattr__(self, "nu", real("nu", self.nu, -math.inf))
        if len(self._declared) < 3:
            raise InvalidValue(f"the corners of {self.word} must span a polygon: give at least three, not on one line")
        if not _inside((Fraction(float(x)) for x in self.reading.middle()), self._hull):
            raise InvalidValue(f"the middle of low and high must lie within the corners of {self.word}")
        with precision(self.bits):
            gaps = self.domain(*(ball(Fraction(x)) for x in (*self.chi, self.nu)))
            if not all(gap > 0 for gap in gaps):
                raise InvalidValue(
                    f"the prior of chi={self.chi}, nu={self.nu:g} is no distribution: outside its domain"
                )

    # What a family says.

    @abstractmethod
    def statistic(self, record: Any) -> tuple[float, float]:
        """Return S(x) of one record: its only cell, or a tuple of its cells, as the facts of the columns allow."""

    @abstractmethod
    def normalizer(self, first: object, second: object, nu: Ball) -> Any:
        """Return C(χ, ν) of balls, or of power series of them: by their operators, `log`, `exp`, `lgamma` and so on."""

    @abstractmethod
    def domain(self, first: Ball, second: Ball, nu: Ball) -> tuple[Ball, ...]:
        """Return quantities that are above zero exactly where C is finite; () where it is everywhere."""

    @abstractmethod
    def distribution(self, chi: Point, nu: Fraction) -> Distribution:
        """Return the posterior of natural parameters (χ, ν), of whatever is unknown."""

    # What follows.

    @cached_property
    def reading(self) -> FunctionSum:
        """S(x) added over the records, each held to the polygon."""
        return FunctionSum(self._held, self.columns, self.low, self.high, 2)

    def _held(self, record: object) -> tuple[float, float]:
        first, second = map(float, self.statistic(record))
        if not _inside((Fraction(first), Fraction(second)), self._declared):
            raise ValueError  # the reading puts the middle of the bounds in its place
        return first, second

    @cached_property
    def _declared(self) -> tuple[Point, ...]:
        return _convex_hull([(Fraction(float(x)), Fraction(float(y))) for x, y in self.corners])

    @cached_property
    def _hull(self) -> tuple[Point, ...]:
        """The polygon in which the reading leaves a record: it rounds both statistics down, by less than a step."""
        step = Fraction(self.reading.grid)
        return _convex_hull([(x - i * step, y - j * step) for x, y in self._declared for i in (0, 1) for j in (0, 1)])

    def _natural_of(self, total: Sequence[Fraction], n: int, weights: tuple[float, float]) -> tuple[Point, Fraction]:
        w, v = map(Fraction, weights)
        first, second = (v * Fraction(c) + w * t for c, t in zip(self.chi, total, strict=True))
        return (first, second), v * Fraction(self.nu) + w * n

    def posterior(self, statistics: Statistics, data_weight: float = 1.0, prior_weight: float = 1.0) -> Distribution:
        """Return the posterior with the data counted `data_weight` times, the prior `prior_weight` times."""
        checked = self.check(statistics)
        total = [Fraction(float(each)) for each in checked.total]
        return self.distribution(*self._natural_of(total, checked.n, check_weights(data_weight, prior_weight)))

    def _search(self, n: int, weights: tuple[float, float]) -> _PlaneSearch:
        base, nu = self._natural_of((Fraction(0), Fraction(0)), n, weights)
        w = rational(Fraction(weights[0]))
        record = tuple((w * rational(x), w * rational(y)) for x, y in self._hull)
        others = tuple((rational(base[0]) + (n - 1) * x, rational(base[1]) + (n - 1) * y) for x, y in record)
        of_nu = ball(nu)
        sizes = None
        if self.natural is not None:
            sizes = [ball(Fraction(high) - Fraction(low)) for low, high in self.natural]
        return _PlaneSearch(
            lambda x, y: self.normalizer(x, y, of_nu),
            lambda x, y: self.domain(x, y, of_nu),
            others,
            record,
            self.word,
            self.near,
            self.boxes,
            sizes,
        )

    def worst(self, n: int, order: float, data_weight: float = 1.0, prior_weight: float = 1.0) -> WorstOfTwo:
        """Return what the search finds at one order, n ≥ 1."""
        weights = check_weights(data_weight, prior_weight)
        with precision(self.bits):
            return self._search(n, weights).worst(real("order", order, above=1.0))

    @cached_property
    def _known(self) -> dict[tuple[int, float, float], Profile]:
        """What was searched for before."""
        return {}

    def _profile(self, n: int, data_weight: float, prior_weight: float) -> Profile:
        given = n, data_weight, prior_weight
        if given not in self._known:
            self._known[given] = self._claimed(n, data_weight, prior_weight)
        return self._known[given]

    def _claimed(self, n: int, data_weight: float, prior_weight: float) -> Profile:
        seen = []
        for order in sorted(self.orders):
            seen.append(self.worst(n, order, data_weight, prior_weight))
            if not math.isfinite(seen[-1].bound):
                break  # nor is it at a later order
        kept = [worst for worst in seen if math.isfinite(worst.bound)]
        claims: list[Profile] = []
        if kept:
            # A Rényi curve never falls: what holds at a later order holds before it.
            bounds = np.minimum.accumulate([max(worst.bound, 0.0) for worst in kept][::-1])[::-1]
            claims.append(RenyiProfile(tuple(worst.order for worst in kept), tuple(bounds.tolist())))
        if self.natural is not None:
            claims.append(BoundedRangeProfile(self.window(data_weight)))
        if not claims:
            raise InvalidValue(
                f"no bound on {self.word} was found: some records within its corners leave the domain, or boxes are "
                "too wide for its normalizer; give more corners, more prior weight or fewer records"
            )
        return claims[0] if len(claims) == 1 else LeastProfile(tuple(claims))

    def window(self, data_weight: float = 1.0) -> float:
        """Return the largest w·(s − t)·(η − η'), the width of the privacy loss; infinite where η has no bounds."""
        if self.natural is None:
            return math.inf
        sizes = [Fraction(high) - Fraction(low) for low, high in self.natural]
        moves = [
            sum(abs(x - y) * size for x, y, size in zip(s, t, sizes, strict=True))
            for s in self._hull
            for t in self._hull
        ]
        return ceil_float(Fraction(data_weight) * max(moves))

    def worst_pairs(
        self, n: int, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> tuple[tuple[Distribution, Distribution], ...]:
        """Return the pair at which the largest divergence of the first order was attained, both ways round."""
        worst = self.worst(n, min(self.orders), data_weight, prior_weight)
        nu = self._natural_of((Fraction(0), Fraction(0)), n, (data_weight, prior_weight))[1]
        first, second = (self.distribution(chi, nu) for chi in worst.pair)
        return (first, second), (second, first)

    def _with_prior(self, prior: Any) -> Self:
        chi, nu = prior
        return replace(self, chi=(float(chi[0]), float(chi[1])), nu=float(nu))

    def with_public(self, records: object) -> Self:
        """Return the system after public records have been added to the prior."""
        return self.with_known_records(records)

    def with_known_records(self, records: object, data_weight: float = 1.0, prior_weight: float = 1.0) -> Self:
        """Return the system an attacker faces who knows these records already."""
        data_weight, prior_weight = check_weights(data_weight, prior_weight)
        known = self.check(self._read_public(records))
        total = [Fraction(float(each)) for each in known.total]
        return self._with_prior(self._natural_of(total, known.n, (data_weight / prior_weight, 1.0)))


@dataclass(frozen=True)
class _PlaneSearch:
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

    search: _PlaneSearch
    order: Any
    edge: tuple[Any, Any]
    corner: Any

    def points(self, x: object, y: object, place: object) -> tuple[Any, Any, Any]:
        """Return P, the mixture λP + (1 − λ)Q, and Q, of the others' sum and a place on the edge."""
        (p, mixed), b = self._moves(place), (x, y)
        moved = [(b[0] + m[0], b[1] + m[1]) for m in (p, mixed, self.corner)]
        return moved[0], moved[1], moved[2]

    def _moves(self, place: object) -> tuple[Any, Any]:
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
        here = longest is None or _inside(middle[:2], self.search.others)
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

    def _leaves(self, x: object, y: object, place: object) -> bool:
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


def _reach(side: tuple[object, object], moves: list[Any]) -> tuple[Any, Any]:
    return side[0] + min(moves), side[1] + max(moves)


def _turn(a: Any, b: Any, c: Any) -> Any:
    """Return twice the area of a triangle, above zero where it turns left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _convex_hull(points: Sequence[Point]) -> tuple[Point, ...]:
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


def _inside(point: Any, hull: tuple[Any, ...]) -> bool:
    where = tuple(point)
    return all(_turn(a, b, where) >= 0 for a, b in zip(hull, (*hull[1:], hull[0]), strict=True))


def _outside(box: Box, hull: tuple[object, ...]) -> bool:
    """Say whether a box lies beyond an edge of the polygon, so that no point of it is inside."""
    places = [(x, y) for x in box[0] for y in box[1]]
    return any(all(_turn(a, b, p) < 0 for p in places) for a, b in zip(hull, (*hull[1:], hull[0]), strict=True))
