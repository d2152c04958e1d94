"""Metric privacy: how much two data sets may differ before their posteriors do (Dimitrakakis et al. 2014).

The central model asks about one record replaced by another. Here any distance between data sets will do, and the
promise weakens in proportion to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats, any_floats, ceil_float, real
from sottovoce.privacy.pure import BoundedRangeProfile
from sottovoce.privacy.rounding import product_up

Metric = Callable[[Any, Any], float]
"""A pseudo-metric on data sets: symmetric, zero from a data set to itself, and with the triangle inequality."""


def absolute_distance(x: object, y: object) -> float:
    """Return Σ|xᵢ - yᵢ|, rounded up.

    >>> absolute_distance([0.0, 2.0], [1.0, 5.0])
    4.0
    """
    return ceil_float(sum((abs(a - b) for a, b in _different(x, y)), Fraction(0)))


def hamming_distance(x: object, y: object) -> float:
    """Return how many records differ; a record may be a row.

    >>> hamming_distance([[0, 1], [2, 3]], [[0, 1], [2, 4]])
    1.0
    """
    x, y = _both(x, y)
    return float(np.sum((x != y).reshape(len(x), -1).any(axis=1))) if x.size else 0.0


def squares_distance(x: object, y: object) -> float:
    """Return Σ(|xᵢ² - yᵢ²| + 2|xᵢ - yᵢ|), the distance of the normal family (Lemma 6), rounded up.

    >>> squares_distance([0.0, 1.0], [0.0, 3.0])
    12.0
    """
    return ceil_float(sum((abs(a - b) * (abs(a + b) + 2) for a, b in _different(x, y)), Fraction(0)))


def _different(x: object, y: object) -> Iterator[tuple[Fraction, Fraction]]:
    """Yield the numbers that differ, as they are."""
    x, y = _both(x, y)
    return ((Fraction(a), Fraction(b)) for a, b in zip(x[x != y].tolist(), y[x != y].tolist(), strict=True))


def _both(x: object, y: object) -> tuple[Floats, Floats]:
    try:
        first, second = any_floats("x", x), any_floats("y", y)
    except (TypeError, ValueError):
        raise InvalidData("data sets to compare must be numbers; code categories as whole numbers") from None
    if first.shape != second.shape or first.ndim == 0:
        raise InvalidData(
            f"data sets to compare must be columns of one shape: n is public. Got {first.shape} and {second.shape}"
        )
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise InvalidData("data sets to compare must hold finite numbers; a record is missing or infinite")
    return first, second


@dataclass(frozen=True)
class MetricDP:
    r"""A posterior that moves by at most a factor e^(2Lρ) between data sets at distance ρ.

    If for **every** parameter θ in the support of the prior the likelihoods of two data sets keep

    .. math:: \big|\ln p_\theta(x) - \ln p_\theta(y) - h(x, y)\big| \le L\,\rho(x, y),

    with an h free of θ (it cancels in the posterior), then (Dimitrakakis et al. 2014, Theorems 1(i) and 2(i))

    .. math:: \xi(B \mid x) \le e^{2L\rho(x,y)}\,\xi(B \mid y), \qquad
              D(\xi(\cdot\mid x) \,\|\, \xi(\cdot\mid y)) \le 2L\rho(x,y).

    The privacy loss in fact lies in a window of width 2Lρ, which bounds the divergence by L²ρ²/2 as well: better
    wherever Lρ < 4. `profile` uses it, so that answers compose.

    It is a notion of its own, not a promise that a budget is opened with. For the central model, ask `within` for the
    profile at the largest distance that one record replaced can make.

    Parameters
    ----------
    lipschitz
        L >= 0, uniform over the parameters.
    metric
        The distance ρ; the sum over records of any distance between single records keeps the L of one record.

    Examples
    --------
    A proportion known to lie in [0.1, 0.9], and records in {0, 1}:

    >>> privacy = MetricDP(lipschitz=math.log(9), metric=absolute_distance)
    >>> round(privacy.log_ratio_bound([0, 1, 1], [0, 1, 0]), 4)
    4.3944
    >>> round(privacy.kl_bound([0, 1, 1], [0, 1, 0]), 4)
    1.9566
    """

    lipschitz: float
    metric: Metric = hamming_distance

    def __post_init__(self) -> None:
        object.__setattr__(self, "lipschitz", real("lipschitz", self.lipschitz))
        if not callable(self.metric):
            raise InvalidValue(f"metric must be a function of two data sets. Got {self.metric!r}")

    def distance(self, x: object, y: object) -> float:
        """Return ρ(x, y), checked to be a distance at all: a number >= 0, the same both ways."""
        there, back = float(self.metric(x, y)), float(self.metric(y, x))
        if not (math.isfinite(there) and there >= 0):
            raise InvalidValue(f"a distance must be finite and >= 0. Got {there}")
        if not math.isclose(there, back, rel_tol=1e-9):
            raise InvalidValue(f"a distance must be the same both ways. Got {there} and {back}")
        return max(there, back)

    def log_ratio_bound(self, x: object, y: object) -> float:
        """Return 2Lρ(x, y): no event's probability moves by a larger factor than its exponential (Theorem 2(i))."""
        return product_up(2.0, self.lipschitz, self.distance(x, y))

    def kl_bound(self, x: object, y: object) -> float:
        """Return a bound on the Kullback–Leibler divergence, at most Theorem 1(i)'s 2Lρ and at most L²ρ²/2."""
        return float(self.profile(x, y).renyi(1.0))

    def profile(self, x: object, y: object) -> BoundedRangeProfile:
        """Return what one posterior sample does to this pair of data sets."""
        return BoundedRangeProfile(self.log_ratio_bound(x, y))

    def within(self, distance: float) -> BoundedRangeProfile:
        """Return what one posterior sample does to any two data sets at most this far apart.

        >>> MetricDP(0.5, absolute_distance).within(1.0).pure()
        1.0
        """
        return BoundedRangeProfile(product_up(2.0, self.lipschitz, real("distance", distance)))
