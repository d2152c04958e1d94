"""The Gamma distribution."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from sottovoce.mechanisms.conjugate.distributions.base import (
    ScalarDistribution,
    Size,
    check_size,
    generator,
    number,
    positive,
)
from sottovoce.mechanisms.conjugate.exact_posteriors import GammaLaw
from sottovoce.privacy.numbers import any_floats, as_floats, log_gamma_gap


@dataclass(frozen=True, eq=False)
class Gamma(ScalarDistribution):
    """Gamma(k, r) with shape k and rate r: density proportional to θ^(k-1) e^(-rθ).

    Examples
    --------
    >>> posterior = Gamma(shape=6, rate=3)
    >>> posterior.mean
    2.0
    >>> round(posterior.kl(Gamma(5, 3)), 6)
    0.09668
    """

    word: ClassVar[str] = "gamma"
    shape: Any
    rate: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", positive("shape", self.shape))
        object.__setattr__(self, "rate", positive("rate", self.rate))

    @property
    def law(self) -> GammaLaw | None:
        """The law of the very doubles; None of several side by side."""
        return GammaLaw(Fraction(self.shape), Fraction(self.rate)) if isinstance(self.shape, float) else None

    @property
    def log_partition(self) -> Any:
        """The log-partition C(η) = log Γ(k) - k log r."""
        return number(special.gammaln(self.shape) - self.shape * np.log(self.rate))

    @property
    def mean(self) -> Any:
        """The mean k/r."""
        return self.shape / self.rate

    @property
    def variance(self) -> Any:
        """The variance k/r²."""
        return self.shape / (self.rate * self.rate)

    def sample(self, size: Size = None, rng: np.random.Generator | None = None) -> Any:
        """Return one draw, or an array of `size` of them."""
        return generator(rng).standard_gamma(self.shape, check_size(size)) / self.rate

    def log_density(self, x: ArrayLike) -> Any:
        """Return the logarithm of the density; -inf below zero."""
        x = any_floats("x", x)
        inside = (x >= 0) & (x < np.inf)
        y = np.where(inside, x, 1.0)
        body = special.xlogy(self.shape - 1, y) - self.rate * y
        norm = self.shape * np.log(self.rate) - special.gammaln(self.shape)
        return number(np.where(inside, body + norm, -np.inf))

    def cdf(self, x: ArrayLike) -> Any:
        """Return the regularised incomplete gamma function."""
        return number(special.gammainc(self.shape, self.rate * np.maximum(any_floats("x", x), 0.0)))

    def sf(self, x: ArrayLike) -> Any:
        """Return Pr[θ > x]."""
        return number(special.gammaincc(self.shape, self.rate * np.maximum(any_floats("x", x), 0.0)))

    def isf(self, q: ArrayLike) -> Any:
        """Return the point that each probability lies above."""
        return number(special.gammainccinv(self.shape, any_floats("q", q)) / self.rate)

    def concave_slope(self, x: float) -> Any:
        """Return the slope of the concave part of the log-density."""
        return max(self.shape - 1, 0.0) / x - self.rate

    def ppf(self, q: ArrayLike) -> Any:
        """Return the quantile of each probability."""
        return number(special.gammaincinv(self.shape, any_floats("q", q)) / self.rate)

    def kl(self, other: Gamma) -> Any:
        """Return the Kullback–Leibler divergence of this distribution from `other`."""
        return self.renyi(other, 1.0)

    def renyi(self, other: Gamma, order: ArrayLike) -> Any:
        """Return the Rényi divergence of this distribution from `other`; order 1 is Kullback–Leibler."""
        order = as_floats("order", order, 1.0)
        gap = self.rate - other.rate
        with np.errstate(invalid="ignore", divide="ignore"):
            mixed = np.log1p(order * gap / other.rate)
            # (log of the mixed rate over this rate) / (order - 1), whose limit at order 1 is gap / rate
            lift = np.where(order == 1, gap / self.rate, np.log1p((order - 1) * gap / self.rate) / (order - 1))
            shapes = log_gamma_gap(self.shape, other.shape - self.shape, order)
            value = shapes + other.shape * mixed - order * self.shape * lift
        inside = (self.rate + (order - 1) * gap > 0) & np.isfinite(shapes)
        value = np.where(inside, np.maximum(value, 0.0), np.inf)
        return number(value)
