"""Exact arithmetic: transition probabilities in steps of 2^-53, privacy constraints in whole numbers.

A float that is a multiple of 2^-53 in [0, 1] is a whole number of grid steps, so one array of whole numbers is at once
the float matrix a user sees, the matrix records are drawn from, and the matrix the constraints are checked on.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.numbers import Floats, log_up
from sottovoce.theory.local.graph import ProfileGraph

GRID = 2**53

Steps = NDArray[np.int64]
"""Transition probabilities as whole numbers of steps of 1/GRID; axes: profile, category, output."""

_CONTEXT = decimal.Context(prec=60, rounding=decimal.ROUND_HALF_EVEN, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_EXP_MAX = 1000.0


def exp_below(epsilon: float) -> Fraction:
    """Return a rational number in [1, e^ε], within a part in 10^58 of e^ε (of e^1000 for ε above that).

    `decimal` rounds e^x correctly, so the number next below its answer is below the truth.

    >>> float(exp_below(1.0)), exp_below(0.0)
    (2.718281828459045, Fraction(1, 1))
    """
    exponent = decimal.Decimal(min(epsilon, _EXP_MAX))
    return max(Fraction(1), Fraction(exponent.exp(_CONTEXT).next_minus(_CONTEXT)))


def on_grid(matrices: Floats) -> Steps:
    """Return near-stochastic square matrices on the grid; each diagonal takes up the rounding.

    >>> (on_grid(np.array([[[2 / 3, 1 / 3], [0.0, 1.0]]])).sum(axis=2) == GRID).all()
    np.True_
    """
    steps = np.rint(np.clip(matrices, 0.0, 1.0) * GRID).astype(np.int64)
    d = np.arange(steps.shape[2])
    steps[:, d, d] = 0
    short = GRID - steps.sum(axis=2)
    # Rows that already sum to more than one off the diagonal by rounding give it back at their largest entry.
    over = np.minimum(short, 0)
    i, x = np.nonzero(over)
    steps[i, x, steps[i, x].argmax(axis=1)] += over[i, x]
    steps[:, d, d] = short - over
    return steps


def output_steps(profile: Sequence[Fraction], matrix: Steps) -> tuple[list[int], int]:
    """Return one profile's output distribution P A exactly: whole-number weights and what they sum to."""
    scale = math.lcm(*(p.denominator for p in profile))
    weights = [p.numerator * (scale // p.denominator) for p in profile]
    columns = matrix.T.tolist()
    return [sum(map(int.__mul__, weights, column)) for column in columns], scale * GRID


def loss_up(first: tuple[list[int], int], second: tuple[list[int], int]) -> float:
    """Return the largest |log ratio| of two distributions of `output_steps`, rounded up.

    >>> loss_up(([1, 3], 4), ([2, 2], 4)) >= math.log(2), loss_up(([1, 3], 4), ([2, 6], 8))
    (True, 0.0)
    """
    (ours, all_ours), (theirs, all_theirs) = first, second
    most, least = 1, 1
    for item, other in zip(ours, theirs, strict=True):
        low, high = sorted((item * all_theirs, other * all_ours))
        if high * least > most * low:
            most, least = high, low
    return log_up(Fraction(most), Fraction(least)) if least else math.inf


@dataclass(frozen=True)
class ConstraintExcess:
    """The worst broken constraint: P_i A^i(y) - e^ε P_j A^j(y) for the edge (i, j); 0 where all hold."""

    amount: float
    first: int = -1
    second: int = -1
    output: int = -1


def worst_excess(
    graph: ProfileGraph, steps: Steps, epsilon: float, within: Sequence[int] | None = None
) -> ConstraintExcess:
    r"""Return the worst violation of :math:`P_iA^i \le e^\varepsilon P_jA^j` over edges, in whole numbers.

    `within` limits the search to the edges of one component. The amount is rounded to a float; whether it is
    zero is exact (with e^ε replaced by a rational number just below it, so the check errs towards privacy).
    """
    ratio = exp_below(epsilon)
    up, down = ratio.numerator, ratio.denominator
    edges = graph.edge_indices
    if within is not None:
        edges = edges[np.isin(edges[:, 0], within)]
    outputs = {i: output_steps(graph.exact[i], steps[i]) for i in np.unique(edges).tolist()}
    worst = ConstraintExcess(0.0)
    for a, b in edges.tolist():
        for i, j in ((a, b), (b, a)):
            (left, left_total), (right, right_total) = outputs[i], outputs[j]
            more, less = down * right_total, up * left_total
            for y, (p, q) in enumerate(zip(left, right, strict=True)):
                gap = p * more - q * less
                if gap > 0:
                    amount = max(float(Fraction(gap, down * left_total * right_total)), 5e-324)
                    if amount > worst.amount:
                        worst = ConstraintExcess(amount, i, j, y)
    return worst


def repair(graph: ProfileGraph, matrices: Floats, epsilon: float) -> tuple[Steps, float]:
    r"""Return matrices on the grid that keep every constraint exactly, and the largest mixing weight t used.

    Each connected component with a broken constraint is mixed with the uniform row, :math:`A \to (1-t)A + t/d`, which
    opens every constraint by :math:`t(e^\varepsilon-1)/d`. Solver and rounding errors near 1e-13 thus need t near
    1e-13·d/ε. At t = 1 the rows are all equal, which keeps every constraint for every ε ≥ 0.
    """
    steps = on_grid(matrices)
    largest = 0.0
    for component in graph.components:
        members = list(component)
        weight = 0.0
        while (excess := worst_excess(graph, steps, epsilon, component).amount) > 0:
            opening = math.expm1(min(epsilon, _EXP_MAX / 2)) / graph.d
            wanted = 2 * excess / opening if opening > 0 else 1.0
            weight = min(1.0, max(wanted, 4 * weight, 2.0**-50))
            steps[members] = _mixed(matrices[members], weight)
        largest = max(largest, weight)
    return steps, largest


def _mixed(matrices: Floats, weight: float) -> Steps:
    d = matrices.shape[2]
    if weight < 1.0:
        return on_grid((1.0 - weight) * np.clip(matrices, 0.0, 1.0) + weight / d)
    return np.broadcast_to(uniform_steps(d), matrices.shape).copy()


def uniform_steps(size: int) -> Steps:
    """Return a row as even as the grid allows.

    >>> uniform_steps(3).sum() == GRID
    np.True_
    """
    row = np.full(size, GRID // size, dtype=np.int64)
    row[: GRID % size] += 1
    return row
