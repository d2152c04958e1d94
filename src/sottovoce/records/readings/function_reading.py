"""What every reading of a user's function shares: tame cells, bounded answers, a public grid."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats, Integers, whole
from sottovoce.records.facts.columns import Category, Column, Count, Flag, Number
from sottovoce.records.readings.base import Reading, Statistics
from sottovoce.records.readings.cells import fill
from sottovoce.records.readings.design_rows import inside, number_or_place
from sottovoce.records.readings.grid import check_span

MOST = 2**50
"""The most steps between the bounds: they survive a double, and a sum of noise survives 64 bits."""


@dataclass(frozen=True)
class FunctionReading(Reading):
    """What both kinds share: the function, the facts of the columns it sees, and the bounds of its `entries`."""

    function: Any = field(compare=False)
    columns: tuple[Column, ...]
    low: float
    high: float
    entries: int = 1

    def __post_init__(self) -> None:
        if not (callable(self.function) or isinstance(self.function, str)):
            raise InvalidValue(f"function must be a function of records. Got {self.function!r}")
        columns = (self.columns,) if isinstance(self.columns, Column) else tuple(self.columns)
        if not columns or not all(isinstance(c, Number | Count | Flag | Category) for c in columns):
            raise InvalidValue(
                "columns must be the facts of what the function sees: numbers, counts, flags, categories"
            )
        object.__setattr__(self, "columns", columns)
        check_span(self.low, self.high)
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))
        whole("entries", self.entries, 1, 10**6)

    @property
    def name(self) -> str:
        """What the function is called."""
        known = type(self.function).__name__
        return self.function if isinstance(self.function, str) else str(getattr(self.function, "__name__", known))

    @property
    def size(self) -> int:
        """How many numbers the function returns."""
        return self.entries

    # The public map.

    def tame(self, values: Sequence[Floats]) -> list[object]:
        """Return records from columns of numbers (or places of categories): cells in a tuple, or the only cell."""
        cells = [_tamed(column, value) for column, value in zip(self.columns, values, strict=True)]
        return cells[0] if len(cells) == 1 else list(zip(*cells, strict=True))

    def read(self, records: Any, missing: Any = None, *, public: bool = False) -> Any:
        """Return n and the total of records in memory: one column, or a list of columns."""
        del public
        if missing is not None:
            raise InvalidValue("the facts of a column say what a missing cell counts as; leave missing out")
        columns = [records] if len(self.columns) == 1 else list(records)
        if len(columns) != len(self.columns):
            raise InvalidData(f"this function takes {len(self.columns)} columns. Got {len(columns)}")
        values = [number_or_place(fact, column) for fact, column in zip(self.columns, columns, strict=True)]
        if len({len(value) for value in values}) > 1:
            raise InvalidData("columns of one table are of one length")
        return self.seen(values)

    def seen(self, values: Sequence[Floats], kept: object = None) -> Any:
        """Return what is seen of one array a column; a record outside of `kept` counts as missing."""
        if kept is not None:
            values = [_cut(fact, value, kept) for fact, value in zip(self.columns, values, strict=True)]
        return self.of_records(self.tame(values))

    def of_records(self, records: list[object]) -> Statistics:
        """Return what is seen of tame records."""
        self.known()
        return self._at(len(records), self._steps_of(records))

    def known(self) -> None:
        """Raise `InvalidValue` where only the name of the function is known."""
        if not callable(self.function):
            raise InvalidValue(f"only the name of {self.name!r} is known here; build it with the function")

    def evaluated(self, argument: object) -> Floats | None:
        """Return what the function says, or None where it fails or says anything but its numbers."""
        try:
            answer = np.asarray(self.function(argument), dtype=np.float64).reshape(-1)
        except Exception:  # a failure would tell that such a record exists
            return None
        if answer.shape != (self.entries,) or np.isnan(answer).any():
            return None
        return np.clip(answer, self.low, self.high)

    def answered(self, argument: object) -> Floats:
        """Return what the function says, within its bounds; their middle where it says nothing."""
        answer = self.evaluated(argument)
        return self.middle() if answer is None else answer

    def _in_steps(self, answer: Floats) -> Integers:
        """Return an answer in steps above the first one within the bounds, rounded down: what moves by a step there
        moves by a step here. The grid is absolute and its step a power of two, so that the division is exact.
        """
        steps: Integers = np.clip(np.floor(answer / self.grid) - self._first, 0, self._width).astype(np.int64)
        return steps

    @cached_property
    def _first(self) -> int:
        """The first step within the bounds: rounding takes nothing out of them."""
        return math.ceil(self.low / self.grid)

    @cached_property
    def _width(self) -> int:
        """How many steps the bounds lie apart."""
        return math.floor(self.high / self.grid) - self._first

    @property
    @abstractmethod
    def grid(self) -> float:
        """The public step, a power of two."""

    @abstractmethod
    def _steps_of(self, records: list[object]) -> Integers:
        """Return the total of tame records, in steps."""

    @abstractmethod
    def _top(self, n: int) -> int:
        """Return the largest total of a coordinate, in steps."""

    # Totals and steps.

    def _start(self, n: int) -> float:
        """Return where steps are counted from."""
        return self._first * self.grid * self._times(n)

    def _times(self, n: int) -> int:
        del n
        return 1

    def _at(self, n: int, steps: object) -> Statistics:
        return Statistics(n, self.from_steps(n, np.asarray(steps)))

    def from_steps(self, n: int, steps: Integers) -> Floats:
        """Return the totals that go with steps."""
        return np.asarray(steps * self.grid + self._start(n), dtype=np.float64)

    def steps(self, statistics: Statistics) -> Integers:
        """Return a total in whole steps."""
        checked = self.check(statistics)
        return np.rint((checked.total - self._start(checked.n)) / self.grid).astype(np.int64)

    def check(self, statistics: Statistics) -> Statistics:
        """Return a total that n records can have."""
        n, total = self._checked_total(statistics)
        steps = (total - self._start(n)) / self.grid
        if steps.min() < -0.5 or steps.max() > self._top(n) + 0.5:
            raise self._off()
        return Statistics(n, self.from_steps(n, np.clip(np.rint(steps), 0, self._top(n))))

    def project(self, n: int, total: Floats) -> Floats:
        """Return the total cut to what the bounds allow, on the grid."""
        steps = np.clip(np.rint((np.asarray(total) - self._start(n)) / self.grid), 0, self._top(n))
        return self.from_steps(n, steps)

    def middle(self) -> Any:
        """Return the middle of the bounds."""
        return np.full(self.entries, self.low + (self.high - self.low) / 2)

    def imagined(self, n: int, mean: object) -> Statistics:
        """Return what would be seen if the function, or its mean, were this."""
        numbers = np.atleast_1d(np.asarray(mean, dtype=np.float64))
        fits, wanted = self._fits(numbers)
        if not fits:
            raise InvalidValue(f"mean must be {wanted}. Got {numbers.tolist()}")
        return Statistics(n, self.project(n, self._times(n) * numbers))

    def _fits(self, mean: Floats) -> tuple[bool, str]:
        fits = mean.shape == (self.entries,) and bool(np.all((self.low <= mean) & (mean <= self.high)))
        return fits, f"{self.entries} number(s) between {self.low:g} and {self.high:g}"

    def apart(self, gap: Floats) -> bool:
        """Say whether one record replaced can move a total this far."""
        move, steps = self.movement(1), np.abs(np.rint(gap / self.grid))
        return bool(np.sum(steps**2) <= move.squares and (not move.cells or steps.max(initial=0) <= move.width))

    def check_sums(self, n: int) -> None:
        """Raise unless totals fit into a double."""
        far = max(abs(self.low), abs(self.high)) / self.grid * max(self._times(n), 1)
        if not max(far, self._top(n)) <= MOST:
            raise InvalidValue(
                "the bounds are too wide, or too far from zero, beside what one record moves; measure in another unit"
            )

    # What checks try, and JSON.

    def typical(self) -> tuple[tuple[Any, ...], ...]:
        """Return the ends of each column, and values beyond."""
        return tuple(_values(column) for column in self.columns)

    def to_dict(self) -> dict[str, object]:
        """Return the reading as plain values; of the function, its name."""
        return super().to_dict() | {"function": self.name}

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Reading:
        columns = tuple(Column.from_dict(column) for column in state.pop("columns"))
        return cls(columns=columns, **state)


def _tamed(column: Column, values: Floats) -> list[Any]:
    """Return the cells of a column, each one that its facts allow."""
    if isinstance(column, Category):
        return [column.categories[int(place)] for place in values]
    if isinstance(column, Flag):
        return [bool(value) for value in fill(values, float(bool(column.missing)))]
    tame = inside(column, values)
    return [int(value) for value in np.floor(tame)] if isinstance(column, Count) else list(map(float, tame))


def _cut(column: Column, values: Floats, kept: Any) -> Floats:
    """Return a column whose records outside of `kept` are missing."""
    filler: float = math.nan
    if isinstance(column, Category):
        filler = 0.0 if column.missing is None else float(column.categories.index(column.missing))
    return np.where(kept, values, filler)


def _values(column: Column) -> tuple[object, ...]:
    """Return some cells of a column, and some beyond its bounds."""
    if isinstance(column, Category):
        return tuple(column.categories)
    if isinstance(column, Flag):
        return (False, True)
    if isinstance(column, Count):
        return (*range(min(column.high, 4) + 1), 3 * column.high)
    assert isinstance(column, Number)
    return (column.low, column.high, (column.low + column.high) / 2, column.high + 3 * (column.high - column.low))
