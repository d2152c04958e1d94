"""Intervals that hold a share of draws, with as many left out on either side."""

from __future__ import annotations

from typing import Any

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.shares import read_share

_CHANCE = 0.05
"""By less than this part of an interval its ends are uncertain by the chance of the draws."""


def checked_level(level: object) -> float:
    """Return the level of an interval, from a number or a text in percent, or raise `InvalidValue`.

    >>> checked_level("80%")
    0.8
    """
    level = read_share("level", level) if isinstance(level, str) else level
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        raise InvalidValue(f"level must lie between 0 and 1, such as 0.8. Got {level!r}")
    return float(level)


def central(draws: Floats, level: float = 0.95) -> Floats:
    """Return for each column of draws the interval that leaves out as many below as above, (low, high) last.

    Of a lopsided law the shortest interval would leave out its long side alone, and miss the truths that lie there
    more often than one in twenty: a rare share, an outer quantile. The ends are draws, so that counts stay whole.

    >>> central(np.linspace(0, 1, 999)[:, None] ** 2, 0.5).round(2).tolist()
    [[0.06, 0.56]]
    """
    return _inner(_ordered(draws), level)


def _ordered(draws: Floats) -> Floats:
    return np.sort(np.asarray(draws, dtype=np.float64), axis=0)


def _inner(ordered: Floats, level: float) -> Floats:
    tail = (1 - checked_level(level)) / 2
    # On average 1/(N + 1) of a law lies between two neighbours of N draws, and beyond the first and the last.
    left_out = max(int(tail * (len(ordered) + 1)), 1)
    return np.stack([ordered[left_out - 1], ordered[-left_out]], axis=-1)


FLAT = 0.25
"""Draws beyond an interval, a quarter as dense as those within, are no reason to leave an end of the range out."""
FAINT = 0.06
"""Nor are so few draws of a quantile: of a column of which nothing is known an outer quantile is rarely in the bin at
the other end, yet it always is where that bin holds all records."""


_HIDDEN = 0.95
"""Whether noise hides a row is asked of its interval of this level, and of a larger one too: of half of all draws
nearly any end leaves out what lies a sixteenth as densely as they do, and a well-known answer would go there."""


def to_the_ends(draws: Floats, level: float, low: Any, high: Any, flat: float = FLAT) -> Floats:
    """Return central intervals, drawn out to an end of the public range where draws lie beyond it about as densely.

    Where noise hides a group, every interval of one length holds about as many draws, and chance would say which end
    is left out; a truth close to that end would be missed, again and again. About as densely as within the interval
    of 95 % is `flat` times as much. Intervals of all other levels go to the ends that one goes to: what lies beyond one
    of 99 % is less dense, and it would leave out an end that the one of 95 % holds.

    >>> flat = np.linspace(0, 1, 1001)[:, None]
    >>> to_the_ends(flat, 0.95, 0.0, 1.0).tolist()
    [[0.0, 1.0]]
    >>> to_the_ends(flat**8, 0.95, 0.0, 1.0).round(2).tolist()
    [[0.0, 0.82]]
    """
    ordered, level = _ordered(draws), checked_level(level)
    ends = _inner(ordered, level)
    first, last = ends[:, 0], ends[:, 1]
    for asked in {_HIDDEN, max(level, _HIDDEN)}:
        wide = _inner(ordered, asked)
        below, above = (draws < wide[:, 0]).mean(axis=0), (draws > wide[:, 1]).mean(axis=0)
        width, dense = wide[:, 1] - wide[:, 0], flat * (1 - below - above)
        gaps = np.maximum(wide[:, 0] - low, 0.0), np.maximum(high - wide[:, 1], 0.0)
        first = np.where((gaps[0] == 0) | (below * width > dense * gaps[0]), low, first)
        last = np.where((gaps[1] == 0) | (above * width > dense * gaps[1]), high, last)
    return np.stack([np.minimum(first, ends[:, 0]), np.maximum(last, ends[:, 1])], axis=-1)


def reaching(ends: Floats, others: Floats, least: object = 0.0) -> Floats:
    """Return intervals that reach at least as far as others do, (low, high) last.

    By chance of the draws either end may lie a little beyond the other one's: that, and `least` more, is no reason to
    be wider.

    >>> reaching(np.array([[0.0, 0.1], [0.2, 0.4]]), np.array([[0.0, 0.3], [0.199, 0.3]])).tolist()
    [[0.0, 0.3], [0.2, 0.4]]
    """
    beyond = (others - ends) * [-1, 1] > np.ptp(ends, axis=-1)[..., None] * _CHANCE + least
    return np.where(beyond, others, ends)
