"""How much more counts vary than a Poisson law's: a small look that measures it, and what that tells.

Of records with the same mean μ, counts vary by μ + αμ² where their rates vary as a gamma law of variance α does. Where
counts are cut, their mean depends on α, so α must be known as far as it matters, and its doubt be in the intervals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from sottovoce.inference.regression.formula import Formula
from sottovoce.inference.regression.noisy_score_information import NoisyScoreInformation
from sottovoce.privacy.numbers import Floats
from sottovoce.records.readings import Look
from sottovoce.records.readings.families import PoissonFamily

_TINY = 2.0**-20
"""What is left of all entries of a row but the constant."""
_MOST, _HIGHEST = 32.0, 50.0
"""α is believed to be no larger, and tried no larger."""
_TRIED, _PLACES = 33, 501
"""At how many α what counts vary is worked out, and at how many between them it is weighed."""
_OTHER = 0.4
"""How far, as a part of it, α may lead astray where rates vary by another law than a gamma."""
_ROUGH = 0.05
"""How far, as a part of it, what counts vary on imagined rows may be from what they do on the records."""
_FARTHER, _LEVELS = 3.0, 9
"""How far levels may lie from where they were looked for by another α, and at how many places that is worked out."""
_LOST = 0.15
"""What counts of mean μ that are cut at K may lose beside a gamma law's, alike, is this part of αμ/K of them, which
falls as slowly as tails of real counts do; α is as large as it may be: the less is known, the longer its law's tail."""
_TAILS = 8.0
"""How much the squares of residuals vary beside the square of their mean."""


@dataclass(frozen=True)
class Overdispersion:
    """What is believed of α, the variance of rates between records of the same mean: its mean and deviation.

    Before it was looked at both are one half. What a look tells is weighed by the law 3(1 + α)⁻⁴, whose mean is one
    half and whose tail is long: nights in a hospital, of which most people have none, vary as with an α of thirty.

    >>> Overdispersion().doubt > Overdispersion(0.0, 0.1).doubt
    True
    """

    mean: float = 0.5
    sd: float = 0.5

    @property
    def doubt(self) -> float:
        """How far α may be from its mean, and the law of the rates from a gamma."""
        return math.hypot(self.sd, _OTHER * self.mean)

    @property
    def tail(self) -> float:
        """How much counts of mean μ that are cut at K may lose beside the law's, alike: this over K, for each μ."""
        return _LOST * (self.mean + self.sd * (1 + min(self.sd, 1.0)))

    def shift(self, family: PoissonFamily, t: Floats) -> Floats:
        """Return by how much each kind of doubt moves the mean of cut counts: that of α, and that of long tails."""
        high, low = self.sides(family)
        lost = self._lost(family, t, np.array(family.most)) * family.slope(t)
        return np.stack([(high.mean(t) - low.mean(t)) / 2, lost])

    def shifts(self, family: PoissonFamily, t: Floats, slopes: Floats | None = None) -> Floats:
        """Return the same of counts cut at 1, at 2 and so on, a row each, as their slopes are if those are known."""
        high, low = self.sides(family)
        slopes = family.by_cap(t)[1] if slopes is None else slopes
        lost = self._lost(family, t, np.arange(1.0, family.most + 1))[:, None] * slopes
        return np.stack([(high.means_by_cap(t) - low.means_by_cap(t)) / 2, lost])

    def sides(self, family: PoissonFamily) -> list[PoissonFamily]:
        """Return the laws of the largest and the least α that is believed."""
        ends = np.clip([self.mean + self.doubt, self.mean - self.doubt], 0.0, _HIGHEST).tolist()
        return [replace(family, extra=end) for end in ends]

    def _lost(self, family: PoissonFamily, t: Floats, cap: Floats) -> Floats:
        """Return what part of their mean all counts alike may lose; nothing where no count is larger."""
        most = max(family.response.high, cap.max())  # type: ignore[attr-defined]
        return np.asarray(self.tail * family.expected(t).mean() * (1 / cap - 1 / most))

    @classmethod
    def of(
        cls,
        glance: NoisyScoreInformation,
        rows: Floats,
        records: Floats,
        misses: Floats,
        before: PoissonFamily | None = None,
    ) -> Self:
        """Return what a `variation_look` tells, post-processing.

        Parameters
        ----------
        glance
            What it let out.
        rows, records, misses
            Imagined rows x, how many records each stands for, and the variance of what the centre's t is off there.
        before
            The law by which the centre was found: by that of another α it would lie higher or lower.
        """
        assert glance.meat is not None and glance.information is not None
        look = glance.look
        family = look.model
        assert isinstance(family, PoissonFamily)
        shown = slice(None) if glance.constant is None else slice(glance.constant, glance.constant + 1)
        varies, sums = (float(np.diag(part)[shown].sum()) for part in (glance.meat, glance.information))
        sizes = math.sqrt(len(np.diag(glance.meat)[shown]))
        z = rows @ look.matrix.T
        squares = (z * z).sum(axis=1)
        v, t = look.weights(squares), z @ look.predictors[0]
        slope, mean = family.slope(t), family.mean(t)
        weights = records * v * v * squares / max(float((records * v * squares) @ slope), 1e-300)
        missed = float(weights @ (slope**2 * misses))
        tried = _MOST * np.linspace(0.0, 1.0, _TRIED) ** 3
        off = np.zeros_like(tried) if before is None else _elsewhere(before, t, records * v, tried)
        middles, varied = family.means_and_variances(t + off[:, None], tried)
        each = (varied + (middles - mean) ** 2) @ weights + missed
        places = np.linspace(0.0, 1.0, _PLACES)
        result = _MOST * places**3
        ratios = np.interp(result, tried, each)
        expected = ratios * max(sums, glance.tau * sizes)
        noise = (glance.tau_meat * sizes) ** 2 + (ratios * glance.tau * sizes) ** 2 + (missed * sums) ** 2
        noise = noise + expected**2 * (_ROUGH**2 + _TAILS / max(float(records.sum()), 1.0))
        logs = -4 * np.log1p(result) - (varies - expected) ** 2 / (2 * noise)
        mass = places**2 * np.exp(logs - logs.max())
        mass = mass / mass.sum()
        middle = float(mass @ result)
        return cls(middle, math.sqrt(float(mass @ (result - middle) ** 2)))


