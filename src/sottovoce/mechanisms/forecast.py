"""What to expect of a release before any data is read."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Forecast:
    """The utility of a mechanism for imagined data.

    Attributes
    ----------
    expected_kl
        Kullback–Leibler divergence of what is released or sampled from the true posterior, in nats,
        averaged over the noise.
    interval_width
        Width of the interval that holds `level` of what is released or sampled, averaged over noise and
        coordinates.
    exact_width
        The same width for the true posterior: what would be known without privacy.
    level
        The level of the intervals.
    """

    expected_kl: float
    interval_width: float
    exact_width: float
    level: float = 0.95

    def to_dict(self) -> dict[str, object]:
        """Return the forecast as plain values."""
        return asdict(self)


def mean_width(interval: tuple[Any, Any]) -> float:
    """Return the width of an interval, averaged over coordinates."""
    return float(np.mean(np.subtract(interval[1], interval[0])))
