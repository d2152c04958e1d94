"""Centres of groups that several columns cross: a sum of effects, one for every category of every column.

How far the effects of each column spread is unknown and averaged over, as is how far groups stray from their centres.
"""

from __future__ import annotations

import itertools

import numpy as np
from scipy.linalg import solve_triangular

from sottovoce.mechanisms.integer_noise import Integers
from sottovoce.privacy.numbers import Floats

__all__ = ["are_crossed", "crossed_centres", "main_effects"]

_DRAWS = 64
"""Draws of the centres of all groups; each serves many draws of the groups."""
_SPREADS, _TRIED = (0.01, 2.0), 64
"""The least and the greatest spread of the effects of a column, beside that of records; so many, about, are tried."""


def are_crossed(shape: tuple[int, ...]) -> bool:
    """Return whether more than one column tells groups apart."""
    return sum(size > 1 for size in shape) > 1


def main_effects(shape: tuple[int, ...]) -> Floats:
    """Return a column for all cells, and one for each category where columns are crossed."""
    cells = int(np.prod(shape))
    places = np.unravel_index(np.arange(cells), shape)
    parts = [np.ones((cells, 1))]
    if are_crossed(shape):
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
    design, sizes = main_effects(shape), [size for size in shape if size > 1]
    levels = np.geomspace(*_SPREADS, max(3, round(_TRIED ** (1 / len(sizes)))))
    spreads = np.array(list(itertools.product(levels, repeat=len(sizes))))
    own = np.concatenate([np.full((len(spreads), 1), 1e-4), np.repeat(spreads, sizes, axis=1) ** -2], axis=1)
    widest = int(np.argmax(sizes))
    large = 1 + sum(sizes[:widest]) + np.arange(sizes[widest])
    rest = np.setdiff1d(np.arange(design.shape[1]), large)
    covariance = mix.T @ mix
    freedom = 1 / float((covariance**2).sum())  # so many values vary, as far as their squares can tell
    # Every spread is as likely as another: on a grid of logarithms, each weighs as much as it measures.
    log = log_prior[:, None] + np.log(spreads).sum(axis=1)
    tellings = [_told(design, seen, precision, stray) for stray in strays]
    for place, (weight, curvature, told) in enumerate(tellings):
        # No two categories of one column meet in a group: those of the largest are taken out one by one.
        alone = np.diag(curvature)[large] + own[:, large]
        crossed = curvature[np.ix_(rest, large)]
        parts = crossed / alone[:, None, :]
        left = curvature[np.ix_(rest, rest)] + own[:, rest, None] * np.eye(rest.size) - parts @ crossed.T
        pull = told[rest] - parts @ told[large]
        fitted = (told[large] ** 2 / alone[:, :, None]).sum(axis=(1, 2)) - (weight[:, None] * seen**2).sum()
        fitted += (pull * np.linalg.solve(left, pull)).sum(axis=(1, 2))
        volume = np.log(own).sum(axis=1) - np.log(alone).sum(axis=1) - np.linalg.slogdet(left)[1]
        log[place] += freedom / 2 * (fitted + volume + np.log(weight).sum())
    weights = np.exp(log - log.max()).ravel()
    picked = rng.choice(weights.size, _DRAWS, p=weights / weights.sum())
    found = np.empty((_DRAWS, *seen.shape))
    for place, both in enumerate(picked):
        stray, spread = divmod(int(both), len(spreads))
        _, curvature, told = tellings[stray]
        root = np.linalg.cholesky(curvature + np.diag(own[spread]))
        standard = rng.normal(size=told.shape) @ mix
        half = solve_triangular(root, told, lower=True) + standard
        found[place] = design @ solve_triangular(root.T, half)
    return found, picked // len(spreads)


def _told(design: Floats, seen: Floats, precision: Floats, stray: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the weight of every group, and what groups tell of the effects: curvature and slope."""
    weight = precision / (1 + precision * stray)
    return weight, (design.T * weight) @ design, design.T @ (weight[:, None] * seen)
