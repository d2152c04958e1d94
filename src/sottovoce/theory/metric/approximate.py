r"""(ε, δ)-privacy under a pseudo-metric, and neighbours that lie near each other (Dimitrakakis et al. 2014).

Definition 2 asks, of every two data sets at any distance ρ = ρ(x, y),

.. math:: P(B \mid x) \le e^{\varepsilon\rho} P(B \mid y) + \delta\rho.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import special

from sottovoce.mechanisms.conjugate import NormalMean
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import ceil_float, real
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import ApproxDP
from sottovoce.theory.metric.metric import Metric, MetricDP, absolute_distance, hamming_distance

_RATIO = 1.0005
"""Distances are looked at on a grid of this ratio; between two of them the larger numerator stands over the smaller."""


@dataclass(frozen=True)
class ApproximateMetricDP:
    """(ε, δ)-privacy under a pseudo-metric, for data sets up to `largest` apart (Definition 2).

    >>> privacy = ApproximateMetricDP(0.5, 1e-6, absolute_distance, largest=10.0)
    >>> privacy.between([0.0, 2.0], [1.0, 2.5])
    ApproxDP(epsilon=0.75, delta=1.5e-06)
    """

    epsilon: float
    delta: float
    metric: Metric = hamming_distance
    largest: float = math.inf

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", real("epsilon", self.epsilon))
        object.__setattr__(self, "delta", real("delta", self.delta))
        if not self.largest > 0:
            raise InvalidValue(f"largest must be > 0. Got {self.largest!r}")
        object.__setattr__(self, "largest", float(self.largest))

    def between(self, x: object, y: object) -> ApproxDP:
        """Return the promise that holds between two data sets."""
        return self.within(MetricDP(0.0, self.metric).distance(x, y))

    def within(self, distance: float) -> ApproxDP:
        """Return the promise that holds between any two data sets at most this far apart."""
        rho = real("distance", distance)
        if rho > self.largest:
            raise InvalidValue(f"this holds up to a distance of {self.largest:g}. Got {rho:g}")
        delta = ceil_float(Fraction(rho) * Fraction(self.delta))
        if delta >= 1:
            raise InvalidValue(f"at a distance of {rho:g} δ is 1, and nothing is promised")
        return ApproxDP(ceil_float(Fraction(rho) * Fraction(self.epsilon)), delta)


def normal_mean_metric(
    system: NormalMean, n: int, epsilon: float, largest: float, data_weight: float = 1.0, prior_weight: float = 1.0
) -> ApproximateMetricDP:
    r"""Return the (ε, δ) under ρ(x, y) = Σ|x_i − y_i| of one sample of a normal mean's posterior.

    Two data sets at distance ρ have posteriors cρ standard deviations apart at most, c = w/(σ²√P). The least δ is the
    supremum of δ_G(ερ; cρ)/ρ over all ρ up to `largest`, where δ_G(ε; μ) is the Gaussian's; it is bounded on a fine
    grid, as δ_G(ερ; cρ) grows in ρ, and near zero by the largest slope there.

    Examples
    --------
    >>> system = NormalMean(variance=1, prior_variance=1, bounds=(-1, 1))
    >>> privacy = normal_mean_metric(system, 100, epsilon=0.5, largest=2.0)
    >>> f"{privacy.delta:.2g}"
    '7.6e-09'
    """
    if system.radius is not None or system.bounds is None:
        raise InvalidValue("distances of records are those of numbers here; give a NormalMean with bounds")
    eps, top = real("epsilon", epsilon, above=0.0), real("largest", largest, above=0.0)
    width = system.bounds[1] - system.bounds[0]
    c = system.profile(n, data_weight, prior_weight).gdp() / width * (1 + 1e-12)
    steps = math.ceil(math.log(1e6) / math.log(_RATIO))
    rho = top * _RATIO ** -np.arange(steps + 1.0)
    # δ_G(ερ; cρ) = Φ(cρ/2 − ε/c) − e^(ερ)Φ(−cρ/2 − ε/c), and what the difference may lose, added back.
    first, second = special.log_ndtr(c * rho / 2 - eps / c), eps * rho + special.log_ndtr(-c * rho / 2 - eps / c)
    values = np.exp(first) - np.exp(second) + 1e-15 * np.exp(first) * (1 + np.abs(first))
    grid = float(np.max(values[:-1] / rho[1:]))
    # Below the grid: the slope φ(u)(c − ε·M(x)) with Mills' ratio M, each factor at its largest.
    last = float(rho[-1])
    u, x = max(eps / c - c * last / 2, 0.0), eps / c + c * last / 2
    mills = math.exp(float(special.log_ndtr(-x)) + x * x / 2) * math.sqrt(2 * math.pi)
    slope = math.exp(-u * u / 2) / math.sqrt(2 * math.pi) * max(c - eps * mills, 0.0)
    return ApproximateMetricDP(eps, max(grid, slope) * (1 + 1e-9), absolute_distance, top)


def profile_within(
    system: object, n: int, distance: float, data_weight: float = 1.0, prior_weight: float = 1.0
) -> Profile:
    """Return what one posterior sample does to data sets that differ in one record, by at most `distance` there.

    The appendix' relaxed neighbours (A.6.2): a promise that protects a record up to small changes of it; see
    `Conjugate.profile_within`.

    Examples
    --------
    >>> system = NormalMean(variance=1, prior_variance=1, bounds=(-10, 10))
    >>> round(profile_within(system, 99, 1.0).gdp(), 9), round(system.profile(99).gdp(), 9)
    (0.1, 2.0)
    """
    near = getattr(system, "profile_within", None)
    if near is None:
        raise InvalidValue(f"nobody has worked out near neighbours of a {type(system).__name__}; use its own profile")
    result: Profile = near(n, distance, data_weight, prior_weight)
    return result
