"""Statistics: all that a mechanism ever learns of a table, and how a column turns into them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from sottovoce.privacy.numbers import Floats, any_floats

__all__ = ["BallSum", "CategoryCounts", "ClippedSum", "CrossCounts", "Reading", "Statistics"]


@dataclass(frozen=True, eq=False)
class Statistics:
    """The number of records n and the sum ΣS(x) over them, one entry a coordinate.

    A `ClippedSum` gives one coordinate, `CategoryCounts` one a category, a `BallSum` one a dimension.
    """

    n: int
    total: Floats

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", np.atleast_1d(any_floats("total", self.total)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Statistics) and self.n == other.n and np.array_equal(self.total, other.total)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class ClippedSum:
    """S(x) = x clipped to [low, high]; `integer` where records are whole numbers (clipped, then floored)."""

    low: float
    high: float
    integer: bool = False


@dataclass(frozen=True)
class CategoryCounts:
    """S(x) = the indicator of x's category, in the order given. A record of no known category is refused."""

    categories: tuple[Hashable, ...]


@dataclass(frozen=True)
class BallSum:
    """S(x) = x projected onto the ball of `radius` around the origin in `dimension` coordinates."""

    dimension: int
    radius: float


@dataclass(frozen=True)
class CrossCounts:
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
    """

    columns: tuple[tuple[Hashable, ...], ...]
    tables: tuple[tuple[int, ...], ...]
    others: tuple[int, ...]

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each table."""
        return tuple(tuple(len(self.columns[i]) for i in table) for table in self.tables)


Reading = ClippedSum | CategoryCounts | BallSum
"""How a record becomes S(x). Public: nothing in it may come from the data."""
