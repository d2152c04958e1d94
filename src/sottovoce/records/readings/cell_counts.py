"""How many records are in each of some public cells, and how many in none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.records.readings.base import Block, Reading, Sensitivity, Statistics
from sottovoce.records.readings.columns import as_codes, as_numbers, check_public
from sottovoce.records.readings.group_moments import GroupMoments


@dataclass(frozen=True)
class CellCounts(Reading):
    """S(x) = 1 in the cell of x; the last place counts the records that are in no cell, so n never changes.

    A cell is one part of every column, the last running fastest.

    Attributes
    ----------
    numeric
        For each column whether it holds numbers.
    marks
        Its categories, or the inner edges of its cells: a number at an edge is above it.
    others
        The place of what is missing, no number or of no category: -1 where such a record is in no cell, one past the
        last where it has a cell of its own.

    Examples
    --------
    >>> reading = CellCounts((True, False), ((18.0, 65.0), ("A", "B")), (3, -1))
    >>> reading.shape, reading.read([[20, None, 70, 1], ["A", "B", "?", "A"]]).total.tolist()
    ((4, 2), [1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0])
    """

    word: ClassVar[str] = "cell counts"
    vector: ClassVar[bool] = True
    fine: ClassVar[int] = 1
    """How many steps a count of one has."""
    hides_n: ClassVar[bool] = True
    measures: ClassVar[tuple[()]] = ()
    moments: ClassVar[int] = 0
    squared: ClassVar[bool] = False
    crossed: ClassVar[bool] = False
    counted: ClassVar[bool] = True
    numeric: tuple[bool, ...]
    marks: tuple[tuple[Any, ...], ...]
    others: tuple[int, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.marks or not len(self.numeric) == len(self.marks) == len(self.others):
            raise InvalidValue("every column needs its marks, and the place of what is missing")
        for numeric, marks, other in zip(self.numeric, self.marks, self.others, strict=True):
            if numeric and not (np.all(np.isfinite(marks)) and np.all(np.diff(marks) > 0)):
                raise InvalidValue("inner edges are finite and rise")
            if not numeric and (not marks or len(set(marks)) < len(marks)):
                raise InvalidValue("categories are a list of different values")
            if not -1 <= other <= len(marks) + numeric:
                raise InvalidValue("what is missing is in a cell, in one more, or in none")
        self.flat  # noqa: B018 - too many cells are refused here

    @property
    def shape(self) -> tuple[int, ...]:
        """How many parts each column has."""
        parts = (len(marks) + numeric for numeric, marks in zip(self.numeric, self.marks, strict=True))
        return tuple(part + (other == part) for part, other in zip(parts, self.others, strict=True))

    @property
    def cells(self) -> int:
        """The number of cells."""
        return math.prod(self.shape)

    @cached_property
    def flat(self) -> GroupMoments:
        """The same cells as one list: what is counted, and how far one record moves it."""
        return GroupMoments((tuple(range(self.cells)),), (-1,))

    @property
    def columns(self) -> int:
        """How many columns are read."""
        return len(self.marks)

    def places(self, n: int) -> int:
        """Return what the counts of n records add up to."""
        return n

    @property
    def sizes(self) -> tuple[int, ...]:
        """One part: the counts, those in no cell last."""
        return (self.size,)

    @property
    def size(self) -> int:
        """The number of counts."""
        return self.cells + 1

    def read(self, records: object, missing: object = None, *, public: bool = False) -> Statistics:
        """Return n and the counts of a list of columns, in order."""
        inside, cell = self.placed(records, missing, public=public)
        return self.gathered(inside.size, np.bincount(cell, minlength=self.cells), [])

    def placed(self, records: Any, missing: Any = None, *, public: bool = False) -> tuple[Any, Any]:
        """Return which records are in a cell, and the cells of those."""
        if missing is not None:
            raise InvalidValue("each column says itself what a missing value counts as")
        if isinstance(records, Mapping) or not hasattr(records, "__len__") or len(records) != len(self.marks):
            raise InvalidData(f"this reading takes a list of {self.columns} columns, in order")
        codes = [self._codes(place, column) for place, column in enumerate(records)]
        if len({code.size for code in codes}) > 1:
            raise InvalidData("every column must have one value a record; these have different lengths")
        inside = np.logical_and.reduce([code >= 0 for code in codes])
        check_public(public, not bool(inside.all()))
        return inside, np.ravel_multi_index([code[inside] for code in codes], self.shape)

    def _codes(self, place: int, column: object) -> Any:
        marks, other = self.marks[place], self.others[place]
        if not self.numeric[place]:
            return as_codes(column, marks, other)
        numbers = as_numbers(column)
        return np.where(np.isnan(numbers), other, np.searchsorted(np.array(marks, dtype=np.float64), numbers, "right"))

    def gathered(self, n: int, counts: object, sums: object) -> Statistics:
        """Return statistics from the counts of the cells."""
        return self.flat.gathered(n, counts, sums)

    def split(self, total: object) -> list[Any]:
        """Return the parts of a total: one."""
        return self.flat.split(total)

    def check_sums(self, n: int) -> None:
        """Raise unless a double holds every count exactly."""
        self.flat.check_sums(n)

    def check(self, statistics: Statistics) -> Statistics:
        """Return counts that n records can have."""
        return self.flat.check(statistics)

    def project(self, n: int, total: Floats) -> Floats:
        """Return the nearest counts of n records."""
        return self.flat.project(n, total)

    def for_size(self, n: int | None) -> CellCounts:
        """Return the reading for n records: it counts them anyway."""
        del n
        return self

    def movement(self, n: int | None) -> Sensitivity:
        """Return how far one record moves the counts: two of them, by one; where n is None, one."""
        return self.flat.movement(n)

    def blocks(self, n: int | None) -> tuple[Block, ...]:
        """Return the counts as one block."""
        return self.flat.blocks(n)

    def middle(self) -> list[float]:
        """Return equal shares."""
        return self.flat.middle()

    def _fits(self, mean: Floats) -> tuple[bool, str]:
        return self.flat._fits(mean)

    def pairs(self, n: int | None) -> list[tuple[Statistics, Statistics]]:
        """Return the first record in another cell; where n is None, there or not."""
        return self.flat.pairs(n)

    def apart(self, gap: Floats) -> bool:
        """Say whether one record can have moved the counts this far."""
        return self.flat.apart(gap)

    def beside(self, gap: Floats) -> bool:
        """Say whether one record more or less can have moved the counts this far."""
        return self.flat.beside(gap)

    @classmethod
    def example(cls) -> CellCounts:
        """Return ages cut at two edges, missing ones apart, in two wards."""
        return cls((True, False), ((18.0, 65.0), ("A", "B")), (3, -1))

    def typical(self) -> tuple[tuple[Any, ...], ...]:
        """Return each category and none, and numbers at, between and beyond the edges."""
        return tuple(
            (*marks, min(marks, default=0.0) - 1.0, max(marks, default=0.0) + 1.0, None) if numeric else (*marks, None)
            for numeric, marks in zip(self.numeric, self.marks, strict=True)
        )
