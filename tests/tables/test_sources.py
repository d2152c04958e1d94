"""Every kind of source opens to the same table, and what cannot be opened says so in one line."""

from __future__ import annotations

import contextlib
import gzip
import sqlite3
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import ibis
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.records.readings import BallSum, CategoryCounts, ClippedSum, GroupMoments
from sottovoce.records.readings.group_moments import STEPS
from sottovoce.records.tables import open_table
from sottovoce.records.tables.readable_types import _PLAIN, _holds
from sottovoce.records.tables.sources import _duckdb

RECORDS = pa.table(
    {
        "age": pa.array([30, None, 55, 130], pa.int64()),
        "weight": [70.25, 80.5, None, float("nan")],
        "ward": ["N", "S", None, "N"],
        "smoker": [True, False, True, None],
    }
)


def parquet(folder: Path) -> Path:
    pq.write_table(RECORDS, folder / "records.parquet")
    return folder / "records.parquet"


def bracketed(folder: Path) -> Path:
    pq.write_table(RECORDS, folder / "records [1].parquet")
    return folder / "records [1].parquet"


def pieces(folder: Path) -> Path:
    (folder / "parts" / "deep").mkdir(parents=True)
    pq.write_table(RECORDS.slice(0, 1), folder / "parts" / "a.parquet")
    pq.write_table(RECORDS.slice(1), folder / "parts" / "deep" / "b.parquet")
    return folder / "parts"


def pattern(folder: Path) -> str:
    for i in range(4):
        pq.write_table(RECORDS.slice(i, 1), folder / f"part-{i}.parquet")
    return f"{folder}/part-*.parquet"


def csv(folder: Path) -> Path:
    pyarrow.csv.write_csv(RECORDS, folder / "records.csv")
    return folder / "records.csv"


def csv_gz(folder: Path) -> Path:
    (folder / "records.csv.gz").write_bytes(gzip.compress(csv(folder).read_bytes()))
    return folder / "records.csv.gz"


def arrow(folder: Path) -> str:
    with pa.ipc.new_file(folder / "records.arrow", RECORDS.schema) as writer:
        writer.write_table(RECORDS, max_chunksize=2)
    return str(folder / "records.arrow")


def feather(folder: Path) -> Path:
    pyarrow.feather.write_feather(RECORDS, folder / "records.feather", compression="zstd")
    return folder / "records.feather"


def polars(_: Path) -> Any:
    frames = pytest.importorskip("polars", reason="polars is not installed (pip install polars)")
    return frames.from_arrow(RECORDS)


def lazy(folder: Path) -> Any:
    return polars(folder).lazy()


def narwhals(folder: Path) -> Any:
    return pytest.importorskip("narwhals", reason="narwhals is not installed").from_native(polars(folder))


class Stream:
    """A library of which we know only that it speaks Arrow, with texts as views."""

    def __init__(self, folder: Path) -> None:
        self.frame = polars(folder)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.frame.__arrow_c_stream__(requested_schema)


def relation(_: Path) -> Any:
    return duckdb.from_arrow(RECORDS)


def like_pandas(package: str, into: Callable[[Any, Any], None]) -> Callable[[Path], Any]:
    """Return a frame of a library that is pandas in all but name; the libraries themselves are not installed."""

    def build(_: Path) -> Any:
        kind = type("DataFrame", (), {"__module__": f"{package}.frame", "columns": list(RECORDS.schema.names)})
        frame = kind()
        into(frame, RECORDS.to_pandas())
        return frame

    return build


def database(folder: Path) -> str:
    with duckdb.connect(folder / "records.duckdb") as connection:
        connection.register("records", RECORDS)
        connection.execute("CREATE TABLE people AS FROM records")
    return f"duckdb://{folder}/records.duckdb?table=people"


