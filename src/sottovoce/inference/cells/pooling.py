"""Groups that share strength: a common prior whose mean and spread are learned from all of them, never plugged in.

What the groups have in common is weighed on a grid. Each group's own draws, made under a flat prior, are weighed anew
by the ratio of the priors, so the posterior of what is common knows of all the noise, and so does every group's.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtr

from sottovoce.inference.cells.crossed_centres import are_crossed, crossed_centres
from sottovoce.inference.cells.pooled_counts import LOOSE, inverse_cdf
from sottovoce.privacy.numbers import Floats, Integers

__all__ = ["pooled_means", "pooled_shares"]

Mask = NDArray[np.bool_]

_COMMON = 16
"""Places of the grid for each of the two numbers that groups have in common."""
_WEIGHED = 600
"""Draws a group that are weighed anew."""
_CONTAMINATION = 0.1
"""So likely it is, beforehand, that a group has nothing to do with the others: a contaminated normal law (Tukey 1960).
Else one that lies far off would be drawn to them however well it is known, or make them all stray."""


def pooled_shares(
    counts: Floats,
    alpha: float,
    rng: np.random.Generator,
    shape: tuple[int, ...] = (),
    noisy: tuple[Floats, float] | None = None,
) -> Floats:
    """Return draws of shares (draws, groups, values): in each group Dirichlet around common shares.

    The common shares of several values are those of all groups together; how close groups lie to them is learned. The
    prior counts `alpha` records of every value at least, as it does without pooling: else a rare value would be taken
    to be absent from every group in which noise hides it. Of groups that several columns cross, as `shape` says, each
    has a centre of its own, the sum of effects of its categories, told by the noisy counts and the variance of noise.
    """
    draws, groups, values = counts.shape
    few = counts[:: max(1, draws // _WEIGHED)]
    strengths = np.geomspace(0.5, 5000.0, _COMMON)
    sizes = few.sum(axis=2)
    base = gammaln(few + alpha).sum(axis=2) - gammaln(sizes + values * alpha)
    base -= values * gammaln(alpha) - gammaln(values * alpha)
    plain = (few + alpha) / (sizes + values * alpha)[:, :, None]
    within = plain * (1 - plain) / (sizes + values * alpha + 1)[:, :, None]
    known = (plain.var(axis=0) + within.mean(axis=0)).sum(axis=1)
    loose = LOOSE**2 * known
    rises, whole_rises = _rises(few.reshape(len(few), -1)), _rises(sizes)

    def at_most(centre: Floats, loose: Floats) -> Floats:
        """Return how many records the prior of every group may count, (..., groups)."""
        return np.asarray((centre * (1 - centre)).sum(axis=-1) / loose)

    def priors(centre: Floats, strength: Floats | float, loose: Floats) -> Floats:
        """Return what the prior of every group counts of every value, (..., groups, values)."""
        return np.asarray(np.maximum(np.minimum(strength, at_most(centre, loose))[..., None] * centre, alpha))

    def ratios(separate: Floats) -> Floats:
        """Return log ratios of a prior (groups, values) to the flat one, (few draws, groups)."""
        return np.asarray(
            rises(separate.ravel()).reshape(few.shape).sum(axis=2) - whole_rises(separate.sum(axis=1)) - base
        )

    if are_crossed(shape) and noisy is not None:
        common = (counts.mean(axis=0).sum(axis=0) + alpha) / (counts.sum() / draws + values * alpha)
        seen, precision = _seen_shares(*noisy, sizes.mean(axis=0), common)
        varied = float((common * (1 - common)).sum())
        mix = (np.diag(np.sqrt(common)) - np.outer(np.sqrt(common), common)) / np.sqrt(varied)
        strays = 1 / (np.minimum(strengths[:, None], at_most(common, loose)) + 1)
        result, which = crossed_centres(seen, precision, strays, -np.log(strengths) / 2, mix, shape, rng)
        centres = np.maximum(common + np.sqrt(varied) * result, 1e-6)
        centres /= centres.sum(axis=2, keepdims=True)
        # How uncertain a centre is makes its group's prior loose too.
        loose = np.maximum(loose - centres.var(axis=0).sum(axis=1), 1e-3 * loose)
        each = priors(centres, strengths[which, None], loose)
        turns = np.arange(draws) % len(each)
        picked, alone = _picked(turns, groups, lambda turn: _relative(_or_alone(ratios(each[turn]))), rng)
        separate = each[turns]
    else:
        together = counts.sum(axis=1) + alpha
        centres = together[:: max(1, draws // _COMMON)][:_COMMON]
        parts = rng.standard_gamma(centres) + 1e-300
        centres = (parts / parts.sum(axis=1, keepdims=True))[:, None]
        table = np.empty((centres.shape[0], strengths.size, few.shape[0] + 1, groups))
        for i, centre in enumerate(centres):
            tried = [priors(centre, strength, loose) for strength in strengths]
            for j, prior in enumerate(tried):  # beyond what every group is loose to, strengths are alike
                table[i, j] = table[i, j - 1] if j and np.array_equal(prior, tried[j - 1]) else _or_alone(ratios(prior))
        picked, alone, places = _common(table, -np.log(strengths) / 2, draws, rng)
        separate = priors(centres[places[:, 0]], strengths[places[:, 1], None], loose)
    chosen = np.stack([few[picked[:, g], g] for g in range(groups)], axis=1)
    parts = rng.standard_gamma(chosen + np.where(alone[:, :, None], alpha, separate)) + 1e-300
    return np.asarray(parts / parts.sum(axis=2, keepdims=True))


def _seen_shares(noisy: Floats, variance: float, sizes: Floats, common: Floats) -> tuple[Floats, Floats]:
    """Return how far noisy shares (groups, values) lie from common ones, and how many records each group counts for.

    Noisy counts are as often too large as too small, where draws of the counts are not: those are never below zero.
    Both are in units of how far all values of a record vary together.
    """
    sizes, varied = np.maximum(sizes, 0.5), float((common * (1 - common)).sum())
    shares = (noisy + (sizes - noisy.sum(axis=1))[:, None] / common.size) / sizes[:, None]
    return (shares - common) / np.sqrt(varied), sizes**2 / (sizes + variance * (common.size - 1) / varied)


def _rises(counts: Floats) -> Callable[[Floats], Floats]:
    """Return what gives log Γ(count + a) - log Γ(a) of all counts (draws, columns), for one a a column.

    Draws repeat themselves, and the function is dear: it is found once for every different count of a column.
    """
    levels, codes = np.unique(counts, return_inverse=True)
    codes = codes.reshape(counts.shape) + levels.size * np.arange(counts.shape[1])
    pairs, places = np.unique(codes, return_inverse=True)
    column, seen, places = pairs // levels.size, levels[pairs % levels.size], places.reshape(counts.shape)
    return lambda a: np.asarray((gammaln(seen + a[column]) - gammaln(a)[column])[places])


def pooled_means(
    means: Floats,
    rng: np.random.Generator,
    shape: tuple[int, ...] = (),
    noisy: tuple[Floats, Floats] | None = None,
) -> Floats:
    """Return draws of means in [-1, 1], (draws, groups): each group's normal around a common mean.

    Of groups that several columns cross, as `shape` says, around a sum of effects of its categories, told by noisy
    means and their variances.
    """
    draws = len(means)
    few = means[:: max(1, draws // _WEIGHED)]
    middle, spread, separate = float(few.mean()), float(few.std()) + 1e-6, few.std(axis=0)
    spreads = np.geomspace(max(spread * 0.01, 1e-4), 1.0, _COMMON)

    def ratios(off: Floats, centre: Floats | float, common: float, loose: Floats) -> Floats:
        """Return log ratios of a prior to the flat one, (few draws, groups), by squared distances from the centre."""
        s = np.hypot(common, loose)
        inside = ndtr((1 - centre) / s) - ndtr((-1 - centre) / s)
        flat = np.sqrt(np.pi / 2)  # over that of a normal law
        return _or_alone(np.asarray(off * (-0.5 / s**2) - np.log(flat * s * np.maximum(inside, 1e-300))))

    def weights(turn: int) -> Floats:
        return _relative(ratios((few - each[turn]) ** 2, each[turn], spreads[which[turn]], loose))

    loose = LOOSE * separate
    if are_crossed(shape) and noisy is not None:
        seen, precision = (noisy[0] - middle) / spread, spread**2 / noisy[1]
        strays = (spreads[:, None] ** 2 + loose**2) / spread**2
        result, which = crossed_centres(seen[:, None], precision, strays, np.log(spreads), np.eye(1), shape, rng)
        each = np.clip(middle + spread * result[:, :, 0], -1, 1)
        loose = np.sqrt(np.maximum(loose**2 - each.var(axis=0), 1e-3 * loose**2))
        turns = np.arange(draws) % len(each)
        picked, _ = _picked(turns, separate.size, weights, rng)
    else:
        centres = np.clip(middle + spread * np.linspace(-1, 1, _COMMON), -1, 1)
        table = np.empty((centres.size, spreads.size, len(few) + 1, separate.size))
        for i, centre in enumerate(centres):
            off = (few - centre) ** 2
            for j, common in enumerate(spreads):
                table[i, j] = ratios(off, centre, common, loose)
        picked, _, _ = _common(table, np.log(spreads), draws, rng)
    # A draw that is taken many times is moved a little: less than a group's own draws lie apart.
    width = few.std(axis=0) * len(few) ** -0.5
    return np.asarray(np.clip(np.take_along_axis(few, picked, axis=0) + width * rng.normal(size=picked.shape), -1, 1))


def _or_alone(ratios: Floats) -> Floats:
    """Return log ratios of a prior to the flat one (own draws, groups), and below them what weighs as all flat ones."""
    flat = np.log(len(ratios) * _CONTAMINATION / (1 - _CONTAMINATION))
    return np.concatenate([ratios, np.full((1, ratios.shape[1]), flat)])


def _common(table: Floats, prior: Floats, draws: int, rng: np.random.Generator) -> tuple[Integers, Mask, Integers]:
    """Draw what is common, and for each such draw one of every group's draws, from log ratios of priors.

    Returned are the places of these, which groups are alone, and the first and the second that they have in common.
    The table is (first, second, own draws or alone, groups), and used up: it is large. `prior` is the log weight of
    each second: the groups' spread is as likely to be large as small, so that a small one is not taken for none.
    """
    second = table.shape[1]
    top = table.max(axis=2, keepdims=True)
    ratios = np.exp(np.subtract(table, top, out=table), out=table)
    log = prior + (np.log(ratios.mean(axis=2)) + top[:, :, 0]).sum(axis=2)
    weights = np.exp(log - log.max()).ravel()
    which = rng.choice(weights.size, draws, p=weights / weights.sum())
    picked, alone = _picked(which, table.shape[3], lambda common: ratios[common // second, common % second], rng)
    return picked, alone, np.stack([which // second, which % second], axis=1)


def _relative(log: Floats) -> Floats:
    """Return weights from logarithms (own draws, groups), the largest of every group one."""
    return np.asarray(np.exp(log - log.max(axis=0)))


def _picked(
    which: Integers, groups: int, weights: Callable[[int], Floats], rng: np.random.Generator
) -> tuple[Integers, Mask]:
    """Return one of every group's own draws, (draws, groups), by the weights that each draw has, and who is alone.

    The weights are (own draws or alone, groups): a group that is alone has any of its own draws.
    """
    picked = np.empty((which.size, groups), dtype=np.int64)
    for common in np.unique(which):
        rows = np.flatnonzero(which == common)
        cumulative = np.cumsum(weights(common).T, axis=1)
        goal = rng.random((groups, rows.size)) * cumulative[:, -1:]
        picked[rows] = np.minimum(inverse_cdf(cumulative, goal), cumulative.shape[1] - 1).T
    separate = cumulative.shape[1] - 1
    alone = picked == separate
    picked[alone] = rng.integers(separate, size=int(alone.sum()))
    return picked, alone
