"""Centres of groups that several columns cross: a sum of effects, one for every category of every column.

How far the effects of each column spread is unknown and averaged over, as is how far groups stray from their centres.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.linalg import solve_triangular

from sottovoce.privacy.numbers import Floats, Integers

_DRAWS = 64
"""Draws of the centres of all groups; each serves many draws of the groups."""
_SPREADS, _TRIED = (0.01, 2.0), 64
"""The least and the greatest spread of the effects of a column, beside that of records; so many, about, are tried."""


def are_crossed(shape: tuple[int, ...]) -> bool:
    """Return whether more than one column tells groups apart."""
    return sum(size > 1 for size in shape) > 1


def _effects(shape: tuple[int, ...], cells: int) -> Floats:
    """Return a column for all cells, and one for each category of columns that have more than one."""
    parts = [np.ones((cells, 1))]
    if max(shape, default=1) > 1:
        places = np.unravel_index(np.arange(cells), shape)
        parts += [np.eye(size)[place] for size, place in zip(shape, places, strict=True) if size > 1]
    return np.concatenate(parts, axis=1)


def crossed_centres(
    seen: Floats,
    precision: Floats,
    strays: Floats,
    log_prior: Floats,
    mix: Floats,
    shape: tuple[int, ...],
    rng: np.random.Generator,
) -> tuple[Floats, Integers]:
    """Return draws of the centres of all groups, (draws, groups, values), and which of the strays goes with each.

    Parameters
    ----------
    seen, precision
        What is seen of every group, (groups, values), as if normal, and its precision.
    strays, log_prior
        Variances of groups around their centres that are tried, (strays, groups), and how likely each row is.
    mix
        A root of the covariance of the values, (values, values); of trace one. All variances are parts of it.
    shape
        How many categories each column has.
    rng
        The randomness of the draws.
    """
    # No two categories of one column meet in a group: those of the largest are taken out one by one.
    widest = int(np.argmax(shape))
    others = (*shape[:widest], *shape[widest + 1 :])
    order = np.moveaxis(np.arange(len(seen)).reshape(shape), widest, 0).reshape(shape[widest], -1)
    design = _effects(others, order.shape[1])
    sizes = [size for size in others if size > 1]
    levels = np.geomspace(*_SPREADS, max(3, round(_TRIED ** (1 / (1 + len(sizes))))))
    spreads = np.array(list(itertools.product(levels, repeat=len(sizes))))
    precisions = np.concatenate([np.full((len(spreads), 1), 1e-4), np.repeat(spreads, sizes, axis=1) ** -2], axis=1)
    covariance = mix.T @ mix
    freedom = 1 / float((covariance**2).sum())  # so many values vary, as far as their squares can tell
    # Every spread is as likely as another: on a grid of logarithms, each weighs as much as it measures.
    log = log_prior[:, None, None] + np.log(levels)[:, None] + np.log(spreads).sum(axis=1)
    tellings = [_told(design, seen[order], (precision / (1 + precision * stray))[order]) for stray in strays]
    for place, shown in enumerate(tellings):
        alone, remaining, pull = shown.beside(levels)
        apart = remaining[:, None] + precisions[:, :, None] * np.eye(precisions.shape[1])
        fitted = ((shown.slope**2).sum(axis=1) / alone).sum(axis=1)[:, None] - shown.squares
        fitted = fitted + (pull[:, None] * np.linalg.solve(apart, pull[:, None])).sum(axis=(2, 3))
        volume = np.log(precisions).sum(axis=1) - np.linalg.slogdet(apart)[1]
        volume = volume - np.log(alone * levels[:, None] ** 2).sum(axis=1)[:, None]
        log[place] += freedom / 2 * (fitted + volume + shown.volume)
    weights = np.exp(log - log.max()).ravel()
    picked = rng.choice(weights.size, _DRAWS, p=weights / weights.sum())

    @cache  # many draws have the same spreads and strays
    def solved(stray: int, level: int, spread: int) -> tuple[Floats, Floats, Floats]:
        """Return the curvature of the largest column's effects, and the others' root, inverted and times their pull."""
        alone, remaining, pull = (part[0] for part in tellings[stray].beside(levels[[level]]))
        root = np.linalg.cholesky(remaining + np.diag(precisions[spread]))
        inverse = solve_triangular(root, np.eye(len(root)), lower=True)
        return alone, inverse, inverse @ pull

    result = np.empty((_DRAWS, *seen.shape))
    for place, (stray, level, spread) in enumerate(zip(*np.unravel_index(picked, log.shape), strict=True)):
        shown, (alone, inverse, half) = tellings[stray], solved(stray, level, spread)
        few = inverse.T @ (half + rng.normal(size=half.shape) @ mix)
        standard = rng.normal(size=shown.slope.shape) @ mix
        alone_step = (shown.slope - shown.crossed.T @ few) / alone[:, None] + standard / np.sqrt(alone)[:, None]
        result[place, order] = alone_step[:, None] + design @ few
    return result, np.unravel_index(picked, log.shape)[0]


@dataclass(frozen=True, eq=False)
class _Told:
    """What groups tell of the effects: of those of the largest column, of the others', and of both together.

    Attributes
    ----------
    alone, slope
        Curvature and slope of the largest column's effects, of which no two have to do with each other.
    crossed
        The curvature of the others' effects with those.
    near, pull
        Curvature and slope of the others' effects.
    squares, volume
        What all groups weigh: their squares, and the logarithms of their weights.
    """

    alone: Floats
    slope: Floats
    crossed: Floats
    near: Floats
    pull: Floats
    squares: float
    volume: float

    def beside(self, spreads: Floats) -> tuple[Floats, Floats, Floats]:
        """Return what is left to tell of the others where the largest column's effects, of such spreads, are taken out.

        That is, for each spread, the curvature of these, and then curvature and slope of the others.
        """
        alone = self.alone + spreads[:, None] ** -2
        parts = self.crossed / alone[:, None]
        return alone, self.near - parts @ self.crossed.T, self.pull - parts @ self.slope


def _told(design: Floats, seen: Floats, weight: Floats) -> _Told:
    """Return what groups tell, (the largest column's categories, all others) and values, with such weights."""
    weighed = weight[:, :, None] * seen
    return _Told(
        weight.sum(axis=1),
        weighed.sum(axis=1),
        design.T @ weight.T,
        (design.T * weight.sum(axis=0)) @ design,
        design.T @ weighed.sum(axis=0),
        float((weighed * seen).sum()),
        float(np.log(weight).sum()),
    )
