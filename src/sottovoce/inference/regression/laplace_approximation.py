r"""The way from where a look was taken to what it says, for many guesses of its information at once.

Given a guess H of the information, the noisy score ŝ is normal about Hδ + R(δ), R what the mean bends on the way δ from
the centre to the truth. Every step takes the mean to be straight where the one before it led to, and its variance to be
what that way asks for; guesses that have come to rest are let go, for a few may take far longer than all others.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from sottovoce.inference.regression.eigenvalues import lifted
from sottovoce.inference.regression.pseudo_row_moments import PseudoRowMoments, axes
from sottovoce.inference.regression.sampler_settings import SamplerSettings
from sottovoce.privacy.numbers import Floats, Mask

_FARTHEST = 1.0
"""How far the linear predictor may move in one step, on average over imagined rows."""
_BENT = 0.3
"""How far, as a part of it, what the mean bends may be from what it does on imagined rows."""
_ROUND = 0.4
"""How much two directions share beside what they would in coordinates in which the information is round."""
_NEAR, _STILL = 0.1, 0.0025
"""A guess has come to rest within so many standard deviations of where a step leads to, when that, and its variance as
a part of it, has changed by no more than this; both divided by how much care is taken."""


@dataclass(frozen=True, eq=False)
class LaplaceMode:
    """What is known before the first step, one first index a guess.

    Attributes
    ----------
    imagined, other
        Rows on which one sees how the mean bends, and others that are more skewed; None where that matters little, or
        not at all.
    information, variation
        H, and by how much the score varies at its centre.
    along
        From coordinates in which the prior is round to those of the look.
    score, centre
        ŝ, and where the look was taken.
    tau, cut
        The noise of the information, and how little the look is to be believed.
    middle
        The prior mean, in the coordinates of the look.
    care
        With how much of it guesses come to rest.
    directions
        Eigenvalues and eigenvectors of H, where they are known.
    """

    imagined: PseudoRowMoments | None
    other: PseudoRowMoments | None
    information: Floats
    variation: Floats
    along: Floats
    score: Floats
    centre: Floats
    tau: Floats
    cut: Floats
    middle: Floats
    care: SamplerSettings
    directions: tuple[Floats, Floats] | None = None

    def some(self, kept: Mask) -> Self:
        """Return the way of some of the guesses."""
        arrays = {part.name: getattr(self, part.name) for part in fields(self)[2:-2]}
        imagined, other = (rows and rows.some(kept) for rows in (self.imagined, self.other))
        subset: dict[str, Any] = {name: part[kept] for name, part in arrays.items()}
        result = replace(self, imagined=imagined, other=other, directions=None, **subset)
        result.__dict__["_shared"] = tuple(part[kept] for part in self._shared)
        return result

    @property
    def bends(self) -> PseudoRowMoments | None:
        """Rows on which the mean bends, if it does."""
        return self.imagined if self.imagined is not None and self.imagined.families[0].curved else None

    @cached_property
    def _shared(self) -> tuple[Floats, Floats]:
        """The directions of the information, and what any two of them share with the noise."""
        values, vectors = axes(self.information) if self.directions is None else self.directions
        level = values.mean(axis=1)[:, None, None]
        most = _ROUND / values.shape[1] * np.minimum(values[:, :, None] * values[:, None], level**2)
        return vectors, np.minimum(self.tau[:, None, None] ** 2 / 2, most)

    def stayed(self, theta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return θ, what is left of the prior there and the log of the evidence, if only the records vary."""
        step = _Step.at(self, theta, self.variation, self.bends)
        return theta, step.left, step.evidence(slice(None))

    def gone(self) -> tuple[Floats, Floats, Floats]:
        """Return where the score leads to, what is left of the prior there and the log of the evidence."""
        ends, remaining, evidence = self.centre.copy(), np.empty_like(self.information), np.empty(len(self.centre))
        way, places = self, np.arange(len(ends))
        theta, V, before = self.centre, self.variation, self.centre
        remainder = np.zeros(len(places), dtype=bool)
        for count in range(self.care.steps):
            step = _Step.at(way, theta, V, way.bends if count else None)
            V = step.varies(way)
            move = (step.means - theta) / (1 if count < 3 else 2)
            if way.bends is not None:  # no step so long that a straight line has nothing to do with it
                move = move / np.maximum(1.0, way.bends.size(move) / _FARTHEST)[:, None]
            still = step.still(way, theta, V, before) & (count > 0)
            theta, before = np.where(still[:, None], step.means, theta + move), step.means
            new = ~remainder if count == self.care.steps - 1 else still & ~remainder
            if new.any():
                now = places[new]
                ends[now], remaining[now], evidence[now] = theta[new], step.left[new], step.evidence(new)
            remainder = remainder | new
            if remainder.all():
                break
            if 2 * remainder.sum() >= len(remainder):
                way, places = way.some(~remainder), places[~remainder]
                theta, V, before = (item[~remainder] for item in (theta, V, before))
                remainder = remainder[~remainder]
        return ends, remaining, evidence


