"""Days in conditions: the same on every engine, and no record makes a comparison fail."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sottovoce.privacy.errors import InvalidData
from sottovoce.records.readings import CategoryCounts, ClippedSum
from sottovoce.records.tables import Table, open_table

from .conftest import SPARK

ONE = ClippedSum(0, 1, integer=True)
DAYS = [
    dt.date(2023, 12, 31),
    dt.date(2024, 1, 1),
    dt.date(2024, 1, 31),
    dt.date(2024, 2, 1),
    None,
    dt.date(9999, 12, 31),
]
MOMENTS = [None if day is None else dt.datetime(day.year, day.month, day.day, 23, 59, 59, 999999) for day in DAYS]
TEXTS = ["2024-01-15", "Smith", "2024-99-15", "2024-01-15 10:00", None, "2023-01-01"]
SCHEMA = pa.schema({"asked": pa.int32(), "day": pa.date32(), "at": pa.timestamp("us"), "text": pa.string()})


CONDITIONS: dict[str, Callable[[dt.date], bool]] = {
    "{} >= '2024-01-01'": lambda d: d >= dt.date(2024, 1, 1),
    "{} > '2024-01-01'": lambda d: d > dt.date(2024, 1, 1),
    "{} <= '2024-01-31'": lambda d: d <= dt.date(2024, 1, 31),
    "'2024-01-31' > {}": lambda d: d < dt.date(2024, 1, 31),
    "{} = '2024-01-31'": lambda d: d == dt.date(2024, 1, 31),
    "{} != '9999-12-31'": lambda d: d != dt.date(9999, 12, 31),
    "{} > '9999-12-31'": lambda d: False,
    "{} between '2024-01-01' and '2024-01-31'": lambda d: dt.date(2024, 1, 1) <= d <= dt.date(2024, 1, 31),
    "{} not between '2024-01-01' and '2024-01-31'": lambda d: not dt.date(2024, 1, 1) <= d <= dt.date(2024, 1, 31),
    "{} in ('2024-01-01', '2024-02-01')": lambda d: d in (dt.date(2024, 1, 1), dt.date(2024, 2, 1)),
    "{} not in ('2024-01-01')": lambda d: d != dt.date(2024, 1, 1),
}
ASKED = {
    text.format(column): sum(day is not None and rule(day) for day in DAYS)
    for text, rule in CONDITIONS.items()
    for column in ("day", "at")
} | {"text >= '2024-01-01'": 1, "text < '2024-01-01'": 1}
"""Conditions, and of how many rows they hold."""
ROWS = [(place, *row) for place in range(1, len(ASKED) + 1) for row in zip(DAYS, MOMENTS, TEXTS, strict=True)]
"""Every row once a condition, which is asked of those: one query tells of all, and some engines plan for long."""


def count(table: Table, where: str) -> int:
    return int(table.read(ONE, where=where).total[0])


@pytest.fixture(scope="module", params=["duckdb", "postgres", SPARK])
def days(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    """The days on each engine, opened once and only read from."""
    with open_table(_source(request, tmp_path_factory.mktemp("days"))) as table:
        yield table


def _source(request: pytest.FixtureRequest, folder: Path) -> Any:
    if request.param == "postgres":
        import psycopg

        server = request.getfixturevalue("postgres_server")
        url = server.url(server.create_database(), scheme="postgresql")
        with psycopg.connect(url) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE days (asked int, day date, at timestamp, text text)")
            cursor.executemany("INSERT INTO days VALUES (%s, %s, %s, %s)", ROWS)
        return f"{url}?table=days"
    path = folder / "days.parquet"
    pq.write_table(pa.table(dict(zip(SCHEMA.names, zip(*ROWS, strict=True), strict=True)), schema=SCHEMA), path)
    return request.getfixturevalue("spark_session").read.parquet(str(path)) if request.param == "spark" else path


def test_days_and_moments_compare_and_text_that_is_no_day_is_missing(days: Table) -> None:
    where = " or ".join(f"asked = {place} and ({text})" for place, text in enumerate(ASKED, 1))
    counts = days.read(CategoryCounts(range(len(ASKED) + 1)), "asked", where=where).total
    assert dict(zip(ASKED, counts[1:].tolist(), strict=True)) == ASKED


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_no_moment_ends_a_query(tmp_path: Path, unit: str, zone: str | None) -> None:
    """A moment beyond what an engine converts counts; where it could not, the column is not there at all."""
    extreme = pa.array([2**62, -(2**62), 0, None], pa.int64()).cast(pa.timestamp(unit, zone))
    sources: list[Any] = [frame := pa.table({"at": extreme, "k": ["a", "b", "c", "d"]})]
    if unit != "s":  # which Parquet does not know
        pq.write_table(frame, tmp_path / "odd.parquet")
        sources.append(tmp_path / "odd.parquet")
    for source in sources:
        with open_table(source) as table:
            for where in ("at < '2000-01-01'", "at < '2000-01-01' and k != 'z'"):
                assert "at" not in table.schema or count(table, where) == 2


def test_a_csv_column_is_read_as_days(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("day,loose\n2024-01-01,2024-01-01\nnever,never\n,\n2024-03-01,2024-03-01\n")
    with open_table(path, types={"day": "date"}) as table:
        assert [count(table, f"{name} >= '2024-02-01'") for name in ("day", "loose")] == [1, 1]


@pytest.mark.parametrize("where", ["day > 3", "day = 'tomorrow'", "at < '2024-02-30'", "at = true", "day > at"])
def test_what_is_no_day_is_refused_before_any_record_is_read(where: str) -> None:
    with open_table(SCHEMA.empty_table()) as table, pytest.raises(InvalidData, match="day"):
        table.check(ONE, where=where)
