r"""Amplification by a coupling of any two laws, for any kernel: all of them given as densities on intervals.

Theorem 20 of Geumlek 2020 bounds R_α(μK‖νK) by R_α(ω‖ν) + sup_x R_α((H_πK)(x)‖K(x)) for *any* law ω and coupling π of
ω with μ. Here ω ∝ μ^θ·ν^{1−θ}, and π is the monotone coupling: it carries x to T(x) with F_μ(T(x)) = F_ω(x), so that
(H_πK)(x) = K(T(x)). Everything is enclosed in balls (Arb): integrals by its verified quadrature, T(x) between two
points whose distribution functions lie on either side, and the supremum by branch and bound with the slope

.. math:: (\alpha-1)\Phi' = \mathbb E_w[\alpha T'g_T - (\alpha-1)g_x] - \alpha T'\,\mathbb E_{K(T)}[g_T] +
          (\alpha-1)\,\mathbb E_{K(x)}[g_x], \qquad w \propto k_T^{\alpha}k_x^{1-\alpha},

g being the slope of log k in its starting point. What comes out is a proven bound whatever θ is; θ is chosen for a
small one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

from sottovoce.mechanisms.conjugate.verified_suprema import Ball, ball, ends, interval, supremum
from sottovoce.privacy.concentrated import RenyiProfile
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import real

_NODES, _PANELS, _BITS = 96, 48, 96
"""Places at which distribution functions are kept, panels on which slopes are bounded, bits of precision."""
_GUESSES = (0.0, 0.2, 0.35, 0.5, 0.65, 0.8, 1.0)
_CLOSE = Fraction(1, 2**64)
"""How closely an integral is known, beside itself: finer than a double. An end at a kink takes half of the points."""
_NEAR = Fraction(1, 10**8)
"""How near a coupled point is pinned down, beside the interval's length."""


@dataclass(frozen=True)
class IntervalLaw:
    """A law on [low, high] by the logarithm of its density, up to a constant.

    Parameters
    ----------
    log_density
        Of a complex ball y (`flint.acb`) and a flag, analytic in y between the kinks: any formula of + − · / and exp,
        which need not look at the flag; log, sqrt, real_abs and others with a cut must be handed it
        (``y.log(analytic)``), or the proof is none.
    low, high
        The ends, finite.
    kinks
        Where the formula changes.

    Examples
    --------
    >>> flat = IntervalLaw(lambda y, analytic: 0 * y, 0.0, 2.0)
    >>> [round(end, 6) for end in ends(flat.share(0.0, 0.5))]
    [0.25, 0.25]
    """

    log_density: Callable[[Any, bool], Any]
    low: float
    high: float
    kinks: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not -math.inf < self.low < self.high < math.inf:
            raise InvalidValue(f"an interval has two finite ends, the lower one first. Got {self.low}, {self.high}")

    def at(self, y: Ball) -> Ball:
        """Return the density, up to its constant, over a real ball."""
        from flint import acb  # noqa: PLC0415 - only a search needs it

        return self.log_density(acb(y), False).real.exp()

    @cached_property
    def total(self) -> Ball:
        """The constant."""
        return _integral(lambda y, analytic: self.log_density(y, analytic).exp(), self.low, self.high, self.kinks)

    def share(self, low: object, high: object) -> Ball:
        """Return a ball of the probability between two points."""
        return _integral(lambda y, analytic: self.log_density(y, analytic).exp(), low, high, self.kinks) / self.total

    @cached_property
    def _table(self) -> tuple[list[Fraction], list[Ball]]:
        """Places, and the distribution function at each."""
        low, high = Fraction(self.low), Fraction(self.high)
        places = [low + (high - low) * Fraction(k, _NODES) for k in range(_NODES + 1)]
        result = [ball(0)]
        for a, b in pairwise(places):
            result.append(result[-1] + self.share(a, b))
        return places, result

    def below(self, y: Fraction) -> Ball:
        """Return a ball of the distribution function."""
        places, result = self._table
        width = places[1] - places[0]
        k = min(max(int((y - places[0]) / width), 0), _NODES)
        return result[k] + self.share(places[k], y)

    def quantile(self, probability: Ball) -> tuple[Fraction, Fraction]:
        """Return two points between which the quantile lies, for certain."""
        low, high = Fraction(self.low), Fraction(self.high)
        places, result = self._table
        left = max((k for k in range(_NODES + 1) if bool(result[k] <= probability)), default=0)
        right = min((k for k in range(_NODES + 1) if bool(result[k] >= probability)), default=_NODES)
        a, b = places[left], places[right]
        near = _NEAR * (high - low)
        # Newton's guess and a little on either side of it, mostly; where that is not so, halves.
        guess = self._near(a, b, float((probability - result[left]) / (result[right] - result[left])), probability)
        tries = [guess - near / 3, guess + near / 3]
        while b - a > near:
            guessed = bool(tries)
            c = tries.pop() if guessed else (a + b) / 2
            if not a < c < b:
                continue
            value = self.below(c)
            if bool(value <= probability):
                a = c
            elif bool(value >= probability):
                b = c
            elif not guessed:
                break
        return a, b

    def _near(self, a: Fraction, b: Fraction, share: float, probability: Ball) -> Fraction:
        """Return where the quantile seems to lie, by two of Newton's steps in doubles from about a share of the way."""
        c = a + (b - a) * Fraction(min(max(share, 0.0), 1.0) if math.isfinite(share) else 0.5)
        for _ in range(2):
            step = float(((self.below(c) - probability) / (self.at(ball(c)) / self.total)).mid())
            if not math.isfinite(step):  # next to no density there
                break
            c = min(max(c - Fraction(step), a), b)
        return c


