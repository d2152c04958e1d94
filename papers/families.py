"""Five exponential families that the library does not ship, each from its normalizer alone.

Definitions 13 to 18 and Theorem 10 of the thesis speak of any family; `ExponentialFamily` finds the worst neighbours of
the first three by its proven search, `TwoStatisticFamily` those of the others, which have two statistics.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar

import numpy as np
from scipy import stats

from sottovoce.mechanisms.conjugate import Beta, Distribution, Gamma, TwoStatisticFamily
from sottovoce.mechanisms.conjugate.exact_posteriors import BetaLaw, GammaLaw
from sottovoce.mechanisms.conjugate.exponential_family import ExponentialFamily
from sottovoce.mechanisms.conjugate.verified_suprema import Ball, ball, monotone
from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.facts import Number
from sottovoce.records.readings import ClippedSum, FunctionSum

__all__ = [
    "BetaShapes",
    "InverseGaussianShape",
    "MeanAndVariance",
    "NegativeBinomialProportion",
    "NormalGamma",
    "VonMisesConcentration",
]


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


@dataclass(frozen=True, eq=False)
class NormalGamma(Distribution):
    """The law of a mean and a precision: the precision is Gamma(shape, rate), the mean normal given it."""

    word: ClassVar[str] = "normal-gamma"
    centre: float
    weight: float
    shape: float
    rate: float

    @property
    def mean(self) -> Any:
        """The means of both."""
        return np.array([self.centre, self.shape / self.rate])

    @property
    def variance(self) -> Any:
        """The variances of both, for shapes above 1."""
        return np.array([self.rate / (self.weight * (self.shape - 1)), self.shape / self.rate**2])

    def sample(self, size: Any = None, rng: Any = None) -> Any:
        """Return means and precisions."""
        rng = np.random.default_rng() if rng is None else rng
        precision = rng.gamma(self.shape, 1 / self.rate, size)
        return np.stack([rng.normal(self.centre, 1 / np.sqrt(self.weight * precision)), precision], axis=-1)

    def log_density(self, x: Any) -> Any:
        """Return the logarithm of the joint density."""
        mean, precision = np.moveaxis(np.asarray(x, dtype=np.float64), -1, 0)
        given = stats.norm.logpdf(mean, self.centre, 1 / np.sqrt(self.weight * precision))
        return stats.gamma.logpdf(precision, self.shape, scale=1 / self.rate) + given

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Return those of both, one by one: of the mean, Student's."""
        tails = np.array([(1 - level) / 2, (1 + level) / 2])
        spread = math.sqrt(self.rate / (self.weight * self.shape))
        mean = stats.t.ppf(tails, 2 * self.shape, self.centre, spread)
        precision = stats.gamma.ppf(tails, self.shape, scale=1 / self.rate)
        low, high = np.array([mean, precision]).T
        return low, high


@dataclass(frozen=True, eq=False)
class MeanAndVariance(TwoStatisticFamily):
    """The mean and the precision of normal records, cut to [-1, 1]: S(x) = (x, x²), between the parabola's tangents.

    The prior has weight exp(χ₁μτ − χ₂τ/2 − ν(μ²τ − log τ)/2) on the natural parameters (μτ, −τ/2).
    """

    word: ClassVar[str] = "mean-and-variance"
    parameter: ClassVar[str] = "mean and precision"
    columns: ClassVar[Any] = (Number(-1, 1),)
    low: ClassVar[float] = -1.0
    high: ClassVar[float] = 1.0
    corners: ClassVar[Any] = ((-1, 1), (1, 1), (0.5, 0), (-0.5, 0))

    def statistic(self, x: float) -> tuple[float, float]:
        """Return (x, x²)."""
        return x, x * x

    def normalizer(self, first: Any, second: Any, nu: Ball) -> Any:
        """Return −(ν+3)/2 · log(χ₂ − χ₁²/ν), and nothing that has ν alone."""
        return -(nu + 3) / 2 * (second - first * first / nu).log()

    def domain(self, first: Ball, second: Ball, nu: Ball) -> tuple[Ball, ...]:
        """χ₂ must be above χ₁²/ν."""
        return nu, second - first * first / nu

    def distribution(self, chi: Any, nu: Fraction) -> NormalGamma:
        """Return the law of the mean and the precision."""
        rate = (chi[1] - chi[0] ** 2 / nu) / 2
        return NormalGamma(float(chi[0] / nu), float(nu), float((nu + 3) / 2), float(rate))


@dataclass(frozen=True, eq=False)
class BetaShapes(TwoStatisticFamily):
    """Both shapes of Beta records in [0.02, 0.98], each of a public list: S(x) = (log x, log(1 − x)).

    Balls of a sum of exponentials are wide: for several records its searches end at what they may open.
    """

    word: ClassVar[str] = "beta-shapes"
    parameter: ClassVar[str] = "shapes"
    natural: ClassVar[Any] = ((0.5, 2.0), (0.5, 2.0))
    orders: ClassVar[tuple[float, ...]] = (2.0,)
    boxes: ClassVar[int] = 1000
    columns: ClassVar[Any] = (Number(0.02, 0.98),)
    low: ClassVar[float] = -4.0
    high: ClassVar[float] = 0.0
    corners: ClassVar[Any] = ((-4.0, -0.015), (-0.015, -4.0), (-0.015, -1.37), (-1.37, -0.015))

    def statistic(self, x: float) -> tuple[float, float]:
        """Return (log x, log(1 − x))."""
        return math.log(x), math.log1p(-x)

    @staticmethod
    def values() -> list[Fraction]:
        """Return the public values of a shape."""
        return [Fraction(k, 2) for k in (1, 2, 3, 4)]

    def normalizer(self, first: Any, second: Any, nu: Ball) -> Any:
        """Return log Σ exp(aχ₁ + bχ₂ − ν log B(a, b)) over both lists."""
        shapes = [ball(value) for value in self.values()]
        terms = [
            (a * first + b * second - nu * (a.lgamma() + b.lgamma() - (a + b).lgamma())).exp()
            for a in shapes
            for b in shapes
        ]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total.log()

    def domain(self, first: Ball, second: Ball, nu: Ball) -> tuple[Ball, ...]:
        """Finite everywhere."""
        return ()

    def distribution(self, chi: Any, nu: Fraction) -> Any:
        """Refuse: a finite list of values is released by an exponential choice."""
        raise InvalidValue("both shapes are of a list of values; release them by an ExponentialChoice")


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
