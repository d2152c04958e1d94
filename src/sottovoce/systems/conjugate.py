"""What the conjugate systems share: reading records, public data, breaches, checks."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.numbers import Floats, as_floats
from sottovoce.privacy.profile import Profile
from sottovoce.systems.distributions import Distribution
from sottovoce.systems.records import read_records
from sottovoce.systems.statistics import BallSum, CategoryCounts, ClippedSum, CrossCounts, Reading, Statistics

__all__ = ["Conjugate", "above_low", "check_count", "check_statistics", "check_weights", "check_whole"]

_COARSE = 2.0**-10
"""A total by hand may be off by this much of a record's width: what one step of a noisy sum's grid allows for."""


def check_count(n: Any) -> int:
    """Return the number of records, or raise `InvalidValue`."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
        raise InvalidValue(f"n must be a whole number >= 0. Got {n!r}")
    return int(n)


def check_weights(data_weight: float, prior_weight: float) -> tuple[float, float]:
    """Return both weights as floats above zero, or raise `InvalidValue` naming the one that is not."""
    data_weight = float(as_floats("data_weight", data_weight, 0.0))
    prior_weight = float(as_floats("prior_weight", prior_weight, 0.0))
    if data_weight == 0 or prior_weight == 0:
        raise InvalidValue(f"weights must be > 0. Got data_weight={data_weight:g}, prior_weight={prior_weight:g}")
    return data_weight, prior_weight


def check_statistics(reading: Reading, statistics: Statistics) -> Statistics:
    """Return statistics that such a reading can give, or raise `InvalidData`.

    A total that lies outside by no more than adding doubles can do is put back on the edge.
    """
    n, total = check_count(statistics.n), statistics.total
    match reading:
        case ClippedSum(low, high):
            size, slack = 1, _sum_error(n, max(abs(low), abs(high)))
            inside = bool(np.all((total >= n * low - slack) & (total <= n * high + slack)))
        case CategoryCounts(categories):
            size = len(categories)
            inside = bool(np.all(total >= 0)) and bool(abs(total.sum() - n) <= (size + 2) * 2.0**-52 * n)
        case BallSum(dimension, radius):
            size, inside = dimension, bool(_norm(total) <= n * radius + math.sqrt(dimension) * _sum_error(n, radius))
    if total.shape != (size,):
        raise InvalidData(f"these statistics must have {size} coordinate(s). Got {total.size}")
    if not (np.all(np.isfinite(total)) and inside):
        raise InvalidData(
            f"no {n} records within the bounds have these statistics; read them with the system's own bounds"
        )
    match reading:
        case ClippedSum(low, high):
            above = above_low(reading, statistics)
            return Statistics(n, np.clip(total, n * low, n * high), above)
        case BallSum(_, radius) if _norm(total) > n * radius:
            return Statistics(n, total * (n * radius / _norm(total)))
    return statistics


def above_low(reading: ClippedSum, statistics: Statistics) -> float:
    """Return Σ(S(x) - low), from 0 to n·(high - low), to more digits than one record moves, or raise `InvalidData`."""
    n, total = statistics.n, float(statistics.total[0])
    low, high = Fraction(reading.low), Fraction(reading.high)
    error, width = _sum_error(n, float(max(abs(low), abs(high)))), high - low
    by_hand = statistics.above is None or not math.isfinite(statistics.above)
    above = Fraction(total) - n * low if by_hand else Fraction(statistics.above or 0)
    if by_hand and low and error > width * _COARSE:
        raise InvalidData(
            "with bounds so far from zero a total has too few digits left to tell one record; "
            "give the records, or what `statistics` reads from them"
        )
    if not -error <= above <= n * width + error or abs(n * low + above - Fraction(total)) > error:
        raise InvalidData(
            f"no {n} records within the bounds have these statistics; read them with the system's own bounds"
        )
    return float(min(max(above, Fraction(0)), n * width))


def _sum_error(n: int, largest: float) -> float:
    """Return more than what adding n doubles of this size pairwise, or compensated, can be off by."""
    return 2.0**-48 * math.log2(n + 2) * n * largest


def _norm(vector: Floats) -> float:
    """Return the length of a vector whose squares may overflow."""
    largest = float(np.abs(vector).max(initial=0.0))
    return largest * float(np.linalg.norm(vector / largest)) if 0 < largest < math.inf else largest


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

    def statistics(self, records: Any, missing: Any = None) -> Statistics:
        """Return n and ΣS(x) in one pass. Records outside the bounds are clipped, and nobody counts how many.

        Takes NumPy arrays, pandas and polars columns, Arrow arrays and plain lists. Every record counts: what is no
        number counts as 0 cut to the bounds, what is of no category as the first, unless `missing` says otherwise.
        """
        return read_records(self.reading, records, missing)

    def _read_public(self, records: Any) -> Statistics:
        return records if isinstance(records, Statistics) else read_records(self.reading, records, public=True)

    def check(self, statistics: Statistics) -> Statistics:
        """Return the statistics if records within the bounds can have them, else raise `InvalidData`."""
        return check_statistics(self.reading, statistics)

    def with_public(self, records: Any) -> Self:
        """Return the system after public records have been added to the prior; calibrate with that one."""
        return self._with_prior(self.posterior(self._read_public(records)))

    def with_known_records(self, records: Any, data_weight: float = 1.0, prior_weight: float = 1.0) -> Self:
        """Return the system an attacker faces who knows these records of the table already.

        The known records move into the prior with the weight that the mechanism gave them, beside the
        prior's own; the
        new profile, at n less the known ones, is what still protects the others.
        """
        data_weight, prior_weight = check_weights(data_weight, prior_weight)
        return self._with_prior(self.posterior(self._read_public(records), data_weight / prior_weight))

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
