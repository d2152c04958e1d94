"""Independent oracles: every number here comes from mpmath and the definition, none from the library."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import mpmath as mp


@contextmanager
def untraced() -> Iterator[None]:
    """Stop measuring coverage, which is asked of the library and not of an oracle, and makes it three times slower."""
    trace = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(trace)


def quad(f: Callable, points: Sequence) -> mp.mpf:
    """∫ f between the points, scaled first: mpmath stops at an absolute error."""
    with untraced():
        middles = [(a + b) / 2 for a, b in pairwise(points)]
        scale = max(abs(f(mp.mpf(x))) for x in [*points, *middles])
        return scale * mp.quad(lambda x: f(x) / scale, points)


def renyi(log_p: Callable, log_q: Callable, order: float, points: Sequence) -> mp.mpf:
    """The Rényi divergence by quadrature; order 1 is Kullback-Leibler."""
    if order == 1:
        return quad(lambda x: mp.exp(log_p(x)) * (log_p(x) - log_q(x)), points)
    order = mp.mpf(order)
    return mp.log(quad(lambda x: mp.exp(order * log_p(x) + (1 - order) * log_q(x)), points)) / (order - 1)


def relative(value: float, truth: mp.mpf) -> float:
    return float(abs(mp.mpf(value) / truth - 1))
