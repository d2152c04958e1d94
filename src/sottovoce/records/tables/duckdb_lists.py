"""Columns of texts by their places in a list, as DuckDB can read them: it falls over a list of no texts.

Arrow makes such a list wherever a part of a file holds nothing but missing texts, and no record may end a question.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds


class Listed(ds.Dataset):  # type: ignore[misc]
    """A data set with one missing text in every list that has none: nothing points to it."""

    def __init__(self, data: Any) -> None:
        self._data = data if isinstance(data, ds.Dataset) else ds.dataset(data)

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._data.schema

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **_: Any) -> _Scan:
        """Return one pass over some columns of the records for which a condition holds, as DuckDB asks for it."""
        return _Scan(self._data.scanner(columns=columns, filter=filter))


class _Scan:
    """One pass over the data."""

    def __init__(self, scanner: Any) -> None:
        self._scanner = scanner

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self._scanner.projected_schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._scanner.to_batches():
            yield pa.RecordBatch.from_arrays([_filled(column) for column in batch.columns], schema=batch.schema)


def _filled(column: Any) -> Any:
    if not pa.types.is_dictionary(column.type) or len(column.dictionary):
        return column
    nothing = pa.nulls(1, column.type.value_type)
    return pa.DictionaryArray.from_arrays(column.indices, nothing, ordered=column.type.ordered)
