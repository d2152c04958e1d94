"""Files of a table by their format: CSV, Parquet and Arrow, read as DuckDB reads them best."""

from __future__ import annotations

import glob
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sottovoce.privacy.errors import InvalidData
from sottovoce.records.facts import Facts
from sottovoce.records.tables.column_matching import agreed, distinct
from sottovoce.records.tables.folders import NamedFiles
from sottovoce.records.tables.readable_types import coded_texts, overflows, readable


@dataclass(frozen=True)
class Found:
    """A table's records; the same records read another way where a question looks at text; its columns of no type;
    whether the number of records is known without reading them; and the data set that the texts are read from.
    """

    records: Any
    texts: Any = None
    untyped: frozenset[str] = frozenset()
    counted: bool = False
    batches: Any = None


def csv_records(
    connection: Any,
    files: Sequence[str],
    types: Mapping[str, str],
    facts: Facts | None,
    opened: Callable[[str], Any] | None = None,
) -> Found:
    """Read files of text, in the types that are given or that the facts say."""
    from sottovoce.records.tables.text_files import header, read_csv  # noqa: PLC0415 - it brings pandas and 45 MB along

    names, said = header(files[0], opened), {} if facts is None else facts.types
    # Text stays untyped: its categories may be numbers. A column that is gone has no type.
    types = {name: word for name, word in said.items() if word != "string" and name in names} | dict(types)
    records = read_csv(connection, files, types, None if facts is None else facts.person, opened)
    return Found(records, untyped=frozenset(records.columns).difference(types))


def partitioned(paths: NamedFiles, schema: pa.Schema, kind: Any, filesystem: Any = None) -> Any:
    """Return a data set of files in folders that say what a column holds: as text, whatever it is that they say.

    A type read off the folders' names would be a type read off the records.
    """
    import pyarrow.dataset as ds  # noqa: PLC0415 - it brings pandas and 45 MB along

    keys = [pa.field(key, pa.string()) for key in paths.keys]
    distinct([*schema.names, *paths.keys], "the table, with the columns that its folders name,")
    ways: dict[str, object] = {
        "partitioning": ds.partitioning(pa.schema(keys), flavor="hive"),
        "partition_base_dir": str(paths.root),
    }
    ways["filesystem"] = filesystem
    return ds.dataset(list(paths.files), schema=pa.schema([*schema, *keys]), format=kind, **ways)


def parquet_records(connection: Any, paths: NamedFiles) -> Found:
    """Read numbers with DuckDB, and text with Arrow: DuckDB gives up at the first text that is not UTF-8."""
    import pyarrow.dataset as ds  # noqa: PLC0415 - it brings pandas and 45 MB along
    import pyarrow.parquet as pq  # noqa: PLC0415

    files = paths.files
    schema = pq.read_schema(files[0])
    known = readable(connection, schema, parquet=True)
    complete = len(files) == 1 or agreed(ds.dataset(list(files), schema=known, format="parquet"))
    if paths.keys:
        listed = pa.schema([coded_texts(field) for field in known])
        return Found(registered(connection, partitioned(paths, listed, "parquet")), untyped=frozenset(paths.keys))
    if overflows(schema):
        # DuckDB looks at the least and the largest of every column, and ends the query where one is such a moment.
        return Found(registered(connection, ds.dataset(list(files), schema=known, format="parquet")))
    # A column that a file lacks is missing in all of its records, and folders say nothing here (see above).
    every = [glob.escape(file) for file in files]
    ways = {"union_by_name": not complete, "hive_partitioning": False}
    records = connection.read_parquet(every, table_name="numbers", **ways)
    if records.columns != tuple(known.names):
        records = records.select(known.names)
    texts = [name for name, kind in records.schema().items() if kind.is_string()]
    if not texts:
        return Found(records, counted=True)
    # Each different text once, and where it stands: so it lies in most files, and so it is compared fastest.
    coded = pa.schema([coded_texts(field) if field.name in texts else field for field in known])
    # A local file need not be fetched ahead in large pieces.
    how = ds.ParquetFileFormat(
        dictionary_columns=texts, default_fragment_scan_options=ds.ParquetFragmentScanOptions(pre_buffer=False)
    )
    data = ds.dataset(list(files), schema=coded, format=how)
    return Found(records, registered(connection, data), counted=True, batches=data)


def arrow_data(paths: NamedFiles) -> Any:
    """Return Arrow files as one data set, of the columns in which all agree."""
    import pyarrow.dataset as ds  # noqa: PLC0415 - it brings pandas and 45 MB along

    files = list(paths.files)
    data = ds.dataset(files, format="ipc")
    if len(files) == 1 and not paths.keys:
        return data
    listed = pa.schema([coded_texts(field) if pa.types.is_dictionary(field.type) else field for field in data.schema])
    data = ds.dataset(files, schema=listed, format="ipc")
    agreed(data)
    return partitioned(paths, listed, "ipc") if paths.keys else data


def registered(connection: Any, data: Any) -> Any:
    """Return a data set that speaks Arrow as a table of DuckDB, of its columns that can be read."""
    known = readable(connection, data.schema)
    if not len(known) and len(data.schema):
        raise InvalidData("none of its columns has a type that is read; cast them to numbers, texts, flags or days")
    if len(known) < len(data.schema):
        data = data.select(known.names) if isinstance(data, pa.Table) else data.replace_schema(known)
    if any(map(pa.types.is_dictionary, known.types)):
        from sottovoce.records.tables.duckdb_lists import Listed  # noqa: PLC0415 - it brings pandas and 45 MB along

        data = Listed(data)
    connection.con.register("records", data)
    return connection.table("records")
