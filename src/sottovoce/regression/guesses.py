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
from numpy.typing import NDArray
from scipy import special

from sottovoce.privacy.numbers import Floats
from sottovoce.regression.glances import Glance

__all__ = ["NARROWEST", "Guesses"]

_MANY = 48
_CERTAIN = 6.0
"""A column whose own information is this many times its noise is taken as it was seen."""
_POWER = 0.25
"""P(spread < s) = s to this power."""
NARROWEST = 1e-5
"""Columns are taken to spread over no less than this part of half their public range."""
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
        count, stretch = at_least, np.eye(d)[None]
        hidden = _hidden(glance, average) if several else np.zeros(d, dtype=bool)
        if hidden.any():
            count = max(count, _MANY)
            stretch = _Veil(glance, average, hidden, count).stretched()
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


def _hidden(glance: Glance, average: Floats) -> NDArray[np.bool_]:
    """Say which columns have, apart from what the others explain of them, little information beside its noise."""
    assert glance.information is not None
    g = glance.look.matrix
    seen, noise = _along(g, _left(glance, average), _own(g, average), glance.noise)
    return (seen < _CERTAIN * noise) & np.array([bool(entry) for entry in glance.look.encoding.entries])


def _left(glance: Glance, average: Floats) -> Floats:
    """Return what was seen beside what is taken for known."""
    assert glance.information is not None
    return glance.averaged(glance.information) - average


def _own(g: Floats, average: Floats) -> Floats:
    """Return H⁻¹g for each column of g."""
    values, vectors = np.linalg.eigh(average)
    return np.asarray((vectors / np.maximum(values, 1e-9 * values[-1])) @ (vectors.T @ g))


def _along(g: Floats, left: Floats, solved: Floats, tau: float) -> tuple[Floats, Floats]:
    """Return how much of each column's own information was seen beside what is taken for known, and the noise of that.

    A column's own part is what the others do not explain, κ = 1/(g'H⁻¹g) of it. With that multiplied by a, which is
    what I + (a − 1)κg(H⁻¹g)' does to rows, the information changes by (a² − 1)κgg' alone.
    """
    kappa = 1 / np.maximum(np.einsum("ai,ai->i", g, solved), 1e-300)
    squares = np.maximum((g * g).sum(axis=0), 1e-300)
    return 1 + np.einsum("ai,ab,bi->i", g, left, g) / (kappa * squares**2), tau / (kappa * squares)


@dataclass(frozen=True, eq=False)
class _Veil:
    """What noise hides of some columns: how they hang together, how far each spreads, and where its mean lies."""

    glance: Glance
    average: Floats
    hidden: NDArray[np.bool_]
    count: int

    def stretched(self) -> Floats:
        """Return for each guess the matrix by which rows are stretched."""
        rng = np.random.default_rng(11)
        together, alone = (self._slices(rng) for _ in range(2))
        around = special.ndtri(self._slices(rng))
        found = []
        for m in range(self.count):
            first = self._together(together[m], rng)
            found.append(self._alone(first, alone[m], around[m]))
        return np.stack(found)

    def _slices(self, rng: np.random.Generator) -> Floats:
        """Return one place in each of as many even slices, for each column in an order of its own."""
        orders = [rng.permutation(self.count) for _ in range(int(self.hidden.sum()))]
        return (np.stack(orders, axis=1) + 0.5) / self.count

    def _together(self, places: Floats, rng: np.random.Generator) -> Floats:
        """Stretch hidden columns along the axes that they may have, as one more draw of the noise shows them."""
        g = self.glance.look.matrix[:, self.hidden]
        values, vectors = np.linalg.eigh(g.T @ _own(g, self.average))
        basis = g @ (vectors / np.sqrt(np.maximum(values, 1e-12 * values[-1])))
        noise = rng.standard_normal(self.average.shape) * self.glance.noise
        left = _left(self.glance, self.average)
        inverse = np.linalg.pinv(basis)
        _, turn = np.linalg.eigh(inverse @ (left + (noise + noise.T) / 2) @ inverse.T)
        return self._stretch(basis @ turn, np.eye(len(left)), places, np.full(len(places), 1.0))

    def _alone(self, stretch: Floats, places: Floats, around: Floats) -> Floats:
        """Stretch each hidden column, and move its mean."""
        g = self.glance.look.matrix[:, self.hidden]
        back = np.linalg.inv(self.glance.look.matrix)
        spread = _spreads((stretch @ self.average @ stretch.T)[None], back, self.glance)[0][self.hidden]
        whole = self._stretch(g, stretch, places, spread)
        if self.glance.constant is None:
            return whole
        one, average = back[self.glance.constant], whole @ self.average @ whole.T
        middle = average @ one
        across = (g * g).sum(axis=0) * (middle @ middle) + (middle @ g) ** 2
        left = g.T @ _left(self.glance, average) @ middle
        shifts = left / across + self.glance.noise / np.sqrt(2 * across) * around
        return np.asarray((np.eye(len(one)) + np.outer(g @ shifts, one)) @ whole)

    def _stretch(self, g: Floats, so_far: Floats, places: Floats, spread: Floats) -> Floats:
        average = so_far @ self.average @ so_far.T
        solved = _own(g, average)
        kappa = 1 / np.maximum(np.einsum("ai,ai->i", g, solved), 1e-300)
        seen, noise = _along(g, _left(self.glance, average), solved, self.glance.noise)
        drawn = [_drawn(*each) for each in zip(seen, noise, spread, places, strict=True)]
        return np.asarray((np.eye(len(average)) + (g * (np.sqrt(drawn) - 1) * kappa) @ solved.T) @ so_far)


def _drawn(seen: float, noise: float, spread: float, place: float) -> float:
    """Return what a column's own information may be, at a place of the law of that."""
    high = min(1.0 / max(spread, NARROWEST) ** 2, max(seen, 0.0) + 6 * noise)
    logs = np.linspace(np.log(NARROWEST**2 / max(spread, NARROWEST) ** 2), np.log(max(high, 1e-12)), _FINE)
    weights = np.exp(_POWER / 2 * (logs - logs[-1]) - ((np.exp(logs) - min(seen, high)) / noise) ** 2 / 2)
    steps = np.concatenate([[0.0], np.cumsum((weights[1:] + weights[:-1]) / 2)])
    return float(np.exp(np.interp(place * steps[-1], steps, logs)))


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
