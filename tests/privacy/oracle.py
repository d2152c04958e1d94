"""Independent oracles: every number here comes from mpmath and the definition, none from the library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import mpmath as mp


def quad(f: Callable, points: Sequence) -> mp.mpf:
    """∫ f between the points, scaled first: mpmath stops at an absolute error."""
    middles = [(a + b) / 2 for a, b in pairwise(points)]
    scale = max(abs(f(mp.mpf(x))) for x in [*points, *middles])
    return scale * mp.quad(lambda x: f(x) / scale, points)


def renyi(log_p: Callable, log_q: Callable, order: float, points: Sequence) -> mp.mpf:
    """The Rényi divergence by quadrature; order 1 is Kullback-Leibler."""
    if order == 1:
        return quad(lambda x: mp.e ** log_p(x) * (log_p(x) - log_q(x)), points)
    order = mp.mpf(order)
    return mp.log(quad(lambda x: mp.e ** (order * log_p(x) + (1 - order) * log_q(x)), points)) / (order - 1)


def relative(value: float, truth: mp.mpf) -> float:
    return float(abs(mp.mpf(value) / truth - 1))
