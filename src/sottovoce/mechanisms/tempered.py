"""Tempered posterior sampling: a bounded likelihood, a temperature, pure privacy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.conjugate.beta_bernoulli import BetaBernoulli
from sottovoce.mechanisms.conjugate.distributions import ScalarDistribution
from sottovoce.mechanisms.conjugate.exact_posteriors import law_of
from sottovoce.mechanisms.forecast import Forecast, mean_width
from sottovoce.mechanisms.mechanism import Choices, Mechanism
from sottovoce.mechanisms.worst_pair import worst_of
from sottovoce.privacy.numbers import Floats, ceil_float, real
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.pure import BoundedRangeProfile
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.readings import Statistics

_DRAWS = 4000


@dataclass(frozen=True, eq=False)
class TemperedPosterior(Mechanism):
    """Release a sample from the truncated posterior at temperature T >= 1 (Geumlek 2020, ch. 4).

    With θ truncated, log p(x|θ) - log p(x'|θ) stays in a window of width η; the joint density to the power 1/T then has
    privacy loss in a window of η/T, so one exact sample is η/T-private and (η/T)²/8-zero-concentrated. Draws are exact
    and exactly rounded: inverse distribution functions, and rejection for a Dirichlet.

    Parameters
    ----------
    system, n
        What is unknown, and how many records there are.
    temperature
        T >= 1.
    truncation
        Public. The least probability a₀ for proportions (0.02/d by default), the interval (low, high) of a rate, the
        interval of a mean (by default the bounds of a record).

    Examples
    --------
    >>> from sottovoce.privacy.promises import PureDP
    >>> from sottovoce.mechanisms.conjugate import BetaBernoulli
    >>> mech = TemperedPosterior.calibrate(BetaBernoulli(1, 1), n=100, target=PureDP(1.0), truncation=0.1)
    >>> round(mech.temperature, 6), round(mech.profile.pure(), 9)
    (4.394449, 1.0)
    """

    word: ClassVar[str] = "tempered posterior"
    choices: ClassVar[Choices] = {"tempered": {}}
    system: Any
    temperature: float
    truncation: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "temperature", real("temperature", self.temperature, 1.0))
        object.__setattr__(self, "truncation", self.system.check_truncation(self.truncation))

    @cached_property
    def profile(self) -> Profile:
        """What one sample provably does: privacy loss in a window of width η/T."""
        return _window(self.system.log_ratio_range(self.truncation), self.temperature)

    @classmethod
    def example(cls) -> Self:
        """Return a posterior of five records at temperature 4."""
        return cls(BetaBernoulli(1, 1), 5, 4.0, 0.1)

    @classmethod
    def calibrate(cls, system: Any, n: int, target: Promise, truncation: Any = None) -> Self:
        """Return the mechanism with the lowest temperature that keeps the promise."""
        width = system.log_ratio_range(system.check_truncation(truncation))
        coldness = largest_keeping(lambda c: _window(width, 1 / c), target, high=1.0, name="1/temperature")
        return cls(system, n, 1 / coldness, truncation)

    def _value(self, statistics: Statistics, rng: np.random.Generator, draws: int) -> Any:
        from sottovoce.mechanisms.exact_sampling import released  # noqa: PLC0415 - plans draw nothing

        tempered = self.system.tempered(statistics, self.temperature, self.truncation)
        return released(self.law(statistics), lambda size: tempered.sample(size, rng), draws, rng)

    def law(self, statistics: Statistics) -> Any:
        """Return the law of a release in exact numbers; None where it is of no family that can be drawn exactly."""
        at, exact = (statistics, self.temperature, self.truncation), getattr(self.system, "tempered_law", None)
        return law_of(self.system.tempered(*at)) if exact is None else exact(*at)

    def worst_pair(self) -> tuple[Statistics, Statistics]:
        """Return the worst pair of the system; where there may be several, a few seeded draws say which."""
        return worst_of(self, self.system.worst_data(self.n))

    def log_ratio(self, pair: tuple[Statistics, Statistics]) -> Callable[[Any], Floats]:
        """Return log of the tempered density under the first of a pair over that under the second."""
        first, second = (self.system.tempered(seen, self.temperature, self.truncation) for seen in pair)
        return lambda outputs: np.asarray(first.log_density(outputs) - second.log_density(outputs))

    def told(self, mean: object) -> tuple[Any, Any]:
        """Return the mean and the variance of a sample if the records had this mean."""
        sampled: Any = self.system.tempered(self.reading.imagined(self.n, mean), self.temperature, self.truncation)
        if isinstance(sampled, ScalarDistribution):
            return sampled.mean, sampled.variance
        draws = sampled.sample(_DRAWS, seeded_rng(0))
        return draws.mean(axis=0), draws.var(axis=0)

    def forecast(self, mean: object, level: float = 0.95) -> Forecast:
        """Return what to expect of a sample if the records had this mean; reads no private data."""
        statistics = self.reading.imagined(self.n, mean)
        exact: Any = self.system.posterior(statistics)
        sampled: Any = self.system.tempered(statistics, self.temperature, self.truncation)
        if isinstance(sampled, ScalarDistribution):
            divergence, width = float(sampled.kl(exact)), mean_width(sampled.interval(level))
        else:
            rng = seeded_rng(0)
            draws = sampled.sample(_DRAWS, rng)
            excess = sampled.log_density(draws) - exact.log_density(draws)
            divergence = float(np.mean(excess)) - sampled.log_mass(_DRAWS, rng)
            tail = (1 - level) / 2
            width = mean_width((np.quantile(draws, tail, axis=0), np.quantile(draws, 1 - tail, axis=0)))
        return Forecast(max(divergence, 0.0), width, mean_width(exact.interval(level)), level)


def _window(width: float, temperature: float) -> BoundedRangeProfile:
    """Return the profile of a window of η/T, rounded up."""
    if not math.isfinite(width):
        return BoundedRangeProfile(math.inf)
    if not math.isfinite(temperature):
        return BoundedRangeProfile(0.0)
    return BoundedRangeProfile(ceil_float(Fraction(width) / Fraction(temperature)))
