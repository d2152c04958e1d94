"""Posteriors that imagined noise leads to: what a forecast averages over, without drawing noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sottovoce.mechanisms.conjugate.distributions.mixtures import Mixtures
from sottovoce.mechanisms.forecast import mean_width
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.numbers import Floats


class SimulatedPosteriors(Protocol):
    """Posteriors with noise, each with a weight."""

    def kl(self, exact: Any) -> float:
        """Return the mean divergence from the posterior without noise."""

    def width(self, level: float) -> float:
        """Return the mean width of their intervals."""


@dataclass(frozen=True)
class ImaginedPosteriors:
    """Posteriors one by one."""

    values: Sequence[Any]
    weights: Floats

    def kl(self, exact: Any) -> float:
        """Return the mean divergence from the posterior without noise."""
        return float(self.weights @ [value.kl(exact) for value in self.values])

    def width(self, level: float) -> float:
        """Return the mean width of their intervals."""
        return float(self.weights @ [mean_width(value.interval(level)) for value in self.values])


@dataclass(frozen=True)
class ImaginedMixtures:
    """Posteriors that are mixtures of the same laws, all at once."""

    values: Mixtures
    weights: Floats

    def kl(self, exact: Any) -> float:
        """Return the mean divergence from the posterior without noise."""
        return self.values.mean_kl(exact, self.weights)

    def width(self, level: float) -> float:
        """Return the mean width of their intervals."""
        return float(self.weights @ self.values.widths(level))


def evenly(noise: IntegerNoise, size: int, times: int, rng: np.random.Generator) -> Floats:
    """Return imagined noise vectors, every coordinate's values spread evenly over the noise's law (a Latin square)."""
    k = np.arange(-int(40 * noise.scale) - 2, int(40 * noise.scale) + 3, max(1, int(noise.scale / 50)))
    weights = np.exp(noise.log_weight(k))
    below = np.cumsum(weights) / weights.sum()
    values = np.array([k[np.searchsorted(below, (i + 0.5) / times)] for i in range(times)], dtype=np.float64)
    spread = float(np.mean(values**2))
    values = values * np.sqrt(noise.variance / spread) if spread > 0 else values
    return np.array([rng.permutation(values) for _ in range(size)]).T
