"""Groups that follow one another in time: each lies near the one before, as near as all of them say.

A random walk of order one, the local level model (Durbin and Koopman 2012, chapter 2): what is seen of a group is its
value and an error of known variance, and from one group to the next the value moves by a normal step. How large steps
are is not plugged in: it is weighed on a grid by the exact likelihood of all that was seen, under a half-Cauchy prior
(Gelman 2006), and averaged over.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sottovoce.privacy.numbers import Floats

_STEPS = 60
"""Places of the grid of step sizes, evenly in their logarithm."""
_SMALLEST = 1e-3
"""The smallest step that is weighed, as a part of the least error: over any number of groups that is none."""


class _Filtered(NamedTuple):
    """What is known of the value of each time from what was seen up to it, and how likely all of it is."""

    means: Floats
    variances: Floats
    log_likelihood: float


def walked(seen: Floats, variances: Floats, low: float, high: float, draws: int, rng: np.random.Generator) -> Floats:
    """Return draws of the values of series that walk at random, (draws, times, series), between bounds.

    Parameters
    ----------
    seen, variances
        What was seen of every time of every series, (times, series), and the variance of its error.
    low, high
        What a value lies between.
    """
    half = (high - low) / 2
    errors = np.sqrt(np.maximum(variances, 1e-300))
    steps = np.geomspace(min(_SMALLEST * float(errors.min()), 0.1 * half), half, _STEPS)
    fits = [_filtered(seen - (low + high) / 2, variances, step, half) for step in steps]
    # Evenly in the logarithm a half-Cauchy law of scale `half` has the density τ / (1 + (τ/half)²).
    log = np.array([fit.log_likelihood for fit in fits]) + np.log(steps) - np.log1p((steps / half) ** 2)
    weights = np.exp(log - log.max())
    picked = rng.multinomial(draws, weights / weights.sum())
    parts = [_backwards(fit, step, count, rng) for fit, step, count in zip(fits, steps, picked, strict=True) if count]
    return np.asarray(np.clip(rng.permutation(np.concatenate(parts)) + (low + high) / 2, low, high))


def _filtered(seen: Floats, variances: Floats, step: float, spread: float) -> _Filtered:
    """Return the Kalman filter of steps of one size, begun anywhere within the spread."""
    means, known, log = np.empty_like(seen), np.empty_like(seen), 0.0
    mean, variance = np.zeros(seen.shape[1]), np.full(seen.shape[1], spread**2)
    for time, (value, error) in enumerate(zip(seen, variances, strict=True)):
        total = variance + error
        log -= 0.5 * float((np.log(total) + (value - mean) ** 2 / total).sum())
        mean, variance = mean + variance / total * (value - mean), variance * error / total
        means[time], known[time] = mean, variance
        variance = variance + step**2
    return _Filtered(means, known, log)


def _backwards(fit: _Filtered, step: float, draws: int, rng: np.random.Generator) -> Floats:
    """Return draws of all values of one size of step, the last first (Carter and Kohn 1994)."""
    times, series = fit.means.shape
    result = np.empty((draws, times, series))
    normal = rng.standard_normal((times, draws, series))
    result[:, -1] = fit.means[-1] + np.sqrt(fit.variances[-1]) * normal[-1]
    for time in range(times - 2, -1, -1):
        total = fit.variances[time] + step**2
        part = fit.variances[time] / total
        mean = fit.means[time] + part * (result[:, time + 1] - fit.means[time])
        result[:, time] = mean + np.sqrt(part) * step * normal[time]
    return result
