"""The likelihood of a noisy count when the true one is Poisson: a convolution, tabulated once for every count seen.

All of this is post-processing of a release: it costs no privacy, and none rests on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.numbers import Floats, Integers

NODES = 80
"""How many nodes a row of the table has."""
_REACH = 9.0
"""How many standard deviations about the noisy count a row of the table covers."""
_POINTS = 48
"""True counts that are summed over on each side of the likeliest; more are taken in strides."""
_LEVEL = 0.02
"""A likelihood with a smaller slope than this at its least mean is level below it."""
_BLOCK = 1 << 18
_FACTORIALS = 1 << 20


def log_noised_poisson(seen: Integers, log_mean: Floats, noise: IntegerNoise) -> tuple[Floats, Floats]:
    r"""Return log Σ_x Poisson(x; μ) w(seen - x), w the weight of the noise, and its derivative by log μ.

    The derivative is E[x | seen, μ] - μ. Both arguments have the same shape.

    Examples
    --------
    >>> value, slope = log_noised_poisson(np.array([3]), np.log([2.0]), IntegerNoise("laplace", 0.01))
    >>> round(float(np.exp(value[0])), 4), round(float(slope[0]), 3)
    (0.1804, 1.0)
    """
    mean = np.exp(log_mean)
    centre = np.rint(_likeliest(seen, log_mean, mean, noise)).astype(np.int64)
    spread = np.sqrt(centre + 1.0)
    if noise.kind == "gaussian":
        spread = 1 / np.sqrt(1 / (centre + 1.0) + 1 / max(noise.scale, 0.5) ** 2)
        reach = (10 * spread + 6, 10 * spread + 6)
    else:
        # Next to the kink of the noise the weights fall at these rates, to the left and to the right.
        tilt = log_mean - np.log(np.maximum(centre, 0.5))
        rates = (np.where(centre <= seen, 1 / noise.scale, -1 / noise.scale) + tilt,
                 np.where(centre >= seen, 1 / noise.scale, -1 / noise.scale) - tilt)  # fmt: skip
        reach_left, reach_right = (np.minimum(10 * spread + 10, 26 / np.maximum(rate, 1e-9)) for rate in rates)
        reach = (reach_left, reach_right)
    steps = np.arange(1, _POINTS + 1)
    left, right = (np.maximum(np.ceil(r / _POINTS), 1).astype(np.int64)[..., None] for r in reach)
    x = np.concatenate(
        [centre[..., None] - left * steps, centre[..., None], centre[..., None] + right * steps], axis=-1
    )
    inside = np.maximum(x, 0)
    most = int(inside.max())
    if most < _FACTORIALS:
        log_factorial = np.concatenate([[0.0], np.log(np.arange(1.0, most + 1)).cumsum()])[inside]
    else:
        log_factorial = special.gammaln(inside + 1.0)
    logs = inside * log_mean[..., None] - log_factorial + noise.log_weight(seen[..., None] - x)
    logs = np.where(x >= 0, logs, -np.inf)
    width = np.concatenate(
        [np.broadcast_to(left, (*left.shape[:-1], _POINTS)), (left + right) / 2,
         np.broadcast_to(right, (*right.shape[:-1], _POINTS))], axis=-1,
    )  # fmt: skip
    top = logs.max(axis=-1, keepdims=True)
    weight = np.exp(logs - top) * width
    total = weight.sum(axis=-1)
    return top[..., 0] + np.log(total) - mean, (weight * inside).sum(axis=-1) / total - mean


def _likeliest(seen: Integers, log_mean: Floats, mean: Floats, noise: IntegerNoise) -> Floats:
    """Return the true count that weighs most, about."""
    if noise.kind == "laplace":
        tilt = min(1 / noise.scale, 600.0)
        return np.clip(seen, mean * np.exp(-tilt), mean * np.exp(tilt))
    # Newton's steps for log x from the right, where the slope of the logarithm, concave in log x, is below zero.
    inverse = 1 / noise.scale**2
    log_x = np.maximum(log_mean, np.log(np.maximum(seen, 1e-300)))
    for _ in range(40):
        x = np.exp(log_x)
        log_x = np.maximum(log_x + (log_mean - log_x + (seen - x) * inverse) / (1 + x * inverse), -50.0)
    return np.asarray(np.exp(log_x))


@dataclass(frozen=True, eq=False)
class NoisedPoisson:
    r"""Tables of log Pr[noisy count | mean of the true one], for noisy counts (cells, categories).

    Every noisy count that occurs has a row of cubic pieces in log μ, with exact values and slopes at the nodes, dense
    where the likelihood lives and straight beyond.

    Attributes
    ----------
    offset, first, inverse
        Of each noisy count: where its row begins, its first node, and one over the step from node to node.
    pieces
        The coefficients of all pieces of all rows, (4, pieces).

    Examples
    --------
    >>> table = NoisedPoisson.of((np.array([[7, -2]]),), (IntegerNoise("laplace", 3.0),))
    >>> means = np.log([[5.0, 0.5]])
    >>> exact = log_noised_poisson(np.array([[7, -2]]), means, IntegerNoise("laplace", 3.0))[0]
    >>> bool(np.abs(table(means) - exact).max() < 1e-3)
    True
    """

    offset: Integers
    first: Floats
    inverse: Floats
    pieces: Floats

    @staticmethod
    def of(noisy: Sequence[Integers], noises: Sequence[IntegerNoise]) -> NoisedPoisson:
        """Tabulate what these tables need, (cells, categories) each."""
        parts: list[Floats] = []
        rows = 0
        offset, first, inverse = [], [], []
        for noise in dict.fromkeys(noises):
            mine = [t for t, other in zip(noisy, noises, strict=True) if other == noise]
            values = np.unique(np.concatenate([t.ravel() for t in mine]))
            low, step, pieces = _rows(values, noise)
            parts.append(pieces.reshape(-1, 4))
            for table, other in zip(noisy, noises, strict=True):
                if other == noise:
                    row = np.searchsorted(values, table)
                    offset.append((rows + row) * (NODES + 1) + 1)
                    first.append(low[row])
                    inverse.append(1 / step[row])
            rows += len(values)
        order = [i for noise in dict.fromkeys(noises) for i, other in enumerate(noises) if other == noise]
        back = np.argsort(order)
        offset, first, inverse = ([arrays[i] for i in back] for arrays in (offset, first, inverse))
        return NoisedPoisson(
            np.concatenate(offset, axis=-1),
            np.concatenate(first, axis=-1),
            np.concatenate(inverse, axis=-1),
            np.ascontiguousarray(np.concatenate(parts).T),
        )

    def __call__(self, log_mean: Floats) -> Floats:
        """Return the log-likelihoods of all noisy counts, (..., cells, categories)."""
        u = log_mean - self.first
        u *= self.inverse
        node = np.floor(u)
        np.maximum(node, -1, out=node)
        np.minimum(node, NODES - 1, out=node)
        u -= node
        piece = node.astype(np.int64)
        piece += self.offset
        out = self.pieces[3].take(piece)
        for k in (2, 1, 0):
            out *= u
            out += self.pieces[k].take(piece)
        return np.asarray(out)


def _rows(values: Integers, noise: IntegerNoise) -> tuple[Floats, Floats, Floats]:
    """Return the first node, the step and the pieces (row, piece, coefficient) for each noisy count."""
    seen = values.astype(np.float64)
    above = np.maximum(seen, 0.0)
    spread = np.sqrt(above + noise.variance)
    # Down to means so small that the likelihood is level (noise explains the count) or straight (quiet noise).
    least = np.clip(0.01 * np.exp(noise.log_weight(1)), 1e-7, 1e-3) + 1e-3 * np.sqrt(noise.variance)
    low = np.log(np.maximum(seen - _REACH * spread, least))
    high = np.log(above + _REACH * spread + _REACH**2 / 2)
    step = (high - low) / (NODES - 1)
    value, slope = np.empty((len(values), NODES)), np.empty((len(values), NODES))
    block = max(_BLOCK // (NODES * (2 * _POINTS + 1)), 1)
    for i in range(0, len(values), block):
        subset = slice(i, i + block)
        nodes = low[subset, None] + step[subset, None] * np.arange(NODES)
        value[subset], slope[subset] = log_noised_poisson(
            np.broadcast_to(values[subset, None], nodes.shape), nodes, noise
        )
    straight = np.where(np.abs(slope[:, 0]) < _LEVEL, 0.0, slope[:, 0]) * step
    slope *= step[:, None]
    pieces = np.zeros((len(values), NODES + 1, 4))
    rise = np.diff(value, axis=1)
    pieces[:, 1:-1, 0] = value[:, :-1]
    pieces[:, 1:-1, 1] = slope[:, :-1]
    pieces[:, 1:-1, 2] = 3 * rise - 2 * slope[:, :-1] - slope[:, 1:]
    pieces[:, 1:-1, 3] = slope[:, :-1] + slope[:, 1:] - 2 * rise
    pieces[:, 0, :2] = np.stack([value[:, 0] - straight, straight], axis=1)
    pieces[:, -1, :2] = np.stack([value[:, -1], slope[:, -1]], axis=1)
    return low, step, pieces
