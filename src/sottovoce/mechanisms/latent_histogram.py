"""The true counts behind a noisy histogram: their laws given that they sum to n, and draws of them all."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from scipy import special

from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.numbers import Floats

__all__ = ["LatentCounts", "polished", "tabulate"]

_NEGLIGIBLE = 40.0
"""e^-40 of the largest weight is dropped."""
_CELLS = 2**22
"""Entries that the laws of all partial sums of latent counts may take together."""
_TABLED = 2**22
"""Entries of a table of the prior's weights."""


@dataclass(frozen=True)
class LatentCounts:
    """The weights of latent counts on a lattice, a row a category, tilted so that they expect the right sum.

    A tilt e^(ηc) leaves everything unchanged once the sum is fixed.
    """

    low: Floats
    lattice: float
    weights: Floats
    target: int
    period: int

    def marginals(self) -> tuple[Floats, Floats]:
        """Return where each category's counts begin, and the law of each count given the sum of all."""
        columns, fft = self.weights.shape[1], scipy.fft
        # The laws of the sum of all categories but one, block by block: a sum of d counts spreads as √d, and √d blocks
        # of √d categories keep the memory in proportion to d.
        blocks = np.array_split(self.weights, math.isqrt(len(self.weights)))
        outside = _others(np.array([fft.rfft(block, self.period).prod(axis=0) for block in blocks]))
        # others[k, (target - c) mod period] for c = 0, 1, …
        at = (self.target - np.arange(columns)) % self.period
        chances = np.concatenate(
            [
                block * np.maximum(fft.irfft(rest * _others(fft.rfft(block, self.period)), self.period)[:, at], 0.0)
                for block, rest in zip(blocks, outside, strict=True)
            ]
        )
        chances /= chances.sum(axis=1, keepdims=True)
        keep = chances > 1e-15
        first = keep.argmax(axis=1)
        wide = int((columns - keep[:, ::-1].argmax(axis=1) - first).max())
        index = first[:, None] + np.arange(wide)
        inside = index < columns
        kept = np.take_along_axis(chances, np.minimum(index, columns - 1), axis=1) * inside
        kept = np.where(kept > 1e-15, kept, 0.0)
        return self.low + first, kept / kept.sum(axis=1, keepdims=True)

    def draw(self, draws: int, rng: np.random.Generator) -> Floats:
        """Return independent histograms, a row each: exact on the lattice, however loud the noise."""
        partial = scipy.fft.irfft(_running_products(scipy.fft.rfft(self.weights, self.period)), self.period)
        size = self.weights.shape[0]
        steps = np.empty((draws, size))
        left = np.full(draws, self.target)
        for k in range(size - 1, 0, -1):
            some = np.flatnonzero(self.weights[k] > 0)
            mass = np.maximum(partial[k - 1], 0.0)[(left[:, None] - some) % self.period] * self.weights[k, some]
            below = np.cumsum(mass, axis=1)
            pick = np.sum(below < rng.random(draws)[:, None] * below[:, -1:], axis=1)
            steps[:, k] = some[np.minimum(pick, some.size - 1)]
            left = left - steps[:, k].astype(np.int64)
        steps[:, 0] = left
        return self.low + self.lattice * steps


def _others(spectra: Any) -> Any:
    """Return for each row the product of all the others, without dividing by what may be nothing."""
    others = np.ones_like(spectra)
    others[1:] = _running_products(spectra[:-1])
    others[:-1] *= _running_products(spectra[:0:-1])[::-1]
    return others


def _running_products(rows: Any) -> Any:
    """Return the product of each row and all before it; `cumprod` goes down one column at a time, which is slow."""
    out = np.array(rows)
    for k in range(1, len(out)):
        out[k] *= out[k - 1]
    return out


