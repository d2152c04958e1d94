r"""What noise hides of some columns of a look: guesses of their spreads, their means and what they share with others.

The information of a look, averaged over the linear predictors, is that of n weighed records with means m and
covariances C; it was seen with noise of a known size. Every guess is the end of a chain that draws, again and again and
for one hidden column at a time, given all else: how much it shares with another column, where its mean lies, how far it
spreads. Chains begin at what is taken for known, for columns that share nearly all, such as a number, its square and
its cube, would not meet from where they share nothing; but columns of which noise hides even how far they spread begin
there, for what they seem to share is noise. Before anything is seen a mean may lie anywhere in the public range, all
correlations are as likely, and

.. math:: p(s) \propto s^{1/4 - 1}, \qquad 0 < s \le 1,

is the law of a spread in units of half that range. Each change adds a multiple of one functional of a row to one
column, so the information changes by b(gu' + ug') + b²c·gg', and how well that fits is a polynomial in b.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.numbers import Floats
from sottovoce.regression.glances import Glance

__all__ = ["NARROWEST", "POWER", "Veil", "turns"]

POWER = 0.25
"""P(spread < s) = s to this power."""
NARROWEST = 1e-5
"""Columns are taken to spread over no less than this part of half their public range."""
_LEAST, _MOST, _DRAWS = 8, 20, 80
"""How often every hidden column is drawn anew: so many draws of all of them, at least and at most so often of each."""
_SHARED = 3
"""With how many others each time."""
_FINE, _COARSE = 128, 48
"""Points of a grid of spreads, and of a grid about a normal law's middle; twice as many where its tails are long."""
_SIDES = 6.0
_CERTAIN = 6.0
"""A column that spreads by this many times the noise of it is seen to spread."""
_NONE = 1e-6
"""The least part of a column, as a square, that the others do not explain."""


@dataclass(eq=False)
class Veil:
    """Guesses of means and covariances, one first index a guess, that change until they know no more than was seen.

    Attributes
    ----------
    constant, hidden, fewer
        The place of the intercept, which columns each look hides, and how many times fewer draws are made than all, on
        grids of so many times fewer points.
    shape, metric
        T, and T'T.
    noise, whole
        The noise of the averaged information, and what all records weigh together.
    means, covariances
        m and C in the coordinates of x, the constant's mean 1; about zero where there is no constant.
    rows
        By what the rows of the information that is taken for known are multiplied.
    left
        What was seen beside each guess, between columns: T'LT of what it is in the coordinates of z.
    """

    constant: int | None
    hidden: Sequence[NDArray[np.bool_]]
    fewer: int
    shape: Floats
    metric: Floats
    noise: Floats
    whole: Floats
    means: Floats
    covariances: Floats
    rows: Floats
    left: Floats

    @classmethod
    def over(
        cls,
        seen: Sequence[tuple[Glance, Floats, float]],
        hidden: Sequence[NDArray[np.bool_]],
        count: int,
        fewer: int = 1,
    ) -> Self:
        """Return so many guesses of each of several looks of one regression, all of them what is taken for known but
        that columns that spread less than noise does share nothing; with each look the averaged information, and what
        all records weigh. Draws, and the points of their grids, are `fewer` by this factor.
        """
        constant = seen[0][0].constant
        parts = []
        for (glance, average, whole), columns in zip(seen, hidden, strict=True):
            T = glance.look.matrix
            back = np.linalg.inv(T)
            moments = back @ average @ back.T / whole
            means = np.zeros(len(T)) if constant is None else moments[constant].copy()
            covariances = moments - np.outer(means, means)
            if constant is not None:
                means[constant] = 1.0
                covariances[constant] = covariances[:, constant] = 0.0
            assert glance.information is not None
            left = glance.averaged(glance.information) - average
            about = back if constant is None else back - np.outer(means, back[constant])
            told = np.diag(about @ (average + left) @ about.T)
            alone = columns & (told < _CERTAIN * glance.noise * (about**2).sum(axis=1))
            covariances = _sound(covariances, constant)
            apart = np.where((alone | alone[:, None]) & ~np.eye(len(T), dtype=bool), 0.0, covariances)
            rows = _parted(covariances, apart, means, alone, constant)
            metric = T.T @ T
            left = T.T @ left @ T + whole * metric @ (covariances - apart) @ metric
            parts.append((T, metric, glance.noise, whole, means, apart, rows, left))
        each = (np.repeat(np.array(part), count, axis=0) for part in zip(*parts, strict=True))
        return cls(constant, hidden, fewer, *each)

    @property
    def grids(self) -> _Grids:
        """The grids on which numbers are drawn."""
        return _Grids.of(self.fewer)

    def lifted(self, count: int) -> Floats:
        """Return for each guess the matrix by which rows, in the coordinates of z, are stretched.

        `count` is how many guesses a look has. Every look draws its own columns, all looks side by side: those that
        draw most often come first.
        """
        looks = [_turns(tuple(columns.tolist()), self.constant, count, self.fewer) for columns in self.hidden]
        for place in range(max(map(len, looks))):
            some = [turns[place] for turns in looks if place < len(turns)]
            drawn = _Drawn(self, np.repeat([turn.column for turn in some], count))
            for shared in zip(*(turn.shared for turn in some), strict=True):
                others, places = zip(*shared, strict=True)
                drawn.share(np.repeat(others, count), np.concatenate(places))
            if self.constant is not None:
                drawn.move(np.concatenate([turn.middle for turn in some]))
            drawn.spread(np.concatenate([turn.spread for turn in some]))
            drawn.done()
        return np.asarray(self.shape @ self.rows @ np.linalg.inv(self.shape))


