r"""Imagined columns that keep to their public bounds: one whose mean lies near an end, beside its spread, is skewed.

A number that may not be negative and spreads as far as its mean is no normal one. Of the laws with this mean m and
standard deviation s beyond an end e the one of most entropy is a normal law cut at e, down to the exponential law where
:math:`c = s/|m - e|` is 1; beyond it a gamma law has them. Their skewness is close to

.. math:: \gamma = 2c \min(c, 1)^2,

away from that end, and nearly none where the end is three standard deviations off. A gamma law stays one of the same
skewness when records are weighed by e to the power of a number, as the slope of a mean count weighs them.
"""

from __future__ import annotations

import numpy as np

from sottovoce.privacy.numbers import Floats
from sottovoce.records.facts.encodings import Encoding

_LEAST = 0.1
"""A skewness below this is none."""
_NEAREST = 1 / 3
"""No mean is taken to be nearer to an end than this part of the spread: noise may have put it there."""
_PART, _AT_LEAST = 0.5, 1.2
"""How far the skewness of a number may be from what its public bounds say: a part of it, and no less than this."""


def skewness(encoding: Encoding, means: Floats, sds: Floats) -> Floats:
    """Return how skewed each entry is by its bounds, zero of flags and levels; one first index a guess."""
    lows, highs = encoding.ends
    low, high = (_beyond(sds, room) for room in (means - lows, highs - means))
    numbers = (lows < highs) & ~encoding.ones
    return np.asarray(np.where(numbers & (np.abs(low - high) >= _LEAST), low - high, 0.0))


def more_skewed(skews: Floats) -> Floats:
    """Return how skewed entries may be that their bounds say are so skewed.

    >>> more_skewed(np.array([0.0, -1.0, 4.0])).tolist()
    [0.0, -2.2, 6.0]
    """
    return np.asarray(skews + np.sign(skews) * np.maximum(_PART * np.abs(skews), _AT_LEAST))


def skewed(noise: Floats, skews: Floats) -> Floats:
    """Return standard normal noise made skewed, by guess, row and entry: a gamma law's, by Wilson and Hilferty's cube.

    >>> even = np.array([[-1.0], [0.0], [1.0]])
    >>> skewed(even, np.array([[0.0], [2.0]])).round(1)[:, :, 0].tolist()
    [[-1.0, 0.0, 1.0], [-1.1, -0.3, 1.3]]
    """
    if not skews.any():
        return np.broadcast_to(noise, (len(skews), *noise.shape))
    subset, gamma = skews[:, None] != 0, np.where(skews == 0, 1.0, skews)[:, None]
    result = (np.maximum(1 + gamma * noise / 6 - gamma**2 / 36, 0.0) ** 3 - 1) * 2 / gamma
    result = result - result.mean(axis=1, keepdims=True)
    result = result / np.maximum(result.std(axis=1, keepdims=True), 1e-300)
    return np.asarray(np.where(subset, result, noise))


def _beyond(sds: Floats, room: Floats) -> Floats:
    c = sds / np.maximum(np.maximum(room, _NEAREST * sds), 1e-300)
    return np.asarray(2 * c * np.minimum(c, 1.0) ** 2)