def tabulate(alpha: Floats, noisy: Floats, n: int, noise: IntegerNoise) -> LatentCounts:
    """Return the weights of the counts that noisy ones of n records may have been."""
    size = alpha.size
    inside = np.clip(noisy, 0, n)
    # Far enough out for the noise, and for all records that the noisy counts leave over.
    far = _NEGLIGIBLE if noise.kind == "laplace" else np.sqrt(2 * _NEGLIGIBLE)
    reach = np.ceil(far * noise.scale + 2 + abs(n - inside.sum()))
    low, high = np.maximum(np.floor(inside) - reach, 0.0), np.minimum(np.ceil(inside) + reach, n)
    wide = float((high - low).max())
    lattice = 1.0
    while True:
        columns = int(wide // lattice) + 1
        period = scipy.fft.next_fast_len(
            int(min(size * columns, 18 * np.sqrt(2 * size) * noise.scale / lattice + 3 * columns)), real=True
        )
        if size * period <= _CELLS and columns <= 2**13:
            break
        lattice *= 2
    counts = low[:, None] + lattice * np.arange(columns)
    target = round((n - low.sum()) / lattice)
    weights = _tilted(_log_weight(alpha, noisy, counts, lattice, noise), counts <= high[:, None], target)
    return LatentCounts(low, lattice, weights, target, period)


def _log_weight(alpha: Floats, noisy: Floats, counts: Floats, lattice: float, noise: IntegerNoise) -> Floats:
    """Return the log-weights of latent counts, a row a category; of the lattice's cells where it is coarse."""
    middle = np.maximum(counts, 0.0) + (0.0 if lattice == 1 else (lattice - 1) / 2)
    body = special.gammaln(alpha[:, None] + middle) - special.gammaln(middle + 1)
    return np.asarray(body + noise.log_weight(noisy[:, None] - middle))


def _tilted(log_weights: Floats, allowed: Any, target: float) -> Floats:
    """Return the weights times e^(ηc), η such that they expect the right sum, by Newton's steps in a bracket."""
    log_weights = np.where(allowed, log_weights, -np.inf)
    columns = np.arange(log_weights.shape[1])
    low, high, tilt = -50.0, 50.0, 0.0
    for _ in range(60):
        tilted = log_weights + tilt * columns
        chances = np.exp(tilted - tilted.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        means = chances @ columns
        gap = float(means.sum() - target)
        slope = float((chances @ columns**2 - means**2).sum())
        low, high = (low, tilt) if gap > 0 else (tilt, high)
        if abs(gap) <= 1e-3 or high - low < 1e-12:
            break
        fresh = tilt - gap / slope if slope > 0 else np.nan
        tilt = fresh if low < fresh < high else (low + high) / 2
    return np.where(chances > 1e-14 * chances.max(axis=1, keepdims=True), chances, 0.0)


def polished(
    alpha: Floats, noisy: Floats, counts: Floats, n: int, lattice: float, noise: IntegerNoise, rng: np.random.Generator
) -> Floats:
    """Return coarse draws moved to whole counts that sum to n, by Metropolis steps between pairs of categories."""
    draws, size = counts.shape
    counts = np.clip(counts + np.floor(lattice * rng.random(counts.shape)), 0, n)
    short = n - counts.sum(axis=1)
    for k in np.argsort(-counts.mean(axis=0)):  # hand what is over or short to the largest categories first
        given = np.maximum(counts[:, k] + short, 0.0)
        short -= given - counts[:, k]
        counts[:, k] = given

    prior = _prior_weight(alpha, n)

    def log_weight(c: Floats, k: Any) -> Floats:
        inside = c >= 0
        c = np.where(inside, np.minimum(c, n), 0.0)
        return np.where(inside, prior(c, k) + noise.log_weight(noisy[k] - c), -np.inf)

    weights = log_weight(counts, np.arange(size))
    for _ in range(100):
        order = rng.permutation(size)
        left, right = order[: size // 2], order[size // 2 : 2 * (size // 2)]
        scale = lattice * 2.0 ** rng.uniform(-3, 4)
        move = np.rint(rng.normal(0, scale, (draws, left.size))) + rng.integers(-1, 2, (draws, left.size))
        old = (counts[:, left], weights[:, left]), (counts[:, right], weights[:, right])
        new = tuple((c, log_weight(c, k)) for c, k in ((old[0][0] + move, left), (old[1][0] - move, right)))
        gain = new[0][1] + new[1][1] - (old[0][1] + old[1][1])
        taken = np.log(rng.random(move.shape)) < gain
        for k, before, after in zip((left, right), old, new, strict=True):
            counts[:, k] = np.where(taken, after[0], before[0])
            weights[:, k] = np.where(taken, after[1], before[1])
    return counts


def _prior_weight(alpha: Floats, n: int) -> Callable[[Floats, Any], Floats]:
    """Return log Γ(αₖ + c) − log c! as a function of c and k, looked up where a table of all counts is small."""
    kinds, which = np.unique(alpha, return_inverse=True)
    if kinds.size * (n + 1) > _TABLED:
        return lambda c, k: np.asarray(special.gammaln(alpha[k] + c) - special.gammaln(c + 1))
    every = np.arange(n + 1.0)
    table = special.gammaln(kinds[:, None] + every) - special.gammaln(every + 1)
    return lambda c, k: np.asarray(table[which[k], c.astype(np.int64)])
