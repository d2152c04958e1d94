"""From whatever holds the records (a file, a frame, a database, a Spark session) to a `Table`."""

from __future__ import annotations

import glob
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import ibis
import pyarrow as pa

from sottovoce.privacy.errors import InvalidData
from sottovoce.tables.engine import guarded
from sottovoce.tables.table import Table

__all__ = ["open_table"]

SETTINGS = {
    "memory_limit": "1GB",
    # Where memory does not suffice, fail rather than write private records to a temporary file.
    "temp_directory": "",
    # The order of the records plays no part, and keeping it costs memory.
    "preserve_insertion_order": False,
    # A path that looks like a web address must not make the engine fetch code or data from the network.
    "autoinstall_known_extensions": False,
}

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


def open_table(source: Any, *, types: Mapping[str, str] | None = None) -> Table:
    """Open a table wherever it is; nothing but its schema is read until statistics are asked for.

    Parameters
    ----------
    source
        A path to Parquet (a file, a folder, a pattern with ``*``), CSV (``.csv``, ``.csv.gz``, with names in
        the first line) or Arrow (``.arrow``, ``.feather``, ``.ipc``); a pandas, polars or pyarrow frame; a
        Spark data frame; an Ibis table; or an address such as ``postgresql://user@host/db?table=patients``
        (any address that Ibis knows, with ``table=`` and, if need be, ``schema=`` added).
    types
        For CSV only: the type of each column that is not text, such as ``{"age": "int64"}``. A cell that does
        not fit counts as missing. Without it the types are worked out from the whole file.

    Examples
    --------
    >>> import pandas as pd
    >>> from sottovoce.systems.statistics import ClippedSum
    >>> with open_table(pd.DataFrame({"smoker": [True, False, True]})) as table:
    ...     table.statistics(ClippedSum(0, 1, integer=True), "smoker")
    Statistics(n=3, total=array([2.]))
    """
    if isinstance(source, str) and "://" in source:
        opened = _address(source)
    elif isinstance(source, str | Path):
        return _path(str(source), types)
    elif isinstance(source, ibis.Table):
        connection = guarded(source.get_backend, "the Ibis table belongs to no single connection")
        opened = Table("the Ibis table", source, connection)
    elif type(source).__module__.startswith("pyspark.sql"):
        opened = _spark(source)
    else:
        opened = _frame(source)
    if types is not None:
        raise InvalidData("types= is for CSV files; every other source has types of its own")
    return opened


def _path(path: str, types: Mapping[str, str] | None) -> Table:
    name = Path(path).name
    place = Path(path)
    kind = next((kind for ending, kind in ENDINGS.items() if path.lower().endswith(ending)), None)
    if place.is_dir():
        kind, path = "Parquet", f"{glob.escape(path)}/**/*.parquet"
    elif place.exists():
        path = path if kind == "Arrow" else glob.escape(path)
    if kind is None:
        raise InvalidData(f"cannot tell what {name} holds; name it " + ", ".join(ENDINGS))
    if types is not None and kind != "CSV":
        raise InvalidData("types= is for CSV files; every other source has types of its own")
    pattern = place.is_dir() or (kind != "Arrow" and any(sign in path for sign in "*?["))
    if not place.is_file() and not pattern:
        raise InvalidData(f"there is no {kind} file at {place}")
    connection = ibis.duckdb.connect(**SETTINGS)
    complaint = f"{name} cannot be read as {kind}; it is not there, damaged or of another kind"
    readers: dict[str, Callable[[], Any]] = {
        "Parquet": lambda: connection.read_parquet(path),
        "CSV": lambda: _csv(connection, path, types),
        "Arrow": lambda: _register(connection, _arrow_file(path)),
    }
    return Table(name, _or_close(connection, readers[kind], complaint), connection, connection.disconnect)


def _or_close(connection: Any, work: Callable[[], Any], complaint: str) -> Any:
    try:
        return guarded(work, complaint)
    except InvalidData:
        connection.disconnect()
        raise


def _csv(connection: Any, path: str, types: Mapping[str, str] | None) -> Any:
    if types is None:
        # A sample could miss the one cell that is not a number, and the query would fail on it later.
        return connection.read_csv(path, header=True, sample_size=-1)
    text = connection.read_csv(path, header=True, all_varchar=True)
    unknown = [name for name in types if name not in text.columns]
    if unknown:
        raise InvalidData(f"types= names columns that are not there: {', '.join(unknown)}")
    return text.mutate(**{name: text[name].try_cast(kind) for name, kind in types.items()})


def _arrow_file(path: str) -> Any:
    import pyarrow.dataset as ds  # noqa: PLC0415 - it brings pandas and 45 MB along

    return ds.dataset(path, format="ipc")


def _register(connection: Any, data: Any) -> Any:
    connection.con.register("records", data)
    return connection.table("records")


def _frame(source: Any) -> Table:
    kind = f"a {type(source).__module__.partition('.')[0]} {type(source).__name__}"
    data = guarded(lambda: _arrow(source), f"{kind} could not be read; a column mixes types")
    if data is None:
        raise InvalidData(
            f"cannot read a table from {kind}; give a path, an address, an Ibis table, "
            "or a pandas, polars, pyarrow or Spark frame"
        )
    connection = ibis.duckdb.connect(**SETTINGS)
    records = _or_close(connection, lambda: _register(connection, data), f"{kind} could not be read")
    return Table(f"the {type(source).__name__}", records, connection, connection.disconnect)


def _arrow(source: Any) -> Any:
    if isinstance(source, pa.Table) or type(source).__module__ == "pyarrow._dataset":
        return source
    if isinstance(source, pa.RecordBatch):
        return pa.Table.from_batches([source])
    package = type(source).__module__.partition(".")[0]
    if package == "pandas" and hasattr(source, "columns"):
        return pa.Table.from_pandas(source, preserve_index=False)
    if package == "polars" and type(source).__name__ == "DataFrame":
        return source.to_arrow()
    return None


def _spark(frame: Any) -> Table:
    view = f"sottovoce_{secrets.token_hex(8)}"
    session = frame.sparkSession
    frame.createTempView(view)
    connection = ibis.pyspark.connect(session)
    return Table("the Spark data frame", connection.table(view), connection, lambda: session.catalog.dropTempView(view))


def _address(address: str) -> Table:
    parts = urlsplit(address)
    options = dict(parse_qsl(parts.query))
    table, schema = options.pop("table", None), options.pop("schema", None)
    scheme = parts.scheme.partition("+")[0]
    place = f"{scheme}://{parts.hostname or ''}{parts.path}"  # without the user's name and password
    if table is None:
        raise InvalidData(f"the address {place} names no table; add ?table=NAME")
    if scheme == "postgresql":
        options["options"] = "-c default_transaction_read_only=on"
    url = urlunsplit((scheme, parts.netloc, parts.path, urlencode(options), ""))
    connection = guarded(
        lambda: ibis.connect(url),
        f"cannot connect to {place}; check the address, and that the extra is installed",
    )
    records = _or_close(
        connection,
        lambda: connection.table(table, database=schema),
        f"there is no table {table!r} at {place}",
    )
    return Table(f"{place}?table={table}", records, connection, connection.disconnect)
