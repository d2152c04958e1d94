"""What a reading is: how records become what a mechanism may see, and how far one record can move that."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.json_values import mapping, restoring
from sottovoce.privacy.numbers import Floats, Integers, any_floats, as_floats, whole
from sottovoce.privacy.registry import Registry
from sottovoce.privacy.relation import REPLACE_ONE, Relation

MOST_RECORDS = 2**32
"""Where the number of records is a secret, sums are laid out for so many: a public number."""

_HERE = "sottovoce.records.readings"
READINGS = Registry(
    "reading",
    {
        "clipped sum": f"{_HERE}.clipped_sum:ClippedSum",
        "category counts": f"{_HERE}.category_counts:CategoryCounts",
        "ball sum": f"{_HERE}.ball_sum:BallSum",
        "cross counts": f"{_HERE}.cross_counts:CrossCounts",
        "class moments": f"{_HERE}.class_moments:ClassMoments",
        "joint": f"{_HERE}.joint:Joint",
        "group moments": f"{_HERE}.group_moments:GroupMoments",
        "cell counts": f"{_HERE}.cell_counts:CellCounts",
        "clipped rows": f"{_HERE}.design_rows:ClippedRows",
        "moments": f"{_HERE}.moments:Moments",
        "look": f"{_HERE}.look:Look",
        "person moments": f"{_HERE}.person_cells:PersonMoments",
        "person cells": f"{_HERE}.person_cells:PersonCells",
        "rows of a person": f"{_HERE}.person_cells:PersonRows",
        "hazard look": f"{_HERE}.hazard_look:HazardLook",
        "ordinal look": f"{_HERE}.ordinal_look:OrdinalLook",
        "person look": f"{_HERE}.person_look:PersonLook",
        "function value": f"{_HERE}.functions:FunctionValue",
        "function sum": f"{_HERE}.functions:FunctionSum",
        "function rows": f"{_HERE}.function_rows:FunctionRows",
    },
    "sottovoce.readings",
)
"""Every kind of reading by its word."""


@dataclass(frozen=True, eq=False)
class Aggregate:
    """What a reading made of n records: all that a mechanism is shown of them."""

    n: int


class ReadableRecords(ABC):
    """Records that can be read more than once: what a mechanism is given that looks again where its answer lies."""

    @abstractmethod
    def look(self, reading: object) -> Aggregate:
        """Return what a reading makes of the records."""


@dataclass(frozen=True, eq=False)
class Statistics(Aggregate):
    """The number of records n and the sum ΣS(x) over them, one entry a coordinate.

    Attributes
    ----------
    n, total
        The number of records and their sum.
    above
        For a `ClippedSum` the sum of S(x) - low, where it is known to its own last digits: near 10⁹ the double next to
        a total lies further off than one record can move it.
    exact
        The sum as it was added, on a public grid and without rounding, where that is known: a sample is drawn from it.
    """

    total: Floats
    above: float | None = field(default=None, repr=False)
    exact: tuple[Fraction, ...] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", np.atleast_1d(any_floats("total", self.total)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Statistics) or self.n != other.n:
            return False
        known = self.above is None or other.above is None or self.above == other.above
        return known and np.array_equal(self.total, other.total)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Sensitivity:
    """How far one record moves a total, replaced by another or added, counted in steps of a public grid.

    Attributes
    ----------
    grid
        The step.
    cells, width
        At most `cells` coordinates move, each by at most `width` steps; 0 where only their sums are bounded.
    squares
        The sum of the squares of all moves, at most.
    total
        The sum of the sizes of all moves, at most; None where nothing but cells and squares is known.
    """

    grid: float
    cells: int
    width: int
    squares: float
    total: float | None = None


@dataclass(frozen=True)
class Block:
    """Some neighbouring coordinates of a total that carry noise of one scale: how many, and how far they move."""

    size: int
    movement: Sensitivity


def _frozen(value: object) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple | range) else value


@dataclass(frozen=True)
class Reading(ABC):
    """How a record becomes S(x). Public: nothing in it may come from the data.

    A kind is a frozen dataclass of public values with a `word` of its own. It is a total map: no record, however odd,
    makes it fail, warn or take visibly longer. Adding one is one file and one line in `READINGS`.

    Where n is given as None it is a secret, and one record is added or removed instead of replaced: a kind that
    `hides_n` says how far that moves its total.
    """

    word: ClassVar[str]
    vector: ClassVar[bool] = False
    """Whether a record is several columns."""
    persons: ClassVar[bool] = False
    """Whether the last column says whose a row is, and a record is a person."""
    hides_n: ClassVar[bool] = False
    """Whether it knows how far one record added or removed moves its total: n may then be a secret."""

    def __post_init__(self) -> None:
        """Take lists for the tuples they stand for: what tells questions apart must not change, and has a hash."""
        for each in fields(self):
            object.__setattr__(self, each.name, _frozen(getattr(self, each.name)))

    @property
    def passing(self) -> bool:
        """Whether nobody will ask it again, so that what was made to answer it need not be kept."""
        return False

    # What a kind implements.

    @property
    @abstractmethod
    def size(self) -> int:
        """How many coordinates the total has."""

    @property
    def whole(self) -> bool:
        """Whether totals are whole numbers; so they are unless a kind says otherwise."""
        return True

    @abstractmethod
    def read(self, records: object, missing: object = None, *, public: bool = False) -> Statistics:
        """Return n and ΣS(x) of records in memory; of public ones, an odd one is refused instead."""

    @abstractmethod
    def check(self, statistics: Statistics) -> Statistics:
        """Return statistics that n such records can have, put back on the edge where rounding took them over it."""

    @abstractmethod
    def check_sums(self, n: int) -> None:
        """Raise `InvalidValue` unless n such records can be added without loss."""

    @abstractmethod
    def project(self, n: int, total: Floats) -> Floats:
        """Return the nearest total that n records can have."""

    @abstractmethod
    def movement(self, n: Any) -> Sensitivity:
        """Return how far one record replaced by another moves the total; where n is None, one added or removed."""

    @abstractmethod
    def middle(self) -> Any:
        """Return a mean of S(x) in the middle of what records can be."""

    def plausible(self) -> list[Any]:
        """Return means that the records may well have: in the middle of what they can be, and well away from it."""
        return [self.middle()]

    @abstractmethod
    def _fits(self, mean: Floats) -> tuple[bool, str]:
        """Say whether records can have this mean, and in words what they can have."""

    @abstractmethod
    def pairs(self, n: Any) -> list[tuple[Statistics, Statistics]]:
        """Return neighbouring statistics that lie as far apart as one record replaced can take them, n >= 1.

        Where n is None, as far as one record more can, both ways.
        """

    @abstractmethod
    def apart(self, gap: Floats) -> bool:
        """Say whether one record replaced can move a total this far, coordinate by coordinate."""

    def beside(self, gap: Floats) -> bool:
        """Say whether one record added or removed can move a total this far, where the kind `hides_n`."""
        del gap
        raise InvalidValue(f"a {self.word} does not say how far one record added or removed moves it")

    # What checks try, of a kind and of one of it.

    @classmethod
    def example(cls) -> Self:
        """Return a small one of public numbers; every registered kind has one."""
        raise InvalidValue(f"{cls.__name__} has no example; a registered kind of reading needs one")

    def typical(self) -> tuple[tuple[Any, ...], ...]:
        """Return, for each column that a record has, a few values that it may hold, the farthest apart among them."""
        raise InvalidValue(f"{type(self).__name__} does not say what its records look like: it has no `typical`")

    def arranged(self, records: Sequence[tuple[object, ...]]) -> Any:
        """Return records, each a tuple of cells, in the form that `read` takes: a column, or a list of columns."""
        columns = [list(column) for column in zip(*records, strict=True)]
        return columns if self.vector or len(columns) > 1 else columns[0]

    # What follows from them.

    def neighbours(self, first: Any, second: Any, relation: Relation = REPLACE_ONE) -> bool:
        """Say whether what is seen of two data sets can differ by one record replaced, or added or removed."""
        if relation.hides_n:
            return abs(first.n - second.n) == 1 and self.beside(first.total - second.total)
        if first.n != second.n:
            return False
        if isinstance(first, Statistics):
            return self.apart(first.total - second.total)
        changed = np.zeros(first.n, dtype=bool)
        for name in (f.name for f in fields(first)):
            before, after = np.asarray(getattr(first, name)), np.asarray(getattr(second, name))
            if before.shape[:1] == after.shape[:1] == (first.n,):
                changed |= (before != after).reshape(first.n, -1).any(axis=1)
        return int(changed.sum()) <= 1

    def blocks(self, n: Any) -> tuple[Block, ...]:
        """Return the parts of the total that carry noise of their own scale; one, unless a kind has several."""
        return (Block(self.size, self.movement(n)),)

    def steps(self, statistics: Statistics) -> Integers:
        """Return statistics in whole steps of the grid."""
        grid = self.movement(statistics.n).grid
        return np.asarray(np.rint(self.check(statistics).total / grid).astype(np.int64))

    def from_steps(self, n: int, steps: Integers) -> Floats:
        """Return the totals that go with steps, which may be noisy: post-processing."""
        return np.asarray(steps * self.movement(n).grid)

    def statistics(self, n: int, total: Floats) -> Statistics:
        """Return a total that n records can have as their statistics."""
        return Statistics(n, total)

    def imagined(self, n: int, mean: Any) -> Statistics:
        """Return the statistics of n imagined records with this mean of S(x); nothing private enters."""
        numbers = np.atleast_1d(as_floats("mean", mean, -np.inf))
        fits, wanted = self._fits(numbers)
        if not fits:
            raise InvalidValue(f"mean must be {wanted}. Got {numbers.tolist()}")
        return self.statistics(n, n * numbers)

    def check_whole(self, statistics: Statistics) -> Statistics:
        """Return the statistics if they are whole wherever records are, else raise `InvalidData`.

        A profile covers the data sets that can happen; a fraction of a count is none of them.
        """
        if self.whole and not np.array_equal(statistics.total, np.rint(statistics.total)):
            raise InvalidData("records of this system are whole, so their statistics must be whole numbers too")
        return statistics

    def to_dict(self) -> dict[str, object]:
        """Return the reading as plain values; `from_dict` reads it back."""
        return {"reading": self.word} | {f.name: plain(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def _from_state(cls, state: dict[str, object]) -> Reading:
        return cls(**{name: _tuples(value) for name, value in state.items()})

    @staticmethod
    def from_dict(state: Mapping[str, object]) -> Reading:
        """Read a reading from `to_dict`'s form."""
        remainder = mapping("reading", state)
        kind = READINGS[remainder.pop("reading", None)]
        with restoring("a reading"):
            reading: Reading = kind._from_state(remainder)
        return reading

    def _off(self) -> InvalidData:
        return InvalidData("no records within the bounds have these statistics; read them with the system's own bounds")

    def _checked_total(self, statistics: Statistics) -> tuple[int, Floats]:
        """Return n and the total, of the right size and finite."""
        if not isinstance(statistics, Statistics):
            raise InvalidData("expected the statistics of some records, as `statistics(records)` reads them")
        n, total = checked_n(statistics.n), statistics.total
        if total.shape != (self.size,):
            raise InvalidData(f"these statistics must have {self.size} coordinate(s). Got {total.size}")
        if not np.all(np.isfinite(total)):
            raise self._off()
        return n, total


def checked_n(n: object) -> int:
    """Return the number of records, or raise `InvalidValue`."""
    return whole("n", n)


def checked_size(n: object) -> int | None:
    """Return the number of records, or None where it is a secret, or raise `InvalidValue`."""
    return None if n is None else checked_n(n)


def plain(value: object) -> Any:
    """Return a value of a frozen dataclass for JSON."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [plain(part) for part in value] if isinstance(value, tuple | list) else value


def _tuples(value: object) -> Any:
    return tuple(_tuples(part) for part in value) if isinstance(value, list) else value
