"""A user's function of one record, kept record by record: what a chain sees that looks at a part of them at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats, Integers
from sottovoce.records.facts.columns import Count
from sottovoce.records.readings.base import Aggregate, Sensitivity, Statistics
from sottovoce.records.readings.functions import FunctionSum


@dataclass(frozen=True, eq=False)
class ScoreRows(Aggregate):
    """What the function says of each record, in whole steps of its grid above its low bound: a row a record."""

    steps: Integers


@dataclass(frozen=True)
class FunctionRows(FunctionSum):
    """g(x) of every record, cut to [low, high], in steps of a public grid: rows, not their sum.

    >>> reading = FunctionRows(lambda ward: [ward == 0, ward > 0], (Count(3),), 0, 1, entries=2)
    >>> (reading.read([0, 2, None]).steps * reading.grid).tolist()
    [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    """

    word: ClassVar[str] = "function rows"

    @property
    def width(self) -> int:
        """How many steps one record can differ by in each coordinate."""
        return self._width

    def of_records(self, records: list[Any]) -> Any:
        """Return a row a record."""
        self.known()
        rows = [self._in_steps(self.answered(record)) for record in records]
        return ScoreRows(len(rows), np.array(rows, dtype=np.int64).reshape(len(rows), self.entries))

    def check(self, rows: object) -> Any:
        """Return rows that records can have, or raise `InvalidData`."""
        if not isinstance(rows, ScoreRows) or np.shape(rows.steps) != (rows.n, self.entries):
            raise InvalidData(f"expected a row of {self.entries} scores a record, as `read` makes them")
        if rows.n and not 0 <= rows.steps.min() <= rows.steps.max() <= self.width:
            raise InvalidData("scores beyond their bounds; read them with the reading's own bounds")
        return rows

    def pairs(self, n: int) -> list[Any]:
        """Return rows of which the last one is at its lowest, or lifts the first half and lowers the others."""
        low = np.zeros((n, self.entries), dtype=np.int64)
        first, second = low.copy(), low.copy()
        half = np.arange(self.entries) < (self.entries + 1) // 2
        first[-1], second[-1] = self.width * half, self.width * ~half
        return [(ScoreRows(n, first), ScoreRows(n, second))]

    @classmethod
    def example(cls) -> Self:
        """Return how near a count is to each of three guesses."""
        return cls(_nearness, (Count(2),), -1, 0, 3)

    # Rows are no sum: nothing is added, and no noise put on them.

    def check_sums(self, n: int) -> None:
        """Raise unless the bounds suit the grid."""
        super().check_sums(max(n, 1))

    def steps(self, statistics: object) -> Integers:
        """Refuse: rows have no total."""
        raise self._no_sum()

    def project(self, n: int, total: Floats) -> Floats:
        """Refuse: rows have no total."""
        raise self._no_sum()

    def movement(self, n: int) -> Sensitivity:
        """Refuse: rows have no total."""
        raise self._no_sum()

    def apart(self, gap: Floats) -> bool:
        """Refuse: rows have no total."""
        raise self._no_sum()

    def statistics(self, n: int, total: Floats) -> Statistics:
        """Refuse: rows have no total."""
        raise self._no_sum()

    @staticmethod
    def _no_sum() -> InvalidValue:
        return InvalidValue("this mechanism sees a score a record, which have no sum to put noise on")


def _nearness(record: int) -> list[float]:
    """Return minus the distance of a count from each guess, at most one."""
    return [-min(abs(record - guess), 1) for guess in (0, 1, 2)]
