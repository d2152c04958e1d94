"""The true counts behind a noisy histogram: their laws given that they sum to n, and draws of them all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.mechanisms.sum_tree import SumForest, trimmed
from sottovoce.privacy.numbers import Floats, Integers

__all__ = ["CountLaws", "LatentHistogram", "polished", "tabulate"]

Places = slice | Integers

_NEGLIGIBLE = 36.0
"""e^-36 of the largest weight is dropped."""
_ROOM = 1.15
"""How much farther than Laplace noise reaches counts are looked at: tilted, its weights fall off more slowly."""
_COLUMNS = 2**13
"""Counts on a lattice that a category may have on average."""
_CELLS = 2**24
"""Entries of the table of all categories' weights."""
_LOOK = 2**9
"""Counts of one category on the lattices by which its range is found."""
_BLOCK = 2**16
"""Entries that are worked on at once."""
_TABLED = 2**22
"""Entries of a table of the prior's weights."""
_FARTHEST = 2.0**53
"""A noisy count so far below all that are possible tells what one at any distance beyond tells."""
_ROUNDS = 100
"""Metropolis steps that each category takes from a coarse lattice to whole counts."""
_MANY = 100.0
"""Counts from which on three terms of Stirling's series give log Γ to the last digit."""


@dataclass(frozen=True)
class CountLaws:
    """The laws of the counts of some categories, a row each: the least count, and the chances of it and those above."""

    places: Places
    low: Floats
    chances: Floats


@dataclass(frozen=True)
class LatentHistogram:
    """The weights of latent counts on a lattice, tilted so that they expect the right sum.

    A tilt e^(ηc) leaves everything unchanged once the sum is fixed. The weights are in tables of categories alike in
    width, a row a category; `places` says which.
    """

    low: Floats
    lattice: float
    places: tuple[Places, ...]
    tables: tuple[Floats, ...]
    target: int

    def marginals(self) -> tuple[CountLaws, ...]:
        """Return the law of each count given the sum of all, in tables of categories alike in width."""
        rests = SumForest.grow(self.tables, 4).rest(self.target)
        result = []
        for places, weights, remainder in zip(self.places, self.tables, rests, strict=True):
            first, kept = trimmed(np.multiply(remainder, weights, out=remainder))
            kept /= kept.sum(axis=1, keepdims=True)
            result.append(CountLaws(places, self.low[places] + self.lattice * first, kept))
        return tuple(result)

    def draw(self, draws: int, rng: np.random.Generator) -> Floats:
        """Return independent histograms, a row each: exact on the lattice, however loud the noise."""
        counts = np.empty((draws, self.low.size))
        for rows, steps in zip(self.places, SumForest.grow(self.tables, 2).draw(self.target, draws, rng), strict=True):
            counts[:, rows] = steps.T
        counts *= self.lattice
        counts += self.low
        return counts


