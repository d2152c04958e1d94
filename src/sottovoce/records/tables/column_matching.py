"""Columns that can be told apart, in one file and in several: refused when they are opened where they cannot.

A number of a later file that the first file's type cannot hold would end a question, after it was charged, by one
record. What is public of a file is its schema, so that is what decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from sottovoce.privacy.errors import InvalidData


def named(names: Iterable[str], where: str) -> None:
    """Raise where a column has no name: engines make one up, each another, or give up."""
    if "" in (listed := list(names)):
        raise InvalidData(f"{where} has no name for column {listed.index('') + 1}; give it one")


def distinct(names: Sequence[str], where: str) -> None:
    """Raise where a column has no name, or two have one: to DuckDB, which renames one, and Spark but for capitals."""
    named(names, where)
    if len({name.lower() for name in names}) < len(names):
        raise InvalidData(f"{where} names a column twice (small and capital letters are the same)")


def agreed(data: Any) -> bool:
    """Say whether every file of a data set has every column; raise where one holds what the data set cannot take."""
    complete = True
    for fragment in data.get_fragments():
        there = fragment.physical_schema
        distinct(there.names, "a file of the table")
        capitals = {name.lower() for name in {*there.names} - {*data.schema.names}}
        differing = []
        for field in data.schema:
            if field.name not in there.names:
                complete = False
                if field.name.lower() in capitals:  # to DuckDB that is the same name, and to Arrow another
                    raise InvalidData(f"column {field.name!r} has other capital letters in some file; write it alike")
            elif not _takes(field.type, kind := there.field(field.name).type):
                differing.append(f"in column {field.name!r}: {field.type} in one, {kind} in another")
        if differing:
            raise InvalidData(
                f"the files do not hold the same {', nor '.join(differing)}; write them all with one type"
            )
    return complete


def is_text(kind: pa.DataType) -> bool:
    """Say whether a type is text, in one of its forms."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _takes(kind: pa.DataType, other: pa.DataType) -> bool:
    """Say whether a type holds whatever another one does, as Arrow and DuckDB both turn them into each other."""
    if kind == other or pa.types.is_null(other) or (is_text(_values(kind)) and is_text(_values(other))):
        return True
    signed = not pa.types.is_unsigned_integer(kind)
    spare = signed and pa.types.is_unsigned_integer(other)
    if pa.types.is_integer(kind) and pa.types.is_integer(other):
        return bool(kind.bit_width >= other.bit_width + spare and (signed or pa.types.is_unsigned_integer(other)))
    if pa.types.is_float64(kind):
        return bool(pa.types.is_floating(other) or (pa.types.is_integer(other) and other.bit_width <= 32))
    return False


def _values(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
