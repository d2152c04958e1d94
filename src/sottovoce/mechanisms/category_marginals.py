"""The share of one of many categories, as if it alone were asked for: yes or no.

A prior worth one record, shared by many categories, takes those of which no record is seen to be next to empty: an
interval under it misses the share of one that a record or two have. So an interval of a share reaches at least as far
as it would, were the share asked as yes or no.

All of this is post-processing of a release: it costs no privacy, and none rests on it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.numbers import Floats

YES = 0.5
"""What yes is worth in the prior of a question of yes or no, in records."""
_TAIL, _POINTS = {"gaussian": 6.0, "laplace": 12.0}, 128
"""So many scales, and so many counts, tell what the noise on one count leaves uncertain."""
_LEAST = 1e-2
"""The least variance of noise that is told apart from none."""
_CLOSE = 16
"""So many steps of sizes tell a deviation of the noise on the others' sum, and the least size."""
_AT_ONCE = 1 << 18
"""So many weights are held at once."""
_NEVER = 1e9
"""A row has no more records of a category than of all."""


def lone_shares(noisy: ArrayLike, noise: IntegerNoise, sizes: ArrayLike, rng: np.random.Generator) -> Floats:
    """Return draws of each category's share of a row as if it alone were asked for: (draws, rows, categories).

    Parameters
    ----------
    noisy
        The noisy counts, (rows, categories).
    noise
        The noise on each of them.
    sizes
        Draws of how many records each row has, (draws, rows).
    rng
        Where the draws come from.

    Examples
    --------
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> seen, noise = np.array([[90, 10] + 18 * [0]]), IntegerNoise("laplace", 0.2)
    >>> draws = lone_shares(seen, noise, np.full((999, 1), 100.0), seeded_rng(1))
    >>> np.quantile(draws[:, 0, 2], 0.975).round(2)
    np.float64(0.02)
    """
    totals: Floats = np.asarray(sizes, dtype=np.float64)
    rows = zip(np.asarray(noisy, dtype=np.float64), totals.T, strict=True)
    counts = np.stack([_row(seen, noise, size, rng) for seen, size in rows], axis=1)
    yes = rng.standard_gamma(counts + YES)
    return np.asarray(yes / (yes + rng.standard_gamma(totals[..., None] - counts + YES)))


def _row(seen: Floats, noise: IntegerNoise, size: Floats, rng: np.random.Generator) -> Floats:
    """Return draws of each count of a row of so many records, (draws, categories).

    Of the others only the noisy sum is heard; the noise on it is as if normal.
    """
    others, variance = seen.sum() - seen, max((seen.size - 1) * noise.variance, _LEAST)
    reach, most = np.ceil(_TAIL[noise.kind] * noise.scale) + 2, float(size.max())
    low = np.minimum(np.clip(np.ceil(seen - reach), 0.0, most), max(most - reach, 0.0))
    high = np.maximum(np.clip(np.floor(seen + reach), 0.0, most), min(reach, most))
    step = np.maximum(np.ceil((high - low + 1) / _POINTS), 1.0)
    points = int(np.max((high - low) // step)) + 1
    result = np.empty((size.size, seen.size))
    # Sizes closer than noise tells apart are taken for one, so that few laws of counts are worked out.
    close = max(np.floor(min(np.sqrt(variance), size.min()) / _CLOSE), 1.0)
    sizes, which = np.unique(most - np.rint((most - size) / close) * close, return_inverse=True)
    for few in np.array_split(np.arange(seen.size), -(-result.size * points // _AT_ONCE)):
        width = step[few, None]
        nodes = low[few, None] + width * np.arange(points)
        # A node stands for as many counts as a step has: the sum of Γ(x + a)/x! below m is Γ(m + a)/Γ(m)/a.
        prior = np.diff(special.poch([nodes, nodes + width], YES), axis=0)[0]
        remaining = sizes[:, None, None] - nodes
        # Γ(x + ½)/x! is about (x + 0.3)^-½, here in the middle of a step.
        log = np.log(prior) + noise.log_weight(seen[few, None] - nodes)
        log = log - np.log(np.maximum(remaining, 0.0) + 0.3 + (width - 1) / 2) / 2
        log -= (others[few, None] - remaining) ** 2 / (2 * variance) + _NEVER * np.maximum(-remaining, 0.0)
        weights = np.exp(log - log.max(axis=2, keepdims=True)).cumsum(axis=2)
        goal = rng.random((size.size, few.size)) * weights[which, :, -1]
        pick = (weights[which] < goal[..., None]).sum(axis=2)
        counts = np.take_along_axis(nodes[None], pick[..., None], axis=2)[..., 0]
        counts += np.floor(rng.random(counts.shape) * step[few])
        result[:, few] = np.minimum(counts, size[:, None])
    return result
