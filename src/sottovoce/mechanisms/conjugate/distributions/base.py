"""What every distribution can do: be sampled, summarised, compared, written down and read back."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import restoring
from sottovoce.privacy.numbers import Floats, as_floats, real, shown, whole
from sottovoce.privacy.randomness import secure_rng
from sottovoce.privacy.registry import Registry

__all__ = [
    "DISTRIBUTIONS",
    "LEVELS",
    "LEVEL_WEIGHTS",
    "Distribution",
    "ScalarDistribution",
    "Size",
    "check_level",
    "frozen",
    "generator",
    "number",
    "positive",
]

_HERE = "sottovoce.mechanisms.conjugate.distributions"
DISTRIBUTIONS = Registry(
    "distribution",
    {
        "beta": f"{_HERE}.beta:Beta",
        "dirichlet": f"{_HERE}.dirichlet:Dirichlet",
        "gamma": f"{_HERE}.gamma:Gamma",
        "normal": f"{_HERE}.normal:Normal",
        "normal vector": f"{_HERE}.normal:NormalVector",
        "truncated": f"{_HERE}.truncated:Truncated",
        "tabulated": f"{_HERE}.tabulated:Tabulated",
        "mixture": f"{_HERE}.mixture:Mixture",
        "dirichlet mixture": f"{_HERE}.mixture:DirichletMixture",
        "noisy histogram": "sottovoce.mechanisms.noisy_histogram:NoisyHistogram",
    },
    "sottovoce.distributions",
)
"""Every kind of distribution by its word."""

LEVELS, LEVEL_WEIGHTS = np.polynomial.legendre.leggauss(128)
LEVELS, LEVEL_WEIGHTS = (LEVELS + 1) / 2, LEVEL_WEIGHTS / 2
"""Probabilities whose quantiles average a function over a distribution, and their weights."""

Size = int | tuple[int, ...] | None


def positive(name: str, value: ArrayLike) -> Any:
    """Return `value` as a float or a frozen array of floats above zero, or raise `InvalidValue` naming it."""
    array = as_floats(name, value, 0.0)
    if not np.all(array > 0):
        raise InvalidValue(f"{name} must be > 0. Got {float(array.min()):g}")
    return frozen(array)


def frozen(array: Floats) -> Any:
    """Return a float where there is one number, else a copy that cannot be written to."""
    if array.ndim == 0:
        return float(array)
    array = array.copy()
    array.setflags(write=False)
    return array


def number(value: Any) -> Any:
    """Return a plain float where there is one number, else the array."""
    return float(value) if np.ndim(value) == 0 else value


def generator(rng: np.random.Generator | None) -> np.random.Generator:
    """Return `rng`, or a secure one where there is none."""
    return secure_rng() if rng is None else rng


@dataclass(frozen=True, eq=False)
class Distribution(ABC):
    """A distribution of the parameter. Parameters may be arrays: several distributions side by side."""

    word: ClassVar[str]

    @property
    @abstractmethod
    def mean(self) -> Any:
        """The mean."""

    @property
    @abstractmethod
    def variance(self) -> Any:
        """The variance, coordinate by coordinate where there are several."""

    @abstractmethod
    def sample(self, size: Size = None, rng: np.random.Generator | None = None) -> Any:
        """Return one draw, or an array of `size` of them (draws first). Secure randomness by default."""

    @abstractmethod
    def log_density(self, x: ArrayLike) -> Any:
        """Return the logarithm of the density."""

    @abstractmethod
    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Return the equal-tailed interval that holds `level` of the mass, coordinate by coordinate."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and all(
            _same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)
        )

    __hash__ = None  # type: ignore[assignment]

    def to_dict(self) -> dict[str, object]:
        """Return the distribution as plain values; `from_dict` reads it back."""
        return {"distribution": self.word} | {f.name: _plain(getattr(self, f.name)) for f in fields(self)}

    def to_json(self) -> str:
        """Return the distribution as JSON."""
        return json.dumps(self.to_dict())

    @staticmethod
    def from_dict(state: Mapping[str, object]) -> Distribution:
        """Read a distribution from `to_dict`'s form."""
        if not isinstance(state, Mapping):
            raise InvalidValue(f"a distribution is read from a dictionary. Got {shown(state)}")
        remainder = dict(state)
        word = remainder.pop("distribution", None)
        kind = DISTRIBUTIONS[word]
        values = {k: Distribution.from_dict(v) if isinstance(v, Mapping) else v for k, v in remainder.items()}
        with restoring(f"a {word} distribution"):
            distribution: Distribution = kind(**values)
        return distribution


def _same(a: Any, b: Any) -> bool:
    return bool(a == b) if isinstance(a, Distribution) else bool(np.array_equal(a, b))


def _plain(value: object) -> Any:
    if isinstance(value, Distribution):
        return value.to_dict()
    return value.tolist() if isinstance(value, np.ndarray) else value


@dataclass(frozen=True, eq=False)
class ScalarDistribution(Distribution):
    """A distribution of one number, with a distribution function and its inverse."""

    @abstractmethod
    def cdf(self, x: ArrayLike) -> Any:
        """Return Pr[θ <= x]."""

    def take(self, index: Any) -> Self:
        """Return those of several distributions side by side that `index` picks: their fields, not checked anew.

        A number that all of them share is each one's own.
        """
        built = object.__new__(type(self))  # what is picked was checked when these were made
        names = [f.name for f in fields(self)]
        for name, value in zip(names, np.broadcast_arrays(*(getattr(self, name) for name in names)), strict=True):
            object.__setattr__(built, name, frozen(value[index]))
        return built

    @abstractmethod
    def sf(self, x: ArrayLike) -> Any:
        """Return Pr[θ > x], with its digits where it is small."""

    @abstractmethod
    def ppf(self, q: ArrayLike) -> Any:
        """Return the quantile of each probability."""

    @abstractmethod
    def isf(self, q: ArrayLike) -> Any:
        """Return the point that each probability lies above."""

    def kl(self, other: Any) -> float:
        """Return the Kullback–Leibler divergence of this distribution from `other`, by quadrature over
        quantiles.
        """
        x = self.ppf(LEVELS)
        return float(LEVEL_WEIGHTS @ (self.log_density(x) - other.log_density(x)))

    def renyi(self, other: Any, order: float) -> Any:
        """Return the Rényi divergence of this distribution from `other`, by quadrature over quantiles."""
        if real("order", order, 1.0) == 1:
            return self.kl(other)
        x = self.ppf(LEVELS)
        powers = (order - 1) * (self.log_density(x) - other.log_density(x))
        return float(special.logsumexp(powers, b=LEVEL_WEIGHTS) / (order - 1))

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Return the equal-tailed interval that holds `level` of the mass."""
        level = check_level(level)
        return self.ppf((1 - level) / 2), self.ppf((1 + level) / 2)


def check_level(level: float) -> float:
    """Return a level strictly between 0 and 1, or raise `InvalidValue`."""
    number = real("level", level, -np.inf)
    if not 0 < number < 1:
        raise InvalidValue(f"level must lie strictly between 0 and 1. Got {number!r}")
    return number


def check_size(size: object) -> Any:
    """Return how many draws: None for one, a whole number, or several for an array; else raise `InvalidValue`."""
    if size is None:
        return None
    if isinstance(size, tuple | list):
        return tuple(whole("size", side) for side in size)
    return whole("size", size)
