"""Independent oracles: every number here comes from Arb or mpmath and the definition, none from the library."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import flint
import mpmath as mp
from flint import acb, arb

LogDensity = Callable[[acb, bool], acb]
"""A log-density on the complex plane, as Arb integrates it: it is told where it must be analytic."""


@contextmanager
def untraced() -> Iterator[None]:
    """Stop measuring coverage, which is asked of the library and not of an oracle, and makes it three times slower."""
    trace = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(trace)


@contextmanager
def bits(wanted: int) -> Iterator[None]:
    """Work in balls of so many bits."""
    before, flint.ctx.prec = flint.ctx.prec, wanted
    try:
        yield
    finally:
        flint.ctx.prec = before


def sharp(ball: Callable[[int], arb]) -> arb:
    """A ball known to ten digits: a coarse one where that will do, else one finer by the bits it lacked."""
    fine, found = 44, ball(44)
    while (known := found.rel_accuracy_bits()) < 36 and fine < 100:
        fine = min(fine + 40 - max(known, 0), 100)
        found = ball(fine)
    return found


def ball_quad(f: LogDensity, points: Sequence, fine: int) -> arb:
    """∫ f between the points, in a ball that holds it, small beside 2^-`fine` times the largest f."""
    tolerance = arb(2) ** -fine
    with untraced():
        scale = max(abs(f(acb(x), False)) for x in [*points, *((a + b) / 2 for a, b in pairwise(points))])
        parts = [
            acb.integral(lambda x, analytic: f(x, analytic) / scale, a, b, rel_tol=tolerance, abs_tol=tolerance)
            for a, b in pairwise(points)
        ]
    return scale * sum(part.real for part in parts)


def excess(log_p: LogDensity, log_q: LogDensity, epsilon: float | arb, points: Sequence) -> arb:
    """∫ p - e^ε q between the points."""

    def above(x: acb, analytic: bool) -> acb:
        return log_p(x, analytic).exp() - (epsilon + log_q(x, analytic)).exp()

    return sharp(lambda fine: ball_quad(above, points, fine))


def ball_renyi(log_p: LogDensity, log_q: LogDensity, order: float, points: Sequence) -> arb:
    """The Rényi divergence by quadrature in balls; order 1 is Kullback-Leibler."""
    if order == 1:
        return sharp(
            lambda fine: ball_quad(lambda x, at: log_p(x, at).exp() * (log_p(x, at) - log_q(x, at)), points, fine)
        )
    order = arb(order)

    def moment(x: acb, analytic: bool) -> acb:
        return (order * log_p(x, analytic) + (1 - order) * log_q(x, analytic)).exp()

    return sharp(lambda fine: ball_quad(moment, points, fine).log() / (order - 1))


def quad(f: Callable, points: Sequence) -> mp.mpf:
    """∫ f between the points by mpmath, scaled first: mpmath stops at an absolute error."""
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


def relative(value: float, truth: mp.mpf | arb) -> float:
    """How far a value is off, at most."""
    if isinstance(truth, arb):
        return float(abs(arb(value) / truth - 1).upper())
    return float(abs(mp.mpf(value) / truth - 1))
