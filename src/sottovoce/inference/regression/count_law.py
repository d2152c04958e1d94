r"""What a record is expected to pull with where counts are explained: a negative binomial law, cut as looks cut it.

Of mean μ = eᵗ counts vary by μ + αμ² (Cameron & Trivedi, *Regression Analysis of Count Data*, ch. 3). The dispersion α
is a latent: 3(1 + α)⁻⁴ before anything is seen, whose mean is one half and whose tail is long. Where rates follow
another law than the gamma of a negative binomial, counts that are cut at K lose more or less: as if t were less by

.. math:: \delta_K = \lambda\,\bigl(\log(1 + \alpha\mu/K) - \log(1 + \alpha\mu/\mathrm{high})\bigr),

nothing where nothing is cut, to the first order in δ; λ is a latent, which looks tell that cut at different places.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy import special, stats

from sottovoce.inference.regression.joint_priors import JointPriors
from sottovoce.inference.regression.residual_law import Kernels
from sottovoce.privacy.numbers import Floats
from sottovoce.records.readings.families import PoissonFamily

_STEP = 1e-4
"""Half the distance at which slopes are compared."""
_LEAST = 2.0**-10
"""Below it, α is none: the law is Poisson's, as in `PoissonFamily`."""
_FARTHEST = 700.0
_TINY = 1e-300
"""Linear predictors are cut here: beyond, their exponential is no double."""


@dataclass(frozen=True)
class CountLaw:
    """Counts with a dispersion, up to a public bound.

    Attributes
    ----------
    latent, tail
        What α and λ are functions of: standard normal before anything is seen.
    high
        No count is larger.
    priors
        Those of α and of λ.
    """

    latent: float
    tail: float
    high: int
    priors: JointPriors

    @classmethod
    def of(cls, u: Floats, high: int, priors: JointPriors) -> Self:
        """Return the law at parameters that are standard normal before anything is seen."""
        return cls(float(u[0]), float(u[1]), high, priors)

    @property
    def dispersion(self) -> float:
        """α, whose law is P(α > a) = (1 + a)⁻³ (Lomax)."""
        return math.expm1(-float(special.log_ndtr(-self.latent)) / self.priors.count_dispersion_shape)

    @property
    def rise(self) -> float:
        """The derivative of α by its latent."""
        log = -(self.latent**2) / 2 - 0.5 * math.log(2 * math.pi) - float(special.log_ndtr(-self.latent))
        return (1 + self.dispersion) / self.priors.count_dispersion_shape * math.exp(log)

    @property
    def longer(self) -> tuple[float, float]:
        """λ, whose law is Student's t, and its derivative by its latent."""
        freedom, scale = self.priors.count_tail_freedom, self.priors.count_tail_scale
        t = float(special.stdtrit(freedom, special.ndtr(self.tail)))
        return scale * t, scale * math.exp(float(stats.norm.logpdf(self.tail) - stats.t.logpdf(t, freedom)))

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

    def at(self, t: Floats, *, slopes: bool = True) -> CountMasses:
        """Return the law of the counts of rows, with what looks at any of them need."""
        p = self.masses(t)
        once, twice = self._along(p, t)
        if not slopes:
            return CountMasses(self, t, np.stack([p, once]), slopes)
        ahead, behind = (replace(self, latent=self.latent + step).masses(t) for step in (_STEP, -_STEP))
        turned = [
            replace(self, latent=self.latent + step)._along(q, t)[0] for step, q in ((_STEP, ahead), (-_STEP, behind))
        ]
        by_law, mixed = (ahead - behind) / (2 * _STEP), (turned[0] - turned[1]) / (2 * _STEP)
        return CountMasses(self, t, np.stack([p, once, twice, by_law, mixed]), slopes)

    def _along(self, p: Floats, t: Floats) -> tuple[Floats, Floats]:
        """Return the first two derivatives of all masses by t."""
        mu = np.exp(np.clip(t, -_FARTHEST, _FARTHEST))[:, None]
        counts, alpha = np.arange(float(self.high)), self.dispersion if self.dispersion >= _LEAST else 0.0
        slope = (counts - mu) / (1 + alpha * mu)
        bend = slope**2 - mu / (1 + alpha * mu) * ((1 + alpha * counts) / (1 + alpha * mu))
        below = [p[:, :-1] * part for part in (slope, bend)]
        first, second = (np.hstack([part, -part.sum(axis=1, keepdims=True)]) for part in below)
        return first, second


