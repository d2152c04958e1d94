"""A rate of waiting times: exponential records, Gamma prior."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy import special

from sottovoce.privacy.likelihood_ratio import LikelihoodRatioProfile
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.pairs import GammaRatePairs
from sottovoce.privacy.profile import Profile
from sottovoce.systems.conjugate import Conjugate, check_count, check_weights
from sottovoce.systems.distributions import Gamma
from sottovoce.systems.distributions.base import positive
from sottovoce.systems.distributions.truncated import Truncated
from sottovoce.systems.gamma_poisson import positive_interval
from sottovoce.systems.statistics import ClippedSum, Statistics

__all__ = ["GammaExponential"]


@dataclass(frozen=True, eq=False)
class GammaExponential(Conjugate):
    """A rate θ with prior Gamma(shape, rate); each record is a waiting time, clipped to [0, high].

    The posterior is Gamma(v·shape + wn, v·rate + wΣx). Neighbours move the rate by at most w·high; the
    supremum sits
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
    >>> system.lambda_star(n=2)
    4.0
    """

    word: ClassVar[str] = "gamma-exponential"
    shape: float
    rate: float
    high: float

    def __post_init__(self) -> None:
        for name in ("shape", "rate", "high"):
            object.__setattr__(self, name, positive(name, getattr(self, name)))

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

    def worst_pairs(
        self, n: int, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> tuple[tuple[Gamma, Gamma], ...]:
        """Return both orders of the pair: all records 0, or one of them `high`."""
        if check_count(n) == 0:
            return ()
        none, one = (self.posteriors(n, total, data_weight, prior_weight) for total in (0.0, self.high))
        return (none, one), (one, none)

    def _profile(self, n: int, data_weight: float, prior_weight: float) -> Profile:
        shape, low = prior_weight * self.shape + data_weight * n, prior_weight * self.rate
        return LikelihoodRatioProfile((GammaRatePairs(shape, low, low + data_weight * self.high),))

    def _with_prior(self, prior: Gamma) -> Self:
        return replace(self, shape=prior.shape, rate=prior.rate)

    def log_evidence(self, n: int, totals: Floats) -> Floats:
        """Return the logarithm of the density of each total under the prior, up to a constant."""
        return np.asarray(special.xlogy(n - 1, totals) - (self.shape + n) * np.log(self.rate + totals))

    def check_truncation(self, truncation: Any = None) -> tuple[float, float]:
        """Return the interval (low, high) of the rate; there is no default."""
        return positive_interval(truncation)

    def log_ratio_range(self, truncation: Any) -> float:
        """Return the range of high·θ for θ in `truncation` = (low, high) of the rate."""
        low, high = self.check_truncation(truncation)
        return self.high * (high - low)

    def tempered(self, statistics: Statistics, temperature: float, truncation: Any) -> Truncated:
        """Return the joint density to the power 1/T, truncated: a truncated Gamma."""
        plain = self.posterior(statistics)
        base = Gamma((plain.shape - 1) / temperature + 1, plain.rate / temperature)
        return Truncated(base, *self.check_truncation(truncation))
