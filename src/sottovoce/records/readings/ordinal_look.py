r"""A look at an ordinal regression: score and information of stacked logits at a public centre, averaged by record.

Proportional odds (McCullagh, Journal of the Royal Statistical Society B 42, 1980) say of the K ordered values of y that
P(y > k) is logistic in :math:`a_k + \beta\cdot x`, for each of the K − 1 cuts k with the same β. So a record makes
K − 1 rows, (x, e_k) with the answer 1[y > k], and what it gives is the average of what these give as records of a
logistic `Look` (independence estimating equations: Liang and Zeger, Biometrika 73, 1986; of cuts: Clogg and Shihadeh
1994). The score has mean zero at the truth.

An average of scores no longer than 1 is no longer than 1, and two averages of positive matrices never point apart: as
of `PersonLook`, the bounds of `Look` hold, for how far two pairs of score and information lie apart, squared, is convex
in each, and so largest where all rows are alike. Entries are rounded once a record.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, Mask
from sottovoce.records.facts.columns import Category, Column, Count, Flag, Number
from sottovoce.records.facts.encodings import Encoding
from sottovoce.records.readings.base import Statistics
from sottovoce.records.readings.families import Family, family_of
from sottovoce.records.readings.in_memory_records import as_columns
from sottovoce.records.readings.look import CHUNK, Look
from sottovoce.records.readings.look_parts import PARTS
from sottovoce.records.readings.look_sensitivity import SLACK

__all__ = ["MOST_ORDERED", "OrdinalLook", "cuts_of", "stacked_encoding"]

MOST_ORDERED = 12
"""So many ordered values at most: each cut between two is one more unknown."""
_CUT = "(cut)"


def cuts_of(column: Column) -> int:
    """Return how many cuts lie between the ordered values of a column; zero where it has none, or too many."""
    count = len(column.categories) if isinstance(column, Category) else 0
    count = column.high + 1 if isinstance(column, Count) else count
    return count - 1 if 3 <= count <= MOST_ORDERED else 0


def stacked_encoding(encoding: Encoding, cuts: int) -> Encoding:
    """Return the encoding of (x, e_k): x has an intercept, that of the first cut, and the others are set against it.

    >>> line = Encoding(("a",), (Number(-1, 1),), ((), ((0, -1),)))
    >>> stacked_encoding(line, 3).entries
    ((), ((0, -1),), ((1, 1),), ((1, 2),))
    """
    place, column = len(encoding.names), Category(tuple(str(k) for k in range(1, cuts + 1)))
    splines = (*encoding.splines, None) if encoding.splines else ()
    return Encoding(
        (*encoding.names, _CUT),
        (*encoding.columns, column),
        (*encoding.entries, *(((place, k),) for k in range(1, cuts))),
        (*encoding.centred, True),
        splines,
    )


@dataclass(frozen=True)
class OrdinalLook(Look):
    """Score and information of stacked logits at a public centre.

    The attributes are those of `Look`; the last column of the encoding is which cut a row is of, and the response a
    category in its order, or a count.

    Examples
    --------
    >>> encoding = stacked_encoding(Encoding(("a",), (Number(-1, 1),), ((), ((0, -1),))), 2)
    >>> shape = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    >>> look = OrdinalLook(encoding, Category(["none", "mild", "severe"]), "ordinal", (0.0,) * 3, shape, 2.0, bits=4)
    >>> look.read([[0.5, -1.0], ["severe", "none"]]).total[:3].tolist()
    [0.0, 12.0, 0.0]
    """

    word: ClassVar[str] = "ordinal look"
    parts: tuple[str, ...] = PARTS[:2]

    def __post_init__(self) -> None:
        if not cuts_of(self.response):
            raise InvalidValue(f"an ordinal look is of a category, or a count, of 3 to {MOST_ORDERED} values")
        if self.encoding.entries[-self.cuts + 1 :] != tuple(
            ((len(self.encoding.names) - 1, k),) for k in range(1, self.cuts)
        ):
            raise InvalidValue("the last entries of a row are the cuts after the first")
        super().__post_init__()
        if set(self.parts) != set(PARTS[:2]):
            raise InvalidValue("the parts of an ordinal look are score and information")

    @cached_property
    def model(self) -> Family:
        """The logistic family, of whether a record is above a cut."""
        built: Family = family_of("logistic", Flag())
        return built

    @cached_property
    def cuts(self) -> int:
        """How many cuts lie between the values of the response."""
        return cuts_of(self.response)

    @property
    def columns(self) -> list[Column]:
        """The columns to read, the response last."""
        return [*self.encoding.columns[:-1], self.response]

    @cached_property
    def plain(self) -> Encoding:
        """The encoding of x alone."""
        encoding, last = self.encoding, len(self.encoding.names) - 1
        entries = encoding.entries[: len(encoding.entries) - self.cuts + 1]
        return Encoding(
            encoding.names[:last], encoding.columns[:last], entries, encoding.centred[:last], encoding.splines[:last]
        )

    @property
    def offsets(self) -> Floats:
        """What a cut adds to z, one row a cut: nothing for the first."""
        return np.vstack([np.zeros(self.dimension), self.matrix[:, self.plain.size :].T])

    def default(self) -> float | None:
        """Return what a missing response counts as; None where its record is left out."""
        missing: Any = getattr(self.response, "missing", None)
        if missing is None:
            return None
        return float(self.response.categories.index(missing) if isinstance(self.response, Category) else missing)

    def read(self, records: Any, missing: Any = None, *, public: bool = False) -> Statistics:
        """Return n and the look at a list of columns, the response last."""
        del public
        if missing is not None:
            raise InvalidValue("each column says itself what a missing value counts as")
        values = as_columns(self.columns, records)
        n, total = len(values[0]), np.zeros(self.size)
        for start in range(0, n, CHUNK):
            *subset, last = (column[start : start + CHUNK] for column in values)
            total = total + self.of_rows(*self.plain.rows(subset, len(last)), self.places(last))
        return Statistics(n, total)

    def places(self, values: Floats) -> Floats:
        """Return the places of responses among the ordered values, NaN where missing."""
        default = self.default()
        absent = values < 0 if isinstance(self.response, Category) else np.isnan(values)
        values = np.where(absent, math.nan if default is None else default, values)
        return np.clip(np.floor(values), 0.0, float(self.cuts))

    def of_rows(self, rows: Floats, known: Mask, y: Floats) -> Floats:
        """Return the sum over encoded rows x and the places of their responses, NaN where missing."""
        known = known & ~np.isnan(y)
        return np.asarray(self.stacked(rows[known], y[known]).sum(axis=1))

    def stacked(self, rows: Floats, y: Floats) -> Floats:
        """Return what each record gives, in whole steps, (entries of the total, records)."""
        d, pull, lean = self.plain.size, self.factors[0] / self.cuts, self.factors[1] ** 2 / self.cuts
        plain = [_ordered(weights[:d], rows.T) for weights in self.matrix.tolist()]
        theta, full = self.predictors[0].tolist(), self.norm**2
        first, second = np.triu_indices(self.dimension, 1)
        score, diagonal = np.zeros((self.dimension, len(rows))), np.zeros((self.dimension, len(rows)))
        off = np.zeros((len(first), len(rows)))
        for k, moved in enumerate(self.offsets.tolist()):
            z = np.array([column + by for column, by in zip(plain, moved, strict=True)])
            squares = np.zeros(len(rows))
            for column in z:
                squares = squares + column * column
            v = full / np.maximum(squares, full)
            p, slope = self.model.mean_and_slope(_ordered(theta, z))
            pulls, leans = pull * v * ((y > k) - p), lean * v * slope
            score += pulls * z
            diagonal += leans * (z * z)
            off += leans * (z[first] * z[second])
        return np.asarray(np.rint(np.concatenate([score, diagonal, off])))

    # How far one record moves it.

    @property
    def lengths(self) -> dict[str, float]:
        """The longest contribution of one record to each part, in steps, rounding included."""
        item = 2.0**self.bits
        return {"score": item + self._rounding, "information": item**2 + self._matrix_rounding}

    @property
    def moves(self) -> dict[str, float]:
        """How far one replaced record moves each part alone, in steps."""
        item = 2.0**self.bits
        information = math.sqrt(2) * item**2 + 2 * self._matrix_rounding
        return {"score": self.diameter * item + 2 * self._rounding, "information": information}

    @property
    def _matrix_rounding(self) -> float:
        """How far rounding moves a record's information, in steps: half a step an entry."""
        return self.dimension / 2 * SLACK

    def _largest_squares(self, score: float, meat: float, information: float) -> float:
        """Return the largest sum of one record's contributions: that of single rows, or by the scores' cosine."""
        by_cosine = self._squares_by_cosine(score, meat, information, averaged=True)
        return min(by_cosine, super()._largest_squares(score, meat, information))

    @classmethod
    def example(cls) -> Self:
        """Return a number and a flag before three ordered values, away from zero."""
        line = Encoding(("a", "b"), (Number(-1, 1), Flag()), ((), ((0, -1),), ((1, 1),)))
        shape = ((1.0, 0.0, 0.0, 0.5), (0.25, 1.5, 0.0, 0.0), (0.0, 0.5, 1.0, 0.0), (0.0, 0.0, 0.25, 1.0))
        response, centre = Category(("low", "middle", "high")), (0.7, -0.4, 0.2, -1.0)
        return cls(stacked_encoding(line, 2), response, "ordinal", centre, shape, 1.5, bits=10)


def _ordered(weights: Any, columns: Any) -> Floats:
    """Return Σ weights·columns, added from zero on from left to right, what weighs nothing left out."""
    result = np.zeros(columns[0].shape)
    for weight, column in zip(weights, columns, strict=True):
        if weight:
            result = result + weight * column
    return result
