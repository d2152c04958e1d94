"""A whole posterior that was released through noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce.mechanisms.conjugate.distributions import Distribution
from sottovoce.mechanisms.conjugate.distributions.base import Size
from sottovoce.privacy.json_values import restoring
from sottovoce.records.readings import Statistics


@dataclass(frozen=True, eq=False)
class NoisyPosterior:
    """What is known of θ from a noisy statistic.

    `mean`, `variance`, `interval`, `sample` and `log_density` are those of the noise-aware posterior. Use it as often
    as you like: it is made from the noisy statistic alone.

    Attributes
    ----------
    noisy
        The statistic with its noise, as it left the house.
    statistics
        The same, projected to what n records can have.
    noise_aware
        The posterior that counts the noise as one more unknown: its intervals keep their level.
    plug_in
        The posterior that takes the projected statistic at its word: too sure of itself where the noise is
        large.
    """

    noisy: Any
    statistics: Statistics
    noise_aware: Distribution
    plug_in: Distribution

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.noise_aware.mean

    @property
    def variance(self) -> Any:
        """The variance."""
        return self.noise_aware.variance

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Return the equal-tailed interval that holds `level` of the mass."""
        return self.noise_aware.interval(level)

    def sample(self, size: Size = None, rng: np.random.Generator | None = None) -> Any:
        """Return one draw, or an array of `size` of them (draws first); any number is free."""
        return self.noise_aware.sample(size, rng)

    def log_density(self, x: Any) -> Any:
        """Return the logarithm of the density."""
        return self.noise_aware.log_density(x)

    def to_dict(self) -> dict[str, object]:
        """Return the posterior as plain values; `from_dict` reads it back."""
        return {
            "posterior": "noisy",
            "noisy": np.asarray(self.noisy).tolist(),
            "n": self.statistics.n,
            "total": self.statistics.total.tolist(),
            "noise_aware": self.noise_aware.to_dict(),
            "plug_in": self.plug_in.to_dict(),
        }

    @staticmethod
    def from_dict(state: Mapping[str, Any]) -> NoisyPosterior:
        """Read a posterior from `to_dict`'s form."""
        with restoring("a noisy posterior"):
            return NoisyPosterior(
                np.asarray(state["noisy"], dtype=np.float64),
                Statistics(int(state["n"]), np.asarray(state["total"], dtype=np.float64)),
                Distribution.from_dict(state["noise_aware"]),
                Distribution.from_dict(state["plug_in"]),
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoisyPosterior) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]
