"""Groups that follow one another in time: each lies near the one before, as near as all of them say.

A random walk of order one, the local level model (Durbin and Koopman 2012, chapter 2): what is seen of a group is its
value and an error of known variance, and from one group to the next the value moves by a normal step. How large steps
are is not plugged in: it is weighed on a grid by the exact likelihood of all that was seen, under a half-Cauchy prior
(Gelman 2006), and averaged over.

With a season each value is the level of that walk and an effect of its month, quarter or weekday, the same in every
year or week (the basic structural model with a fixed season; Harvey 1989, chapter 2); effects have a normal law about
zero, whose spread is weighed as the size of steps is.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from sottovoce.privacy.numbers import Floats

_STEPS = 60
"""Places of the grid of step sizes, evenly in their logarithm."""
_SMALLEST = 1e-3
"""The smallest step that is weighed, as a part of the least error: over any number of groups that is none."""


_SEASONAL_STEPS, _SEASONAL_SPREADS = 30, 20
"""Places of the grid of step sizes beside those of how far the effects of a season spread."""
_DATE = re.compile(r"(?P<year>\d{4})-(?:(?P<month>\d\d)|Q(?P<quarter>\d)|W(?P<week>\d\d))")
"""A label that says a year and what of it."""


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


def seasons_of(labels: Sequence[Hashable]) -> list[int] | None:
    """Return which season each time is of, from what times are called; None where they do not say, or none comes twice.

    >>> seasons_of(["2023-11", "2023-12", "2024-11"]), seasons_of(["A", "B"]), seasons_of(["2024-Q1", "2024-Q2"])
    ([11, 12, 11], None, None)
    """
    read = [_DATE.fullmatch(label) if isinstance(label, str) else None for label in labels]
    names = [[name for name, text in match.groupdict().items() if text and name != "year"] for match in read if match]
    if len(names) < len(labels) or any(first != second for first, second in itertools.pairwise(names)):
        return None
    seasons = [int(match[names[0][0]]) for match in read if match]
    return seasons if len(set(seasons)) < len(seasons) else None


def seasonal(
    seen: Floats,
    variances: Floats,
    seasons: Sequence[int],
    low: float,
    high: float,
    draws: int,
    rng: np.random.Generator,
) -> Floats:
    """Return draws of the values of series that walk at random and have a season, (draws, times, series).

    A normal process, of which `seen` are noisy values (Rasmussen and Williams 2006, algorithm 2.1): its covariance is
    that of where walks begin, of their steps and of the effects of the seasons.
    """
    half, times = (high - low) / 2, np.arange(len(seen))
    errors = np.sqrt(np.maximum(variances, 1e-300))
    smallest = min(_SMALLEST * float(errors.min()), 0.1 * half)
    begun = np.full((times.size, times.size), half**2)
    walk, same = np.minimum.outer(times, times), np.equal.outer(np.asarray(seasons), np.asarray(seasons))
    grid = [
        (step, spread)
        for step in np.geomspace(smallest, half, _SEASONAL_STEPS)
        for spread in np.geomspace(smallest, half, _SEASONAL_SPREADS)
    ]
    centred, series = seen - (low + high) / 2, range(seen.shape[1])

    def solved(step: float, spread: float, place: int) -> tuple[Floats, Floats, Floats]:
        """Return the covariance of values, the root of that of what is seen of them, and that solved for what was."""
        values = begun + step**2 * walk + spread**2 * same
        root = np.linalg.cholesky(values + np.diag(variances[:, place]))
        return values, root, solve_triangular(root, centred[:, place], lower=True)

    log = np.empty(len(grid))
    for index, (step, spread) in enumerate(grid):
        log[index] = -np.log1p((step / half) ** 2) - np.log1p((spread / half) ** 2) + np.log(step) + np.log(spread)
        for place in series:
            _, root, whitened = solved(step, spread, place)
            log[index] -= np.log(np.diag(root)).sum() + 0.5 * whitened @ whitened
    weights = np.exp(log - log.max())
    picked = rng.multinomial(draws, weights / weights.sum())
    parts = []
    for (step, spread), count in zip(grid, picked, strict=True):
        if count:
            part = np.empty((count, times.size, seen.shape[1]))
            for place in series:
                values, root, whitened = solved(step, spread, place)
                share = solve_triangular(root, values, lower=True)
                mean, covariance = share.T @ whitened, values - share.T @ share
                size, basis = np.linalg.eigh(covariance)
                normal = rng.standard_normal((count, times.size))
                part[:, :, place] = mean + (normal * np.sqrt(np.maximum(size, 0.0))) @ basis.T
            parts.append(part)
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