KINDS: list[Callable[[Path], Any]] = [
    parquet,
    bracketed,
    pieces,
    pattern,
    csv,
    csv_gz,
    arrow,
    feather,
    polars,
    lazy,
    narwhals,
    Stream,
    relation,
    lambda _: RECORDS.to_reader(),
    like_pandas("cudf", lambda frame, held: setattr(frame, "to_pandas", lambda: held)),
    like_pandas("dask", lambda frame, held: setattr(frame, "compute", lambda: held)),
    like_pandas("modin", lambda frame, held: setattr(frame, "modin", SimpleNamespace(to_pandas=lambda: held))),
    database,
    lambda _: RECORDS,
    lambda _: RECORDS.to_batches()[0],
    lambda _: ds.dataset(RECORDS),
    lambda _: RECORDS.to_pandas(),
    lambda _: RECORDS.to_pandas().convert_dtypes(),
    lambda _: RECORDS.to_pandas().astype({"ward": "category"}),
    lambda _: ibis.memtable(RECORDS),
    lambda _: ibis.memtable(RECORDS).filter(lambda t: t.age.isnull() | (t.age > 0)),
]


@pytest.mark.parametrize("source", KINDS)
def test_every_kind_of_source(source: Callable[[Path], Any], tmp_path: Path) -> None:
    with open_table(source(tmp_path)) as table:
        assert list(table.schema) == ["age", "weight", "ward", "smoker"]
        assert table.count() == 4
        assert table.read(ClippedSum(0, 100), "age").total.tolist() == [185.0]
        assert table.read(ClippedSum(0, 100), "weight", missing=50).total.tolist() == [250.75]
        assert table.read(CategoryCounts(("S", "N")), "ward").total.tolist() == [2.0, 2.0]
        assert table.read(ClippedSum(0, 1, integer=True), "smoker").total.tolist() == [2.0]


def test_a_system_is_read_by_its_reading() -> None:
    class Proportion:
        reading = ClippedSum(0, 1, integer=True)

    with open_table(RECORDS) as table:
        assert table.read(Proportion(), "smoker").total.tolist() == [2.0]


def test_decimals_are_read_as_doubles() -> None:
    prices = pa.table({"price": pa.array([Decimal("1.00"), None, Decimal("250.00")])})
    with open_table(prices) as table:
        assert table.read(ClippedSum(0, 99.5), "price").total.tolist() == [100.5]


def test_a_stray_cell_late_in_a_csv_changes_no_type(tmp_path: Path) -> None:
    path = tmp_path / "late.csv"
    path.write_text("age\n" + "30\n" * 60_000 + "Smith\n")
    for types, kind in ((None, "string"), ({"age": "int64"}, "int64")):
        with open_table(path, types=types) as table:
            assert table.schema == {"age": kind}
            assert table.read(ClippedSum(0, 100), "age").total.tolist() == [1_800_000.0]
            assert table.count() == 60_001


def test_nan_hides_from_the_statistics_of_a_parquet_file(tmp_path: Path) -> None:
    """Parquet leaves NaN out of its minimum and maximum, and DuckDB drops comparisons that those settle."""
    pq.write_table(pa.table({"x": [3.0, 3.0, float("nan")]}), tmp_path / "nan.parquet")
    with open_table(tmp_path / "nan.parquet") as table:
        assert table.read(ClippedSum(2, 4), "x", missing=2.5).total.tolist() == [8.5]
        assert table.read(ClippedSum(2, 4, integer=True), "x").total.tolist() == [8.0]
        assert table.read(CategoryCounts((7.0, 3.0)), "x").total.tolist() == [1.0, 2.0]
        assert table.read(BallSum(1, 10.0), ["x"]).total == pytest.approx([6.0], rel=1e-12)
        for text, holds in {"x = 3": 2, "x <= 5": 2, "x != 4": 2, "x in (3, 4)": 2, "x is null": 1}.items():
            assert (text, table.read(ClippedSum(0, 1), where=text).total[0]) == (text, holds)


