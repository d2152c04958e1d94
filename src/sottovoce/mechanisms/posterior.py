"""The part a posterior plays: what every released posterior can tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class Posterior(Protocol):
    """What is known of some unknowns after a release. Reading it costs nothing more, however often.

    Its JSON has its word under ``"posterior"``, by which `POSTERIORS` finds the kind that reads it back.
    """

    @property
    def mean(self) -> Any:
        """The mean of each unknown."""

    @property
    def sd(self) -> Any:
        """The standard deviation of each unknown."""

    def interval(self, level: float = 0.95) -> Any:
        """Return the equal-tailed interval of each unknown, an array with (low, high) on its last axis."""

    def sample(self, draws: int, rng: np.random.Generator | None = None) -> Any:
        """Return draws of the unknowns, draws first."""

    def summary(self) -> Any:
        """Return the posterior in a few words or rows."""

    def to_dict(self) -> dict[str, object]:
        """Return the posterior as plain values."""

    @staticmethod
    def from_dict(state: Mapping[str, object]) -> Any:
        """Read a posterior from `to_dict`'s form."""
