"""Independent oracles: every number here comes from Arb or mpmath and the definition, none from the library."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from operator import mul

import flint
import mpmath as mp
from flint import acb, arb

Integrand = Callable[[acb, bool], acb]
"""A function on the complex plane, as Arb integrates it: it is told where it must be analytic."""


@dataclass(frozen=True)
class LogDensity:
    """A sum of terms t(x), each with its weight, less a constant.

    Sums of such are added weight by weight: the ball of 60 log p - 59 log q is as narrow as that of log p, and Arb
    need not cut its intervals to shreds.
    """

    terms: Callable[[acb, bool], tuple[acb, ...]]
    weights: tuple[arb, ...]
    constant: arb

    def __call__(self, x: acb, analytic: bool) -> acb:
        return self.at(self.terms(x, analytic))

    def at(self, terms: tuple[acb, ...]) -> acb:
        return sum(map(mul, self.weights, terms), -self.constant)

    def between(self, other: LogDensity, order: arb) -> LogDensity:
        """order · self + (1 - order) · other."""
        weights = tuple(order * a + (1 - order) * b for a, b in zip(self.weights, other.weights, strict=True))
        return LogDensity(self.terms, weights, order * self.constant + (1 - order) * other.constant)

    def less(self, other: LogDensity) -> LogDensity:
        """Self - other."""
        weights = tuple(a - b for a, b in zip(self.weights, other.weights, strict=True))
        return LogDensity(self.terms, weights, self.constant - other.constant)


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


def ball_quad(f: Integrand, points: Sequence, fine: int) -> arb:
    """∫ f between the points, in a ball that holds it, small beside 2^-`fine` times the largest f."""
    tolerance = arb(2) ** -fine
    with untraced():
        scale = max(abs(f(acb(x), False)) for x in [*points, *((a + b) / 2 for a, b in pairwise(points))])
        parts = [
            acb.integral(lambda x, analytic: f(x, analytic) / scale, a, b, rel_tol=tolerance, abs_tol=tolerance)
            for a, b in pairwise(points)
        ]
    return scale * sum(part.real for part in parts)


def excess(log_p: LogDensity, log_q: LogDensity, epsilon: arb, points: Sequence) -> arb:
    """∫ p - e^ε q between the points."""

    def above(x: acb, analytic: bool) -> acb:
        terms = log_p.terms(x, analytic)
        return log_p.at(terms).exp() - (epsilon + log_q.at(terms)).exp()

    return sharp(lambda fine: ball_quad(above, points, fine))


def ball_renyi(log_p: LogDensity, log_q: LogDensity, order: float, points: Sequence) -> arb:
    """The Rényi divergence by quadrature in balls; order 1 is Kullback-Leibler."""
    if order == 1:
        loss = log_p.less(log_q)

        def weighed(x: acb, analytic: bool) -> acb:
            terms = log_p.terms(x, analytic)
            return log_p.at(terms).exp() * loss.at(terms)

        return sharp(lambda fine: ball_quad(weighed, points, fine))
    order = arb(order)
    middle = log_p.between(log_q, order)
    return sharp(lambda fine: ball_quad(lambda x, at: middle(x, at).exp(), points, fine).log() / (order - 1))


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
