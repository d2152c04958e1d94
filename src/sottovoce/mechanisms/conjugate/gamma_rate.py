"""What systems of a rate with a Gamma prior share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.mechanisms.conjugate.conjugate import Conjugate
from sottovoce.mechanisms.conjugate.distributions import Gamma
from sottovoce.mechanisms.conjugate.distributions.base import positive
from sottovoce.mechanisms.conjugate.distributions.truncated import Truncated
from sottovoce.mechanisms.conjugate.exact_posteriors import GammaLaw, tempered_power
from sottovoce.mechanisms.conjugate.prior_parameters import RATE, Setting
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, real, shown
from sottovoce.records.readings import Statistics
from sottovoce.records.readings.base import checked_n


@dataclass(frozen=True, eq=False)
class GammaRate(Conjugate):
    """A rate θ with prior Gamma(shape, rate), of records that are clipped to [0, high]."""

    settings: ClassVar[Mapping[str, Setting]] = {"shape": Setting("Prior shape"), "rate": RATE}
    logarithmic: ClassVar[bool] = True
    shape: float
    rate: float
    high: float

    def __post_init__(self) -> None:
        for name in ("shape", "rate"):
            object.__setattr__(self, name, positive(name, getattr(self, name)))

    @abstractmethod
    def posteriors(self, n: int, totals: object, data_weight: float = 1.0, prior_weight: float = 1.0) -> Gamma:
        """Return the posteriors of an array of totals, side by side."""

    def posterior(self, statistics: Statistics, data_weight: float = 1.0, prior_weight: float = 1.0) -> Gamma:
        """Return the posterior, a Gamma law."""
        total = max(float(self.check(statistics).total[0]), 0.0)
        return self.posteriors(statistics.n, total, data_weight, prior_weight)

    def worst_pairs(
        self, n: int, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> tuple[tuple[Gamma, Gamma], ...]:
        """Return both orders of the pair: all records 0, or one of them `high`."""
        if checked_n(n) == 0:
            return ()
        none, item = (self.posteriors(n, total, data_weight, prior_weight) for total in (0.0, float(self.high)))
        return (none, item), (item, none)

    def _with_prior(self, prior: Gamma) -> Self:
        return replace(self, shape=prior.shape, rate=prior.rate)

    def log_prior(self, u: Floats) -> Floats:
        """Return the logarithm of the prior density of u = log θ, up to a constant."""
        with np.errstate(over="ignore"):
            return np.asarray(self.shape * u - self.rate * np.exp(u))

    def span(self) -> tuple[float, float]:
        """Return a range of log θ that holds all of the prior, and more than all that records up to `high` can say."""
        middle, scale = np.log(self.shape / self.rate), abs(np.log(float(self.high)))
        reach = scale + 60 / min(self.shape, 1.0)
        return max(float(min(middle, 0.0) - reach), -690.0), min(float(max(middle, 0.0) + scale + 60), 690.0)

    def check_truncation(self, truncation: Any = None) -> tuple[float, float]:
        """Return the interval (low, high) of the rate; there is no default."""
        try:
            low, high = (real("an end", end, -np.inf) for end in truncation)
        except (TypeError, ValueError):
            raise InvalidValue(f"the truncation of a rate is a pair (low, high). Got {shown(truncation)}") from None
        if not 0 < low < high < np.inf:
            raise InvalidValue(f"the truncation of a rate needs 0 < low < high. Got {truncation!r}")
        return low, high

    def tempered(self, statistics: Statistics, temperature: float, truncation: object) -> Truncated:
        """Return the joint density to the power 1/T, truncated: a truncated Gamma."""
        plain = self.posterior(statistics)
        base = Gamma((plain.shape - 1) / temperature + 1, plain.rate / temperature)
        return Truncated(base, *self.check_truncation(truncation))

    def tempered_law(self, statistics: Statistics, temperature: float, truncation: object) -> GammaLaw:
        """Return the truncated Gamma in fractions."""
        plain, ends = self.law(statistics), map(Fraction, self.check_truncation(truncation))
        return GammaLaw(tempered_power(plain.shape, temperature), plain.rate / Fraction(temperature), *ends)
