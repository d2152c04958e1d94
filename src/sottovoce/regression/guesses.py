r"""What the information behind a noisy look may be: as it was seen where noise is little, and many guesses where not.

A column may spread over any part of its public range, down to next to nothing. Where noise hides how much of a column
the others do not explain, to take the likeliest amount for the true one makes what the score says look too sure: then
every column is given what it may have, drawn from what the noise allows for and from a prior of its spread s,

.. math:: p(s) \propto s^{1/4 - 1}, \qquad 0 < s \le 1,

in units of half its public range; it has one column in five below 0.2 % of that. What a column's slope may be follows
from its spread (`Formula.prior_sd`), so that of a column that may be narrow is wide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sottovoce.privacy.numbers import Floats
from sottovoce.regression.glances import Glance

__all__ = ["NARROWEST", "Guesses", "whole_weight"]

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
    hidden
        Which columns noise hides, so that guesses had to be made of them.
    """

    information: Floats
    mean: Floats
    middle: Floats | None
    spread: Floats
    hidden: NDArray[np.bool_]

    @classmethod
    def of(cls, glance: Glance, *, several: bool, at_least: int = 1) -> Guesses:
        """Return one guess, or as many as noise asks for."""
        look, known = glance.look, glance.known
        K, d = look.model.outputs, look.encoding.size
        average = glance.averaged(known)
        back: Floats = np.asarray(np.linalg.inv(look.matrix), dtype=np.float64)
        count, stretch = at_least, np.eye(d)[None]
        hidden = _hidden(glance, average) if several else np.zeros(d, dtype=bool)
        if hidden.any():
            count = max(count, _MANY)
            stretch = _Veil(glance, average, hidden, count, grouped=at_least > 1).stretched()
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
            middle = middle / whole_weight(mean, back[glance.constant])[:, None]
        spread = _spreads(mean, back, glance)
        if not several:  # what is not sure to be narrow is not taken for it
            spread = np.asarray(np.sqrt(np.minimum(np.square(spread) + _blur(average, back, glance), 1.0)))
        return cls(whole, mean, middle, spread, hidden)


def _hidden(glance: Glance, average: Floats) -> NDArray[np.bool_]:
    """Say which columns have little information beside its noise.

    Of a number counts what the other columns do not explain of it. Of a level, which its column's other levels may
    explain altogether, counts how it varies.
    """
    g, entries = glance.look.matrix, glance.look.encoding.entries
    seen, noise = _along(g, _left(glance, average), _own(g, average), glance.noise)
    hidden = seen < _CERTAIN * noise
    centred = np.linalg.inv(g)
    if glance.constant is not None:
        one = centred[glance.constant]
        centred = centred - np.outer(centred @ average @ one / max(float(one @ average @ one), 1e-300), one)
    shown = glance.averaged(np.asarray(glance.information))
    varies = np.einsum("ia,ab,ib->i", centred, shown, centred) < _CERTAIN * glance.noise * (centred**2).sum(axis=1)
    numbers = np.array([any(level < 0 for _, level in entry) for entry in entries])
    return np.asarray(np.where(numbers, hidden, varies) & np.array([bool(entry) for entry in entries]), dtype=bool)


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
    grouped: bool

    def stretched(self) -> Floats:
        """Return for each guess the matrix by which rows are stretched."""
        rng = np.random.default_rng(11)
        together, alone = (self._slices(rng) for _ in range(2))
        around = special.ndtri(self._slices(rng))
        shared = (rng.permutation(self.count) + 0.5) / self.count
        found = []
        for m in range(self.count):
            whole = self._alone(self._together(together[m], rng), alone[m], around[m])
            if self.grouped:
                whole = replace(self, average=whole @ self.average @ whole.T)._loosened(float(shared[m])) @ whole
            found.append(whole)
        return np.stack(found)

    def _loosened(self, share: float) -> Floats:
        """Leave numbers that noise hides so much of what the others seem to explain of them.

        Noise alone looks as if they did; and where the effects of groups are believed to be small, what they share with
        a column would pass for the column's own.
        """
        look, constant = self.glance.look, self.glance.constant
        back: Floats = np.asarray(np.linalg.inv(look.matrix), dtype=np.float64)
        if constant is not None:
            one = back[constant]
            back = back - np.outer(back @ self.average @ one / max(float(one @ self.average @ one), 1e-300), one)
        numbers = np.array([any(level < 0 for _, level in entry) for entry in look.encoding.entries]) & self.hidden
        others = back[~self.hidden & np.array([bool(entry) for entry in look.encoding.entries])]
        own = back[numbers]
        ways = np.linalg.pinv(others @ self.average @ others.T, 1e-9, hermitian=True) @ (others @ self.average @ own.T)
        g = look.matrix[:, numbers]
        return np.asarray(np.eye(len(back)) - (1 - share) * g @ (ways.T @ others))

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
        axes = basis @ turn
        solved = _own(axes, self.average)
        seen, spread = _along(axes, left, solved, self.glance.noise)
        logs = np.linspace(2 * math.log(NARROWEST), 0.0, _FINE)
        fits = -(((np.exp(logs) - np.minimum(seen, 1.0)[:, None]) / spread[:, None]) ** 2) / 2
        drawn = _drawn(places, np.broadcast_to(logs, fits.shape), fits)
        return np.asarray(np.eye(len(left)) + (axes * (np.sqrt(drawn) - 1)) @ solved.T)

    def _alone(self, stretch: Floats, places: Floats, around: Floats) -> Floats:
        """Stretch each hidden column about its mean, and move that mean."""
        g = self.glance.look.matrix[:, self.hidden]
        constant = self.glance.constant
        back: Floats = np.asarray(np.linalg.inv(self.glance.look.matrix), dtype=np.float64)
        average = stretch @ self.average @ stretch.T
        spread = _spreads(average[None], back, self.glance)[0][self.hidden]
        centred = back[self.hidden]
        if constant is not None:
            middle = average @ back[constant]
            centred = centred - np.outer(centred @ middle / max(float(middle @ back[constant]), 1e-300), back[constant])
        lean, left = average @ centred.T, _left(self.glance, average)
        logs = np.linspace(math.log(NARROWEST), 0.0, _FINE) - np.log(np.maximum(spread, NARROWEST))[:, None]
        own = (centred * lean.T).sum(axis=1)
        drawn = _drawn(places, 2 * logs, -_fits(np.expm1(logs), g, lean, own, left) / (2 * self.glance.noise**2))
        whole = np.eye(len(average)) + (g * (np.sqrt(drawn) - 1)) @ centred
        whole = whole @ stretch
        if constant is None:
            return np.asarray(whole)
        one, average = back[constant], whole @ self.average @ whole.T
        middle = average @ one
        across = np.maximum((g * g).sum(axis=0) * (middle @ middle) + (middle @ g) ** 2, 1e-300)
        shifts = g.T @ _left(self.glance, average) @ middle / across
        shifts = shifts + self.glance.noise / np.sqrt(2 * across) * around
        return np.asarray((np.eye(len(one)) + np.outer(g @ np.clip(shifts, -1.0, 1.0), one)) @ whole)


