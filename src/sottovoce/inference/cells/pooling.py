"""Groups that share strength: a common prior whose mean and spread are learned from all of them, never plugged in.

What the groups have in common is weighed on a grid. Each group's own draws, made under a flat prior, are weighed anew
by the ratio of the priors, so the posterior of what is common knows of all the noise, and so does every group's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtr

from sottovoce.inference.cells.crossed_centres import are_crossed, crossed_centres
from sottovoce.inference.cells.crossed_factors import Curvature, Roots, of_categories, of_cells, places
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.numbers import Floats, Integers

__all__ = ["pooled_counts", "pooled_means", "pooled_shares"]

Mask = NDArray[np.bool_]

_COMMON = 16
"""Places of the grid for each of the two numbers that groups have in common."""
_WEIGHED = 600
"""Draws a group that are weighed anew."""
_LOOSE = 0.5
"""A group's prior deviates by this part, at least, of what the group alone leaves uncertain: those that noise hides are
often the small ones, and may differ from the rest in what no one can see."""
_CONTAMINATION = 0.1
"""So likely it is, beforehand, that a group has nothing to do with the others: a contaminated normal law (Tukey 1960).
Else one that lies far off would be drawn to them however well it is known, or make them all stray."""
_STRAY = np.geomspace(0.05, 2000.0, 16)
"""How far cells may stray from what their categories suggest: shapes of a negative binomial law."""
_ALL_STRAY = (1.0, 2.0)
"""Mean and deviation of the logarithm of how far all cells stray; that of each category has a deviation of one."""
_LEAST, _MEANS = -7.0, 32
"""The least logarithm of a mean, and how many of them are tried to tell how likely cells are."""
_NODES = 128
"""So many counts, or counts that go together, are weighed at most for each cell."""
_FACTORS = 64
"""Draws of the factors of all categories; each serves many draws of the counts."""
_STEPS = 400
"""Steps of the chains of factors."""


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
    loose = _LOOSE**2 * known
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

    loose = _LOOSE * separate
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


def pooled_counts(
    noisy: Floats, noise: IntegerNoise, n: int, shape: tuple[int, ...], draws: int, rng: np.random.Generator
) -> Floats:
    """Return draws of true counts, (draws, cells): each cell's negative binomial around what its categories suggest.

    Of one column, all cells have one mean; of several, the mean is a product with a factor for every category, and so
    is how far cells stray from it: where one severity differs from place to place, another need not. All factors are
    averaged over.
    """
    first, widths = _nodes(noisy, float(np.sqrt(noise.variance)), n)
    nodes = first + (np.maximum(widths, 1.0) - 1) / 2
    likelihood = noise.log_weight(noisy[:, None] - nodes) - gammaln(nodes + 1) + np.log(widths)
    beyond = _beyond_normal(noisy, noise.variance, n, nodes, likelihood)
    each = -(-draws // _FACTORS)
    result = []
    for factors in zip(*_factors(noisy, noise.variance, n, shape, beyond, rng), strict=True):
        log_mean, stray = factors[0][:, None], np.exp(factors[1])[:, None]
        stray = np.minimum(stray, np.maximum(np.exp(2 * log_mean) / (_LOOSE**2 * noise.variance), 1.0))
        log = likelihood + gammaln(nodes + stray) + nodes * (log_mean - np.log(stray + np.exp(log_mean)))
        cumulative = np.cumsum(np.exp(log - log.max(axis=1, keepdims=True)), axis=1)
        goal = rng.random((noisy.size, each)) * cumulative[:, -1:]
        place = np.minimum(_places(cumulative, goal), nodes.shape[1] - 1)
        drawn = np.take_along_axis(first, place, axis=1)
        result.append(drawn.T + np.floor(rng.random(place.T.shape) * np.take_along_axis(widths, place, axis=1).T))
    return rng.permutation(np.concatenate(result))[:draws]


def _beyond_normal(noisy: Floats, variance: float, n: int, nodes: Floats, likelihood: Floats) -> Floats:
    """Return how much likelier each noisy count is than a normal law says, in logarithms, (means, strays, cells).

    Of a few large cells among many small ones a normal law would have it that all stray as far as the large ones do,
    and so that most are empty: a negative binomial law tells a long tail from that. Only what it has beyond the normal
    one is laid on a grid, for that hardly changes between two places of it.
    """
    separate = [likelihood + gammaln(nodes + stray) for stray in _STRAY]
    result, log = np.empty((_MEANS, _STRAY.size, noisy.size)), np.empty_like(nodes)
    for i, log_mean in enumerate(np.linspace(_LEAST, np.log(n + 1.0), _MEANS)):
        mean = np.exp(log_mean)
        for j, stray in enumerate(_STRAY):
            log = np.multiply(nodes, log_mean - np.log(stray + mean), out=log)
            log += separate[j]
            top = log.max(axis=1)
            log -= top[:, None]
            exact = top + np.log(np.exp(log, out=log).sum(axis=1)) - gammaln(stray)
            exact += stray * (np.log(stray) - np.log(stray + mean))
            result[i, j] = exact - _log_normal(noisy, mean, stray, variance)
    return result


def _log_normal(noisy: Floats, mean: Floats, stray: Floats | float, variance: float) -> Floats:
    total = mean + mean**2 / stray + variance
    return np.asarray(-((noisy - mean) ** 2 / total + np.log(total)) / 2)


def _factors(
    noisy: Floats, variance: float, n: int, shape: tuple[int, ...], beyond: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return draws of the logarithms of every cell's mean and of how far it strays, (draws, cells or 1) each.

    Chains begin at draws of Laplace's method, each for one of a grid of strays common to all cells, and move the
    factors of the means and of the strays in turn, in steps of all sizes that leave their reference laws as they are.
    """
    count = sum(map(len, places(shape)))
    precision = np.append(1e-2, np.full(count - 1, 0.25))
    prior = np.append(np.log(max(float(noisy.mean()), 0.3)), np.zeros(count - 1))
    fits = [_fitted(noisy, variance, n, shape, precision, prior, stray) for stray in _STRAY]
    evidence = np.array([fit[0] for fit in fits])
    weights = np.exp(evidence - evidence.max())
    picked = rng.choice(weights.size, _FACTORS, p=weights / weights.sum())
    centres, roots = np.stack([fits[i][1] for i in picked]), Roots.of([fits[i][2] for i in picked])
    widths = np.append(_ALL_STRAY[1], np.ones(count - 1))
    grids = (_LEAST, np.log(n + 1.0), _MEANS), (*np.log(_STRAY[[0, -1]]), _STRAY.size)
    table, cells = np.ascontiguousarray(np.moveaxis(beyond, 2, 0)).ravel(), _MEANS * _STRAY.size * np.arange(noisy.size)
    rise = np.diff(table, append=0.0)

    def exact(mean: _Laid, stray: _Laid) -> Floats:
        """Return `beyond` between the places of its grid."""
        at = mean.place * _STRAY.size + stray.place + cells
        near, far = (table[k:].take(at) + rise[k:].take(at) * stray.part for k in (0, _STRAY.size))
        return np.asarray(near + (far - near) * mean.part)

    def means(standard: Floats) -> tuple[_Laid, Floats]:
        """Return the means, and how likely their factors are beside their reference law."""
        factors = centres + roots.times(standard)
        off = factors - prior
        beside = ((standard**2).sum(axis=1) - (precision * off**2).sum(axis=1)) / 2
        return _Laid.on(of_cells(factors, shape), *grids[0]), beside

    def strays(standard: Floats) -> tuple[_Laid, Floats]:
        """Return how far cells stray; the reference law is the prior."""
        return _Laid.on(_ALL_STRAY[0] + of_cells(widths * standard, shape), *grids[1]), np.zeros(len(standard))

    def likely(mean: _Laid, stray: _Laid) -> Floats:
        normal = _log_normal(noisy, mean.value, stray.value, variance)
        return np.asarray((normal + exact(mean, stray)).sum(axis=1))

    ways = (means, strays)
    now = np.stack([rng.normal(size=centres.shape), np.zeros_like(centres)])
    now[1, :, 0] = (np.log(_STRAY[picked]) - _ALL_STRAY[0]) / _ALL_STRAY[1]
    result, beside = map(list, zip(*(way(at) for way, at in zip(ways, now, strict=True)), strict=True))
    log = likely(*result) + beside[0] + beside[1]
    for step in range(_STEPS):
        side, part = step % 2, 10 ** rng.uniform(-1.3, 0, (_FACTORS, 1))
        tried = np.sqrt(1 - part**2) * now[side] + part * rng.normal(size=centres.shape)
        moved, reference = ways[side](tried)
        new = likely(*(result[0], moved) if side else (moved, result[1])) + reference + beside[1 - side]
        taken = np.log(rng.random(_FACTORS)) < new - log
        moves = (*zip(result[side], moved, strict=True), (beside[side], reference), (log, new), (now[side], tried))
        for held, other in moves:
            held[taken] = other[taken]
    return result[0].log, result[1].log


