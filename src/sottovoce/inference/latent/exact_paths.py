r"""Paths of hidden states drawn exactly: what the states of a tempered chain tell is what is claimed, to the last bit.

A state's fit to a record is a whole number of steps of 2^-g between 0 and B_f/T for each field, rounded down at the
end, so that adding it up over records is exact and one replaced record moves the log-weight of any path by at most
ΣB_f/T, as a fact about whole numbers. A path then comes with exactly the probability that these weights give it: the
filter runs in ball arithmetic, and a state is found by comparing a uniform number, drawn bit by bit, with the balls.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np

from sottovoce.mechanisms.ball_arithmetic import Ball, ball, precision
from sottovoce.mechanisms.lazy_uniform import BitSource, LazyUniform
from sottovoce.privacy.numbers import Floats, Integers

_FINE = 40
"""Steps of 2⁻⁴⁰, or coarser where there are so many records that sums would not fit into 62 bits."""


@dataclass(frozen=True, eq=False)
class Misfits:
    """How badly each state fits each cell, -log of its weight: `steps` (chain, step, state) of size 2^-bits."""

    steps: Integers
    bits: int


def whole_misfits(
    counts: Sequence[Floats],
    emissions: Sequence[Floats],
    bounds: Sequence[float],
    weight: float,
    highest: Sequence[float],
    n: int,
) -> Misfits:
    """Return the misfits of whole counts (chain, step, category), a table a field, to emissions (state, category).

    Parameters
    ----------
    bounds
        B_f, by how much log-probabilities of a field differ at most.
    weight
        At most 1/T.
    highest
        The largest probability that a category of each field can have.
    n
        How many records there are in all, as is public.

    >>> theta = np.array([[0.9, 0.1], [0.1, 0.9]])
    >>> made = whole_misfits([np.array([[[3.0, 0.0]]])], [theta], [math.log(9)], 0.5, [0.9], n=3)
    >>> (made.steps[0, 0] * 2.0**-made.bits).round(4).tolist()
    [0.0, 3.2958]
    """
    widest = max(1, math.ceil(sum(bounds) * weight))
    bits = min(_FINE, 61 - (n + 1).bit_length() - widest.bit_length())
    total: Any = 0
    for table, theta, bound, top in zip(counts, emissions, bounds, highest, strict=True):
        most = math.floor(Fraction(bound) * Fraction(weight) * (1 << bits))
        parts = np.clip(np.rint((math.log(top) - np.log(theta)) * weight * 2.0**bits), 0, most).astype(np.int64)
        total = total + np.rint(table).astype(np.int64) @ parts.T
    return Misfits(np.asarray(total), bits)


@dataclass(eq=False)
class _Filter:
    """Weights of all beginnings of a path that end in a state, (step, state), at any precision."""

    misfits: Sequence[Sequence[int]]
    bits: int
    initial: Sequence[Fraction]
    transition: Sequence[Sequence[Fraction]]
    _made: dict[int, list[list[Ball]]] = field(default_factory=dict)

    def __call__(self, bits: int) -> list[list[Ball]]:
        if bits not in self._made:
            with precision(bits):
                self._made[bits] = self._run()
        return self._made[bits]

    def _run(self) -> list[list[Ball]]:
        from flint import arb_mat  # noqa: PLC0415 - only a release needs it

        size = len(self.initial)
        before = [ball(p) for p in self.initial]
        moves = arb_mat(size, size, [ball(p) for row in self.transition for p in row])
        result = []
        for row in self.misfits:
            least = min(row)  # one factor for all states changes no law, and keeps numbers near one
            now = [p * ball((least - steps, -self.bits)).exp() for p, steps in zip(before, row, strict=True)]
            result.append(now)
            before = (arb_mat(1, size, now) * moves).entries()
        return result


def exact_path(misfits: Integers, bits: int, initial: Floats, transition: Floats, source: BitSource) -> list[int]:
    """Return the states of one chain, (step,), with exactly the probability that their weights have among all paths.

    >>> from sottovoce.privacy.randomness import secure_rng
    >>> far = np.array([[0, 1 << 30], [1 << 30, 0]])  # 2³⁰ steps of 2⁻²⁰
    >>> exact_path(far, 20, np.full(2, 0.5), np.full((2, 2), 0.5), secure_rng())
    [0, 1]
    """
    moves = [[Fraction(p) for p in row] for row in transition.tolist()]
    forwards = _Filter(misfits.tolist(), bits, [Fraction(p) for p in initial.tolist()], moves)
    path: list[int] = []
    for t in range(len(misfits) - 1, -1, -1):
        after = path[-1] if path else None
        path.append(_state(forwards, t, None if after is None else [row[after] for row in moves], LazyUniform(source)))
    return path[::-1]


def _state(forwards: _Filter, t: int, moves: Sequence[Fraction] | None, uniform: LazyUniform) -> int:
    """Return the state at step t given the one after it."""

    @cache
    def shares(bits: int) -> list[Ball]:
        now = forwards(bits)[t]
        with precision(bits):
            parts = now if moves is None else [p * ball(m) for p, m in zip(now, moves, strict=True)]
            full = sum(parts, ball(0))
            return [part / full for part in accumulate(parts, initial=ball(0))]

    def below(state: int) -> Any:
        return lambda bits: shares(bits)[state]

    return next(
        state for state in range(len(forwards.initial) - 1, -1, -1) if state == 0 or uniform.beyond(below(state))
    )
