"""Putting a noisy statistic back among those that n records can have."""

from __future__ import annotations

import numpy as np

from sottovoce.privacy.numbers import Floats
from sottovoce.systems.statistics import BallSum, CategoryCounts, ClippedSum, Reading

__all__ = ["project"]


def project(reading: Reading, n: int, total: Floats) -> Floats:
    """Return the nearest total that n records within the bounds can have.

    >>> project(ClippedSum(0, 1), 10, np.array([-3.5]))
    array([0.])
    >>> project(CategoryCounts(("a", "b", "c")), 4, np.array([5.0, 1.0, -2.0]))
    array([4., 0., 0.])
    """
    match reading:
        case ClippedSum(low, high):
            return np.asarray(np.clip(total, n * low, n * high))
        case CategoryCounts():
            return _simplex(total, float(n))
        case BallSum(_, radius):
            length = float(np.linalg.norm(total))
            return np.asarray(total if length <= n * radius else total * (n * radius / length))


def _simplex(point: Floats, total: float) -> Floats:
    """Return the nearest point with no negative entry and this sum (Held, Wolfe and Crowder 1974)."""
    down = np.sort(point)[::-1]
    excess = (np.cumsum(down) - total) / np.arange(1, point.size + 1)
    last = int(np.flatnonzero(down - excess >= 0)[-1])
    return np.asarray(np.maximum(point - excess[last], 0.0))