class _Laid(NamedTuple):
    """Numbers laid on a grid of logarithms: the place of the grid before each, and which part of a step lies between.

    They are found once for many looks: where the means move the strays do not, nor where these move do those.
    """

    log: Floats
    value: Floats
    place: Integers
    part: Floats

    @classmethod
    def on(cls, log: Floats, low: float, high: float, size: int) -> _Laid:
        """Lay numbers of such logarithms on a grid, those beyond it on its ends."""
        log = np.clip(log, low, high)
        at = (log - low) * ((size - 1) / (high - low))
        place = np.minimum(at.astype(np.int64), size - 2)
        return cls(log, np.exp(log), place, at - place)


def _nodes(noisy: Floats, deviation: float, n: int) -> tuple[Floats, Floats]:
    """Return the first of the counts that are weighed together for each cell, (cells, nodes), and how many they are.

    Few counts are weighed one by one, for how likely they are changes fast; of many, those that noise can hardly tell
    apart go together.
    """
    reach = np.ceil(10 * deviation) + 3  # whole, so that every node begins with a count
    low = np.clip(np.floor(noisy - reach), 0, max(n - 2 * reach, 0))
    high = np.clip(np.ceil(noisy + reach), np.minimum(low + reach, n), n)
    span = (high - low + 1)[:, None]
    number = min(_NODES, int(span.max()))
    place = np.arange(number + 1)
    edges = np.minimum(np.maximum(place, np.rint(span * (place / number) ** 2)), span)
    widths = np.diff(edges, axis=1)
    return low[:, None] + np.minimum(edges[:, :-1], span - 1), np.where(widths > 0, widths, 1e-9)


