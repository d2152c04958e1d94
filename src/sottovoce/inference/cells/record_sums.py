r"""Totals and standard deviations of the records themselves, from noisy counts, sums and sums of squares.

They are of the records that were read, as a table of counts is: noise is all that makes them uncertain. (A mean is of
those that the records were drawn from.) N records t in [-1, 1] with the sums S = Σt and Q = Σt² have S²/N ≤ Q ≤ N, and
beforehand any S and Q within that are as likely. A total of x = m + ht is mN + hS, and its interval is that of a test:
the noisy sum is off by noise alone, whatever the records are. As 1 - t² ≤ 2(1 - |t|), N - |S| is at least (N - Q)/2: a
second test, whose noise is less, and which rules out totals that lie too near to what N records at a bound would have.
Each end is missed by either test no oftener than by its part of the level, and the two parts add up to all of it.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from sottovoce.mechanisms.integer_noise import NoiseKind
from sottovoce.mechanisms.intervals import central, to_the_ends
from sottovoce.privacy.numbers import Floats

_BY_SQUARES = 0.1
"""Of each end's chance to be missed so much is the test's by squares: the test by sums is hardly wider for it."""
_LEAST = 0.01
"""An empty group is one with next to no records."""
_HALVINGS = 80
"""Bisections of a quantile: more than a double has bits."""
_SAME = 1e-5
"""Two scales of Laplace noise that are nearer are taken to be so far apart: their closed form divides by that."""


def sum_draws(
    sizes: Floats, sums: tuple[Floats, Floats], noise: tuple[float, float], kind: NoiseKind, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Return joint draws of N, S and Q of every group, (draws, groups), given draws of N and the noisy sums.

    Parameters
    ----------
    sizes
        Draws of N that know of the noisy counts.
    sums
        The noisy S and Q of every group.
    noise, kind
        The variance of the noise on each, and its law.
    rng
        The randomness of the draws.
    """
    sizes = np.maximum(sizes, _LEAST)
    totals, within = _within(-sizes, sizes, sums[0], noise[0], kind, rng.random(sizes.shape))
    least = np.minimum(totals**2 / sizes, sizes)
    _, room = _within(least, sizes, sums[1], noise[1], kind, None)
    # S and Q are as likely as any within their limits, whose area grows as N² does.
    weight = within + room - 2 * np.log(sizes)
    weight = np.cumsum(np.exp(weight - weight.max(axis=0)), axis=0)
    places = (np.arange(len(sizes)) + 0.5) / len(sizes)
    picked = np.stack([np.searchsorted(part, places * part[-1]) for part in weight.T], axis=1)
    picked = rng.permuted(picked, axis=0)
    sizes, totals, least = (np.take_along_axis(part, picked, axis=0) for part in (sizes, totals, least))
    squares, _ = _within(least, sizes, sums[1], noise[1], kind, rng.random(sizes.shape))
    return sizes, totals, squares


def truncated_draws(low: Floats, high: Floats, seen: Floats, noise: float, kind: NoiseKind, ranks: Floats) -> Floats:
    """Return the draws, by their ranks, of a number within limits that was seen with noise."""
    return _within(low, high, seen, noise, kind, ranks)[0]


def _within(
    low: Floats, high: Floats, seen: Floats, noise: float, kind: NoiseKind, ranks: Floats | None
) -> tuple[Floats, Floats]:
    """Return draws of a number within limits that was seen with noise, and the log chance of noise to leave it there.

    Ranks say which draws; without any there are none.
    """
    spread = math.sqrt(noise if kind == "gaussian" else noise / 2)
    first, last = (low - seen) / spread, (high - seen) / spread
    turn = np.where(first + last > 0, -1.0, 1.0)  # to the side where chances are small numbers, told exactly
    first, last = np.where(turn < 0, -last, first), np.where(turn < 0, -first, last)
    below, above = (_log_chance(part, kind) for part in (first, last))
    chance = above + np.log(np.maximum(-np.expm1(np.minimum(below - above, 0.0)), 1e-300))
    if ranks is None:
        return seen, chance
    inner = np.logaddexp(below + np.log1p(-ranks), above + np.log(np.maximum(ranks, 1e-300)))
    values = np.clip(_at_log_chance(inner, kind), first, last)
    return np.clip(seen + spread * turn * values, low, high), chance


def _log_chance(x: Floats, kind: NoiseKind) -> Floats:
    """Return the log chance of noise of scale one to lie below x."""
    if kind == "gaussian":
        return np.asarray(special.log_ndtr(x))
    return np.where(x < 0, np.minimum(x, 0.0) - math.log(2), np.log1p(-np.exp(-np.maximum(x, 0.0)) / 2))


