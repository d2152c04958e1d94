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

from sottovoce.inference.regression.noisy_score_information import NoisyScoreInformation
from sottovoce.privacy.numbers import Floats, Mask

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
_NOTHING = -700.0
"""Logarithms of densities end here: those of numbers too small to be whole doubles take several times as long."""
_NONE = 1e-6
"""The least part of a column, as a square, that the others do not explain."""


@dataclass(eq=False)
class MomentGibbsSampler:
    """Guesses of means and covariances, one first index a look and then one a guess, that change until they know no
    more than was seen.

    Attributes
    ----------
    constant, hidden, fewer
        The place of the intercept, which columns each look hides, and how many times fewer draws are made than all, on
        grids of so many times fewer points.
    shape, metric
        T, and T'T, of each look.
    noise, whole
        The noise of the averaged information, and what all records weigh together, of each look.
    told
        What was seen between columns, T'HT, where H is the information in the coordinates of z; of all guesses alike.
    means, covariances
        m and C in the coordinates of x, the constant's mean 1; about zero where there is no constant.
    rows
        By what the rows of the information that is taken for known are multiplied.
    """

    constant: int | None
    hidden: Sequence[Mask]
    fewer: int
    shape: Floats
    metric: Floats
    noise: Floats
    whole: Floats
    told: Floats
    means: Floats
    covariances: Floats
    rows: Floats

    @classmethod
    def over(
        cls,
        seen: Sequence[tuple[NoisyScoreInformation, Floats, float]],
        hidden: Sequence[Mask],
        count: int,
        fewer: int = 1,
    ) -> Self:
        """Return so many guesses of each of several looks of one regression, all of them what is taken for known but
        that columns that spread less than noise does share nothing; with each look the averaged information, and what
        all records weigh. Draws, and the points of their grids, are `fewer` by this factor.
        """
        constant = seen[0][0].constant
        looks, guesses = [], []
        for (glance, average, full), columns in zip(seen, hidden, strict=True):
            T = glance.look.matrix
            back = np.linalg.inv(T)
            moments = back @ average @ back.T / full
            means = np.zeros(len(T)) if constant is None else moments[constant].copy()
            covariances = moments - np.outer(means, means)
            if constant is not None:
                means[constant] = 1.0
                covariances[constant] = covariances[:, constant] = 0.0
            assert glance.information is not None
            remaining = glance.averaged(glance.information) - average
            about = back if constant is None else back - np.outer(means, back[constant])
            shown = np.diag(about @ (average + remaining) @ about.T)
            alone = columns & (shown < _CERTAIN * glance.noise * (about**2).sum(axis=1))
            covariances = _sound(covariances, constant)
            apart = np.where((alone | alone[:, None]) & ~np.eye(len(T), dtype=bool), 0.0, covariances)
            rows = _parted(covariances, apart, means, alone, constant)
            metric = T.T @ T
            seems = T.T @ remaining @ T + full * metric @ (covariances + np.outer(means, means)) @ metric
            looks.append((T, metric, glance.noise, full, seems[None]))
            guesses.append((means, apart, rows))
        each = (np.repeat(np.array(part)[:, None], count, axis=1) for part in zip(*guesses, strict=True))
        return cls(constant, hidden, fewer, *map(np.array, zip(*looks, strict=True)), *each)

    @property
    def grids(self) -> _Grids:
        """The grids on which numbers are drawn."""
        return _Grids.of(self.fewer)

    def lifted(self, count: int) -> Floats:
        """Return for each look and guess the matrix by which rows, in the coordinates of z, are stretched.

        `count` is how many guesses a look has. Every look draws its own columns, all looks side by side: those that
        draw most often come first.
        """
        looks = [_turns(tuple(columns.tolist()), self.constant, count, self.fewer) for columns in self.hidden]
        for place in range(max(map(len, looks))):
            subset = [turns[place] for turns in looks if place < len(turns)]
            drawn = _Drawn(self, np.array([turn.column for turn in subset]))
            for shared in zip(*(turn.shared for turn in subset), strict=True):
                others, places = zip(*shared, strict=True)
                drawn.share(np.array(others), np.array(places))
            if self.constant is not None:
                drawn.move(np.array([turn.middle for turn in subset]))
            drawn.spread(np.array([turn.spread for turn in subset]))
        return np.asarray(self.shape[:, None] @ self.rows @ np.linalg.inv(self.shape)[:, None])


