"""How wide the intervals of proportions will be when all that is known of their counts is noisy: no data, no draws."""

from __future__ import annotations

import numpy as np
from scipy import special

from sottovoce.mechanisms.conjugate.distributions import Dirichlet
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.numbers import Floats

_NODES, _GRID, _CELLS = 16, 256, 256
"""Noises that are averaged over, points of a proportion, and cells that are looked at."""


def forecast_proportions(shares: Floats, n: int, noise: IntegerNoise, level: float) -> tuple[float, float]:
    r"""Return the expected divergence from the true posterior, and the expected width of intervals, of proportions.

    The prior is Dirichlet with one record shared by all d cells. Each cell stands against the rest: given its
    proportion p its count is about normal with mean np and variance np(1-p), and known through noise; that all d sum to
    n takes one part in d off the variance of that noise. Averages are over quantiles of the noise.

    Examples
    --------
    >>> wide = forecast_proportions(np.array([0.3, 0.7]), 200, IntegerNoise("laplace", 40.0), 0.95)[1]
    >>> bool(wide > 0.3)
    True
    """
    d = len(shares)
    picked = shares if d <= _CELLS else np.sort(shares)[np.linspace(0, d - 1, _CELLS).astype(int)]
    middle = (np.arange(_NODES) + 0.5) / _NODES
    noise = IntegerNoise(noise.kind, noise.scale * np.sqrt(max(d - 1, 0.5) / d))
    if noise.kind == "laplace":
        noise_only = noise.scale * np.sign(middle - 0.5) * -np.log(1 - np.abs(2 * middle - 1))
    else:
        noise_only = noise.scale * special.ndtri(middle)
    truth = n * picked
    seen = truth[:, None] + noise_only  # (cell, node)
    spread = np.sqrt(noise.variance + truth * (1 - picked))
    low, high = np.clip(picked[:, None] + np.array([-1, 1]) * 12 * spread[:, None] / max(n, 1), 0.0, 1.0).T
    # Points crowd towards both ends, where proportions of tiny and of nearly all cells live.
    turn = (1 - np.cos(np.pi * (np.arange(_GRID) + 0.5) / _GRID)) / 2
    p = low[:, None] + (high - low)[:, None] * turn  # (cell, point)
    weight = (high - low)[:, None] * np.sin(np.pi * (np.arange(_GRID) + 0.5) / _GRID)
    log = special.xlogy(1 / d - 1, p) + special.xlogy((d - 1) / d - 1, 1 - p) if d > 1 else np.zeros_like(p)
    variance = n * p * (1 - p)
    log = log[:, None] + _log_noised(seen[..., None] - n * p[:, None], variance[:, None], noise)
    mass = np.exp(log - log.max(axis=-1, keepdims=True)) * weight[:, None]
    mass /= mass.sum(axis=-1, keepdims=True)
    mean = (mass * p[:, None]).sum(axis=-1)
    square = (mass * p[:, None] ** 2).sum(axis=-1) - mean**2
    ends = []
    below = np.cumsum(mass, axis=-1) - mass / 2
    for tail in ((1 - level) / 2, (1 + level) / 2):
        at = np.clip((below < tail).sum(axis=-1), 1, _GRID - 1)
        left, right = (np.take_along_axis(below, (at - k)[..., None], axis=-1)[..., 0] for k in (1, 0))
        lower, upper = (np.take_along_axis(p, at - k, axis=1) for k in (1, 0))
        part = np.clip((tail - left) / np.maximum(right - left, 1e-300), 0.0, 1.0)
        ends.append(lower + part * (upper - lower))
    width = float(np.mean(ends[1] - ends[0]))
    return _divergence(mean, square, picked, n, d), width


def _log_noised(gap: Floats, variance: Floats, noise: IntegerNoise) -> Floats:
    """Return the log-density of normal plus noise, at gaps from the normal's mean."""
    if noise.kind == "gaussian":
        total = variance + noise.variance
        return np.asarray(-(gap**2) / (2 * total) - np.log(total) / 2)
    # Normal plus Laplace: two tilted normal tails.
    spread = np.sqrt(np.maximum(variance, 1e-12))
    tilt = spread / noise.scale
    left, right = (special.log_ndtr(sign * gap / spread - tilt) - sign * gap / noise.scale for sign in (1, -1))
    return np.asarray(np.logaddexp(left, right) + tilt**2 / 2)


def _divergence(mean: Floats, square: Floats, shares: Floats, n: int, d: int) -> float:
    """Return KL(Dirichlet of these means and variances ‖ the true posterior), averaged over nodes."""
    if d == 1:
        return 0.0
    means = np.maximum(mean / mean.sum(axis=0), 1e-12).T
    size = np.maximum((means * (1 - means)).sum(axis=1) / np.maximum(square.sum(axis=0), 1e-300) - 1, 1.0)
    alpha = np.maximum(size[:, None] * means, 1e-6)
    truth = Dirichlet(n * shares / shares.sum() + 1 / d)
    scale = (d - 1) / max(len(shares) - 1, 1)
    return float(np.mean([Dirichlet(a).kl(truth) for a in alpha])) * scale
