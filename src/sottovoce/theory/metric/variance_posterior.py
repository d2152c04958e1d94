"""Normal records with an exponential prior on their variance: the family of Lemma 6 as it is stated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import integrate, special

from sottovoce.privacy.errors import InvalidData
from sottovoce.privacy.numbers import Floats, real
from sottovoce.theory.metric.metric import Metric, MetricDP, squares_distance
from sottovoce.theory.metric.posterior_pairs import NormalPrecision, PosteriorPairs


def log_bessel_k(order: float, z: float) -> float:
    r"""Return ln K_p(z), which overflows nowhere.

    .. math:: K_p(z) = \tfrac12 \int_{-\infty}^{\infty} e^{pt - z\cosh t}\,dt,

    by the trapezoidal rule around its peak, which converges geometrically for such an integrand.

    >>> round(log_bessel_k(0.5, 2.0), 12) == round(math.log(math.sqrt(math.pi / 4)) - 2.0, 12)
    True
    """
    low, high = _reach(order, z)
    t = np.linspace(low, high, 2001)
    logs = order * t - z * np.cosh(t)
    return float(special.logsumexp(logs)) + math.log((high - low) / 2000) - math.log(2)


def _reach(order: float, z: float) -> tuple[float, float]:
    """Return the ends beyond which pt - z·cosh t is 45 below its peak."""
    peak = math.asinh(order / z)
    top = order * peak - z * math.cosh(peak)
    ends = []
    for sign in (-1.0, 1.0):
        step = min((z * z + order * order) ** -0.25, 1.0)
        while top - (order * (peak + sign * step) - z * math.cosh(peak + sign * step)) < 45:
            step *= 1.3
        ends.append(peak + sign * step)
    return ends[0], ends[1]


@dataclass(frozen=True)
class NormalVariance(PosteriorPairs):
    r"""N(mean, v) records with the prior v ~ Exp(rate) (Dimitrakakis et al. 2014, Lemma 6 as stated).

    The posterior is generalized inverse Gaussian, with S = Σ(x-mean)²:

    .. math:: p(v\mid x) \propto v^{-n/2} e^{-S/(2v) - \lambda v}, \qquad
              \ln Z = \ln 2K_p\big(\sqrt{2\lambda S}\big) + \tfrac p2 \ln\tfrac{S}{2\lambda}, \quad p = 1 - \tfrac n2,

    and a Rényi divergence is a difference of three ln Z.

    >>> round(NormalVariance(mean=0.0, rate=1.0).divergence([1.0, -1.0], [1.0, -2.0]), 5)
    0.46771
    """

    metric: ClassVar[Metric] = staticmethod(squares_distance)
    mean: float
    rate: float

    def __post_init__(self) -> None:
        checked = NormalPrecision(self.mean, self.rate)
        object.__setattr__(self, "mean", checked.mean)
        object.__setattr__(self, "rate", checked.rate)

    def _statistic(self, records: Floats) -> float:
        squares = float(np.square(records - self.mean).sum())
        if records.size and squares == 0:
            raise InvalidData("every record equals the mean: the posterior of the variance is no distribution")
        return squares

    def _log_z(self, n: int, squares: float, shift: float = 0.0) -> float:
        """Return ln of ∫ v^(-n/2 - shift) e^(-S/(2v) - λv) dv."""
        p, a = 1 - n / 2 - shift, 2 * self.rate
        return math.log(2) + log_bessel_k(p, math.sqrt(a * squares)) + p / 2 * math.log(squares / a)

    def _renyi(self, first: tuple[int, float], second: tuple[int, float], order: Floats) -> Floats:
        n, p, q = first[0], first[1], second[1]
        if p == q:
            return np.asarray(0.0)
        if order == 1:
            inverse = math.exp(self._log_z(n, p, 1.0) - self._log_z(n, p))  # the mean of 1/v
            return np.asarray((q - p) / 2 * inverse + self._log_z(n, q) - self._log_z(n, p))
        mixed = float(order) * p + (1 - float(order)) * q
        if mixed <= 0:
            return np.asarray(np.inf)
        total = self._log_z(n, mixed) - order * self._log_z(n, p) - (1 - order) * self._log_z(n, q)
        return np.asarray(total / (order - 1))

    def max_log_ratio(self, x: object, y: object) -> float:
        """Return ln(Z_y/Z_x) where S_x >= S_y; infinite the other way, where the ratio grows as v falls to zero."""
        (n, first), (_, second) = self._pair(x, y)
        if first == second:
            return 0.0
        return math.inf if second > first else self._log_z(n, second) - self._log_z(n, first)

    def total_variation(self, x: object, y: object) -> float:
        """Return the total variation distance: the log-ratio crosses zero once, so one integral up to there."""
        (n, first), (_, second) = self._pair(x, y)
        if first == second:
            return 0.0
        low, high = sorted((first, second))
        crossing = (high - low) / 2 / (self._log_z(n, low) - self._log_z(n, high))
        return self._below(n, low, crossing) - self._below(n, high, crossing)

    def _below(self, n: int, squares: float, v: float) -> float:
        p, a = 1 - n / 2, 2 * self.rate
        z, middle = math.sqrt(a * squares), math.sqrt(squares / a)
        log_norm = math.log(2) + log_bessel_k(p, z)
        low, high = _reach(p, z)
        end = min(max(math.log(v / middle), low), high)
        peak = min(max(math.asinh(p / z), low), end)
        parts = [
            integrate.quad(lambda t: math.exp(p * t - z * math.cosh(t) - log_norm), *ends, epsabs=1e-12, epsrel=1e-11)
            for ends in ((low, peak), (peak, end))
        ]
        return float(sum(part[0] for part in parts))

    def bounded(self, limit: float) -> MetricDP:
        """Return the metric privacy under the prior cut off at a variance >= `limit`: L = max(1, |mean|)/(2·limit)."""
        return NormalPrecision(self.mean, self.rate).bounded(real("limit", limit))