@dataclass(frozen=True, eq=False)
class CountMasses:
    """The law of the counts of several rows.

    Attributes
    ----------
    law, t
        The law, and the linear predictors.
    masses
        P(y = j), a row for each t; its first and second derivative by t, that by the latent of α, and that of the first
        by it. Without `slopes` the first two alone.
    """

    law: CountLaw
    t: Floats
    masses: Floats
    slopes: bool

    def kernels(self, family: PoissonFamily, t0: Floats) -> Kernels:
        """Return what a record pulls with at a centre where t₀."""
        at, rise = family.mean_and_slope(t0)
        zero = np.zeros_like(t0)
        bend = (family.slope(t0 + _STEP) - family.slope(t0 - _STEP)) / (2 * _STEP) if self.slopes else zero
        counts = np.arange(self.law.high + 1.0)
        mean, mean_t, mean_u, mean_tail = self._expected(np.minimum(counts, family.most), family.most)
        if family.beyond:
            near = self._expected(np.minimum(counts, family.beyond), family.beyond)
            mean, mean_t, mean_u, mean_tail = (
                a - b for a, b in zip((mean, mean_t, mean_u, mean_tail), near, strict=True)
            )
        square, square_t, square_u, square_tail = self._expected(self._cut(family) ** 2, family.most)
        return Kernels(
            (mean - at, -rise, mean_t, [mean_u, mean_tail]),
            (rise, bend, zero, [zero, zero]),
            (
                square - 2 * at * mean + at * at,
                -2 * (mean - at) * rise,
                square_t - 2 * at * mean_t,
                [square_u - 2 * at * mean_u, square_tail - 2 * at * mean_tail],
            ),
        )

    def _expected(self, values: Floats, cut: int) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the mean of a function of counts that are cut, and its derivatives by t and the law's two latents."""
        mean, once, *others = self.masses @ values
        longer, stretch = self.law.longer
        shift, shift_z = self._shift(cut)
        delta = longer * shift
        if not self.slopes:
            return mean - delta * once, once, once, once
        twice, by_law, mixed = others
        along = longer * shift_z
        return (
            mean - delta * once,
            once - delta * twice - along * self._z * once,
            by_law - delta * mixed - along * self._z * (self.law.rise / max(self.law.dispersion, _TINY)) * once,
            -stretch * shift * once,
        )

    @cached_property
    def _z(self) -> Floats:
        """αμ."""
        return np.asarray(self.law.dispersion * np.exp(np.clip(self.t, -_FARTHEST, _FARTHEST)))

    def _shift(self, cut: int) -> tuple[Floats, Floats]:
        """Return δ/λ of counts cut at a place, and its derivative by αμ."""
        z, high = self._z, self.law.high
        return np.log1p(z / cut) - np.log1p(z / high), 1 / (cut + z) - 1 / (high + z)

    def covariances(self, families: Sequence[PoissonFamily]) -> Floats:
        """Return how what a record pulls with at several looks varies together: (looks, looks, rows)."""
        p, cuts = self.masses[0], [self._cut(family) for family in families]
        means = [p @ cut for cut in cuts]
        pairs = zip(cuts, means, strict=True)
        return np.array(
            [[p @ (a * b) - mean_a * mean_b for b, mean_b in zip(cuts, means, strict=True)] for a, mean_a in pairs]
        )

    def _cut(self, family: PoissonFamily) -> Floats:
        """Return what each count is looked at as."""
        return np.asarray(family.outcome(np.arange(self.law.high + 1.0)))
