"""The laws of sums of independent whole numbers in trees: each number's law, and draws of all, given the sum.

A sum of m numbers is √m times as wide as one of them, so a level of a tree of pairs takes 1/√2 of the room of the level
below it, and the whole tree takes room in proportion to how many numbers there are; time too, but for a logarithm.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from sottovoce.privacy.numbers import Floats

__all__ = ["SumForest", "trimmed"]

Whole = NDArray[np.int64]

_TINY = 1e-15
"""What is below this part of a law's largest chance is dropped: the transforms round off no less."""
_BLOCK = 2**17
"""Entries that are worked on at once."""
_FEW = 16
"""Numbers that are not worth guessing, unless the tables are large from which their sum is drawn first otherwise."""
_LARGE = 2**20
"""Entries of such tables."""
_GUESSES = 8
"""How often so many numbers are guessed, and fewer the oftener."""


@dataclass(frozen=True)
class Level:
    """Laws of sums, a row each, in groups of so many, and the sum at which each row begins."""

    fan: int
    start: Whole
    laws: Floats

    @classmethod
    def of(cls, fan: int, start: Whole, laws: Floats) -> Level:
        """Return the level of these laws, with laws of empty sums at the end where a group is not full."""
        more = -len(laws) % fan
        if more:
            nothing = np.zeros((more, laws.shape[1]))
            nothing[:, 0] = 1.0
            start, laws = np.append(start, np.zeros(more, dtype=np.int64)), np.concatenate([laws, nothing])
        return cls(fan, start, laws)

    @property
    def wide(self) -> int:
        """How many values the sum of a group may have."""
        return self.fan * (int(self.laws.shape[1]) - 1) + 1

    @cached_property
    def length(self) -> int:
        """The length of transforms."""
        return int(scipy.fft.next_fast_len(self.wide, real=True))

    @cached_property
    def origin(self) -> Whole:
        """Where the sum of each group begins."""
        return np.asarray(self.start.reshape(-1, self.fan).sum(axis=1))

    @property
    def spectra(self) -> Iterable[tuple[slice, Any]]:
        """Some groups at a time: which, and the transforms of their laws; kept where these are few."""
        step = max(_BLOCK // (self.fan * self.length), 1)
        return self._once if step >= self.origin.size else self._transforms(step)

    @cached_property
    def _once(self) -> list[tuple[slice, object]]:
        return list(self._transforms(self.origin.size))

    def _transforms(self, step: int) -> Iterator[tuple[slice, object]]:
        groups = self.laws.reshape(-1, self.fan, self.laws.shape[1])
        for first in range(0, len(groups), step):
            subset = slice(first, first + step)
            yield subset, scipy.fft.rfft(groups[subset], self.length)

    def chance(self, row: int, sums: object) -> Floats:
        """Return the chances of sums of any shape in one row."""
        law, at = self.laws[row], sums - self.start[row]
        return np.where((at >= 0) & (at < law.size), law[np.clip(at, 0, law.size - 1)], 0.0)


@dataclass(frozen=True)
class SumTree:
    """The laws of single numbers, of sums of groups of them, of groups of groups, …; all but that of the whole sum."""

    levels: tuple[Level, ...]

    @classmethod
    def grow(cls, lowest: Level) -> SumTree:
        """Return the tree above the laws of single numbers."""
        levels = [lowest]
        while len(levels[-1].laws) > lowest.fan:
            levels.append(_added(levels[-1]))
        return cls(tuple(levels))

    def rest(self, start: int, rest: Floats) -> Floats:
        """Return how likely all others make up what is wanted, for every value of each number, up to a factor a row.

        `rest` says how likely each sum of all numbers is wanted, from `start` on: that of a fixed total is one 1.
        """
        result, starts = rest[None], np.array([start])
        for level in reversed(self.levels):
            groups = level.origin.size  # an empty sum is above none
            result, starts = _without_siblings(result[:groups], starts[:groups], level), level.start
        return result

    def draw(self, totals: Whole, rng: np.random.Generator) -> NDArray[np.int32]:
        """Return independent draws of all numbers, a column given each total; groups are pairs."""
        out = np.empty((len(self.levels[0].laws), totals.size), dtype=np.int32)
        below = np.cumsum(self.levels[0].laws, axis=1)
        below /= below[:, -1:]
        self._fill(len(self.levels), 0, totals, np.arange(totals.size), below, out, rng)
        return out

    def _fill(
        self, depth: int, row: int, totals: Whole, where: Whole, below: Floats, out: Any, rng: np.random.Generator
    ) -> None:
        """Draw the numbers under one sum, given it, in some of the columns.

        Numbers of the left half are guessed, as they are without a total, and taken as often as the right half
        makes up for them. Where many guesses have failed, the left half's sum is drawn first.
        """
        if depth == 0:
            out[row, where] = totals
            return
        lower, sums, waiting = self.levels[depth - 1], np.zeros_like(totals), np.arange(totals.size)
        left, right = 2 * row, 2 * row + 1
        first, middle = left << (depth - 1), right << (depth - 1)
        if middle >= len(out):  # the right half is empty
            self._fill(depth - 1, left, totals, where, below, out, rng)
            return
        if middle - first >= _FEW or min(totals.size, lower.wide) * lower.laws.shape[1] > _LARGE:
            most = lower.laws[right].max()
            for _ in range(_GUESSES * max(_FEW // (middle - first), 1)):
                guess = _independent(below[first:middle], waiting.size, rng)
                guess += self.levels[0].start[first:middle, None]
                built = guess.sum(axis=0, dtype=np.int64)
                taken = rng.random(waiting.size) * most < lower.chance(right, totals[waiting] - built)
                out[first:middle, where[waiting[taken]]] = guess[:, taken]
                sums[waiting[taken]] = built[taken]
                seldom = np.count_nonzero(taken) * _FEW < waiting.size
                waiting = waiting[~taken]
                if seldom or not waiting.size:
                    break
        if waiting.size:
            sums[waiting] = _split(lower, left, totals[waiting], rng)
            self._fill(depth - 1, left, sums[waiting], where[waiting], below, out, rng)
        self._fill(depth - 1, right, totals - sums, where, below, out, rng)


@dataclass(frozen=True)
class SumForest:
    """Trees of numbers alike in width, and a tree of their sums: so that few wide laws do not widen all."""

    sizes: tuple[int, ...]
    trees: tuple[SumTree, ...]
    sums: tuple[Level, ...]

    @classmethod
    def grow(cls, tables: Sequence[Floats], fan: int) -> SumForest:
        """Return the forest of numbers with these laws, a row each, from 0 upwards; so many to a group of a tree."""
        trees = tuple(SumTree.grow(Level.of(fan, np.zeros(len(t), dtype=np.int64), t)) for t in tables)
        sums = tuple(_added(tree.levels[-1]) for tree in trees) if len(trees) > 1 else ()
        return cls(tuple(map(len, tables)), trees, sums)

    @cached_property
    def _top(self) -> SumTree:
        wide = max(item.laws.shape[1] for item in self.sums)
        laws = np.stack([np.pad(item.laws[0], (0, wide - item.laws.shape[1])) for item in self.sums])
        return SumTree.grow(Level.of(self.sums[0].fan, np.array([item.start[0] for item in self.sums]), laws))

    def rest(self, total: int) -> Iterator[Floats]:
        """Yield for each table how likely all others make up the total, as `SumTree.rest` does."""
        item = np.ones(1)
        if not self.sums:
            yield self.trees[0].rest(total, item)[: self.sizes[0]]
            return
        for size, tree, full, remainder in zip(
            self.sizes, self.trees, self.sums, self._top.rest(total, item), strict=False
        ):
            yield tree.rest(int(full.start[0]), remainder[: full.laws.shape[1]])[:size]

    def draw(self, total: int, draws: int, rng: np.random.Generator) -> Iterator[NDArray[np.int32]]:
        """Yield for each table independent draws of its numbers, a column each, given the total of all."""
        totals = np.full(draws, total)
        parts = self._top.draw(totals, rng).astype(np.int64) if self.sums else totals[None]
        for size, tree, part in zip(self.sizes, self.trees, parts, strict=False):
            yield tree.draw(part, rng)[:size]


def trimmed(laws: Floats) -> tuple[Whole, Floats]:
    """Return where the laws begin that are left without their negligible ends, and these, all of one width."""
    keep = laws > _TINY * laws.max(axis=1, keepdims=True)
    first, last = keep.argmax(axis=1), laws.shape[1] - keep[:, ::-1].argmax(axis=1)
    wide = int((last - first).max())
    first = np.minimum(first, laws.shape[1] - wide)
    return first, _windows(laws * keep, wide)[np.arange(len(laws)), first]


def _windows(rows: Floats, wide: int) -> Any:
    """Return a view of all stretches of the rows that are so wide."""
    shape = (len(rows), rows.shape[1] - wide + 1, wide)
    return np.lib.stride_tricks.as_strided(rows, shape, (*rows.strides, rows.strides[1]))


def _added(lower: Level) -> Level:
    """Return the laws of the sums of groups."""
    laws = np.empty((lower.origin.size, lower.wide))
    for subset, spectra in lower.spectra:
        laws[subset] = scipy.fft.irfft(spectra.prod(axis=1), lower.length)[:, : lower.wide]
    first, laws = trimmed(laws)
    return Level.of(lower.fan, lower.origin + first, laws / laws.sum(axis=1, keepdims=True))


def _without_siblings(rest: Floats, start: Whole, lower: Level) -> Floats:
    """Return how likely all but one sum make up the total, from the same of the sums of groups."""
    columns, wide = lower.laws.shape[1], lower.wide
    out = np.empty((len(rest), lower.fan, columns))
    # Backwards: what is left over is then a sum too, of the others and what was left over of all.
    first = wide - rest.shape[1] - (start - lower.origin)
    for subset, spectra in lower.spectra:
        full = np.zeros((len(spectra), wide))
        _windows(full, rest.shape[1])[np.arange(len(full)), first[subset]] = rest[subset, ::-1]
        others = _others(spectra, scipy.fft.rfft(full, lower.length))
        out[subset] = scipy.fft.irfft(others, lower.length)[..., wide - columns : wide][..., ::-1]
    np.maximum(out, 0.0, out=out)
    out /= out.max(axis=2, keepdims=True)
    return out.reshape(-1, columns)


def _others(spectra: Any, first: Any) -> Any:
    """Return for each of a group the product of a first factor and all the others: nothing may be divided by."""
    out, after = np.empty_like(spectra), np.array(spectra[:, -1])
    out[:, 0] = first
    for k in range(1, spectra.shape[1]):
        np.multiply(out[:, k - 1], spectra[:, k - 1], out=out[:, k])
    for k in range(spectra.shape[1] - 2, -1, -1):
        out[:, k] *= after
        after *= spectra[:, k]
    return out


def _independent(below: Floats, draws: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Return draws of numbers that have no total to make up, a row a number."""
    level = rng.random((len(below), draws))
    out = np.empty(level.shape, dtype=np.int32)
    for row, chances in enumerate(below):
        out[row] = chances.searchsorted(level[row], side="right")
    return out


def _split(lower: Level, left: int, totals: Whole, rng: np.random.Generator) -> Whole:
    """Return sums of a left half given what it makes with the right one: equal totals share a table."""
    kinds, which = np.unique(totals, return_inverse=True)
    values = lower.start[left] + np.arange(lower.laws.shape[1])
    level, out = np.maximum(rng.random(totals.size), 1e-12), np.empty_like(totals)
    step = max(_BLOCK // values.size, 1)
    for first in range(0, kinds.size, step):
        subset = kinds[first : first + step, None]
        mine = np.flatnonzero((which >= first) & (which < first + step))
        below = np.cumsum(lower.laws[left] * lower.chance(left + 1, subset - values), axis=1)
        below /= below[:, -1:]
        # One search in all tables, one after the other: that of each kind lies between its number and the next.
        table = which[mine] - first
        at = (below + np.arange(subset.size)[:, None]).ravel().searchsorted(table + level[mine])
        out[mine] = values[at - table * values.size]
    return out
