"""Families of a response with two values: logistic and probit."""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from sottovoce.privacy.numbers import Floats
from sottovoce.records.facts.columns import Category, Flag
from sottovoce.records.readings.family import FARTHEST, Family

HART = (
    (
        *(0.0352624965998911, 0.700383064443688, 6.37396220353165, 33.912866078383, 112.079291497871),
        *(221.213596169931, 220.206867912376),
    ),
    (
        *(0.0883883476483184, 1.75566716318264, 16.064177579207, 86.7807322029461, 296.564248779674),
        *(637.333633378831, 793.826512519948, 440.413735824752),
    ),
)
"""Hart's rational form of the normal law's tail for |t| < 7.07 (West 2009), off by 1e-12 at most: plain arithmetic and
one exponential, as every engine has them."""
EDGE = 7.07106781186547
_ANGLES, _SIDES = 1441, 91
_TURNS, _WAYS = (
    np.stack([np.cos(places), np.sin(places)], axis=axis)
    for axis, places in enumerate(np.linspace(0.0, math.pi, count) for count in (_ANGLES, _SIDES))
)
"""Cosines and sines of the angles at which a set's ends are taken, and of the directions in which it is measured."""
_SHORT, _HALVINGS = 1e-6, 20
"""A score shorter than this may go with any information; and how often the longest row's length is halved."""
_EVERY = 15
_SECTORS = [_WAYS[start : start + _EVERY + 1] for start in range(0, _SIDES - 1, _EVERY)]
"""The directions between every fifteenth and the next, with both."""


def normal_cdf(t: Floats) -> Floats:
    """Return Φ(t) by plain arithmetic, the same on every engine but for the last digits of an exponential.

    >>> normal_cdf(np.array([0.0, 1.96])).round(6).tolist()
    [0.5, 0.975002]
    """
    size = np.minimum(np.abs(t), EDGE)
    above, below = (np.polyval(part, size) for part in HART)
    tail = np.exp(-size * size / 2) * above / below
    return np.asarray(np.where(t > 0, 1 - tail, tail))


class _Binary(Family):
    wants = "a flag, or a category of two values"

    def takes(self) -> bool:
        return isinstance(self.response, Flag) or (
            isinstance(self.response, Category) and len(self.response.categories) == 2
        )

    peak: ClassVar[float]
    """Where u(1 − μ(u)) is largest."""

    def outcome(self, values: Floats) -> Floats:
        """Return 0 or 1."""
        result = super().outcome(values)
        return np.where(np.isnan(result), np.nan, (result != 0).astype(np.float64))

    def apart(self, near: float, far: float) -> float:
        r"""Return the diameter of all contributions x(1 − μ(x·θ)): −x with y = 0 gives what x with 1 does.

        About θ the set is round, so a plane shows it: the ray at angle a to θ ends where s(1 − μ(s·near·cos a)) is
        largest over s ≤ 1, or at 1 − μ(far·cos a) where that grows with the row. The ends are taken on a grid of
        angles, and what lies between two of them is added.
        """
        return min(_diameter(self, float(near), float(far)), 2 * self.bound(far))

    @abstractmethod
    def curve(self, residual: Floats) -> Floats:
        """Return the slope of the mean, beside the steepest, where the residual is ρ or −ρ: h(ρ)."""

    def information_ranges(self, far: float, edges: Floats) -> tuple[Floats, Floats]:
        r"""Return the ends of a record's information where its score is a ≤ 1 long, beside the bound B = μ(far).

        With s = aB, a row of length l ≤ 1, in units of the norm, and a residual ρ ≤ B has s = lρ and the information
        l²h(ρ)/k; one that is up to k long has s = ρ and up to h(s), and a longer one, l > k, s = kρ/l and h(ρ), for ρ
        from s to μ(l·far/k). So it is at most h(s), or 1 where s ≤ ½. It is at least a²h(B)/k, for h(ρ)/ρ² falls, or
        h(ρ) for the largest ρ, where μ(λ·far)/λ, which falls with λ = l/k, is s.
        """
        bound = self.bound(far)
        low = edges[:-1] * bound
        most = np.where(low <= 0.5, 1.0, self.curve(np.maximum(low, 0.5)))
        shortest, longest = np.zeros(low.size), np.log(1 / np.maximum(low, _SHORT))
        for _ in range(_HALVINGS):
            length = (shortest + longest) / 2
            above = self.mean(np.minimum(np.exp(length) * far, FARTHEST)) > low * np.exp(length)
            shortest, longest = np.where(above, length, shortest), np.where(above, longest, length)
        surest = np.where(low < _SHORT, 1.0, self.mean(np.minimum(np.exp(longest) * far, FARTHEST)))
        return np.minimum(edges[:-1] ** 2 * self.curve(np.array(bound)) / self.stretch, self.curve(surest)), most


