"""Exact draws from many log-concave laws on the integers at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.numbers import Floats

__all__ = ["draw_log_concave"]

Integers = NDArray[np.int64]
LogWeight = Callable[[Integers, Integers], Floats]


def draw_log_concave(
    log_weight: LogWeight, low: Integers, high: Integers, start: Integers, rng: np.random.Generator
) -> Integers:
    r"""Draw x_i with probability proportional to e^{w_i(x)} on low_i..high_i, for many i at once.

    The weights must be concave on the integers. Around the mode the proposal is flat; beyond two points r and l it
    is geometric along the last secant, which a concave sequence never exceeds. Rejection makes the draw exact
    whatever the two points are; they sit near the places where the weight has fallen by one.

    Parameters
    ----------
    log_weight
        ``log_weight(x, i)``: the log-weights of integers x of the laws with indices i, up to a constant a law.
    low, high
        The ends of each law's support; `high` may be far away (2⁴⁰ stands for no end).
    start
        Where to begin the search for the mode, inside the support.

    Examples
    --------
    >>> from scipy import special
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> def poisson(x, i):
    ...     return x * np.log(3.0) - special.gammaln(x + 1)
    >>> zeros = np.zeros(20_000, dtype=np.int64)
    >>> draws = draw_log_concave(poisson, zeros, zeros + 2**40, zeros, seeded_rng(1))
    >>> round(float(draws.mean()), 1), round(float(draws.var()), 1)
    (3.0, 3.0)
    """
    everyone = np.arange(low.size)
    mode = _mode(log_weight, low, high, np.clip(start, low, high), everyone)
    peak = log_weight(mode, everyone)
    right = _fallen(log_weight, mode, peak, high, 1, everyone)
    left = _fallen(log_weight, mode, peak, low, -1, everyone)
    top_right, fall_right = _tail(log_weight, right, mode, peak, everyone, 1)
    top_left, fall_left = _tail(log_weight, left, mode, peak, everyone, -1)
    # Masses of the three parts relative to the peak: left of l, between, right of r (each end in its tail).
    middle = np.maximum(right - left - 1, 0).astype(np.float64)
    mass_right = np.exp(top_right) * _geometric(fall_right, high - right)
    mass_left = np.where(left < mode, np.exp(top_left) * _geometric(fall_left, left - low), 0.0)
    mass_right = np.where(right > mode, mass_right, 0.0)
    # A side with no room has its end at the mode itself, which then belongs to the middle.
    middle += (right == mode).astype(np.float64) + (left == mode) - ((left == mode) & (right == mode))
    first = np.where(left == mode, left, left + 1)
    total = mass_left + middle + mass_right
    out = mode.copy()
    waiting = everyone
    while waiting.size:
        u = rng.random(waiting.size) * total[waiting]
        in_left = u < mass_left[waiting]
        in_right = u >= (mass_left + middle)[waiting]
        flat = first[waiting] + np.minimum(
            np.floor(rng.random(waiting.size) * middle[waiting]), np.maximum(middle[waiting] - 1, 0)
        ).astype(np.int64)
        side = np.where(in_right, fall_right[waiting], fall_left[waiting])
        room = np.where(in_right, (high - right)[waiting], (left - low)[waiting])
        jump = _jump(side, room, rng)
        x = np.where(in_right, right[waiting] + jump, np.where(in_left, left[waiting] - jump, flat))
        envelope = np.where(
            in_right,
            top_right[waiting] - jump * side,
            np.where(in_left, top_left[waiting] - jump * side, 0.0),
        )
        level = log_weight(x, waiting) - peak[waiting] - envelope
        taken = np.log1p(-rng.random(waiting.size)) <= level
        out[waiting[taken]] = x[taken]
        waiting = waiting[~taken]
    return out


def _slope(log_weight: LogWeight, x: Integers, index: Integers) -> Floats:
    return log_weight(x + 1, index) - log_weight(x, index)


def _mode(log_weight: LogWeight, low: Integers, high: Integers, start: Integers, index: Integers) -> Integers:
    """Return the first maximum of each law: gallop from `start`, then bisect on the sign of the slope."""
    below, above = low.copy(), high.copy()  # the mode lies in [below, above]
    rising = np.zeros(start.shape, dtype=bool)
    inside = start < high
    rising[inside] = _slope(log_weight, start[inside], index[inside]) > 0
    below = np.where(rising, start + 1, below)
    above = np.where(rising, above, start)
    step = np.ones_like(start)
    active = below < above
    while active.any():
        i = index[active]
        probe = np.where(
            rising[active],
            np.minimum(below[active] + step[active] - 1, above[active] - 1),
            np.maximum(above[active] - step[active], below[active]),
        )
        up = _slope(log_weight, probe, i) > 0
        turned = up != rising[active]
        below[active] = np.where(up, probe + 1, below[active])
        above[active] = np.where(up, above[active], probe)
        # After the first turn the bracket is short: halve it from then on.
        width = above[active] - below[active]
        step[active] = np.where(turned | (step[active] > width), np.maximum((width + 1) // 2, 1), 2 * step[active])
        active = below < above
    return np.asarray(below)


def _fallen(log_weight: LogWeight, mode: Integers, peak: Floats, end: Integers, sign: int, index: Integers) -> Integers:
    """Return a point on one side where the log-weight is 0.5 to about 4 below the peak, or the end of the support."""
    room = np.abs(end - mode)
    step = np.minimum(np.ones_like(mode), room)
    while True:
        drop = peak - log_weight(mode + sign * step, index)
        short = (drop < 0.5) & (step < room)
        if not short.any():
            return np.asarray(mode + sign * step)
        # The drop grows at least in proportion to the square root of the step squared: aim for one.
        factor = np.clip(np.sqrt(1.0 / np.maximum(drop, 1e-6)), 1.5, 8.0)
        step = np.where(short, np.minimum(np.ceil(step * factor).astype(np.int64), room), step)


def _tail(
    log_weight: LogWeight, point: Integers, mode: Integers, peak: Floats, index: Integers, sign: int
) -> tuple[Floats, Floats]:
    """Return the height at a point relative to the peak and how fast the last secant falls there."""
    height = log_weight(point, index) - peak
    before = np.where(point == mode, point, point - sign)
    fall = log_weight(before, index) - log_weight(point, index)
    return height, np.maximum(fall, 0.0)


def _geometric(fall: Floats, room: Integers) -> Floats:
    """Return Σ_{k=0..room} e^{-k·fall}."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        value = np.expm1(-fall * (room + 1.0)) / np.expm1(-fall)
    return np.where(fall > 0, value, room + 1.0)


def _jump(fall: Floats, room: Integers, rng: np.random.Generator) -> Integers:
    """Draw k in 0..room with probability proportional to e^{-k·fall}."""
    u = rng.random(fall.size)
    slope = np.where(fall > 0, fall, 1.0)
    bent = np.log1p(u * np.expm1(-slope * (room + 1.0))) / -slope
    k = np.floor(np.where(fall > 0, bent, u * (room + 1.0)))
    return np.asarray(np.minimum(k, room), dtype=np.int64)
