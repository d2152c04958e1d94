"""Elliptical slices: draws from a normal law times anything, without steps to tune, many chains side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sottovoce.privacy.numbers import Floats, Integers

_TRIES, _AHEAD = 100, 6
"""Rounds of tries at most, and tries of a chain in one round at most."""


@dataclass(frozen=True, eq=False)
class Guide:
    """A normal law by its mean and the lower root of its precision: one for all chains."""

    mean: Floats
    root: Floats

    @staticmethod
    def of(mean: Floats, precision: Floats) -> Guide:
        """Return the law of a precision matrix."""
        return Guide(mean, np.asarray(np.linalg.cholesky(precision), dtype=np.float64))

    def wider(self, factor: float) -> Guide:
        """Return the law with standard deviations so many times as large."""
        return Guide(self.mean, self.root / factor)

    def learnt(self, draws: Floats) -> Guide:
        """Return the law of draws (draws, coordinates), which counts for one more draw a coordinate."""
        count, size = draws.shape
        inverse = np.linalg.inv(self.root)
        mean = draws.mean(axis=0)
        spread = (draws - mean).T @ (draws - mean) + size * inverse.T @ inverse
        return Guide.of(mean, np.linalg.inv(spread / (count + size)))

    def log_density(self, x: Floats) -> Floats:
        """Return the log-density at x (chains, coordinates), up to a constant."""
        return np.asarray(-0.5 * (((x - self.mean) @ self.root) ** 2).sum(axis=-1))

    def noise(self, count: int, rng: np.random.Generator) -> Floats:
        """Return draws of the law about zero, (count, coordinates)."""
        return np.asarray(np.linalg.solve(self.root.T, rng.standard_normal((count, self.mean.size)).T).T)


def slice_step(
    log_target: Callable[[Floats, Integers], Floats], x: Floats, now: Floats, guide: Guide, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    r"""Return chains after one elliptical slice along a guiding normal law, and their log-targets.

    The target is written as guide times remainder; a point on a random ellipse about the guide's mean is taken where
    the remainder is above a random level, and the ellipse is cut back to where the chain stands until one is found
    (Murray, Adams and MacKay 2010; any guide leaves the target as it is: Nishihara, Murray and Adams 2014).

    Parameters
    ----------
    log_target
        Of points (some chains, coordinates) and of these chains' numbers.
    x, now
        Where the chains stand, and the log-target there.

    Examples
    --------
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> rng, guide = seeded_rng(1), Guide(np.zeros(1), np.eye(1))
    >>> log_target = lambda x, chains: -0.5 * ((x[:, 0] - 1) / 0.5) ** 2
    >>> x, draws = np.zeros((64, 1)), []
    >>> now = log_target(x, None)
    >>> for _ in range(60):
    ...     x, now = slice_step(log_target, x, now, guide, rng)
    ...     draws.append(x[:, 0])
    >>> round(float(np.mean(draws[20:])), 1), round(float(np.std(draws[20:])), 1)
    (1.0, 0.5)
    """
    chains = len(x)
    level = now - guide.log_density(x) - rng.standard_exponential(chains)
    at, other = x - guide.mean, guide.noise(chains, rng)
    angle = rng.uniform(0, 2 * np.pi, chains)
    low, high = angle - 2 * np.pi, angle.copy()
    x, now = x.copy(), now.copy()
    waiting = np.arange(chains)
    for _ in range(_TRIES):
        # Where a chain tries next does not depend on by how much it was refused. So the fewer wait, the more of their
        # tries are looked at together; the first that is allowed counts.
        ahead = min(2 * chains // waiting.size, _AHEAD)
        angles = np.empty((ahead, waiting.size, 1))
        for turn, part in zip(angles[..., 0], rng.random((ahead, waiting.size)), strict=True):
            turn[:] = angle
            below = angle < 0
            low, high = np.where(below, angle, low), np.where(below, high, angle)
            angle = low + (high - low) * part
        tried = guide.mean + at[waiting] * np.cos(angles) + other[waiting] * np.sin(angles)
        then = log_target(tried.reshape(-1, x.shape[1]), np.tile(waiting, ahead)).reshape(ahead, -1)
        allowed = then - guide.log_density(tried) > level[waiting]
        first, taken = allowed.argmax(axis=0), allowed.any(axis=0)
        place = first[taken], np.flatnonzero(taken)
        x[waiting[taken]], now[waiting[taken]] = tried[place], then[place]
        if taken.all():
            break
        waiting = waiting[~taken]
        low, high, angle = (part[~taken] for part in (low, high, angle))
    return x, now
