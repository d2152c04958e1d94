r"""Confidence limits of means by inversion of a test: no variance lies below zero, whatever the column's tail.

Of N records t in [-1, 1] with mean μ, Σt² has the mean N(μ² + σ²), which is at least Nμ². So noisy Σt² and N leave
the means of |μ| ≤ √((Σt² + q)/N), q the quantile of what noise and chance take from Σt² - μ²N. The squares come with
the sum for nothing, and where nearly all records lie near one bound they tell how near better than the sum does. A
posterior whose density ends at that limit, however steeply, misses truths that lie on it too often: 9 % for 5 % where
noise is all there is. Its interval is drawn out to the limit of that test (Neyman 1937), which assumes no law of the
records, wherever the squares set a tighter limit than the sum does.

Chance takes from Σt² - μ²N as much as variance adds to it: with h = Nσ² its mean is h and its variance, near the limit,
4μ²h beside the noise v. The largest of z√(v + 4μ²h) - h over all h ≥ 0 is z√v where √v ≥ 2zμ², else z²μ² + v/4μ².
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from sottovoce.mechanisms.integer_noise import NoiseKind
from sottovoce.privacy.numbers import Floats

_HALVINGS = 60
"""Bisections of a quantile: more than a double has bits."""
_ROUNDS = 4
"""The noise of N weighs as the limit itself: so many rounds, each with the limit of the one before."""


def mean_limits(
    sizes: tuple[Floats, Floats],
    sums: tuple[Floats, Floats],
    noise: tuple[float, float],
    level: float,
    kind: NoiseKind,
) -> Floats:
    """Return the limits that squares set to means of t, one row a group, (low, high); NaN where sums set tighter ones.

    Parameters
    ----------
    sizes
        N of every group, and its variance.
    sums
        The noisy Σt and Σt² of every group.
    noise
        The variance of the noise on each.
    level, kind
        Of the interval, each of whose ends is missed half as often as it is; the law of the noise.

    Examples
    --------
    >>> known = np.array([1000.0]), np.zeros(1)
    >>> sums = np.array([-990.0]), np.array([980.0])
    >>> mean_limits(known, sums, (400.0, 100.0), 0.95, "gaussian").round(4).tolist()
    [[-0.9998, nan]]
    """
    (number, uncertain), (total, square), tail = (np.maximum(sizes[0], 1e-9), sizes[1]), sums, (1 - level) / 2
    z = -float(special.ndtri(tail))
    ends = []
    for side in (-1.0, 1.0):
        by_sum, by_square = total / number, np.ones_like(number)
        for _ in range(_ROUNDS):
            far, near = np.clip(by_sum, -1.0, 1.0) ** 2, by_square**2
            scatter = np.maximum(square - number * np.clip(total / number, -1.0, 1.0) ** 2, 0.0)
            by_sum = (total + side * upper_quantile(tail, scatter + far * uncertain, noise[0], kind)) / number
            other = near**2 * uncertain
            chance = np.maximum(z**2 * near - (noise[1] + other) / np.maximum(4 * near, 1e-9), 0.0)
            taken = upper_quantile(tail, 4 * near * chance + other, noise[1], kind) - chance
            taken = np.maximum(taken, upper_quantile(tail, other, noise[1], kind))
            by_square = np.sqrt(np.clip(square + taken, 0.0, number) / number)
        tighter = (by_square < 1.0) & (by_square < side * by_sum)
        ends.append(np.where(tighter, side * by_square, np.nan))
    return np.stack(ends, axis=-1)


def upper_quantile(tail: float, variance: Floats, noise: float, kind: NoiseKind) -> Floats:
    """Return what a normal variable of a variance, and noise of another, together exceed with the chance `tail`.

    >>> upper_quantile(0.025, np.array([9.0]), 16.0, "gaussian").round(2).tolist()
    [9.8]
    >>> upper_quantile(0.025, np.array([0.0]), 2.0, "laplace").round(3).tolist()
    [2.996]
    """
    variance = np.asarray(variance, dtype=np.float64)
    if kind == "gaussian":
        return np.asarray(-special.ndtri(tail) * np.sqrt(variance + noise))
    # P(X > x) = Φ(-x/s) + (e^{c - x/b} Φ(x/s - s/b) - e^{c + x/b} Φ(-x/s - s/b))/2, c = s²/2b².
    spread, scale = np.sqrt(np.maximum(variance, 1e-18)), math.sqrt(noise / 2)
    ratio = spread / scale
    low, high = np.zeros_like(spread), 40 * (spread + scale)
    for _ in range(_HALVINGS):
        x = (low + high) / 2
        up = np.exp(ratio**2 / 2 - x / scale + special.log_ndtr(x / spread - ratio))
        down = np.exp(ratio**2 / 2 + x / scale + special.log_ndtr(-x / spread - ratio))
        above = special.ndtr(-x / spread) + (up - down) / 2 > tail
        low, high = np.where(above, x, low), np.where(above, high, x)
    return np.asarray((low + high) / 2)