@functools.lru_cache(maxsize=4096)
def _diameter(family: _Binary, near: float, far: float) -> float:
    along = _TURNS[0] * np.where(_TURNS[0] > 0, near, far)
    s = np.where(along > family.peak, family.peak / np.maximum(along, family.peak), 1.0)
    ends = s * (1 - family.mean(s * along)) * _TURNS
    # The farthest end goes round with the direction: between two directions it lies between theirs.
    at = (_WAYS[::_EVERY] @ ends).argmax(axis=1).tolist()
    far_off = [
        np.maximum.reduce(ways @ ends[:, first : last + 1], axis=1)
        for ways, first, last in zip(_SECTORS, at, at[1:], strict=False)
    ]
    # The diameter is the largest width; a width is the sum of how far the set goes in a direction and in its opposite,
    # which is as far as in the direction at the same angle to −θ.
    width = max(float((item + other[::-1]).max()) for item, other in zip(far_off, reversed(far_off), strict=True))
    # The nearest direction tried is half a step off, and an end moves by no more than 1 + far·κ a radian.
    between = (1 + far * family.steepest) * math.pi / (_ANGLES - 1)
    return (width + between) / math.cos(math.pi / (_SIDES - 1) / 2)


@dataclass(frozen=True)
class LogisticFamily(_Binary):
    """y is 1 with probability 1/(1 + e⁻ᵗ)."""

    word: ClassVar[str] = "logistic"
    ratio: ClassVar[str | None] = "odds ratio"

    def mean(self, t: Floats) -> Floats:
        """Return 1/(1 + e⁻ᵗ)."""
        return np.asarray(1 / (1 + np.exp(np.minimum(np.maximum(-t, -FARTHEST), FARTHEST))))

    def slope(self, t: Floats) -> Floats:
        """Return p(1 − p)."""
        return self.mean_and_slope(t)[1]

    def mean_and_slope(self, t: Floats) -> tuple[Floats, Floats]:
        """Return both."""
        p = self.mean(t)
        return p, p * (1 - p)

    steepest = 0.25
    peak: ClassVar[float] = 1.2784645427610738

    def bound(self, reach: float) -> float:
        """Return the probability at the far end; ½ at t = 0."""
        return 1 / (1 + math.exp(-min(reach, FARTHEST)))

    def curve(self, residual: Floats) -> Floats:
        """Return 4ρ(1 − ρ)."""
        return 4 * residual * (1 - residual)


@dataclass(frozen=True)
class ProbitFamily(_Binary):
    """y is 1 with probability Φ(t); records are weighed alike, which loses little and bounds them all."""

    word: ClassVar[str] = "probit"
    stretch: ClassVar[float] = 2.0

    def mean(self, t: Floats) -> Floats:
        """Return Φ(t)."""
        return normal_cdf(t)

    def slope(self, t: Floats) -> Floats:
        """Return φ(t)."""
        size = np.minimum(np.abs(t), EDGE)
        return np.asarray(np.exp(-size * size / 2) / math.sqrt(2 * math.pi))

    steepest = 1 / math.sqrt(2 * math.pi)
    peak: ClassVar[float] = 0.7517915247

    def bound(self, reach: float) -> float:
        """Return the probability at the far end; ½ at t = 0."""
        return float(normal_cdf(np.array([reach]))[0]) * (1 + 1e-12)

    def curve(self, residual: Floats) -> Floats:
        """Return e^(−t²/2) where Φ(t) = ρ, a bound a hair above 1 taken for 1."""
        return np.asarray(np.exp(-(special.ndtri(np.minimum(residual, 1.0)) ** 2) / 2))
