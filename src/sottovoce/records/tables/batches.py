"""Counts by texts of Parquet files, batch by batch as Arrow reads them.

DuckDB gives up at the first text that is not UTF-8, and Arrow does not. Arrow keeps a column's different texts apart
from where they stand: each text is looked up once a batch, and what is left to count are whole numbers. Where there are
few combinations of categories these are counted, and what a record of each adds is worked out once, before any is read.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sottovoce.records.readings import (
    CategoryCounts,
    CellCounts,
    ClassMoments,
    CrossCounts,
    GroupMoments,
    Reading,
    Statistics,
)
from sottovoce.records.readings.bands import Bands
from sottovoce.records.tables.query_plans import QueryPlan

_FEW = 256
"""So many combinations of categories are counted each on its own."""
_PASSES = 8
"""So few categories are counted faster one after the other than all in one pass."""
_SMALL = 255
"""So many different texts are told apart by one byte each, which is compared fastest."""
_RECORDS = 1 << 20
"""Records of a batch at the most: those of most row groups, whose texts are then looked up once."""
_NEAR = 1 << 15
"""Records that are worked on at once."""
_WHOLE = (pa.types.is_signed_integer, pa.types.is_uint8, pa.types.is_uint16, pa.types.is_uint32, pa.types.is_boolean)


def counted(dataset: Any, reading: Reading, names: Sequence[str]) -> QueryPlan | None:
    """Return the plan that goes through the batches of a data set; None for readings and columns of other kinds."""
    kinds = _kinds(reading)
    if kinds is None or not all(
        _fits(dataset.schema.field(name).type, k) for name, k in zip(names, kinds, strict=True)
    ):
        return None

    lists = [kind for kind in kinds if kind is not None]
    few = len(lists) == len(kinds) and math.prod(len(categories) + 1 for categories in lists) <= _FEW

    def decode(batches: Iterator[object]) -> Statistics:
        n, total = 0, np.zeros(reading.size)
        for batch in (subset for full in batches for subset in _slices(full)):
            columns = [_column(batch.column(name), kind) for name, kind in zip(names, kinds, strict=True)]
            seen = reading.read(columns[0] if isinstance(reading, CategoryCounts) else columns)
            n, total = n + seen.n, total + seen.total
        return Statistics(n, total)

    read = _by_combination(reading, names, lists) if few else decode
    return QueryPlan(lambda: _batches(dataset, list(dict.fromkeys(names))), read, stream=True)


def _batches(dataset: Any, names: list[str]) -> Iterator[object]:
    """Yield these columns, file by file where they are as they lie there: Arrow is then sooner than by its data set."""
    kinds = {name: dataset.schema.field(name).type for name in names}
    coded = [name for name, kind in kinds.items() if pa.types.is_dictionary(kind)]
    for fragment in dataset.get_fragments():
        there = fragment.physical_schema
        if any(name not in there.names or there.field(name).type != kind for name, kind in kinds.items()):
            yield from fragment.to_batches(dataset.schema, columns=names)
            continue
        with fragment.open() as opened:
            file = pq.ParquetFile(opened, read_dictionary=coded, pre_buffer=False)
            yield from file.iter_batches(_RECORDS, columns=names, use_threads=False)


def _slices(batch: Any) -> Iterator[Any]:
    """Yield a batch in parts that stay in the processor's nearer memory while they are worked on."""
    for start in range(0, batch.num_rows, _NEAR):
        yield batch.slice(start, _NEAR)


def _by_combination(reading: Reading, names: Sequence[str], lists: Sequence[tuple[Hashable, ...]]) -> Any:
    """Return what makes statistics of batches: each combination counted, times what a record of it adds."""
    shape = tuple(len(categories) + 1 for categories in lists)  # what is no category comes last

    def adds(places: tuple[int, ...]) -> Any:
        codes = [np.array([-1 if place == len(c) else place]) for place, c in zip(places, lists, strict=True)]
        columns = [_Coded(*each) for each in zip(lists, codes, strict=True)]
        return reading.read(columns[0] if isinstance(reading, CategoryCounts) else columns).total

    added = np.array([adds(places) for places in itertools.product(*map(range, shape))])

    def decode(batches: Iterator[Any]) -> Statistics:
        counts = np.zeros(math.prod(shape), dtype=np.int64)
        for batch in batches:
            columns = [batch.column(name) for name in names]
            if len(columns) == 1 and pa.types.is_dictionary(columns[0].type):
                counts += _tally(columns[0], lists[0])
                continue
            codes = [_column(*each).codes for each in zip(columns, lists, strict=True)]
            cells = np.ravel_multi_index([np.where(c < 0, k - 1, c) for c, k in zip(codes, shape, strict=True)], shape)
            counts += np.bincount(cells, minlength=counts.size)
        return Statistics(int(counts.sum()), counts @ added)

    return decode


def _tally(column: Any, categories: tuple[Hashable, ...]) -> Any:
    """Return how many records have each category, those of none last."""
    texts, size = column.dictionary, len(categories)
    places, stand = _places(texts, categories), _indices(column, len(texts))
    if size > _PASSES:
        counts = np.zeros(size + 1, dtype=np.int64)
        np.add.at(counts, np.append(places, -1), np.bincount(stand, minlength=len(texts) + 1))
        return counts
    stand, result = stand.astype(np.uint8) if len(texts) < _SMALL else stand, [0] * size
    for at in np.flatnonzero(places >= 0).tolist():
        result[places[at]] += np.count_nonzero(stand == at)
    return np.array([*result, len(stand) - sum(result)])


def _indices(column: Any, missing: int) -> Any:
    """Return where each text stands among the different ones."""
    indices = column.indices
    return (indices.fill_null(missing) if indices.null_count else indices).to_numpy(zero_copy_only=False)


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
            groups = [None if isinstance(kind, Bands) else kind for kind in reading.groups]
            return [*groups, *[None] * len(reading.fillers)] if reading.counted else None
        case ClassMoments():
            return [reading.classes, *reading.categories, *[None] * len(reading.bounds)]
    return None


def _fits(kind: Any, categories: tuple[Hashable, ...] | None) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    full = any(is_kind(kind) for is_kind in _WHOLE)
    if categories is None:
        return full or pa.types.is_float32(kind) or pa.types.is_float64(kind)
    if pa.types.is_string(kind):
        return all(isinstance(category, str) for category in categories)
    return full and all(isinstance(category, int) and abs(category) < 2**53 for category in categories)


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
        full = column if pa.types.is_string(column.type) else column.cast(pa.int64())
        return _Coded(categories, _places(full, categories))
    places = np.append(_places(column.dictionary, categories), -1)
    return _Coded(categories, places.take(_indices(column, len(places) - 1), mode="clip"))


def _places(values: Any, categories: tuple[Hashable, ...]) -> Any:
    result = pc.index_in(values, value_set=_known(categories, values.type))
    return result.fill_null(-1).to_numpy(zero_copy_only=False)


@lru_cache
def _known(categories: tuple[Hashable, ...], kind: object) -> Any:
    return pa.array([c if isinstance(c, str) else int(c) for c in categories], kind)  # type: ignore[call-overload]
