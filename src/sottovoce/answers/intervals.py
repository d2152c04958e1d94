"""The shortest interval that holds a share of draws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats

__all__ = ["checked_level", "shortest", "to_the_ends"]


def checked_level(level: Any) -> float:
    """Return the level of an interval, or raise `InvalidValue`."""
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        raise InvalidValue(f"level must lie between 0 and 1. Got {level!r}")
    return float(level)


_RUN = 15
"""So many neighbours on either side are averaged."""


def shortest(draws: Floats, level: float = 0.95) -> Floats:
    """Return for each column of draws the shortest interval that holds `level` of them, (low, high) last.

    >>> shortest(np.linspace(0, 1, 1001)[:, None] ** 2, 0.5).round(2).tolist()
    [[0.0, 0.25]]
    """
    level = checked_level(level)
    ordered = np.sort(np.asarray(draws, dtype=np.float64), axis=0)
    inside = min(max(math.ceil(level * len(ordered)), 1), len(ordered))
    widths = ordered[inside - 1 :] - ordered[: len(ordered) - inside + 1]
    # The least of many widths, each known by draws alone, is too short; the least of their running means is not.
    reach = min(_RUN, len(widths) - 1)
    padded = np.concatenate([np.zeros((1, ordered.shape[1])), np.cumsum(widths, axis=0)])
    first, last = (
        np.maximum(np.arange(len(widths)) - reach, 0),
        np.minimum(np.arange(len(widths)) + reach + 1, len(widths)),
    )
    start = np.argmin((padded[last] - padded[first]) / (last - first)[:, None], axis=0)
    columns = np.arange(ordered.shape[1])
    return np.stack([ordered[start, columns], ordered[start + inside - 1, columns]], axis=-1)


_FLAT = 0.5
"""Draws beyond an interval, half as dense as those within, are no reason to leave an end of the range out."""


def to_the_ends(draws: Floats, ends: Floats, low: float, high: float) -> Floats:
    """Return intervals, drawn out to an end of the public range where draws lie beyond them about as densely as within.

    Where noise hides a group, every interval of one length holds about as many draws, and chance would say which end
    is left out; a truth close to that end would be missed, again and again.

    >>> flat = np.linspace(0, 1, 1001)[:, None]
    >>> to_the_ends(flat, np.array([[0.03, 0.98]]), 0.0, 1.0).tolist()
    [[0.0, 1.0]]
    >>> to_the_ends(flat**8, shortest(flat**8), 0.0, 1.0).round(2).tolist()
    [[0.0, 0.66]]
    """
    below, above = (draws < ends[:, 0]).mean(axis=0), (draws > ends[:, 1]).mean(axis=0)
    dense = _FLAT * (1 - below - above) / np.maximum(ends[:, 1] - ends[:, 0], 1e-300)
    first = np.where(below > dense * np.maximum(ends[:, 0] - low, 0.0), low, ends[:, 0])
    last = np.where(above > dense * np.maximum(high - ends[:, 1], 0.0), high, ends[:, 1])
    return np.stack([np.minimum(first, ends[:, 0]), np.maximum(last, ends[:, 1])], axis=-1)
