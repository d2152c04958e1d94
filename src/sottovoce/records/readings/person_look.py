r"""A look at persons: each counts once in a regression, however many rows they have.

A person's contribution to the score is the average of their rows' (w̄), that to the information the average of their
rows', and the score varies from person to person, Σw̄w̄': what rows of one person have in common is in the intervals.
An average of vectors no longer than 1 is no longer than 1, and two averages of positive matrices never point apart, so
the bounds of `Look` hold with a person for a record.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.relation import REPLACE_ONE, Relation
from sottovoce.records.readings.base import Statistics
from sottovoce.records.readings.in_memory_records import HeldRecords, as_columns, held
from sottovoce.records.readings.look import CHUNK, Look
from sottovoce.records.readings.look_sensitivity import SLACK
from sottovoce.records.readings.persons import averages, split_person, whose


@dataclass(frozen=True)
class PersonLook(Look):
    """Score, information and the score's variation, where a record is the average of a person's rows.

    A row with a missing value is left out of the average; a person with no other gives zeros. The last column says
    whose a row is.

    Examples
    --------
    >>> from sottovoce.records.facts.columns import Flag, Number
    >>> from sottovoce.records.facts.encodings import Encoding
    >>> encoding = Encoding(("a",), (Number(-1, 1),), (((0, -1),),))
    >>> look = PersonLook(encoding, Flag(), "logistic", (0.0,), ((1.0,),), 1.0, bits=4)
    >>> look.read([[1.0, -0.5, None], [True, False, True], ["ann", "ann", "bob"]]).total.tolist()
    [12.0, 160.0, 144.0]
    """

    word: ClassVar[str] = "person look"
    persons: ClassVar[bool] = True

    def read(self, records: object, missing: object = None, *, public: bool = False) -> Statistics:
        """Return the number of persons and the look at a list of columns, the response and then the person last."""
        del public
        if missing is not None:
            raise InvalidValue("each column says itself what a missing value counts as")
        others, person, names = split_person(records, len(self.columns) + 1)
        values = as_columns(self.columns, others)
        n, D = len(names), self.dimension
        rows, scores, informations = np.zeros(n, np.int64), np.zeros((n, D), np.int64), np.zeros((n, D, D), np.int64)
        for start in range(0, person.size, CHUNK):
            subset, whom = [column[start : start + CHUNK] for column in values], person[start : start + CHUNK]
            x, known = self.encoding.rows(subset[:-1], len(subset[-1]))
            y = self.model.outcome(subset[-1])
            kept = known & ~np.isnan(y) & (whom >= 0)
            w, roots = self.contributions(x[kept], y[kept])
            np.add.at(rows, whom[kept], 1)
            np.add.at(scores, whom[kept], w.astype(np.int64))
            for u in roots:
                full = u.astype(np.int64)
                np.add.at(informations, whom[kept], full[:, :, None] * full[:, None, :])
        return Statistics(n, self.of_averages(averages(scores, rows[:, None]), averages(informations, _spread(rows))))

    def of_averages(self, scores: Any, informations: Any) -> Floats:
        """Return the total from what each person gives, in whole steps."""
        each = scores.astype(np.float64)
        parts = {"score": each.sum(axis=0), "information": informations.sum(axis=0), "meat": each.T @ each}
        return self.join(**{part: np.asarray(parts[part], dtype=np.float64) for part in self.parts})

    @property
    def _rounding(self) -> float:
        """How far rounding moves one person's score, in steps: rows first, then their average."""
        return math.sqrt(self.dimension) * SLACK

    def _largest_squares(self, score: float, meat: float, information: float) -> float:
        """Return the largest sum of one person's contributions.

        Score and information are averages of what rows give, with the same weights. How far they lie from another
        person's, squared, is convex in them, and so largest where all rows are alike: that of single records. Of the
        score's variation, w̄w̄′, no average, is known that two lie no farther apart than √2. Or else all three are
        bounded by the cosine between the scores, and two averages of information by √2.
        """
        alike = super()._largest_squares(score, 0.0, information) + 2 * meat
        return min(self._squares_by_cosine(score, meat, information, averaged=True), alike)

    @property
    def lengths(self) -> dict[str, float]:
        """The longest contribution of one person to each part, in steps, rounding included."""
        result = super().lengths
        # Half a step an entry of the average.
        return result | (
            {"information": result["information"] + self._matrix_rounding} if "information" in self.parts else {}
        )

    @property
    def _matrix_rounding(self) -> float:
        return self.dimension / 2 * SLACK

    @property
    def moves(self) -> dict[str, float]:
        """How far one person replaced moves each part alone, in steps."""
        result = super().moves
        if "information" in self.parts:  # rounded, an average of positive matrices may point apart by a little
            result = result | {"information": result["information"] + 2 * self._matrix_rounding}
        return result

    def arranged(self, records: Sequence[tuple[object, ...]]) -> Any:
        """Return records, each of a person of its own."""
        return [*super().arranged(records), list(range(len(records)))]

    def _of(self, records: Sequence[tuple[object, ...]]) -> Statistics:
        return self.read(self.arranged(records))

    def neighbours(self, first: object, second: object, relation: Relation = REPLACE_ONE) -> bool:
        """Say whether two data sets, or what is seen of them, can differ by one person replaced, or added."""
        first, second = held(first), held(second)
        if isinstance(first, HeldRecords) and isinstance(second, HeldRecords):
            sizes = [len(whose(side.columns[-1])[1]) for side in (first, second)]
            return _persons_apart(first, second) <= 1 and abs(sizes[0] - sizes[1]) == relation.hides_n
        return super().neighbours(first, second, relation)


def _spread(rows: Any) -> Any:
    return rows[:, None, None]


def _persons_apart(first: HeldRecords, second: HeldRecords) -> int:
    """Return how many persons have other rows in one than in the other."""
    sides = []
    for side in (first, second):
        *_, last = side.columns
        places, names = whose(last)
        rows: dict[str, list[str]] = {name: [] for name in names}
        for place, row in zip(places.tolist(), zip(*side.columns[:-1], strict=True), strict=True):
            if place >= 0:
                rows[names[place]].append(repr(row))
        sides.append({name: sorted(result) for name, result in rows.items()})
    names_ = {*sides[0], *sides[1]}
    return sum(sides[0].get(name) != sides[1].get(name) for name in names_)
