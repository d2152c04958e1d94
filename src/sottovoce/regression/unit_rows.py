r"""All that a filtered regression asks of records: rows and residuals no longer than 1, in whole steps.

**Lemma.** Let u, u′ have norm at most 1, residuals r, r′ likewise, and ω ≤ 1. Then

.. math:: \tfrac14\|u r' - u' r'^{\prime}\|^2 + \tfrac18\|uu^\top - u'u'^\top\|^2
          + \tfrac{\omega^2}{4}(\|r\|^2 - \|r'\|^2)^2 \le 1,

so that where a score Σur′ is asked at reach 2, the information Σuu′ at reach 2√2 and the squares Σ‖r‖² at reach 2/ω
come for free. *Proof.* Write a, b, α, β ∈ [0, 1] for the squares of the norms of u, u′, r, r′ and c ∈ [0, 1] for how
far u and u′ point along one line. The first term is at most ¼(αa + βb + 2c√(αβ·ab)) ≤ ¼(αa + βb + c(αβ + ab)), the
second is ⅛(a² + b² − 2abc²). Their sum with the third is convex in each of a, b, α, β, so that it is largest where all
are 0 or 1. All 1: ¾ + c/2 − c²/4 ≤ 1. One residual 0: ¼(1 + c) + ¼(1 − c²) + ω²/4 < 1. Both: ¼c + ¼(1 − c²) < 1.
One row 0: at most ¼(1 + c) + ⅛ + ω²/4 < 1. Both: at most ¼(c + 1) < 1. ∎

Rounded to whole steps a row or a residual may be longer by a hair, M: all reaches grow by M².
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from sottovoce.privacy.numbers import Floats
from sottovoce.readings import Rows
from sottovoce.regression.residuals import Family
from sottovoce.regression.sums import Sum

__all__ = ["UnitRows", "mean_row"]

_SURE = 1 + 1e-9
"""Rows and residuals are taken to be longer by more than the arithmetic of a record's part can be off."""


@dataclass(eq=False)
class UnitRows:
    """Rows u = z/max(1, ‖z‖), z = T′x: long ones are weighed, by what depends on the row alone."""

    matrix: Floats
    steps: float
    """How many steps there are in 1."""
    _known: list[tuple[Rows, Floats]] = field(default_factory=list)

    @property
    def width(self) -> int:
        """How many entries a row has."""
        return int(self.matrix.shape[1])

    def weights(self, z: Floats) -> Floats:
        """Return the weight of every row."""
        return np.asarray(1 / np.maximum(np.sqrt(np.einsum("ij,ij->i", z, z)), 1.0))

    def rows(self, seen: Rows) -> Floats:
        """Return u, a row a record, in whole steps."""
        for rows, found in self._known:
            if rows is seen:
                return found
        z = seen.X @ self.matrix
        found = np.rint(z * (self.steps * self.weights(z))[:, None])
        self._known = [*self._known[-1:], (seen, found)]  # two tables at most: those of a pair
        return found

    def _longest(self, numbers: int) -> float:
        """Return M², M the most that a row, or a residual of so many numbers, is long after rounding."""
        return (_SURE + math.sqrt(max(self.width, numbers)) / (2 * self.steps)) ** 2

    def look(self, family: Family, centre: Floats, bound: float, mu: float, *, consistent: bool) -> Sum:
        """Return the sum of rows times residuals at a centre and, where the family asks for it, of their squares."""

        def of(seen: Rows) -> Floats:
            return self._look(seen, family, centre, bound, consistent=consistent)

        return Sum(of, self._blocks(family), mu)

    def first_look(self, family: Family, centre: Floats, bound: float, mu: float) -> Sum:
        """Return the look with the information, as its diagonal and what is above it."""
        above = np.triu_indices(self.width, 1)
        reach = math.sqrt(8) * self.steps**2 * self._longest(family.width)

        def of(seen: Rows) -> Floats:
            rows = self.rows(seen)
            gram = rows.T @ rows
            score = self._look(seen, family, centre, bound, consistent=False)
            return np.concatenate([score, np.diag(gram), gram[above]])

        # A number above the diagonal stands for two.
        gram = ((self.width, reach), (above[0].size, reach / math.sqrt(2)))
        return Sum(of, (*self._blocks(family), *(block for block in gram if block[0])), mu)

    def _blocks(self, family: Family) -> tuple[tuple[int, float], ...]:
        reach = 2 * self.steps**2 * self._longest(family.width)
        squares = ((1, reach / family.square),) if family.square else ()
        return ((self.width * family.width, reach), *squares)

    def _look(self, seen: Rows, family: Family, centre: Floats, bound: float, *, consistent: bool) -> Floats:
        left = family.residuals(seen.X @ (self.matrix @ centre), seen.y, bound, consistent=consistent)
        left = np.rint(left * (self.steps / bound))
        parts = [(self.rows(seen).T @ left).ravel()]
        if family.square:
            parts.append(np.array([np.sum(left * left)]))
        return np.concatenate(parts)


def mean_row(width: int, steps: float, mu: float) -> Sum:
    """Return the sum of the rows and of their squares: the lemma with residuals of 1, the information's trace alone.

    With p and q for the norms the square is at most (p + q)²(1 + (p − q)²) ≤ 4.
    """
    fine = steps**2
    reach = 2 * _SURE * fine + math.sqrt(width + 1)  # half a step for each number of either record

    def of(seen: Rows) -> Floats:
        parts = np.column_stack([seen.X, np.einsum("ij,ij->i", seen.X, seen.X)])
        return np.asarray(np.rint(parts * fine).sum(axis=0))

    return Sum(of, ((width + 1, reach),), mu)