def test_files_of_a_folder_that_hold_texts_each_in_its_own_way(tmp_path: Path) -> None:
    """As the first has them, in many row groups, of another type, as places in a list, without the column."""
    first = pa.table(
        {"ward": ["N", "S", None, "N"] * 500, "ward.sub": ["x", "y", "x", "x"] * 500, "age": [1, 2, 3, 4] * 500}
    )
    pq.write_table(first, tmp_path / "1.parquet", row_group_size=300)
    pq.write_table(pa.table({"age": pa.array([5, 5], pa.int32())}), tmp_path / "2.parquet")
    coded = pa.array(["S", "?"]).dictionary_encode()
    third = pa.table({"age": [9, 9], "ward": coded, "ward.sub": pa.array(["y", "x"], pa.large_string())})
    pq.write_table(third, tmp_path / "3.parquet")
    means = GroupMoments((("N", "S"),), (-1,), measures=((0.0, 16.0),), fillers=(None,))
    with open_table(tmp_path) as table:
        assert table.read(CategoryCounts(("N", "S")), "ward").total.tolist() == [1503, 501]
        # By Arrow alone, and through DuckDB.
        assert table.read(CategoryCounts(("N", "S")), "ward", missing="S").total.tolist() == [1000, 1004]
        assert table.read(CategoryCounts(("x", "y")), "ward.sub").total.tolist() == [1503, 501]
        seen = table.read(means, ["ward", "age"])
    assert (seen.n, seen.total[:3].tolist()) == (2004, [1000, 501, 503])
    assert (seen.total[3:] / STEPS).tolist() == [500 * (1 + 4 - 16) / 8, (500 * (2 - 8) + 9 - 8) / 8]


@pytest.mark.parametrize("size", [2, 4])
def test_a_part_of_a_file_whose_texts_are_all_missing_ends_no_question(tmp_path: Path, size: int) -> None:
    """DuckDB ends the process where it is given a list of no texts."""
    texts = pa.array(["N", "S", None, None] if size == 2 else [None] * 4, pa.string())
    records = pa.table({"ward": texts, "age": [1, 2, 3, 4]})
    pq.write_table(records, tmp_path / "records.parquet", row_group_size=size)
    coded = pa.table({"ward": texts.dictionary_encode(), "age": [1, 2, 3, 4]})
    known = [1, 3] if size == 2 else [0, 4]
    for source in (tmp_path / "records.parquet", coded):
        with open_table(source) as table:
            assert table.read(CategoryCounts(("N", "S")), "ward", missing="S").total.tolist() == known
            kept = table.read(CategoryCounts(("S", "N")), "ward", where="age < 2")
            assert kept.total.tolist() == [4 - known[0], known[0]]


def test_a_column_of_objects_is_text_whatever_it_holds() -> None:
    """The type of a pandas column of objects would be inferred, and so would tell of a record."""

    class Odd:
        def __ne__(self, other: object) -> bool:
            raise RuntimeError("Smith")

    for cells in ([1, 2, 3], [1, "Smith", 2.5], [None] * 3, [True, float("nan"), "\ud800"], [Odd(), b"\xff", 2]):
        with open_table(pd.DataFrame({"age": pd.Series(cells, dtype=object)})) as table:
            assert (table.schema, table.count()) == ({"age": "string"}, 3)
            numbers = [float(cell) for cell in cells if isinstance(cell, int | float) and not pd.isna(cell)]
            assert table.read(ClippedSum(0, 100), "age").total.tolist() == [sum(numbers)]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("nowhere.parquet", "there is no Parquet file"),
        ("nowhere.csv", "there is no CSV file"),
        ("nowhere.arrow", "there is no Arrow file"),
        ("nowhere-*.parquet", "there is no Parquet file"),
        ("nowhere", "cannot tell what"),
        ("records.xlsx", "records.xlsx is a spreadsheet, with more in it than one table; save the sheet as CSV"),
        ("records.json", "cannot tell what records.json holds; save it as CSV or Parquet"),
        ("here/records.duckdb", r"is a database; say which of its tables: duckdb://here/records.duckdb\?table=NAME$"),
        (42, "cannot read a table from"),
        ([1, 2], "cannot read a table from"),
        ("postgresql://127.0.0.1:1/db", "names no table"),
        ("postgresql://me:hunter2@127.0.0.1:1/db?table=t", "cannot connect to postgresql://127.0.0.1/db"),
        ("nosuch://host/db?table=t", "cannot connect"),
    ],
)
def test_a_bad_source_is_one_clear_line(source: Any, words: str) -> None:
    with pytest.raises(InvalidData, match=words) as caught:
        open_table(source)
    assert "\n" not in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("name", ["bad.parquet", "bad.arrow", "bad.feather", "bad.csv.gz"])
