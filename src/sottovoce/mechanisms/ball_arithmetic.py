"""Distribution functions in ball arithmetic: a number and a radius in which the truth provably lies.

The balls are Arb's (Johansson 2017), by python-flint. Nothing here is trusted to be *narrow*: where a ball is too wide
to decide, the caller asks again with more bits.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from fractions import Fraction
from functools import cache, cached_property
from typing import Any

from scipy import special

from sottovoce.mechanisms.conjugate.exact_posteriors import BetaLaw, GammaLaw, NormalLaw
from sottovoce.mechanisms.positive_series import beta_series, common_scale, expected_terms, gamma_series

Ball = Any
"""An `arb` of python-flint."""

_LOCK = threading.RLock()
_MANY = 30_000.0
"""Terms beyond which Arb's own hypergeometric sums are faster than ours."""
_FIRST = 104
"""Bits with which most draws are decided: the ends of a law serve its first guess and its edges alike."""


@cache
def _flint() -> Any:
    import flint  # noqa: PLC0415 - only a release needs it

    return flint


class precision:  # noqa: N801 - used like a function
    """Work with so many bits. A ball holds whatever the precision is; the lock keeps it as wide as it was asked for."""

    def __init__(self, bits: int) -> None:
        self._bits = bits

    def __enter__(self) -> None:
        _LOCK.acquire()
        ctx = _flint().ctx
        self._before, ctx.prec = ctx.prec, self._bits

    def __exit__(self, *_: object) -> None:
        _flint().ctx.prec = self._before
        _LOCK.release()


def ball(x: Fraction | int | tuple[int, int]) -> Ball:
    """Return the ball of a fraction, or of the dyadic number mantissa·2^exponent."""
    flint = _flint()
    if isinstance(x, tuple):
        return flint.arb((flint.fmpz(x[0]), flint.fmpz(x[1])))
    return flint.arb(flint.fmpq(x.numerator, x.denominator))


def _between(sum_: tuple[int, int, int]) -> Ball:
    """Return the ball that holds low·2^exponent and high·2^exponent."""
    low, high, exponent = sum_
    return ball((low, exponent)).union(ball((high, exponent)))


class _Norms:
    """What a law needs at every point, computed once for each precision."""

    def __init__(self, make: Callable[[], tuple[Ball, ...]]) -> None:
        self._make = make
        self._made: dict[int, tuple[Ball, ...]] = {}

    def __call__(self, bits: int) -> tuple[Ball, ...]:
        if bits not in self._made:
            self._made[bits] = self._make()
        return self._made[bits]


class BallFunction:
    """The distribution function of a law on [low, high], in balls, and a quick guess of its inverse in doubles.

    It is built from the two tails of the law without ends: `lower` and `upper` keep their digits where they are small.
    """

    def __init__(
        self,
        ends: tuple[Fraction | None, Fraction | None],
        natural: tuple[Fraction | None, Fraction | None],
        lower: Callable[[Fraction, int], Ball],
        upper: Callable[[Fraction, int], Ball],
        inverse: Callable[[float, float], float | Fraction],
        middle: Fraction,
    ) -> None:
        self.low, self.high = ends
        self._cut = tuple(end is not None and end != edge for end, edge in zip(ends, natural, strict=True))
        self._lower, self._upper, self._inverse = lower, upper, inverse
        self._above = self._cut[0] and self.low is not None and self.low > middle
        self._known: tuple[int, Ball, Ball] | None = None

    @cached_property
    def plain(self) -> bool:
        """Whether the law has no ends but its own."""
        return not any(self._cut)

    def _tail(self, x: Fraction, bits: int) -> Ball:
        return self._upper(x, bits) if self._above else self._lower(x, bits)

    def _ends(self, bits: int) -> tuple[Ball, Ball]:
        """Return the tail at both ends, from the side on which the interval lies."""
        if self._known is None or self._known[0] < bits:
            first, last = ball(int(self._above)), ball(int(not self._above))
            if self._cut[0]:
                first = self._tail(self.low or Fraction(0), bits)
            if self._cut[1]:
                last = self._tail(self.high or Fraction(0), bits)
            self._known = bits, first, last
        return self._known[1:]

    def __call__(self, x: Fraction, bits: int) -> Ball:
        """Return a ball around Pr[θ <= x], computed with so many bits."""
        with precision(bits):
            if self.low is not None and x <= self.low:
                return ball(0)
            if self.high is not None and x >= self.high:
                return ball(1)
            if self.plain:
                return self._lower(x, bits)
            first, last = self._ends(bits)
            return (self._tail(x, bits) - first) / (last - first)

    def guess(self, u: float, complement: float) -> float | Fraction:
        """Return about where Pr[θ <= x] = u, u and 1 - u in doubles; nothing rests on it."""
        if self.plain:
            return self._inverse(u, complement)
        with precision(_FIRST):
            first, last = (float(end.mid()) for end in self._ends(_FIRST))
        at = first + u * (last - first)
        return self._inverse(1 - at, at) if self._above else self._inverse(at, 1 - at)