def _at_log_chance(log: Floats, kind: NoiseKind) -> Floats:
    if kind == "gaussian":
        return np.asarray(special.ndtri_exp(np.minimum(log, -1e-300)))
    upper = -np.log(np.maximum(-2 * np.expm1(np.minimum(log, 0.0)), 1e-300))
    return np.where(log < -math.log(2), log + math.log(2), upper)


def variances(sizes: Floats, totals: Floats, squares: Floats) -> Floats:
    """Return the variances of N records with these sums.

    >>> variances(np.array([4.0]), np.array([2.0]), np.array([3.0])).tolist()
    [0.5]
    """
    return np.clip(squares / sizes - (totals / sizes) ** 2, 0.0, 1.0)


def variance_limits(sizes: Floats, totals: Floats, squares: Floats, level: float) -> Floats:
    """Return the interval of the variance of every group, (low, high), from joint draws of its sums.

    Where all records may lie at the two bounds it is 1 - μ²: draws whose squares are known less well lie below it, and
    the interval reaches to as much as the interval of μ leaves. (A quantile of draws of 1 - μ² would not do: it leaves
    out its greatest value, which is the truth where both bounds have half of the records each.)
    """
    values, means = variances(sizes, totals, squares), np.clip(totals / sizes, -1.0, 1.0)
    ends = to_the_ends(values, level, 0.0, 1.0)
    part = to_the_ends(values / np.maximum(1 - means**2, 1e-300), level, 0.0, 1.0)
    low, high = central(means, level).T
    nearest = np.maximum(np.maximum(low, -high), 0.0)
    top = np.where(part[:, 1] >= 1.0, np.maximum(ends[:, 1], 1 - nearest**2), ends[:, 1])
    return np.stack([ends[:, 0], top], axis=-1)


def total_limits(
    sizes: tuple[Floats, float],
    sums: tuple[Floats, Floats],
    noise: tuple[float, float],
    scale: tuple[float, float],
    level: float,
    kind: NoiseKind,
) -> Floats:
    """Return the limits of the total of x = middle + half·t, one row a group, (low, high), whatever the records are.

    Parameters
    ----------
    sizes
        The noisy N of every group, and the variance of its noise.
    sums, noise
        The noisy S and Q of every group, and the variance of the noise on each.
    scale
        The middle and the half of the bounds.
    level, kind
        Of the interval; the law of the noise.

    Examples
    --------
    >>> known, sums = (np.array([100.0]), 0.0), (np.array([-90.0]), np.array([85.0]))
    >>> total_limits(known, sums, (25.0, 13.0), (5.0, 5.0), 0.95, "gaussian").round(1).tolist()
    [[12.2, 100.1]]
    """
    (number, unsure), (total, square), (middle, half), tail = sizes, sums, scale, (1 - level) / 2
    by_sum, by_square = tail * (1 - _BY_SQUARES), tail * _BY_SQUARES
    off = noise_quantile(by_sum, (middle**2 * unsure, half**2 * noise[0]), kind)
    ends = []
    for side in (-1.0, 1.0):
        # S lies within (N + Q)/2 of zero: all limits are sums of what noise was added to.
        weights = middle + side * half / 2, side * half / 2
        reach = noise_quantile(by_square, (weights[0] ** 2 * unsure, weights[1] ** 2 * noise[1]), kind)
        first, second = middle * number + half * total + side * off, weights[0] * number + weights[1] * square
        ends.append(np.maximum(first, second - reach) if side < 0 else np.minimum(first, second + reach))
    crossed = np.minimum(*ends), np.maximum(*ends)  # by noise that comes next to never: between them is as good
    return np.stack(crossed, axis=-1)


def noise_quantile(tail: float, variances: tuple[float, float], kind: NoiseKind) -> float:
    """Return what two noises together exceed with the chance `tail`.

    >>> round(noise_quantile(0.025, (9.0, 16.0), "gaussian"), 2), round(noise_quantile(0.025, (2.0, 0.0), "laplace"), 3)
    (9.8, 2.996)
    """
    if kind == "gaussian":
        return -float(special.ndtri(tail)) * math.sqrt(sum(variances))
    # P(X > x) = (b² e^{-x/b} - c² e^{-x/c}) / 2(b² - c²) for x ≥ 0.
    wide, small = sorted((math.sqrt(variance / 2) for variance in variances), reverse=True)
    if small == 0:
        return -wide * math.log(2 * tail) if wide else 0.0
    small = min(small, wide * (1 - _SAME))
    low, high = 0.0, 60 * wide
    for _ in range(_HALVINGS):
        x = (low + high) / 2
        above = (wide**2 * math.exp(-x / wide) - small**2 * math.exp(-x / small)) / (2 * (wide**2 - small**2))
        low, high = (x, high) if above > tail else (low, x)
    return (low + high) / 2
