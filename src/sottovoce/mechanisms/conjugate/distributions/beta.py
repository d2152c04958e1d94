"""The Beta distribution."""

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
from sottovoce.mechanisms.conjugate.exact_posteriors import BetaLaw
from sottovoce.privacy.numbers import Floats, any_floats, as_floats, log_gamma_gap

__all__ = ["Beta"]


@dataclass(frozen=True, eq=False)
class Beta(ScalarDistribution):
    """Beta(α, β) on [0, 1]: density proportional to θ^(α-1) (1-θ)^(β-1).

    Examples
    --------
    >>> posterior = Beta(3, 1)
    >>> posterior.mean
    0.75
    >>> round(posterior.kl(Beta(2, 2)), 6)
    0.806853
    """

    word: ClassVar[str] = "beta"
    alpha: Any
    beta: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", positive("alpha", self.alpha))
        object.__setattr__(self, "beta", positive("beta", self.beta))

    @property
    def law(self) -> BetaLaw | None:
        """The law of the very doubles; None of several side by side."""
        return BetaLaw(Fraction(self.alpha), Fraction(self.beta)) if isinstance(self.alpha, float) else None

    @property
    def log_partition(self) -> Any:
        """The log-partition C(η) = log B(α, β)."""
        return number(special.betaln(self.alpha, self.beta))

    @property
    def mean(self) -> Any:
        """The mean α/(α+β)."""
        return self.alpha / (self.alpha + self.beta)

    @property
    def variance(self) -> Any:
        """The variance."""
        total = self.alpha + self.beta
        return self.alpha * self.beta / (total * total * (total + 1))

    def sample(self, size: Size = None, rng: np.random.Generator | None = None) -> Any:
        """Return one draw, or an array of `size` of them."""
        return generator(rng).beta(self.alpha, self.beta, check_size(size))

    def log_density(self, x: ArrayLike) -> Any:
        """Return the logarithm of the density; -inf outside [0, 1]."""
        x = any_floats("x", x)
        inside = (x >= 0) & (x <= 1)
        y = np.where(inside, x, 0.5)
        with np.errstate(divide="ignore", invalid="ignore"):
            body = _times(self.alpha - 1, np.log(y)) + _times(self.beta - 1, np.log1p(-y))
        return number(np.where(inside, body - special.betaln(self.alpha, self.beta), -np.inf))

    def cdf(self, x: ArrayLike) -> Any:
        """Return the regularised incomplete beta function."""
        return number(special.betainc(self.alpha, self.beta, np.clip(any_floats("x", x), 0.0, 1.0)))

    def sf(self, x: ArrayLike) -> Any:
        """Return Pr[θ > x], by symmetry: SciPy's own complement is a hundred times slower on some machines."""
        x = np.clip(any_floats("x", x), 0.0, 1.0)
        below, above = special.betainc(self.alpha, self.beta, x), special.betainc(self.beta, self.alpha, 1 - x)
        # 1 - x is exact from 1/2 on; below, it has lost the digits of a small x that a light lower tail needs.
        return number(np.where((x < 0.5) & (below < 0.5), 1 - below, above))

    def isf(self, q: ArrayLike) -> Any:
        """Return the point that each probability lies above."""
        return number(special.betainccinv(self.alpha, self.beta, any_floats("q", q)))

    @property
    def reach(self) -> Any:
        """How far from the mean at most e^-40 of the mass lies: a Beta is sub-Gaussian (Marchal and Arbel 2017)."""
        return np.sqrt(20.35 / (self.alpha + self.beta + 1))

    def concave_slope(self, x: float) -> Any:
        """Return the slope of the concave part of the log-density."""
        return max(self.alpha - 1, 0.0) / x - max(self.beta - 1, 0.0) / (1 - x)

    def ppf(self, q: ArrayLike) -> Any:
        """Return the quantile of each probability."""
        return number(special.betaincinv(self.alpha, self.beta, any_floats("q", q)))

    def kl(self, other: Beta) -> Any:
        """Return the Kullback–Leibler divergence of this distribution from `other`."""
        return self.renyi(other, 1.0)

    def renyi(self, other: Beta, order: ArrayLike) -> Any:
        """Return the Rényi divergence of this distribution from `other`; order 1 is Kullback–Leibler."""
        order = as_floats("order", order, 1.0)
        a, b, c, d = np.broadcast_arrays(self.alpha, self.beta, other.alpha, other.beta)
        return dirichlet_renyi(np.stack([a, b]), np.stack([c, d]), order)


def _times(power: Any, logs: Floats) -> Any:
    """Return the product, nothing where the power is none: of a logarithm taken once for all distributions."""
    return np.where(power == 0, 0.0, power * logs)


def dirichlet_renyi(p: Floats, q: Floats, order: Floats) -> Any:
    """Return the Rényi divergence of two Dirichlet distributions, parameters along the first axis."""
    shape = p.shape[:1] + (1,) * max(order.ndim - (p.ndim - 1), 0) + p.shape[1:]
    p, q = p.reshape(shape), q.reshape(shape)
    parts = log_gamma_gap(p, q - p, order).sum(axis=0)
    full = log_gamma_gap(p.sum(axis=0), q.sum(axis=0) - p.sum(axis=0), order)
    divergence = np.where(np.isinf(parts), np.inf, parts - np.where(np.isinf(parts), 0.0, full))
    return number(np.maximum(divergence, 0.0))
