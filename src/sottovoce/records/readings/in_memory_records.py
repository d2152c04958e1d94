"""Records in memory that may be looked at several times, and their columns as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce.privacy.errors import InvalidData
from sottovoce.privacy.numbers import Floats
from sottovoce.records.facts.columns import Category, Column, Flag, Number
from sottovoce.records.readings.base import ReadableRecords, Statistics
from sottovoce.records.readings.columns import as_codes, as_numbers


@dataclass(frozen=True, eq=False)
class HeldRecords(ReadableRecords):
    """Records in memory, one list a column, that may be looked at again."""

    columns: tuple[Any, ...]

    @staticmethod
    def named(records: Any, names: Sequence[str]) -> HeldRecords:
        """Return the columns of these names, or raise `InvalidData`.

        >>> HeldRecords.named({"age": [1, 2]}, ["sbp"])
        Traceback (most recent call last):
        sottovoce.privacy.errors.InvalidData: what is asked here reads the columns sbp
        """
        try:
            return HeldRecords(tuple(records[name] for name in names))
        except (KeyError, TypeError, IndexError, ValueError):
            raise InvalidData(f"what is asked here reads the columns {', '.join(names)}") from None

    @property
    def n(self) -> int:
        """The number of records."""
        return len(self.columns[0])

    def look(self, reading: Any) -> Any:
        """Return what a reading makes of them."""
        return reading.read(list(self.columns))


@dataclass(frozen=True, eq=False)
class RecordsOfN(ReadableRecords):
    """Records of which there must be n, unless that is a secret."""

    records: ReadableRecords
    n: int | None

    def look(self, reading: Any) -> Statistics:
        """Return what a reading makes of them."""
        seen = self.records.look(reading)
        if not isinstance(seen, Statistics) or (self.n is not None and seen.n != self.n):
            raise InvalidData(f"this mechanism is for n={self.n} records; build one for your n. Got {seen.n}")
        return seen


def held(records: Any) -> Any:
    """Return the records themselves where somebody holds them for a mechanism."""
    inner = getattr(records, "records", None)
    return inner if isinstance(inner, HeldRecords) else records


def one_more(longer: HeldRecords, shorter: HeldRecords) -> bool:
    """Say whether the first data set is the second with one record before it."""
    rows = [[repr(row) for row in zip(*held.columns, strict=True)] for held in (longer, shorter)]
    return rows[0][1:] == rows[1]


def as_columns(columns: Sequence[Column], records: Any) -> list[Floats]:
    """Return records, one list a column, as numbers, categories as their places; or raise `InvalidData`."""
    wanted = len(columns)
    if isinstance(records, Mapping) or not hasattr(records, "__len__") or len(records) != wanted:
        raise InvalidData(f"this reading takes a list of {wanted} columns, in order")
    values = [_numbers(column, given) for column, given in zip(columns, records, strict=True)]
    if len({len(column) for column in values}) > 1:
        raise InvalidData("every column must have one value a record; these have different lengths")
    return values


def _numbers(column: Column, given: object) -> Floats:
    if isinstance(column, Category):
        return as_codes(given, column.categories, -1).astype(np.float64)
    return as_numbers(given)


def typical_values(column: Any) -> tuple[object, ...]:
    """Return the ends, the middle and beyond of a column, and a missing value."""
    if isinstance(column, Category):
        return (*column.categories, None)
    if isinstance(column, Flag):
        return (False, True, None)
    low, high = getattr(column, "low", 0), column.high
    return (low, high, (low + high) / 2, 3 * high + 1, None) if isinstance(column, Number) else (0, high, 1, None)
