r"""What the information behind a noisy look may be: as it was seen where noise is little, and many guesses where not.

A column may spread over any part of its public range, down to next to nothing. Where noise hides how much of a column
the others do not explain, to take the likeliest amount for the true one makes what the score says look too sure: then
every column is given what it may have, drawn from what the noise allows for and from a prior of its spread s,

.. math:: p(s) \propto s^{1/4 - 1}, \qquad 0 < s \le 1,

in units of half its public range; it has one column in five below 0.2 % of that. What a column's slope may be follows
from its spread (`Formula.prior_sd`), so that of a column that may be narrow is wide.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from sottovoce.privacy.numbers import Floats
from sottovoce.regression.glances import Glance

__all__ = ["Guesses"]

_MANY = 48
_CERTAIN = 6.0
"""A column whose own information is this many times its noise is taken as it was seen."""
_POWER = 0.25
"""P(spread < s) = s to this power."""
_NARROWEST = 1e-7
_FINE = 400


@dataclass(frozen=True, eq=False)
class Guesses:
    """Several guesses of the information.

    Attributes
    ----------
    information
        Each guess, in the coordinates of the look; one first index a guess.
    mean
        The same, averaged over the linear predictors.
    middle, spread
        The mean of each entry of a row, as the look weighs records (in the look's coordinates; None where there is no
        intercept), and its standard deviation (in those of x).
    """

    information: Floats
    mean: Floats
    middle: Floats | None
    spread: Floats

    @classmethod
    def of(cls, glance: Glance, *, several: bool, at_least: int = 1) -> Guesses:
        """Return one guess, or as many as noise asks for."""
        look, known = glance.look, glance.known
        K, d = look.model.outputs, look.encoding.size
        average = glance.averaged(known)
        back = np.linalg.inv(look.matrix)
        one = _spreads(average[None], back, glance)[0]
        count, stretch = at_least, np.eye(d)[None]
        if several:
            own, noise, directions, weights = _own(glance, average)
            hidden = (own < _CERTAIN * noise) & np.array([bool(entry) for entry in look.encoding.entries])
            if hidden.any():
                count = max(count, _MANY)
                root = np.ones((count, d))
                rng = np.random.default_rng(11)
                for i in np.flatnonzero(hidden):
                    root[:, i] = np.sqrt(_drawn(own[i], noise[i], one[i], rng.permutation(count)))
                stretch = np.eye(d) + np.einsum("mi,ai,ib->mab", root - 1, directions, weights)
                if glance.constant is not None:
                    shifts = np.where(hidden, _shifts(glance, average, rng, count), 0.0)
                    stretch = stretch + np.einsum("mi,ai,b->mab", shifts, directions, back[glance.constant])
        stretch = np.broadcast_to(stretch, (count, d, d))
        mean = stretch @ average @ stretch.transpose(0, 2, 1)
        whole = np.zeros((count, K * d, K * d))
        for k in range(K):
            for m in range(K):
                block = known[k * d : (k + 1) * d, m * d : (m + 1) * d]
                whole[:, k * d : (k + 1) * d, m * d : (m + 1) * d] = stretch @ block @ stretch.transpose(0, 2, 1)
        middle = None
        if glance.constant is not None:
            middle = mean @ back[glance.constant]
            middle = middle / np.maximum(middle @ back[glance.constant], 1e-300)[:, None]
        return cls(whole, mean, middle, _spreads(mean, back, glance))


def _own(glance: Glance, average: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return how much of each column's own information was seen beside what is taken for known, the noise of that, and
    the two vectors g, q with which a column's own part is stretched: I + (a − 1)gq'.

    A column's own part is what the others do not explain; with it multiplied by a the information changes by
    (a² − 1)κgg' alone.
    """
    assert glance.information is not None
    tau = glance.tau / np.sqrt(glance.look.model.outputs)
    g = glance.look.matrix
    values, vectors = np.linalg.eigh(average)
    solved = (vectors / np.maximum(values, 1e-9 * values[-1])) @ (vectors.T @ g)
    kappa = 1 / np.maximum(np.einsum("ai,ai->i", g, solved), 1e-300)
    squares = np.maximum((g * g).sum(axis=0), 1e-300)
    left = np.einsum("ai,ab,bi->i", g, glance.averaged(glance.information) - average, g)
    return 1 + left / (kappa * squares**2), tau / (kappa * squares), g, (kappa * solved).T


def _shifts(glance: Glance, average: Floats, rng: np.random.Generator, count: int) -> Floats:
    """Return how far each column's mean may lie from where it was seen."""
    assert glance.information is not None and glance.constant is not None
    tau, g = glance.tau / np.sqrt(glance.look.model.outputs), glance.look.matrix
    whole = average @ np.linalg.inv(g)[glance.constant]
    across = (g * g).sum(axis=0) * (whole @ whole) + (whole @ g) ** 2
    left = g.T @ (glance.averaged(glance.information) - average) @ whole
    even = special.ndtri((np.stack([rng.permutation(count) for _ in across], axis=1) + 0.5) / count)
    return np.asarray(left / across + tau / np.sqrt(2 * across) * even)


def _drawn(seen: float, noise: float, spread: float, order: Floats) -> Floats:
    """Return what a column's own information may be beside `seen`'s unit, one in each of as many even slices."""
    high = min(1.0 / max(spread, _NARROWEST) ** 2, max(seen, 0.0) + 6 * noise)
    logs = np.linspace(np.log(_NARROWEST**2 / max(spread, _NARROWEST) ** 2), np.log(max(high, 1e-12)), _FINE)
    weights = np.exp(_POWER / 2 * (logs - logs[-1]) - ((np.exp(logs) - min(seen, high)) / noise) ** 2 / 2)
    steps = np.concatenate([[0.0], np.cumsum((weights[1:] + weights[:-1]) / 2)])
    places = (order + 0.5) / len(order) * steps[-1]
    return np.exp(np.interp(places, steps, logs))


def _spreads(mean: Floats, back: Floats, glance: Glance) -> Floats:
    """Return the standard deviation of each entry, in the coordinates of x."""
    moment = back @ mean @ back.T
    constant = glance.constant
    if constant is None:  # n records at most, each of a weight of at most the steepest slope
        squares = np.diagonal(moment, axis1=1, axis2=2) / (glance.n * glance.look.model.steepest)
        return np.sqrt(np.clip(squares, 0.0, 1.0))
    count = np.maximum(moment[:, constant, constant], 1e-300)[:, None]
    middle = moment[:, constant] / count
    return np.sqrt(np.clip(np.diagonal(moment, axis1=1, axis2=2) / count - middle**2, 0.0, 1.0))