def test_a_file_of_another_kind(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"PAR1 Mr Smith is 42\x00\xff" * 50)
    with pytest.raises(InvalidData, match="cannot be read as") as caught:
        open_table(tmp_path / name)
    assert "Smith" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_folder_one_stands_in_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.parquet").write_bytes(b"no Parquet")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidData, match=f"^{tmp_path.name} cannot be read as Parquet"):
        open_table(".")


def test_parquet_damaged_in_the_middle(tmp_path: Path) -> None:
    path = parquet(tmp_path)
    pq.write_table(pa.table({"x": [f"name {i}" for i in range(50_000)]}), path, use_dictionary=False)
    whole = bytearray(path.read_bytes())
    whole[1000:60_000] = bytes(59_000)
    path.write_bytes(whole)
    with (
        open_table(path) as table,
        pytest.raises(InvalidData, match="could not be read to its end") as caught,
    ):
        table.read(CategoryCounts(("name 1", "name 2")), "x")
    assert "\n" not in str(caught.value)
    assert caught.value.__context__ is None


def test_parquet_cut_short(tmp_path: Path) -> None:
    path = parquet(tmp_path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InvalidData, match="damaged"):
        open_table(path)


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match="there is no Parquet file"):
        open_table(tmp_path)


@pytest.mark.parametrize("frame", [pd.DataFrame(), pa.table({})], ids=["pandas", "pyarrow"])
def test_a_frame_without_columns_is_said_to_have_none(frame: Any) -> None:
    with pytest.raises(InvalidData, match="has no columns"):
        open_table(frame)


def test_types_belong_to_csv(tmp_path: Path) -> None:
    for source in (RECORDS, parquet(tmp_path)):
        with pytest.raises(InvalidData, match="CSV"):
            open_table(source, types={"age": "int64"})
    with pytest.raises(InvalidData, match="not there: height"):
        open_table(csv(tmp_path), types={"height": "int64"})
    for word in ("integer ledger", "json", "array<int64>", "timestamp"):
        with pytest.raises(InvalidValue, match="a type is one of"):
            open_table(csv(tmp_path), types={"age": word})


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_other_separators_are_told_at_once(tmp_path: Path, mark: str) -> None:
    """Not only where the facts name a column: else all that a spreadsheet wrote would be one column."""
    (tmp_path / "excel.csv").write_text(f"age{mark}ward\n3{mark}A\n", encoding="utf-8-sig")
    with pytest.raises(InvalidData, match=r"excel\.csv is one name with .* in it: save the file with commas"):
        open_table(tmp_path / "excel.csv")
    (tmp_path / "good.csv").write_text(f"age,war{mark}d\n3,A\n", encoding="utf-8-sig")
    with open_table(tmp_path / "good.csv") as table:
        assert list(table.schema) == ["age", f"war{mark}d"]


