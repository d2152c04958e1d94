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

**Lemma of full looks.** Let ρ, ρ′ ∈ [0, 1], scores s, s′ have norms at most ρ, ρ′, and matrices A, A′ of rank one
along the same lines norms at most 4ρ(1−ρ), 4ρ′(1−ρ′). Then ¼‖s − s′‖² + ⅜‖A − A′‖² ≤ 1. So where two classes are
asked with residuals in full, |y − p| = ρ, the information Σp(1−p)·… *at that centre* is free too: the records that move
the score the most are those that the model is surest of, and they hold no information. *Proof.* With c for how far the
lines are one and m for a quarter of a norm of A, it is at most ¼(ρ² + ρ′² + 2cρρ′) + 6(m² + m′² − 2c²mm′), convex
in m and m′: each is 0 or ρ(1−ρ). If one is 0, or c = 1, it is at most ¼(ρ + 1)² + 6ρ²(1−ρ)² for one of the two, and
that at most 1 where 24ρ²(1−ρ) ≤ 3 + ρ: the left side rises to 3 at ½, to 3.32 at .56, and never exceeds 24·4/27 < 3.56.
Else c is where it is stationary, which leaves at most g(ρ) + g(ρ′) + ¼ρρ′ with g(ρ) = ¼ρ² + 6ρ²(1−ρ)²: below .97. ∎
Rounding moves the score's part of either record by M² − 1 and the information's by M⁴ − 1 at most, and all reaches grow
by 1 + 1.6(M⁴ − 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import special

from sottovoce.inference.regression.residuals import ScoreFamily, turned
from sottovoce.inference.regression.sums import Sum
from sottovoce.privacy.numbers import Floats, above_diagonal
from sottovoce.records.readings import Rows

_SURE = 1 + 1e-9
"""Rows and residuals are taken to be longer by more than the arithmetic of a record's part can be off."""
FULL_REACH = math.sqrt(8 / 3)
"""How far a record moves the information of a full look, beside 2 for the score."""
LONGEST = 2.0
"""Rows of a full look are weighed by 1/‖z‖ up to this length."""


@dataclass(eq=False)
class UnitRows:
    """Rows u = z/max(1, ‖z‖), z = T′x: long ones are weighed, by what depends on the row alone.

    Where `matrix` holds several, of as many releases, so does all that is made with it: their axes come first.
    """

    matrix: Floats
    steps: float
    """How many steps there are in 1."""
    _known: list[tuple[Rows, Floats, Floats]] = field(default_factory=list)

    @property
    def width(self) -> int:
        """How many entries a row has."""
        return int(self.matrix.shape[-1])

    def lengths(self, z: Floats) -> Floats:
        """Return how long each row is, 1 where shorter: what it is divided by."""
        return np.asarray(np.maximum(np.sqrt(np.einsum("...ij,...ij->...i", z, z)), 1.0))

    def rows(self, seen: Rows) -> Floats:
        """Return u, a row a record, in whole steps."""
        return self._rows(seen)[0]

    def _rows(self, seen: Rows) -> tuple[Floats, Floats]:
        """Return u in whole steps, and the lengths of z."""
        for rows, *result in self._known:
            if rows is seen:
                return result[0], result[1]
        z = seen.X @ self.matrix
        length = self.lengths(z)
        u = z * (self.steps / length)[..., None]
        np.rint(u, out=u)
        self._known = [*self._known[-1:], (seen, u, length)]  # two tables at most: those of a pair
        return u, length

    def _longest(self, numbers: int) -> float:
        """Return M², M the most that a row, or a residual of so many numbers, is long after rounding."""
        return (_SURE + math.sqrt(max(self.width, numbers)) / (2 * self.steps)) ** 2

    def look(self, family: ScoreFamily, centre: Floats, bound: Any, mu: float, *, consistent: bool) -> Sum:
        """Return the sum of rows times residuals at a centre and, where the family asks for it, of their squares."""

        def of(seen: Rows) -> Floats:
            return self._look(seen, family, centre, bound, consistent=consistent)

        return Sum(of, self._blocks(family), mu)

    def first_look(self, family: ScoreFamily, centre: Floats, bound: Any, mu: float) -> Sum:
        """Return the look with the information, as its diagonal and what is above it."""
        reach = math.sqrt(8) * self.steps**2 * self._longest(family.width)

        def of(seen: Rows) -> Floats:
            score = self._look(seen, family, centre, bound, consistent=False)
            return np.concatenate([score, *_parts(self.rows(seen))], axis=-1)

        return Sum(of, (*self._blocks(family), *self._gram_blocks(reach)), mu)

    def full_look(self, centre: Floats, mu: float) -> Sum:
        """Return score and information of two classes at a centre of logits, their residuals in full.

        Rows longer than `LONGEST` are weighed once more, so that the information is what the score falls by: a row z
        counts by 1/‖z‖, and from there on by LONGEST/‖z‖².
        """
        grown = 1 + 1.6 * (self._longest(1) ** 2 - 1)
        score, gram = (reach * self.steps**2 * grown for reach in (2.0, FULL_REACH))

        def of(seen: Rows) -> Floats:
            u, length = self._rows(seen)
            p = special.expit(seen.X @ (self.matrix @ centre[..., None]))[..., 0]
            held = np.minimum(length, LONGEST)
            remaining = np.rint((seen.y - p) * (self.steps * held / length))
            q = u * np.sqrt(4 * p * (1 - p) * held / LONGEST)[..., None]
            return np.concatenate([(turned(u) @ remaining[..., None])[..., 0], *_parts(np.rint(q, out=q))], axis=-1)

        return Sum(of, ((self.width, score), *self._gram_blocks(gram)), mu)

    def _gram_blocks(self, reach: float) -> tuple[tuple[int, float], ...]:
        above = self.width * (self.width - 1) // 2
        # A number above the diagonal stands for two.
        return tuple(block for block in ((self.width, reach), (above, reach / math.sqrt(2))) if block[0])

    def _blocks(self, family: ScoreFamily) -> tuple[tuple[int, float], ...]:
        reach = 2 * self.steps**2 * self._longest(family.width)
        squares = ((1, reach / family.square),) if family.square else ()
        return ((self.width * family.width, reach), *squares)

    def _look(self, seen: Rows, family: ScoreFamily, centre: Floats, bound: Any, *, consistent: bool) -> Floats:
        bound = np.asarray(bound)[..., None, None]
        remaining = family.residuals(seen.X @ (self.matrix @ centre), seen.y, bound, consistent=consistent)
        remaining = np.rint(remaining * (self.steps / bound))
        score = turned(self.rows(seen)) @ remaining
        parts = [score.reshape(*score.shape[:-2], -1)]
        if family.square:
            parts.append(np.sum(remaining * remaining, axis=(-2, -1))[..., None])
        return np.concatenate(parts, axis=-1)


def _parts(rows: Floats) -> tuple[Floats, Floats]:
    """Return Σuu′ as its diagonal and what is above it."""
    gram = turned(rows) @ rows
    return np.diagonal(gram, axis1=-2, axis2=-1), gram[(..., *above_diagonal(gram.shape[-1]))]


def mean_row(width: int, steps: float, mu: float) -> Sum:
    """Return the sum of the rows and of their squared norms: the lemma with residuals of 1, the information's trace.

    With p and q for the norms of two rows the square is at most (p + q)²(1 + (p − q)²) ≤ 4: the squares are free.
    """
    fine = steps**2
    reach = 2 * _SURE * fine + math.sqrt(width + 1)  # half a step for each number of either record

    def of(seen: Rows) -> Floats:
        parts = np.column_stack([seen.X, np.einsum("ij,ij->i", seen.X, seen.X)])
        return np.asarray(np.rint(parts * fine).sum(axis=0))

    return Sum(of, ((width + 1, reach),), mu)
