"""What a record is expected to pull with where counts are explained: a negative binomial law, cut as looks cut it.

Of mean μ = eᵗ counts vary by μ + αμ² (Cameron & Trivedi, *Regression Analysis of Count Data*, ch. 3). The dispersion α
is a latent: 3(1 + α)⁻⁴ before anything is seen, whose mean is one half and whose tail is long.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy import special

from sottovoce.inference.regression.joint_priors import JointPriors
from sottovoce.inference.regression.residual_law import Kernels
from sottovoce.privacy.numbers import Floats
from sottovoce.records.readings.families import PoissonFamily

__all__ = ["CountLaw"]

_STEP = 1e-4
"""Half the distance at which slopes are compared."""
_LEAST = 2.0**-10
"""Below it, α is none: the law is Poisson's, as in `PoissonFamily`."""
_FARTHEST = 700.0
"""Linear predictors are cut here: beyond, their exponential is no double."""


@dataclass(frozen=True)
class CountLaw:
    """Counts with a dispersion, up to a public bound.

    Attributes
    ----------
    latent
        What α is a function of: standard normal before anything is seen.
    high
        No count is larger.
    priors
        Those of α.
    """

    latent: float
    high: int
    priors: JointPriors

    @classmethod
    def of(cls, u: Floats, high: int, priors: JointPriors) -> Self:
        """Return the law at a parameter that is standard normal before anything is seen."""
        return cls(float(u[0]), high, priors)

    @property
    def dispersion(self) -> float:
        """α, whose law is P(α > a) = (1 + a)⁻³ (Lomax)."""
        return math.expm1(-float(special.log_ndtr(-self.latent)) / self.priors.count_dispersion_shape)

    def masses(self, t: Floats) -> Floats:
        """Return P(y = 0), P(y = 1) and so on up to the bound, all that is larger being as large: a row for each t."""
        mu = np.exp(np.clip(t, -_FARTHEST, _FARTHEST))[:, None]
        counts, alpha = np.arange(float(self.high)), self.dispersion
        if alpha < _LEAST:
            logs = special.xlogy(counts, mu) - mu - special.gammaln(counts + 1)
        else:
            r = 1 / alpha
            rising = special.gammaln(counts + r) - special.gammaln(r) - special.gammaln(counts + 1)
            logs = rising - r * np.log1p(alpha * mu) - counts * np.log1p(1 / (alpha * mu))
        below = np.exp(logs)
        return np.hstack([below, np.maximum(1 - below.sum(axis=1, keepdims=True), 0.0)])

    def kernels(self, family: PoissonFamily, t0: Floats, t1: Floats) -> Kernels:
        """Return what a record pulls with at a centre where t₀, if t₁ is the truth."""
        at, rise = family.mean_and_slope(t0)
        bend = (family.slope(t0 + _STEP) - family.slope(t0 - _STEP)) / (2 * _STEP)
        p, zero = self.masses(t1), np.zeros_like(t0)
        by_truth = (self.masses(t1 + _STEP) - self.masses(t1 - _STEP)) / (2 * _STEP)
        ahead, behind = (type(self)(self.latent + step, self.high, self.priors) for step in (_STEP, -_STEP))
        by_law = (ahead.masses(t1) - behind.masses(t1)) / (2 * _STEP)
        cut = self._cut(family)
        (mean, mean_t, mean_u), (square, square_t, square_u) = (
            [mass @ values for mass in (p, by_truth, by_law)] for values in (cut, cut * cut)
        )
        return Kernels(
            (mean - at, -rise, mean_t, [mean_u]),
            (rise, bend, zero, [zero]),
            (
                square - 2 * at * mean + at * at,
                -2 * (mean - at) * rise,
                square_t - 2 * at * mean_t,
                [square_u - 2 * at * mean_u],
            ),
        )

    def covariances(self, families: Sequence[PoissonFamily], t1: Floats) -> Floats:
        """Return how what a record pulls with at several looks varies together: (looks, looks, rows)."""
        p, cuts = self.masses(t1), [self._cut(family) for family in families]
        means = [p @ cut for cut in cuts]
        pairs = zip(cuts, means, strict=True)
        return np.array(
            [[p @ (a * b) - mean_a * mean_b for b, mean_b in zip(cuts, means, strict=True)] for a, mean_a in pairs]
        )

    def _cut(self, family: PoissonFamily) -> Floats:
        """Return what each count is looked at as."""
        return np.asarray(family.outcome(np.arange(self.high + 1.0)))
