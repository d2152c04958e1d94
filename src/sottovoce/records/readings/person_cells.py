"""One record a person: counts and sums of public groups in which a person with many rows counts once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.records.readings.base import Block, Sensitivity, Statistics
from sottovoce.records.readings.category_counts import nearest_counts
from sottovoce.records.readings.cell_counts import CellCounts
from sottovoce.records.readings.group_moments import STEPS, GroupMoments, MomentScale
from sottovoce.records.readings.persons import chosen, commonest, split_person


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
    def averaged(self) -> tuple[MomentScale, ...]:
        """How each number is averaged: the one that is cut into bins first."""
        return (*((MomentScale(self.edges[0], self.edges[-1]),) if self.edges else ()), *self.scales)

    @property
    def inner(self) -> Any:
        """The inner edges of the bins, in steps."""
        return self.averaged[0].steps(np.array(self.edges[1:-1]))

    def read(self, records: object, missing: object = None, *, public: bool = False) -> Statistics:
        """Return the number of persons and the sums of a list of columns: groups, numbers, the person last."""
        others, person, names = split_person(records, self.columns)
        inside, codes, numbers = self.placed(others, missing, public=public)
        inside = inside if others else np.ones(person.size, dtype=bool)
        counted = person[inside] >= 0
        steps = [scale.steps(column)[counted] for scale, column in zip(self.averaged, numbers, strict=True)]
        shape = tuple(map(len, self.groups))
        cell = np.ravel_multi_index(codes, shape) if codes else np.zeros(counted.size, dtype=np.int64)
        cell, steps = commonest(person[inside][counted], cell[counted], steps)
        if self.edges:
            bins = len(self.edges) - 1
            cell = cell * bins + np.searchsorted(self.inner, steps.pop(0), side="right")
        return self.added(len(names), cell, steps)

    def arranged(self, records: Sequence[tuple[object, ...]]) -> Any:
        """Return records, each of a person of its own."""
        return [*super().arranged(records), list(range(len(records)))]


@dataclass(frozen=True)
class PersonPlaces(CellCounts):
    """Places in cells, so many a person: those that a person leaves empty are in the last place, so n says them all.

    One person moves no more than their own places, away from some cells and towards others.
    """

    persons: ClassVar[bool] = True

    @property
    @abstractmethod
    def each(self) -> int:
        """How many places a person has."""

    @abstractmethod
    def _taken(self, person: object, cell: object, names: Sequence[str]) -> Any:
        """Return how many places of each cell are taken, from rows that are in one."""

    @property
    def columns(self) -> int:
        """How many columns are read."""
        return super().columns + 1

    def places(self, n: int) -> int:
        """Return how many places n persons have."""
        return n * self.each

    def read(self, records: object, missing: object = None, *, public: bool = False) -> Statistics:
        """Return the number of persons and the places taken, from a list of columns, the person last."""
        others, person, names = split_person(records, self.columns)
        inside, cell = self.placed(others, missing, public=public)
        counted = person[inside] >= 0
        return self.gathered(len(names), self._taken(person[inside][counted], cell[counted], names), [])

    def arranged(self, records: Sequence[tuple[object, ...]]) -> Any:
        """Return records, each of a person of its own."""
        return [*super().arranged(records), list(range(len(records)))]

    def gathered(self, n: int, counts: object, sums: object) -> Statistics:
        """Return statistics from the places taken in each cell."""
        return Statistics(n, self.flat.gathered(self.places(n), counts, sums).total)

    def check_sums(self, n: int) -> None:
        """Raise unless a double holds every count exactly."""
        self.flat.check_sums(self.places(n))

    def check(self, statistics: Statistics) -> Statistics:
        """Return places that n persons can take."""
        n, total = self._checked_total(statistics)
        self.flat.check(Statistics(self.places(n), total))
        return statistics

    def project(self, n: int, total: Floats) -> Floats:
        """Return the nearest counts of so many places."""
        return nearest_counts(np.asarray(total, dtype=np.float64), float(self.places(n)))

    def movement(self, n: int | None) -> Sensitivity:
        """Return how far one person moves the counts: all places of theirs away from some, and towards others.

        Where n is None, a person more brings places and takes none away.
        """
        k, sides = self.each, 1 if n is None else 2
        return Sensitivity(1.0, sides if k == 1 else 0, int(k == 1), float(sides * k * k), float(sides * k))

    def blocks(self, n: int | None) -> tuple[Block, ...]:
        """Return the counts as one block."""
        return (Block(self.size, self.movement(n)),)

    def middle(self) -> list[float]:
        """Return equal shares of the places of a person."""
        return [self.each * share for share in self.flat.middle()]

    def _fits(self, mean: Floats) -> tuple[bool, str]:
        return self.flat._fits(mean / self.each)[0], f"{self.size} numbers, {self.each} in all"

    def statistics(self, n: int, total: Floats) -> Statistics:
        """Return the statistics nearest to a total, in whole places; what is cut off is in no cell."""
        full = np.floor(np.asarray(total, dtype=np.float64)[:-1] + 1e-6)
        return self.gathered(n, full, [])

    def pairs(self, n: int | None) -> list[tuple[Statistics, Statistics]]:
        """Return the first person with all places in the first cell, and elsewhere; where n is None, there or not."""
        last = self.cells - 1
        if n is None:
            alone = np.zeros(self.cells)
            alone[0] = self.each
            return [(self.gathered(1, alone, []), self.gathered(0, 0 * alone, []))]
        remainder = np.zeros(self.cells)
        remainder[last] = (n - 1) * self.each
        first, second = remainder.copy(), remainder.copy()
        first[0] += self.each
        if last > 0:
            second[last] += self.each
        return [(self.gathered(n, first, []), self.gathered(n, second, []))]

    def apart(self, gap: Floats) -> bool:
        """Say whether one person can have moved the counts this far."""
        return bool(np.abs(gap).sum() <= 2 * self.each)

    def beside(self, gap: Floats) -> bool:
        """Say whether one person more or less can have moved the counts this far."""
        return bool(np.abs(gap).sum() <= self.each)


@dataclass(frozen=True)
class PersonCells(PersonPlaces):
    """S of a person: in every cell the share of their rows that are in it, rounded down to steps of 2⁻²⁰.

    What is lost by rounding down is in the last place, with persons of whom no row is in a cell. Shares add up to at
    most one, so two persons lie no farther apart than two records in two cells.

    Examples
    --------
    >>> reading = PersonCells((False,), (("A", "B"),), (-1,))
    >>> (reading.read([["B", "A", "B", "B", "?"], [7, 7, 7, 7, 8]]).total / 2**20).tolist()
    [0.25, 0.75, 1.0]
    """

    word: ClassVar[str] = "person cells"
    fine: ClassVar[int] = STEPS

    @property
    def each(self) -> int:
        """How many places a person has: as many as there are steps in one."""
        return STEPS

    def _taken(self, person: Any, cell: Any, names: Sequence[str]) -> Any:
        rows = np.bincount(person, minlength=len(names))
        pairs, both = np.unique(person.astype(np.int64) * self.cells + cell, return_counts=True)
        whose, where = np.divmod(pairs, self.cells)
        shares = both * STEPS // np.maximum(rows[whose], 1)
        return np.bincount(where, weights=shares.astype(np.float64), minlength=self.cells)


@dataclass(frozen=True)
class PersonRows(PersonPlaces):
    """S of a person: at most k rows, each 1 in its cell, and what is left of k in the last place.

    The k rows are those whose hash comes first, a function of the key, the person and the cell; see `chosen`.

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

    @property
    def each(self) -> int:
        """How many places a person has: k."""
        return self.rows

    def _taken(self, person: Any, cell: Any, names: Sequence[str]) -> Any:
        kept = cell[chosen(person, cell, names, self.rows, self.key)]
        return np.bincount(kept, minlength=self.cells)

    @classmethod
    def example(cls) -> PersonRows:
        """Return three rows a person, ages cut at two edges, in two wards."""
        return cls((True, False), ((18.0, 65.0), ("A", "B")), (3, -1), rows=3)