def ball_function(law: BetaLaw | GammaLaw | NormalLaw) -> BallFunction:
    """Return the distribution function of a law of one number."""
    match law:
        case BetaLaw():
            return _beta(law)
        case GammaLaw():
            return _gamma(law)
    return _normal(law)


def _beta(law: BetaLaw) -> BallFunction:
    a, b = float(law.alpha), float(law.beta)
    total = law.alpha + law.beta
    scale, whole_a, whole_b = common_scale(law.alpha, law.beta)

    def made() -> tuple[Ball, ...]:
        alpha, beta = ball(law.alpha), ball(law.beta)
        return ball(total).lgamma() - alpha.lgamma() - beta.lgamma(), alpha, beta

    norms = _Norms(made)

    def tail(x: Fraction, complement: Fraction, turned: bool, bits: int) -> Ball:
        """Return the chance below x, of one less what is drawn where `turned`, for x up to about the middle."""
        norm, first, other = norms(bits)
        if turned:
            first, other = other, first
        if expected_terms(*((b, a) if turned else (a, b)), float(x), bits) > _MANY:
            return ball(x).beta_lower(first, other, regularized=True)
        logs = first * ball(x).log() + other * ball(complement).log()
        powers = (law.beta, law.alpha) if turned else (law.alpha, law.beta)
        return (logs + norm).exp() / first * _between(beta_series(*powers, x, bits))

    def low_side(x: Fraction) -> bool:
        # One of the two series has factors below one; where both do, the one in the smaller of x and 1 - x is shorter.
        # That is x·(α + β) <= α + 1, or (1 - x)·(α + β) <= β + 1, in whole numbers.
        top, bottom = x.numerator, x.denominator
        from_below = top * (whole_a + whole_b) <= bottom * (whole_a + scale)
        from_above = (bottom - top) * (whole_a + whole_b) <= bottom * (whole_b + scale)
        return from_below and (2 * top <= bottom or not from_above)

    def lower(x: Fraction, bits: int) -> Ball:
        remainder = 1 - x
        return tail(x, remainder, False, bits) if low_side(x) else 1 - tail(remainder, x, True, bits)

    def upper(x: Fraction, bits: int) -> Ball:
        remainder = 1 - x
        return 1 - tail(x, remainder, False, bits) if low_side(x) else tail(remainder, x, True, bits)

    def inverse(u: float, complement: float) -> float | Fraction:
        low = float(special.betaincinv(a, b, u))  # on the side on which it lies it keeps its digits, whatever u is
        if low <= 0.5:
            return low
        remainder = float(special.betaincinv(b, a, complement))
        return 1 - Fraction(remainder) if math.isfinite(remainder) else low  # far out SciPy knows none

    natural = Fraction(0), Fraction(1)
    return BallFunction((law.low, law.high), natural, lower, upper, inverse, law.alpha / total)


def _gamma(law: GammaLaw) -> BallFunction:
    shape, rate = float(law.shape), float(law.rate)

    def upper(x: Fraction, bits: int) -> Ball:
        del bits
        return ball(x * law.rate).gamma_upper(ball(law.shape), regularized=1)

    def lower(x: Fraction, bits: int) -> Ball:
        z = x * law.rate
        below = float(max(law.shape - z, Fraction(0))) / shape**0.5  # z itself may be no double
        if below <= 8:
            return 1 - upper(x, bits)
        if shape > _MANY and below <= 12:  # a chance of 2^-(below²) at least: so many bits more, and not as many terms
            with precision(bits + int(below**2)):
                return 1 - upper(x, bits)
        k = ball(law.shape)  # far below, where one less the upper tail has no digits left
        lead = (k * ball(z).log() - ball(z) - (k + 1).lgamma()).exp()
        return lead * _between(gamma_series(law.shape, z, bits))

    def inverse(u: float, complement: float) -> float:
        result = special.gammaincinv(shape, u) if u <= 0.5 else special.gammainccinv(shape, complement)
        return float(result) / rate

    natural = Fraction(0), None
    return BallFunction((law.low, law.high), natural, lower, upper, inverse, law.shape / law.rate)


def _normal(law: NormalLaw) -> BallFunction:
    centre, root = float(law.centre), math.sqrt(law.variance)

    def upper(x: Fraction, bits: int) -> Ball:
        del bits
        # Pr[Z > z] = Q(1/2, z²/2)/2 for z >= 0: of a fraction, where erfc of a ball would be wide.
        far = ball((x - law.centre) ** 2 / (2 * law.variance)).gamma_upper(ball(Fraction(1, 2)), regularized=1) / 2
        return far if x >= law.centre else 1 - far

    def lower(x: Fraction, bits: int) -> Ball:
        return upper(2 * law.centre - x, bits)

    def inverse(u: float, complement: float) -> float:
        z = special.ndtri(u) if u <= 0.5 else -special.ndtri(complement)
        return centre + root * float(z)

    return BallFunction((law.low, law.high), (None, None), lower, upper, inverse, law.centre)
