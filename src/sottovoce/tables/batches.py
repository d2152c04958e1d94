"""Counts by texts of Parquet files, batch by batch as Arrow reads them.

DuckDB gives up at the first text that is not UTF-8, and Arrow does not. Arrow keeps a column's different texts apart
from where they stand: each text is looked up once a batch, and what is left to count are whole numbers.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sottovoce.readings import CategoryCounts, CellCounts, ClassMoments, CrossCounts, GroupMoments, Reading, Statistics
from sottovoce.tables.plans import Plan

__all__ = ["counted"]

_WHOLE = (pa.types.is_signed_integer, pa.types.is_uint8, pa.types.is_uint16, pa.types.is_uint32, pa.types.is_boolean)


def counted(dataset: Any, reading: Reading, names: Sequence[str]) -> Plan | None:
    """Return the plan that goes through the batches of a data set; None for readings and columns of other kinds."""
    kinds = _kinds(reading)
    if kinds is None or not all(
        _fits(dataset.schema.field(name).type, k) for name, k in zip(names, kinds, strict=True)
    ):
        return None

    def decode(batches: Iterator[Any]) -> Statistics:
        n, total = 0, np.zeros(reading.size)
        for batch in batches:
            columns = [_column(batch.column(name), kind) for name, kind in zip(names, kinds, strict=True)]
            seen = reading.read(columns[0] if isinstance(reading, CategoryCounts) else columns)
            n, total = n + seen.n, total + seen.total
        return Statistics(n, total)

    return Plan(lambda: dataset.scanner(columns=list(dict.fromkeys(names))).to_batches(), decode, stream=True)


def _kinds(reading: Reading) -> list[tuple[Hashable, ...] | None] | None:
    """Return the categories of each column of a reading, None for numbers; None where sums need more than that."""
    match reading:
        case CategoryCounts():
            return [reading.categories]
        case CrossCounts():
            return list(reading.columns)
        case CellCounts():
            return [None if number else marks for number, marks in zip(reading.numeric, reading.marks, strict=True)]
        case GroupMoments():
            return [*reading.groups, *[None] * len(reading.fillers)] if reading.counted else None
        case ClassMoments():
            return [reading.classes, *reading.categories, *[None] * len(reading.bounds)]
    return None


def _fits(kind: Any, categories: tuple[Hashable, ...] | None) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    whole = any(is_kind(kind) for is_kind in _WHOLE)
    if categories is None:
        return whole or pa.types.is_float32(kind) or pa.types.is_float64(kind)
    if pa.types.is_string(kind):
        return all(isinstance(category, str) for category in categories)
    return whole and all(isinstance(category, int) and abs(category) < 2**53 for category in categories)


@dataclass(frozen=True)
class _Coded:
    """A column of categories by their places, as pandas has them: -1 for what is none of them."""

    categories: tuple[Hashable, ...]
    codes: Any

    def __len__(self) -> int:
        return len(self.codes)


def _column(column: Any, categories: tuple[Hashable, ...] | None) -> Any:
    if categories is None:
        return column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if not pa.types.is_dictionary(column.type):
        whole = column if pa.types.is_string(column.type) else column.cast(pa.int64())
        return _Coded(categories, _places(whole, categories))
    places = np.append(_places(column.dictionary, categories), -1)
    return _Coded(categories, places[column.indices.fill_null(-1).to_numpy(zero_copy_only=False)])


def _places(values: Any, categories: tuple[Hashable, ...]) -> Any:
    known = pa.array([c if isinstance(c, str) else int(c) for c in categories], values.type)  # type: ignore[call-overload]
    found = pc.index_in(values, value_set=known)
    return found.fill_null(-1).to_numpy(zero_copy_only=False)