def _elsewhere(before: PoissonFamily, t: Floats, weights: Floats, tried: Floats) -> Floats:
    """Return how much higher all t lie by each of several α, whose counts, cut as before, have the mean they had."""

    def logit(mean: Floats) -> Floats:
        part = np.clip(mean @ weights / (before.most * weights.sum()), 1e-9, 1 - 1e-9)
        return np.asarray(np.log(part / (1 - part)))

    seen, places = float(logit(before.mean(t))), np.linspace(-_FARTHER, _FARTHER, _LEVELS)
    low, high = np.zeros(len(tried), dtype=int), np.full(len(tried), _LEVELS - 1)
    below, above = np.full(len(tried), math.nan), np.full(len(tried), math.nan)
    while (high - low).max() > 1:  # means rise with t, so that of each α only the two places about it are needed
        middle = (low + high) // 2
        means = logit(before.means(t + places[middle, None], tried))
        under = means <= seen
        low, below = np.where(under, middle, low), np.where(under, means, below)
        high, above = np.where(under, high, middle), np.where(under, above, means)
    for result, place in ((below, places[0]), (above, places[-1])):
        if (none := np.isnan(result)).any():  # few α lead to either end
            result[none] = logit(before.means(t + place, tried))[none]
    part = np.where(below < seen, (seen - below) / np.maximum(above - below, 1e-300), below == above)
    return np.asarray(places[low] + np.clip(part, 0.0, 1.0) * (places[high] - places[low]))


def variation_look(system: Formula, n: int | None, centre: Floats, cap: float) -> Look:
    """Return a look that adds up how much counts vary about a centre, and their means, and nothing else.

    Its rows are constants, so every record weighs the same; without an intercept, those of the first look.
    """
    shape, norm = system.first_frame
    constant = next((i for i, entry in enumerate(system.encoding.entries) if not entry), None)
    if constant is not None:
        sizes = np.where(np.arange(len(shape)) == constant, 1.0, _TINY)
        shape, norm = np.diag(sizes), 1 + _TINY
    return system.look_at(n, centre, shape, norm, ("information", "meat"), cap)