@dataclass(frozen=True)
class DensityKernel:
    """A kernel from an interval into [low, high], by the logarithm of its density at y from x, up to a function of x.

    Parameters
    ----------
    log_density
        Of y, a complex ball, x, a real one, and the flag; as for a law, in y.
    slope
        Its derivative in x, of real balls. It is checked against differences on spots, and refused where visibly
        wrong.
    low, high
        Where y lies, finite.
    kinks
        Of x, the places where the formula in y changes.
    """

    log_density: Callable[[Any, Any, bool], Any]
    slope: Callable[[Any, Any], Any]
    low: float
    high: float
    kinks: Callable[[float], Iterable[float]] = lambda _x: ()

    def __post_init__(self) -> None:
        if not -math.inf < self.low < self.high < math.inf:
            raise InvalidValue(f"an interval has two finite ends, the lower one first. Got {self.low}, {self.high}")

    def law(self, x: Fraction) -> IntervalLaw:
        """Return K(x)."""
        start = ball(x)
        kinks = tuple(self.kinks(float(x)))
        return IntervalLaw(lambda y, analytic: self.log_density(y, start, analytic), self.low, self.high, kinks)

    def check(self, low: float, high: float) -> None:
        """Raise `InvalidValue` where the slope is visibly none of the density's."""
        from flint import acb  # noqa: PLC0415 - only a search needs it

        for x in (low + (high - low) * share for share in (0.21, 0.5, 0.83)):
            for y in (self.low + (self.high - self.low) * share for share in (0.13, 0.37, 0.61, 0.89)):
                near, step = Fraction(x), Fraction(high - low) / 10**6
                first, two = (
                    self.log_density(acb(ball(Fraction(y))), ball(near + s), False).real for s in (-step, step)
                )
                tried, given = float((two - first) / ball(2 * step)), float(self.slope(ball(Fraction(y)), ball(near)))
                if not abs(tried - given) <= 1e-3 * (1 + abs(tried)):
                    raise InvalidValue(
                        f"the slope of log k at y = {y:g} from x = {x:g} is about {tried:.4g}, not {given:.4g}"
                    )


