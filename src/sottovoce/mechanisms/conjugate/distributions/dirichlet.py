"""The Dirichlet distribution."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from sottovoce.mechanisms.conjugate.distributions.base import (
    Distribution,
    Size,
    check_size,
    generator,
    number,
    positive,
)
from sottovoce.mechanisms.conjugate.distributions.beta import Beta, dirichlet_renyi
from sottovoce.mechanisms.conjugate.exact_posteriors import DirichletLaw
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, any_floats, as_floats


@dataclass(frozen=True, eq=False)
class Dirichlet(Distribution):
    """Dirichlet(α) on the probabilities of d categories (the last axis of α).

    Examples
    --------
    >>> posterior = Dirichlet([2.0, 1.0, 1.0])
    >>> posterior.mean
    array([0.5 , 0.25, 0.25])
    >>> posterior.marginal(0)
    Beta(alpha=2.0, beta=2.0)
    """

    word: ClassVar[str] = "dirichlet"
    alpha: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", positive("alpha", self.alpha))
        if np.ndim(self.alpha) == 0 or np.shape(self.alpha)[-1] < 2:
            raise InvalidValue(f"a Dirichlet needs at least two categories. Got alpha={self.alpha!r}")

    @property
    def law(self) -> DirichletLaw | None:
        """The law of the very doubles; None of several side by side."""
        return DirichletLaw(tuple(map(Fraction, self.alpha.tolist()))) if self.alpha.ndim == 1 else None

    @property
    def log_partition(self) -> Any:
        """The log-partition C(η) = Σ log Γ(α_k) - log Γ(Σ α_k)."""
        return number(special.gammaln(self.alpha).sum(axis=-1) - special.gammaln(self.alpha.sum(axis=-1)))

    @property
    def mean(self) -> Any:
        """The mean probabilities."""
        return self.alpha / self.alpha.sum(axis=-1, keepdims=True)

    @property
    def variance(self) -> Any:
        """The variance of each probability."""
        mean = self.mean
        return mean * (1 - mean) / (self.alpha.sum(axis=-1, keepdims=True) + 1)

    @property
    def marginals(self) -> Beta:
        """The Beta distributions of all single probabilities, side by side."""
        return Beta(self.alpha, self.alpha.sum(axis=-1, keepdims=True) - self.alpha)

    def marginal(self, category: int) -> Beta:
        """Return the Beta distribution of one probability."""
        return self.marginals.take((..., category))

    def sample(self, size: Size = None, rng: np.random.Generator | None = None) -> Any:
        """Return one vector of probabilities, or an array of `size` of them (draws first)."""
        rng = generator(rng)
        if self.alpha.ndim == 1:
            return rng.dirichlet(self.alpha, check_size(size))
        shape = self.alpha.shape if size is None else tuple(np.atleast_1d(check_size(size))) + self.alpha.shape[-1:]
        gammas = rng.standard_gamma(self.alpha, shape)
        return gammas / gammas.sum(axis=-1, keepdims=True)

    def log_density(self, x: ArrayLike) -> Any:
        """Return the logarithm of the density at probabilities along the last axis."""
        x = any_floats("x", x)
        if x.shape[-1:] != self.alpha.shape[-1:]:
            raise InvalidValue(f"x must hold {self.alpha.shape[-1]} probabilities along its last axis")
        norm = special.gammaln(self.alpha.sum(axis=-1)) - special.gammaln(self.alpha).sum(axis=-1)
        return number(special.xlogy(self.alpha - 1, x).sum(axis=-1) + norm)

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Return the equal-tailed interval of each probability."""
        return self.marginals.interval(level)

    def kl(self, other: Dirichlet) -> Any:
        """Return the Kullback–Leibler divergence of this distribution from `other`."""
        return self.renyi(other, 1.0)

    def renyi(self, other: Dirichlet, order: ArrayLike) -> Any:
        """Return the Rényi divergence of this distribution from `other`; order 1 is Kullback–Leibler."""
        p, q = np.moveaxis(self.alpha, -1, 0), np.moveaxis(other.alpha, -1, 0)
        return dirichlet_renyi(p, q, as_floats("order", order, 1.0))