def turns(hidden: NDArray[np.bool_]) -> int:
    """Return how often a look that hides these columns draws one of them."""
    return int(hidden.sum()) * _times(int(hidden.sum()))


def _times(columns: int) -> int:
    return min(max(_DRAWS // max(columns, 1), _LEAST), _MOST)


@dataclass(frozen=True, eq=False)
class _Turn:
    """A hidden column of a look that is drawn anew, and the places that its numbers have in their laws, by guess.

    `shared` is with which others, and where, `middle` where its mean lies (if there is a constant) and `spread` how far
    it spreads.
    """

    column: int
    shared: list[tuple[int, Floats]]
    middle: Floats
    spread: Floats


@functools.lru_cache(maxsize=32)
def _turns(hidden: tuple[bool, ...], constant: int | None, count: int, fewer: int) -> list[_Turn]:
    """Return what a look draws, one hidden column after the other, again and again; always the same."""
    rng, columns = np.random.default_rng(11), [k for k, one in enumerate(hidden) if one]
    rest = {j: [k for k in range(len(hidden)) if k not in (j, constant)] for j in columns}
    others = {j: itertools.cycle(rng.permutation(rest[j]).tolist()) for j in columns}

    def evenly() -> Floats:
        return np.asarray((rng.permutation(count) + 0.5) / count)

    found = []
    for _ in range(max(_times(len(columns)) // fewer, 1)):
        for column in rng.permutation(columns).tolist():
            some = itertools.islice(others[column], min(max(_SHARED // fewer, 1), len(rest[column])))
            shared = [(other, rng.random(count)) for other in some]
            found.append(_Turn(column, shared, np.empty(0) if constant is None else evenly(), evenly()))
    return found


class _Drawn:
    """Hidden columns that are drawn anew, one a guess: what each shares with others, its mean and its spread.

    All of that moves but one row and one column of what was seen, so that only they are kept up to date until `done`.
    Guesses after those that have a column are left as they are.
    """

    def __init__(self, veil: Veil, column: NDArray[np.intp]) -> None:
        self.veil, self.column, self.guess = veil, column, np.arange(len(column))
        self.whole, self.noise = veil.whole[: len(column)], veil.noise[: len(column)]
        self.metric, self.left = (part[self.guess, :, column] for part in (veil.metric, veil.left))
        self.added = np.zeros_like(self.left)

    def share(self, other: NDArray[np.intp], places: Floats) -> None:
        """Draw how much it shares with another: with p columns a spread of s has the density s^(1/4 - 1 - p)."""
        C, each, column = self.veil.covariances, self.guess, self.column
        p = C.shape[1] - (self.veil.constant is not None)
        own, both, size = (C[each, i, j] for i, j in ((column, column), (column, other), (other, other)))
        left = np.maximum(own - both**2 / size, 1e-9 * own)
        best, wide, most = -both / size, np.sqrt(left / size / p), np.sqrt(1 / size)
        rest = C[each, other]
        change = self._change(rest, size)
        grids = self.veil.grids
        grid = np.concatenate([best[:, None] + wide[:, None] * grids.tails, change.near(grids.line, wide)], axis=1)
        grid = _within(grid, -most[:, None], most[:, None])
        grid.sort(axis=1, kind="stable")  # two sorted halves are merged
        squares = (grid - best[:, None]) ** 2
        squares *= size[:, None]
        squares += left[:, None]
        logs = squares / own[:, None]
        np.log(logs, out=logs)
        logs *= (POWER - 1 - p) / 2
        beyond = np.maximum(np.subtract(squares, 1.0, out=squares), 0.0, out=squares)
        beyond *= 1e3
        logs -= beyond
        logs += change.fits(grid)
        b = _drawn(places, grid, logs)
        self._apply(change, b)
        self._add(b, other)
        row = C[each, column] + b[:, None] * rest
        row[each, column] = left + size * (b - best) ** 2
        C[each, column] = C[each, :, column] = row

    def move(self, places: Floats) -> None:
        """Draw where its mean lies."""
        veil, at = self.veil, (self.guess, self.column)
        change = self._change(veil.means[: len(at[0])], np.ones(len(at[0])))
        grid = _within(change.near(veil.grids.line), *(side - veil.means[at][:, None] for side in (-1.0, 1.0)))
        b = _drawn(places, grid, change.fits(grid))
        self._apply(change, b)
        veil.rows[*at, veil.constant] += b
        veil.means[at] += b

    def spread(self, places: Floats) -> None:
        """Draw how far it spreads about its mean: its covariances go with it."""
        C, each, column = self.veil.covariances, self.guess, self.column
        square = C[each, column, column]
        change = self._change(C[each, column], square)
        least, most = (np.log(end) - np.log(square)[:, None] / 2 for end in (NARROWEST, 1.0))
        grids = self.veil.grids
        near = np.log(np.maximum(1 + change.near(grids.line, 1.0), 1e-300))
        logs = _within(np.concatenate([least + (most - least) * grids.evenly, near], axis=1), least, most)
        logs.sort(axis=1, kind="stable")
        a = np.exp(_drawn(places, logs, POWER * logs + change.fits(np.expm1(logs))))
        self._apply(change, a - 1)
        self._add(a - 1, column)
        C[each, column] *= a[:, None]
        C[each, :, column] *= a[:, None]

    def done(self) -> None:
        """Bring all of what was seen up to date."""
        added = self.added[:, :, None] * self.metric[:, None]
        left = self.veil.left[: len(added)]
        left -= added
        left -= added.transpose(0, 2, 1)

    def _add(self, b: Floats, other: NDArray[np.intp]) -> None:
        """Add to its rows so many times what another column, or itself, is about its mean."""
        veil = self.veil
        row = veil.rows[self.guess, other]
        if veil.constant is not None:
            row[:, veil.constant] -= veil.means[self.guess, other]
        veil.rows[self.guess, self.column] += b[:, None] * row

    def _change(self, functional: Floats, size: Floats) -> _Change:
        whole, at = self.whole, (self.guess, self.column)
        lean = whole[:, None] * (self.veil.metric[: len(whole)] @ functional[:, :, None])[:, :, 0]
        return _Change(
            self.metric[at],
            lean[at],
            whole * np.add.reduce(functional * lean, axis=1),
            whole * np.add.reduce(functional * self.left, axis=1),
            self.left[at],
            lean,
            whole * size,
            self.noise,
        )

    def _apply(self, change: _Change, b: Floats) -> None:
        added = b[:, None] * (change.lean + (b * change.size / 2)[:, None] * self.metric)
        self.left -= added * change.along[:, None] + self.metric * added[self.guess, self.column][:, None]
        self.added += added


def _sound(covariances: Floats, constant: int | None) -> Floats:
    """Return covariances that some rows have: no spread is next to none, no column is but a sum of others."""
    sd = np.sqrt(np.clip(np.diag(covariances), NARROWEST**2, 1.0))
    values, vectors = np.linalg.eigh(np.clip(covariances / np.outer(sd, sd), -1.0, 1.0))
    found = (vectors * np.maximum(values, _NONE)) @ vectors.T
    near = np.sqrt(np.maximum(np.diag(found), _NONE))
    found = found / np.outer(near, near) * np.outer(sd, sd)
    if constant is not None:
        found[constant] = found[:, constant] = 0.0
    return np.asarray(found)


def _parted(
    covariances: Floats, apart: Floats, means: Floats, alone: NDArray[np.bool_], constant: int | None
) -> Floats:
    """Return by what rows are multiplied that have other covariances then, of some columns alone."""
    order = [k for k in np.argsort(alone, kind="stable") if k != constant]
    some = np.ix_(order, order)
    rows = np.eye(len(means))
    rows[some] = np.linalg.cholesky(apart[some]) @ np.linalg.inv(np.linalg.cholesky(covariances[some]))
    if constant is not None:
        rows[order, constant] = means[order] - rows[some] @ means[order]
    return rows


@dataclass(frozen=True, eq=False)
class _Change:
    """A multiple b of a functional of a row, added to a column, changes the information by b(gu' + ug') + b²c·gg'.

    Attributes
    ----------
    along, both, aside
        g'g, g'u and u'u.
    seen, own
        What was seen along g and u, and along g and g.
    lean, size, noise
        T'u, c and the noise of the information.
    """

    along: Floats
    both: Floats
    aside: Floats
    seen: Floats
    own: Floats
    lean: Floats
    size: Floats
    noise: Floats

    def near(self, line: Floats, most: Floats | float = math.inf) -> Floats:
        """Return a grid of b about what was seen, as wide as its noise but in steps of no more than `most`'s."""
        across = np.maximum(self.along * self.aside + self.both**2, 1e-100)
        best, sd = self.seen / across, self.noise / np.sqrt(2 * across)
        return np.asarray(best[:, None] + np.minimum(sd, most)[:, None] * line)

    def fits(self, b: Floats) -> Floats:
        """Return the logarithm of how well each b fits what was seen."""
        scale = -0.5 / self.noise**2
        second = 2 * (self.along * self.aside + self.both**2 - self.size * self.own)
        found: Floats = ((self.size * self.along) ** 2 * scale)[:, None] * b
        for part in (4 * self.size * self.along * self.both, second, -4 * self.seen):
            found += (part * scale)[:, None]
            found *= b
        return found


@dataclass(frozen=True, eq=False)
class _Grids:
    """Points from 0 to 1, about the middle of a normal law, and of one with tails like a power's: far apart there."""

    evenly: Floats
    line: Floats
    tails: Floats

    @classmethod
    @functools.cache
    def of(cls, fewer: int) -> Self:
        """Return grids of so many times fewer points than all."""
        line, ends = np.linspace(-_SIDES, _SIDES, _COARSE // fewer), np.linspace(-10, 10, 2 * _COARSE // fewer)
        return cls(np.linspace(0.0, 1.0, _FINE // fewer), line, np.sinh(ends))


def _within(grid: Floats, low: Floats, high: Floats) -> Floats:
    """Move what lies beyond either end to it, in place."""
    return np.minimum(np.maximum(grid, low, out=grid), high, out=grid)


def _drawn(places: Floats, grid: Floats, logs: Floats) -> Floats:
    """Return each number at a place of its law, given on a grid by the logarithm of its density."""
    logs -= np.maximum.reduce(logs, axis=1, keepdims=True)
    weights = np.exp(logs, out=logs)
    sums = np.zeros(grid.shape)
    parts = grid[:, 1:] - grid[:, :-1]
    parts *= weights[:, 1:] + weights[:, :-1]
    np.add.accumulate(parts, axis=1, out=sums[:, 1:])
    wanted = places * sums[:, -1]
    after = np.maximum((sums < wanted[:, None]).argmin(axis=1), 1)  # the last sum is no less than wanted
    rows = np.arange(len(grid))
    low, high = sums[rows, after - 1], sums[rows, after]
    part = np.minimum((wanted - low) / np.maximum(high - low, 1e-300), 1.0)
    start = grid[rows, after - 1]
    return np.asarray(start + np.maximum(part, 0.0) * (grid[rows, after] - start))
