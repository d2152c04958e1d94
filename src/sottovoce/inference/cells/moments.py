r"""Means of groups from noisy sums: the spread unknown, and the number of records too.

With N records of mean μ and spread σ in a group, Σt has mean Nμ and variance Nσ², Σt² has mean N(μ² + σ²) and variance
N(2κσ⁴ + 4μ²σ²), κ = 1 for normal records and more for heavier tails. Their covariance is 2Nμσ² for symmetric records
and nothing where all lie at the two bounds; of a Beta law, whose spread is the part r of the largest that there can be,
it is 2Nμσ²(1 - r²)/(1 + r²), which is taken for all. Gaussian noise adds its own variance; under Laplace noise each
sum has the law of a normal and a Laplace variable together, whose density is known. The posterior of (N, σ, μ) is
weighed on a grid that follows the data, and drawn from it.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import erfcx

from sottovoce.mechanisms.integer_noise import NoiseKind
from sottovoce.privacy.numbers import Floats

_EXCESS = 2.0
"""The excess kurtosis κ that spreads are told with, between a normal law's 0 and an exponential one's 6."""
_SIZES, _SPREADS, _MEANS = 48, 28, 24
_LEAST = 1e-4
"""The least part of the largest possible spread that is considered."""
_FINE = 0.05
"""Parts of the largest spread are told apart by factors where they are small, and by about so much of what they lack
of all where they are large: of records at the two bounds nothing is lacking."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(_MEANS)
_STARTS = np.cumsum(_WEIGHTS) - _WEIGHTS - 1
"""Nodes and weights of Gauss' rule, and where the stretch of each node begins: the weights, end to end."""
_WHOLE = -9.0
"""So many deviations below zero a normal law lacks less of one than a number tells apart."""


