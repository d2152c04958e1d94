"""What a record is expected to pull with: residuals of two values, and of numbers cut at a cap, with derivatives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from sottovoce.inference.regression.joint_priors import JointPriors
from sottovoce.privacy.numbers import Floats
from sottovoce.records.readings.families import Family

__all__ = ["Kernel", "Kernels", "ResidualLaw", "binary_residuals"]

Kernel = tuple[Floats, Floats, Floats, list[Floats]]
"""A function of each row, and its derivatives by the linear predictor at the centre, by that at θ, and by the
parameters of the residuals' law."""
_NODES = 40
"""Gauss–Hermite nodes of a residual's law, where two cuts are taken together: variances need two digits."""
_STEP = 1e-4
"""Half the distance at which slopes of means are compared."""


@dataclass(frozen=True)
class Kernels:
    """The expected residual, the expected slope of it (as information), and the expected square of it (as meat)."""

    mean: Kernel
    kept: Kernel
    square: Kernel


def binary_residuals(family: Family, t0: Floats, t1: Floats, *, slopes: bool = True) -> Kernels:
    """Return what a record of two values pulls with at a centre where t₀, if t₁ is the truth."""
    at, rise = family.mean_and_slope(t0)
    truth, climbs = family.mean_and_slope(t1)
    zero = np.zeros_like(t0)
    bend = (family.slope(t0 + _STEP) - family.slope(t0 - _STEP)) / (2 * _STEP) if slopes else zero
    return Kernels((truth - at, -rise, climbs, []), (rise, bend, zero, []), (zero, zero, zero, []))


@dataclass(frozen=True)
class ResidualLaw:
    """Normal residuals of deviation sd, but for a share that is `ratio` times as wide (Tukey 1960).

    `dsd` and `dshare` are the derivatives by the parameters.
    """

    sd: float
    dsd: float
    share: float
    dshare: float
    ratio: float

    @classmethod
    def of(cls, u: float, tail: float, priors: JointPriors) -> ResidualLaw:
        """Return the law at two parameters that are standard normal before anything is seen."""
        sd = math.exp(math.log(priors.dispersion_median) + priors.dispersion_log_sd * float(u))
        at = float(special.ndtri(priors.tail_median)) + priors.tail_sd * float(tail)
        slope = priors.tail_sd * math.exp(-at * at / 2) / math.sqrt(2 * math.pi)
        return cls(sd, sd * priors.dispersion_log_sd, float(special.ndtr(at)), slope, priors.tail_ratio)

    @property
    def variance(self) -> float:
        """The variance of a residual."""
        return self.sd**2 * (1 - self.share + self.share * self.ratio**2)

    def kernels(self, cap: float, beyond: float, off: Floats) -> Kernels:
        """Return what residuals about a centre that is off pull with: cut at the cap, or what of them lies beyond."""
        near, far = (self._cut(cap, beyond, off, times) for times in (1.0, self.ratio))
        found = []
        for one, other in zip(near, far, strict=True):
            value, by_off, by_sd = ((1 - self.share) * a + self.share * b for a, b in zip(one, other, strict=True))
            by_law = [by_sd * self.dsd, (other[0] - one[0]) * self.dshare]
            found.append((value, -by_off, by_off, by_law))
        return Kernels(*found)

    def _cut(self, cap: float, beyond: float, off: Floats, times: float) -> list[tuple[Floats, Floats, Floats]]:
        cut = _clipped(off, times * self.sd, cap, times)
        if not beyond:
            return cut
        inner = _clipped(off, times * self.sd, beyond, times)
        mean = tuple(a - b for a, b in zip(cut[0], inner[0], strict=True))
        return [(mean[0], mean[1], mean[2]), *cut[1:]]

    def covariances(self, cuts: Sequence[tuple[float, float]], offs: Sequence[Floats]) -> Floats:
        """Return how what a record pulls with at several looks varies together: (looks, looks, rows)."""
        nodes, weights = _hermite()
        law = np.concatenate([(1 - self.share) * weights, self.share * weights])
        noise = self.sd * np.concatenate([nodes, self.ratio * nodes])
        pulls = []
        for (cap, beyond), off in zip(cuts, offs, strict=True):
            residual = off[:, None] + noise
            cut = np.clip(residual, -cap, cap) if cap else residual
            pulls.append(cut - np.clip(cut, -beyond, beyond) if beyond else cut)
        pulls = [pull - (pull @ law)[:, None] for pull in pulls]
        return np.array([[(a * b) @ law for b in pulls] for a in pulls])


@lru_cache(maxsize=1)
def _hermite() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    return nodes, weights / weights.sum()


def _clipped(b: Floats, sd: float, cap: float, times: float) -> list[tuple[Floats, Floats, Floats]]:
    """Return mean, share that is not cut and square of X ~ N(b, sd²) cut at ±cap, each with derivatives by b and by
    sd over `times`.
    """
    if not cap:
        one, zero = np.ones_like(b), np.zeros_like(b)
        return [(b, one, zero), (one, zero, zero), (b * b + sd * sd, 2 * b, np.full_like(b, 2 * sd * times))]
    above, below = (cap - b) / sd, (-cap - b) / sd
    pa, pb = special.ndtr(above), special.ndtr(below)
    fa, fb = (np.exp(-k * k / 2) / math.sqrt(2 * math.pi) for k in (above, below))
    inside, rise = pa - pb, fb - fa  # P and E[Z; inside]
    second = inside + below * fb - above * fa  # E[Z²; inside]
    mean = cap * (1 - pa) - cap * pb + b * inside + sd * rise
    square = cap**2 * (1 - inside) + b * b * inside + 2 * b * sd * rise + sd * sd * second
    return [
        (mean, inside, times * rise),
        (inside, rise / sd, times * (below * fb - above * fa) / sd),
        (square, 2 * (b * inside + sd * rise), 2 * times * (b * rise + sd * second)),
    ]
