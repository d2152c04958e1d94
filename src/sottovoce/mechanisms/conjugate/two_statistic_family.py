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
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.mechanisms.conjugate.conjugate import Conjugate, check_weights
from sottovoce.mechanisms.conjugate.distributions import Distribution
from sottovoce.mechanisms.conjugate.plane_search import (
    PlaneSearch,
    Point,
    WorstOfTwo,
    convex_hull,
    inside,
)
from sottovoce.mechanisms.conjugate.verified_suprema import (
    Ball,
    ball,
    precision,
    rational,
)
from sottovoce.privacy.concentrated import RenyiProfile
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.minimum_profile import LeastProfile
from sottovoce.privacy.numbers import as_floats, ceil_float, real
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.pure import BoundedRangeProfile
from sottovoce.records.facts import Column
from sottovoce.records.readings import FunctionSum, Statistics

__all__ = ["TwoStatisticFamily"]


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
        if not inside((Fraction(float(x)) for x in self.reading.middle()), self._hull):
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
        if not inside((Fraction(first), Fraction(second)), self._declared):
            raise ValueError  # the reading puts the middle of the bounds in its place
        return first, second

    @cached_property
    def _declared(self) -> tuple[Point, ...]:
        return convex_hull([(Fraction(float(x)), Fraction(float(y))) for x, y in self.corners])

    @cached_property
    def _hull(self) -> tuple[Point, ...]:
        """The polygon in which the reading leaves a record: it rounds both statistics down, by less than a step."""
        step = Fraction(self.reading.grid)
        return convex_hull([(x - i * step, y - j * step) for x, y in self._declared for i in (0, 1) for j in (0, 1)])

    def _natural_of(self, total: Sequence[Fraction], n: int, weights: tuple[float, float]) -> tuple[Point, Fraction]:
        w, v = map(Fraction, weights)
        first, second = (v * Fraction(c) + w * t for c, t in zip(self.chi, total, strict=True))
        return (first, second), v * Fraction(self.nu) + w * n

    def posterior(self, statistics: Statistics, data_weight: float = 1.0, prior_weight: float = 1.0) -> Distribution:
        """Return the posterior with the data counted `data_weight` times, the prior `prior_weight` times."""
        checked = self.check(statistics)
        total = [Fraction(float(each)) for each in checked.total]
        return self.distribution(*self._natural_of(total, checked.n, check_weights(data_weight, prior_weight)))

    def _search(self, n: int, weights: tuple[float, float]) -> PlaneSearch:
        base, nu = self._natural_of((Fraction(0), Fraction(0)), n, weights)
        w = rational(Fraction(weights[0]))
        record = tuple((w * rational(x), w * rational(y)) for x, y in self._hull)
        others = tuple((rational(base[0]) + (n - 1) * x, rational(base[1]) + (n - 1) * y) for x, y in record)
        of_nu = ball(nu)
        sizes = None
        if self.natural is not None:
            sizes = [ball(Fraction(high) - Fraction(low)) for low, high in self.natural]
        return PlaneSearch(
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
