"""The shortest interval that holds a share of draws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats

__all__ = ["checked_level", "shortest"]


def checked_level(level: Any) -> float:
    """Return the level of an interval, or raise `InvalidValue`."""
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        raise InvalidValue(f"level must lie between 0 and 1. Got {level!r}")
    return float(level)


def shortest(draws: Floats, level: float = 0.95) -> Floats:
    """Return for each column of draws the shortest interval that holds `level` of them, (low, high) last.

    >>> shortest(np.array([0.0, 1.0, 2.0, 3.0, 100.0])[:, None], 0.6).tolist()
    [[0.0, 2.0]]
    """
    level = checked_level(level)
    ordered = np.sort(np.asarray(draws, dtype=np.float64), axis=0)
    inside = min(max(math.ceil(level * len(ordered)), 1), len(ordered))
    start = np.argmin(ordered[inside - 1 :] - ordered[: len(ordered) - inside + 1], axis=0)
    columns = np.arange(ordered.shape[1])
    return np.stack([ordered[start, columns], ordered[start + inside - 1, columns]], axis=-1)
