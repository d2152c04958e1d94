"""The metric privacy of an exponential family of one's own: its Lipschitz constant by a proven search."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from sottovoce.mechanisms.conjugate.verified_suprema import Ball, supremum_of
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import ceil_float, real
from sottovoce.theory.metric.metric import MetricDP


def family_metric_privacy(
    natural: Callable[[Ball], Ball], low: float, high: float, statistic: Callable[[Any], float] = float
) -> MetricDP:
    r"""Return the metric privacy of log p(x|θ) = η(θ)·S(x) − A(θ) + … with θ between public bounds.

    The likelihoods of two data sets differ by η(θ)·ΣS(x)−S(y), and what does not depend on θ cancels in the posterior:
    so with ρ(x, y) = Σ|S(x_i) − S(y_i)| the constant is half of how far η moves,

    .. math:: L = \tfrac12\Big(\sup_\theta \eta(\theta) - \inf_\theta \eta(\theta)\Big)

    (Dimitrakakis et al. 2014, section 5, take sup|η|, which is never smaller). The supremum is proven.

    Parameters
    ----------
    natural
        η, from a ball to a ball.
    low, high
        Public bounds of θ.
    statistic
        S of one record.

    Examples
    --------
    A proportion between 0.1 and 0.9, η = logit θ: the constant of a coin.

    >>> privacy = family_metric_privacy(lambda p: (p / (1 - p)).log(), 0.1, 0.9)
    >>> round(privacy.lipschitz, 6), round(float(np.log(9)), 6)
    (2.197225, 2.197225)
    """
    first, last = Fraction(real("low", low, -np.inf)), Fraction(real("high", high, -np.inf))
    if not first < last:
        raise InvalidValue(f"low must be below high. Got {low} and {high}")
    top = supremum_of(natural, first, last, rtol=1e-9)
    bottom = -supremum_of(lambda theta: -natural(theta), first, last, rtol=1e-9)
    if not np.isfinite(top - bottom):
        raise InvalidValue("the natural parameter has no bound there; choose narrower public bounds")
    constant = ceil_float((Fraction(top) - Fraction(bottom)) / 2)

    def distance(x: Any, y: Any) -> float:
        if len(x) != len(y):
            raise InvalidData(f"data sets to compare are of one length: n is public. Got {len(x)} and {len(y)}")
        pairs = [(float(statistic(a)), float(statistic(b))) for a, b in zip(x, y, strict=True)]
        if not np.all(np.isfinite(pairs)):
            return math.nan  # no distance, which `MetricDP` says
        return ceil_float(sum((abs(Fraction(a) - Fraction(b)) for a, b in pairs), Fraction(0)))

    return MetricDP(constant, distance)