def turns(hidden: Mask) -> int:
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
    rng, columns = np.random.default_rng(11), [k for k, first in enumerate(hidden) if first]
    remainder = {j: [k for k in range(len(hidden)) if k not in (j, constant)] for j in columns}
    others = {j: itertools.cycle(rng.permutation(remainder[j]).tolist()) for j in columns}

    def evenly() -> Floats:
        return np.asarray((rng.permutation(count) + 0.5) / count)

    result = []
    for _ in range(max(_times(len(columns)) // fewer, 1)):
        for column in rng.permutation(columns).tolist():
            subset = itertools.islice(others[column], min(max(_SHARED // fewer, 1), len(remainder[column])))
            shared = [(other, rng.random(count)) for other in subset]
            result.append(_Turn(column, shared, np.empty(0) if constant is None else evenly(), evenly()))
    return result


class _Drawn:
    """Hidden columns that are drawn anew, one a look: what each shares with others, its mean and its spread.

    Looks after those that have a column are left as they are.
    """

    def __init__(self, veil: MomentGibbsSampler, column: NDArray[np.intp]) -> None:
        self.veil, self.column, self.look = veil, column, np.arange(len(column))
        subset = slice(len(column))
        self.metric, self.whole, self.noise = veil.metric[subset], veil.whole[subset, None], veil.noise[subset, None]
        self.means, self.covariances, self.rows = veil.means[subset], veil.covariances[subset], veil.rows[subset]
        self.along = self.metric[self.look, column]
        self.told = veil.told[self.look, :, column]

    def share(self, other: NDArray[np.intp], places: Floats) -> None:
        """Draw how much it shares with another: with p columns a spread of s has the density s^(1/4 - 1 - p)."""
        C, look, column = self.covariances, self.look, self.column
        p = C.shape[2] - (self.veil.constant is not None)
        unit = np.sqrt(C[look, :, other, other])  # the other is measured in its own spread
        remainder = C[look, :, other] / unit[:, :, None]
        diagonal, best = C[look, :, column, column], -remainder[look, :, column]
        remaining = np.maximum(diagonal - best**2, 1e-9 * diagonal)
        wide = np.sqrt(remaining / p)
        change = self._change(remainder, np.ones(places.shape))
        grids = self.veil.grids
        tails = _reached(grids.tails, (-1 - best) / wide, (1 - best) / wide)
        grid = np.concatenate([_line(best, wide, tails), change.near(grids.line, wide)], axis=2)
        np.minimum(np.maximum(grid, -1.0, out=grid), 1.0, out=grid)
        grid.sort(axis=2, kind="stable")  # two sorted halves are merged
        squares = grid - best[:, :, None]
        squares *= squares
        squares += remaining[:, :, None]
        beyond = np.maximum(squares, 1.0)
        beyond *= 1e3
        logs = np.log(squares, out=squares)
        logs *= (POWER - 1 - p) / 2
        logs -= beyond
        logs += change.fits(grid)
        b = _drawn(places, grid, logs)
        self._add(b / unit, other)
        row = C[look, :, column] + b[:, :, None] * remainder
        row[look, :, column] = remaining + (b - best) ** 2
        C[look, :, column] = C[look, :, :, column] = row

    def move(self, places: Floats) -> None:
        """Draw where its mean lies."""
        look, column = self.look, self.column
        change, mean = self._change(self.means, np.ones(places.shape)), self.means[look, :, column]
        grid = _within(change.near(self.veil.grids.line), -1 - mean, 1 - mean)
        b = _drawn(places, grid, change.fits(grid))
        self.rows[look, :, column, self.veil.constant] += b
        self.means[look, :, column] += b

    def spread(self, places: Floats) -> None:
        """Draw how far it spreads about its mean: its covariances go with it."""
        C, look, column = self.covariances, self.look, self.column
        square = C[look, :, column, column]
        change = self._change(C[look, :, column], square)
        least, most = (math.log(end) - np.log(square) / 2 for end in (NARROWEST, 1.0))
        grids = self.veil.grids
        near = np.log(np.maximum(1 + change.near(grids.line, 1.0), 1e-300))
        near = _within(near, least, most)
        logs = np.concatenate([_line(least, most - least, grids.evenly), near], axis=2)
        logs.sort(axis=2, kind="stable")
        a = np.exp(_drawn(places, logs, POWER * logs + change.fits(np.expm1(logs))))
        self._add(a - 1, column)
        C[look, :, column] *= a[:, :, None]
        C[look, :, :, column] *= a[:, :, None]

    def _add(self, b: Floats, other: NDArray[np.intp]) -> None:
        """Add to its rows so many times what another column, or itself, is about its mean."""
        row, constant = self.rows[self.look, :, other], self.veil.constant
        if constant is not None:
            row[:, :, constant] -= self.means[self.look, :, other]
        self.rows[self.look, :, self.column] += b[:, :, None] * row

    def _change(self, functional: Floats, size: Floats) -> _Change:
        full, (look, column) = self.whole, (self.look, self.column)
        lean = full[:, :, None] * (functional @ self.metric)
        # What guesses have of it now, which is not kept: to bring all of that up to date would take far longer.
        along, means = self.along[:, :, None], self.means
        shares = self.covariances.reshape(len(look), -1, means.shape[2]) @ along
        now = shares.reshape(means.shape) + means * (means @ along)
        remaining = self.told - full[:, :, None] * (now @ self.metric)
        return _Change(
            self.along[look, column, None],
            lean[look, :, column],
            full * np.einsum("kgi,kgi->kg", functional, lean),
            full * np.einsum("kgi,kgi->kg", functional, remaining),
            remaining[look, :, column],
            full * size,
            self.noise,
        )


def _sound(covariances: Floats, constant: int | None) -> Floats:
    """Return covariances that some rows have: no spread is next to none, no column is but a sum of others."""
    sd = np.sqrt(np.clip(np.diag(covariances), NARROWEST**2, 1.0))
    values, vectors = np.linalg.eigh(np.clip(covariances / np.outer(sd, sd), -1.0, 1.0))
    result = (vectors * np.maximum(values, _NONE)) @ vectors.T
    near = np.sqrt(np.maximum(np.diag(result), _NONE))
    result = result / np.outer(near, near) * np.outer(sd, sd)
    if constant is not None:
        result[constant] = result[:, constant] = 0.0
    return np.asarray(result)


def _parted(covariances: Floats, apart: Floats, means: Floats, alone: Mask, constant: int | None) -> Floats:
    """Return by what rows are multiplied that have other covariances then, of some columns alone."""
    order = [k for k in np.argsort(alone, kind="stable") if k != constant]
    subset = np.ix_(order, order)
    rows = np.eye(len(means))
    rows[subset] = np.linalg.cholesky(apart[subset]) @ np.linalg.inv(np.linalg.cholesky(covariances[subset]))
    if constant is not None:
        rows[order, constant] = means[order] - rows[subset] @ means[order]
    return rows


@dataclass(frozen=True, eq=False)
class _Change:
    """A multiple b of a functional of a row, added to a column, changes the information by b(gu' + ug') + b²c·gg'.

    Attributes
    ----------
    along, both, aside
        g'g, g'u and u'u.
    seen, own
        What was seen along g and u, and along g and g, beside the guess.
    size, noise
        c and the noise of the information.
    """

    along: Floats
    both: Floats
    aside: Floats
    seen: Floats
    own: Floats
    size: Floats
    noise: Floats

    def near(self, line: Floats, most: Floats | float = math.inf) -> Floats:
        """Return a grid of b about what was seen, as wide as its noise but in steps of no more than `most`'s."""
        across = np.maximum(self.along * self.aside + self.both**2, 1e-100)
        return _line(self.seen / across, np.minimum(self.noise / np.sqrt(2 * across), most), line)

    def fits(self, b: Floats) -> Floats:
        """Return the logarithm of how well each b fits what was seen."""
        scale = -0.5 / self.noise**2
        second = 2 * (self.along * self.aside + self.both**2 - self.size * self.own)
        result: Floats = ((self.size * self.along) ** 2 * scale)[:, :, None] * b
        for part in (4 * self.size * self.along * self.both, second, -4 * self.seen):
            result += (part * scale)[:, :, None]
            result *= b
        return result


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


def _line(middle: Floats, wide: Floats, points: Floats) -> Floats:
    """Return such points of every guess, so wide and about such a middle."""
    result: Floats = wide[:, :, None] * points
    result += middle[:, :, None]
    return result


def _reached(points: Floats, low: Floats, high: Floats) -> Floats:
    """Return rising points but those beyond all of these ends, where all of them would be moved to the ends."""
    first, last = points.searchsorted([low.min(), high.max()])
    return points[max(first - 1, 0) : last + 1]


def _within(grid: Floats, low: Floats, high: Floats) -> Floats:
    """Move what lies beyond either end to it, in place."""
    return np.minimum(np.maximum(grid, low[:, :, None], out=grid), high[:, :, None], out=grid)


def _drawn(places: Floats, grid: Floats, logs: Floats) -> Floats:
    """Return each number at a place of its law, given on a grid by the logarithm of its density."""
    grid, logs = (part.reshape(places.size, -1) for part in (grid, logs))
    logs -= np.maximum.reduce(logs, axis=1, keepdims=True)
    weights = np.exp(np.maximum(logs, _NOTHING, out=logs), out=logs)
    parts = grid[:, 1:] - grid[:, :-1]
    parts *= weights[:, 1:] + weights[:, :-1]
    sums = np.add.accumulate(parts, axis=1)
    wanted, rows = places.ravel() * sums[:, -1], np.arange(places.size)
    at = (sums < wanted[:, None]).argmin(axis=1)  # the last sum is no less than wanted
    beyond = (sums[rows, at] - wanted) / np.maximum(parts[rows, at], 1e-300)
    start, end = grid[rows, at], grid[rows, at + 1]
    return np.asarray(end - np.minimum(beyond, 1.0) * (end - start)).reshape(places.shape)
