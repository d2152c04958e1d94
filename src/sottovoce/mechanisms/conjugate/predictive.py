"""A new record given the parameter: its mean, events, quantiles and draws, for many parameters at once.

The record is the model's own, not clipped to the public bounds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from sottovoce.mechanisms.conjugate.events import Cell, categories_in, cells_in
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.records.facts.condition_tree import Condition


class NewRecord(ABC):
    """What x, a new record, can be asked; θ comes as an array, one parameter a row."""

    @abstractmethod
    def mean(self, theta: Floats) -> Floats:
        """Return E[x | θ]."""

    @abstractmethod
    def probability(self, theta: Floats, event: Condition) -> Floats:
        """Return Pr[event | θ]."""

    @abstractmethod
    def mean_given(self, theta: Floats, event: Condition) -> Floats:
        """Return E[x | event, θ]; NaN where the event has no probability left."""

    @abstractmethod
    def quantile(self, theta: Floats, level: float) -> Floats:
        """Return the smallest value that x stays at or below with probability `level`."""

    @abstractmethod
    def draw(self, theta: Floats, rng: np.random.Generator) -> Any:
        """Return x drawn at random, one for each θ."""


class _OnTheLine(NewRecord):
    """A record that is a number: events are cells of the line."""

    @abstractmethod
    def _mass(self, theta: Floats, cell: Cell) -> tuple[Floats, Floats]:
        """Return Pr[x in cell | θ] and E[x; x in cell | θ]."""

    def probability(self, theta: Floats, event: Condition) -> Floats:
        return np.clip(self._sums(theta, event)[0], 0.0, 1.0)

    def mean_given(self, theta: Floats, event: Condition) -> Floats:
        mass, moment = self._sums(theta, event)
        return np.asarray(moment / np.where(mass > 0, mass, np.nan))

    def _sums(self, theta: Floats, event: Condition) -> tuple[Floats, Floats]:
        mass, moment = np.zeros(theta.shape), np.zeros(theta.shape)
        for cell in cells_in(event):
            more, weighted = self._mass(theta, cell)
            mass, moment = mass + more, moment + weighted
        return mass, moment


def _whole(cell: Cell) -> tuple[float, float]:
    """Return the first and the last whole number in a cell; first > last where there is none."""
    if cell.is_point:
        return np.ceil(cell.low), np.floor(cell.low)
    return np.floor(cell.low) + 1, np.ceil(cell.high) - 1


class _Bernoulli(_OnTheLine):
    def mean(self, theta: Floats) -> Floats:
        return theta

    def _mass(self, theta: Floats, cell: Cell) -> tuple[Floats, Floats]:
        first, last = _whole(cell)
        item = theta * (first <= 1 <= last)
        return item + (1 - theta) * (first <= 0 <= last), item

    def quantile(self, theta: Floats, level: float) -> Floats:
        return np.where(1 - theta >= level, 0.0, 1.0)

    def draw(self, theta: Floats, rng: np.random.Generator) -> Floats:
        return (rng.random(theta.shape) < theta).astype(np.float64)


class _Poisson(_OnTheLine):
    def mean(self, theta: Floats) -> Floats:
        return theta

    def _mass(self, theta: Floats, cell: Cell) -> tuple[Floats, Floats]:
        first, last = _whole(cell)
        return _poisson(theta, first, last), theta * _poisson(theta, first - 1, last - 1)

    def quantile(self, theta: Floats, level: float) -> Floats:
        result = np.ceil(special.pdtrik(level, theta))
        below = np.maximum(result - 1, 0.0)  # where a rounding carried it over a whole number
        return np.where(special.pdtr(below, theta) >= level, below, result)

    def draw(self, theta: Floats, rng: np.random.Generator) -> Floats:
        return rng.poisson(np.minimum(theta, 1e15)).astype(np.float64)


def _poisson(theta: Floats, first: float, last: float) -> Floats:
    """Return Pr[first <= x <= last], from whichever tail keeps its digits."""
    first = max(first, 0.0)
    if last < first:
        return np.zeros(theta.shape)

    def at_most(k: float) -> Any:
        return special.pdtr(k, theta) if k >= 0 else 0.0

    def above(k: float) -> Any:
        return special.pdtrc(k, theta) if k >= 0 else 1.0

    if last == np.inf:
        return np.asarray(above(first - 1) * np.ones(theta.shape))
    return np.asarray(np.where(first > theta, above(first - 1) - above(last), at_most(last) - at_most(first - 1)))


class _Exponential(_OnTheLine):
    def mean(self, theta: Floats) -> Floats:
        return 1 / theta

    def _mass(self, theta: Floats, cell: Cell) -> tuple[Floats, Floats]:
        if cell.is_point or cell.high <= 0:
            return np.zeros(theta.shape), np.zeros(theta.shape)
        low, high = max(cell.low, 0.0), cell.high
        mass = np.exp(-theta * low) * -np.expm1(-theta * (high - low))
        over = 0.0 if high == np.inf else (high - low) * np.exp(-theta * high)
        return mass, (low + 1 / theta) * mass - over

    def quantile(self, theta: Floats, level: float) -> Floats:
        return np.asarray(-np.log1p(-level) / theta)

    def draw(self, theta: Floats, rng: np.random.Generator) -> Floats:
        return np.asarray(rng.exponential(size=theta.shape) / theta)


@dataclass(frozen=True)
class _Gaussian(_OnTheLine):
    sigma: float

    def mean(self, theta: Floats) -> Floats:
        return theta

    def _mass(self, theta: Floats, cell: Cell) -> tuple[Floats, Floats]:
        if cell.is_point:
            return np.zeros(theta.shape), np.zeros(theta.shape)
        low, high = (cell.low - theta) / self.sigma, (cell.high - theta) / self.sigma
        upper = low > 0  # the tail that keeps its digits
        mass = np.where(upper, special.ndtr(-low) - special.ndtr(-high), special.ndtr(high) - special.ndtr(low))
        bump = (np.exp(-(low**2) / 2) - np.exp(-(high**2) / 2)) / np.sqrt(2 * np.pi)
        return mass, theta * mass + self.sigma * bump

    def quantile(self, theta: Floats, level: float) -> Floats:
        return np.asarray(theta + self.sigma * special.ndtri(level))

    def draw(self, theta: Floats, rng: np.random.Generator) -> Floats:
        return rng.normal(theta, self.sigma)


@dataclass(frozen=True)
class _Categorical(NewRecord):
    categories: tuple[Any, ...]

    def _numbers(self, what: str) -> Floats:
        if any(isinstance(c, bool) or not isinstance(c, int | float) for c in self.categories):
            raise InvalidValue(f"x is a category, and {what} asks for a number; ask for probability(x = ...) instead")
        return np.array(self.categories, dtype=np.float64)

    def mean(self, theta: Floats) -> Floats:
        return np.asarray(theta @ self._numbers("mean(x)"))

    def probability(self, theta: Floats, event: Condition) -> Floats:
        return np.asarray(theta[:, categories_in(event, self.categories)].sum(axis=1))

    def mean_given(self, theta: Floats, event: Condition) -> Floats:
        chosen, numbers = categories_in(event, self.categories), self._numbers("mean(x | ...)")
        mass = self.probability(theta, event)
        return np.asarray(theta[:, chosen] @ numbers[chosen] / np.where(mass > 0, mass, np.nan))

    def quantile(self, theta: Floats, level: float) -> Floats:
        numbers = self._numbers("quantile(x, ...)")
        order = np.argsort(numbers)
        below = theta[:, order].cumsum(axis=1) < level
        return np.asarray(numbers[order][np.minimum(below.sum(axis=1), numbers.size - 1)])

    def draw(self, theta: Floats, rng: np.random.Generator) -> Any:
        below = theta.cumsum(axis=1) <= rng.random((len(theta), 1)) * theta.sum(axis=1, keepdims=True)
        index = np.minimum(below.sum(axis=1), len(self.categories) - 1)
        return np.array([self.categories[i] for i in index], dtype=object)


@dataclass(frozen=True)
class _GaussianVector(NewRecord):
    sigma: float

    def mean(self, theta: Floats) -> Floats:
        return theta

    def probability(self, theta: Floats, event: Condition) -> Floats:
        raise self._refusal("events")

    def mean_given(self, theta: Floats, event: Condition) -> Floats:
        raise self._refusal("events")

    def quantile(self, theta: Floats, level: float) -> Floats:
        raise self._refusal("quantiles")

    def draw(self, theta: Floats, rng: np.random.Generator) -> Floats:
        return rng.normal(theta, self.sigma)

    @staticmethod
    def _refusal(what: str) -> InvalidValue:
        return InvalidValue(f"x is a vector here and has no {what}; ask for theta, mean(x) or draw(x)")


def yes_or_no() -> NewRecord:
    """Return a record that is 1 with probability θ, else 0."""
    return _Bernoulli()


def poisson() -> NewRecord:
    """Return a count whose rate is θ.

    >>> poisson().mean(np.array([2.5]))
    array([2.5])
    """
    return _Poisson()


def exponential() -> NewRecord:
    """Return a time whose rate is θ."""
    return _Exponential()


def normal(sigma: float) -> NewRecord:
    """Return a number about θ with this standard deviation."""
    return _Gaussian(sigma)


def vector(sigma: float) -> NewRecord:
    """Return a vector about θ, each coordinate with this standard deviation."""
    return _GaussianVector(sigma)


def categorical(categories: tuple[object, ...]) -> NewRecord:
    """Return one of these categories, whose probabilities are θ."""
    return _Categorical(categories)
