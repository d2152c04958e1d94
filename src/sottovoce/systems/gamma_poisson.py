"""A rate of counts: Poisson records, Gamma prior."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy import special

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.likelihood_ratio import LikelihoodRatioProfile
from sottovoce.privacy.numbers import Floats, real, shown, whole
from sottovoce.privacy.pairs import GammaShapePairs
from sottovoce.privacy.profile import Profile
from sottovoce.systems.conjugate import Conjugate, check_count, check_weights
from sottovoce.systems.distributions import Gamma
from sottovoce.systems.distributions.base import positive
from sottovoce.systems.distributions.truncated import Truncated
from sottovoce.systems.statistics import ClippedSum, Statistics

__all__ = ["GammaPoisson", "positive_interval"]


@dataclass(frozen=True, eq=False)
class GammaPoisson(Conjugate):
    """A rate θ of events with prior Gamma(shape, rate); each record is a count, clipped to 0..high.

    The posterior is Gamma(v·shape + wΣx, v·rate + wn). Neighbours move the shape by at most w·high, and a
    common
    rate changes no divergence: the supremum sits where the other records are all zero.

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
    shape: float
    rate: float
    high: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", positive("shape", self.shape))
        object.__setattr__(self, "rate", positive("rate", self.rate))
        object.__setattr__(self, "high", whole("high", self.high, 1, floats=True))

    @property
    def reading(self) -> ClippedSum:
        """Whole counts clipped to 0..high."""
        return ClippedSum(0.0, float(self.high), integer=True)

    def posteriors(self, n: int, totals: Any, data_weight: float = 1.0, prior_weight: float = 1.0) -> Gamma:
        """Return the posteriors of an array of totals, side by side."""
        w, v = check_weights(data_weight, prior_weight)
        rate = v * self.rate + w * n
        return Gamma(v * self.shape + w * totals, np.broadcast_to(rate, np.shape(totals)))

    def posterior(self, statistics: Statistics, data_weight: float = 1.0, prior_weight: float = 1.0) -> Gamma:
        """Return Gamma(v·shape + wΣx, v·rate + wn)."""
        return self.posteriors(statistics.n, float(self.check(statistics).total[0]), data_weight, prior_weight)

    def worst_pairs(
        self, n: int, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> tuple[tuple[Gamma, Gamma], ...]:
        """Return both orders of the pair: all records 0, or one of them `high`."""
        if check_count(n) == 0:
            return ()
        none, one = (self.posteriors(n, total, data_weight, prior_weight) for total in (0.0, float(self.high)))
        return (none, one), (one, none)

    def _profile(self, n: int, data_weight: float, prior_weight: float) -> Profile:
        return LikelihoodRatioProfile((GammaShapePairs(prior_weight * self.shape, data_weight * self.high),))

    def _with_prior(self, prior: Gamma) -> Self:
        return replace(self, shape=prior.shape, rate=prior.rate)

    def log_evidence(self, n: int, totals: Floats) -> Floats:
        """Return the logarithm of the negative binomial probability of each total, up to a constant."""
        growth = totals * np.log(n / (self.rate + n))
        return np.asarray(special.gammaln(self.shape + totals) - special.gammaln(totals + 1) + growth)

    def check_truncation(self, truncation: Any = None) -> tuple[float, float]:
        """Return the interval (low, high) of the rate; there is no default."""
        return positive_interval(truncation)

    def log_ratio_range(self, truncation: Any) -> float:
        """Return the range of high·log θ for θ in `truncation` = (low, high) of the rate."""
        low, high = self.check_truncation(truncation)
        return float(self.high * np.log(high / low))

    def tempered(self, statistics: Statistics, temperature: float, truncation: Any) -> Truncated:
        """Return the joint density to the power 1/T, truncated: a truncated Gamma."""
        plain = self.posterior(statistics)
        base = Gamma((plain.shape - 1) / temperature + 1, plain.rate / temperature)
        return Truncated(base, *self.check_truncation(truncation))


def positive_interval(value: Any) -> tuple[float, float]:
    """Return the interval (low, high) of a truncated rate, or raise `InvalidValue`."""
    try:
        low, high = (real("an end", end, -np.inf) for end in value)
    except (TypeError, ValueError):
        raise InvalidValue(f"the truncation of a rate is a pair (low, high). Got {shown(value)}") from None
    if not 0 < low < high < np.inf:
        raise InvalidValue(f"the truncation of a rate needs 0 < low < high. Got {value!r}")
    return low, high
