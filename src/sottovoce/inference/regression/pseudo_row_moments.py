"""Imagined rows with the moments that a look showed: on them one sees how far the mean bends on its way."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from sottovoce.inference.regression.eigenvalues import lifted
from sottovoce.inference.regression.flagged_rows import flagged_rows
from sottovoce.inference.regression.moment_draws import whole_weight
from sottovoce.inference.regression.noisy_score_information import NoisyScoreInformation
from sottovoce.inference.regression.skewed_rows import more_skewed, skewness
from sottovoce.privacy.numbers import Floats, Mask
from sottovoce.records.readings import Look
from sottovoce.records.readings.families import Family

_ROWS = 128
_RAREST = 50.0
"""No imagined row stands for so many times as many records as another."""
_ROUGH = 0.25
"""How much more, as a part of it, a score may vary along long rows: few records are, and imagined ones tell roughly."""


@dataclass(frozen=True, eq=False)
class PseudoRowMoments:
    """Rows in the coordinates of looks, many for each guess of their information.

    Attributes
    ----------
    rows
        By guess, row and coordinate, with the moments of the records as the look weighs them: normal, but that beside
        an intercept, or levels that add up to one, flags and levels are zero or one, those of groups at the last look
        alone, and numbers near an end of their public bounds are skewed.
    weights
        How many records each stands for, but for a factor: a record at which the mean is flat weighs little in a look.
    total
        The sum of what all records weigh, by guess.
    centre
        Of the look, by guess.
    families, counts
        Of each look the family, and how many guesses it has.
    skewed
        Whether a number is.
    """

    rows: Floats
    weights: Floats
    total: Floats
    centre: Floats
    families: tuple[Family, ...]
    counts: tuple[int, ...]
    skewed: bool

    @classmethod
    def of(cls, glances: Sequence[NoisyScoreInformation], means: Sequence[Floats], *, last: bool = False) -> Self:
        """Return rows for each guess of the information, averaged over linear predictors, of each look.

        Numbers are as skewed as their bounds say. At the `last` look, which tells, skewed rows count as it weighs
        them: those far out would have the mean bend as no record it sees does.
        """
        return cls.several(glances, means, more=False, last=last)[0]

    @classmethod
    def several(
        cls, glances: Sequence[NoisyScoreInformation], means: Sequence[Floats], *, more: bool, last: bool
    ) -> list[Self]:
        """Return the same, and where `more` are asked for and numbers are skewed, others as skewed as they may be."""
        look, counts = glances[0].look, tuple(map(len, means))
        noise = _noise(look.encoding.size)
        # On the way to the last look levels of groups may be normal: where it is taken, their effects are told anew.
        ones = look.encoding.ones & (last | ~np.any(look.encoding.empty != 0, axis=0))
        T = np.repeat([glance.look.matrix for glance in glances], counts, axis=0)
        mean = np.concatenate(means)
        full = np.trace(mean, axis1=1, axis2=2)
        wholes, skewed = look.encoding.wholes, False
        if not wholes:
            norm = np.repeat([glance.look.norm for glance in glances], counts)
            spread = mean * (norm**2 / np.maximum(full, 1e-300))[:, None, None]
        else:
            back = np.repeat([glance.back for glance in glances], counts, axis=0)
            item = back[:, wholes[0]].sum(axis=1)  # of every row it makes 1
            weight = whole_weight(mean, item)[:, None]
            middle = (mean @ item[:, :, None])[:, :, 0] / weight
            spread = mean / weight[:, :, None] - middle[:, :, None] * middle[:, None, :]
            centres, covariances = (back @ middle[:, :, None])[:, :, 0], back @ spread @ back.transpose(0, 2, 1)
            sds = np.sqrt(np.maximum(np.diagonal(covariances, axis1=1, axis2=2), 0.0))
            skews = skewness(look.encoding, centres, sds)
            skewed = bool(skews.any())
        if skewed or (wholes and ones.any()):
            sorts = [skews, more_skewed(skews)] if more and skewed else [skews]
            built, odds = flagged_rows(centres, covariances, ones, noise, np.array(sorts), counts)
            built = built @ T.transpose(0, 2, 1)
        else:
            built = (noise @ _root(spread) + (middle[:, None] if wholes else 0.0))[None]
            odds = np.ones(built.shape[1:3])
        result = []
        for rows in built:
            weights = odds
            if last and skewed:
                seen = _seen(rows, [glance.look for glance in glances], counts)
                weights = np.where(np.any(skews != 0, axis=1, keepdims=True), odds * seen, odds)
            result.append(cls._weighed(glances, rows, weights, full, counts, skewed))
        return result

    @classmethod
    def _weighed(
        cls,
        glances: Sequence[NoisyScoreInformation],
        rows: Floats,
        odds: Floats,
        whole: Floats,
        counts: tuple[int, ...],
        skewed: bool,
    ) -> Self:
        """Return rows that are met so often, each for as many records as its slope says: all weigh `whole` together."""
        total = whole / np.maximum(((rows**2).sum(axis=2) * odds).mean(axis=1), 1e-300)
        centre = np.repeat([glance.look.predictors for glance in glances], counts, axis=0)
        result = cls(rows, odds, total, centre, tuple(glance.look.model for glance in glances), counts, skewed)
        slopes = result._there[1]
        if centre.shape[1] > 1:
            slopes = np.diagonal(slopes, axis1=-2, axis2=-1).mean(axis=-1)
        slopes = np.maximum(slopes, slopes.max(axis=1, keepdims=True) / _RAREST)
        weighed = replace(result, weights=odds / slopes)
        weighed.__dict__["_there"] = result._there
        return weighed

    def split(self) -> list[Self]:
        """Return the rows of each look."""
        arrays = ("rows", "weights", "total", "centre")
        ends = np.cumsum(self.counts).tolist()
        return [
            replace(
                self,
                **{name: getattr(self, name)[end - count : end] for name in arrays},
                families=(family,),
                counts=(count,),
            )
            for family, count, end in zip(self.families, self.counts, ends, strict=True)
        ]

    def some(self, kept: Mask) -> Self:
        """Return the rows of some of the guesses."""
        arrays = {name: getattr(self, name)[kept] for name in ("rows", "weights", "total", "centre")}
        counts = [int(part.sum()) for part in np.split(kept, np.cumsum(self.counts)[:-1])]
        result = replace(self, **arrays, counts=tuple(counts))
        result.__dict__["_here"], result.__dict__["_back"] = tuple(part[kept] for part in self._here), self._back[kept]
        return result

    @property
    def predictors(self) -> Floats:
        """The linear predictors of all rows at the centre."""
        return np.asarray(self.rows @ self.centre.transpose(0, 2, 1))

    def moments(self, t: Floats) -> tuple[Floats, Floats]:
        """Return the means and slopes at linear predictors, each by the family of its look."""
        t = _squeezed(t)
        if all(family == self.families[0] for family in self.families):
            return self.families[0].mean_and_slope(t)
        return type(self.families[0]).moments(self.families, self.counts, t)

    @property
    def records(self) -> Floats:
        """How many records each row stands for, those counted that a look weighs in full."""
        return np.asarray(self.weights * (self.total / self.weights.shape[1])[:, None])

    def size(self, move: Floats) -> Floats:
        """Return how far each guess's linear predictors move on average."""
        t = self.rows @ move.reshape(self.centre.shape).transpose(0, 2, 1)
        return np.asarray(np.sqrt((t * t).sum(axis=2).mean(axis=1)))

    def way(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return H⁻¹(S(θ) − S(centre)) and its derivative, S(θ) the sum of zμ(z·θ) over the rows, H its slope at the
        centre: how far θ seems to be from the centre to one who takes the mean to be straight.
        """
        sums, slopes = self._sums(theta)
        back = self._back
        return (back @ (sums - self._here[0])[:, :, None])[:, :, 0], back @ slopes

    def seems(self, theta: Floats) -> Floats:
        """Return how far θ seems to be from the centre, as `way` does."""
        return np.asarray((self._back @ (self._sums(theta, slopes=False)[0] - self._here[0])[:, :, None])[:, :, 0])

    def variation(self, looks: Sequence[Look], directions: tuple[Floats, Floats]) -> Floats:
        """Return by how much a score varies, one for each guess, if the model holds.

        A long row, cut to a weight v, counts as v in the information and as v² in the score's variation: where long
        rows tell most of a coefficient, as of a rare flag's, the score varies by far less than the information says.

        Parameters
        ----------
        looks
            What cuts rows.
        directions
            Of the information: its eigenvalues and eigenvectors.
        """
        shown = self._here[1]
        v = _seen(self.rows, looks, self.counts)
        varies = _bent(self._slopes(self._varied, self.weights * v * (1 + _ROUGH * (1 - v))))
        sides = _power(*directions, 0.5) @ _power(*axes(shown), -0.5)
        return np.asarray(sides @ varies @ sides.transpose(0, 2, 1))

    @cached_property
    def _there(self) -> tuple[Floats, Floats]:
        """The means and the slopes at the centre."""
        return self.moments(self.predictors)

    @property
    def _varied(self) -> Floats:
        """By how much what a record of each row pulls with varies at the centre."""
        ends = np.cumsum(self.counts)[:-1]
        each = (np.split(part, ends) for part in (_squeezed(self.predictors), self._there[1]))
        return np.concatenate([family.varies(*subset) for family, *subset in zip(self.families, *each, strict=True)])

    @cached_property
    def _here(self) -> tuple[Floats, Floats]:
        """S at the centre, and its slope there, of which no direction is quite flat."""
        mean, slope = self._there
        return self._sum(mean), _bent(self._slopes(slope))

    @cached_property
    def _back(self) -> Floats:
        return np.asarray(np.linalg.inv(self._here[1]), dtype=np.float64)

    @cached_property
    def _weighed_rows(self) -> Floats:
        """The rows as their weights have them, one a column."""
        return self.rows.transpose(0, 2, 1) * self.weights[:, None]

    def _sums(self, theta: Floats, *, slopes: bool = True) -> tuple[Floats, Floats]:
        """Return S(θ) and its slope; no slope where it is not asked for."""
        mean, slope = self.moments(self.rows @ theta.reshape(self.centre.shape).transpose(0, 2, 1))
        return self._sum(mean), self._slopes(slope) if slopes else np.empty(0)

    def _sum(self, mean: Floats) -> Floats:
        """Return Σzμ of weighed rows, by their means."""
        count, K, d = self.centre.shape
        return (self._weighed_rows @ mean.reshape(count, -1, K)).transpose(0, 2, 1).reshape(count, K * d)

    def _slopes(self, slope: Floats, weights: Floats | None = None) -> Floats:
        """Return its slope, by how the means rise there; with other weights if given."""
        count, K, d = self.centre.shape
        turned = self.rows.transpose(0, 2, 1)
        if K == 1:
            weighed = self._weighed_rows if weights is None else turned * weights[:, None]
            return np.asarray((weighed * slope[:, None]) @ self.rows)
        weighing = self.weights if weights is None else weights
        total = np.empty((count, K * d, K * d))
        for k in range(K):
            for m in range(K):
                part = (turned * (weighing * slope[:, :, k, m])[:, None]) @ self.rows
                total[:, k * d : (k + 1) * d, m * d : (m + 1) * d] = part
        return total


def _bent(slopes: Floats) -> Floats:
    """Return slopes of which no direction is quite flat."""
    return lifted(slopes, 1e-6 * np.trace(slopes, axis1=1, axis2=2) / slopes.shape[1])


def _seen(rows: Floats, looks: Sequence[Look], counts: Sequence[int]) -> Floats:
    """Return how much of each row its look sees: long ones are cut."""
    squares = np.split((rows**2).sum(axis=2), np.cumsum(counts)[:-1])
    return np.concatenate([look.weights(subset) for look, subset in zip(looks, squares, strict=True)])


def _squeezed(t: Floats) -> Floats:
    return t[..., 0] if t.shape[-1] == 1 else t


@functools.cache
def _noise(d: int) -> Floats:
    """Return what rows are made of, always the same."""
    noise = np.random.default_rng(7).standard_normal((_ROWS, d))
    return np.concatenate([noise, -noise])


def _root(matrix: Floats) -> Floats:
    values, vectors = np.linalg.eigh((matrix + matrix.transpose(0, 2, 1)) / 2)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))[:, None]) @ vectors.transpose(0, 2, 1))


def axes(matrices: Floats) -> tuple[Floats, Floats]:
    """Return the eigenvalues of matrices, of which no direction is taken to be quite flat, and their eigenvectors."""
    values, vectors = np.linalg.eigh((matrices + matrices.transpose(0, 2, 1)) / 2)
    return np.maximum(values, 1e-12 * values[:, -1:]), vectors


def _power(values: Floats, vectors: Floats, power: float) -> Floats:
    """Return a power of matrices."""
    return np.asarray((vectors * (values**power)[:, None]) @ vectors.transpose(0, 2, 1))
