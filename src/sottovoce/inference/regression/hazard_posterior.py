r"""From a noisy hazard look to what it says: the score's law, bends included, and a Laplace approximation.

With q = (g·e_j, z) the score at a centre is Σvq(dN − λdt), so that given the exposures its mean at the truth, δ away,
is

.. math:: F(\delta) = \sum v \lambda q (e^{q\cdot\delta} - 1), \qquad
          \hat s \sim N\bigl(F(\delta),\; G(\delta) + \sigma^2 I + \Omega\bigr), \qquad G = F',

for the sum is a martingale of predictable variation Σv²λe^{qδ}qq' ≤ G (Andersen and Gill, Annals of Statistics 10,
1982). Within an interval z is taken for normal in the law that λ weighs, of the mean μ_j and the covariance S that the
information tells: then F and G are closed forms. Ω is what the noise of the information does, on the way from the
centre to the truth.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sottovoce.inference.regression.noisy_score_information import denoised, positive_mean
from sottovoce.inference.regression.released_look import ReleasedHazardLook
from sottovoce.privacy.numbers import Floats
from sottovoce.records.readings import HazardLook

__all__ = ["HazardGlance", "HazardPrior", "followed"]

_STEPS = 60
"""Steps of the search for the mode at most; it rests after about ten."""
_FARTHEST_STEP = 1.0
"""How far a log hazard moves in a step at most."""
_RESTS = 1e-9
_STILL = 1e-9
"""However little noise there is, numbers are no more certain than so."""
_TWO, _AFAR, _OTHERWISE = 2, 2.0, 0.25
"""The last two looks are taken together, for the first lies far from the truth. Of the first of the two, which lies
farther off as well, the covariance counts so many times; and looks that weigh records otherwise, and end follow-up
elsewhere, would find without noise what differs by so much of its own variance."""
_LEAST = 0.25
"""No direction of the rows has less information than so much of the noise it is behind."""
_SHIFT, _DRIFT = 1.0, 0.25
"""How far the rows at risk may lie from the middle of a look, in their own spreads, and how far those of one interval
from the others, as standard deviations: of an effect of one spread, exp(1), half of whose subjects have had the event,
the mean of those at risk has moved by 0.4."""
_MOST_GROWTH = 30.0


@dataclass(frozen=True)
class HazardPrior:
    """Log hazards follow one another by a random walk, and each direction of the rows moves them by so much.

    Attributes
    ----------
    level, level_sd
        The mean of the first log hazard, and its standard deviation.
    step_sd
        How far a log hazard is from that before it.
    slope_sd
        What a coordinate of z, of spread 1 over the records, does to the log hazard.
    """

    level: float
    slope_sd: float
    level_sd: float = 4.0
    step_sd: float = 1.5

    def precision(self, intervals: int, slopes: int, constant: float) -> tuple[Floats, Floats]:
        """Return the mean and the precision of (α/g, b)."""
        walk = np.eye(intervals) - np.eye(intervals, k=-1)
        weights = np.r_[1 / self.level_sd**2, np.full(intervals - 1, 1 / self.step_sd**2)]
        result = np.zeros((intervals + slopes,) * 2)
        result[:intervals, :intervals] = constant**2 * walk.T @ (weights[:, None] * walk)
        result[intervals:, intervals:] = np.eye(slopes) / self.slope_sd**2
        return np.r_[np.full(intervals, self.level / constant), np.zeros(slopes)], result


@dataclass(frozen=True, eq=False)
class HazardGlance:
    """What a hazard look let out, freed of the noise of its information as far as can be."""

    released: ReleasedHazardLook

    @property
    def look(self) -> HazardLook:
        """The look."""
        return self.released.look

    @property
    def score(self) -> Floats:
        """ŝ."""
        return self.released.sums["score"]

    @property
    def sigma(self) -> float:
        """The noise of the score."""
        return self.released.noise["score"]

    @property
    def tau(self) -> float:
        """The noise of the information's diagonal; √½ of it beside that."""
        return self.released.noise["information"]

    @cached_property
    def known(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return, of λ: its sum in each interval, the mean of z there, the covariance of z within intervals, and that
        of the sums of one coordinate of z in two intervals, which is left by noise.
        """
        J, g, A = self.look.intervals, self.look.constant, self.released.sums["information"]
        noise, beside = self.tau / g**2, self.tau**2 / 2 / g**2
        held = np.diag(A)[:J] / g**2
        if self.tau:
            total = max(float(held.sum()), noise)
            held = positive_mean(held, np.full(J, noise))
            held = held * (total / held.sum())
        prior = np.outer(held, held) * _SHIFT**2 + np.diag(held**2) * _DRIFT**2
        kept = np.linalg.solve(prior + beside * np.eye(J), prior).T
        means = kept @ (A[:J, J:] / g) / held[:, None]
        full = A[J:, J:]
        if self.tau:
            (full,) = denoised(full[None], np.array([self.tau]))
        within = full - means.T @ (held[:, None] * means)
        values, vectors = np.linalg.eigh(within)
        within = (vectors * np.maximum(values, max(_LEAST * self.tau, 1e-9 * float(values[-1]), 1e-12))) @ vectors.T
        return held, means, np.asarray(within / held.sum()), np.asarray(kept * beside)

    @property
    def centre(self) -> Floats:
        """(α/g, b)."""
        J = self.look.intervals
        return np.asarray(np.r_[np.array(self.look.centre[:J]) / self.look.constant, self.look.slopes])

    def expected(self, delta: Floats) -> tuple[Floats, Floats]:
        """Return F and G at a distance from the centre."""
        J, g = self.look.intervals, self.look.constant
        held, means, within, _ = self.known
        d = delta[J:]
        grown = held * self._growth(delta)
        moved = means + within @ d
        F = np.r_[g * (grown - held), grown @ moved - held @ means]
        G = np.zeros((len(delta),) * 2)
        G[:J, :J] = np.diag(g**2 * grown)
        G[:J, J:] = g * grown[:, None] * moved
        G[J:, :J] = G[:J, J:].T
        G[J:, J:] = moved.T @ (grown[:, None] * moved) + grown.sum() * within
        return F, G

    def _growth(self, delta: Floats) -> Floats:
        J, g = self.look.intervals, self.look.constant
        _, means, within, _ = self.known
        d = delta[J:]
        power = g * delta[:J] + means @ d + d @ within @ d / 2
        return np.asarray(np.exp(np.clip(power, -_MOST_GROWTH, _MOST_GROWTH)))

    def _doubt(self, delta: Floats, covariance: Floats) -> Floats:
        """Return Ω: what the noise of the information moves the score by, on the way that was gone."""
        J, g = self.look.intervals, self.look.constant
        way = delta.copy()
        way[:J] = (self._growth(delta) - 1) / g
        squares = way**2 + np.diag(covariance)
        spread, crossed = np.diag(covariance), self.known[3]
        squares = way**2 + spread
        moved = way[:J] @ crossed @ way[:J] + np.diag(crossed) @ spread[:J]
        slopes = squares[J:].sum()
        intervals = self.tau**2 * squares[:J] + np.diag(crossed) * slopes * g**2
        return np.asarray(np.r_[intervals, self.tau**2 * (squares[J:] + slopes) / 2 + moved * g**2])

    def found_by_records(self, mean: Floats, precision: Floats) -> tuple[Floats, Floats]:
        """Return mean and covariance of what these records would give without noise, from what was known of that."""
        J, p, g = self.look.intervals, self.look.encoding.size, self.look.constant
        centre, delta, units = self.centre, np.zeros(J + p), np.r_[np.full(J, g), np.ones(p)]
        covariance = inverse(self.expected(delta)[1] + precision)
        for place in range(_STEPS):
            F, G = self.expected(delta)
            weights = 1 / (self.sigma**2 + self._doubt(delta, covariance) + _STILL * np.diag(G))
            full = (G * weights) @ G + precision
            pull = G @ (weights * (self.score - F)) - precision @ (centre + delta - mean)
            covariance = inverse(full)
            step = covariance @ pull
            far = max(1.0, float(np.abs(step * units).max()) / _FARTHEST_STEP)
            delta = delta + step / (far if place < _STEPS // 2 else 2 * far)
            if np.abs(step).max() < _RESTS:
                break
        return centre + delta, covariance

    def told(self, prior: HazardPrior, mean: Floats, covariance: Floats) -> tuple[Floats, Floats, Floats]:
        """Return mean and covariance of the truth, and the covariance that the records alone would leave.

        What the records would give, of which `mean` and `covariance` are known, is about the truth by its own
        variation, 1/G.
        """
        middle, P = prior.precision(self.look.intervals, self.look.encoding.size, self.look.constant)
        _, G = self.expected(mean - self.centre)
        plain = inverse(G + P)
        taken = plain @ G
        return plain @ (G @ mean + P @ middle), plain + taken @ covariance @ taken.T, plain

    @property
    def back(self) -> Floats:
        """The matrix that takes (α/g, b) to log hazards and slopes of rows x."""
        J, p = self.look.intervals, self.look.encoding.size
        result = np.zeros((J + p,) * 2)
        result[:J, :J] = self.look.constant * np.eye(J)
        result[:J, J:] = self.look.offset
        result[J:, J:] = np.array(self.look.shape).T
        return result


def followed(glances: Sequence[HazardGlance], prior: HazardPrior) -> tuple[Floats, Floats]:
    """Return mean and covariance, in the coordinates of the last look, of what records would give without noise.

    All looks saw the same records, so that only their noise is averaged over them.
    """
    first, *others = glances[-_TWO:]
    middle, P = prior.precision(first.look.intervals, first.look.encoding.size, first.look.constant)
    mean, covariance = first.found_by_records(middle, P)
    for before, glance in itertools.pairwise([first, *others]):
        over = np.linalg.solve(glance.back, before.back)
        differs = _OTHERWISE * inverse(before.expected(mean - before.centre)[1] + P)
        wider = over @ (_AFAR * covariance + differs) @ over.T
        mean, covariance = glance.found_by_records(over @ mean, inverse(wider))
    return mean, covariance


def inverse(matrix: Floats) -> Floats:
    """Return the inverse of a symmetric matrix."""
    return np.asarray(np.linalg.inv((matrix + matrix.T) / 2), dtype=np.float64)
