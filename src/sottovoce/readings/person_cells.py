"""One record a person: counts and sums of public groups in which a person with many rows counts once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.readings.base import Block, Movement, Statistics
from sottovoce.readings.category_counts import nearest_counts
from sottovoce.readings.cell_counts import CellCounts
from sottovoce.readings.group_moments import GroupMoments, Scale
from sottovoce.readings.persons import chosen, commonest, split_person

__all__ = ["PersonCells", "PersonMoments", "PersonRows"]


@dataclass(frozen=True)
class PersonMoments(GroupMoments):
    """S of a person: 1 in the group that most of their rows are in, and there the average t of those rows, and its t².

    A person is one fractional record, so all that is known of `GroupMoments` is known of it: a person moves it no
    farther than a record would. Between groups with as many rows the first is taken. A number cut into bins is averaged
    first. A person of whom no row is in a group is counted apart, and a row of nobody is left out. The last column says
    whose a row is.

    Examples
    --------
    >>> reading = PersonMoments((("A", "B"),), (-1,), measures=((0.0, 2.0),), fillers=(None,))
    >>> seen = reading.read([["A", "A", "B", "B"], [2.0, 1.0, 0.0, 2.0], ["ann", "ann", "ann", "bob"]])
    >>> seen.n, (seen.total / [1, 1, 1, 2**20, 2**20]).tolist()
    (2, [1.0, 1.0, 0.0, 0.5, 1.0])
    """

    word: ClassVar[str] = "person moments"
    persons: ClassVar[bool] = True

    @property
    def columns(self) -> int:
        """How many columns are read."""
        return super().columns + 1

    @property
    def averaged(self) -> tuple[Scale, ...]:
        """How each number is averaged: the one that is cut into bins first."""
        return (*((Scale(self.edges[0], self.edges[-1]),) if self.edges else ()), *self.scales)

    @property
    def inner(self) -> Any:
        """The inner edges of the bins, in steps."""
        return self.averaged[0].steps(np.array(self.edges[1:-1]))

    def read(self, records: Any, missing: Any = None, *, public: bool = False) -> Statistics:
        """Return the number of persons and the sums of a list of columns: groups, numbers, the person last."""
        others, person, names = split_person(records, self.columns)
        if not others:  # nothing but persons
            inside, codes, numbers = np.ones(person.size, dtype=bool), [], []
        else:
            inside, codes, numbers = self.placed(others, missing, public=public)
        own = person[inside] >= 0
        steps = [scale.steps(column)[own] for scale, column in zip(self.averaged, numbers, strict=True)]
        shape = tuple(map(len, self.groups))
        cell = np.ravel_multi_index(codes, shape) if codes else np.zeros(own.size, dtype=np.int64)
        cell, steps = commonest(person[inside][own], cell[own], steps)
        if self.edges:
            bins = len(self.edges) - 1
            cell = cell * bins + np.searchsorted(self.inner, steps.pop(0), side="right")
        return self.added(len(names), cell, steps)

    def arranged(self, records: Sequence[tuple[Any, ...]]) -> Any:
        """Return records, each of a person of its own."""
        return [*super().arranged(records), list(range(len(records)))]


@dataclass(frozen=True)
class PersonCells(CellCounts):
    """S of a person: 1 in the cell that most of their rows are in, the first of those with as many.

    Examples
    --------
    >>> reading = PersonCells((False,), (("A", "B"),), (-1,))
    >>> reading.read([["B", "A", "B", "?"], [7, 7, 7, 8]]).total.tolist()
    [0.0, 1.0, 1.0]
    """

    word: ClassVar[str] = "person cells"
    persons: ClassVar[bool] = True

    @property
    def columns(self) -> int:
        """How many columns are read."""
        return super().columns + 1

    def read(self, records: Any, missing: Any = None, *, public: bool = False) -> Statistics:
        """Return the number of persons and their cells, from a list of columns, the person last."""
        others, person, names = split_person(records, self.columns)
        inside, cell = self.placed(others, missing, public=public)
        own = person[inside] >= 0
        cell, _ = commonest(person[inside][own], cell[own], [])
        return self.gathered(len(names), np.bincount(cell, minlength=self.cells), [])

    def arranged(self, records: Sequence[tuple[Any, ...]]) -> Any:
        """Return records, each of a person of its own."""
        return [*super().arranged(records), list(range(len(records)))]


@dataclass(frozen=True)
class PersonRows(PersonCells):
    """S of a person: at most k rows, each 1 in its cell, and what is left of k in the last place.

    So n persons have n·k places, whoever has how many rows, and one person moves no more than k of them. The k rows are
    those whose hash comes first, a function of the key, the person and the cell; see `chosen`.

    Attributes
    ----------
    rows, key
        k, and what the hash is keyed with: both public.

    Examples
    --------
    >>> reading = PersonRows((False,), (("A", "B"),), (-1,), rows=2)
    >>> reading.read([["B", "A", "B", "B", "?"], [7, 7, 7, 7, 8]]).total.sum()
    np.float64(4.0)
    """

    word: ClassVar[str] = "rows of a person"
    rows: int = 1
    key: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.rows <= 2**20:
            raise InvalidValue(f"rows must be a whole number from 1 to {2**20}. Got {self.rows!r}")

    def places(self, n: int) -> int:
        """Return how many places n persons have."""
        return n * self.rows

    def read(self, records: Any, missing: Any = None, *, public: bool = False) -> Statistics:
        """Return the number of persons and the cells of their rows, from a list of columns, the person last."""
        others, person, names = split_person(records, self.columns)
        inside, cell = self.placed(others, missing, public=public)
        own = person[inside] >= 0
        person, cell = person[inside][own], cell[own]
        kept = cell[chosen(person, cell, names, self.rows, self.key)]
        return self.gathered(len(names), np.bincount(kept, minlength=self.cells), [])

    def gathered(self, n: int, counts: Any, sums: Any) -> Statistics:
        """Return statistics from the counts of the cells."""
        return Statistics(n, self.flat.gathered(self.places(n), counts, sums).total)

    def check_sums(self, n: int) -> None:
        """Raise unless a double holds every count exactly."""
        self.flat.check_sums(self.places(n))

    def check(self, statistics: Statistics) -> Statistics:
        """Return counts that the rows of n persons can have."""
        n, total = self._checked_total(statistics)
        self.flat.check(Statistics(self.places(n), total))
        return statistics

    def project(self, n: int, total: Floats) -> Floats:
        """Return the nearest counts of so many places."""
        return nearest_counts(np.asarray(total, dtype=np.float64), float(self.places(n)))

    def movement(self, n: int) -> Movement:
        """Return how far one person moves the counts: k away from some, k towards others."""
        del n
        k = self.rows
        return Movement(1.0, 2 if k == 1 else 0, int(k == 1), 2.0 * k * k, 2.0 * k)

    def blocks(self, n: int) -> tuple[Block, ...]:
        """Return the counts as one block."""
        return (Block(self.size, self.movement(n)),)

    def middle(self) -> list[float]:
        """Return equal shares of the places of a person."""
        return [self.rows * share for share in self.flat.middle()]

    def _fits(self, mean: Floats) -> tuple[bool, str]:
        return self.flat._fits(mean / self.rows)[0], f"{self.size} numbers, {self.rows} in all"

    def pairs(self, n: int) -> list[tuple[Statistics, Statistics]]:
        """Return the first person with all k rows in the first cell, and with all of them elsewhere."""
        last = self.cells - 1
        rest = np.zeros(self.cells)
        rest[last] = (n - 1) * self.rows
        first, second = rest.copy(), rest.copy()
        first[0] += self.rows
        if last > 0:
            second[last] += self.rows
        return [(self.gathered(n, first, []), self.gathered(n, second, []))]

    def apart(self, gap: Floats) -> bool:
        """Say whether one person can have moved the counts this far."""
        return bool(np.abs(gap).sum() <= 2 * self.rows)

    @classmethod
    def example(cls) -> PersonRows:
        """Return three rows a person, ages cut at two edges, in two wards."""
        return cls((True, False), ((18.0, 65.0), ("A", "B")), (3, -1), rows=3)
