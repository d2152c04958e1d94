"""CSV files as DuckDB sees them: a data set of lines, scanned anew by every query, and a view that cuts them up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.records.tables.columns import truth
from sottovoce.records.tables.delimited import header, line_batches, longest_line
from sottovoce.records.tables.quotes import SEPARATOR

__all__ = ["header", "read_csv"]

KINDS = ("string", "boolean", "int8", "int16", "int32", "int64", "float32", "float64", "date")
"""The types that a column may be given."""

_SCHEMA = pa.schema([("line", pa.string())])


class _Lines(ds.Dataset):  # type: ignore[misc]
    """The lines of some files. DuckDB asks a data set for a scanner each time that it reads it."""

    def __init__(self, paths: Sequence[str], longest: int, opened: Callable[[str], Any] | None = None) -> None:
        self._paths, self._longest, self._opened = tuple(paths), longest, opened

    @property
    def schema(self) -> pa.Schema:
        return _SCHEMA

    def scanner(self, columns: Sequence[str] | None = None, filter: object = None, **_: object) -> _LineScan:
        return _LineScan(lambda: line_batches(self._paths, self._longest, self._opened), columns, filter)


class _LineScan:
    """One pass over the files. DuckDB draws the batches itself: no thread of ours outlives an interrupted query."""

    def __init__(
        self, lines: Callable[[], Iterator[pa.RecordBatch]], columns: Sequence[str] | None, condition: object
    ) -> None:
        self._lines, self._condition = lines, condition
        self._schema = _SCHEMA if columns is None else pa.schema([_SCHEMA.field(name) for name in columns])

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self._schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._lines():
            kept = batch if self._condition is None else batch.filter(self._condition)
            yield kept.select(self._schema.names)


def read_csv(
    connection: Any,
    paths: Sequence[str],
    types: Mapping[str, str],
    person: str | None = None,
    opened: Callable[[str], Any] | None = None,
) -> Any:
    """Return the table of one or several files, every column text but those in `types`.

    A cell that does not fit its type, an empty cell and one that its line lacks are missing, and so is ``NA`` where it
    would say whose a row is: nobody is called that. Cells beyond the names are ignored.
    """
    names = header(paths[0], opened)
    if any(header(path, opened) != names for path in paths[1:]):
        raise InvalidData("the files do not have the same names in their first lines")
    unknown = [name for name in types if name not in names]
    if unknown:
        raise InvalidData(
            f"types= names columns that are not there: {', '.join(unknown)}; there are {', '.join(names)}"
        )
    for kind in types.values():
        if kind not in KINDS:
            raise InvalidValue(f"a type is one of {', '.join(KINDS)}. Got {kind!r}")
    connection.con.register("lines", _Lines(paths, longest_line(names), opened))
    cut = ", ".join(
        f"nullif({_cell(place, name == person)}, '') AS {_quoted(name)}" for place, name in enumerate(names, 1)
    )
    connection.con.execute(f"CREATE TEMP VIEW records AS SELECT {cut} FROM lines")
    text = connection.table("records")
    return text.mutate(*(_typed(text[name], kind).name(name) for name, kind in types.items()))  # one may be "self"


def _cell(place: int, whose: bool) -> str:
    cell = f"string_split(line, chr({SEPARATOR[0]}))[{place}]"
    return f"nullif({cell}, 'NA')" if whose else cell


def _typed(text: Any, kind: str) -> Any:
    return truth(text) if kind == "boolean" else text.try_cast(kind)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