def coupled_renyi(
    order: float, mu: IntervalLaw, nu: IntervalLaw, kernel: DensityKernel, *, theta: float | None = None
) -> float:
    r"""Return a proven bound on R_α(μK‖νK) by Theorem 20.

    Parameters
    ----------
    order
        α > 1.
    mu, nu
        The two laws, on one interval.
    kernel
        K; from that interval.
    theta
        Which ω: θ = 1 is μ, where the bound is R_α(μ‖ν) and K is not used; θ = 0 is ν, where K does all. The best of
        several where None.

    Examples
    --------
    Two laws of slope ±1 on [0, 1], then noise of slope 2 that stays in the interval:

    >>> mu, nu = IntervalLaw(lambda y, _: y, 0.0, 1.0), IntervalLaw(lambda y, _: -y, 0.0, 1.0)
    >>> kernel = DensityKernel(lambda y, x, _: -4 * (y - x) ** 2, lambda y, x: 8 * (y - x), 0.0, 1.0)
    >>> before, after = (coupled_renyi(2.0, mu, nu, kernel, theta=theta) for theta in (1.0, 0.5))
    >>> round(before, 3), round(after, 2)
    (0.309, 0.15)
    """
    from flint import ctx  # noqa: PLC0415 - only a search needs it

    alpha = Fraction(real("order", order, above=1.0))
    if theta is not None and not real("theta", theta) <= 1:
        raise InvalidValue(f"theta lies between 0 and 1. Got {theta}")
    if (mu.low, mu.high) != (nu.low, nu.high):
        raise InvalidValue(f"both laws are on one interval. Got {mu.low}, {mu.high} and {nu.low}, {nu.high}")
    before, ctx.prec = ctx.prec, _BITS
    try:
        kernel.check(mu.low, mu.high)
        if theta is None:
            rough = {t: _bound(alpha, mu, nu, kernel, Fraction(t), rough=True) for t in _GUESSES}
            theta = min(rough, key=rough.__getitem__)
        return _bound(alpha, mu, nu, kernel, Fraction(theta), rough=False)
    finally:
        ctx.prec = before


def coupled_profile(
    mu: IntervalLaw, nu: IntervalLaw, kernel: DensityKernel, orders: Iterable[float] = (1.2, 1.5, 2.0, 3.0, 5.0)
) -> RenyiProfile:
    """Return what is proven of telling μK from νK, either way round, at these orders.

    It is about this one pair: that no neighbours have a worse one is for whoever calls to know.
    """
    kept = tuple(sorted(real("order", order, above=1.0) for order in orders))
    pairs = ((mu, nu), (nu, mu))
    result = [max(coupled_renyi(order, p, q, kernel) for p, q in pairs) for order in kept]
    # A Rényi curve never falls: what holds at a later order holds before it.
    for k in range(len(result) - 2, -1, -1):
        result[k] = min(result[k], result[k + 1])
    return RenyiProfile(kept, tuple(result))


def _bound(
    alpha: Fraction, mu: IntervalLaw, nu: IntervalLaw, kernel: DensityKernel, theta: Fraction, *, rough: bool
) -> float:
    t, s = ball(theta), ball(1 - theta)
    middle = IntervalLaw(
        lambda y, analytic: t * mu.log_density(y, analytic) + s * nu.log_density(y, analytic),
        mu.low,
        mu.high,
        (*mu.kinks, *nu.kinks),
    )
    first = max(ends(_renyi(alpha, middle, nu))[1], 0.0)
    if theta == 1:
        return first
    coupling = _Coupling(alpha, middle, mu, kernel)
    low, high = Fraction(mu.low), Fraction(mu.high)
    if rough:
        return first + max(coupling.over(x, x)[1] for x in (low + (high - low) * Fraction(k, 6) for k in range(7)))
    return (first + max(supremum(coupling.over, low, high, rtol=0.02)[1], 0.0)) * (1 + 1e-12)