@dataclass(frozen=True, eq=False)
class _Step:
    """What a look says if the mean is straight about some θ: the means, and what is left of the prior.

    `seems` is how far θ seems to be from the centre to one who takes the mean to be straight, and `turn` its slope;
    None where it is straight; `precision` is what `left` is the inverse of, and `fit` how well the score fits.
    """

    theta: Floats
    seems: Floats
    turn: Floats | None
    V: Floats
    means: Floats
    left: Floats
    precision: Floats
    fit: Floats

    @classmethod
    def at(cls, way: LaplaceMode, theta: Floats, V: Floats, rows: PseudoRowMoments | None) -> Self:
        """Return the step from θ, the score being of variance V: the mean is straight unless it bends on some rows."""
        H, D = way.information, way.information.shape[1]
        seems, turn = (theta - way.centre, None) if rows is None else rows.way(theta)
        G = H if turn is None else H @ turn
        score = way.score + times(G, theta - way.middle) - times(H, seems)
        V = lifted(V, 1e-13 * np.trace(V, axis1=1, axis2=2))
        leads = G @ way.along
        inside = np.linalg.solve(V, np.concatenate([leads, score[:, :, None]], axis=2))
        turned = leads.transpose(0, 2, 1)
        P = lifted(turned @ inside[:, :, :D], np.ones(len(H)))
        remaining = _inverse((P + P.transpose(0, 2, 1)) / 2)
        pull = times(turned, inside[:, :, D])
        moved = times(remaining, pull)
        fit = (pull * moved).sum(axis=1) - (score * inside[:, :, D]).sum(axis=1)
        return cls(theta, seems, turn, V, way.middle + times(way.along, moved), remaining, P, fit)

    def evidence(self, some: Mask | slice) -> Floats:
        """Return the log of the evidence of some of the guesses."""
        P, V = self.precision[some], self.V[some]
        return np.asarray((self.fit[some] - np.linalg.slogdet(P)[1] - np.linalg.slogdet(V)[1]) / 2)

    def varies(self, way: LaplaceMode) -> Floats:
        """Return the variance of the score: with what the noise of the information does, and what rows do not tell."""
        (vectors, shared), H = way._shared, way.information
        turns = vectors.transpose(0, 2, 1)
        off = self.means - self.theta
        ahead = self.seems + (off if self.turn is None else times(self.turn, off))
        turned = turns @ (way.along if self.turn is None else self.turn @ way.along)
        second = times(turns, ahead) ** 2 + ((turned @ self.left) * turned).sum(axis=2)
        V = way.variation + (vectors * times(shared, second)[:, None]) @ turns
        far = self.means - way.centre
        bends = times(H, _BENT * (ahead - far) + way.cut[:, None] * far)
        V = lifted(V + squares(bends), (bends**2).mean(axis=1))
        if way.other is not None:
            V = V + squares(times(H, way.other.seems(self.theta) - self.seems))
        return np.asarray(V)

    def still(self, way: LaplaceMode, theta: Floats, V: Floats, before: Floats) -> Mask:
        """Say which guesses have come to rest: the next step would lead to where this one and the last do."""
        sd = np.sqrt(np.maximum(((way.along @ self.left) * way.along).sum(axis=2), 0.0))
        was, now = (np.diagonal(item, axis1=1, axis2=2) for item in (self.V, V))
        off, change = _NEAR / way.care.nearer, _STILL / way.care.nearer
        near = (np.abs(self.means - theta) <= off * sd) & (np.abs(self.means - before) <= change * sd)
        return np.asarray((near & (np.abs(now - was) <= change * was)).all(axis=1))


def _inverse(precisions: Floats) -> Floats:
    """Return the inverses of matrices that are no less than the identity, also where rounding hides it."""
    try:
        result = np.asarray(np.linalg.inv(precisions), dtype=np.float64)
    except np.linalg.LinAlgError:
        result = np.zeros_like(precisions)
    if np.diagonal(result, axis1=1, axis2=2).min() > 0:
        return result
    values, vectors = np.linalg.eigh(precisions)
    return np.asarray((vectors / np.maximum(values, 1.0)[:, None]) @ vectors.transpose(0, 2, 1))


def squares(rows: Floats) -> Floats:
    """Return the outer square of every row."""
    return np.asarray(rows[:, :, None] * rows[:, None])


def times(matrices: Floats, rows: Floats) -> Floats:
    """Return every matrix times its row."""
    result: Floats = matrices @ rows[:, :, None]
    return result[:, :, 0]