def test_names_that_are_no_utf8_are_refused(tmp_path: Path) -> None:
    """They are public; a name with a mark in the place of a letter could not be typed."""
    (tmp_path / "latin.csv").write_bytes("größe,ward\n3,A\n".encode("cp1252"))
    with pytest.raises(InvalidData, match=r"the first line of latin\.csv are not UTF-8; save it as UTF-8"):
        open_table(tmp_path / "latin.csv")
    (tmp_path / "cells.csv").write_bytes("size,ward\n3,Größe\n".encode("cp1252"))
    with open_table(tmp_path / "cells.csv") as table:
        assert table.count() == 1


def test_postgres_is_read_only_and_says_what_is_missing(messy_postgres: str) -> None:
    address = messy_postgres.partition("?")[0]
    with pytest.raises(InvalidData, match="there is no table 'patients'"):
        open_table(f"{address}?table=patients")
    with open_table(f"{address.replace('postgresql', 'postgresql+psycopg')}?table=messy&schema=public") as table:
        assert table.count() == 1000
        with pytest.raises(Exception, match="read-only"):
            table._connection.raw_sql("DELETE FROM messy")


def test_a_column_without_a_name_is_refused(tmp_path: Path) -> None:
    """It was called v0 in a frame, and made a Parquet file damaged; in a CSV file it goes by its place."""
    unnamed = pa.table([[1, 2], [3, 4]], names=["age", ""])
    pq.write_table(unnamed, tmp_path / "unnamed.parquet")
    pyarrow.feather.write_feather(unnamed, tmp_path / "unnamed.arrow")
    with contextlib.closing(sqlite3.connect(tmp_path / "unnamed.db")) as connection:
        connection.execute('CREATE TABLE people (age INTEGER, "" INTEGER)')
    files = (tmp_path / "unnamed.parquet", tmp_path / "unnamed.arrow", f"sqlite://{tmp_path}/unnamed.db?table=people")
    for source in (*files, unnamed, unnamed.to_batches()[0], unnamed.to_pandas(), ds.dataset(unnamed)):
        with pytest.raises(InvalidData, match="no name for column 2; give it one"):
            open_table(source)


def test_an_engine_that_adds_no_exact_sums_is_refused(tmp_path: Path) -> None:
    """SQLite adds decimals as doubles: a question had been charged, and its complaint had quoted the exact sum."""
    with contextlib.closing(sqlite3.connect(tmp_path / "clinic.db")) as connection:
        connection.execute("CREATE TABLE people (smoker BOOLEAN)")
    with pytest.raises(InvalidData, match="cannot add whole numbers exactly; write it as Parquet"):
        open_table(f"sqlite://{tmp_path}/clinic.db?table=people")


def test_the_types_that_no_engine_is_asked_about_are_held_by_it() -> None:
    connection, close = _duckdb()
    held = [kind for kind in _PLAIN if _holds(connection, [pa.field("x", kind)])]
    close()
    assert set(held) == _PLAIN


class Stream:
    """What gives Arrow's stream, and nothing else."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.data.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("form", [Stream, lambda data: data])
def test_a_frame_of_columns_that_nobody_reads_is_told_so(form: Callable[[Any], Any]) -> None:
    strange = pa.table({"age": pa.array([Decimal(1)], pa.decimal256(70, 2)), "wait": pa.array([1], pa.duration("s"))})
    with pytest.raises(InvalidData, match="none of its columns has a type that is read; cast them"):
        open_table(form(strange))
    with open_table(form(strange.append_column("n", pa.array([3])))) as table:
        assert list(table.schema) == ["n"] and table.read(ClippedSum(0, 9), "n").total == [3]


def test_a_computation_that_fails_says_what_to_do_and_quotes_no_record() -> None:
    cast = duckdb.sql("SELECT CAST(v AS DOUBLE) AS x FROM (VALUES ('a secret')) t(v)")
    for source in (cast, pa.chunked_array([[1]])):
        with pytest.raises(InvalidData, match="compute it by itself to see why") as refused:
            open_table(source)
        assert "secret" not in str(refused.value) and "\n" not in str(refused.value)
