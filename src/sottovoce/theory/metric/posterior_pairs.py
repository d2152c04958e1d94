"""Exact divergences between two posteriors of the example families (Dimitrakakis et al. 2014, Lemmas 3-6).

None of these posteriors is metric-private as it stands: the log-ratio of two of them is unbounded. Their divergences
are finite and known, and where the parameter is bounded (`bounded`) one Lipschitz constant holds for all of it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats, as_floats, ceil_float, floor_float, log_gamma_gap, log_up, real, whole
from sottovoce.privacy.pairs import BetaPairs, GammaRatePairs, LikelihoodRatioProfile, Pairs, rate_renyi
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.pure import PureProfile
from sottovoce.privacy.rounding import product_up
from sottovoce.theory.metric.metric import Metric, MetricDP, absolute_distance, squares_distance


class PosteriorPairs(ABC):
    """A likelihood with its prior, asked how far apart the posteriors of two data sets are."""

    metric: ClassVar[Metric]

    def divergence(self, x: object, y: object, order: float = 1.0) -> float:
        """Return the Rényi divergence of the posterior given x from the one given y; order 1 is Kullback–Leibler."""
        first, second = self._pair(x, y)
        value = float(self._renyi(first, second, as_floats("order", order, 1.0)))
        return max(value, 0.0)

    @abstractmethod
    def max_log_ratio(self, x: object, y: object) -> float:
        """Return the largest log-ratio of the two densities, which is infinite where it is unbounded."""

    @abstractmethod
    def total_variation(self, x: object, y: object) -> float:
        """Return the total variation distance of the two posteriors."""

    @abstractmethod
    def bounded(self, limit: float) -> MetricDP:
        """Return the metric privacy that holds when the prior is cut off at a limit of the parameter."""

    @abstractmethod
    def _statistic(self, records: Floats) -> Any:
        """Return what the posterior needs of the records, a number, or raise `InvalidData`."""

    @abstractmethod
    def _renyi(self, first: Any, second: Any, order: Floats) -> Floats:
        """Return the divergence between two posteriors given by (n, statistic)."""

    def _pair(self, x: object, y: object) -> tuple[tuple[int, Any], tuple[int, Any]]:
        first, second = _column(x), _column(y)
        if len(first) != len(second):
            raise InvalidData(f"both data sets must have n records: n is public. Got {len(first)} and {len(second)}")
        return (len(first), self._statistic(first)), (len(second), self._statistic(second))


def _column(records: object) -> Floats:
    column = np.asarray(records)
    if column.ndim != 1 or (column.size and not np.issubdtype(column.dtype, np.number) and column.dtype != bool):
        raise InvalidData(f"records must be one column of numbers. Got {column.dtype} of shape {column.shape}")
    column = column.astype(np.float64)
    if not np.isfinite(column).all():
        raise InvalidData("records must be finite; one is missing or infinite")
    return column


def _exact_sum(records: Floats, part: Callable[[Fraction], Fraction]) -> Fraction:
    """Return Σ part(x): rounded, the sums of two data sets may be the same where theirs are not."""
    values, counts = np.unique(records, return_counts=True)
    parts = zip(counts.tolist(), map(Fraction, values.tolist()), strict=True)
    return sum((count * part(value) for count, value in parts), Fraction(0))


def _set_positive(owner: object, *names: str) -> None:
    for name in names:
        object.__setattr__(owner, name, _positive(name, getattr(owner, name)))


def _positive(name: str, value: float) -> float:
    number = real(name, value)
    if number == 0:
        raise InvalidValue(f"{name} must be > 0. Got {number}")
    return number


class _OneScalar(PosteriorPairs):
    """A family whose log-ratio is monotone in one scalar, so that the whole curve of a pair is known."""

    @abstractmethod
    def _pairs(self, n: int, low: Any, high: Any) -> Pairs:
        """Return the pair of posteriors with n records and these two statistics."""

    def profile(self, x: object, y: object) -> Profile:
        """Return the exact profile of the pair, both ways: what one posterior sample tells of x against y."""
        (n, first), (_, second) = self._pair(x, y)
        if first == second:
            return PureProfile(0.0, basis=Basis.EXACT)
        return LikelihoodRatioProfile((self._pairs(n, *sorted((first, second))),))

    def total_variation(self, x: object, y: object) -> float:
        """Return the total variation distance of the two posteriors, δ(0) of their profile."""
        return float(self.profile(x, y).delta(0.0))


class _GammaRate(_OneScalar):
    """A family whose posterior is Gamma(shape(n), rate + statistic)."""

    rate: float

    def _shape(self, n: int) -> float:
        return 1.0 + n

    def _rates(self, first: Fraction, second: Fraction) -> tuple[float, float]:
        """Return the rates of two posteriors, rounded away from each other."""
        item, other = (Fraction(self.rate) + statistic for statistic in (first, second))
        return (floor_float(item), ceil_float(other)) if item < other else (ceil_float(item), floor_float(other))

    def _renyi(self, first: tuple[int, Fraction], second: tuple[int, Fraction], order: Floats) -> Floats:
        if first == second:
            return np.zeros(np.shape(order))
        return rate_renyi(self._shape(first[0]), *self._rates(first[1], second[1]), order)

    def max_log_ratio(self, x: object, y: object) -> float:
        """Return shape·ln(p/q) for rates p >= q; infinite the other way, where the density ratio grows with θ."""
        (n, first), (_, second) = self._pair(x, y)
        rate = Fraction(self.rate)
        return math.inf if second > first else product_up(self._shape(n), log_up(rate + first, rate + second))

    def _pairs(self, n: int, low: Fraction, high: Fraction) -> Pairs:
        return GammaRatePairs(self._shape(n), *self._rates(low, high))


@dataclass(frozen=True)
class ExponentialRate(_GammaRate):
    """Exp(θ) records with the prior θ ~ Exp(rate); the posterior is Gamma(1+n, rate+Σx) (Lemma 3).

    >>> family = ExponentialRate(rate=1.0)
    >>> round(family.divergence([0.0] * 10, [0.0] * 9 + [100.0]), 1)
    1049.2
    """

    metric: ClassVar[Metric] = staticmethod(absolute_distance)
    rate: float

    def __post_init__(self) -> None:
        _set_positive(self, "rate")

    def _statistic(self, records: Floats) -> Fraction:
        if records.size and records.min() < 0:
            raise InvalidData(f"exponential records must be >= 0. Got {records.min():g}")
        return _exact_sum(records, lambda x: x)

    def bounded(self, limit: float) -> MetricDP:
        """Return the metric privacy under the prior cut off at θ <= `limit`: L = limit."""
        return MetricDP(_positive("limit", limit), absolute_distance)


@dataclass(frozen=True)
class LaplaceScale(_GammaRate):
    """Laplace(location, s) records with 1/s ~ Exp(rate), whose posterior is Gamma(1+n, rate+Σ|x-location|) (Lemma 4).

    >>> round(LaplaceScale(location=0.0, rate=1.0).divergence([1.0, -1.0], [1.0, -2.0]), 5)
    0.13695
    """

    metric: ClassVar[Metric] = staticmethod(absolute_distance)
    location: float
    rate: float

    def __post_init__(self) -> None:
        _set_positive(self, "rate")
        object.__setattr__(self, "location", real("location", self.location, -np.inf))

    def _statistic(self, records: Floats) -> Fraction:
        return _exact_sum(records, lambda x: abs(x - Fraction(self.location)))

    def bounded(self, limit: float) -> MetricDP:
        """Return the metric privacy under the prior cut off at s >= `limit`: L = 1/limit, whatever the location."""
        return MetricDP(ceil_float(1 / Fraction(_positive("limit", limit))), absolute_distance)


@dataclass(frozen=True)
class NormalPrecision(_GammaRate):
    """N(mean, 1/t) records with the precision t ~ Exp(rate); t has the posterior Gamma(1+n/2, rate+Σ(x-mean)²/2).

    Lemma 6 puts the exponential prior on the variance 1/t; its own assumption holds for this one and not for that.

    >>> round(NormalPrecision(mean=0.0, rate=1.0).divergence([1.0, -1.0], [1.0, -2.0]), 5)
    0.38077
    """

    metric: ClassVar[Metric] = staticmethod(squares_distance)
    mean: float
    rate: float

    def __post_init__(self) -> None:
        _set_positive(self, "rate")
        object.__setattr__(self, "mean", real("mean", self.mean, -np.inf))

    def _statistic(self, records: Floats) -> Fraction:
        return _exact_sum(records, lambda x: (x - Fraction(self.mean)) ** 2 / 2)

    def _shape(self, n: int) -> float:
        return 1.0 + n / 2

    def bounded(self, limit: float) -> MetricDP:
        """Return the metric privacy under the prior cut off at a variance >= `limit`: L = max(1, |mean|)/(2·limit)."""
        slope = Fraction(max(1.0, abs(self.mean))) / (2 * Fraction(_positive("limit", limit)))
        return MetricDP(ceil_float(slope), squares_distance)


@dataclass(frozen=True)
class BinomialProportion(_OneScalar):
    """Binomial(trials, θ) counts with the prior θ ~ Beta(alpha, beta) (Lemma 5).

    >>> family = BinomialProportion(6.0, 12.0, trials=1)
    >>> round(family.profile([1] + [0] * 99, [0] * 100).delta(0.0), 6)
    0.164901
    """

    metric: ClassVar[Metric] = staticmethod(absolute_distance)
    alpha: float
    beta: float
    trials: int = 1

    def __post_init__(self) -> None:
        _set_positive(self, "alpha", "beta")
        object.__setattr__(self, "trials", whole("trials", self.trials, 1))

    def _statistic(self, records: Floats) -> float:
        if records.size and not (records.min() >= 0 and records.max() <= self.trials):
            raise InvalidData(
                f"counts must lie between 0 and {self.trials}. Got {records.min():g} to {records.max():g}"
            )
        if not np.array_equal(records, np.rint(records)):
            raise InvalidData("counts must be whole numbers; one is a fraction")
        return float(records.sum())

    def _renyi(self, first: tuple[int, float], second: tuple[int, float], order: Floats) -> Floats:
        total, step = first[0] * self.trials, first[1] - second[1]
        hits = log_gamma_gap(self.alpha + first[1], -step, order)
        return np.asarray(hits + log_gamma_gap(self.beta + total - first[1], step, order))

    def max_log_ratio(self, x: object, y: object) -> float:
        """Return 0 for equal totals, else infinity: the ratio has a pole at θ = 0 or 1."""
        first, second = self._pair(x, y)
        return 0.0 if first == second else math.inf

    def _pairs(self, n: int, low: float, high: float) -> Pairs:
        return BetaPairs(self.alpha + low, self.beta + n * self.trials - high, step=high - low)

    def bounded(self, limit: float) -> MetricDP:
        """Return the metric privacy under the prior cut off to [limit, 1-limit]: L = ln((1-limit)/limit).

        The binomial coefficient is free of θ and cancels; the paper carries it along as ln(trials).
        """
        cut = _positive("limit", limit)
        if cut >= 0.5:
            raise InvalidValue(f"limit must be < 0.5, for θ in [limit, 1-limit]. Got {cut}")
        return MetricDP(log_up(1 - Fraction(cut), Fraction(cut)), absolute_distance)