def tabulate(alpha: Floats, noisy: Floats, n: int, noise: IntegerNoise) -> LatentHistogram:
    """Return the weights of the counts that noisy ones of n records may have been.

    Where each count may lie is found by looking: a range about the noisy count is widened where weights at an end of
    it are not negligible, and narrowed to those that are not. Where no other count can be less than was looked at, none
    can be more than they leave of n, however wide its tilted weights; and the other way round.
    """
    noisy = _nearest(noisy, n, noise)
    inside = np.clip(noisy, 0, n)
    # Far enough out for the noise, and for a share of the records that the noisy counts leave over.
    far = _ROOM * _NEGLIGIBLE if noise.kind == "laplace" else np.sqrt(2 * _NEGLIGIBLE)
    reach = np.ceil(far * noise.scale + 2 + 2 * abs(n - inside.sum()) / inside.size)
    low, high = np.maximum(np.floor(inside) - reach, 0.0), np.minimum(np.ceil(inside) + reach, float(n))
    finest, most, tilt = np.inf, _LOOK, 0.0
    while True:
        lattice = _lattice(low, high, most)
        middle = (lattice - 1) / 2 if most == _COLUMNS else 0.0
        places = _alike((high - low) // lattice + 1)
        tables = [_log_weights(alpha[k], noisy[k], n, low[k], high[k], lattice, middle, noise) for k in places]
        target = round((n - low.sum()) / lattice)
        tilt = _tilt(tables, target, tilt * lattice) / lattice
        first, last = np.empty(low.size, dtype=np.int64), np.empty(low.size, dtype=np.int64)
        for k, weights in zip(places, tables, strict=True):
            keep = weights > np.exp(-_NEGLIGIBLE) * weights.max(axis=1, keepdims=True)
            first[k], last[k] = keep.argmax(axis=1), keep.shape[1] - 1 - keep[:, ::-1].argmax(axis=1)
        under = (first == 0) & (low > 0)
        over = (low + lattice * (last + 1) > high) & (high < n)
        another = under.sum() > under, over.sum() > over
        over &= another[0] | (high - low < n - low.sum())
        under &= another[1] | (high - low < high.sum() - n)
        if under.any() or over.any():
            wide = np.maximum(high - low, 1.0)
            low = np.where(under, np.maximum(low - wide, 0.0), low)
            high = np.where(over, np.minimum(high + wide, n), high)
        elif lattice == 1:
            break
        else:
            nearer = np.maximum(low + lattice * (first - 1), low), np.minimum(low + lattice * (last + 1), high)
            over_all, under_all = max(nearer[1].sum() - n, 0.0), max(n - nearer[0].sum(), 0.0)
            nearer = np.maximum(nearer[0], nearer[1] - over_all), np.minimum(nearer[1], nearer[0] + under_all)
            finer = _lattice(*nearer, most)
            if finer < min(lattice, finest):
                (low, high), finest = nearer, finer
            elif most == _LOOK:
                most, finest = _COLUMNS, np.inf
            else:
                break
    for i, (k, weights) in enumerate(zip(places, tables, strict=True)):
        start, tables[i] = trimmed(weights)
        low[k] += lattice * start
        target -= int(start.sum())
    return LatentHistogram(low, lattice, places, tuple(tables), target)


def _nearest(noisy: Floats, n: int, noise: IntegerNoise) -> Floats:
    """Return noisy counts that tell the same of counts which sum to n, as near to those as can be.

    What is far off would drown in its own rounding what tells one count from the next. Laplace noise does not tell
    how far a noisy count lies beyond all possible ones. Gaussian noise does not tell what all noisy counts have in
    common: taking it away is a tilt. So much is taken that those which stay above nought make n.
    """
    if noise.kind == "laplace":
        return np.clip(noisy, 0.0, n)
    most = np.sort(noisy)[::-1]
    common = (np.cumsum(most) - n) / np.arange(1, most.size + 1)
    taken = np.rint(common[np.flatnonzero(most >= common)[-1]])
    return np.asarray(np.maximum(noisy - taken, -_FARTHEST))


def _lattice(low: Floats, high: Floats, most: int) -> float:
    """Return the least power of two that is a lattice's step with so many counts a category, and few enough in all."""
    wide, lattice = high - low, 1.0
    while np.sum(wide // lattice + 1) > min(most * wide.size, _CELLS):
        lattice *= 2
    return lattice


def _alike(wide: Floats) -> tuple[Places, ...]:
    """Return the places of categories alike in width: all, where one table of them is small."""
    if wide.max() * wide.size <= _BLOCK or wide.max() <= 2 * wide.min():
        return (slice(None),)
    kinds = np.ceil(np.log2(wide))
    return tuple(np.flatnonzero(kinds == kind) for kind in np.unique(kinds))


def _log_weights(
    alpha: Floats, noisy: Floats, n: int, low: Floats, high: Floats, lattice: float, middle: float, noise: IntegerNoise
) -> Floats:
    """Return the log-weights of latent counts, a row a category."""
    steps = lattice * np.arange(int((high - low).max() // lattice) + 1)
    out = np.empty((low.size, steps.size))
    prior, every = _prior_weight(alpha, n, 0 if middle else min(out.size, _TABLED)), np.arange(low.size)[:, None]
    for rows in _blocks(out):
        counts = low[rows, None] + steps
        at = np.minimum(counts, n) + middle
        body = _each_rising(alpha[rows], counts) if lattice == 1 else prior(at, every[rows])
        body += noise.log_weight(noisy[rows, None] - at)
        out[rows] = np.where(counts <= high[rows, None], body, -np.inf)
    return out


def _tilt(tables: Sequence[Floats], target: float, tilt: float) -> float:
    """Put in place of log-weights the weights times e^(ηc), η such that they expect the right sum, and return η.

    By Newton's steps in a bracket, from a tilt to begin with.
    """
    powers = np.arange(max(table.shape[1] for table in tables), dtype=np.float64)[:, None] ** [0, 1, 2]
    low, high = -np.inf, np.inf
    for _ in range(200):
        mean = slope = 0.0
        for table in tables:
            for rows in _blocks(table):
                none, first, second = (_tilted(table[rows], tilt) @ powers[: table.shape[1]]).T
                first, second = first / none, second / none
                mean += float(first.sum())
                slope += float(second.sum() - first @ first)
        gap = mean - target
        low, high = (low, tilt) if gap > 0 else (tilt, high)
        if abs(gap) <= 1e-3 + 1e-2 * math.sqrt(max(slope, 0.0)) or high - low < 1e-12 * abs(tilt):
            break
        far = 1 + 2 * abs(tilt)  # where all but one count of each is hopeless, the slope is nothing
        fresh = tilt - min(max(gap / max(slope, 1e-300), -far), far)
        tilt = fresh if low < fresh < high else (low + high) / 2
    for table in tables:
        for rows in _blocks(table):
            weights = _tilted(table[rows], tilt)
            np.divide(weights, weights.sum(axis=1, keepdims=True), out=table[rows])
    return tilt


def _tilted(log_weights: Floats, tilt: float) -> Floats:
    """Return the tilted weights, of which the largest of each row is one."""
    tilted = log_weights + tilt * np.arange(log_weights.shape[1], dtype=np.float64)
    tilted -= tilted.max(axis=1, keepdims=True)
    return np.asarray(np.exp(tilted, out=tilted))


def _blocks(table: Floats) -> Iterator[slice]:
    """Yield some rows at a time, that what is made of them stays near the processor."""
    step = max(_BLOCK // table.shape[1], 1)
    return (slice(first, first + step) for first in range(0, len(table), step))


def polished(
    alpha: Floats, noisy: Floats, counts: Floats, n: int, lattice: float, noise: IntegerNoise, rng: np.random.Generator
) -> Floats:
    """Return coarse draws moved to whole counts that sum to n, by Metropolis steps between pairs of categories."""
    noisy = _nearest(noisy, n, noise)
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

    for rows in _blocks(counts):
        counts[rows] = _paired(counts[rows].T.copy(), log_weight, lattice, rng).T
    return counts


def _paired(
    counts: Floats, log_weight: Callable[[Floats, Any], Floats], lattice: float, rng: np.random.Generator
) -> Floats:
    """Return histograms, a column each, after Metropolis steps between pairs of categories, on scales about a step."""
    size, half = len(counts), len(counts) // 2
    weights = log_weight(counts, np.arange(size)[:, None])
    for _ in range(_ROUNDS):
        both = rng.permutation(size)[: 2 * half]  # one of a pair in each half
        scale = lattice * 2.0 ** rng.uniform(-3, 4)
        move = rng.normal(0, scale, (half, counts.shape[1]))
        np.rint(move, out=move)
        move += rng.integers(-1, 2, move.shape)
        old, before = counts[both], weights[both]
        new = old + np.concatenate([move, -move])
        after = log_weight(new, both[:, None])
        gain = after - before
        taken = -rng.standard_exponential(move.shape) < gain[:half] + gain[half:]
        taken = np.concatenate([taken, taken])
        counts[both], weights[both] = np.where(taken, new, old), np.where(taken, after, before)
    return counts


def _prior_weight(alpha: Floats, n: int, most: int = _TABLED) -> Callable[[Floats, Any], Floats]:
    """Return log Γ(αₖ + c) − log c! as a function of c and k, looked up where a table of all counts is small."""
    kinds, which = np.unique(alpha, return_inverse=True)
    if kinds.size * (n + 1) > most:
        return lambda c, k: _log_rising(alpha[k], c)
    table = _log_rising(kinds[:, None], np.arange(n + 1.0))
    return lambda c, k: np.asarray(table[which[k], c.astype(np.int64)])


def _each_rising(alpha: Floats, counts: Floats) -> Floats:
    """Return log Γ(α + c) − log c! of rows of counts that follow each other, each from the one before it."""
    out = np.log1p((alpha - 1)[:, None] / np.maximum(counts, 2.0))
    none = counts[:, 0] == 0
    out[none, 1:2] = np.log(alpha[none, None])
    out[:, 0] = _log_rising(alpha, counts[:, 0])
    return np.asarray(np.cumsum(out, axis=1, out=out))


def _log_rising(alpha: Floats, counts: Floats) -> Floats:
    """Return log Γ(α + c) − log c!, for many records as one difference: each alone is large, and rounded off so."""
    alpha, counts = np.broadcast_arrays(alpha, counts)
    floored = np.maximum(counts, _MANY)
    first, second = alpha + floored, 1 + floored
    out = (first - 0.5) * np.log1p((alpha - 1) / second) + (alpha - 1) * (np.log(second) - 1)
    out += _stirling(first) - _stirling(second)
    few = counts < _MANY
    out[few] = special.gammaln(alpha[few] + counts[few]) - special.gammaln(counts[few] + 1)
    return np.asarray(out)


def _stirling(x: Floats) -> Floats:
    """Return what log Γ(x) is above (x − ½) log x − x + ½ log 2π."""
    square = 1 / (x * x)
    return (1 / 12 - square * (1 / 360 - square / 1260)) / x
