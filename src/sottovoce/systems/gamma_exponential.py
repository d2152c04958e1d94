"""A rate of waiting times: exponential records, Gamma prior."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.facts import Column, Number
from sottovoce.privacy.numbers import Floats, ceil_float, floor_float
from sottovoce.privacy.pairs import GammaRatePairs, LikelihoodRatioProfile
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.readings import ClippedSum, Statistics
from sottovoce.readings.base import checked_n
from sottovoce.systems.asking import RATE, Setting
from sottovoce.systems.conjugate import Conjugate, check_weights
from sottovoce.systems.distributions import Gamma
from sottovoce.systems.distributions.base import positive
from sottovoce.systems.distributions.truncated import Truncated
from sottovoce.systems.gamma_poisson import log_rate_prior, log_rate_span, positive_interval
from sottovoce.systems.laws import GammaLaw, exact_total, tempered_power

__all__ = ["GammaExponential"]


@dataclass(frozen=True, eq=False)
class GammaExponential(Conjugate):
    """A rate θ with prior Gamma(shape, rate); each record is a waiting time, clipped to [0, high].

    The posterior is Gamma(v·shape + wn, v·rate + wΣx). Neighbours move the rate by at most w·high; the supremum sits
    where the other records are all zero, and depends on n through the shape.

    Parameters
    ----------
    shape, rate
        The prior, both > 0.
    high
        The longest waiting time a record may have; public.

    Examples
    --------
    >>> system = GammaExponential(shape=2, rate=6, high=2.0)
    >>> system.posterior(system.statistics([0.5, 9.0]))
    Gamma(shape=4.0, rate=8.5)
    >>> round(system.lambda_star(n=2), 9)
    4.0
    """

    word: ClassVar[str] = "gamma-exponential"
    title: ClassVar[str] = "a rate of waiting (gamma–exponential)"
    settings: ClassVar[Mapping[str, Setting]] = {"shape": Setting("Prior shape"), "rate": RATE}
    shape: float
    rate: float
    high: float

    def __post_init__(self) -> None:
        for name in ("shape", "rate", "high"):
            object.__setattr__(self, name, positive(name, getattr(self, name)))

    @classmethod
    def usual(cls, column: Column | None) -> dict[str, Any] | None:
        """Return a prior that is worth one record in the middle of how long it may take; times start at 0."""
        if not isinstance(column, Number) or column.low != 0:
            return None
        return {"shape": 1.0, "rate": column.high / 2, "high": column.high}

    def new_record(self) -> Any:
        """Return what a new record is: a time."""
        from sottovoce.systems.predictive import exponential  # noqa: PLC0415 - brings all of scipy.stats

        return exponential()

    @property
    def reading(self) -> ClippedSum:
        """Waiting times clipped to [0, high]."""
        return ClippedSum(0.0, self.high)

    def posteriors(self, n: int, totals: Any, data_weight: float = 1.0, prior_weight: float = 1.0) -> Gamma:
        """Return the posteriors of an array of totals, side by side."""
        w, v = check_weights(data_weight, prior_weight)
        shape = v * self.shape + w * n
        return Gamma(np.broadcast_to(shape, np.shape(totals)), v * self.rate + w * totals)

    def posterior(self, statistics: Statistics, data_weight: float = 1.0, prior_weight: float = 1.0) -> Gamma:
        """Return Gamma(v·shape + wn, v·rate + wΣx)."""
        total = max(float(self.check(statistics).total[0]), 0.0)
        return self.posteriors(statistics.n, total, data_weight, prior_weight)

    def law(self, statistics: Statistics, data_weight: float = 1.0, prior_weight: float = 1.0) -> GammaLaw:
        """Return Gamma(v·shape + wn, v·rate + wΣx) in fractions."""
        w, v = map(Fraction, check_weights(data_weight, prior_weight))
        (total,) = exact_total(self.check(statistics))
        return GammaLaw(v * Fraction(self.shape) + w * statistics.n, v * Fraction(self.rate) + w * total)

    def worst_pairs(
        self, n: int, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> tuple[tuple[Gamma, Gamma], ...]:
        """Return both orders of the pair: all records 0, or one of them `high`."""
        if checked_n(n) == 0:
            return ()
        none, one = (self.posteriors(n, total, data_weight, prior_weight) for total in (0.0, self.high))
        return (none, one), (one, none)

    def _profile(self, n: int, data_weight: float, prior_weight: float) -> Profile:
        # A larger shape, a smaller rate and a longer step are worse: rounded so, the claim covers the numbers used.
        w, v = Fraction(data_weight), Fraction(prior_weight)
        shape, low = ceil_float(v * Fraction(self.shape) + w * n), floor_float(v * Fraction(self.rate))
        high = max(ceil_float(Fraction(low) + w * Fraction(self.high)), math.nextafter(low, math.inf))
        basis = Basis.EXACT if high - low > 1e-7 * low else Basis.BOUND
        return LikelihoodRatioProfile((GammaRatePairs(shape, low, high),), basis=basis)

    def _with_prior(self, prior: Gamma) -> Self:
        return replace(self, shape=prior.shape, rate=prior.rate)

    logarithmic: ClassVar[bool] = True

    def log_prior(self, u: Floats) -> Floats:
        """Return the logarithm of the prior density of u = log θ, up to a constant."""
        return log_rate_prior(self.shape, self.rate, u)

    def span(self) -> tuple[float, float]:
        """Return a range of log θ that holds every posterior."""
        return log_rate_span(self.shape, self.rate, self.high)

    def clipped_moments(self, u: Floats) -> tuple[Floats, Floats]:
        """Return the mean and the variance of min(x, high) for each log θ."""
        x = np.exp(u) * self.high
        small = x < 1e-3
        y = np.where(small, 1.0, x)
        with np.errstate(over="ignore"):
            first = np.where(small, 1 - x / 2 + x * x / 6, -np.expm1(-y) / y)
            plain = (1 - np.exp(-2 * y) - 2 * y * np.exp(-y)) / y**2
        second = np.where(small, x / 3 - x * x / 3, plain)
        return self.high * first, self.high**2 * np.maximum(second, 0.0)

    def unclipped_spread(self, u: Floats) -> tuple[Floats, Floats]:
        """Return the standard deviation 1/θ of a waiting time, and the length over which its tail falls by e."""
        return np.exp(-u), 1.5 * np.exp(-u)

    def clipped_chances(self, u: Floats) -> tuple[Floats, Floats]:
        """Return the chances that a waiting time is clipped to zero, which none is, and to `high`."""
        return np.zeros_like(u), np.exp(-np.exp(u) * self.high)

    def characteristic(self, u: Floats, t: Floats) -> Any:
        """Return E[e^(it·min(x, high))] = (θ - it·e^(-(θ-it)·high)) / (θ - it) for each log θ and t."""
        rate = np.exp(u)[:, None]
        decay = rate - 1j * t
        return (rate - 1j * t * np.exp(-decay * self.high)) / decay

    def check_truncation(self, truncation: Any = None) -> tuple[float, float]:
        """Return the interval (low, high) of the rate; there is no default."""
        return positive_interval(truncation)

    def log_ratio_range(self, truncation: Any) -> float:
        """Return the range of high·θ for θ in `truncation` = (low, high) of the rate."""
        low, high = self.check_truncation(truncation)
        return ceil_float(Fraction(self.high) * (Fraction(high) - Fraction(low)))

    def tempered(self, statistics: Statistics, temperature: float, truncation: Any) -> Truncated:
        """Return the joint density to the power 1/T, truncated: a truncated Gamma."""
        plain = self.posterior(statistics)
        base = Gamma((plain.shape - 1) / temperature + 1, plain.rate / temperature)
        return Truncated(base, *self.check_truncation(truncation))

    def tempered_law(self, statistics: Statistics, temperature: float, truncation: Any) -> GammaLaw:
        """Return the truncated Gamma in fractions."""
        plain, ends = self.law(statistics), map(Fraction, self.check_truncation(truncation))
        return GammaLaw(tempered_power(plain.shape, temperature), plain.rate / Fraction(temperature), *ends)
