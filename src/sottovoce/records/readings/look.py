r"""A look: the score and the information of a regression at a public centre, every record weighed, none cut short.

With z = Tx in public coordinates, t = z·θ and the weight v = min(1, c/‖z‖, kc²/‖z‖²), a record gives

.. math:: w = \frac{v z (y - \mu(t))}{Bc}, \qquad u = \frac{z \sqrt{v \mu'(t)}}{\sqrt{k\kappa}\, c},

both no longer than 1, each entry rounded to 2⁻ᵇ. The look is Σw (the score), Σuu' (the information) and Σww' (how much
the score varies): sums of whole numbers and of their products, the same in any order and, but for the last digits of an
exponential, on every engine.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, Mask, real
from sottovoce.records.facts.columns import Column, Flag, Number
from sottovoce.records.facts.encodings import Encoding
from sottovoce.records.readings.base import MOST_RECORDS, Reading, Statistics
from sottovoce.records.readings.families import Family, family_of
from sottovoce.records.readings.in_memory_records import as_columns
from sottovoce.records.readings.look_parts import PARTS, LookParts
from sottovoce.records.readings.look_sensitivity import EDGES, LookMoves

CHUNK = 1 << 12
"""So many records at a time stay near the processor."""
_CUTTING = ("linear", "poisson")
"""Families that look at what lies beyond a cut."""


def fine_bits(n: int | None) -> int:
    """Return how fine the grid may be: a double then holds the sum of n products exactly.

    Where n is a secret, None, of as many as a table may hold.

    >>> fine_bits(1000), fine_bits(50_000_000), fine_bits(None)
    (15, 13, 9)
    """
    return max(4, min(15, (52 - max(MOST_RECORDS if n is None else n, 1).bit_length()) // 2))


@dataclass(frozen=True)
class Look(LookMoves):
    """Score, information and the score's own variation at a public centre.

    Attributes
    ----------
    encoding
        How the first columns become a row x.
    response, family
        What is public of the last column, and the word of the family that explains it.
    centre
        θ in the coordinates of z, one row for each linear predictor, the rows one after the other.
    shape
        The matrix T, row by row.
    norm
        c; a longer z weighs less, from k times as long on much less. The family says k (`Family.stretch`).
    bits
        b: entries are rounded to 2⁻ᵇ.
    parts
        Which of score, information and meat are taken.
    cap
        Where counts, or the residuals of a linear regression, are cut; 0 leaves it to the facts.
    extra
        α: how much more counts are taken to vary than a Poisson law's (`PoissonFamily`).
    beyond
        Where above 0, only what residuals of a linear regression, or counts, have beyond it, up to the cap, makes the
        score.

    A record with a missing value, of which the facts do not say what it counts as, gives zeros.

    Examples
    --------
    >>> encoding = Encoding(("a",), (Number(-1, 1),), (((0, -1),),))
    >>> look = Look(encoding, Flag(), "logistic", (0.0,), ((1.0,),), 1.0, bits=4)
    >>> look.read([[1.0, -0.5, None, 9.0], [True, False, True, False]]).total.tolist()
    [8.0, 576.0, 576.0]
    """

    word: ClassVar[str] = "look"
    vector: ClassVar[bool] = True
    hides_n: ClassVar[bool] = True
    encoding: Encoding
    response: Column
    family: str
    centre: tuple[float, ...]
    shape: tuple[tuple[float, ...], ...]
    norm: float
    bits: int = 12
    parts: tuple[str, ...] = PARTS
    cap: float = 0
    extra: float = 0.0
    beyond: float = 0.0

    def __post_init__(self) -> None:
        d, D = self.encoding.size, self.encoding.size * self.model.outputs
        real("norm", self.norm, 0.0)
        real("cap", self.cap)
        real("extra", self.extra, 0.0)
        if real("beyond", self.beyond, 0.0) and not (self.family in _CUTTING and self.beyond < self.cap):
            raise InvalidValue("beyond is of a linear regression or of counts, and below the cap")
        if not (self.norm > 0 and 2 <= self.bits <= 20):
            raise InvalidValue("a look needs norm > 0 and bits from 2 to 20")
        shape, centre = self._given
        if shape.shape != (d, d) or centre.shape != (D,):
            raise InvalidValue(f"a look at {d} entries takes a {d} × {d} shape and a centre of {D} numbers")
        if not (np.all(np.isfinite(shape)) and np.all(np.isfinite(centre))) or np.abs(shape).max() > 2.0**40:
            raise InvalidValue("the shape and the centre of a look must be finite and of moderate size")
        if not self.parts or not set(self.parts) <= set(PARTS):
            raise InvalidValue(f"the parts of a look are {', '.join(PARTS)}. Got {self.parts!r}")
        object.__setattr__(self, "parts", tuple(part for part in PARTS if part in self.parts))

    @cached_property
    def model(self) -> Family:
        """The family with its response."""
        built: Family = family_of(
            self.family, self.response, self.cap, self.extra, bool(self.encoding.wholes), self.beyond
        )
        return built

    @cached_property
    def _given(self) -> tuple[Floats, Floats]:
        """The shape and the centre as arrays."""
        return np.array(self.shape, dtype=np.float64), np.array(self.centre, dtype=np.float64)

    @property
    def dimension(self) -> int:
        """The unknowns."""
        return self.encoding.size * self.model.outputs

    @cached_property
    def matrix(self) -> Floats:
        """T; entries too small to tell from zero beside the largest of their row are dropped."""
        T = self._given[0]
        return np.where(np.abs(T) < 2.0**-60 * np.abs(T).max(axis=1, keepdims=True), 0.0, T)

    @cached_property
    def back(self) -> Floats:
        """T⁻¹."""
        return np.asarray(np.linalg.inv(self.matrix), dtype=np.float64)

    @property
    def passing(self) -> bool:
        """Whether noise led here: no other look will be taken at the same place."""
        return any(self.centre)

    @cached_property
    def predictors(self) -> Floats:
        """θ, one row a linear predictor."""
        return self._given[1].reshape(self.model.outputs, self.encoding.size)

    @cached_property
    def reach(self) -> Any:
        """How far the linear predictors of a row of length c go, by the public centre."""
        return self.model.reach(self.predictors, self.norm)

    def of_norm(self, norm: float) -> Self:
        """Return the same look with another norm: what does not depend on it is not found anew."""
        return self._but({"norm": real("norm", norm, above=0.0)})

    def of_cap(self, cap: float, extra: float = 0.0) -> Self:
        """Return the same look cut elsewhere, of counts that vary so much more: the rest is not found anew."""
        real("cap", cap, above=self.beyond or -math.inf)
        return self._but({"cap": cap, "extra": real("extra", extra, 0.0)}, "model")

    def _but(self, changed: dict[str, object], *others: str) -> Self:
        result = copy(self)
        for name in ("reach", "_far", "bound", "diameter", "information_ranges", *others):
            result.__dict__.pop(name, None)
        result.__dict__.update(changed)
        return result

    @cached_property
    def _far(self) -> Any:
        """How far those of a row of length k·c go."""
        k = self.model.stretch
        return self.reach if k == 1 else self.model.reach(self.predictors, k * self.norm)

    @cached_property
    def bound(self) -> float:
        """B: rows longer than k·c weigh less than B can grow."""
        return self.model.bound(self._far)

    @cached_property
    def diameter(self) -> float:
        """How far two contributions to the score lie apart, of which none is longer than 1."""
        if self.model.upward:
            return min(self._box, 2.0)
        return min(self.model.apart(self.reach, self._far) / self.bound, 2.0)

    @cached_property
    def information_ranges(self) -> tuple[Floats, Floats] | None:
        """The least and the most information of a record in each cell of lengths of its score."""
        return self.model.information_ranges(self._far, EDGES)

    @property
    def _box(self) -> float:
        """The diameter, in units of c, of a box that has zero and all rows in it: a part of a row lies in it too."""
        low, high = (self.matrix * end for end in self.encoding.ends)
        least, most = np.minimum(low, high).sum(axis=1), np.maximum(low, high).sum(axis=1)
        for full in self.encoding.wholes:  # of a group's levels a row has one
            item = np.isin(np.arange(self.encoding.size), full)
            most = np.where(np.all(self.matrix == item, axis=1), 1.0, most)
        sides = np.maximum(most, 0.0) - np.minimum(least, 0.0)
        return float(np.linalg.norm(sides)) / self.norm * (1 + 1e-9)

    @property
    def factors(self) -> tuple[float, float]:
        """By what the score and the roots of the information are multiplied: 2ᵇ/(Bc) and 2ᵇ/(√(kκ)·c)."""
        widest = self.model.stretch * self.model.steepest
        return self.pull, 2.0**self.bits / (math.sqrt(widest) * self.norm)

    @property
    def pull(self) -> float:
        """By what the score is multiplied."""
        return 2.0**self.bits / (self.bound * self.norm)

    def weights(self, squares: Floats, norm: float | None = None) -> Floats:
        """Return v of rows of these squared lengths; for another c if given."""
        c, k = self.norm if norm is None else norm, self.model.stretch
        if k == 1:
            return np.asarray(c**2 / np.maximum(squares, c**2))
        part = c / np.sqrt(np.maximum(squares, c**2))
        return np.asarray(part * np.minimum(k * part, 1.0))

    # The parts of the total.

    @cached_property
    def layout(self) -> LookParts:
        """Which entries of the total belong to which part."""
        return LookParts(self.parts, self.dimension)

    # The records.

    @property
    def columns(self) -> list[Column]:
        """The columns to read, the response last."""
        return [*self.encoding.columns, self.response]

    def read(self, records: object, missing: object = None, *, public: bool = False) -> Statistics:
        """Return n and the look at a list of columns, the response last."""
        del public
        if missing is not None:
            raise InvalidValue("each column says itself what a missing value counts as")
        values = as_columns(self.columns, records)
        n, total = len(values[0]), np.zeros(self.size)
        for start in range(0, n, CHUNK):
            *subset, last = (column[start : start + CHUNK] for column in values)
            total = total + self.of_rows(*self.encoding.rows(subset, len(last)), self.model.outcome(last))
        return Statistics(n, total)

    def of_rows(self, rows: Floats, known: Mask, y: Floats) -> Floats:
        """Return the sum over encoded rows and outcomes, NaN where missing."""
        known = known & ~np.isnan(y)
        rows, y = np.where(known, rows.T, 0.0).T, np.where(known, y, 0.0)
        w, roots = self.contributions(rows, y)
        parts: dict[str, Floats] = {}
        if "score" in self.parts:
            parts["score"] = w.sum(axis=0)
        if "information" in self.parts:
            parts["information"] = sum((u.T @ u for u in roots), np.zeros((self.dimension,) * 2))
        if "meat" in self.parts:
            parts["meat"] = w.T @ w
        return self.join(**parts)

    def contributions(self, rows: Floats, y: Floats) -> tuple[Floats, list[Floats]]:
        """Return w, and the one or several u whose squares add up to the information, in whole steps."""
        columns = _turned(self.matrix, rows.T)
        squares = np.zeros(len(rows))
        for column in columns:
            squares += column * column
        v, t = self.weights(squares), _turned(self.predictors, columns)
        pull, lean = self.factors
        if self.model.outputs == 1:
            pulls, leans = pull * v * self.model.residual(y, t[0]), lean * np.sqrt(v * self.model.steepness(y, t[0]))
            w, u = columns * pulls, columns * leans
            return np.rint(w, out=w).T, [np.rint(u, out=u).T]
        # The information of one record is Σₖ pₖ(eₖ − p)(eₖ − p)' ⊗ vzz', the first class among the k.
        z, p = columns.T, self.model.mean(t.T)
        classes = np.arange(1, self.model.outputs + 1)
        w = np.rint(_outer((y[:, None] == classes) - p, z * (pull * v)[:, None]))
        roots = []
        for k in range(self.model.outputs + 1):
            share = 1 - p.sum(axis=1) if k == 0 else p[:, k - 1]
            scale = lean * np.sqrt(v * np.maximum(share, 0.0))
            roots.append(np.rint(_outer((classes == k) - p, z * scale[:, None])))
        return w, roots

    @classmethod
    def example(cls) -> Self:
        """Return two numbers and a flag, away from zero."""
        encoding = Encoding(("a", "b"), (Number(-1, 1), Number(0, 10, 2.0)), (((0, -1),), ((1, -1),)))
        return cls(encoding, Flag(), "logistic", (0.7, -0.4), ((1.0, 0.0), (0.25, 1.5)), 1.0, bits=10)

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Reading:
        state["encoding"] = Encoding.from_dict(state["encoding"])
        state["response"] = Column.from_dict(state["response"])
        return super()._from_state(state)


def _turned(matrix: Floats, rows: Floats) -> Floats:
    """Return matrix·rows, added from left to right: what a record becomes does not depend on its place."""
    result = np.zeros((len(matrix), rows.shape[1]))
    part = np.empty_like(result)
    for weights, row in zip(matrix.T, rows, strict=True):
        (places,) = np.nonzero(weights)
        if places.size:
            subset = slice(places[0], places[-1] + 1)
            result[subset] += np.multiply(weights[subset, None], row, out=part[subset])
    return result


def _outer(left: Floats, right: Floats) -> Floats:
    """Return left ⊗ right of each record, flat."""
    return np.asarray((left[:, :, None] * right[:, None, :]).reshape(len(right), left.shape[1] * right.shape[1]))
