"""What every mechanism is: public numbers, a profile, and one step that meets the data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sottovoce.mechanisms.forecast import Forecast
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.errors import InvalidData, UnprovenPrivacy
from sottovoce.privacy.numbers import whole
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.randomness import is_secure, secure_rng
from sottovoce.systems.conjugate import check_count, check_whole
from sottovoce.systems.statistics import Statistics
from sottovoce.systems.system import System

__all__ = ["Mechanism", "check_draws", "coarsen"]


@dataclass(frozen=True, eq=False)
class Mechanism(ABC):
    """A mechanism for n records of a system. Built without data; `release` takes data and changes nothing
    in it.
    """

    word: ClassVar[str]
    system: System
    n: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", check_count(self.n))

    @property
    @abstractmethod
    def profile(self) -> Profile:
        """What one release provably does."""

    @abstractmethod
    def _value(self, statistics: Statistics, rng: np.random.Generator, draws: int) -> Any:
        """Return the value to let out. The only step that meets the data."""

    @abstractmethod
    def forecast(self, mean: Any, level: float = 0.95) -> Forecast:
        """Return what to expect of a release if the records had this mean; reads no private data."""

    @abstractmethod
    def _parameters(self) -> dict[str, Any]:
        """Return the mechanism's own public numbers."""

    def cost(self, draws: int = 1) -> Profile:
        """Return what a release of `draws` samples provably costs."""
        return self.profile if check_draws(draws) == 1 else draws * self.profile

    def release(
        self,
        records: Any,
        rng: np.random.Generator | None = None,
        *,
        draws: int = 1,
        accept_unproven: bool = False,
    ) -> Release:
        """Show the mechanism its records, or their `Statistics`, and return what may leave the house.

        Parameters
        ----------
        records
            A column of exactly n records, or statistics read with ``system.reading``.
        rng
            Secure randomness by default. A seeded generator marks the release as reproducible: never
            publish it.
        draws
            How many samples; each one costs as much as the first.
        accept_unproven
            Release even if the profile holds only when a Markov chain has converged.
        """
        cost = self.cost(draws)
        if cost.basis is Basis.CONVERGENCE and not accept_unproven:
            raise UnprovenPrivacy(
                "the profile holds only if a Markov chain has converged, which nobody can check; "
                "pass accept_unproven=True to release all the same"
            )
        statistics = self._read(records)
        rng = secure_rng() if rng is None else rng
        value = self._value(statistics, rng, draws)
        return Release(value, cost, self.to_dict(), self.system.parameter, reproducible=not is_secure(rng))

    def _read(self, records: Any) -> Statistics:
        statistics = records if isinstance(records, Statistics) else self._statistics(records)
        if statistics.n != self.n:
            raise InvalidData(f"this mechanism is for n={self.n} records; build one for your n. Got {statistics.n}")
        return check_whole(self.system.reading, statistics)

    def _statistics(self, records: Any) -> Statistics:
        return self.system.statistics(records)

    def to_dict(self) -> dict[str, Any]:
        """Return the mechanism in public numbers."""
        return {"mechanism": self.word, "n": self.n} | self._parameters() | {"system": self.system.to_dict()}

    def describe(self) -> str:
        """Return the mechanism in one line."""
        numbers = ", ".join(
            f"{k}={v:.6g}" if isinstance(v, float) else f"{k}={v}" for k, v in self._parameters().items()
        )
        return f"{self.word} of {self.system.to_dict()['system']}, n={self.n}" + (f", {numbers}" if numbers else "")


def check_draws(draws: int) -> int:
    """Return a whole number of draws >= 1, or raise `InvalidValue`."""
    return whole("draws", draws, 1)


def coarsen(samples: Any) -> Any:
    """Round samples to 24 significant bits.

    Rounding is post-processing. The low bits of a floating-point sampler are not those of a real number,
    and which of them
    occur can tell neighbours apart (Mironov 2012); they are dropped.

    >>> coarsen(1 / 3)
    0.3333333432674408
    """
    array = np.atleast_1d(np.asarray(samples, dtype=np.float64))
    bits = array.view(np.int64) + (1 << 28)
    bits &= ~np.int64((1 << 29) - 1)
    rounded = bits.view(np.float64)
    return float(rounded[0]) if np.ndim(samples) == 0 else rounded
