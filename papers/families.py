"""Three exponential families that the library does not ship, each from its normalizer alone.

Definitions 13 to 18 and Theorem 10 of the thesis speak of any family; `ExponentialFamily` finds the worst neighbours of
these by its proven search.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar

from sottovoce.mechanisms.conjugate import Beta, Gamma
from sottovoce.mechanisms.conjugate.exact_posteriors import BetaLaw, GammaLaw
from sottovoce.mechanisms.conjugate.exponential_family import ExponentialFamily
from sottovoce.mechanisms.conjugate.verified_suprema import Ball, ball, monotone
from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.facts import Number
from sottovoce.records.readings import ClippedSum, FunctionSum

__all__ = ["InverseGaussianShape", "NegativeBinomialProportion", "VonMisesConcentration"]


@dataclass(frozen=True, eq=False)
class InverseGaussianShape(ExponentialFamily):
    """The shape λ of inverse Gaussian records of a known mean, cut to [low, high]; prior λ ~ Gamma(nu/2, chi)."""

    word: ClassVar[str] = "inverse-gaussian-shape"
    parameter: ClassVar[str] = "shape"
    mean: float
    low: float
    high: float

    @property
    def reading(self) -> FunctionSum:
        """S(x) = (x − μ)²/(2μ²x), largest at an end of the records' bounds."""
        return FunctionSum(self.deviance, (Number(self.low, self.high),), 0.0, self.most)

    def deviance(self, x: float) -> float:
        """Return S(x)."""
        return (x - self.mean) ** 2 / (2 * self.mean**2 * x)

    @property
    def most(self) -> float:
        """The largest S, a little above."""
        return max(self.deviance(self.low), self.deviance(self.high)) * (1 + 1e-12)

    def normalizer(self, chi: Ball, nu: Ball) -> Ball:
        """Return log of ∫ λ^(ν/2−1) e^(−χλ) dλ."""
        return (nu / 2).lgamma() - nu / 2 * chi.log()

    def curvature(self, chi: Ball, nu: Ball) -> Ball:
        """Return (ν/2)/χ²."""
        return monotone(lambda x: nu / 2 / (x * x), chi)

    def domain(self, nu: Fraction) -> tuple[Any, Any]:
        """χ must be above zero."""
        return 0, None

    def distribution(self, chi: Fraction, nu: Fraction) -> Gamma:
        """Return Gamma(ν/2, χ)."""
        return Gamma(float(nu / 2), float(chi))

    def exact_law(self, chi: Fraction, nu: Fraction) -> GammaLaw:
        """Return the same in fractions."""
        return GammaLaw(nu / 2, chi)


@dataclass(frozen=True, eq=False)
class NegativeBinomialProportion(ExponentialFamily):
    """The proportion p of negative binomial counts x (of `size` failures), cut to 0..high; p ~ Beta(chi, size·nu)."""

    word: ClassVar[str] = "negative-binomial-proportion"
    parameter: ClassVar[str] = "p"
    size: float
    high: int

    @property
    def reading(self) -> ClippedSum:
        """S(x) = x."""
        return ClippedSum(0, self.high, integer=True)

    def normalizer(self, chi: Ball, nu: Ball) -> Ball:
        """Return log B(χ, rν)."""
        failures = nu * ball(Fraction(self.size))
        return chi.lgamma() + failures.lgamma() - (chi + failures).lgamma()

    def curvature(self, chi: Ball, nu: Ball) -> Ball:
        """Return ψ₁(χ) − ψ₁(χ + rν), by Hurwitz' zeta function."""
        from flint import arb

        failures = nu * ball(Fraction(self.size))
        return monotone(lambda x: arb(2).zeta(x) - arb(2).zeta(x + failures), chi)

    def domain(self, nu: Fraction) -> tuple[Any, Any]:
        """χ must be above zero."""
        return 0, None

    def distribution(self, chi: Fraction, nu: Fraction) -> Beta:
        """Return Beta(χ, rν)."""
        return Beta(float(chi), float(Fraction(self.size) * nu))

    def exact_law(self, chi: Fraction, nu: Fraction) -> BetaLaw:
        """Return the same in fractions."""
        return BetaLaw(chi, Fraction(self.size) * nu)


@dataclass(frozen=True, eq=False)
class VonMisesConcentration(ExponentialFamily):
    """The concentration κ of angles about a known direction: one of 33 public values from 0 to 8.

    S(x) = cos(x − direction), and κ has prior weight exp(κχ − ν log I₀(κ)). Its posterior is an exponential mechanism
    over the values, with the score κ·S: `ExponentialChoice` draws it.
    """

    word: ClassVar[str] = "von-mises-concentration"
    parameter: ClassVar[str] = "kappa"
    natural: ClassVar[tuple[float, float] | None] = (0.0, 8.0)
    orders: ClassVar[tuple[float, ...]] = (1.5, 2.0, 4.0, 8.0, 20.0)
    direction: float = 0.0

    @property
    def reading(self) -> FunctionSum:
        """S(x) = cos(x − direction)."""
        return FunctionSum(self.alignment, (Number(-math.pi, math.pi),), -1.0, 1.0)

    def alignment(self, x: float) -> float:
        """Return S(x)."""
        return math.cos(x - self.direction)

    @staticmethod
    def values() -> list[Fraction]:
        """Return the public values of κ."""
        return [Fraction(k, 4) for k in range(33)]

    def normalizer(self, chi: Ball, nu: Ball) -> Ball:
        """Return log Σ exp(κχ − ν log I₀(κ))."""
        total = ball(0)
        top = 8 * abs(chi)  # taken out, so that nothing overflows
        for kappa, bessel in _bessel():
            total += (kappa * chi - nu * bessel - top).exp()
        return total.log() + top

    def distribution(self, chi: Fraction, nu: Fraction) -> Any:
        """Refuse: a finite list of values is released by an exponential choice."""
        raise InvalidValue("κ is one of a list of values; release it by an ExponentialChoice with the score κ·cos")


@cache
def _bessel() -> list[tuple[Ball, Ball]]:
    """Return the public values and log I₀ of each, in balls of 200 bits."""
    from flint import arb, ctx

    before, ctx.prec = ctx.prec, 200
    try:
        values = [ball(kappa) for kappa in VonMisesConcentration.values()]
        return [(kappa, arb.bessel_i(kappa, arb(0)).log() if kappa > 0 else ball(0)) for kappa in values]
    finally:
        ctx.prec = before
