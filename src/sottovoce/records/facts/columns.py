"""What a column may hold: categories, numbers between bounds, counts, yes and no, days, and whose the record is."""

from __future__ import annotations

import datetime
import math
from abc import ABC
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import mapping
from sottovoce.privacy.numbers import real


@dataclass(frozen=True)
class Column(ABC):
    """What is public of one column; use one of its kinds.

    A value that is missing, or none that the kind allows, counts as missing. Where `missing` is given, it counts
    as that value instead.
    """

    word: ClassVar[str]
    type: ClassVar[str]
    """The type in which an untyped file's column is read."""

    def columns(self, name: str) -> tuple[str, ...]:
        """Return the columns of the table that go by this name: one, unless it is a vector."""
        return (name,)

    def to_dict(self) -> dict[str, object]:
        """Return the column as plain values; `from_dict` reads it back."""
        given = {f.name: _plain(getattr(self, f.name)) for f in fields(self)}
        return {"kind": self.word} | {name: value for name, value in given.items() if value is not None}

    @staticmethod
    def from_dict(state: Mapping[str, object]) -> Column:
        """Read a column from `to_dict`'s form."""
        numbers = mapping("column", state)
        word = numbers.pop("kind", None)
        if word is None:
            raise InvalidValue(f"say its kind, one of {', '.join(KINDS)}")
        if not isinstance(word, str) or word not in KINDS:
            raise InvalidValue(f"no column is of the kind {word!r}; known: {', '.join(KINDS)}")
        wanted = {f.name for f in fields(KINDS[word])}
        if unknown := set(numbers) - wanted:
            known = f"takes {', '.join(sorted(wanted))}" if wanted else "takes nothing"
            raise InvalidValue(f"a {word} {known}. Got {', '.join(sorted(unknown))}")
        try:
            return KINDS[word](**numbers)
        except TypeError:
            least = ", ".join(f.name for f in fields(KINDS[word]) if f.name != "missing")
            raise InvalidValue(f"a {word} needs {least}. Got {', '.join(sorted(numbers)) or 'nothing'}") from None


@dataclass(frozen=True)
class Category(Column):
    """One of a public list of values.

    >>> Category(["A", "B", "C"]).categories
    ('A', 'B', 'C')
    """

    word: ClassVar[str] = "category"
    type: ClassVar[str] = "string"
    categories: tuple[Hashable, ...]
    missing: Hashable | None = None

    def __post_init__(self) -> None:
        given: object = self.categories
        if isinstance(given, str | bytes) or not hasattr(given, "__iter__"):
            raise InvalidValue("categories must be a list of values. Got one value")
        try:
            values = tuple(value.item() if isinstance(value, np.generic) else value for value in given)
            different = len(set(values))
        except TypeError:
            raise InvalidValue("categories must be a list of texts or numbers") from None
        if not values or different < len(values) or not all(isinstance(v, str | int | float) for v in values):
            raise InvalidValue("categories must be different texts or numbers, at least one")
        object.__setattr__(self, "categories", values)
        if self.missing is not None and self.missing not in values:
            raise InvalidValue(f"missing must be one of the categories. Got {self.missing!r}")


@dataclass(frozen=True)
class Number(Column):
    """A number; what lies outside of [low, high] is cut to it.

    >>> Number(60, 250)
    Number(low=60.0, high=250.0, missing=None)
    """

    word: ClassVar[str] = "number"
    type: ClassVar[str] = "float64"
    low: float
    high: float
    missing: float | None = None

    def __post_init__(self) -> None:
        low, high = real("low", self.low, -math.inf), real("high", self.high, -math.inf)
        if not low < high or not math.isfinite(high - low):
            raise InvalidValue(f"low must be below high, and both finite. Got {low:g} and {high:g}")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        if self.missing is not None:
            missing = real("missing", self.missing, -math.inf)
            if not low <= missing <= high:
                raise InvalidValue(f"missing must lie between low and high. Got {missing:g}")
            object.__setattr__(self, "missing", missing)

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the most that it may be."""
        return self.low, self.high


@dataclass(frozen=True)
class Count(Column):
    """A whole number from 0 to `high`; what lies above is cut to it.

    >>> Count(20).high
    20
    """

    word: ClassVar[str] = "count"
    type: ClassVar[str] = "int64"
    high: int
    missing: int | None = None

    def __post_init__(self) -> None:
        high = real("high", self.high, -math.inf)
        if high < 1 or not high.is_integer() or high > 2**53:
            raise InvalidValue(f"high must be a whole number from 1 to 2^53. Got {self.high!r}")
        object.__setattr__(self, "high", int(high))
        if self.missing is not None:
            missing = real("missing", self.missing, -math.inf)
            if not missing.is_integer() or not 0 <= missing <= high:
                raise InvalidValue(f"missing must be a whole number from 0 to {int(high)}. Got {self.missing!r}")
            object.__setattr__(self, "missing", int(missing))

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the most that it may be."""
        return 0.0, float(self.high)


