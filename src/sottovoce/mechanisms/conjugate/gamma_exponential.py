"""A rate of waiting times: exponential records, Gamma prior."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sottovoce.mechanisms.conjugate.conjugate import check_weights
from sottovoce.mechanisms.conjugate.distributions import Gamma
from sottovoce.mechanisms.conjugate.distributions.base import positive
from sottovoce.mechanisms.conjugate.exact_posteriors import GammaLaw, exact_total
from sottovoce.mechanisms.conjugate.gamma_rate import GammaRate
from sottovoce.privacy.numbers import Floats, ceil_float, floor_float
from sottovoce.privacy.pairs import GammaRatePairs, LikelihoodRatioProfile
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.records.facts import Column, Number
from sottovoce.records.readings import ClippedSum, Statistics


@dataclass(frozen=True, eq=False)
class GammaExponential(GammaRate):
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

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "high", positive("high", self.high))

    @classmethod
    def usual(cls, column: Column | None) -> dict[str, Any] | None:
        """Return a prior that is worth one record in the middle of how long it may take; times start at 0."""
        if not isinstance(column, Number) or column.low != 0:
            return None
        return {"shape": 1.0, "rate": column.high / 2, "high": column.high}

    def new_record(self) -> Any:
        """Return what a new record is: a time."""
        from sottovoce.mechanisms.conjugate.predictive import exponential  # noqa: PLC0415 - few ask for it

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

    def law(self, statistics: Statistics, data_weight: float = 1.0, prior_weight: float = 1.0) -> GammaLaw:
        """Return Gamma(v·shape + wn, v·rate + wΣx) in fractions."""
        w, v = map(Fraction, check_weights(data_weight, prior_weight))
        (total,) = exact_total(self.check(statistics))
        return GammaLaw(v * Fraction(self.shape) + w * statistics.n, v * Fraction(self.rate) + w * total)

    def _near_profile(self, n: int, step: float, data_weight: float, prior_weight: float) -> Profile:
        return replace(self, high=min(self.high, step))._profile(n, data_weight, prior_weight)

    def _profile(self, n: int, data_weight: float, prior_weight: float) -> Profile:
        # A larger shape, a smaller rate and a longer step are worse: rounded so, the claim covers the numbers used.
        w, v = Fraction(data_weight), Fraction(prior_weight)
        shape, low = ceil_float(v * Fraction(self.shape) + w * n), floor_float(v * Fraction(self.rate))
        high = max(ceil_float(Fraction(low) + w * Fraction(self.high)), math.nextafter(low, math.inf))
        basis = Basis.EXACT if high - low > 1e-7 * low else Basis.BOUND
        return LikelihoodRatioProfile((GammaRatePairs(shape, low, high),), basis=basis)

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

    def log_ratio_range(self, truncation: object) -> float:
        """Return the range of high·θ for θ in `truncation` = (low, high) of the rate."""
        low, high = self.check_truncation(truncation)
        return ceil_float(Fraction(self.high) * (Fraction(high) - Fraction(low)))
