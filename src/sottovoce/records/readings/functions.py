"""Functions of the records that somebody else wrote: of the whole table, or added up record by record.

Every cell is made tame by public facts before the function sees it, and what the function returns is cut to public
bounds and put on a public grid; where it fails, the middle of the bounds stands for its answer. So both are total maps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, Integers, ceil_float, floor_float, real
from sottovoce.records.facts.columns import Count, Number
from sottovoce.records.readings.base import Sensitivity, Statistics
from sottovoce.records.readings.function_reading import FunctionReading
from sottovoce.records.readings.spot_check import spot_check

NORMS = ("max", "l1", "l2")
"""In which norm a sensitivity is declared: each coordinate by itself, the sum of all moves, or their Euclidean norm."""
_FINE, _FINE_SUM = 10, 20
"""The grid's step, in halvings of the sensitivity, or of a record's width where records are added."""


@dataclass(frozen=True)
class FunctionValue(FunctionReading):
    r"""f(D), a user's function of the whole table, cut to [low, high]; one record replaced moves it by `sensitivity`.

    The sensitivity is **declared**: of the function as the computer evaluates it on tame records, failures counted as
    the middle of the bounds. A mechanism built on it tries generated neighbours and refuses what is visibly wrong;
    what no trial finds stays the declarer's word.

    Parameters
    ----------
    function
        Of a list of records, one cell or a tuple of cells each; returns one number, or `entries` of them.
    columns
        What is public of each column: cells are cut, missing ones filled, unknown categories replaced.
    low, high
        Public bounds of every number.
    entries
        How many numbers.
    sensitivity, norm
        How far one record replaced moves the numbers, in the norm ``"max"``, ``"l1"`` or ``"l2"``.
    integer
        Whether the numbers are whole.

    Examples
    --------
    >>> from sottovoce.records.facts.columns import Category
    >>> distinct = FunctionValue(lambda wards: len(set(wards)), (Category(["A", "B", "C"]),), 0, 3, integer=True)
    >>> distinct.read(["A", "A", "C", None]).total
    array([2.])
    """

    word: ClassVar[str] = "function value"
    sensitivity: float = 1.0
    norm: str = "max"
    integer: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "sensitivity", real("sensitivity", self.sensitivity, above=0.0))
        if self.norm not in NORMS:
            raise InvalidValue(f"norm must be one of {', '.join(NORMS)}. Got {self.norm!r}")
        if self.integer and not (self.low.is_integer() and self.high.is_integer() and self.sensitivity >= 1):
            raise InvalidValue("whole numbers need whole bounds and a sensitivity of at least 1")
        super().check_sums(1)

    @property
    def whole(self) -> bool:
        """Whether the numbers are whole."""
        return self.integer

    @cached_property
    def grid(self) -> float:
        """1 for whole numbers, else the power of two at or below 2⁻¹⁰ of the sensitivity."""
        return 1.0 if self.integer else 2.0 ** (math.floor(math.log2(self.sensitivity)) - _FINE)

    def middle(self) -> Any:
        """Return the middle of the bounds, of whole numbers the whole one below."""
        return np.floor(super().middle()) if self.integer else super().middle()

    def evaluated(self, argument: object) -> Floats | None:
        """Return what the function says; of whole numbers, None where it says fractions."""
        answer = super().evaluated(argument)
        if self.integer and answer is not None and not np.array_equal(answer, np.floor(answer)):
            return None
        return answer

    def _top(self, n: int) -> int:
        del n
        return self._width

    def _steps_of(self, records: list[object]) -> Integers:
        return self._in_steps(self.answered(records))

    def movement(self, n: int) -> Sensitivity:
        """Return the declared sensitivity in steps; rounding down adds less than a step a coordinate."""
        del n
        exact, k = Fraction(self.sensitivity) / Fraction(self.grid), self.entries
        each = math.floor(exact) if self.integer else math.ceil(exact)
        if k == 1 or self.norm == "max":
            return Sensitivity(self.grid, k, each, float(k) * each**2)
        added = Fraction(0) if self.integer else Fraction(1)
        if self.norm == "l1":
            total = ceil_float(exact + k * added)
            return Sensitivity(self.grid, 0, 0, total**2, total)
        length = ceil_float(exact) + float(added) * math.sqrt(k) * (1 + 1e-15)
        return Sensitivity(self.grid, 0, 0, length**2 * (1 + 1e-15), math.sqrt(k) * length * (1 + 1e-15))

    def check_sums(self, n: int) -> None:
        """Raise unless the sensitivity withstands generated neighbours."""
        super().check_sums(n)
        if callable(self.function) and n:
            spot_check(self, n, self.sensitivity, self.norm)

    def pairs(self, n: int) -> list[tuple[Statistics, Statistics]]:
        """Return totals as far apart as the sensitivity says: the first coordinate alone, or all of them."""
        move, low = self.movement(n), np.zeros(self.entries)
        high = np.full(self.entries, move.width) if move.cells else low.copy()
        if not move.cells:
            high[0] = math.floor(move.total if self.norm == "l1" and move.total else math.sqrt(move.squares))
        high = np.minimum(high, self._top(n))
        return [(self._at(n, low), self._at(n, high))]

    @classmethod
    def example(cls) -> Self:
        """Return how many of four values occur."""
        return cls(_different, (Count(3),), 0, 4, integer=True)


@dataclass(frozen=True)
class FunctionSum(FunctionReading):
    """Σ g(x), a user's function of one record cut to [low, high], added over the records without rounding.

    One record replaced moves every number by at most high - low: here the bounds make the sensitivity, nobody's word.

    Parameters
    ----------
    function
        Of one record: its only cell, or a tuple of its cells. It is called on one record at a time.
    columns, low, high, entries
        As for `FunctionValue`.

    Examples
    --------
    >>> over = FunctionSum(lambda age: [age > 40, age > 60], (Number(0, 110),), 0, 1, entries=2)
    >>> over.read([31, 58, 72, None]).total
    array([3., 1.])
    """

    word: ClassVar[str] = "function sum"

    @property
    def whole(self) -> bool:
        """Sums are of fractions."""
        return False

    @cached_property
    def grid(self) -> float:
        """The power of two at or below 2⁻²⁰ of a record's width."""
        return 2.0 ** (math.floor(math.log2(floor_float(Fraction(self.high) - Fraction(self.low)))) - _FINE_SUM)

    def _times(self, n: int) -> int:
        return n

    def _top(self, n: int) -> int:
        return n * self._width

    def _steps_of(self, records: list[object]) -> Integers:
        each = [self._in_steps(self.answered(record)) for record in records]
        return np.sum(each, axis=0, dtype=np.int64) if each else np.zeros(self.entries, dtype=np.int64)

    def movement(self, n: int) -> Sensitivity:
        """Return the width of the bounds in steps, of every coordinate."""
        del n
        return Sensitivity(self.grid, self.entries, self._width, float(self.entries) * float(self._width) ** 2)

    def pairs(self, n: int) -> list[tuple[Statistics, Statistics]]:
        """Return all records at their lowest, and one of them at its highest."""
        low = np.zeros(self.entries)
        return [(self._at(n, low), self._at(n, low + self._width))]

    @classmethod
    def example(cls) -> Self:
        """Return a number and its square, added."""
        return cls(_powers, (Number(-1, 1),), -1, 1, 2)


def _different(records: list[object]) -> int:
    """Return how many different values there are."""
    return len(set(records))


def _powers(record: float) -> list[float]:
    """Return a number and its square."""
    return [record, record * record]