@dataclass(frozen=True)
class Flag(Column):
    """Yes or no."""

    word: ClassVar[str] = "flag"
    type: ClassVar[str] = "boolean"
    missing: bool | None = None

    def __post_init__(self) -> None:
        if not (self.missing is None or isinstance(self.missing, bool)):
            raise InvalidValue(f"missing must be true or false. Got {self.missing!r}")


@dataclass(frozen=True)
class Day(Column):
    """A date from `first` to `last`; what lies outside is cut to them.

    >>> Day("2024-01-01", "2024-12-31").first
    datetime.date(2024, 1, 1)
    """

    word: ClassVar[str] = "day"
    type: ClassVar[str] = "date"
    first: datetime.date
    last: datetime.date
    missing: datetime.date | None = None

    def __post_init__(self) -> None:
        for name in ("first", "last", "missing"):
            if name != "missing" or self.missing is not None:
                object.__setattr__(self, name, _day(name, getattr(self, name)))
        if not self.first < self.last:
            raise InvalidValue(f"first must come before last. Got {self.first} and {self.last}")
        if self.missing is not None and not self.first <= self.missing <= self.last:
            raise InvalidValue(f"missing must lie between first and last. Got {self.missing}")


@dataclass(frozen=True)
class Person(Column):
    """Whose row it is: an identifier that is never shown. A table has at most one such column.

    With it a promise protects a person, all rows of theirs together, and n is the number of persons. Rows without an
    identifier belong to nobody and are left out, and so are those of ``NA`` in a CSV file; elsewhere ``NA`` is an
    identifier like any other, so write it as missing.

    Parameters
    ----------
    rows
        None: a person counts as one record, the average of theirs. Or k: at most so many rows of a person count, each
        as a record, chosen by a hash of what they hold, never by where they are stored.
    key
        What the hash is keyed with; another key chooses other rows.
    home
        Whether all rows of a person lie in one period, which is public, such as the year of their enrolment. Where each
        period has a budget of its own, a person is then protected with all of their rows, whatever is asked.

    Examples
    --------
    >>> Person(rows=3)
    Person(rows=3, key='', home=False)
    """

    word: ClassVar[str] = "person"
    type: ClassVar[str] = "string"
    rows: int | None = None
    key: str = ""
    home: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.home, bool):
            raise InvalidValue(f"home is True where all rows of a person lie in one period. Got {self.home!r}")
        if self.rows is not None:
            rows = self.rows
            if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= 2**20:
                raise InvalidValue(f"rows must be a whole number from 1 to {2**20}. Got {rows!r}")
        if not isinstance(self.key, str) or not self.key.isprintable():
            raise InvalidValue("key must be a text of printable characters")

    def to_dict(self) -> dict[str, object]:
        """Return the column as plain values, without what is as usual."""
        return {name: value for name, value in super().to_dict().items() if value not in ("", False)}


@dataclass(frozen=True)
class Vector(Column):
    """Several columns of numbers as one; what lies outside of the ball is drawn back to its edge.

    >>> Vector(of=["dx", "dy"], radius=2.0).columns("step")
    ('dx', 'dy')
    """

    word: ClassVar[str] = "vector"
    type: ClassVar[str] = "float64"
    of: tuple[str, ...]
    radius: float

    def __post_init__(self) -> None:
        names = tuple(self.of) if isinstance(self.of, list | tuple) else ()
        if not names or len(set(names)) < len(names) or not all(isinstance(name, str) and name for name in names):
            raise InvalidValue(f"of must be a list of different columns. Got {self.of!r}")
        radius = real("radius", self.radius)
        if radius <= 0:
            raise InvalidValue(f"radius must be > 0. Got {radius:g}")
        object.__setattr__(self, "of", names)
        object.__setattr__(self, "radius", radius)

    def columns(self, name: str) -> tuple[str, ...]:
        """Return the columns of the vector."""
        del name
        return self.of


@dataclass(frozen=True)
class Derived(Column):
    """A column that is made of others of the same record, by a function of which everybody knows the range.

    `Facts` say of it what they say of any column, a number between bounds or a category, from the facts of the others.

    >>> Derived("log(1 + cost)").of
    'log(1 + cost)'
    """

    word: ClassVar[str] = "derived"
    type: ClassVar[str] = ""
    of: str
    missing: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.of, str) or not self.of.strip():
            raise InvalidValue(f"of says what the column is made of, such as 'log(cost)'. Got {self.of!r}")

    def columns(self, name: str) -> tuple[str, ...]:
        """Return no column: the table need not have it."""
        del name
        return ()


KINDS: dict[str, type[Column]] = {
    kind.word: kind for kind in (Category, Number, Count, Flag, Day, Vector, Person, Derived)
}
"""Every kind of column by its word."""


def _day(name: str, value: Any) -> datetime.date:
    if isinstance(value, datetime.datetime):
        return value.date()
    if isinstance(value, datetime.date):
        return value
    try:
        return datetime.date.fromisoformat(value)
    except (TypeError, ValueError):
        raise InvalidValue(f"{name} must be a date such as 2024-01-31. Got {value!r}") from None


def _plain(value: object) -> Any:
    if isinstance(value, datetime.date):
        return value.isoformat()
    return list(value) if isinstance(value, tuple) else value
