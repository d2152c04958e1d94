"""The mean and variance behind noisy sums of a bounded number: what naive Bayes believes of a numeric column.

All of this is post-processing of a release: it costs no privacy, and none rests on it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sottovoce.inference.latent.diagnostics import Convergence
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.numbers import Floats

_CHAINS, _THIN = 64, 5
_LEAST, _MOST = 100, 3200
"""Fewest and most steps of a chain."""
_TAILS = 4.0
"""The degrees of freedom of what is tried about the noisy sums."""
_FLAT = 1e-3
"""The least standard deviation, beside half the width of the bounds."""
_TINY = 1e-6
"""The least variance where sums are taken at their word."""


@dataclass(frozen=True, eq=False)
class MomentDraws:
    """Draws of the mean and variance of t in each class, (draws, classes, 2), and whether their chains converged."""

    values: Floats
    convergence: Convergence


def moment_posterior(
    sums: object, noise: IntegerNoise, unit: float, sizes: Floats, rng: np.random.Generator
) -> MomentDraws:
    r"""Return draws of (mean, variance) of t in [-1, 1] for each draw of class sizes, each by a chain of its own.

    The m records of a class have mean μ and standard deviation σ, so that (Σt, Σ(t² - ½)) is about normal with
    covariance m·((σ², 2μσ² + m₃), (2μσ² + m₃, m₄ - σ⁴ + 4μm₃ + 4μ²σ²)); to that the noise is added. Columns crowded
    against a bound are skewed: the third central moment m₃ is that of the Beta law between the bounds, the fourth m₄
    that of the Gamma law that begins at the nearer one, 3σ⁴ and a little where that is far; and t² ≤ 1 varies by no
    more than E[t²]·(1 - E[t²]). Laplace noise is normal noise of exponential variance, and that variance one more
    unknown. The prior is flat over all (μ, σ) with μ² + σ² <= 1.

    Parameters
    ----------
    sums
        The noisy sums (class, 2), in grid steps.
    noise
        Their noise, in grid steps.
    unit
        How many grid steps one unit of t has.
    sizes
        How many records each class has, (draws, classes).

    Examples
    --------
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> noisy = np.array([[200 * 0.3, 200 * (0.3**2 + 0.2**2 - 0.5)]]) * 1024
    >>> noise = IntegerNoise("laplace", 1024.0)
    >>> draws = moment_posterior(noisy, noise, 1024.0, np.full((200, 1), 200.0), seeded_rng(1)).values
    >>> draws.mean(axis=0).round(1)
    array([[0.3, 0. ]])
    """
    y = np.asarray(sums, dtype=np.float64) / unit
    # A few dozen chains at least, so that they can be compared.
    counts = np.resize(np.asarray(sizes, dtype=np.float64), (max(len(sizes), _CHAINS), sizes.shape[1]))
    chain = _Chain(y, noise.kind == "laplace", noise.scale / unit, counts, rng)
    records: list[Floats] = []
    goal = _LEAST
    while True:
        while len(records) * _THIN < goal:
            for _ in range(_THIN):
                chain.step(rng)
            records.append(np.stack([chain.mean, chain.sd], axis=-1))
        late = np.stack(records[len(records) // 2 :], axis=1)
        convergence = Convergence.of({"a numeric column": late[:_CHAINS]})
        if convergence.r_hat <= 1.1 or goal >= _MOST:
            break
        goal *= 2
    return MomentDraws(np.stack([chain.mean, chain.sd**2], axis=-1)[: len(sizes)], convergence)


class _Chain:
    """Where all chains stand, (draws, classes) side by side."""

    def __init__(self, y: Floats, laplace: bool, scale: float, sizes: Floats, rng: np.random.Generator) -> None:
        self._y, self._laplace, self._scale, self._sizes = y, laplace, scale, sizes
        self._variance = np.full((*sizes.shape, 2), (2.0 if laplace else 1.0) * scale**2)
        # What is tried anew are the means of t and of t² - ½, near the noisy ones by a law with wide tails.
        counts = np.maximum(sizes, 1.0)
        result = moments(y, 1.0, sizes)
        self.mean, square = result[..., 0], np.minimum(result[..., 1], 1 - result[..., 0] ** 2)
        self.sd = np.sqrt(square)
        self._centre = np.stack([self.mean, self.mean**2 + square - 0.5])
        _, _, a, b, c = self._parts(self.mean, self.sd)
        a, b = a + self._variance[..., 0], b + self._variance[..., 1]
        reach = np.minimum(1 / counts, 0.5 / np.sqrt(np.maximum(a, b)))
        self._root = reach * np.stack([np.sqrt(a), c / np.sqrt(a), np.sqrt(b - c * c / a)])
        # And how far the mean and the standard deviation go in a step: σ² is uncertain as both means are.
        far = reach * np.sqrt(np.maximum(a, b))
        self._reach = np.stack([reach * np.sqrt(a), far / (self.sd + np.sqrt(far))])
        # Begin at places twice as far apart: chains that agree have then found the way by themselves.
        mean, square = self._about(2.0, rng)
        self.mean = np.clip(mean, -0.99, 0.99)
        self.sd = np.sqrt(np.clip(square + mean**2 - self.mean**2, 4 * _FLAT**2, 0.98 * (1 - self.mean**2)))
        self._log = self._log_likelihood(self._parts(self.mean, self.sd))

    def _about(self, wide: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw a mean and a squared deviation from what is tried anew; the latter may be below zero."""
        shape = self._sizes.shape
        first_draw, two = rng.standard_normal((2, *shape)) * wide / np.sqrt(rng.chisquare(_TAILS, shape) / _TAILS)
        a, b, c = self._root
        mean = self._centre[0] + a * first_draw
        return mean, self._centre[1] + b * first_draw + c * two + 0.5 - mean**2

    def _log_about(self, mean: Floats, sd: Floats) -> Floats:
        """Return the log-density of what is tried anew, of a mean and a standard deviation, up to a constant."""
        a, b, c = self._root
        first_draw = (mean - self._centre[0]) / a
        two = (mean**2 + sd**2 - 0.5 - self._centre[1] - b * first_draw) / c
        return np.asarray(np.log(sd) - (_TAILS / 2 + 1) * np.log1p((first_draw**2 + two**2) / _TAILS))

    def _parts(self, mean: Floats, sd: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """Return the gaps between the sums and what is expected of them, and their covariance."""
        m, far, square = self._sizes, mean**2, sd**2
        full = far + square
        first, second = self._y[:, 0] - m * mean, self._y[:, 1] - m * (full - 0.5)
        part = square / np.maximum(1 - far, np.maximum(square, _FLAT**2))
        third = -4 * mean * square * part / (1 + part)
        fourth = square**2 * (3 + 6 * square / np.maximum(1 - np.abs(mean), _FLAT**2 / 2) ** 2)
        spread = np.minimum(fourth - square**2 + 4 * mean * third + 4 * far * square, full * (1 - full))
        return first, second, m * square, m * spread, m * (2 * mean * square + third)

    def _log_likelihood(self, parts: tuple[Floats, Floats, Floats, Floats, Floats]) -> Floats:
        first, second, a, b, c = parts
        a, b = a + self._variance[..., 0], b + self._variance[..., 1]
        det = a * b - c * c
        return np.asarray(-(b * first**2 - 2 * c * first * second + a * second**2) / (2 * det) - np.log(det) / 2)

    def step(self, rng: np.random.Generator) -> None:
        """Move the mean and the standard deviation by Metropolis' rule, a little, then anew; then the noise's law."""
        step = (
            self._reach * np.exp2(rng.uniform(-2.0, 1.0, self.mean.shape)) * rng.standard_normal((2, *self.mean.shape))
        )
        self._try(self.mean + step[0], self.sd + step[1], rng)
        mean, square = self._about(1.0, rng)
        self._try(mean, np.sqrt(np.maximum(square, 0.0)), rng, anew=True)
        if self._laplace:
            parts = self._parts(self.mean, self.sd)
            self._draw_variance(parts, rng)
            self._log = self._log_likelihood(parts)

    def _try(self, mean: Floats, sd: Floats, rng: np.random.Generator, anew: bool = False) -> None:
        """Go there, by Metropolis' rule."""
        inside = (sd > _FLAT) & (mean**2 + sd**2 <= 1)
        mean, sd = np.where(inside, mean, 0.0), np.where(inside, sd, 0.5)
        log = self._log_likelihood(self._parts(mean, sd))
        gain = log - self._log
        if anew:
            gain += self._log_about(self.mean, self.sd) - self._log_about(mean, sd)
        kept = inside & (-rng.standard_exponential(mean.shape) <= gain)
        self.mean, self.sd = np.where(kept, mean, self.mean), np.where(kept, sd, self.sd)
        self._log = np.where(kept, log, self._log)

    def _draw_variance(self, parts: tuple[Floats, Floats, Floats, Floats, Floats], rng: np.random.Generator) -> None:
        """Draw the noise on both sums given everything, then its variances: an inverse Gaussian's inverse."""
        first, second, a, b, c = parts
        u, v = self._variance[..., 0], self._variance[..., 1]
        # The gap is noise plus the spread of the sums: a normal law of the noise given the gap.
        det = (a + u) * (b + v) - c * c
        at_first = u * ((b + v) * first - c * second) / det
        at_second = v * ((a + u) * second - c * first) / det
        p = np.maximum(u - u * u * (b + v) / det, 0.0)
        q = u * v * c / det
        r = np.maximum(v - v * v * (a + u) / det, 0.0)
        first_draw, two = rng.standard_normal((2, *first.shape))
        root = np.sqrt(np.maximum(p, 1e-300))
        noise_first = at_first + root * first_draw
        noise_second = at_second + q / root * first_draw + np.sqrt(np.maximum(r - (q / root) ** 2, 0.0)) * two
        size = np.maximum(np.abs(np.stack([noise_first, noise_second], axis=-1)), 1e-9 * self._scale)
        inverse = rng.wald(1 / (self._scale * size), 1 / self._scale**2)
        self._variance = 1 / np.clip(inverse, 1e-12 / self._scale**2, 1e12 / self._scale**2)


def moments(sums: object, unit: float, sizes: object) -> Floats:
    """Return the mean and variance of t in each class, (..., 2), of sums taken at their word and cut to what can be."""
    y, sizes = np.asarray(sums, dtype=np.float64) / unit, np.asarray(sizes, dtype=np.float64)
    counts = np.maximum(sizes, 1.0)
    mean = np.clip(y[..., 0] / counts, -1.0, 1.0)
    square = np.where(sizes >= 1, y[..., 1] / counts + 0.5, 1.0)
    return np.stack([mean, np.clip(square - mean**2, _TINY, 1.0)], axis=-1)


def moment_draws(sums: object, unit: float, sizes: Floats, rng: np.random.Generator) -> Floats:
    """Return draws of the mean and variance of t under the reference prior, (draws, classes, 2), noise left aside."""
    result, counts = moments(sums, unit, sizes), np.maximum(sizes, 3.0)
    variance = np.clip(result[..., 1] * counts / rng.chisquare(counts - 1), _TINY, 1.0)
    mean = np.clip(result[..., 0] + rng.standard_normal(counts.shape) * np.sqrt(variance / counts), -1.0, 1.0)
    return np.stack([mean, variance], axis=-1)
