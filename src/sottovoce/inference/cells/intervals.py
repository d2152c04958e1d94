"""Intervals of what is made of two rows of an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sottovoce.mechanisms.intervals import FAINT, FLAT, central, checked_level, to_the_ends
from sottovoce.privacy.numbers import Floats

__all__ = ["FAINT", "FLAT", "around", "central", "checked_level", "compared", "to_the_ends"]


def around(one: Floats, other: Floats) -> Floats:
    """Return the least intervals that reach as far as both do, (low, high) last.

    >>> around(np.array([[0.1, 0.4]]), np.array([[0.2, 0.5]])).tolist()
    [[0.1, 0.5]]
    """
    return np.stack([np.minimum(one[..., 0], other[..., 0]), np.maximum(one[..., 1], other[..., 1])], axis=-1)


def compared(made: Callable[[Any, Any], Any], draws: Floats, ends: Floats, level: float) -> Floats:
    """Return the interval of what is made of two columns of draws, drawn out to what is made of their `ends`.

    `made` grows with the first and falls with the second. Where noise hides the second row, few draws of it lie at the
    end where its truth may be, and where one row has all records and the other none, no draw may: where an end of a
    row was drawn out, so is that of what is made of both.

    >>> known, hidden = np.full(999, 0.1), np.linspace(0, 1, 999)
    >>> draws = np.stack([known, hidden], axis=1)
    >>> compared(np.subtract, draws, central(draws), 0.95).round(3).tolist()
    [-0.876, 0.076]
    >>> compared(np.subtract, draws, np.array([[0.1, 0.1], [0.0, 1.0]]), 0.95).round(3).tolist()
    [-0.9, 0.1]
    """
    low, high = central(made(draws[:, :1], draws[:, 1:]), level)[0]
    moved = ends != central(draws, level)
    if moved[0, 0] or moved[1, 1]:
        low = min(low, made(ends[0, 0], ends[1, 1]))
    if moved[0, 1] or moved[1, 0]:
        high = max(high, made(ends[0, 1], ends[1, 0]))
    return np.array([low, high])
