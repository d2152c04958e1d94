"""The part a system plays: what every mechanism asks of it."""

from __future__ import annotations

from typing import Any, Protocol, Self, runtime_checkable

from sottovoce.mechanisms.conjugate.distributions import Distribution, ScalarDistribution
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.profile import Profile
from sottovoce.records.readings import Reading, Statistics


@runtime_checkable
class System(Protocol):
    """A likelihood with its conjugate prior and the public bounds on a record.

    Whatever has these members works with `DirectPosterior`, `DiffusedPosterior` and `ConcentratedPosterior`. The
    easiest way to a system of your own is to subclass `Conjugate`, which fills in the rest from three of them. All
    depend on public things alone, except `statistics`, which reads records and keeps nothing.
    """

    @property
    def parameter(self) -> str:
        """What the unknown is called."""

    @property
    def reading(self) -> Reading:
        """How a record becomes S(x): public bounds, so that a database can clip by itself."""

    def statistics(self, records: object) -> Statistics:
        """Return n and ΣS(x), records outside the bounds clipped."""

    def posterior(self, statistics: Statistics, data_weight: float = 1.0, prior_weight: float = 1.0) -> Distribution:
        """Return the posterior with the data counted `data_weight` times, the prior `prior_weight` times."""

    def worst_pairs(
        self, n: int, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> tuple[tuple[Distribution, Distribution], ...]:
        """Return ordered pairs of neighbouring posteriors among which the Rényi divergence is largest."""

    def profile(self, n: int | None, data_weight: float = 1.0, prior_weight: float = 1.0) -> Profile:
        """Return what one sample from the posterior of n records provably does."""

    def lambda_star(self, n: int, data_weight: float = 1.0, prior_weight: float = 1.0) -> float:
        """Return the order from which the Rényi divergence is infinite."""

    def with_public(self, records: object) -> Self:
        """Return the system after public records have been added to the prior."""

    def with_known_records(self, records: object, data_weight: float = 1.0, prior_weight: float = 1.0) -> Self:
        """Return the system an attacker faces who knows these records of the table already."""

    def to_dict(self) -> dict[str, object]:
        """Return the public description."""


class TemperableSystem(System, Protocol):
    """A system whose likelihood is bounded once the parameter is truncated: what `TemperedPosterior` asks."""

    def check_truncation(self, truncation: object = None) -> Any:
        """Return a valid truncation of θ: the one given, or the default where there is one."""

    def log_ratio_range(self, truncation: object) -> float:
        """Return how far log p(x|θ) - log p(x'|θ) moves over the truncated θ, for the worst x and x'."""

    def tempered(self, statistics: Statistics, temperature: float, truncation: object) -> Any:
        """Return the joint density to the power 1/T, truncated: something to `sample`."""


class NoiseAwareSystem(System, Protocol):
    """A system of one statistic that can weigh it: what `NoisyStatistics` asks for a noise-aware
    posterior.
    """

    def log_evidence(self, n: int, totals: object) -> Any:
        """Return log Pr[ΣS(x) = total] under the prior, up to a constant, for an array of totals."""

    def posteriors(
        self, n: int, totals: object, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> ScalarDistribution:
        """Return the posteriors of an array of totals, side by side."""


@runtime_checkable
class ClippedSystem(Protocol):
    """What the law of a *clipped* record must tell, so that a noisy total of them can be read without bias.

    The unknown is asked for in a coordinate u in which its prior reaches everywhere: a mean itself, the
    logarithm of a rate.
    """

    logarithmic: bool

    def log_prior(self, u: Floats) -> Floats:
        """Return the logarithm of the prior density of u, up to a constant."""

    def span(self) -> tuple[float, float]:
        """Return a range of u that holds every posterior worth the name."""

    def clipped_moments(self, u: Floats) -> tuple[Floats, Floats]:
        """Return the mean and the variance of a clipped record for each u."""

    def unclipped_spread(self, u: Floats) -> tuple[Floats, Floats]:
        """Return the standard deviation of an unclipped record, and the length over which its tail falls by e."""

    def clipped_chances(self, u: Floats) -> tuple[Floats, Floats]:
        """Return the chances that a record of fractions is clipped to the low and to the high bound."""

    def characteristic(self, u: Floats, t: Floats) -> Any:
        """Return E[e^(itx)] of a clipped record x, a row for each u and a column for each t."""
