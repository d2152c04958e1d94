"""No record makes a question fail, on any engine; an interruption is not a damaged file."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import ibis
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.records.readings import BallSum, CategoryCounts, ClippedSum, CrossCounts, GroupMoments
from sottovoce.records.tables import open_table, text_files
from sottovoce.records.tables.engine import fetch_row, guarded

BROKEN = pa.array([b"N", b"\xff\xfe", b"\x00", b"S\xe9", None, b"N"], pa.binary()).view(pa.string())


def sources(table: pa.Table, folder: Path) -> list[Any]:
    pq.write_table(table, folder / "x.parquet")
    pq.write_table(table, folder / "plain.parquet", use_dictionary=False, store_schema=False)
    pyarrow.feather.write_feather(table, folder / "x.arrow")
    return [folder / "x.parquet", folder / "plain.parquet", folder / "x.arrow", table]


def test_text_that_is_no_text_is_a_category_that_nobody_listed(tmp_path: Path) -> None:
    for source in sources(pa.table({"ward": BROKEN, "age": range(6)}), tmp_path):
        with open_table(source) as table:
            assert table.read(CategoryCounts(("S", "N")), "ward").total.tolist() == [4.0, 2.0]
            assert table.read(ClippedSum(0, 9), "age", where="ward = 'N'").total.tolist() == [5.0]
            assert table.read(ClippedSum(0, 1), where="not ward in ('N', 'S')").total.tolist() == [4.0]
            crossed = CrossCounts((("N", "S"), (0, 5)), ((0, 1),), (-1, -1))
            assert table.read(crossed, ["ward", "age"]).total.tolist() == [1.0, 1.0, 0.0, 0.0]


def test_a_decimal_too_wide_for_the_engine_is_left_out(tmp_path: Path) -> None:
    """DuckDB reads 1.50 of such a column as 25165824."""
    wide = pa.array([Decimal("1.50"), None], pa.decimal256(50, 2))
    narrow = pa.array([Decimal("1.50"), None], pa.decimal128(12, 2))
    for source in sources(pa.table({"wide": wide, "narrow": narrow, "ward": ["a", "b"]}), tmp_path):
        with open_table(source) as table:
            assert [*table.schema] == ["narrow", "ward"]
            assert table.read(ClippedSum(0, 9), "narrow").total.tolist() == [1.5]
            with pytest.raises(InvalidData, match="no column 'wide'"):
                table.check(ClippedSum(0, 9), "wide")


@pytest.mark.parametrize("kind", [pa.uint8(), pa.uint32(), pa.uint64()])
def test_unsigned_columns_meet_numbers_below_zero(kind: pa.DataType, tmp_path: Path) -> None:
    largest = 2**kind.bit_width - 1
    for source in sources(pa.table({"k": pa.array([0, 3, largest, None], kind)}), tmp_path):
        with open_table(source) as table:
            for text, holds in {"k > -1": 3, "k = -1": 0, "-5 < k": 3, "k in (-1, 3)": 1, "k != -2": 3}.items():
                assert (text, table.read(ClippedSum(0, 1), where=text).total[0]) == (text, holds)
            assert table.read(ClippedSum(-2, 5), "k", missing=-2).total.tolist() == [6.0]
            assert table.read(CategoryCounts((-1, 3)), "k").total.tolist() == [3.0, 1.0]


def test_text_that_no_engine_holds_is_a_wrong_question() -> None:
    with open_table(pa.table({"ward": ["N"]})) as table:
        for text in ("a\x00b", "\ud800"):
            with pytest.raises(InvalidValue, match="NUL"):
                table.check(ClippedSum(0, 1), where=f"ward = '{text}'")
            with pytest.raises(InvalidValue, match="NUL"):
                table.check(CategoryCounts(("N", text)), "ward")
        with pytest.raises(InvalidValue, match="64 bits"):
            table.check(ClippedSum(0, 1), where="ward = " + "9" * 6000)


def test_postgres_numbers_beyond_every_double(postgres_server: Any) -> None:
    psycopg = pytest.importorskip("psycopg")
    url = postgres_server.url(postgres_server.create_database(), scheme="postgresql")
    with psycopg.connect(url) as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT x::numeric, 'a' AS ward FROM (VALUES ('1e400'), ('-1e400'), "
            "('1e-400'), ('NaN'), ('Infinity'), ('2.5'), (NULL), ('-1e-320')) v(x)"
        )
    with open_table(f"{url}?table=t") as table:
        assert table.read(ClippedSum(-3, 4), "x", missing=1).total.tolist() == [4 - 3 + 0 + 1 + 4 + 2.5 + 1 + 0]
        assert table.read(ClippedSum(0, 1), where="x > 2").total.tolist() == [3.0]
        assert table.read(ClippedSum(0, 1), where="not x < 5 and x is not null").total[0] >= 2
        assert table.origin is not None
        assert table.origin.identity.endswith("?table=public.t")
        assert "sottovoce@" not in table.origin.identity


@pytest.mark.parametrize("kind", ["numeric(1000, 0)", "numeric(900, 450)", "numeric(600, 400)"])
def test_a_declared_number_of_places_saves_no_double(kind: str, postgres_server: Any) -> None:
    """One record that no double holds had ended every question of such a column."""
    psycopg = pytest.importorskip("psycopg")
    url = postgres_server.url(postgres_server.create_database(), scheme="postgresql")
    places = int(kind.partition("(")[2].partition(",")[0]) - int(kind.partition(", ")[2].rstrip(")"))
    with psycopg.connect(url) as connection:
        values = f"('1e{places - 1}'), ('-1e{places - 1}'), ('1e-400'), ('NaN'), ('2'), (NULL)"
        connection.execute(f"CREATE TABLE t AS SELECT x::{kind} FROM (VALUES {values}) v(x)")
    with open_table(f"{url}?table=t") as table:
        assert table.read(ClippedSum(-3, 4), "x", missing=1).total.tolist() == [4 - 3 + 0 + 1 + 2 + 1]
        assert table.read(ClippedSum(0, 1), where="x > 1").total.tolist() == [2.0]


def test_a_decimal_beyond_every_double_is_infinite_as_in_memory(postgres_server: Any) -> None:
    """It had counted as 1e300: beyond no larger bound, and a direction where an infinite coordinate has none."""
    psycopg = pytest.importorskip("psycopg")
    url = postgres_server.url(postgres_server.create_database(), scheme="postgresql")
    cells = ["1e400", "-Infinity", "1e305", "0.5"]
    with psycopg.connect(url) as connection:
        values = ", ".join(f"('{cell}'::numeric, 0.25::double precision)" for cell in cells)
        connection.execute(f"CREATE TABLE t AS SELECT * FROM (VALUES {values}) v(x, y)")
    with open_table(f"{url}?table=t") as table:
        assert table.read(ClippedSum(0, 1), where="x > 1e304").total.tolist() == [2.0]
        ball, rows = BallSum(2, 1.0), [[float(cell), 0.25] for cell in cells]
        assert table.read(ball, ["x", "y"]).total.tolist() == ball.read(rows).total.tolist()


@pytest.mark.parametrize("message", ["Query interrupted", "KeyboardInterrupt: <EMPTY MESSAGE>"])
def test_an_interruption_by_any_name_stays_one(message: str) -> None:
    def fail() -> None:
        raise RuntimeError(message)

    with pytest.raises(KeyboardInterrupt):
        guarded(fail, "the file is damaged")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Hear control-C as at a terminal: who runs tests in the background may have told them to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_control_c_in_a_query_is_no_damage() -> None:
    connection = ibis.duckdb.connect(threads=1)
    query = connection.sql("SELECT sum(a.range * b.range)::VARCHAR AS s FROM range(30000) a, range(1000000) b")
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        fetch_row(connection, query, "people.parquet")
    timer.join()
    connection.disconnect()


def test_control_c_while_lines_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt
        yield

    (tmp_path / "x.csv").write_text("age\n1\n")
    with open_table(tmp_path / "x.csv") as table:
        monkeypatch.setattr(text_files, "line_batches", interrupted)
        with pytest.raises(KeyboardInterrupt):
            table.count()


@pytest.mark.parametrize("kind", ["text", "varchar(40)", "char(12)"])
def test_a_long_list_of_texts_holds_what_it_holds(postgres_server: Any, kind: str) -> None:
    """Quotes, braces, what a query or JSON has a meaning for, no letter at all: a text is itself, or in no list."""
    psycopg = pytest.importorskip("psycopg")
    odd = [
        "",
        "o'hara",
        'say "no"',
        "a\\b",
        "\\u0041",
        "{}",
        "[0]",
        "100%",
        "%s",
        ":x",
        "$1",
        "ü",
        "😀",
        "a\nb",
        "0",
        "-1",
    ]
    listed, strangers = (*odd, *(f"w{i}" for i in range(20))), ["A", "1", "{0}", "O'HARA", "null", "w", "w20"]
    texts = [*listed, *strangers, *odd, None]
    url = postgres_server.url(postgres_server.create_database(), scheme="postgresql")
    with psycopg.connect(url) as connection:
        connection.execute(f"CREATE TABLE records (c {kind}, k integer)")
        connection.cursor().executemany(
            "INSERT INTO records VALUES (%s, %s)", [(text, i % 7) for i, text in enumerate(texts)]
        )
    with open_table(f"{url}?table=records") as table:
        for size in (3, len(listed)):  # compared with one after the other, and found as a key
            groups = GroupMoments((listed[:size],), (-1,), measures=((0.0, 6.0),), fillers=(None,))
            seen = table.read(groups, ["c", "k"])
            assert seen == groups.read([texts, [i % 7 for i in range(len(texts))]])


def test_half_a_character_is_no_category() -> None:
    """It had been read as a question mark, which many tables write for what is unknown."""
    for cells in (["\ud800", "?"], ["\ud800", "?", 7]):
        with open_table(pd.DataFrame({"work": pd.Series(cells, dtype=object)})) as table:
            found = table.read(CategoryCounts(("none", "?")), "work").total.tolist()
        assert found == [len(cells) - 1, 1]


def test_a_sum_that_is_no_whole_number_is_not_quoted() -> None:
    engine = ibis.duckdb.connect()
    query = engine.sql("SELECT '2' AS n, '67.0' AS total")
    for asked in (query, engine.compile(query)):
        with pytest.raises(InvalidData, match="could not be read") as failed:
            fetch_row(engine, asked, "the table")
        assert "67" not in str(failed.value)
        assert failed.value.__context__ is None