def mean_draws(
    sizes: Floats,
    total: float,
    square: float,
    noise: tuple[float, float],
    draws: int,
    rng: np.random.Generator,
    kind: NoiseKind = "gaussian",
    lean: float = 0.0,
    vary: float = 0.0,
) -> tuple[Floats, Floats, Floats]:
    """Return draws of the mean of t, of its spread, and of N, given the noisy Σt and Σt² of one group.

    Parameters
    ----------
    sizes
        Draws of N that know of its noisy count.
    total, square
        The noisy sums.
    noise
        The variance of the noise on each.
    draws, rng
        How many draws, and their randomness.
    kind
        The law of the noise.
    lean
        The prior density of the mean is as (1 + μ) to this power: 0 where any mean is as likely as another.
    vary
        The prior density of the part r of the largest spread is as r to this power, over √(1 - r²).
    """
    # Quantiles of N stand for all of its draws; an empty group is one with next to no records.
    shown = np.quantile(sizes, (np.arange(_SIZES) + 0.5) / _SIZES) if np.ptp(sizes) else sizes[:1]
    known = np.maximum(shown, 0.01)
    edges = _parts(_LEAST, 1.0, 2 * _SPREADS)
    few = known[:: max(1, known.size // 8)]
    for _ in range(2):  # once everywhere, once more where the weight lies
        weight = _weigh(few, edges, total, square, noise, kind, lean, vary)[0].sum(axis=(0, 2))
        inside = np.flatnonzero(weight > weight.max() * 1e-7)
        low, high = edges[max(inside[0] - 1, 0)], edges[min(inside[-1] + 2, edges.size - 1)]
        edges = _parts(low, high, _SPREADS)
    weights, middle, half = _weigh(known, edges, total, square, noise, kind, lean, vary)
    flat = np.cumsum(weights.ravel())
    picked = np.searchsorted(flat, rng.random(draws) * flat[-1], side="right")
    picked = np.minimum(picked, flat.size - 1)
    size, part, node = np.unravel_index(picked, weights.shape)
    start, width = middle[size, part] + half[size, part] * _STARTS[node], half[size, part] * _WEIGHTS[node]
    result = np.clip(start + width * rng.random(draws), -1.0, 1.0)
    return result, _middle(edges)[part] * np.sqrt(1 - result**2), shown[size]


def _parts(low: float, high: float, number: int) -> Floats:
    """Return the edges of so many parts of the largest spread, from the least to the largest."""
    return _part(np.linspace(_place(np.array(low)), _place(np.array(high)), number + 1))


def _middle(edges: Floats) -> Floats:
    places = _place(edges)
    return _part((places[1:] + places[:-1]) / 2)


def _place(part: Floats) -> Floats:
    return np.asarray(np.log(part / (1 + _FINE - part)))


def _part(place: Floats) -> Floats:
    return np.minimum((1 + _FINE) / (1 + np.exp(-place)), 1.0)


def _weigh(
    sizes: Floats,
    edges: Floats,
    total: float,
    square: float,
    noise: tuple[float, float],
    kind: NoiseKind,
    lean: float,
    vary: float,
) -> tuple[Floats, Floats, Floats]:
    """Return weights on a grid (N, spread, μ), and what stretch of the line all means stand for: its middle, its half.

    A bounded record of mean μ has a spread of at most √(1 - μ²); the grid is of the part of it that the spread is.
    """
    # Quantiles of a count repeat themselves, and its likelihood is dear: it is found once for every different size.
    different, repeats = np.unique(sizes, return_inverse=True)
    n, part = different[:, None, None], _middle(edges)[None, :, None]
    # Near a bound the reach is many times that of Σt, and the nodes are coarse: intervals are wider than they need be.
    # With a reach that knows of √(1 - μ²) they held 91 % of skewed columns there, which this law does not know well.
    centre, reach = total / n, 7 * np.sqrt(n * part**2 + noise[0]) / n
    low = np.maximum(-1.0, np.minimum(centre, 1.0) - reach)
    high = np.minimum(1.0, np.maximum(centre, -1.0) + reach)
    half = np.maximum((high - low) / 2, 1e-12)
    middle = (low + high) / 2
    mean = middle + half * _NODES
    squares = mean * mean
    spread = part**2 * (1 - squares)
    expected = n * spread
    off = total - n * mean
    both = (2 * (1 - part**2) / (1 + part**2)) * mean * expected
    slope = both / (expected + noise[0])
    # Of records within bounds t² varies by no more than (μ² + σ²)(1 - μ² - σ²): by nothing where all lie at them.
    most = n * (squares + spread) * (1 - part**2) * (1 - squares)
    second = np.minimum(expected * (2 * _EXCESS * spread + 4 * squares), most) - both * slope
    unexplained = square - n * (squares + spread) - slope * off
    log = log_density(off, expected, noise[0], kind) + log_density(unexplained, second, noise[1], kind)
    # The part r has a density of r^vary/√(1 - r²): columns of nothing but the two bounds, whose part is one, are
    # common. (A prior that favours small spreads, which noise can hide, is too sure of means: with 1/√r beside it 50 %
    # intervals of common columns held two fifths. One on the spread's logarithm makes means lean towards a bound, too.)
    log += np.log(half) + np.log(np.diff(np.arcsin(edges)) * _middle(edges) ** vary)[None, :, None]
    log += np.log(_WEIGHTS)
    if lean:
        log += lean * np.log1p(mean + 1e-9)
    top = log.max()
    log -= top if np.isfinite(top) else 0.0
    return np.exp(log, out=log)[repeats], middle[repeats, :, 0], half[repeats, :, 0]


def log_density(x: Floats, variance: Floats, noise: float, kind: NoiseKind) -> Floats:
    """Return the log density, up to a constant, of a normal variable with noise of a variance added."""
    if kind == "gaussian":
        total = np.maximum(variance + noise, 1e-18)
        return np.asarray((x * x / total + np.log(total)) / -2)
    # The sum of e^{±x/b + s²/2b²}·Φ(−a) over the two sides, a = ±x/s + s/b and b the scale of the Laplace law. Where
    # both a are positive the exponents and Φ's cancel, and what is left of them is −x²/2s². Only the lesser can be
    # negative: then its Φ is near one, and written as what it lacks; far enough below zero it lacks nothing.
    spread = np.sqrt(np.maximum(variance, 1e-18))
    far, wide = np.abs(x) / spread, spread / math.sqrt(noise / 2)
    less = wide - far
    log = np.where(less < 0, (wide / 2 - far) * wide, -(far**2) / 2)
    near = less > _WHOLE
    less, more = less[near], (wide + far)[near]
    other, first = erfcx(more / math.sqrt(2)), erfcx(np.abs(less) / math.sqrt(2))
    log[near] += np.log(np.where(less < 0, 1 + np.exp(-(less**2) / 2) * (other - first) / 2, (other + first) / 2))
    return log
