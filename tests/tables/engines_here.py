"""Engines that can be started here, each by one decorator: how it comes by the records, and what it cannot hold."""

from __future__ import annotations

import contextlib
import datetime as dt
import importlib.util
import math
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ibis
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.ports import free_port

from .conftest import SPARK

__all__ = ["STARTED", "start", "started", "why_not"]

Given = tuple[Any, pa.Table]
"""A source, and the records as it could take them."""
STARTED: dict[str, Any] = {}
"""Each engine by its name, as a parameter of tests."""
_NEEDS: dict[str, tuple[str, ...]] = {}
_STARTS: dict[str, Any] = {}


def started(name: str, *needs: str, marks: Any = ()) -> Callable[[Any], Any]:
    """Register how an engine is started with a table of records; it needs packages, or programs as ``/mariadbd``."""

    def register(start: Callable[[pytest.FixtureRequest, pa.Table], Iterator[Given]]) -> Any:
        STARTED[name], _NEEDS[name] = pytest.param(name, marks=marks), needs
        _STARTS[name] = contextlib.contextmanager(start)
        return start

    return register


def start(name: str, request: pytest.FixtureRequest, records: pa.Table) -> Any:
    """Start an engine, or skip and say what is missing."""
    if (why := why_not(name)) is not None:
        pytest.skip(why)
    return _STARTS[name](request, records)


def why_not(name: str) -> str | None:
    """Return what an engine needs that is not here."""
    programs = [need[1:] for need in _NEEDS[name] if need.startswith("/")]
    packages = [need for need in _NEEDS[name] if not need.startswith("/")]
    missing = [each for each in programs if shutil.which(each, path=f"{os.environ['PATH']}:/usr/sbin") is None]
    missing += [each for each in packages if importlib.util.find_spec(each) is None]
    return f"{name} needs {', '.join(missing)}" if missing else None


def _changed(records: pa.Table, change: Callable[[Any], Any]) -> pa.Table:
    rows = [{name: change(cell) for name, cell in row.items()} for row in records.to_pylist()]
    return pa.Table.from_pylist(rows, records.schema)


def _columns(records: pa.Table, kinds: dict[str, str], quote: str = '"') -> str:
    return ", ".join(f"{quote}{field.name}{quote} {kinds[str(field.type)]}" for field in records.schema)


@started("DuckDB")
def _duckdb(request: pytest.FixtureRequest, records: pa.Table) -> Iterator[Given]:
    path = request.getfixturevalue("tmp_path_factory").mktemp("engines") / "records.parquet"
    pq.write_table(records, path, row_group_size=10)
    yield path, records


@started("PostgreSQL", "psycopg")
def _postgres(request: pytest.FixtureRequest, records: pa.Table) -> Iterator[Given]:
    import psycopg

    server = request.getfixturevalue("postgres_server")
    url = server.url(server.create_database(), scheme="postgresql")
    kinds = {"double": "double precision", "int64": "bigint", "bool": "boolean", "string": "text"}
    columns = _columns(records, kinds | {"date32[day]": "date"})
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE records ({columns})")
        with cursor.copy("COPY records FROM STDIN") as copy:
            for row in records.to_pylist():
                copy.write_row(tuple(row.values()))
    yield f"{url}?table=records", records


@started("Spark", "pyspark", "/java", marks=SPARK.marks)
def _spark(request: pytest.FixtureRequest, records: pa.Table) -> Iterator[Given]:
    yield request.getfixturevalue("spark_session").createDataFrame(records), records


_CONNECT = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]")
for name, value in {
    "plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "connect.grpc.binding.port": sys.argv[1], "connect.grpc.binding.address": "127.0.0.1", "ui.enabled": "false",
    "driver.host": "127.0.0.1", "driver.bindAddress": "127.0.0.1", "sql.shuffle.partitions": "1", "log.level": "OFF",
    "ui.showConsoleProgress": "false", "sql.adaptive.enabled": "false", "sql.codegen.wholeStage": "false",
    "sql.codegen.factoryMode": "NO_CODEGEN",
}.items():
    builder = builder.config(f"spark.{name}", value)
