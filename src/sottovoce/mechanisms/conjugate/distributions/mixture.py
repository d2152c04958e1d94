"""Mixtures of Beta, Gamma, Normal or Dirichlet distributions: what is known of θ through noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from sottovoce.mechanisms.conjugate.distributions.base import (
    Distribution,
    ScalarDistribution,
    Size,
    check_level,
    check_size,
    frozen,
    generator,
    number,
)
from sottovoce.mechanisms.conjugate.distributions.beta import Beta
from sottovoce.mechanisms.conjugate.distributions.dirichlet import Dirichlet
from sottovoce.mechanisms.conjugate.distributions.mixtures import mixed_quantiles, spread_points
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, any_floats, as_floats
from sottovoce.privacy.randomness import seeded_rng

_AT_ONCE = 2**18
"""How many components, once for each quantile, are looked at together: more would only take memory."""


def _check_weights(mixture: Any, count: int) -> None:
    weights = as_floats("weights", mixture.weights, 0.0)
    if weights.shape != (count,) or not weights.sum() > 0:
        raise InvalidValue(f"a mixture needs one weight >= 0 a component, not all zero. Got {weights.shape}")
    total = float(weights.sum())
    # Weights read back from JSON already sum to one; leave their last digits alone.
    object.__setattr__(mixture, "weights", frozen(weights if abs(total - 1) < 1e-12 else weights / total))


def _pick(weights: Floats, size: Size, rng: np.random.Generator) -> Any:
    index = np.searchsorted(np.cumsum(weights), rng.random(check_size(size)), side="right")
    return np.minimum(index, weights.size - 1)


@dataclass(frozen=True, eq=False)
class Mixture(ScalarDistribution):
    """Σ_k w_k P_k, the components P_k side by side in one distribution with array parameters.

    Examples
    --------
    >>> from sottovoce.mechanisms.conjugate.distributions import Beta
    >>> blend = Mixture(Beta([1.0, 3.0], [3.0, 1.0]), [0.5, 0.5])
    >>> blend.mean, round(blend.cdf(0.5), 12)
    (0.5, 0.5)
    """

    word: ClassVar[str] = "mixture"
    components: Any
    weights: Any

    def __post_init__(self) -> None:
        _check_weights(self, np.size(self.components.mean))

    @property
    def mean(self) -> float:
        """The mean."""
        return float(self.weights @ self.components.mean)

    @property
    def variance(self) -> float:
        """The variance: within the components and between them."""
        between = (self.components.mean - self.mean) ** 2
        return float(self.weights @ (self.components.variance + between))

    def sample(self, size: Size = None, rng: np.random.Generator | None = None) -> Any:
        """Return one draw, or an array of `size` of them."""
        rng = generator(rng)
        return number(self.components.take(_pick(self.weights, size, rng)).sample(None, rng))

    def log_density(self, x: ArrayLike) -> Any:
        """Return the logarithm of the density."""
        logs = np.where(self.weights > 0, self.components.log_density(any_floats("x", x)[..., None]), -np.inf)
        top = np.clip(logs.max(axis=-1, keepdims=True), -1e300, 1e300)  # a density may be nothing, or have a pole
        with np.errstate(divide="ignore"):
            return number(np.log(np.exp(logs - top) @ self.weights) + top[..., 0])

    def cdf(self, x: ArrayLike) -> Any:
        """Return Pr[θ <= x]."""
        return number(self.components.cdf(any_floats("x", x)[..., None]) @ self.weights)

    def kl(self, other: Any) -> float:
        """Return the Kullback–Leibler divergence from `other`, by a low-discrepancy rule of 512 points."""
        x, counted = spread_points(self.components, self.weights, 512)
        return float(counted @ (self.log_density(x) - other.log_density(x)))

    def sf(self, x: ArrayLike) -> Any:
        """Return Pr[θ > x]."""
        return number(self.components.sf(any_floats("x", x)[..., None]) @ self.weights)

    def isf(self, q: ArrayLike) -> Any:
        """Return the point that each probability lies above."""
        return self.ppf(1 - any_floats("q", q))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the equal-tailed interval that holds `level` of the mass, both ends found at once."""
        level = check_level(level)
        low, high = map(float, self.ppf([(1 - level) / 2, (1 + level) / 2]))
        return low, high

    def ppf(self, q: ArrayLike) -> Any:
        """Return the quantile of each probability."""
        q = any_floats("q", q)
        levels = q.ravel()
        inside, result = (levels > 0) & (levels < 1), np.empty(q.size)
        wanted, lot = np.flatnonzero(inside), max(_AT_ONCE // self.weights.size, 2)
        for first in range(0, wanted.size, lot):
            subset = wanted[first : first + lot]
            result[subset] = mixed_quantiles(self.components, self.weights[None], levels[subset])
        ends = [self.components.ppf(p).min() if p <= 0 else self.components.ppf(p).max() for p in levels[~inside]]
        result[~inside] = ends
        return number(result.reshape(q.shape))


@dataclass(frozen=True, eq=False)
class DirichletMixture(Distribution):
    """Σ_k w_k Dirichlet(α_k), the α_k as rows.

    >>> DirichletMixture(Dirichlet([[1.0, 3.0], [3.0, 1.0]]), [0.5, 0.5]).mean
    array([0.5, 0.5])
    """

    word: ClassVar[str] = "dirichlet mixture"
    components: Any
    weights: Any

    def __post_init__(self) -> None:
        _check_weights(self, np.shape(self.components.alpha)[0])

    @property
    def mean(self) -> Any:
        """The mean probabilities."""
        return self.weights @ self.components.mean

    @property
    def variance(self) -> Any:
        """The variance of each probability."""
        return self.weights @ (self.components.variance + (self.components.mean - self.mean) ** 2)

    def marginal(self, category: int) -> Mixture:
        """Return the mixture of Beta distributions of one probability, equal ones taken together."""
        alpha = np.asarray(self.components.alpha)
        mine = np.stack([alpha[:, category], alpha.sum(axis=-1) - alpha[:, category]])
        pairs, place = np.unique(mine, axis=1, return_inverse=True)
        return Mixture(Beta(*pairs), np.bincount(place.ravel(), self.weights))

    def sample(self, size: Size = None, rng: np.random.Generator | None = None) -> Any:
        """Return one vector of probabilities, or an array of `size` of them (draws first)."""
        rng = generator(rng)
        return Dirichlet(self.components.alpha[_pick(self.weights, size, rng)]).sample(None, rng)

    def log_density(self, x: ArrayLike) -> Any:
        """Return the logarithm of the density at probabilities along the last axis."""
        x = np.maximum(np.asarray(x, dtype=np.float64), 1e-300)
        with np.errstate(divide="ignore"):
            norms = np.log(self.weights) - self.components.log_partition
        return number(special.logsumexp(np.log(x) @ (self.components.alpha - 1).T + norms, axis=-1))

    def kl(self, other: Any, draws: int = 512) -> float:
        """Return the Kullback–Leibler divergence from `other`, estimated from draws with a fixed seed."""
        x = self.sample(draws, seeded_rng(0))
        return float(np.mean(self.log_density(x) - other.log_density(x)))

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Return the equal-tailed interval of each probability."""
        check_level(level)
        ends = [self.marginal(k).interval(level) for k in range(self.components.alpha.shape[-1])]
        low, high = np.array(ends).T
        return low, high
