r"""Exact rejection: a Dirichlet with every probability above a floor, rounded exactly.

All categories but one, m, are proposed from independent Gamma(α_k, λ) tails above the floor; m takes the rest r, and
the proposal is kept with probability e^(w(r) - max w), w(r) = (α_m - 1) log r - λr. Whatever λ > 0 is, what is kept has
the density Π θ_k^(α_k - 1) where every θ_k >= floor. Where every α_k < 1, w would be largest at the floor, so that m is
drawn too, in proportion to its envelope, and must turn out to be the largest probability.

The proposals are real numbers of which as many bits are known as were asked for, and each comparison is made in balls,
with more bits until it is certain.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cached_property

import numpy as np

from sottovoce.mechanisms.ball_arithmetic import Ball, BallFunction, ball, ball_function, precision
from sottovoce.mechanisms.conjugate.distributions.truncated_dirichlet import TruncatedDirichlet
from sottovoce.mechanisms.conjugate.exact_posteriors import DirichletLaw, GammaLaw
from sottovoce.mechanisms.lazy_uniform import BitSource, LazyUniform, find_cell
from sottovoce.mechanisms.rounding_cells import FloatingCells, RoundingCells, exact

_FIRST = 40
"""Significant bits of a proposal that are looked at first."""


class LazyReal:
    """A sample of a law on the positive numbers, known to lie between two ends that come nearer on demand."""

    def __init__(self, function: BallFunction, source: BitSource) -> None:
        self._function, self._uniform = function, LazyUniform(source)
        self._bits = _FIRST
        self._find()

    def _find(self) -> None:
        cells = FloatingCells(self._bits)
        k = find_cell(self._function, cells, self._uniform)
        self.low, self.high = exact(cells.edge(k)), exact(cells.edge(k + 1))
        self.low = self.low if self._function.low is None else max(self.low, self._function.low)

    def refine(self) -> None:
        """Bring the ends nearer."""
        self._bits += _FIRST
        self._find()


class Proposals:
    """What the proposals of one floored Dirichlet share."""

    def __init__(self, law: DirichletLaw) -> None:
        self.law = law
        guide = TruncatedDirichlet(np.array([float(a) for a in law.alpha]), float(law.floor))
        self.rate = Fraction(float(guide._rate[0]))  # any positive number is right; this one keeps many proposals
        self.flat = max(law.alpha) < 1
        self.tails = [ball_function(GammaLaw(a, self.rate, law.floor)) for a in law.alpha]
        self._shares: dict[int, list[Ball]] = {}

    @cached_property
    def home(self) -> int:
        """The category that takes the rest, unless it is drawn."""
        return int(np.argmax([float(a) for a in self.law.alpha]))

    def top(self, m: int) -> Fraction:
        """Return where w is largest."""
        size, floor = len(self.law.alpha), self.law.floor
        if self.flat:
            return Fraction(1, size)
        return min(max((self.law.alpha[m] - 1) / self.rate, floor), 1 - (size - 1) * floor)

    def envelope(self, m: int, bits: int) -> Ball:
        """Return e^w at its top, over the mass of m's own Gamma tail."""
        with precision(bits):
            alpha, top, rate = ball(self.law.alpha[m]), ball(self.top(m)), ball(self.rate)
            tail = ball(self.rate * self.law.floor).gamma_upper(alpha) * (-alpha * rate.log()).exp()
            return ((alpha - 1) * top.log() - rate * top).exp() / tail

    def shares(self, bits: int) -> list[Ball]:
        """Return, for each category, the envelopes before it over all of them: computed once for each precision."""
        if bits not in self._shares:
            size = len(self.law.alpha)
            weights = [self.envelope(m, bits) for m in range(size)]
            with precision(bits):
                self._shares[bits] = [sum(weights[:m], ball(0)) / sum(weights, ball(0)) for m in range(size)]
        return self._shares[bits]

    def kept(self, m: int, low: Fraction, high: Fraction, bits: int) -> Ball:
        """Return a ball around e^(w(r) - max w) for r between two ends."""
        with precision(bits):
            alpha, rate = ball(self.law.alpha[m]), ball(self.rate)
            r, top = ball(low).union(ball(high)), ball(self.top(m))
            return ((alpha - 1) * (r / top).log() - rate * (r - top)).exp()


def _pick(proposals: Proposals, source: BitSource) -> int:
    """Return a category in proportion to its envelope."""
    last, uniform = len(proposals.law.alpha) - 1, LazyUniform(source)

    def before(k: int) -> Callable[[int], Ball]:
        return lambda bits: proposals.shares(bits)[k]

    return next((k for k in range(last) if not uniform.beyond(before(k + 1))), last)


def _keep(proposals: Proposals, m: int, others: list[LazyReal], source: BitSource) -> bool:
    """Say whether to keep a proposal, for sure."""
    uniform, bits = LazyUniform(source), 104
    while True:
        low, high = (1 - sum((getattr(x, end) for x in others), Fraction(0)) for end in ("high", "low"))
        least = max(x.low for x in others) if proposals.flat else proposals.law.floor
        most = max(x.high for x in others) if proposals.flat else proposals.law.floor
        if high < least:
            return False
        if low >= most:
            chance = proposals.kept(m, low, high, bits)
            with precision(bits):
                if chance >= ball((uniform.value + 1, -uniform.bits)):
                    return True
                if chance <= ball((uniform.value, -uniform.bits)):
                    return False
        bits += 64
        uniform.refine()
        for x in others:
            x.refine()


def floored_dirichlet(proposals: Proposals, source: BitSource, cells: RoundingCells) -> list[float]:
    """Return θ, all but the last of its entries the middle of its cell, the last one the rest.

    Which category took the rest of the proposals depends on the records; which takes the rest of what leaves must not.
    """
    while True:
        m = _pick(proposals, source) if proposals.flat else proposals.home
        others = [LazyReal(tail, source) for k, tail in enumerate(proposals.tails) if k != m]
        if _keep(proposals, m, others, source):
            break
    values = _rounded(others, m, cells)
    return [float(value) for value in (*values, 1 - sum(values, Fraction(0)))]


def _rounded(others: list[LazyReal], m: int, cells: RoundingCells) -> list[Fraction]:
    """Return the middles of the cells of all entries but the last, m among them as what the others leave."""
    while True:
        ends = [(x.low, x.high) for x in others]
        ends.insert(m, (1 - sum((x.high for x in others), Fraction(0)), 1 - sum((x.low for x in others), Fraction(0))))
        result = [_cell(low, high, cells) for low, high in ends[:-1]]
        if None not in result:
            return [cells.middle(k) for k in result if k is not None]
        for x in others:
            x.refine()


def _cell(low: Fraction, high: Fraction, cells: RoundingCells) -> int | None:
    """Return the one cell between two ends, or None where there may be two."""
    first = cells.index(low)
    return next(
        (k for k in (first, first + 1) if exact(cells.edge(k)) <= low and high <= exact(cells.edge(k + 1))), None
    )
