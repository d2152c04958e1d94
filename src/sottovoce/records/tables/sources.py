"""From whatever holds the records (a file, a frame, a database, a Spark session) to a `Table`."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit
from urllib.request import url2pathname

import ibis
import pyarrow as pa

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import shown
from sottovoce.records.facts import Facts
from sottovoce.records.tables.availability import Link
from sottovoce.records.tables.clouds import CloudFiles, CloudLink, is_cloud, open_cloud
from sottovoce.records.tables.column_matching import agreed, distinct, named
from sottovoce.records.tables.engine import guarded
from sottovoce.records.tables.file_formats import (
    Found,
    arrow_data,
    csv_records,
    parquet_records,
    partitioned,
    registered,
)
from sottovoce.records.tables.folders import check_no_lake, named_files
from sottovoce.records.tables.frames import frame_of
from sottovoce.records.tables.lakes import lake_address, open_lake
from sottovoce.records.tables.readable_types import coded_texts, readable
from sottovoce.records.tables.table import Table
from sottovoce.records.tables.table_identity import Origin, database_origin, file_origin, scheme_of

__all__ = ["open_table"]

T = TypeVar("T")

MEMORY = "SOTTOVOCE_MEMORY"
"""The variable of the environment that says how much memory DuckDB may hold; 1GB where it is not set."""

SETTINGS = {
    # The order of the records plays no part, and keeping it costs memory.
    "preserve_insertion_order": False,
    # Neither a plan nor which records are read may follow from the least and largest numbers that a file notes: one
    # record would change how long an answer takes.
    "disabled_optimizers": "statistics_propagation,filter_pushdown,compressed_materialization",
    # Records are counted in an array by two numbers of 8 bits (9 with null, 2 MB a thread), and not in a hash table.
    "perfect_ht_threshold": 18,
    # A path that looks like a web address must not make the engine fetch code or data from the network.
    "autoinstall_known_extensions": False,
}

WAITS = {"connect_timeout": "10", "tcp_user_timeout": "30000", "keepalives_idle": "30"}
"""How long PostgreSQL's client waits for a server out of reach, unless the address says otherwise: 10 s to connect,
30 s (in milliseconds) for sent bytes to arrive, and 30 s of silence before a sign of life. By default it is hours."""

_LEAST, _UNITS = 100, {"MB": 1, "GB": 1000}

ENDINGS = {
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".csv": "CSV",
    ".csv.gz": "CSV",
    ".tsv": "CSV",
    ".tsv.gz": "CSV",
    ".arrow": "Arrow",
    ".feather": "Arrow",
    ".ipc": "Arrow",
}
_LONGEST_NAME = 255
"""Bytes: the longest name that file systems give a file."""
_DATABASES = {".duckdb", ".ddb"}
_SHEETS = {".xlsx", ".xlsm", ".xls", ".ods", ".numbers"}


def _duckdb() -> tuple[Any, Callable[[], None]]:
    """Return a connection of our own, and how it is closed.

    What memory cannot hold goes to a folder that nobody else may read, and which is gone when the table is closed:
    whether an answer comes must not depend on how many rows one person has.
    """
    memory, folder = _memory(), tempfile.mkdtemp(prefix="sottovoce-")
    connection = ibis.duckdb.connect(**({"memory_limit": memory} | SETTINGS), temp_directory=folder)
    remove = weakref.finalize(connection, shutil.rmtree, folder, ignore_errors=True)

    def close() -> None:
        connection.disconnect()
        remove()

    return connection, close


def _memory() -> str:
    """Return how much memory DuckDB may hold, where fewer threads work on what would take more."""
    said = os.environ.get(MEMORY, "1GB")
    if (match := re.fullmatch(r"(\d+) ?(MB|GB)", said)) is None or int(match[1]) * _UNITS[match[2]] < _LEAST:
        raise InvalidValue(f"{MEMORY} is {_LEAST} MB or more, as in {MEMORY}=250MB. Got {said!r}")
    return said


def open_table(source: object, *, types: Mapping[str, str] | None = None, facts: Facts | None = None) -> Table:
    """Open a table wherever it is; nothing but its schema is read until statistics are asked for.

    Parameters
    ----------
    source
        A path to Parquet (a file, a folder, a pattern with ``*``), CSV (``.csv``, ``.tsv``, also ``.gz``, with names
        in the first line) or Arrow (``.arrow``, ``.feather``, ``.ipc``); a pandas, polars or pyarrow frame, or
        whatever else gives Arrow's stream (``__arrow_c_stream__``), such as a DuckDB relation or a reader of
        batches, which is read once; a folder of Delta Lake or Iceberg, or ``delta:PLACE?version=3``; what Dask, Modin,
        cuDF or Narwhals hold; the same files at ``s3://``, ``gs://``,
        ``abfss://`` or ``https://``; a Spark data frame; an Ibis table; or an address such as
        ``postgresql://user@host/db?table=patients`` (any address that Ibis knows, with ``table=`` and, if need be,
        ``schema=`` added).
    types
        For CSV only: the type of each column that is not text, such as ``{"age": "int64"}``. A cell that does
        not fit counts as missing. A column without a type is text, whatever it holds, and is read as numbers where a
        question asks for numbers.
    facts
        What is public of the columns: where the source is CSV, it gives their types; anywhere, text is read as truth
        values where it is a flag.

    Examples
    --------
    >>> import pandas as pd
    >>> from sottovoce.records.readings import ClippedSum
    >>> with open_table(pd.DataFrame({"smoker": [True, False, True]})) as table:
    ...     table.read(ClippedSum(0, 1, integer=True), "smoker")
    Statistics(n=3, total=array([2.]))
    """
    if isinstance(source, str | Path) and (lake := lake_address(str(source))) is not None:
        opened = _lake(lake)
    elif isinstance(source, str) and is_cloud(source):
        return _cloud(source, types, facts).know(facts)
    elif isinstance(source, str) and source.startswith("file://"):
        return _path(url2pathname(urlsplit(source).path), types, facts).know(facts)
    elif isinstance(source, str) and "://" in source:
        opened = _address(source)
    elif isinstance(source, str | Path):
        return _path(str(source), types, facts).know(facts)
    elif isinstance(source, ibis.Table):
        connection = guarded(source.get_backend, "the Ibis table belongs to no single connection")
        opened = Table("the Ibis table", source, connection, link=Link(connection, source))
    elif type(source).__module__.startswith("pyspark.sql"):
        opened = _spark(source)
    else:
        opened = _frame(source)
    _or_close(opened.close, lambda: named(opened.schema, opened.name), f"{opened.name} does not say what it holds")
    _or_close(opened.close, opened.check_engine, f"{opened.name} cannot be asked")
    if types:
        opened.close()
        raise InvalidData("types= is for CSV files; every other source has types of its own")
    return opened.know(facts)


def _path(path: str, types: Mapping[str, str] | None, facts: Facts | None) -> Table:
    place = Path(path)
    if any(len(os.fsencode(part)) > _LONGEST_NAME for part in place.parts):
        raise InvalidData(f"no file has a name as long as {shown(path)}")
    name = place.name or place.resolve().name  # of "." and ".."
    kind = next((kind for ending, kind in ENDINGS.items() if path.lower().endswith(ending)), None)
    kind = "Parquet" if place.is_dir() else kind
    if kind is None:
        raise InvalidData(_unread(path, place))
    if types and kind != "CSV":
        raise InvalidData("types= is for CSV files; every other source has types of its own")
    paths = named_files(path)
    files = paths.files
    if kind == "Parquet":
        check_no_lake(path, files)
    if not files or not all(Path(file).is_file() for file in files):
        raise InvalidData(f"there is no {kind} file at {place}")
    if kind == "CSV" and (keys := paths.keys):
        raise InvalidData(
            f"these CSV files lie in folders such as {keys[0]}=..., which is read of Parquet and Arrow files alone: "
            f"write {keys[0]} as a column"
        )
    connection, close = _duckdb()
    complaint = f"{name} cannot be read as {kind}; it is damaged or of another kind"
    readers: dict[str, Callable[[], Found]] = {
        "Parquet": lambda: parquet_records(connection, paths),
        "CSV": lambda: csv_records(connection, files, types or {}, facts),
        "Arrow": lambda: Found(registered(connection, arrow_data(paths)), untyped=frozenset(paths.keys)),
    }
    result = _or_close(close, readers[kind], complaint)
    origin = replace(file_origin(path, files), is_text=kind == "CSV")
    records, texts = result.records.unbind(), None if result.texts is None else result.texts.unbind()
    counted = records if result.counted else None  # a Parquet file says how many records it has
    return Table(name, records, connection, close, texts, result.untyped, origin, counted, result.batches)


def _unread(path: str, place: Path) -> str:
    """Return why a file of another kind is not read, and what to say or do instead."""
    ending = place.suffix.lower()
    if ending in _DATABASES:
        return f"{place.name} is a database; say which of its tables: duckdb://{path}?table=NAME"
    if ending in _SHEETS:
        return f"{place.name} is a spreadsheet, with more in it than one table; save the sheet as CSV or Parquet"
    return f"cannot tell what {place.name} holds; save it as CSV or Parquet (read are {', '.join(ENDINGS)})"


def _or_close(close: Callable[[], None], work: Callable[[], T], complaint: str) -> T:
    try:
        return guarded(work, complaint)
    except BaseException:
        close()
        raise


def _frame(source: Any) -> Table:
    kind = f"a {type(source).__module__.partition('.')[0]} {type(source).__name__}"
    # It may be a computation of the user's own, whose complaint may quote a record.
    failed = f"{kind} could not be computed or read as a frame with columns; compute it by itself to see why"
    frame = guarded(lambda: frame_of(source), failed)
    if frame is None:
        raise InvalidData(
            f"cannot read a table from {kind}; give a path, an address, an Ibis table, a Spark frame, or a frame or "
            "stream that speaks Arrow (pandas, polars, pyarrow, DuckDB ...)"
        )
    if not frame.data.schema.names:
        raise InvalidData(f"{kind} has no columns")
    connection, close = _duckdb()
    records = _or_close(close, lambda: registered(connection, frame.data), f"{kind} could not be read")

    def settle(person: str) -> None:
        if person in frame.persons:
            registered(connection, frame.of(person))

    name = f"the {type(source).__name__}"
    return Table(name, records.unbind(), connection, close, untyped=frame.untyped, settle=settle, is_frame=True)


def _lake(address: str) -> Table:
    lake = open_lake(address)
    connection, close = _duckdb()
    records = _or_close(close, lambda: registered(connection, lake.data), f"{lake.place} could not be read")
    origin = Origin(lake.identity, (lake.identity,), is_files=False, latest=lake.latest)
    return Table(Path(lake.place).name, records.unbind(), connection, close, origin=origin)


def _cloud(address: str, types: Mapping[str, str] | None, facts: Facts | None) -> Table:
    files = open_cloud(address, tuple(ending for ending, kind in ENDINGS.items() if kind != "Arrow"))
    paths = files.named
    kinds = {next(kind for ending, kind in ENDINGS.items() if path.lower().endswith(ending)) for path in paths.files}
    if len(kinds) > 1:
        raise InvalidData(f"{address} holds files of more than one kind; name those of one with *.parquet or *.csv")
    if types and kinds != {"CSV"}:
        raise InvalidData("types= is for CSV files; every other source has types of its own")
    if kinds == {"CSV"} and paths.keys:
        raise InvalidData("folders such as ward=A are read of Parquet alone: write ward as a column")
    connection, close = _duckdb()

    def read() -> Found:
        if kinds == {"CSV"}:
            return csv_records(connection, paths.files, types or {}, facts, files.open)
        return _cloud_parquet(connection, files)

    result = _or_close(close, read, f"{address} cannot be read; it is damaged or of another kind")
    records = result.records.unbind()
    origin = Origin(files.address, (files.address,), is_files=False, is_text=kinds == {"CSV"})
    link = CloudLink(connection, records, grows=False, files=files)
    return Table(address, records, connection, close, untyped=result.untyped, origin=origin, link=link)


def _cloud_parquet(connection: object, files: CloudFiles) -> Found:
    """Read all with Arrow, which asks a store for the columns of a question alone."""
    import pyarrow.dataset as ds  # noqa: PLC0415 - it brings pandas and 45 MB along
    import pyarrow.parquet as pq  # noqa: PLC0415

    paths = files.named
    known = readable(connection, pq.read_schema(paths.files[0], filesystem=files.filesystem), parquet=True)
    listed = pa.schema([coded_texts(field) for field in known])
    data = ds.dataset(list(paths.files), schema=listed, format="parquet", filesystem=files.filesystem)
    agreed(data)
    if paths.keys:
        data = partitioned(paths, listed, "parquet", files.filesystem)
    return Found(registered(connection, data), untyped=frozenset(paths.keys))


def _spark(frame: Any) -> Table:
    distinct(frame.columns, "the Spark data frame")
    if any("${" in name for name in frame.columns):
        raise InvalidData("Spark takes ${...} in the name of a column for a setting of its own; rename the column")
    view = f"sottovoce_{secrets.token_hex(8)}"
    session = frame.sparkSession
    frame.createTempView(view)
    connection = ibis.pyspark.connect(session)
    records = connection.table(view)
    link = Link(connection, records, grows=False)
    return Table("the Spark data frame", records, connection, lambda: session.catalog.dropTempView(view), link=link)


def _address(address: str) -> Table:
    parts = urlsplit(address)
    options = dict(parse_qsl(parts.query))
    table, schema = options.pop("table", None), options.pop("schema", None)
    scheme = scheme_of(parts)
    place = f"{scheme}://{parts.hostname or ''}{parts.path}"  # without the user's name and password
    if table is None:
        raise InvalidData(f"the address {place} names no table; add ?table=NAME")
    if scheme == "postgresql":
        options["options"] = "-c default_transaction_read_only=on"
        options = WAITS | options
    url = urlunsplit((scheme, parts.netloc, parts.path, urlencode(options), ""))
    connection = guarded(
        lambda: ibis.connect(url),
        f"cannot connect to {place}; check the address, and that the extra is installed",
    )

    def look_up() -> Any:
        return connection.table(table, database=schema)

    records = _or_close(connection.disconnect, look_up, f"there is no table {table!r} at {place}")
    if scheme == "postgresql" and schema is None:
        schema = guarded(lambda: str(connection.current_database), f"{place} does not say which schema is its own")
    origin = database_origin(parts, table, schema)
    link = Link(connection, records, look_up=look_up)
    return Table(f"{place}?table={table}", records, connection, connection.disconnect, origin=origin, link=link)
