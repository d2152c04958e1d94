r"""What noise hides of some columns of a look: guesses of their spreads, their means and what they share with others.

The information of a look, averaged over the linear predictors, is that of n weighed records with means m and
covariances C; it was seen with noise of a known size. Every guess is the end of a chain that draws, again and again and
for one hidden column at a time, given all else: how much it shares with another column, where its mean lies, how far it
spreads. Chains begin where hidden columns share nothing, for what they seem to share may be noise. Before anything is
seen a mean may lie anywhere in the public range, all correlations are as likely, and

.. math:: p(s) \propto s^{1/4 - 1}, \qquad 0 < s \le 1,

is the law of a spread in units of half that range. Each change adds a multiple of one functional of a row to one
column, so the information changes by b(gu' + ug') + b²c·gg', and how well that fits is a polynomial in b.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.numbers import Floats
from sottovoce.regression.glances import Glance

__all__ = ["NARROWEST", "POWER", "Veil"]

POWER = 0.25
"""P(spread < s) = s to this power."""
NARROWEST = 1e-5
"""Columns are taken to spread over no less than this part of half their public range."""
_LEAST, _MOST, _DRAWS = 8, 20, 80
"""How often every hidden column is drawn anew: so many draws of all of them, at least and at most so often of each."""
_SHARED = 3
"""With how many others each time."""
_FINE, _COARSE = 128, 48
"""Points of a grid of spreads, and of a grid about a normal law's middle."""
_SIDES = 6.0
_NONE = 1e-6
"""The least part of a column, as a square, that the others do not explain."""


