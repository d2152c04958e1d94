r"""An exponential family of one's own, its worst neighbours found by a proven search.

With a likelihood log p(x|η) = η·S(x) − A(η) + … and the conjugate prior of parameters (χ, ν), the posterior is

.. math:: p(\eta \mid x) = \exp\big(\eta\chi' - \nu' A(\eta) - C(\chi', \nu')\big), \qquad
          \chi' = v\chi + w\sum S(x_i), \quad \nu' = v\nu + wn,

and every Rényi divergence between two posteriors is made of three values of C (Geumlek 2020, Observation 5). Nothing
but C need be known, in ball arithmetic. C is convex, so that:

* for a given rest of the data the worst pair is the widest step: as Q moves away from P on a line, R_λ(P‖Q) grows, and
  so it does as P moves away from Q;
* what is left is one number, the sum b of the other records' statistics, over which the largest R_λ is searched by
  branch and bound. Slopes of C are held between its secants, which convexity proves to be bounds.

(Theorem 10 of the thesis asks for a convexity criterion instead, and only then may look at the ends alone.)
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.mechanisms.conjugate.conjugate import Conjugate, check_weights
from sottovoce.mechanisms.conjugate.distributions import Distribution
from sottovoce.mechanisms.conjugate.verified_suprema import Ball, ball, ends, interval, precision, supremum
from sottovoce.privacy.concentrated import RenyiProfile
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.minimum_profile import LeastProfile
from sottovoce.privacy.numbers import ceil_float, real
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.pure import BoundedRangeProfile
from sottovoce.records.readings import Statistics

__all__ = ["ExponentialFamily", "Worst"]

Interval = tuple[float, float]
_NEAR = 1e-4
"""How near the bound of a search must come to what is attained, relative to it."""
_KEPT = 64
"""So many claims are kept."""


@dataclass(frozen=True)
class Worst:
    """What the search found at one order: R_λ is at least `attained` somewhere and nowhere above `bound`.

    `where` is the sum of the other records' statistics there, and `rising` says whether P has the lower record.
    """

    order: float
    attained: float
    bound: float
    where: float
    rising: bool


@dataclass(frozen=True, eq=False)
class ExponentialFamily(Conjugate):
    """A conjugate system from C alone: a subclass gives `reading`, `normalizer`, `domain` and `distribution`.

    Parameters
    ----------
    chi, nu
        The prior's natural parameters.

    Examples
    --------
    A Gamma rate of exponential waiting times, which the library ships with an exact curve of its own:

    >>> from sottovoce.records.readings import ClippedSum
    >>> from sottovoce.mechanisms.conjugate import Gamma, GammaExponential
    >>> class Waiting(ExponentialFamily):
    ...     word = "waiting"
    ...     reading = ClippedSum(0.0, 2.0)
    ...
    ...     def normalizer(self, chi, nu):  # of the density of the rate θ, θ^(ν-1)·e^(-χθ)
    ...         return nu.lgamma() - nu * chi.log()
    ...
    ...     def domain(self, nu):
    ...         return 0, None
    ...
    ...     def distribution(self, chi, nu):
    ...         return Gamma(float(nu), float(chi))
    >>> family = Waiting(chi=4.0, nu=3.0)
    >>> ours = GammaExponential(shape=3.0, rate=4.0, high=2.0).profile(10)
    >>> bool(1 <= family.worst(10, 1.5).bound / ours.renyi(1.5) < 1.0002), family.profile(10).basis.value
    (True, 'bound')
    """

    orders: ClassVar[tuple[float, ...]] = (1.02, 1.1, 1.3, 1.6, 2.0, 2.5, 3.2, 4.0, 5.5, 8.0, 12.0, 20.0, 40.0, 100.0)
    """The orders at which the search is made; between them the curve follows its chords."""
    approach: ClassVar[tuple[float, ...]] = (0.02, 0.08, 0.2, 0.35, 0.5, 0.7, 0.85, 0.95)
    """The same where the curve has a pole: how far on the way from 1 to there."""
    bits: ClassVar[int] = 128
    """The precision of the search."""
    natural: ClassVar[tuple[float, float] | None] = None
    """Public bounds of η, where it has some: then a release is purely private as well."""
    mechanisms: ClassVar[tuple[str, ...]] = ("direct posterior", "diffused posterior", "concentrated posterior")
    chi: float
    nu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "chi", real("chi", self.chi, -math.inf))
        object.__setattr__(self, "nu", real("nu", self.nu, -math.inf))
        if self.reading.size != 1:  # a second statistic would be left out of the posterior and of the search
            raise InvalidValue(
                f"an ExponentialFamily has one statistic, and the reading of {self.word} has {self.reading.size}; "
                "two are searched by a TwoStatisticFamily, more are not"
            )
        if not self._room(Fraction(self.chi), Fraction(self.nu)) > 0:
            raise InvalidValue(f"the prior of chi={self.chi:g}, nu={self.nu:g} is no distribution: outside its domain")

    # What a family says.

    @abstractmethod
    def normalizer(self, chi: Ball, nu: Ball) -> Ball:
        """Return C(χ, ν) = log ∫ exp(ηχ − νA(η)) dη in ball arithmetic."""

    @abstractmethod
    def distribution(self, chi: Fraction, nu: Fraction) -> Distribution:
        """Return the posterior of natural parameters (χ, ν), of whatever is unknown."""

    def curvature(self, chi: Ball, nu: Ball) -> Ball | None:
        """Return ∂²C/∂χ² over a ball of χ, where it is known: the search for many records is fast with it."""
        del chi, nu
        return None

    def exact_law(self, chi: Fraction, nu: Fraction) -> Any:
        """Return the posterior as a law in exact numbers, where it is a Beta, Gamma or normal one; None where not."""
        del chi, nu

    def domain(self, nu: Fraction) -> tuple[Any, Any]:
        """Return the open interval of the χ at which C is finite for this ν; None where it has no end."""
        del nu
        return None, None

    # What follows.

    def _room(self, chi: Fraction, nu: Fraction) -> float:
        """Return how far χ lies inside of its domain."""
        low, high = self.domain(nu)
        gaps = ([] if low is None else [chi - Fraction(low)]) + ([] if high is None else [Fraction(high) - chi])
        return float(min(gaps)) if gaps else math.inf

    def _natural_of(
        self, total: Fraction, n: int, data_weight: float, prior_weight: float
    ) -> tuple[Fraction, Fraction]:
        w, v = Fraction(data_weight), Fraction(prior_weight)
        return v * Fraction(self.chi) + w * total, v * Fraction(self.nu) + w * n

    def posterior(self, statistics: Statistics, data_weight: float = 1.0, prior_weight: float = 1.0) -> Distribution:
        """Return the posterior with the data counted `data_weight` times, the prior `prior_weight` times."""
        return self.distribution(*self._naturals(statistics, data_weight, prior_weight))

    def law(self, statistics: Statistics, data_weight: float = 1.0, prior_weight: float = 1.0) -> Any:
        """Return the posterior in exact numbers, from which a release is drawn."""
        exact = self.exact_law(*self._naturals(statistics, data_weight, prior_weight))
        return super().law(statistics, data_weight, prior_weight) if exact is None else exact

    def _naturals(self, statistics: Statistics, data_weight: float, prior_weight: float) -> tuple[Fraction, Fraction]:
        checked = self.check(statistics)
        total = Fraction(float(checked.total[0])) if checked.exact is None else checked.exact[0]
        return self._natural_of(total, checked.n, *check_weights(data_weight, prior_weight))

    def _search(self, n: int, data_weight: float, prior_weight: float) -> _Search:
        low, high = Fraction(self.reading.low), Fraction(self.reading.high)  # type: ignore[attr-defined]
        w = Fraction(data_weight)
        base, nu = self._natural_of(Fraction(0), n, data_weight, prior_weight)
        # Both ways round and at every order the search comes to the same places: what it saw there is kept.
        return _Search(
            cache(lambda chi: self.normalizer(ball(chi), ball(nu))),
            cache(lambda low, high: self.curvature(interval(low, high), ball(nu))),
            self.domain(nu),
            base + w * (n - 1) * low,
            base + w * (n - 1) * high,
            w * low,
            w * high,
        )

    def lambda_star(self, n: int, data_weight: float = 1.0, prior_weight: float = 1.0) -> float:
        """Return the order from which some divergence is infinite: exactly, by the domain's ends."""
        return self._search(n, *check_weights(data_weight, prior_weight)).pole if n else math.inf

    def worst(self, n: int, order: float, data_weight: float = 1.0, prior_weight: float = 1.0) -> Worst:
        """Return what the search finds at one order, n ≥ 1."""
        search = self._search(n, *check_weights(data_weight, prior_weight))
        with precision(self.bits):
            return search.worst(real("order", order, above=1.0))

    def _near_profile(self, n: int, step: float, data_weight: float, prior_weight: float) -> Profile:
        # The differing record may lie anywhere: what was fixed at an end of its range joins the search.
        search = self._search(n, data_weight, prior_weight)
        move = min(Fraction(data_weight) * Fraction(step), search.last - search.first)
        near = replace(
            search, low=search.low + search.first, high=search.high + search.last - move, first=Fraction(0), last=move
        )
        return self._claimed(near)

    @cached_property
    def _known(self) -> dict[tuple[int, float, float], Profile]:
        """What was searched for before: mechanisms are built anew by whoever plans, releases or checks."""
        return {}

    def _profile(self, n: int, data_weight: float, prior_weight: float) -> Profile:
        given = n, data_weight, prior_weight
        result = self._known.get(given)
        if result is None:
            result = self._claimed(self._search(*given))
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[given] = result
        return result

    def _claimed(self, search: _Search) -> Profile:
        if math.isfinite(search.pole):
            near = [1 + (search.pole - 1) * share for share in self.approach]
            orders = sorted({*(o for o in self.orders if o < near[0]), *near})
        else:
            orders = list(self.orders)
        with precision(self.bits):
            if search.bent():
                raise InvalidValue(f"the normalizer of {self.word} is not convex, so it is none; check its formula")
            kept = [item for item in map(search.worst, orders) if math.isfinite(item.bound)]
        claims: list[Profile] = []
        if kept:
            # A Rényi curve never falls: what holds at a later order holds before it.
            bounds = np.minimum.accumulate([item.bound for item in kept][::-1])[::-1]
            claims.append(RenyiProfile(tuple(item.order for item in kept), tuple(np.maximum(bounds, 0.0).tolist())))
        if self.natural is not None:
            claims.append(BoundedRangeProfile(self._window(search.last - search.first)))
        if not claims:
            raise InvalidValue(f"no bound on {self.word} was found: its normalizer is no finite ball where it must be")
        return claims[0] if len(claims) == 1 else LeastProfile(tuple(claims))

    def window(self, data_weight: float = 1.0) -> float:
        """Return w·(S_high − S_low)·(η_high − η_low), the width of the privacy loss; infinite where η has no bounds."""
        low, high = self.reading.low, self.reading.high  # type: ignore[attr-defined]
        return self._window(Fraction(data_weight) * (Fraction(high) - Fraction(low)))

    def _window(self, moved: Fraction) -> float:
        if self.natural is None:
            return math.inf
        return ceil_float(moved * (Fraction(self.natural[1]) - Fraction(self.natural[0])))

    def worst_pairs(
        self, n: int, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> tuple[tuple[Distribution, Distribution], ...]:
        """Return the pairs among which the largest divergence of order 1.5 (or nearer to 1) was attained."""
        pole = self.lambda_star(n, data_weight, prior_weight)
        result = self.worst(n, min(1.5, 1 + (pole - 1) / 2), data_weight, prior_weight)
        nu = self._natural_of(Fraction(0), n, data_weight, prior_weight)[1]
        search = self._search(n, data_weight, prior_weight)
        b = Fraction(result.where)
        pair = (self.distribution(b + search.first, nu), self.distribution(b + search.last, nu))
        return (pair, pair[::-1])

    def _with_prior(self, prior: Any) -> Self:
        chi, nu = prior
        return replace(self, chi=float(chi), nu=float(nu))

    def with_public(self, records: object) -> Self:
        """Return the system after public records have been added to the prior."""
        return self.with_known_records(records)

    def with_known_records(self, records: object, data_weight: float = 1.0, prior_weight: float = 1.0) -> Self:
        """Return the system an attacker faces who knows these records already."""
        data_weight, prior_weight = check_weights(data_weight, prior_weight)
        known = self.check(self._read_public(records))
        return self._with_prior(
            self._natural_of(Fraction(float(known.total[0])), known.n, data_weight / prior_weight, 1.0)
        )


@dataclass(frozen=True)
class _Search:
    """C of one coordinate, where the other records can put it, and the two ends of a record."""

    at: Callable[[Fraction], Ball]
    curvature: Callable[[Fraction, Fraction], Ball | None]
    domain: tuple[Any, Any]
    low: Fraction
    high: Fraction
    first: Fraction
    last: Fraction

    @property
    def pole(self) -> float:
        """The order from which the mixture of the widest pair leaves the domain."""
        start, end = self.domain
        width, poles = self.last - self.first, [math.inf]
        if start is not None:
            poles.append(_ratio(self.low + self.first - Fraction(start), width))
        if end is not None:
            poles.append(_ratio(Fraction(end) - self.high - self.last, width))
        return 1 + min(poles)

    def bent(self) -> bool:
        """Say whether C visibly bends the wrong way somewhere: a log-normalizer is convex."""
        start, width = self.low + self.first, self.high + self.last - self.low - self.first
        if not width:
            return False
        points = [start + width * Fraction(k, 16) for k in range(17)]
        values = [self.at(point) for point in points]
        return any(bool(a + c - 2 * b < 0) for a, b, c in zip(values, values[1:], values[2:], strict=False))

    def worst(self, order: float) -> Worst:
        """Return the largest divergence of this order, both ways round."""
        if order >= self.pole:
            return Worst(order, math.inf, math.inf, float(self.low), True)
        both = []
        for rising in (True, False):
            p, q = (self.first, self.last) if rising else (self.last, self.first)
            result = supremum(partial(self._over, order, p, q), self.low, self.high, rtol=_NEAR)
            both.append((result, rising))
        (attained, _, where), rising = max(both, key=lambda pair: pair[0][0])
        return Worst(order, attained, max(pair[0][1] for pair in both), float(where), rising)

    def _over(self, order: float, p: Fraction, q: Fraction, a: Fraction, b: Fraction) -> Interval:
        """Return R_λ at the middle of a box, rounded down, and a bound on it over the box: middle and slope."""
        lam, middle = Fraction(order), (a + b) / 2
        mixed = lam * p + (1 - lam) * q
        gap = ball(lam - 1)
        value = (self.at(middle + mixed) - ball(lam) * self.at(middle + p)) / gap + self.at(middle + q)
        below, above = ends(value)
        if a == b:
            return max(below, 0.0), above
        falls, rises = ends(self._slope(lam, mixed, p, q, a, b))
        half = float((b - a) / 2) * (1 + 1e-15)
        return max(below, 0.0), math.nextafter(above + max(rises * half, -falls * half, 0.0) * (1 + 1e-14), math.inf)

    def _slope(self, lam: Fraction, mixed: Fraction, p: Fraction, q: Fraction, a: Fraction, b: Fraction) -> Ball:
        """Return a ball of the slope of R_λ over a box.

        It is (P − Q) times the mean curvature between P and the mixture less that between Q and P: two numbers of one
        size, where curvatures are known; else a sum of slopes of C, in which they cancel.
        """
        far, near = (self.curvature(a + min(x, p), b + max(x, p)) for x in (mixed, q))
        if far is not None and near is not None:
            return ball(p - q) * (far - near)
        slopes = [self._secants(a + x, b + x) for x in (mixed, p, q)]
        return (slopes[0] - ball(lam) * slopes[1]) * ball(1 / (lam - 1)) + slopes[2]

    def _secants(self, a: Fraction, b: Fraction) -> Ball:
        """Return a ball of C' between a and b: a convex function's slope lies between its secants."""
        step = self._step(a, b)
        left = (self.at(a) - self.at(a - step)) / ball(step)
        right = (self.at(b + step) - self.at(b)) / ball(step)
        return left.union(right)

    def _step(self, a: Fraction, b: Fraction) -> Fraction:
        """Return how far secants reach: a little beside the box, and inside of the domain."""
        start, end = self.domain
        room = [self.last - self.first, (b - a)] if b > a else [self.last - self.first]
        room += [] if start is None else [a - Fraction(start)]
        room += [] if end is None else [Fraction(end) - b]
        return min(room) / 2**20


def _ratio(room: Fraction, width: Fraction) -> float:
    return float(room / width) if width else math.inf
