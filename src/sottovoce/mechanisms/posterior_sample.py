"""One sample from a posterior: what direct, diffused and concentrated sampling share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.mechanisms.conjugate.exact_posteriors import law_of
from sottovoce.mechanisms.forecast import Forecast, mean_width
from sottovoce.mechanisms.mechanism import Mechanism, check_system
from sottovoce.mechanisms.worst_pair import worst_of
from sottovoce.privacy.errors import InvalidData
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.profile import Profile
from sottovoce.records.readings import Statistics


@dataclass(frozen=True, eq=False)
class PosteriorSample(Mechanism):
    """A mechanism that releases samples from a posterior with weighted data and prior."""

    hides_n: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_system(self.system)
        if self.n is None:
            self.profile  # noqa: B018 - a system of which nothing is known then is refused here

    @property
    def _weights(self) -> tuple[float, float]:
        return 1.0, 1.0

    @cached_property
    def profile(self) -> Profile:
        """What one sample provably does: the exact supremum over neighbouring data sets."""
        profile: Profile = self.system.profile(self.n, *self._weights)
        return profile

    def _value(self, statistics: Statistics, rng: np.random.Generator, draws: int) -> Any:
        from sottovoce.mechanisms.exact_sampling import released  # noqa: PLC0415 - plans draw nothing

        posterior: Any = self.system.posterior(statistics, *self._weights)
        return released(self.law(statistics), lambda size: posterior.sample(size, rng), draws, rng)

    def law(self, statistics: Statistics) -> Any:
        """Return the law of a release in exact numbers; None where it is of no family that can be drawn exactly."""
        exact = getattr(self.system, "law", None)
        if exact is None:
            return law_of(self.system.posterior(statistics, *self._weights))
        return exact(statistics, *self._weights)

    def worst_pair(self) -> tuple[Statistics, Statistics]:
        """Return the worst pair of the system; where there may be several, a few seeded draws say which."""
        return worst_of(self, self.system.worst_data(self.n))

    def log_ratio(self, pair: tuple[Statistics, Statistics]) -> Callable[[Any], Floats]:
        """Return log of the posterior density under the first of a pair over that under the second."""
        first, second = (self.system.posterior(seen, *self._weights) for seen in pair)
        return lambda outputs: np.asarray(first.log_density(outputs) - second.log_density(outputs))

    def with_known_records(self, records: object) -> Self:
        """Return the mechanism as an attacker sees it who knows these records already.

        Its profile is what still protects the other records: the known ones act as prior.
        """
        known = records if isinstance(records, Statistics) else self._statistics(records)
        if self.n is not None and known.n > self.n:
            raise InvalidData(f"at most {self.n} records can be known. Got {known.n}")
        remaining = None if self.n is None else self.n - known.n
        return replace(self, system=self.system.with_known_records(known, *self._weights), n=remaining)

    def told(self, mean: object) -> tuple[Any, Any]:
        """Return the mean and the variance of a sample if the records had this mean."""
        sampled: Any = self.system.posterior(self.reading.imagined(self.known_n, mean), *self._weights)
        return sampled.mean, sampled.variance

    def forecast(self, mean: object, level: float = 0.95) -> Forecast:
        """Return what to expect of a sample if the records had this mean; reads no private data."""
        statistics = self.reading.imagined(self.known_n, mean)
        exact: Any = self.system.posterior(statistics)
        sampled: Any = self.system.posterior(statistics, *self._weights)
        return Forecast(
            expected_kl=float(sampled.kl(exact)),
            interval_width=mean_width(sampled.interval(level)),
            exact_width=mean_width(exact.interval(level)),
            level=level,
        )
