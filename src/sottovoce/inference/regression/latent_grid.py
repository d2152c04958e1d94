"""A latent on a grid: what is neither normal about its mode nor integrated by a formula."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.numbers import Floats


@dataclass(frozen=True, eq=False)
class LatentGrid:
    """A latent on a grid: its place (None: τ), values, weights, and the modes of all latents given each value."""

    place: int | None
    values: Floats
    weights: Floats
    places: Floats

    @classmethod
    def of(cls, place: int | None, values: Floats, logs: Floats, places: Floats) -> LatentGrid:
        """Weigh values by the logs of their evidence."""
        logs = np.where(np.isfinite(logs), logs, -np.inf)
        weights = np.exp(logs - logs.max())
        return cls(place, values, weights / weights.sum(), places)

    @property
    def median(self) -> float:
        """The value below which half of the weight lies."""
        return float(self.values[self.at(np.array([0.5]))[0]])

    def at(self, even: Floats) -> NDArray[np.intp]:
        """Return the places of a quantile each."""
        ends = np.cumsum(self.weights)
        return np.minimum(np.searchsorted(ends / ends[-1], even), len(ends) - 1)
