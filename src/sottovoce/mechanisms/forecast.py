"""What to expect of a release before any data is read."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import as_floats
from sottovoce.systems.statistics import BallSum, CategoryCounts, ClippedSum, Reading, Statistics

__all__ = ["Forecast", "imagined", "mean_width"]


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

    def to_dict(self) -> dict[str, Any]:
        """Return the forecast as plain values."""
        return asdict(self)


def imagined(reading: Reading, n: int, mean: Any) -> Statistics:
    """Return the statistics of n imagined records with this mean of S(x); nothing private enters.

    >>> imagined(CategoryCounts(("a", "b")), 10, [0.25, 0.75])
    Statistics(n=10, total=array([2.5, 7.5]))
    """
    mean = np.atleast_1d(as_floats("mean", mean, -np.inf))
    match reading:
        case ClippedSum(low, high):
            fits = mean.shape == (1,) and low <= mean[0] <= high
            wanted = f"one number between {low:g} and {high:g}"
        case CategoryCounts(categories):
            fits = mean.shape == (len(categories),) and bool(np.all(mean >= 0)) and abs(mean.sum() - 1) < 1e-9
            wanted = f"{len(categories)} proportions that sum to one"
        case BallSum(dimension, radius):
            fits = mean.shape == (dimension,) and bool(np.linalg.norm(mean) <= radius)
            wanted = f"{dimension} coordinates within the radius {radius:g}"
    if not fits:
        raise InvalidValue(f"mean must be {wanted}. Got {mean.tolist()}")
    return Statistics(n, n * mean, n * float(mean[0] - reading.low) if isinstance(reading, ClippedSum) else None)


def mean_width(interval: tuple[Any, Any]) -> float:
    """Return the width of an interval, averaged over coordinates."""
    return float(np.mean(np.subtract(interval[1], interval[0])))