@dataclass(frozen=True)
class _Coupling:
    """x and the point T(x) that the monotone coupling of ω and μ carries it to."""

    alpha: Fraction
    omega: IntervalLaw
    mu: IntervalLaw
    kernel: DensityKernel

    @cached_property
    def _kept(self) -> dict[Fraction, tuple[Fraction, Fraction]]:
        return {}

    def to(self, x: Fraction) -> tuple[Fraction, Fraction]:
        """Return two points between which T(x) lies."""
        if x not in self._kept:
            self._kept[x] = self.mu.quantile(self.omega.share(self.omega.low, x))  # at too few places for a table
        return self._kept[x]

    def over(self, a: Fraction, b: Fraction) -> tuple[float, float]:
        """Return Φ at the middle of a box, rounded down, and a bound on Φ over the box."""
        middle = (a + b) / 2
        left, right = self.to(middle)
        at = (left + right) / 2
        p, q = self.kernel.law(at), self.kernel.law(middle)
        below, above = ends(_renyi(self.alpha, p, q))
        # T(x) is known up to a little: the slope in the target alone, over that little.
        off = right - left
        if off:
            above += self._slope(q, interval(left, right), ball(middle), ball(1), ball(0)) * float(off)
        if a == b:
            return max(below, 0.0), above
        target = interval(self.to(a)[0], self.to(b)[1])
        x = interval(a, b)
        stretch = (self.omega.at(x) / self.omega.total) / (self.mu.at(target) / self.mu.total)
        half = float((b - a) / 2) * (1 + 1e-15)
        return max(below, 0.0), above + self._slope(q, target, x, stretch, ball(1)) * half

    def _slope(self, law: IntervalLaw, target: Ball, x: Ball, stretch: Ball, moves: Ball) -> float:
        """Return a bound on |Φ'| over a box, where T moves `stretch` times and x `moves` times as fast."""
        alpha, less = ball(self.alpha), ball(self.alpha - 1)
        lam, gap = alpha * stretch, less * moves
        mixed = first = second = mixed_moves = first_moves = second_moves = ball(0)
        density, slope = self.kernel.log_density, self.kernel.slope
        for y, full in _panels(law.low, law.high):
            at_t, at_x = density(full, target, False).real, density(full, x, False).real
            slope_t, slope_x = slope(y, target), slope(y, x)
            tilted, p, q = (alpha * at_t - less * at_x).exp(), at_t.exp(), at_x.exp()
            mixed, mixed_moves = mixed + tilted, mixed_moves + tilted * (lam * slope_t - gap * slope_x)
            first, first_moves = first + p, first_moves + p * slope_t
            second, second_moves = second + q, second_moves + q * slope_x
        value = mixed_moves / mixed - lam * first_moves / first + gap * second_moves / second
        falls, rises = ends(value / less)
        return max(rises, -falls)


@lru_cache(maxsize=8)
def _panels(low: float, high: float) -> list[tuple[Ball, object]]:
    """Return balls that cover an interval, as real and as complex ones."""
    from flint import acb  # noqa: PLC0415 - only a search needs it

    first, width = Fraction(low), (Fraction(high) - Fraction(low)) / _PANELS
    result = [interval(first + k * width, first + (k + 1) * width) for k in range(_PANELS)]
    return [(y, acb(y)) for y in result]


def _renyi(alpha: Fraction, p: IntervalLaw, q: IntervalLaw) -> Ball:
    """Return a ball of R_α(P‖Q)."""
    lam, gap = ball(alpha), ball(alpha - 1)
    mixed = _integral(
        lambda y, analytic: (lam * p.log_density(y, analytic) - gap * q.log_density(y, analytic)).exp(),
        p.low,
        p.high,
        (*p.kinks, *q.kinks),
    )
    return (mixed.log() - lam * p.total.log()) / gap + q.total.log()


def _integral(function: Callable[[Any, bool], Any], low: Any, high: Any, kinks: tuple[float, ...]) -> Ball:
    """Return a ball of an integral, taken apart at the kinks."""
    from flint import acb  # noqa: PLC0415 - only a search needs it

    a, b = Fraction(low), Fraction(high)
    places = [a, *sorted({Fraction(k) for k in kinks if a < k < b}), b]
    total, close = ball(0), ball(_CLOSE)
    for first, two in pairwise(places):
        total += acb.integral(function, acb(ball(first)), acb(ball(two)), rel_tol=close).real
    return total
