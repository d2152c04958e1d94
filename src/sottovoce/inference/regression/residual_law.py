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

Kernel = tuple[Floats, Floats, Floats, list[Floats]]
"""A function of each row, and its derivatives by the linear predictor at the centre, by that at θ, and by the
parameters of the residuals' law."""
_PARTS, _WITHIN = 7, 0.5
"""Normal laws that a log-normal one is made of, and the deviation within them beside that of the whole."""
_STRAIGHT = 1e-3
_NODES = 7
"""Gauss–Hermite nodes of each, where two cuts are taken together: variances need two digits."""
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
    square: Kernel = truth - 2 * truth * at + at * at, 2 * rise * (at - truth), climbs * (1 - 2 * at), []
    return Kernels((truth - at, -rise, climbs, []), (rise, bend, zero, []), square)


@dataclass(frozen=True, eq=False)
class ResidualLaw:
    """Residuals of a shifted log-normal law but for a share several times as wide, as a mixture of normal laws.

    The normal variable e behind a log-normal one is a·E + b·Z, E on Gauss–Hermite nodes; given E the first two moments
    of the log-normal variable are known, so those of the mixture are exact, and its sums of cut residuals are smooth.

    Attributes
    ----------
    weights, means, sds
        The mixture; its mean is zero.
    slopes
        The derivatives of each by the three parameters: (parameters, components).
    """

    weights: Floats
    means: Floats
    sds: Floats
    slopes: tuple[Floats, Floats, Floats]

    @classmethod
    def of(cls, u: Floats, priors: JointPriors) -> ResidualLaw:
        """Return the law at parameters (spread, tail, skew) that are standard normal before anything is seen."""
        sd = math.exp(math.log(priors.dispersion_median) + priors.dispersion_log_sd * float(u[0]))
        at = float(special.ndtri(priors.tail_median)) + priors.tail_sd * float(u[1])
        share = float(special.ndtr(at))
        dshare = priors.tail_sd * math.exp(-at * at / 2) / math.sqrt(2 * math.pi)
        skew, step = priors.residual_skew_sd * float(u[2]), priors.residual_skew_sd * _STEP
        mean, width = _log_normal_parts(skew)
        ahead, behind = _log_normal_parts(skew + step), _log_normal_parts(skew - step)
        dmean, dwidth = ((a - b) / (2 * _STEP) for a, b in zip(ahead, behind, strict=True))
        _, odds = _hermite(_PARTS)
        times = np.repeat([1.0, priors.tail_ratio], _PARTS)
        weights = np.concatenate([(1 - share) * odds, share * odds])
        dweights = np.zeros((3, 2 * _PARTS))
        dweights[1] = dshare * np.concatenate([-odds, odds])
        parts = []
        for value, by_skew in ((mean, dmean), (width, dwidth)):
            scaled = sd * times * np.tile(value, 2)
            parts.append((scaled, priors.dispersion_log_sd * scaled, sd * times * np.tile(by_skew, 2)))
        dmeans, dsds = (np.array([by_sd, np.zeros(2 * _PARTS), by_skew]) for _, by_sd, by_skew in parts)
        return cls(weights, parts[0][0], parts[1][0], (dweights, dmeans, dsds))

    @property
    def variance(self) -> float:
        """The variance of a residual."""
        return float(self.weights @ (self.sds**2 + self.means**2))

    def kernels(self, cap: float, beyond: float, off: Floats) -> Kernels:
        """Return what residuals about a centre that is off pull with: cut at the cap, or what of them lies beyond."""
        centres = off[:, None] + self.means
        cut = _clipped(centres, self.sds, cap)
        if beyond:
            inner = _clipped(centres, self.sds, beyond)[0]
            cut = [(cut[0][0] - inner[0], cut[0][1] - inner[1], cut[0][2] - inner[2]), *cut[1:]]
        dweights, dmeans, dsds = self.slopes
        kernels = []
        for value, by_centre, by_sd in cut:
            by_off = by_centre @ self.weights
            by_law = value @ dweights.T + by_centre @ (self.weights * dmeans).T + by_sd @ (self.weights * dsds).T
            kernels.append((value @ self.weights, -by_off, by_off, list(by_law.T)))
        return Kernels(*kernels)

    def covariances(self, cuts: Sequence[tuple[float, float]], offs: Sequence[Floats]) -> Floats:
        """Return how what a record pulls with at several looks varies together: (looks, looks, rows)."""
        nodes, odds = _hermite(_NODES)
        law = (self.weights[:, None] * odds).ravel()
        noise = (self.means[:, None] + self.sds[:, None] * nodes).ravel()
        pulls = []
        for (cap, beyond), off in zip(cuts, offs, strict=True):
            residual = off[:, None] + noise
            cut = np.clip(residual, -cap, cap) if cap else residual
            pulls.append(cut - np.clip(cut, -beyond, beyond) if beyond else cut)
        # (rows, looks, nodes), in single precision: variances need two digits.
        centred = np.stack([pull - (pull @ law)[:, None] for pull in pulls], axis=1).astype(np.float32)
        together = (centred * law.astype(np.float32)) @ np.swapaxes(centred, 1, 2)
        return np.moveaxis(together.astype(np.float64), 0, -1)


def _log_normal_parts(skew: float) -> tuple[Floats, Floats]:
    """Return the means and deviations of a standardised log-normal variable given each node of E."""
    nodes, _ = _hermite(_PARTS)
    inner = _WITHIN**2
    if abs(skew) < _STRAIGHT:  # to the first order: g = e + κ(e² − 1)/2
        e = math.sqrt(1 - inner) * nodes
        return e + skew * (e * e + inner - 1) / 2, _WITHIN * np.abs(1 + skew * e)
    scale = math.sqrt(math.expm1(skew * skew)) * math.copysign(1.0, skew)
    raised = np.exp(skew * math.sqrt(1 - inner) * nodes - skew * skew * (1 - inner) / 2)
    return (raised - 1) / scale, raised * math.sqrt(math.expm1(skew * skew * inner)) / abs(scale)


@lru_cache(maxsize=4)
def _hermite(count: int) -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return nodes, weights / weights.sum()


def _clipped(b: Floats, sd: Floats, cap: float) -> list[tuple[Floats, Floats, Floats]]:
    """Return mean, share that is not cut and square of X ~ N(b, sd²) cut at ±cap, each with derivatives by b and sd."""
    if not cap:
        all_of_it, zero = np.ones_like(b), np.zeros_like(b)
        return [(b, all_of_it, zero), (all_of_it, zero, zero), (b * b + sd * sd, 2 * b, zero + 2 * sd)]
    above, below = (cap - b) / sd, (-cap - b) / sd
    pa, pb = special.ndtr(above), special.ndtr(below)
    fa, fb = (np.exp(-k * k / 2) / math.sqrt(2 * math.pi) for k in (above, below))
    inside, rise = pa - pb, fb - fa  # P and E[Z; inside]
    second = inside + below * fb - above * fa  # E[Z²; inside]
    mean = cap * (1 - pa) - cap * pb + b * inside + sd * rise
    square = cap**2 * (1 - inside) + b * b * inside + 2 * b * sd * rise + sd * sd * second
    return [
        (mean, inside, rise),
        (inside, rise / sd, (below * fb - above * fa) / sd),
        (square, 2 * (b * inside + sd * rise), 2 * (b * rise + sd * second)),
    ]
