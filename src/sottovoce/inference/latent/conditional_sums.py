"""Whole numbers with weights of their own, drawn given what they add up to: no chain, every draw independent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import fft, ndimage, optimize

from sottovoce.privacy.numbers import Floats, Integers

_SHORT = 64
"""Sums with a list no longer than this are worked out in logarithms, and none of their weights is too small."""
_LEAST, _TRUSTED = 1e-12, 1e-8
"""Of the others, the largest being 1: a smaller weight is none (rounding may have made it), and one not to lean on."""
_ROUNDS = 30
"""How many tries a draw gets before all weights are looked at."""


@dataclass(frozen=True, eq=False)
class Parts:
    r"""One whole number with its weights, or several with the weights of their sum: :math:`\sum \prod_k w_k(x_k)`.

    All weights are multiplied by :math:`e^{s x}` with the same tilt s, which changes nothing given the sum; with a
    tilt that brings the sum near a number, sums about it are exact to many digits, however unlikely it was.

    Attributes
    ----------
    first
        The least number with a weight.
    logs
        The logarithms of the tilted weights of `first` and the numbers after it; the largest is 0.
    log_top
        The logarithm of the largest tilted weight.
    tilt
        s.
    cut
        Whether weights were left out because they are small, below and above.
    halves
        The two sums that this one is the sum of; None for one number.

    Examples
    --------
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> die = (1, np.zeros(6))
    >>> two = Parts.near([die, die], total=7, most=12)
    >>> np.exp(two.log_weight(np.array([2, 7, 13]))).round(6).tolist()
    [1.0, 6.0, 0.0]
    >>> two.draw(np.array([2, 12]), seeded_rng(1)).tolist()
    [[1, 1], [6, 6]]
    """

    first: int
    logs: Floats
    log_top: float
    tilt: float = 0.0
    cut: tuple[bool, bool] = (False, False)
    halves: tuple[Parts, Parts] | None = None

    @classmethod
    def near(cls, numbers: Sequence[tuple[int, Floats]], total: int, most: int) -> Parts:
        """Return the sum, up to `most`, of numbers, each its least and the logarithms of its weights from there on.

        Where `total` would be too unlikely to be told, they are tilted towards it.
        """
        plain = cls._sum([cls._one(first, logs, 0.0) for first, logs in numbers], most)
        if plain.trusts(np.array([total])):
            return plain
        tilt = _tilt_towards(numbers, total)
        return cls._sum([cls._one(first, logs, tilt) for first, logs in numbers], most) if tilt else plain

    @classmethod
    def _one(cls, first: int, log_weights: Floats, tilt: float) -> Parts:
        logs = log_weights + tilt * (first + np.arange(len(log_weights))) if tilt else log_weights
        top = float(logs.max())
        if len(logs) <= _SHORT:
            return cls(first, logs - top, top, tilt)
        # With one more on each side: of a quiet number's list a single place would be left, an end on both sides.
        near = np.flatnonzero(logs - top > np.log(_LEAST))
        low, high = max(int(near[0]) - 1, 0), int(near[-1]) + 2
        return cls(first + low, logs[low:high] - top, top, tilt, (low > 0, high < len(logs)))

    @classmethod
    def _sum(cls, parts: Sequence[Parts], most: int) -> Parts:
        if len(parts) == 1:
            return parts[0]
        middle = len(parts) // 2
        left, right = cls._sum(parts[:middle], most), cls._sum(parts[middle:], most)
        first, short = left.first + right.first, min(len(left.logs), len(right.logs)) <= _SHORT
        logs = _log_convolved(left.logs, right.logs) if short else _convolved(left.weights, right.weights)
        logs = logs[: max(most - first + 1, 1)]
        top = float(logs.max())
        cut = left.cut[0] or right.cut[0], (left.cut[1] or right.cut[1]) and first + len(logs) <= most
        full = cls(first, logs - top, left.log_top + right.log_top + top, left.tilt, cut, (left, right))
        return full if short else full._trimmed()

    def _trimmed(self) -> Parts:
        """Return the same without weights that are too small to be told from rounding."""
        near = np.flatnonzero(self.logs > np.log(_LEAST))
        low, high = int(near[0]), int(near[-1]) + 1
        logs = np.where(self.logs[low:high] > np.log(_LEAST), self.logs[low:high], -np.inf)
        cut = self.cut[0] or low > 0, self.cut[1] or high < len(self.logs)
        return Parts(self.first + low, logs, self.log_top, self.tilt, cut, self.halves)

    @cached_property
    def weights(self) -> Floats:
        """The tilted weights, 1 at most."""
        return np.exp(self.logs)

    @property
    def last(self) -> int:
        """The largest number with a weight."""
        return self.first + len(self.logs) - 1

    def _log_tilted(self, x: Integers) -> Floats:
        place = x - self.first
        inside = (place >= 0) & (place < len(self.logs))
        return np.where(inside, self.logs[np.where(inside, place, 0)], -np.inf)

    def log_weight(self, x: Integers) -> Floats:
        """Return the logarithms of the weights of sums, the tilt taken out."""
        return np.asarray(self._log_tilted(x) + self.log_top - self.tilt * x)

    def trusts(self, x: Integers) -> bool:
        """Whether the weights of these sums are told to many digits, and nothing next to them was left out."""
        low, high = int(x.min()), int(x.max())
        if low < self.first or high > self.last:
            return False
        if any(self.cut):
            inner = (not self.cut[0] or low > self.first) and (not self.cut[1] or high < self.last)
            return inner and bool(self._log_tilted(x).min() >= np.log(_TRUSTED))
        return bool(np.isfinite(self._log_tilted(x)).all())

    def draw(self, totals: Integers, rng: np.random.Generator) -> Integers:
        """Draw all numbers given each of the totals, which must have a weight: (totals, numbers)."""
        if self.halves is None:
            return totals[:, None]
        left, right = self.halves
        swap = len(right.logs) < len(left.logs)
        near, other = (right, left) if swap else (left, right)
        split = _split_all if len(near.logs) <= _SHORT else _split_blocks
        drawn = near.first + split(near, other, totals - near.first - other.first, rng)
        drawn = np.clip(drawn, totals - other.last, totals - other.first)  # whatever rounding did, all are on a list
        remainder = totals - drawn
        first, second = (remainder, drawn) if swap else (drawn, remainder)
        return np.concatenate([left.draw(first, rng), right.draw(second, rng)], axis=1)


def _split_all(near: Parts, other: Parts, totals: Integers, rng: np.random.Generator) -> Integers:
    """Draw places i of `near` by its weight there times that of `other` at total - i: every one is looked at."""
    remainder = totals[:, None] - np.arange(len(near.logs))
    logs = near.logs + other._log_tilted(other.first + remainder)
    return _first_above(np.cumsum(np.exp(logs - logs.max(axis=1, keepdims=True)), axis=1), rng)


def _split_blocks(near: Parts, other: Parts, totals: Integers, rng: np.random.Generator) -> Integers:
    """Draw the same with a few tries a total.

    A block of places is drawn by the most that it could weigh, a place in it by `near`, and it is kept by what
    `other` says of the rest. Where little is left for `other`, whose weights may fall steeply from their first on,
    places are drawn one by one.
    """
    ours, theirs = near.weights, other.weights
    size = int(np.sqrt(len(ours))) + 1
    blocks = np.zeros(-(-len(ours) // size) * size)
    blocks[: len(ours)] = ours
    below = np.cumsum(blocks.reshape(-1, size), axis=1)
    first, theirs = theirs[:size], np.concatenate([np.zeros(min(size, len(theirs))), theirs[size:]])
    # The largest of the `size` weights of the other that end at each place.
    padded = np.concatenate([np.zeros(size - 1), theirs, np.zeros(size)])
    largest = ndimage.maximum_filter1d(padded, size, origin=(size - 1) // 2)[size - 1 :]
    start = totals[:, None] - size * np.arange(len(below))
    bound = np.where((start >= 0) & (start < len(largest)), largest[np.clip(start, 0, len(largest) - 1)], 0.0)
    single = totals[:, None] - np.arange(len(first))
    weights = np.where((single >= 0) & (single < len(ours)), ours[np.clip(single, 0, len(ours) - 1)] * first, 0.0)
    above = np.cumsum(np.concatenate([bound * below[:, -1], weights], axis=1), axis=1)
    drawn, waiting = np.zeros(len(totals), dtype=np.int64), np.arange(len(totals))
    for _ in range(_ROUNDS):
        pick = _first_above(above[waiting], rng)
        block, sure = np.minimum(pick, len(below) - 1), pick >= len(below)
        place = size * block + _first_above(below[block], rng)
        place = np.where(sure, totals[waiting] - (pick - len(below)), place)
        remainder = totals[waiting] - place
        inside = (remainder >= 0) & (remainder < len(theirs))
        weight = np.where(inside, theirs[np.where(inside, remainder, 0)], 0.0)
        kept = sure | (rng.random(len(waiting)) * bound[waiting, block] < weight)
        drawn[waiting[kept]] = place[kept]
        waiting = waiting[~kept]
        if not len(waiting):
            return drawn
    theirs = other.weights
    for i in waiting:
        low, high = max(totals[i] - len(theirs) + 1, 0), min(totals[i] + 1, len(ours))
        every = ours[low:high] * theirs[totals[i] - high + 1 : totals[i] - low + 1][::-1]
        drawn[i] = low + _first_above(np.cumsum(every)[None], rng)[0]
    return drawn


def _first_above(sums: Floats, rng: np.random.Generator) -> Integers:
    """Draw a place of each row by weights of which the sums up to each place are given."""
    place = (sums <= rng.random((len(sums), 1)) * sums[:, -1:]).sum(axis=1)
    return np.asarray(np.minimum(place, sums.shape[1] - 1))


def _tilt_towards(numbers: Sequence[tuple[int, Floats]], total: int) -> float:
    """Return the tilt that makes `total` the mean of the sum; zero where the lists do not reach it."""

    def excess(tilt: float) -> float:
        mean = 0.0
        for first, logs in numbers:
            x = np.arange(len(logs))
            tilted = logs + tilt * x
            weights = np.exp(tilted - tilted.max())
            mean += first + float(weights @ x / weights.sum())
        return mean - total

    start = excess(0.0)
    step = -np.sign(start) / max(2, *(len(logs) for _, logs in numbers))
    for _ in range(60):
        if excess(step) * start < 0:
            return float(optimize.brentq(excess, 0.0, step, rtol=1e-4))
        step *= 2
    return 0.0


def _log_convolved(left: Floats, right: Floats) -> Floats:
    """Return the logarithms of the convolution of weights given by theirs."""
    short, long = sorted((left, right), key=len)
    out = np.full(len(short) + len(long) - 1, -np.inf)
    for i, value in enumerate(short):
        subset = slice(i, i + len(long))
        np.logaddexp(out[subset], value + long, out=out[subset])
    return out


def _convolved(left: Floats, right: Floats) -> Floats:
    """Return the same for long lists of weights; rounding is some 1e-14 of the largest."""
    size = len(left) + len(right) - 1
    padded = fft.next_fast_len(size, real=True)
    product = fft.rfft(left, padded) * fft.rfft(right, padded)
    return np.log(np.maximum(fft.irfft(product, padded)[:size], 1e-300))
