"""What the conjugate systems share: reading records, public data, breaches, checks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.numbers import real, whole
from sottovoce.privacy.profile import Profile
from sottovoce.systems.distributions import Distribution
from sottovoce.systems.records import read_records
from sottovoce.systems.statistics import BallSum, CategoryCounts, ClippedSum, CrossCounts, Reading, Statistics

__all__ = ["Conjugate", "check_count", "check_statistics", "check_weights", "check_whole"]


def check_count(n: Any) -> int:
    """Return the number of records, or raise `InvalidValue`."""
    return whole("n", n)


def check_weights(data_weight: float, prior_weight: float) -> tuple[float, float]:
    """Return both weights as floats above zero, or raise `InvalidValue` naming the one that is not."""
    data_weight = real("data_weight", data_weight)
    prior_weight = real("prior_weight", prior_weight)
    if data_weight == 0 or prior_weight == 0:
        raise InvalidValue(f"weights must be > 0. Got data_weight={data_weight:g}, prior_weight={prior_weight:g}")
    return data_weight, prior_weight


def check_statistics(reading: Reading, statistics: Statistics) -> Statistics:
    """Return statistics that such a reading can give, or raise `InvalidData`."""
    if not isinstance(statistics, Statistics):
        raise InvalidData("expected the statistics of some records, as `statistics(records)` reads them")
    n, total = check_count(statistics.n), statistics.total
    match reading:
        case ClippedSum(low, high):
            size, slack = 1, 1e-9 * n * max(abs(low), abs(high))
            inside = bool(np.all((total >= n * low - slack) & (total <= n * high + slack)))
        case CategoryCounts(categories):
            size = len(categories)
            inside = bool(np.all(total >= 0)) and bool(np.isclose(total.sum(), n, rtol=1e-12, atol=0.0))
        case BallSum(dimension, radius):
            size, inside = dimension, bool(np.linalg.norm(total) <= n * radius * (1 + 1e-9))
    if total.shape != (size,):
        raise InvalidData(f"these statistics must have {size} coordinate(s). Got {total.size}")
    if not (np.all(np.isfinite(total)) and inside):
        raise InvalidData(
            f"no {n} records within the bounds have these statistics; read them with the system's own bounds"
        )
    return statistics


def check_whole(reading: Reading | CrossCounts, statistics: Statistics) -> Statistics:
    """Return the statistics if they are whole wherever records are, else raise `InvalidData`.

    A profile covers the data sets that can happen; a fraction of a count is none of them.
    """
    whole = isinstance(reading, CategoryCounts | CrossCounts) or (isinstance(reading, ClippedSum) and reading.integer)
    if whole and not np.array_equal(statistics.total, np.rint(statistics.total)):
        raise InvalidData("records of this system are whole, so their statistics must be whole numbers too")
    return statistics


@dataclass(frozen=True, eq=False)
class Conjugate(ABC):
    """A conjugate system from a reading, a posterior, a profile and the worst pairs.

    A subclass is a frozen dataclass of public numbers. It says how records are read (`reading`), what the
    posterior
    is (`posterior`), how a posterior becomes a prior again (`_with_prior`), which neighbouring posteriors
    are worst
    (`worst_pairs`) and what follows for privacy (`_profile`, for n >= 1).
    """

    word: ClassVar[str]
    parameter: ClassVar[str] = "theta"

    @property
    @abstractmethod
    def reading(self) -> Reading:
        """How a record becomes S(x)."""

    @abstractmethod
    def posterior(self, statistics: Statistics, data_weight: float = 1.0, prior_weight: float = 1.0) -> Distribution:
        """Return the posterior with the data counted `data_weight` times, the prior `prior_weight` times."""

    @abstractmethod
    def worst_pairs(
        self, n: int, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> tuple[tuple[Distribution, Distribution], ...]:
        """Return ordered pairs of neighbouring posteriors among which the Rényi divergence is largest."""

    @abstractmethod
    def _profile(self, n: int, data_weight: float, prior_weight: float) -> Profile:
        """Return what one sample provably does, for n >= 1."""

    @abstractmethod
    def _with_prior(self, prior: Any) -> Self:
        """Return the system with another prior of the same family."""

    def profile(self, n: int, data_weight: float = 1.0, prior_weight: float = 1.0) -> Profile:
        """Return what one sample from the posterior of n records provably does."""
        weights = check_weights(data_weight, prior_weight)
        # With no record there are no neighbours: μ = 0 says so.
        return self._profile(n, *weights) if check_count(n) else GaussianProfile(0.0)

    def lambda_star(self, n: int, data_weight: float = 1.0, prior_weight: float = 1.0) -> float:
        """Return the order from which the Rényi divergence is infinite (Geumlek et al. 2017, Cor. 1)."""
        return self.profile(n, data_weight, prior_weight).pole

    def statistics(self, records: Any) -> Statistics:
        """Return n and ΣS(x) in one pass. Records outside the bounds are clipped, and nobody counts how many.

        Takes NumPy arrays, pandas and polars columns, Arrow arrays and plain lists. What is not a number,
        or is
        missing, raises `InvalidData`.
        """
        return read_records(self.reading, records)

    def _read(self, records: Any) -> Statistics:
        return records if isinstance(records, Statistics) else self.statistics(records)

    def check(self, statistics: Statistics) -> Statistics:
        """Return the statistics if records within the bounds can have them, else raise `InvalidData`."""
        return check_statistics(self.reading, statistics)

    def with_public(self, records: Any) -> Self:
        """Return the system after public records have been added to the prior; calibrate with that one."""
        return self._with_prior(self.posterior(self._read(records)))

    def with_known_records(self, records: Any, data_weight: float = 1.0, prior_weight: float = 1.0) -> Self:
        """Return the system an attacker faces who knows these records of the table already.

        The known records move into the prior with the weight that the mechanism gave them, beside the
        prior's own; the
        new profile, at n less the known ones, is what still protects the others.
        """
        data_weight, prior_weight = check_weights(data_weight, prior_weight)
        return self._with_prior(self.posterior(self._read(records), data_weight / prior_weight))

    def to_dict(self) -> dict[str, Any]:
        """Return the public description: the system's word and its numbers."""
        return {"system": self.word} | {f.name: _plain(getattr(self, f.name)) for f in fields(self)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Conjugate) and type(other) is type(self) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value