def _fitted(
    noisy: Floats, variance: float, n: int, shape: tuple[int, ...], precision: Floats, prior: Floats, stray: float
) -> tuple[float, Floats, Curvature]:
    """Return log evidence, mode and curvature of the logarithms of the factors, given how cells stray."""
    factors = prior.copy()

    def log_means() -> Floats:
        result = np.clip(of_cells(factors[None], shape)[0], _LEAST, np.log(n + 1.0))
        return np.broadcast_to(result, noisy.shape)

    for _ in range(40):
        log_mean = log_means()
        mean = np.exp(log_mean)
        weight = mean**2 / (mean + mean**2 / stray + variance)
        step = np.clip((noisy - mean) / mean, -2, 2)
        curvature = Curvature.of(weight, shape, precision)
        moved = curvature.solve(of_categories(weight * (log_mean + step), shape) + precision * prior)
        done = np.max(np.abs(moved - factors)) < 1e-6
        factors = factors + 0.7 * (moved - factors)
        if done:
            break
    log = _log_normal(noisy, np.exp(log_means()), stray, variance).sum()
    log -= (precision * (factors - prior) ** 2).sum() / 2 + curvature.volume / 2
    return float(log), factors, curvature


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
        picked[rows] = np.minimum(_places(cumulative, goal), cumulative.shape[1] - 1).T
    separate = cumulative.shape[1] - 1
    alone = picked == separate
    picked[alone] = rng.integers(separate, size=int(alone.sum()))
    return picked, alone


def _places(cumulative: Floats, goal: Floats) -> Integers:
    """Return where each goal lies in its row of cumulative weights."""
    return np.stack([row.searchsorted(subset, side="right") for row, subset in zip(cumulative, goal, strict=True)])
