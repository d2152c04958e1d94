"""Counts of crossed categories that share strength: each lies near what its categories suggest."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from sottovoce.inference.cells.crossed_factors import Curvature, Roots, of_categories, of_cells, places
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.numbers import Floats, Integers

LOOSE = 0.5
"""A group's prior deviates by this part, at least, of what the group alone leaves uncertain: those that noise hides are
often the small ones, and may differ from the rest in what no one can see."""
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
        stray = np.minimum(stray, np.maximum(np.exp(2 * log_mean) / (LOOSE**2 * noise.variance), 1.0))
        log = likelihood + gammaln(nodes + stray) + nodes * (log_mean - np.log(stray + np.exp(log_mean)))
        cumulative = np.cumsum(np.exp(log - log.max(axis=1, keepdims=True)), axis=1)
        goal = rng.random((noisy.size, each)) * cumulative[:, -1:]
        place = np.minimum(inverse_cdf(cumulative, goal), nodes.shape[1] - 1)
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


def inverse_cdf(cumulative: Floats, goal: Floats) -> Integers:
    """Return where each goal lies in its row of cumulative weights."""
    return np.stack([row.searchsorted(subset, side="right") for row, subset in zip(cumulative, goal, strict=True)])
