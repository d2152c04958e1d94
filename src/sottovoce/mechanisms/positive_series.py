"""Sums of positive terms in whole-number arithmetic, with proven bounds: the incomplete beta and gamma functions.

Terms t₀ = 1, t_{i+1} = t_i·r_i with 0 < r_i <= 1 are kept in units of 2^-p, each rounded down. A term is then too small
by at most its place i in units, since later factors do not enlarge an error; N terms by N²/2. Where no later factor
exceeds q < 1, what is left out is at most t_N/(1 - q). Nothing cancels, and no bound is a guess.
"""

from __future__ import annotations

import math
from fractions import Fraction
from math import lcm

__all__ = ["beta_series", "common_scale", "expected_terms", "gamma_series"]

_EXTRA = 64
"""Units below the wanted accuracy: room for the N²/2 of 2³² terms."""
_EVERY = 16
"""Terms between two looks at whether to stop."""

Enclosure = tuple[int, int, int]
"""low, high, exponent: the sum lies in [low, high]·2^exponent."""


def beta_series(alpha: Fraction, beta: Fraction, x: Fraction, bits: int) -> Enclosure:
    """Enclose Σ (a+b)_i/(a+1)_i·xⁱ = a·B_x(a, b)/(x^a (1-x)^b) for x·(a+b) <= a+1, to about 2^-bits of itself.

    >>> low, high, exponent = beta_series(Fraction(1), Fraction(1), Fraction(1, 2), 20)  # Σ 2^-i = 2
    >>> low <= 2 * 2**-exponent <= high
    True
    """
    scale, a, b = common_scale(alpha, beta)
    above, below = a + b, a + scale
    top, bottom = x.numerator, x.denominator

    unit = bits + _EXTRA
    term = total = 1 << unit
    i = 0
    while True:
        for _ in range(_EVERY):
            term = term * above * top // (below * bottom)
            total += term
            above += scale
            below += scale
        i += _EVERY
        largest = (top, bottom) if b < scale else (above * top, below * bottom)  # with b < 1 factors rise towards x
        if (remainder := _rest(term, i, *largest)) is not None:
            return total, total + i * (i + 1) // 2 + remainder, -unit


def common_scale(alpha: Fraction, beta: Fraction) -> tuple[int, int, int]:
    """Return whole numbers s, a and b with alpha = a/s and beta = b/s.

    >>> common_scale(Fraction(5, 2), Fraction(1, 3))
    (6, 15, 2)
    """
    scale = lcm(alpha.denominator, beta.denominator)
    return scale, alpha.numerator * (scale // alpha.denominator), beta.numerator * (scale // beta.denominator)


def gamma_series(shape: Fraction, x: Fraction, bits: int) -> Enclosure:
    """Enclose Σ xⁱ/(k+1)_i = Γ(k+1)·P(k, x)/(x^k e^-x) for x <= k+1, to about 2^-bits of itself.

    >>> low, high, exponent = gamma_series(Fraction(1), Fraction(1), 20)  # Σ 1/(i+1)! = e - 1
    >>> low * 2.0**exponent <= 1.718281828459 + 1e-6 and high * 2.0**exponent >= 1.718281828459 - 1e-6
    True
    """
    scale = lcm(shape.denominator, x.denominator)
    top, below = int(x * scale), int((shape + 1) * scale)
    unit = bits + _EXTRA
    term = total = 1 << unit
    i = 0
    while True:
        for _ in range(_EVERY):
            term = term * top // below
            total += term
            below += scale
        i += _EVERY
        if (remainder := _rest(term, i, top, below)) is not None:
            return total, total + i * (i + 1) // 2 + remainder, -unit


def _rest(term: int, i: int, over: int, under: int) -> int | None:
    """Return a bound, in units, on all terms after the i-th, (t_i + i)·q/(1 - q) rounded up, once it is small enough.

    q = over/under is kept as two whole numbers: to reduce it would take longer than the terms.
    """
    if over >= under:
        return None
    remainder = (term + i) * over // (under - over) + 1
    return remainder if remainder < 1 << _EXTRA else None


def expected_terms(alpha: float, beta: float, x: float, bits: int) -> float:
    """Return about how many terms `beta_series` takes: its factors begin at x(a+b)/(a+1) and fall by b/((a+1)(a+b))."""
    wanted, total = 0.7 * (bits + _EXTRA), alpha + beta
    falling = math.sqrt(2 * wanted * (alpha + 1) * (total / beta))
    first = x * total / (alpha + 1)
    return falling if first >= 1 else min(falling, wanted / -math.log(first)) if first > 0 else 1.0
