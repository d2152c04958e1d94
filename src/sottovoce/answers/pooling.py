"""Groups that share strength: a common prior whose mean and spread are learned from all of them, never plugged in.

What the groups have in common is weighed on a grid. Each group's own draws, made under a flat prior, are weighed anew
by the ratio of the priors, so the posterior of what is common knows of all the noise, and so does every group's.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, ndtr

from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.numbers import Floats

__all__ = ["pooled_counts", "pooled_means", "pooled_shares"]

_COMMON = 24
"""Places of the grid for each of the two numbers that groups have in common."""
_WEIGHED = 1000
"""Draws a group that are weighed anew."""


def pooled_shares(counts: Floats, alpha: float, rng: np.random.Generator) -> Floats:
    """Return draws of shares (draws, groups, values): in each group Dirichlet around common shares.

    The common shares of several values are those of all groups together; how close groups lie to them is learned.
    """
    draws, groups, values = counts.shape
    few = counts[:: max(1, draws // _WEIGHED)]
    together = counts.sum(axis=1) + alpha
    centres = together[:: max(1, draws // _COMMON)][:_COMMON]
    parts = rng.standard_gamma(centres) + 1e-300
    centres = parts / parts.sum(axis=1, keepdims=True)
    strengths = np.geomspace(0.5, 5000.0, _COMMON)
    sizes = few.sum(axis=2)
    base = gammaln(few + alpha).sum(axis=2) - gammaln(sizes + values * alpha)
    base -= values * gammaln(alpha) - gammaln(values * alpha)
    table = np.empty((centres.shape[0], strengths.size, few.shape[0], groups))
    for i, centre in enumerate(centres):
        for j, strength in enumerate(strengths):
            own = strength * centre
            log = (gammaln(few + own) - gammaln(own)).sum(axis=2) - gammaln(sizes + strength) + gammaln(strength)
            table[i, j] = log - base
    picked, which = _common(table, draws, rng)
    centre, strength = centres[which[:, 0]], strengths[which[:, 1]]
    chosen = np.stack([few[picked[:, g], g] for g in range(groups)], axis=1)
    parts = rng.standard_gamma(chosen + (strength[:, None] * centre)[:, None, :]) + 1e-300
    return np.asarray(parts / parts.sum(axis=2, keepdims=True))


def pooled_means(means: Floats, rng: np.random.Generator) -> Floats:
    """Return draws of means in [-1, 1], (draws, groups): each group's normal around a common mean."""
    draws = len(means)
    few = means[:: max(1, draws // _WEIGHED)]
    middle, spread = float(np.median(few)), float(few.std()) + 1e-6
    centres = np.clip(middle + spread * np.linspace(-1.5, 1.5, _COMMON), -1, 1)
    spreads = np.geomspace(max(spread * 0.01, 1e-4), 1.0, _COMMON)
    table = np.empty((centres.size, spreads.size, *few.shape))
    for i, centre in enumerate(centres):
        for j, s in enumerate(spreads):
            inside = ndtr((1 - centre) / s) - ndtr((-1 - centre) / s)
            table[i, j] = -(((few - centre) / s) ** 2) / 2 - np.log(s * max(inside, 1e-300))
    picked, _ = _common(table, draws, rng)
    # A draw that is taken many times is moved a little: less than a group's own draws lie apart.
    width = few.std(axis=0) * len(few) ** -0.5
    return np.clip(np.take_along_axis(few, picked, axis=0) + width * rng.normal(size=picked.shape), -1, 1)


def pooled_counts(noisy: Floats, noise: IntegerNoise, n: int, draws: int, rng: np.random.Generator) -> Floats:
    """Return draws of true counts, (draws, cells): each cell's negative binomial around a common mean."""
    deviation = float(np.sqrt(noise.variance))
    most = float(min(n, max(noisy.max(), 0.0) + 8 * deviation + 10))
    nodes = np.unique(np.rint(np.concatenate([np.arange(min(most, 200) + 1), np.geomspace(1, max(most, 2), 300)])))
    nodes = nodes[nodes <= most]
    widths = np.diff(np.append(nodes, most + 1))
    mean = float(np.clip(noisy.mean(), 0.01, n))
    error = deviation / np.sqrt(noisy.size) + np.sqrt(mean / noisy.size)
    centres = np.geomspace(max(mean - 4 * error, mean / 20, 1e-3), mean + 4 * error, _COMMON)
    shapes = np.geomspace(0.02, 200.0, _COMMON)
    likelihood = noise.log_weight(noisy[:, None] - nodes)
    likelihood = np.exp(likelihood - likelihood.max(axis=1, keepdims=True))
    priors = np.empty((_COMMON, _COMMON, nodes.size))
    for i, centre in enumerate(centres):
        for j, shape in enumerate(shapes):
            log = gammaln(nodes + shape) - gammaln(shape) - gammaln(nodes + 1)
            log = log + shape * np.log(shape / (shape + centre)) + nodes * np.log(centre / (shape + centre))
            priors[i, j] = np.exp(log) * widths
    flat = priors.reshape(-1, nodes.size)
    log = np.log(np.maximum(flat @ likelihood.T, 1e-300)).sum(axis=1)
    weights = np.exp(log - log.max())
    which = rng.choice(weights.size, draws, p=weights / weights.sum())
    found = np.empty((draws, noisy.size))
    for common in np.unique(which):
        rows = np.flatnonzero(which == common)
        cumulative = np.cumsum(flat[common] * likelihood, axis=1)
        goal = rng.random((noisy.size, rows.size)) * cumulative[:, -1:]
        for cell in range(noisy.size):
            place = np.minimum(np.searchsorted(cumulative[cell], goal[cell], side="right"), nodes.size - 1)
            found[rows, cell] = nodes[place] + np.floor(rng.random(rows.size) * widths[place])
    return found


def _common(table: Floats, draws: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw what is common, and for each such draw one of every group's draws, from log ratios of priors.

    The table is (first, second, own draws, groups).
    """
    _, second, own, groups = table.shape
    top = table.max(axis=2, keepdims=True)
    ratios = np.exp(table - top)
    log = (np.log(ratios.mean(axis=2)) + top[:, :, 0]).sum(axis=2)
    weights = np.exp(log - log.max()).ravel()
    which = rng.choice(weights.size, draws, p=weights / weights.sum())
    picked = np.empty((draws, groups), dtype=np.int64)
    for common in np.unique(which):
        rows = np.flatnonzero(which == common)
        cumulative = np.cumsum(ratios[common // second, common % second], axis=0)
        for group in range(groups):
            goal = rng.random(rows.size) * cumulative[-1, group]
            picked[rows, group] = np.minimum(np.searchsorted(cumulative[:, group], goal, side="right"), own - 1)
    return picked, np.stack([which // second, which % second], axis=1)
