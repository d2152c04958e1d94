"""Frames of any library as Arrow tables; of pandas, columns of objects are text of no type."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sottovoce.records.readings.persons import shortest
from sottovoce.records.tables.column_matching import distinct

_WIDEST = 2.0**62
"""Doubles up to here say whose a row is, where they are whole."""


@dataclass(frozen=True)
class Frame:
    """A frame in Arrow's columns.

    Attributes
    ----------
    data
        The table, or what reads like one.
    untyped
        The columns of objects: text of no type, for Arrow would work a type out from their values.
    persons
        Of those that are not all texts, the column as it says whose a row is: True is 1 and 1.5 is nobody, as among
        numbers.
    """

    data: Any
    untyped: frozenset[str] = frozenset()
    persons: Mapping[str, pa.Array] = field(default_factory=dict)

    def of(self, person: str) -> Any:
        """Return the table in which a column says whose a row is."""
        if person not in self.persons:
            return self.data
        return self.data.set_column(self.data.schema.get_field_index(person), person, self.persons[person])


_TO_PANDAS = {
    "cudf": lambda frame: frame.to_pandas(),
    "dask": lambda frame: frame.compute(),
    "dask_expr": lambda frame: frame.compute(),
    "modin": lambda frame: frame.modin.to_pandas(),
}
"""Libraries whose frames are pandas' in all but name, columns of objects among them: read as pandas' are."""


def frame_of(source: Any) -> Frame | None:
    """Return what a frame or a stream holds, read once; None of what is neither.

    Lazy frames are computed and streams read to their end, here and not again.
    """
    package = type(source).__module__.partition(".")[0]
    if package == "narwhals":
        return frame_of(source.to_native())
    if package in _TO_PANDAS and hasattr(source, "columns"):
        source, package = _TO_PANDAS[package](source), "pandas"
    if package == "pandas" and hasattr(source, "columns"):
        return from_pandas(source)
    if package == "polars" and type(source).__name__ == "LazyFrame":
        source = source.collect()
    if package == "polars" and type(source).__name__ == "DataFrame":
        return Frame(source.to_arrow())
    if isinstance(source, pa.Table) or type(source).__module__ == "pyarrow._dataset":
        return Frame(source)
    if isinstance(source, pa.RecordBatch):
        return Frame(pa.Table.from_batches([source]))
    return Frame(_streamed(source)) if hasattr(source, "__arrow_c_stream__") else None


def _streamed(source: object) -> pa.Table:
    """Return a stream of records as a table, its texts in the one form that every engine reads."""
    return plain_texts(pa.RecordBatchReader.from_stream(source).read_all())


def plain_texts(table: pa.Table) -> pa.Table:
    """Return a table whose texts are in the one form that every engine reads."""
    return table.cast(pa.schema([field.with_type(_plain(field.type)) for field in table.schema]))


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _plain(kind.value_type), kind.ordered)
    return pa.large_string() if pa.types.is_string_view(kind) else kind


def from_pandas(frame: Any) -> Frame:
    """Convert a frame."""
    loose = [place for place, kind in enumerate(frame.dtypes) if _of_objects(kind)]
    texts = [place for place, kind in enumerate(frame.dtypes) if kind.name == "string"]
    names = [str(name) for name in frame.columns]
    arrays = [
        _text(frame.iloc[:, place]) if place in {*loose, *texts} else _typed(frame.iloc[:, place])
        for place in range(len(names))
    ]
    distinct(names, "the frame")
    persons = {names[place]: _text(_numbered(frame.iloc[:, place])) for place in loose if _mixed(frame.iloc[:, place])}
    return Frame(pa.table(dict(zip(names, arrays, strict=True))), frozenset(names[p] for p in loose), persons)


def _of_objects(kind: Any) -> bool:
    """Say whether a column, or its categories, hold objects; pandas calls objects that are all texts ``str``."""
    if kind.name == "category":
        return getattr(kind.categories.dtype, "kind", None) == "O"
    return kind.name in ("object", "str") or kind.kind == "c"


def _typed(values: object) -> pa.Array:
    """Return cells of a type of their own, moments in microseconds and UTC: in what unit pandas holds them follows from
    the records, and so does whether there is a zone.
    """
    cells = pa.array(values, from_pandas=True)
    if not pa.types.is_timestamp(cells.type):
        return cells
    counts = cells.cast(pa.int64())
    if cells.type.unit == "ns":
        held = np.floor_divide(counts.fill_null(0).to_numpy(), 1000)
        return pa.array(held, pa.int64(), mask=cells.is_null().to_numpy(False)).cast(pa.timestamp("us"))
    per = {"s": 10**6, "ms": 10**3, "us": 1}[cells.type.unit]
    most = (2**63 - 1) // per  # a moment beyond is the last one there is
    held = pc.min_element_wise(pc.max_element_wise(counts, -most, skip_nulls=False), most, skip_nulls=False)
    return pc.multiply(held, per).cast(pa.timestamp("us"))


def _mixed(values: object) -> bool:
    from pandas.api.types import infer_dtype  # noqa: PLC0415 - there are frames, so pandas is there

    return infer_dtype(values, skipna=True) != "string"


def _numbered(values: Any) -> Any:
    return type(values)([_identifier(value) for value in values.astype(object)], dtype=object)


def _identifier(value: object) -> Any:
    """Return a cell as it would say among numbers whose a row is; among doubles only whole ones of 62 bits do."""
    if isinstance(value, bool | np.bool_):
        return int(value)
    if isinstance(value, float | np.floating):
        number = float(value)
        return value if abs(number) <= _WIDEST and number == math.floor(number) else None
    return value


def _text(values: Any) -> pa.Array:
    """Return cells as texts."""
    values = values.astype(object)
    try:
        return pa.array(values, pa.string(), from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.array([_word(value) for value in values], pa.string())


def _word(value: object) -> str | None:
    """Return a cell as text, and what Arrow takes for text as Arrow does: one cell must not change how others read."""
    try:
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value).decode("utf-8", "replace")
        if isinstance(value, str):
            word = str.__str__(value)
        elif isinstance(value, datetime.datetime) and value.tzinfo is not None and value == value:  # noqa: PLR0124
            word = str(value.astimezone(datetime.UTC).replace(tzinfo=None))
        elif isinstance(value, complex) and value.imag == 0:
            return _word(value.real)
        elif value is None or value != value:  # noqa: PLR0124 - NaN is not itself
            return None
        elif isinstance(value, Real) and not isinstance(value, Integral) and float(value).is_integer():
            word = str(int(float(value)))  # pandas reads a long file in parts, where 7 may be 7.0
        elif isinstance(value, Decimal):  # a database may tell 7 and 7.00 of one column
            word = shortest(value)
        else:
            word = str(value)
        return word.encode("utf-8", "surrogatepass").decode("utf-8", "replace")  # "?" may be a category
    except Exception:  # an object that cannot even be compared or written is a missing value
        return None
