"""Sums of rows that are the same in any order: each row is rounded to whole steps, of which a double holds every sum.

A sum that is rounded on its way can move by more than the one record that was replaced: where it crosses a power of
two, the others are rounded otherwise than before.
"""

from __future__ import annotations

import math

import numpy as np

from sottovoce.privacy.numbers import Floats
from sottovoce.records.readings.design_rows import scale_down


def exact_moments(rows: Floats, labels: Floats, largest: float) -> tuple[Floats, Floats, Floats]:
    """Return X'X, X'y and X'1 of rows of norm at most 1 and labels up to `largest`.

    Products are whole numbers too, and their sums stay below 2⁵³. Rows are kept as far within the ball as rounding can
    move them, so that they stay in it. Of several tables with these labels there are as many of each.

    >>> gram, moment, ones = exact_moments(np.array([[0.6, 0.8], [0.0, 0.1]]), np.array([1.0, -1.0]), 1.0)
    >>> gram.round(6).tolist(), moment.round(6).tolist()
    ([[0.36, 0.48], [0.48, 0.65]], [0.6, 0.7])
    """
    n, d = rows.shape[-2:]
    steps = 2.0 ** ((52 - n.bit_length()) // 2)
    inside = max(1 - math.sqrt(d) / (2 * steps) - (d + 8) * 2.0**-50, 0.0)
    x, y = np.rint(scale_down(rows, inside) * steps), np.rint(labels / largest * steps)
    return x.mT @ x / steps**2, x.mT @ y / steps**2 * largest, x.sum(axis=-2) / steps
