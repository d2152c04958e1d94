r"""Survival curves from noisy counts of events and censorings: draws that know of the noise and of few records.

In a cell of time with R at risk, e events and c censorings the share still without the event falls by

.. math:: \Bigl(\frac{R - e - c}{R}\Bigr)^{e/(e + c)},

which is exact where the hazards of both keep one proportion within the cell; e/R alone is too small where anybody is
censored (Chiang, Introduction to Stochastic Processes in Biostatistics, 1968, ch. 12). Whatever their order within the
cell, it falls to between 1 - e/R (every event before every censoring) and 1 - e/(R - c).
"""

from __future__ import annotations

import numpy as np

from sottovoce.mechanisms.integer_noise import NoiseKind
from sottovoce.privacy.numbers import Floats, Mask

__all__ = ["cell_falls", "curve_draws", "free_counts", "greenwood"]

_EXITS = 1.0
"""So many records the prior adds to those that leave, over all cells of time together: each cell of its own would add
a crowd to a curve of many. Half of them are events."""
_STAYS = 0.5
"""And so many to those that stay, in each cell: Jeffreys' half, so that nobody's staying is not taken for certain."""
LOG_SHAPE_SD = 0.4
"""The prior's standard deviation of log k, k the shape of a Weibull law in the first cell: in 95 % it is .46 to 2.2.

Beside an even censoring such a law moves the fall from the formula's by (1 - k)/2(1 + k) of all that the order of
events and censorings leaves room for, to the first order in both hazards: by -tanh(log(k)/2)/2. In later cells what
varies of a hazard that is a power of time falls as their width beside their end does.
"""
_LEAST = 1e-300


def free_counts(
    noisy: Floats, deviation: float, kind: NoiseKind, draws: int, rng: np.random.Generator, n: int | None
) -> Floats:
    """Return draws of counts, (draws, cells), of which noise is taken off freely: they may be below zero.

    Where n is known, they are moved to it, all alike.
    """
    noise = rng.normal(size=(draws, noisy.size)) if kind == "gaussian" else rng.laplace(size=(draws, noisy.size))
    free = noisy.ravel() - noise * (deviation if kind == "gaussian" else deviation / np.sqrt(2))
    if n is not None:
        free += (n - free.sum(axis=1, keepdims=True)) / noisy.size
    return np.asarray(free)


def rising(free: Floats) -> Floats:
    """Return counts along the last axis, none below zero, whose sums from either end lean to neither side.

    Many small cells, each cut at zero on its own, would together add a crowd. So it is the cumulative counts that are
    made to rise: halfway between the least rising curve above them and the greatest below.

    >>> rising(np.array([5.0, -1.0, 3.0])).tolist()
    [4.5, 0.0, 2.5]
    """
    curves = np.cumsum(free, axis=-1)
    total = np.maximum(curves[..., -1:], 0.0)
    middle = np.maximum.accumulate(curves, axis=-1) + np.minimum.accumulate(curves[..., ::-1], axis=-1)[..., ::-1]
    middle = np.clip(middle / 2, 0.0, total)
    middle[..., -1:] = total
    return np.diff(middle, axis=-1, prepend=0.0)


def cell_falls(parts: tuple[Floats, Floats, Floats], order: Floats | float, single: Mask | None = None) -> Floats:
    """Return the log of the fall in each cell from the shares of events, censorings and records that stay.

    Parameters
    ----------
    parts
        The shares, of any size, they add up to what is at risk.
    order
        Where the fall lies beside the formula's, in parts of what the order leaves room for.
    single
        Cells of one whole number, where all events come first, as Kaplan and Meier have it.

    Examples
    --------
    >>> np.exp(cell_falls((np.array([10.0]), np.array([0.0]), np.array([90.0])), 0.0)).round(9).tolist()
    [0.9]
    """
    events, censored, stay = parts
    full = events + censored + stay
    most, least = np.log((censored + stay) / full), np.log(stay / (events + stay))
    middle = events / (events + censored) * np.log(stay / full)
    result = np.clip(middle + order * (most - least), least, most)
    return np.asarray(result if single is None else np.where(single, most, result))


def curve_draws(
    counts: Floats, edges: Floats, single: Mask, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return draws of the curve at every cut, of how many are at risk as each cell begins, of events and censorings.

    Parameters
    ----------
    counts
        Draws of counts, (draws, groups, 2, cells + 1): censored, then events; the last of each is beyond all cuts.
    edges, single
        The edges of the cells, and which of them hold one whole number alone.
    """
    counts = rising(counts)
    censored, events = counts[:, :, 0, :-1], counts[:, :, 1, :-1]
    beyond = counts[:, :, :, -1].sum(axis=2)[:, :, None]
    leaving = events + censored
    risk = leaving[:, :, ::-1].cumsum(axis=2)[:, :, ::-1] + beyond
    each = _EXITS / events.shape[2] / 2
    drawn = (events + each, censored + each, risk - leaving + _STAYS)
    shares = tuple(rng.standard_gamma(np.maximum(part, 0.0)) + _LEAST for part in drawn)
    # One draw of the order for all cells: a hazard that falls, or rises, does so in each of them.
    steep = np.diff(edges) / np.maximum(edges[1:], np.diff(edges))
    order = np.tanh(LOG_SHAPE_SD / 2 * rng.standard_normal((len(counts), 1, 1))) / 2 * steep
    falls = cell_falls((shares[0], shares[1], shares[2]), order, single)
    return np.exp(np.cumsum(falls, axis=2)), risk, events, censored


def greenwood(curve: Floats, risk: Floats, events: Floats) -> Floats:
    """Return about how uncertain curves would be without noise: Greenwood's formula, of mean counts."""
    at_risk = np.maximum(risk, 1.0)
    dying = np.minimum(events, at_risk - 0.5)
    return np.asarray(curve * np.sqrt(np.cumsum(dying / (at_risk * (at_risk - dying)), axis=-1)))
