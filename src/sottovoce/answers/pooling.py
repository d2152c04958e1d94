"""Groups that share strength: a common prior whose mean and spread are learned from all of them, never plugged in.

What the groups have in common is weighed on a grid. Each group's own draws, made under a flat prior, are weighed anew
by the ratio of the priors, so the posterior of what is common knows of all the noise, and so does every group's.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, ndtr

from sottovoce.mechanisms.integer_noise import IntegerNoise, Integers
from sottovoce.privacy.numbers import Floats

__all__ = ["pooled_counts", "pooled_means", "pooled_shares"]

_COMMON = 16
"""Places of the grid for each of the two numbers that groups have in common."""
_WEIGHED = 600
"""Draws a group that are weighed anew."""
_STRAY = np.geomspace(0.05, 2000.0, 16)
"""How far cells may stray from what their categories suggest: shapes of a negative binomial law."""
_NODES = 384
"""At most so many counts are weighed for each cell."""
_FACTORS = 64
"""Draws of the factors of all categories; each serves many draws of the counts."""


def pooled_shares(counts: Floats, alpha: float, rng: np.random.Generator) -> Floats:
    """Return draws of shares (draws, groups, values): in each group Dirichlet around common shares.

    The common shares of several values are those of all groups together; how close groups lie to them is learned. The
    prior counts `alpha` records of every value at least, as it does without pooling: else a rare value would be taken
    to be absent from every group in which noise hides it.
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
            own = np.maximum(strength * centre, alpha)
            log = (gammaln(few + own) - gammaln(own)).sum(axis=2) - gammaln(sizes + own.sum()) + gammaln(own.sum())
            table[i, j] = log - base
    picked, which = _common(table, draws, rng)
    centre, strength = centres[which[:, 0]], strengths[which[:, 1]]
    chosen = np.stack([few[picked[:, g], g] for g in range(groups)], axis=1)
    parts = rng.standard_gamma(chosen + np.maximum(strength[:, None] * centre, alpha)[:, None, :]) + 1e-300
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
    return np.asarray(np.clip(np.take_along_axis(few, picked, axis=0) + width * rng.normal(size=picked.shape), -1, 1))


def pooled_counts(
    noisy: Floats, noise: IntegerNoise, n: int, shape: tuple[int, ...], draws: int, rng: np.random.Generator
) -> Floats:
    """Return draws of true counts, (draws, cells): each cell's negative binomial around what its categories suggest.

    Of one column, all cells have one mean; of several, the mean is a product with a factor for every category. The
    factors and how far cells stray from the product are averaged over: the factors' posterior by Laplace's method, for
    each of a grid of spreads.
    """
    design, precision = _main_effects(shape)
    fits = [_fitted(noisy, noise.variance, n, design, precision, spread) for spread in _STRAY]
    evidence = np.array([fit[0] for fit in fits])
    weights = np.exp(evidence - evidence.max())
    nodes, widths = _nodes(noisy, float(np.sqrt(noise.variance)), n)
    likelihood = noise.log_weight(noisy[:, None] - nodes) - gammaln(nodes + 1) + np.log(widths)
    each = -(-draws // _FACTORS)
    found = []
    picked = rng.choice(weights.size, _FACTORS, p=weights / weights.sum())
    for common in np.unique(picked):
        spread, (_, centre, root) = _STRAY[common], fits[common]
        own = likelihood + gammaln(nodes + spread)
        for _ in range(int(np.sum(picked == common))):
            log_mean = np.clip(design @ (centre + root @ rng.normal(size=centre.size)), -7, np.log(n + 1.0))[:, None]
            log = own + nodes * (log_mean - np.log(spread + np.exp(log_mean)))
            cumulative = np.cumsum(np.exp(log - log.max(axis=1, keepdims=True)), axis=1)
            goal = rng.random((noisy.size, each)) * cumulative[:, -1:]
            place = np.stack([c.searchsorted(g, side="right") for c, g in zip(cumulative, goal, strict=True)])
            place = np.minimum(place, nodes.shape[1] - 1)
            drawn = np.take_along_axis(nodes, place, axis=1)
            found.append(drawn.T + np.floor(rng.random(place.T.shape) * np.take_along_axis(widths, place, axis=1).T))
    return rng.permutation(np.concatenate(found))[:draws]


def _nodes(noisy: Floats, deviation: float, n: int) -> tuple[Floats, Floats]:
    """Return counts to be weighed for each cell, (cells, nodes), and how many counts each of them stands for."""
    reach = np.ceil(10 * deviation) + 3  # whole, so that every node is a count
    low = np.clip(np.floor(noisy - reach), 0, max(n - 2 * reach, 0))
    high = np.clip(np.ceil(noisy + reach), np.minimum(low + reach, n), n)
    step = np.maximum(1.0, np.ceil((high - low + 1) / _NODES))
    nodes = low[:, None] + step[:, None] * np.arange(int(np.max((high - low) / step)) + 1)
    inside = nodes <= high[:, None]
    return np.where(inside, nodes, high[:, None]), np.where(inside, np.minimum(step[:, None], n + 1 - nodes), 1e-9)


def _main_effects(shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Return a column for all cells, and one for each category where columns are crossed, with prior weights."""
    cells = int(np.prod(shape))
    places = np.unravel_index(np.arange(cells), shape)
    crossed = [size for size in shape if size > 1]
    parts = [np.ones((cells, 1))]
    if len(crossed) > 1:
        parts += [np.eye(size)[place] for size, place in zip(shape, places, strict=True) if size > 1]
    design = np.concatenate(parts, axis=1)
    return design, np.diag([1e-2] + [0.25] * (design.shape[1] - 1))


def _fitted(
    noisy: Floats, variance: float, n: int, design: Floats, precision: Floats, spread: float
) -> tuple[float, Floats, Floats]:
    """Return log evidence, mode and root of the covariance of the logarithms of the factors, given how cells stray."""
    start = np.zeros(design.shape[1])
    start[0] = np.log(max(float(noisy.mean()), 0.3))
    factors, prior = start.copy(), start
    for _ in range(40):
        log_mean = np.clip(design @ factors, -7, np.log(n + 1.0))
        mean = np.exp(log_mean)
        weight = mean**2 / (mean + mean**2 / spread + variance)
        step = np.clip((noisy - mean) / mean, -2, 2)
        curvature = (design.T * weight) @ design + precision
        moved = np.linalg.solve(curvature, design.T @ (weight * (log_mean + step)) + precision @ prior)
        done = np.max(np.abs(moved - factors)) < 1e-6
        factors = factors + 0.7 * (moved - factors)
        if done:
            break
    mean = np.exp(np.clip(design @ factors, -7, np.log(n + 1.0)))
    total = mean + mean**2 / spread + variance
    off = factors - prior
    log = -((noisy - mean) ** 2 / total + np.log(total)).sum() / 2 - off @ precision @ off / 2
    log -= np.linalg.slogdet(curvature)[1] / 2
    return float(log), factors, np.linalg.cholesky(np.linalg.inv(curvature))


def _common(table: Floats, draws: int, rng: np.random.Generator) -> tuple[Integers, Integers]:
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
