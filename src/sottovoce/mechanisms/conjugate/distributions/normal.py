"""Normal distributions: of one number, and of a vector with equal variances."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
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
    positive,
)
from sottovoce.mechanisms.conjugate.exact_posteriors import NormalLaw
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, any_floats, as_floats


@dataclass(frozen=True, eq=False)
class Normal(ScalarDistribution):
    """N(centre, spread): a mean and a variance.

    Examples
    --------
    >>> posterior = Normal(1.0, 4.0)
    >>> [round(end, 3) for end in posterior.interval(0.95)]
    [-2.92, 4.92]
    >>> Normal(0.0, 1.0).renyi(Normal(1.0, 1.0), 3.0)
    1.5
    """

    word: ClassVar[str] = "normal"
    centre: Any
    spread: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "centre", frozen(as_floats("centre", self.centre, -np.inf)))
        object.__setattr__(self, "spread", positive("spread", self.spread))

    @property
    def law(self) -> NormalLaw | None:
        """The law of the very doubles; None of several side by side."""
        return NormalLaw(Fraction(self.centre), Fraction(self.spread)) if isinstance(self.centre, float) else None

    @property
    def log_partition(self) -> Any:
        """The log-partition C(η) = centre²/(2 spread) + log(spread)/2."""
        return number(self.centre**2 / (2 * self.spread) + np.log(self.spread) / 2)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.centre

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.spread

    def sample(self, size: Size = None, rng: np.random.Generator | None = None) -> Any:
        """Return one draw, or an array of `size` of them."""
        return generator(rng).normal(self.centre, np.sqrt(self.spread), check_size(size))

    def log_density(self, x: ArrayLike) -> Any:
        """Return the logarithm of the density."""
        x = any_floats("x", x)
        if np.ndim(self.centre) and x.ndim and x.shape[-1] not in (1, np.shape(self.centre)[-1]):
            raise InvalidValue(f"x must hold {np.shape(self.centre)[-1]} numbers along its last axis")
        with np.errstate(over="ignore"):
            squares = (x - self.centre) ** 2 / self.spread
        return number(-(squares + np.log(2 * np.pi * self.spread)) / 2)

    def cdf(self, x: ArrayLike) -> Any:
        """Return the distribution function."""
        return number(special.ndtr((any_floats("x", x) - self.centre) / np.sqrt(self.spread)))

    def sf(self, x: ArrayLike) -> Any:
        """Return Pr[θ > x]."""
        return number(special.ndtr((self.centre - any_floats("x", x)) / np.sqrt(self.spread)))

    def isf(self, q: ArrayLike) -> Any:
        """Return the point that each probability lies above."""
        return number(self.centre - np.sqrt(self.spread) * special.ndtri(any_floats("q", q)))

    def concave_slope(self, x: float) -> Any:
        """Return the slope of the log-density."""
        return (self.centre - x) / self.spread

    def ppf(self, q: ArrayLike) -> Any:
        """Return the quantile of each probability."""
        return number(self.centre + np.sqrt(self.spread) * special.ndtri(any_floats("q", q)))

    def kl(self, other: Normal) -> Any:
        """Return the Kullback–Leibler divergence of this distribution from `other`."""
        return self.renyi(other, 1.0)

    def renyi(self, other: Normal, order: ArrayLike) -> Any:
        """Return the Rényi divergence of this distribution from `other`; order 1 is Kullback–Leibler."""
        value = _renyi((self.centre - other.centre) ** 2, 1, self.spread, other.spread, order)
        return number(value)


@dataclass(frozen=True, eq=False)
class NormalVector(Distribution):
    """N(centre, spread·I): a mean vector and one variance for every coordinate.

    >>> NormalVector([0.0, 0.0], 1.0).kl(NormalVector([1.0, 1.0], 1.0))
    1.0
    """

    word: ClassVar[str] = "normal vector"
    centre: Any
    spread: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "centre", frozen(as_floats("centre", self.centre, -np.inf)))
        object.__setattr__(self, "spread", positive("spread", self.spread))
        if np.ndim(self.centre) != 1 or np.ndim(self.spread) != 0:
            raise InvalidValue("a normal vector has one vector of means and one variance")

    @property
    def mean(self) -> Any:
        """The mean vector."""
        return self.centre

    @property
    def variance(self) -> Floats:
        """The variance of each coordinate."""
        return np.full(self.centre.shape, self.spread)

    @property
    def law(self) -> list[NormalLaw] | None:
        """The laws of the very doubles, one a coordinate; None of several side by side, or of several spreads."""
        if np.ndim(self.centre) != 1 or np.ndim(self.spread) != 0:
            return None
        return [NormalLaw(Fraction(c), Fraction(float(self.spread))) for c in self.centre.tolist()]

    @property
    def marginals(self) -> Normal:
        """The distributions of the coordinates, side by side."""
        return Normal(self.centre, self.variance)

    def sample(self, size: Size = None, rng: np.random.Generator | None = None) -> Any:
        """Return one vector, or an array of `size` of them (draws first)."""
        shape = self.centre.shape if size is None else tuple(np.atleast_1d(check_size(size))) + self.centre.shape
        return generator(rng).normal(self.centre, np.sqrt(self.spread), shape)

    def log_density(self, x: ArrayLike) -> Any:
        """Return the logarithm of the density at vectors along the last axis."""
        return np.sum(self.marginals.log_density(x), axis=-1)

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Return the equal-tailed interval of each coordinate."""
        return self.marginals.interval(check_level(level))

    def kl(self, other: NormalVector) -> Any:
        """Return the Kullback–Leibler divergence of this distribution from `other`."""
        return self.renyi(other, 1.0)

    def renyi(self, other: NormalVector, order: ArrayLike) -> Any:
        """Return the Rényi divergence of this distribution from `other`; order 1 is Kullback–Leibler."""
        squares = np.sum((self.centre - other.centre) ** 2)
        value = _renyi(squares, self.centre.size, self.spread, other.spread, order)
        return number(value)


def _renyi(squares: Any, dimension: int, p: Any, q: Any, order: ArrayLike) -> Floats:
    order = as_floats("order", order, 1.0)
    mixed = q + (order - 1) * (q - p)
    with np.errstate(invalid="ignore", divide="ignore"):
        lift = np.where(order == 1, (q - p) / q, np.log1p((order - 1) * (q - p) / q) / (order - 1))
        value = order * squares / (2 * mixed) + dimension / 2 * (np.log(q / p) - lift)
    return np.where(mixed > 0, np.maximum(value, 0.0), np.inf)
