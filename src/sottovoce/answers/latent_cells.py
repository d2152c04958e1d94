"""The true counts of public cells behind noise: draws that know of the noise, of zero, and of what the cells sum to.

All of this is post-processing of a release: it costs no privacy.
"""

from __future__ import annotations

import numpy as np

from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.numbers import Floats

__all__ = ["count_draws", "summing_to"]

_REACH = {"gaussian": 9.0, "laplace": 40.0}
"""Beyond this many scales the noise has no weight that a draw could meet."""
_NODES = 2048
"""At most this many values a cell are weighed; where more could be, each stands for its neighbours."""


def count_draws(
    noisy: Floats,
    noise: IntegerNoise,
    draws: int,
    rng: np.random.Generator,
    *,
    power: float = 0.0,
    most: float = np.inf,
) -> Floats:
    r"""Return draws of the true count of each cell, (draws, cells), given its noisy count.

    .. math:: \Pr[k \mid \hat k] \propto (k + 1/2)^{power}\,\Pr[\text{noise} = \hat k - k], \qquad 0 \le k \le most.

    The prior (k + 1/2)^(α−1) is what a Gamma(α, 0) prior of the cell's rate says of its count, nearly.
    """
    noisy = np.atleast_1d(np.asarray(noisy, dtype=np.float64))
    reach = _REACH[noise.kind] * noise.scale + 2
    low = np.clip(np.ceil(noisy - reach), 0, most)
    high = np.clip(np.floor(noisy + reach), 0, most)
    # A noisy count far below zero, or far above what can be, leaves the count at the end, and a little beside it.
    decay = min(reach, max(most, 1.0))
    high = np.where(noisy <= 0, np.minimum(np.maximum(high, decay), most), high)
    low = np.where(noisy >= most, np.maximum(np.minimum(low, most - decay), 0), low)
    step = np.maximum(1.0, np.ceil((high - low + 1) / _NODES))
    nodes = low[:, None] + step[:, None] * np.arange(int(np.max((high - low) / step)) + 1)
    inside = nodes <= high[:, None]
    log_weights = noise.log_weight(noisy[:, None] - nodes) + power * np.log(nodes + 0.5)
    log_weights = np.where(inside, log_weights, -np.inf)
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    cumulative = np.cumsum(weights, axis=1)
    cumulative /= cumulative[:, -1:]
    uniform = rng.random((draws, noisy.size))
    picked = np.empty((draws, noisy.size))
    for cell in range(noisy.size):
        picked[:, cell] = nodes[cell, np.searchsorted(cumulative[cell], uniform[:, cell])]
    spread = rng.random(picked.shape) * step
    return np.asarray(np.minimum(picked + np.where(step > 1, np.floor(spread), 0.0), high))


def summing_to(counts: Floats, total: float) -> Floats:
    """Return draws of counts conditioned on their known sum, each moved in proportion to how uncertain it is.

    Matheron's rule: exact where the draws are Gaussian, and never below zero.
    """
    variance = counts.var(axis=0)
    if not variance.sum() > 0:
        return counts
    share = variance / variance.sum()
    for _ in range(8):
        gap = total - counts.sum(axis=1)
        if np.max(np.abs(gap)) < 0.5:
            break
        free = (counts > 0) | (gap[:, None] > 0)
        weight = share * free
        weight = weight / np.maximum(weight.sum(axis=1, keepdims=True), 1e-300)
        counts = np.maximum(counts + gap[:, None] * weight, 0.0)
    return counts
