"""Several columns a record, counted in tables that cross them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.records.readings.base import Block, Reading, Sensitivity, Statistics
from sottovoce.records.readings.category_counts import nearest_counts
from sottovoce.records.readings.columns import as_codes, check_public


@dataclass(frozen=True)
class CrossCounts(Reading):
    """S(x) = the indicator of x's cell in each of several tables, one table after the other.

    A record holds one value a column. A value of no known category counts as the category `others` says; where
    that is -1, the record is left out of every table (and still counts in n).

    Attributes
    ----------
    columns
        The categories of each column, in the order the columns are given.
    tables
        The columns that each table crosses, by position; the last one runs fastest.
    others
        For each column the position of the category that an unknown value counts as, or -1.

    Examples
    --------
    >>> CrossCounts((("a", "b"), (1, 2, 3)), ((0, 1),), (0, -1)).read([["a", "z", "b"], [1, 3, 9]]).total
    array([1., 0., 1., 0., 0., 0.])
    """

    word: ClassVar[str] = "cross counts"
    vector: ClassVar[bool] = True
    columns: tuple[tuple[Hashable, ...], ...]
    tables: tuple[tuple[int, ...], ...]
    others: tuple[int, ...]

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each table."""
        return tuple(tuple(len(self.columns[i]) for i in table) for table in self.tables)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of cells of each table."""
        return tuple(int(np.prod(shape)) for shape in self.shapes)

    @property
    def _ends(self) -> list[int]:
        return list(accumulate(self.sizes))[:-1]

    @property
    def size(self) -> int:
        """The number of cells of all tables."""
        return sum(self.sizes)

    def read(self, records: Any, missing: Any = None, *, public: bool = False) -> Statistics:
        """Return n and the counts of a list of columns, in order."""
        if missing is not None:
            raise InvalidValue("each list of categories says itself what a missing value counts as")
        if isinstance(records, Mapping) or not hasattr(records, "__len__") or len(records) != len(self.columns):
            raise InvalidData(f"this reading takes a list of {len(self.columns)} columns, in order")
        codes = [
            as_codes(column, categories, other)
            for column, categories, other in zip(records, self.columns, self.others, strict=True)
        ]
        if len({code.size for code in codes}) != 1:
            raise InvalidData("every column must have one value a record; these have different lengths")
        inside = np.all([code >= 0 for code in codes], axis=0)
        check_public(public, not bool(inside.all()))
        codes = [code[inside] for code in codes]
        counts = [
            np.bincount(np.ravel_multi_index([codes[i] for i in table], shape), minlength=size)
            for table, shape, size in zip(self.tables, self.shapes, self.sizes, strict=True)
        ]
        return Statistics(inside.size, np.concatenate(counts).astype(np.float64))

    def check_sums(self, n: int) -> None:
        """Raise unless a double holds a count of n exactly."""
        if n > 2**53:
            raise InvalidValue(f"counts of n={n} records do not fit into a double")

    def check(self, statistics: Statistics) -> Statistics:
        """Return counts of at most n records a table."""
        n, total = self._checked_total(statistics)
        sums = [part.sum() for part in np.split(total, self._ends)]
        if not np.all(total >= 0) or max(sums) > n + (self.size + 2) * 2.0**-52 * n:
            raise self._off()
        return statistics

    def project(self, n: int, total: Floats) -> Floats:
        """Return the nearest counts, none below zero, of at most n records a table."""
        parts = [np.maximum(part, 0.0) for part in np.split(np.asarray(total, dtype=np.float64), self._ends)]
        return np.concatenate([nearest_counts(part, float(n)) if part.sum() > n else part for part in parts])

    def movement(self, n: int) -> Sensitivity:
        """Return one record less in one cell and one more in another, in every table."""
        del n
        return Sensitivity(1.0, 2 * len(self.tables), 1, 2.0 * len(self.tables))

    def blocks(self, n: int) -> tuple[Block, ...]:
        """Return one block a table."""
        del n
        return tuple(Block(size, Sensitivity(1.0, 2, 1, 2.0)) for size in self.sizes)

    def middle(self) -> list[float]:
        """Return equal shares in every table."""
        return [1 / size for size in self.sizes for _ in range(size)]

    def _fits(self, mean: Floats) -> tuple[bool, str]:
        fits = mean.shape == (self.size,) and bool(np.all(mean >= 0))
        parts = np.split(mean, self._ends) if fits else []
        fits = fits and all(abs(part.sum() - 1) < 1e-9 for part in parts)
        return fits, f"{self.sizes} proportions, each table's summing to one"

    def pairs(self, n: int) -> list[tuple[Statistics, Statistics]]:
        """Return the first record in the first category of every column or in the last, the others in the first."""
        first = np.concatenate([np.eye(size)[0] for size in self.sizes])
        last = np.concatenate([np.eye(size)[-1] for size in self.sizes])
        return [(Statistics(n, n * first), Statistics(n, (n - 1) * first + last))]

    @classmethod
    def example(cls) -> Self:
        """Return two tables of two columns, one of which leaves out what it does not know."""
        return cls((("a", "b"), ("x", "y", "z")), ((0,), (0, 1)), (0, -1))

    def typical(self) -> tuple[tuple[Any, ...], ...]:
        """Return the categories of each column, and a value of none."""
        return tuple((*categories, None) for categories in self.columns)

    def apart(self, gap: Floats) -> bool:
        """Say whether at most one record changed its cell in every table."""
        return all(np.abs(part).sum() <= 2 for part in np.split(gap, self._ends))