def _fits(b: Floats, g: Floats, u: Floats, c: Floats, left: Floats) -> Floats:
    """Return ‖R − b(gu' + ug') − b²c·gg'‖², but for what does not depend on b: how badly a column fits that is longer
    by b about its mean. A row of b for each column of g and u.
    """
    along, both, aside = (g * g).sum(axis=0), (g * u).sum(axis=0), (u * u).sum(axis=0)
    turned = left @ g
    ways = (-4 * (turned * u).sum(axis=0), 2 * along * aside + 2 * both**2 - 2 * c * (turned * g).sum(axis=0))
    first, second, third, fourth = (part[:, None] for part in (*ways, 4 * c * along * both, (c * along) ** 2))
    return np.asarray(b * (first + b * (second + b * (third + b * fourth))))


def _drawn(places: Floats, logs: Floats, fits: Floats) -> Floats:
    """Return each column's information at a place of its law, by its logs and how well each fits what was seen."""
    weights = _POWER / 2 * (logs - logs[:, -1:]) + np.clip(fits, -1e300, 1e300)
    weights = np.exp(weights - weights.max(axis=1, keepdims=True))
    sums = np.cumsum((weights[:, 1:] + weights[:, :-1]) / 2, axis=1)
    return np.exp(
        [np.interp(*one) for one in zip(places * sums[:, -1], np.pad(sums, ((0, 0), (1, 0))), logs, strict=True)]
    )


def _spreads(mean: Floats, back: Floats, glance: Glance) -> Floats:
    """Return the standard deviation of each entry, in the coordinates of x."""
    moment = back @ mean @ back.T
    constant = glance.constant
    if constant is None:  # n records at most, each of a weight of at most the steepest slope
        squares = np.diagonal(moment, axis1=1, axis2=2)
        squares = squares / np.maximum(_most(glance, squares.max(axis=1, keepdims=True)), 1e-300)
        return np.asarray(np.sqrt(np.clip(squares, 0.0, 1.0)))
    count = whole_weight(mean, back[constant])[:, None]
    middle = moment[:, constant] / count
    return np.sqrt(np.clip(np.diagonal(moment, axis1=1, axis2=2) / count - middle**2, 0.0, 1.0))


def whole_weight(mean: Floats, one: Floats) -> Floats:
    """Return what all records weigh together, by guess: more than nothing beside what they weigh in any direction."""
    least = 1e-12 * np.trace(mean, axis1=1, axis2=2) * float(one @ one)
    return np.asarray(np.maximum(np.einsum("i,mij,j->m", one, mean, one), np.maximum(least, 1e-300)))


def _most(glance: Glance, seen: Any) -> Any:
    """Return the most information that an entry can have; where n is a secret, what the entry with most has."""
    return seen if glance.n is None else glance.n * glance.look.model.steepest


def _blur(average: Floats, back: Floats, glance: Glance) -> Floats:
    """Return by how much the variance of each entry may be larger than it seems, by noise."""
    one = None if glance.constant is None else back[glance.constant]
    if one is None:
        count = max(float(_most(glance, np.diagonal(back @ average @ back.T).max())), 1e-300)
    else:
        count = max(float(one @ average @ one), 1e-300)
    return np.asarray(glance.noise * (back**2).sum(axis=1) / count)