builder.getOrCreate()
print("up", flush=True)
sys.stdin.read()
"""


@started("Spark Connect", "pyspark", "grpc", "grpc_status", "/java", marks=SPARK.marks)
def _connect(request: pytest.FixtureRequest, records: pa.Table) -> Iterator[Given]:
    from pyspark.sql import SparkSession

    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-c", _CONNECT, str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        assert server.stdout.readline().strip() == "up"
        session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").create()
        yield session.createDataFrame(records), records
        session.stop()
    finally:
        server.stdin.close()
        server.wait(60)
        server.stdout.close()


@started("DataFusion", "datafusion")
def _datafusion(request: pytest.FixtureRequest, records: pa.Table) -> Iterator[Given]:
    connection = ibis.datafusion.connect({})
    connection.con.from_arrow(records, name="records")
    yield connection.table("records"), records


@started("ClickHouse", "chdb", "clickhouse_connect")
def _clickhouse(request: pytest.FixtureRequest, records: pa.Table) -> Iterator[Given]:
    """In this process; its days begin in 1900 and end in 2299."""
    import clickhouse_connect

    client = clickhouse_connect.get_client(interface="chdb")
    kinds = {"double": "Float64", "int64": "Int64", "bool": "Bool", "string": "String", "date32[day]": "Date32"}
    columns = _columns(records, {kind: f"Nullable({word})" for kind, word in kinds.items()}, "`")
    client.command(f"CREATE TABLE records ({columns}) ENGINE = Memory")
    first, last = dt.date(1900, 1, 1), dt.date(2299, 12, 31)
    held = _changed(records, lambda cell: min(max(cell, first), last) if isinstance(cell, dt.date) else cell)
    client.insert("records", [list(row.values()) for row in held.to_pylist()], column_names=held.column_names)
    yield ibis.clickhouse.from_connection(client).table("records"), held
    client.close()


@started("Polars, as an Ibis table", "polars")
def _polars(request: pytest.FixtureRequest, records: pa.Table) -> Iterator[Given]:
    import polars as pl

    yield ibis.polars.connect({"records": pl.from_arrow(records)}).table("records"), records


@started("Polars, a lazy frame", "polars")
def _lazy(request: pytest.FixtureRequest, records: pa.Table) -> Iterator[Given]:
    import polars as pl

    yield pl.from_arrow(records).lazy(), records


@started("SQLite")
def _sqlite(request: pytest.FixtureRequest, records: pa.Table) -> Iterator[Given]:
    path = request.getfixturevalue("tmp_path_factory").mktemp("engines") / "records.db"
    kinds = {"double": "REAL", "int64": "BIGINT", "bool": "BOOLEAN", "string": "TEXT", "date32[day]": "TEXT"}
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        moved = records.select([*records.drop_columns("d").column_names, "d"])
        connection.execute(f"CREATE TABLE records ({_columns(moved, kinds)})")
        places = ", ".join("?" * records.num_columns)
        days = records["d"].cast("string")
        rows = [tuple(row.values()) for row in records.drop_columns("d").append_column("d", days).to_pylist()]
        connection.executemany(f"INSERT INTO records VALUES ({places})", rows)
    yield f"sqlite://{path}?table=records", records


@started("MariaDB", "MySQLdb", "/mariadbd", "/mariadb-install-db")
def _mariadb(request: pytest.FixtureRequest, records: pa.Table) -> Iterator[Given]:
    """It has no NaN and no infinity."""
    import MySQLdb

    def tame(cell: Any) -> Any:
        if not isinstance(cell, float) or math.isfinite(cell):
            return cell
        return None if math.isnan(cell) else math.copysign(1e308, cell)

    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    folder, held = Path(tempfile.mkdtemp()), _changed(records, tame)
    data, port = ("--no-defaults", "--user=root", f"--datadir={folder}/data"), free_port()
    subprocess.run(["mariadb-install-db", *data, "--auth-root-authentication-method=normal"], check=True, **quiet)
    server = subprocess.Popen(
        [shutil.which("mariadbd", path="/usr/sbin:/usr/bin"), *data, f"--socket={folder}/socket", f"--port={port}",
         "--bind-address=127.0.0.1", "--character-set-server=utf8mb4"], **quiet,
    )  # fmt: skip
    try:
        for _ in range(300):
            with contextlib.suppress(MySQLdb.OperationalError):
                connection = MySQLdb.connect(unix_socket=f"{folder}/socket", user="root", charset="utf8mb4")
                break
            time.sleep(0.1)
        with contextlib.closing(connection) as connection, connection.cursor() as cursor:
            kinds = {"double": "DOUBLE", "int64": "BIGINT", "bool": "BOOLEAN", "string": "TEXT", "date32[day]": "DATE"}
            for text in (
                "CREATE DATABASE h CHARACTER SET utf8mb4",
                "CREATE USER reader@'127.0.0.1' IDENTIFIED BY 'reads'",
                "GRANT ALL ON h.* TO reader@'127.0.0.1'",
                "USE h",
                f"CREATE TABLE records ({_columns(records, kinds, '`')})",
            ):
                cursor.execute(text)
            places = ", ".join(["%s"] * records.num_columns)
            cursor.executemany(f"INSERT INTO records VALUES ({places})", [tuple(r.values()) for r in held.to_pylist()])
            connection.commit()
        yield f"mysql://reader:reads@127.0.0.1:{port}/h?table=records", held
    finally:
        server.terminate()
        server.wait(60)
        shutil.rmtree(folder)