@dataclass(eq=False)
class Veil:
    """Guesses of means and covariances, one first index a guess, that change until they know no more than was seen.

    Attributes
    ----------
    noise, shape, constant, hidden
        The noise of the averaged information, T, the place of the intercept and which columns are hidden.
    whole
        What all records weigh together.
    means, covariances
        m and C in the coordinates of x, the constant's mean 1; about zero where there is no constant.
    rows
        By what the rows of the information that is taken for known are multiplied.
    left
        What was seen beside each guess, in the coordinates of z.
    """

    noise: float
    shape: Floats
    constant: int | None
    hidden: NDArray[np.bool_]
    whole: float
    means: Floats
    covariances: Floats
    rows: Floats
    left: Floats

    @classmethod
    def over(cls, glance: Glance, average: Floats, hidden: NDArray[np.bool_], whole: float, count: int) -> Self:
        """Return so many guesses, all of them what is taken for known but that hidden columns share nothing."""
        T = glance.look.matrix
        back = np.linalg.inv(T)
        moments = back @ average @ back.T / whole
        means = np.zeros(len(T)) if glance.constant is None else moments[glance.constant].copy()
        covariances = moments - np.outer(means, means)
        if glance.constant is not None:
            means[glance.constant] = 1.0
            covariances[glance.constant] = covariances[:, glance.constant] = 0.0
        covariances = _sound(covariances, glance.constant)
        off = hidden | hidden[:, None]
        np.fill_diagonal(off, False)
        apart = np.where(off, 0.0, covariances)
        rows = _parted(covariances, apart, means, hidden, glance.constant)
        assert glance.information is not None
        left = glance.averaged(glance.information) - average + whole * T @ (covariances - apart) @ T.T
        several = (np.tile(one, (count, *[1] * one.ndim)) for one in (means, apart, rows, left))
        return cls(glance.noise, T, glance.constant, hidden, whole, *several)

    def lifted(self) -> Floats:
        """Return for each guess the matrix by which rows, in the coordinates of z, are stretched."""
        rng, count, d = np.random.default_rng(11), len(self.means), len(self.shape)
        columns = [int(k) for k in np.flatnonzero(self.hidden)]
        others = {j: rng.permutation([k for k in range(d) if k not in (j, self.constant)]).tolist() for j in columns}
        turns = {j: itertools.cycle(others[j]) for j in columns}
        for _ in range(min(max(_DRAWS // len(columns), _LEAST), _MOST)):
            for column in rng.permutation(columns).tolist():
                for other in itertools.islice(turns[column], min(_SHARED, len(others[column]))):
                    self._share(column, other, rng.random(count))
                if self.constant is not None:
                    self._move(column, (rng.permutation(count) + 0.5) / count)
                self._spread(column, (rng.permutation(count) + 0.5) / count)
        return np.asarray(self.shape @ self.rows @ np.linalg.inv(self.shape))

    def _spread(self, column: int, places: Floats) -> None:
        """Draw how far a column spreads about its mean: its covariances go with it."""
        square = self.covariances[:, column, column]
        change = self._change(column, self.covariances[:, column], square)
        least, most = (np.log(end) - np.log(square)[:, None] / 2 for end in (NARROWEST, 1.0))
        near = np.log(np.maximum(1 + change.near(1.0), 1e-300))
        logs = _within(np.concatenate([least + (most - least) * _EVENLY, near], axis=1), least, most)
        logs.sort(axis=1)
        a = np.exp(_drawn(places, logs, POWER * logs + change.fits(np.expm1(logs))))
        self._apply(change, a - 1)
        kept = 0.0 if self.constant is None else np.eye(len(self.shape))[self.constant] * self.means[:, column, None]
        self.rows[:, column] = a[:, None] * (self.rows[:, column] - kept) + kept
        self.covariances[:, column] *= a[:, None]
        self.covariances[:, :, column] *= a[:, None]

    def _move(self, column: int, places: Floats) -> None:
        """Draw where the mean of a column lies."""
        change = self._change(column, self.means, np.ones(len(self.means)))
        grid = _within(change.near(), *(side - self.means[:, column, None] for side in (-1.0, 1.0)))
        b = _drawn(places, grid, change.fits(grid))
        self._apply(change, b)
        self.rows[:, column, self.constant] += b
        self.means[:, column] += b

    def _share(self, column: int, other: int, places: Floats) -> None:
        """Draw how much a column shares with another: with p columns a spread of s has the density s^(1/4 - 1 - p)."""
        p = len(self.shape) - (self.constant is not None)
        own, both, size = (self.covariances[:, i, j] for i, j in ((column, column), (column, other), (other, other)))
        left = np.maximum(own - both**2 / size, 1e-9 * own)
        best, wide, most = -both / size, np.sqrt(left / size / p), np.sqrt(1 / size)
        change = self._change(column, self.covariances[:, other], size)
        grid = np.concatenate([best[:, None] + wide[:, None] * _TAILS, change.near(wide)], axis=1)
        grid = _within(grid, -most[:, None], most[:, None])
        grid.sort(axis=1)
        squares = left[:, None] + size[:, None] * (grid - best[:, None]) ** 2
        logs = (POWER - 1 - p) / 2 * np.log(squares / own[:, None]) - 1e3 * np.maximum(squares - 1, 0.0)
        b = _drawn(places, grid, logs + change.fits(grid))
        self._apply(change, b)
        kept = 0.0 if self.constant is None else np.eye(len(self.shape))[self.constant] * self.means[:, other, None]
        self.rows[:, column] += b[:, None] * (self.rows[:, other] - kept)
        row = self.covariances[:, column] + b[:, None] * self.covariances[:, other]
        row[:, column] = left + size * (b - best) ** 2
        self.covariances[:, column] = self.covariances[:, :, column] = row

    def _change(self, column: int, functional: Floats, size: Floats) -> _Change:
        g, lean = self.shape[:, column], self.whole * functional @ self.shape.T
        return _Change(g, lean, self.whole * size, self.left @ g, self.noise)

    def _apply(self, change: _Change, b: Floats) -> None:
        added = (b[:, None] * (change.lean + (b * change.size / 2)[:, None] * change.g))[:, :, None] * change.g
        self.left -= added + added.transpose(0, 2, 1)


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
    covariances: Floats, apart: Floats, means: Floats, hidden: NDArray[np.bool_], constant: int | None
) -> Floats:
    """Return by what rows are multiplied that have other covariances then, of the hidden columns alone."""
    order = [k for k in np.argsort(hidden, kind="stable") if k != constant]
    some = np.ix_(order, order)
    rows = np.eye(len(means))
    rows[some] = np.linalg.cholesky(apart[some]) @ np.linalg.inv(np.linalg.cholesky(covariances[some]))
    if constant is not None:
        rows[order, constant] = means[order] - rows[some] @ means[order]
    return rows


@dataclass(frozen=True, eq=False)
class _Change:
    """A multiple b of a functional of a row, added to a column, changes the information by b(gu' + ug') + b²c·gg'."""

    g: Floats
    lean: Floats
    size: Floats
    turned: Floats
    noise: float

    def near(self, most: Floats | float = math.inf) -> Floats:
        """Return a grid of b about what was seen, as wide as its noise but in steps of no more than `most`'s."""
        along, both, aside, seen = self._products
        across = np.maximum(along * aside + both**2, 1e-300)
        best, sd = seen / across, self.noise / np.sqrt(2 * across)
        return np.asarray(best[:, None] + np.minimum(sd, most)[:, None] * _LINE)

    def fits(self, b: Floats) -> Floats:
        """Return the logarithm of how well each b fits what was seen."""
        along, both, aside, seen = self._products
        second = 2 * along * aside + 2 * both**2 - 2 * self.size * (self.turned @ self.g)
        found: Floats = (self.size * along)[:, None] ** 2 * b
        for part in (4 * self.size * along * both, second, -4 * seen):
            found += part[:, None]
            found *= b
        found /= -2 * self.noise**2
        return found

    @cached_property
    def _products(self) -> tuple[Any, Floats, Floats, Floats]:
        """g'g, g'u, u'u, and what was seen along g and u."""
        seen = np.add.reduce(self.turned * self.lean, axis=1)
        return self.g @ self.g, self.lean @ self.g, np.add.reduce(self.lean**2, axis=1), seen


_EVENLY = np.linspace(0.0, 1.0, _FINE)
_LINE = np.linspace(-_SIDES, _SIDES, _COARSE)
_TAILS = np.sinh(np.linspace(-10, 10, 2 * _COARSE))
"""Steps about the middle of a law with tails like a power's: wide ones far off."""


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
    after = np.minimum(np.maximum(np.add.reduce(sums < wanted[:, None], axis=1), 1), grid.shape[1] - 1)
    rows = np.arange(len(grid))
    low, high = sums[rows, after - 1], sums[rows, after]
    part = np.minimum((wanted - low) / np.maximum(high - low, 1e-300), 1.0)
    start = grid[rows, after - 1]
    return np.asarray(start + np.maximum(part, 0.0) * (grid[rows, after] - start))
