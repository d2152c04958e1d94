r"""Ratios of two sums, R = Σy/Σe, of the population that records were drawn from (Fieller 1954).

At the true ratio D = Σ(y - Re) has the mean 0, and its variance by sampling is the mean of W = Σ(y - Re)², which noisy
sums, squares and products of y and e tell for any R, how y and e go together included. So R is not rejected where
|D| ≤ q√(noise + W): a ratio has no end above where Σe may be nothing. As W is told with noise, q is Student's with
Satterthwaite's (1946) degrees of freedom 2V²/Var(W), V the noise and W together, and under Laplace noise it is
stretched by the kurtosis of the sum (Cornish and Fisher 1938).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from sottovoce.inference.cells.cumulative_counts import EXCESS, stretch
from sottovoce.inference.cells.record_sums import truncated_draws
from sottovoce.mechanisms.integer_noise import NoiseKind
from sottovoce.privacy.numbers import Floats
from sottovoce.records.readings.group_moments import MomentScale

_HALVINGS = 50
"""Bisections of an angle: about as many as a double has bits."""
_LEAST = 1e-9
"""The least exposure that is divided by, beside what one record may have."""
_FREEDOM = 3.0
"""Student's law has a variance, and a scale that can be trusted, from so many degrees of freedom on."""


@dataclass(frozen=True)
class NoisyRatio:
    """What was released of Σy and Σe of every group, both as t in [-1, 1] between bounds.

    Attributes
    ----------
    sizes, size_noise
        N of every group as its noisy count tells it, and its variance.
    sums, sum_noise
        The noisy Σt of y and of e, one row each, and the variance of the noise on each.
    squares, square_noise
        The noisy Σt², Σu² and Σ((t - u)/2)², and the variance of the noise on each.
    scales
        How y and e become t and u.
    kind
        The law of the noise.
    """

    sizes: Floats
    size_noise: Floats
    sums: Floats
    sum_noise: float
    squares: Floats
    square_noise: float
    scales: tuple[MomentScale, MomentScale]
    kind: NoiseKind

    def _statistic(self, angle: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return D, the variance of its noise, W and the variance of its noise, for R = tan(angle)·half(y)/half(e).

        They are told of cos(angle)·y/half(y) - sin(angle)·e/half(e), so that no ratio is too large.
        """
        a, b = np.cos(angle), np.sin(angle)
        first, second = self.scales
        k = a * first.middle / first.half - b * second.middle / second.half
        both = a * self.sums[0] - b * self.sums[1]
        off = k * self.sizes + both
        noise = k**2 * self.size_noise + (a**2 + b**2) * self.sum_noise
        weights = np.stack([a**2 - a * b, b**2 - a * b, 4 * a * b])
        spread = k**2 * self.sizes + 2 * k * both + (weights * self.squares).sum(axis=0)
        unsure = k**4 * self.size_noise + 4 * k**2 * self.sum_noise + (weights**2).sum(axis=0) * self.square_noise
        return off, noise, np.maximum(spread, 0.0), unsure

    def _accepted(self, angle: Floats, chance: float) -> Floats:
        off, noise, spread, unsure = self._statistic(angle)
        total = np.maximum(noise + spread, 1e-300)
        freedom = np.maximum(2 * total**2 / np.maximum(unsure, 1e-300), _FREEDOM)
        reach = -special.stdtrit(freedom, chance)
        excess = np.minimum(noise / total, 1.0) ** 2 * EXCESS[self.kind]
        return np.asarray(np.abs(off) <= reach * stretch(excess, chance) * np.sqrt(total))

    @property
    def _middle(self) -> Floats:
        """The angle of the ratio that was seen: a quarter of a turn where no exposure was."""
        scales = zip(self.scales, self.sums, strict=True)
        amounts = [scale.middle / scale.half * self.sizes + total for scale, total in scales]
        return np.asarray(np.arctan2(amounts[0], np.maximum(amounts[1], 0.0)))

    def interval(self, level: float) -> Floats:
        """Return the ratios that the test does not reject, (low, high) last; endless where exposures may be nothing."""
        middle, chance, unit = self._middle, (1 - level) / 2, self.scales[0].half / self.scales[1].half
        ends = []
        for side in (-1.0, 1.0):
            end = np.full(middle.shape, side * np.pi / 2)
            endless = self._accepted(end, chance)
            inside, outside = middle, end
            for _ in range(_HALVINGS):
                angle = (inside + outside) / 2
                kept = self._accepted(angle, chance)
                inside, outside = np.where(kept, angle, inside), np.where(kept, outside, angle)
            ends.append(np.where(endless, side * np.inf, unit * np.tan(inside)))
        return np.stack(ends, axis=-1)

    def draws(self, sizes: Floats, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        """Return draws of every ratio, about how uncertain each is without noise, and by noise.

        Sums are drawn within what N records can have, N as `sizes` draws it, and Σy is moved by as much as chance does.
        """
        first, second = self.scales
        amounts = [
            scale.middle * sizes
            + scale.half * truncated_draws(-sizes, sizes, total, self.sum_noise, self.kind, rng.random(sizes.shape))
            for scale, total in zip(self.scales, self.sums, strict=True)
        ]
        _, noise, spread, _ = self._statistic(np.clip(self._middle, -np.pi / 2, np.pi / 2))
        unit = first.half / np.maximum(np.cos(self._middle), _LEAST)
        chance = np.sqrt(spread) * unit
        amount = np.maximum(amounts[1], _LEAST * second.half)
        ratios = (amounts[0] + chance * rng.standard_normal(sizes.shape)) / amount
        per = np.maximum(amount.mean(axis=0), _LEAST * second.half)
        return ratios, chance / per, unit * np.sqrt(noise) / per


def ratio_range(scales: tuple[MomentScale, MomentScale]) -> tuple[float, float]:
    """Return the public ends of a ratio of two sums.

    >>> ratio_range((MomentScale(0, 10), MomentScale(2, 4))), ratio_range((MomentScale(-1, 10), MomentScale(0, 4)))
    ((0.0, 5.0), (-inf, inf))
    """
    (low, high), least = (scales[0].low, scales[0].high), scales[1].low
    if least > 0:
        return min(low / least, low / scales[1].high), max(high / least, high / scales[1].high)
    return -math.inf if low < 0 else 0.0, math.inf if high > 0 else 0.0
