"""A rate of counts: Poisson records, Gamma prior."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from scipy import special

from sottovoce.mechanisms.conjugate.conjugate import check_weights
from sottovoce.mechanisms.conjugate.distributions import Gamma
from sottovoce.mechanisms.conjugate.exact_posteriors import GammaLaw, exact_total
from sottovoce.mechanisms.conjugate.gamma_rate import GammaRate
from sottovoce.mechanisms.conjugate.normal_mean import clipped_normal_characteristic
from sottovoce.privacy.numbers import Floats, ceil_float, floor_float, log_up, whole
from sottovoce.privacy.pairs import GammaShapePairs, LikelihoodRatioProfile
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.pure import PureProfile
from sottovoce.records.facts import Column, Count
from sottovoce.records.readings import ClippedSum, Statistics

_MANY = 2.0**14
"""Counts with a mean beyond this are taken for normal ones when a total is read through noise."""


@dataclass(frozen=True, eq=False)
class GammaPoisson(GammaRate):
    """A rate θ of events with prior Gamma(shape, rate); each record is a count, clipped to 0..high.

    The posterior is Gamma(v·shape + wΣx, v·rate + wn). Neighbours move the shape by at most w·high, and a common rate
    changes no divergence: the supremum sits where the other records are all zero.

    Parameters
    ----------
    shape, rate
        The prior, both > 0.
    high
        The largest count a record may have; a public whole number.

    Examples
    --------
    >>> system = GammaPoisson(shape=4, rate=2, high=5)
    >>> system.posterior(system.statistics([1, 0, 9]))
    Gamma(shape=10.0, rate=5.0)
    >>> system.lambda_star(n=3)
    1.8
    """

    word: ClassVar[str] = "gamma-poisson"
    title: ClassVar[str] = "a rate of counts (gamma–Poisson)"
    high: int

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "high", whole("high", self.high, 1, floats=True))

    @classmethod
    def usual(cls, column: Column | None) -> dict[str, Any] | None:
        """Return a prior that is worth one record in the middle of what a count may be."""
        return {"shape": 1.0, "rate": 2 / column.high, "high": column.high} if isinstance(column, Count) else None

    def new_record(self) -> Any:
        """Return what a new record is: a count."""
        from sottovoce.mechanisms.conjugate.predictive import poisson  # noqa: PLC0415 - few ask for it

        return poisson()

    @property
    def reading(self) -> ClippedSum:
        """Whole counts clipped to 0..high."""
        return ClippedSum(0.0, float(self.high), integer=True)

    def posteriors(self, n: int, totals: Any, data_weight: float = 1.0, prior_weight: float = 1.0) -> Gamma:
        """Return the posteriors of an array of totals, side by side."""
        w, v = check_weights(data_weight, prior_weight)
        rate = v * self.rate + w * n
        return Gamma(v * self.shape + w * totals, np.broadcast_to(rate, np.shape(totals)))

    def law(self, statistics: Statistics, data_weight: float = 1.0, prior_weight: float = 1.0) -> GammaLaw:
        """Return Gamma(v·shape + wΣx, v·rate + wn) in fractions."""
        w, v = map(Fraction, check_weights(data_weight, prior_weight))
        (total,) = exact_total(self.check(statistics))
        return GammaLaw(v * Fraction(self.shape) + w * total, v * Fraction(self.rate) + w * statistics.n)

    def _near_profile(self, n: int, step: float, data_weight: float, prior_weight: float) -> Profile:
        if step < 1:
            return PureProfile(0.0)  # counts that differ do so by one at least
        return replace(self, high=min(self.high, math.floor(step)))._profile(n, data_weight, prior_weight)

    def _profile(self, n: int, data_weight: float, prior_weight: float) -> Profile:
        # A smaller shape and a longer step are worse: rounded so, the claim covers the numbers used.
        shape = floor_float(Fraction(prior_weight) * Fraction(self.shape))
        return LikelihoodRatioProfile((GammaShapePairs(shape, ceil_float(Fraction(data_weight) * self.high)),))

    def clipped_moments(self, u: Floats) -> tuple[Floats, Floats]:
        """Return the mean and the variance of min(x, high) for each log θ."""
        rate, top = np.exp(u), self.high
        above = special.pdtrc(top, rate)
        most, more = special.pdtr(top - 1, rate), special.pdtr(top - 2, rate) if top > 1 else 0.0
        with np.errstate(invalid="ignore"):
            first = np.where(most > 0, rate * most, 0.0) + top * above
            second = np.where(most > 0, rate * (rate * more + most), 0.0) + top * top * above
        return first, np.maximum(second - first**2, 0.0)

    def unclipped_spread(self, u: Floats) -> tuple[Floats, Floats]:
        """Return the standard deviation √θ of a count, and the length over which its tail falls by e."""
        return np.exp(u / 2), np.ones_like(u)

    def clipped_chances(self, u: Floats) -> tuple[Floats, Floats]:
        """Return the chances that a count is clipped to zero, which none is, and to `high`."""
        return np.zeros_like(u), np.asarray(special.pdtrc(self.high, np.exp(u)))

    def characteristic(self, u: Floats, t: Floats) -> Any:
        """Return E[e^(it·min(x, high))] for each log θ and t."""
        rate = np.exp(u)
        if rate.max() > _MANY:  # a Poisson count this large is normal
            return clipped_normal_characteristic(rate, np.sqrt(rate), (0.0, float(self.high)), t)
        spread = 9 * np.sqrt(rate.max()) + 30
        first = max(int(rate.min() - spread), 0)
        counts = np.arange(first, min(self.high, int(rate.max() + spread) + 1))
        waves = np.exp(1j * t * np.append(counts, self.high)[:, None])
        with np.errstate(divide="ignore"):
            log_chances = special.xlogy(counts, rate[:, None]) - rate[:, None] - special.gammaln(counts + 1)
        chances = np.append(np.exp(log_chances), special.pdtrc(self.high - 1, rate)[:, None], axis=1)
        return chances @ waves

    def log_ratio_range(self, truncation: object) -> float:
        """Return the range of high·log θ for θ in `truncation` = (low, high) of the rate."""
        low, high = self.check_truncation(truncation)
        return ceil_float(self.high * Fraction(log_up(Fraction(high), Fraction(low))))
