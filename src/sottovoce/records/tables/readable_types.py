"""Types of columns that an engine can read: told from the schema alone, no record is looked at."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from sottovoce.records.tables.column_matching import distinct, is_text

_log = logging.getLogger(__name__)
_PLAIN = {pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.date32()}
_PLAIN |= {pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.timestamp("us")}
"""Types that every DuckDB holds, which none is asked about."""


def readable(connection: object, schema: pa.Schema, *, parquet: bool = False) -> pa.Schema:
    """Return the fields whose types DuckDB can hold: a decimal of 50 digits, for one, it takes for another number."""
    distinct(schema.names, "the table")
    fields = [field for field in schema if _reads(field, parquet)]
    if coarse := [field.name for field in schema if _overflows(field.type, parquet)]:
        _tell_of_moments(tuple(coarse))
    if _PLAIN.issuperset(field.type for field in fields) or _holds(connection, fields):
        return pa.schema(fields)  # as nearly always: to try each alone takes a millisecond a column
    return pa.schema([field for field in fields if _holds(connection, [field])])


@functools.lru_cache(maxsize=256)  # said once: data that grow are opened every night
def _tell_of_moments(names: tuple[str, ...]) -> None:
    _log.warning(
        "not read: %s, moments or durations in milliseconds or seconds, which an engine could fail to convert; write "
        "days, or microseconds",
        ", ".join(map(repr, names)),
    )


def _reads(field: pa.Field, parquet: bool) -> bool:
    leaves = list(_leaves(field.type))
    if any(_overflows(leaf, parquet) for leaf in leaves):
        return False  # turned into microseconds, a moment of the year 300,000 ends the query
    # Nested text is read by DuckDB, which gives up at the first that is not UTF-8.
    return not (parquet and pa.types.is_nested(field.type) and any(is_text(leaf) for leaf in leaves))


def _holds(connection: Any, fields: Sequence[pa.Field]) -> bool:
    try:
        connection.con.register("probe", pa.schema(fields).empty_table())
        connection.con.unregister("probe")
    except Exception:  # a type of such a field's kind is not known; no record is looked at
        return False
    return True


def _leaves(kind: pa.DataType) -> Iterator[pa.DataType]:
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        yield from _leaves(kind.value_type)
    elif pa.types.is_nested(kind):
        for place in range(kind.num_fields):
            yield from _leaves(kind.field(place).type)
    else:
        yield kind


def overflows(schema: pa.Schema) -> bool:
    """Say whether a Parquet file has a column of moments that overflow where they are read as microseconds."""
    return any(_overflows(leaf, True) for field in schema for leaf in _leaves(field.type))


def _overflows(kind: pa.DataType, parquet: bool) -> bool:
    coarse = (pa.types.is_timestamp(kind) or pa.types.is_duration(kind)) and kind.unit in ("s", "ms")
    return coarse and (parquet or pa.types.is_duration(kind) or kind.tz is not None)


def coded_texts(field: pa.Field) -> pa.Field:
    """Return a column of texts by their places; those of another file may be more than the first file's places hold."""
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if not is_text(kind) or pa.types.is_large_string(field.type):
        return field
    texts = pa.large_string() if pa.types.is_large_string(kind) else pa.string()
    return field.with_type(pa.dictionary(pa.int32(), texts))
