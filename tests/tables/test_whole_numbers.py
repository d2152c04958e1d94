"""Conditions on whole numbers of 64 bits, with a sign and without one, hold digit by digit on every engine."""

from __future__ import annotations

import gc
import operator
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sottovoce.records.readings import ClippedSum
from sottovoce.records.tables import open_table

from .conftest import SPARK

EDGES = (0, 1, 2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1)
LARGE: list[int | None] = [*EDGES, None, 7, 2**53 + 1, 2**63 + 2]
SMALL: list[int | None] = [-(2**63), -1, 2**53, 2**53 + 1, 2**53 + 1, None, 2**63 - 1, 0, *[2**53 + 3] * 7]
SIGNS: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}
FEW = ("u = 9007199254740993", "u >= 18446744073709551615", "u < i", "u not in (9007199254740993, 9223372036854775809)")


def questions() -> Iterable[tuple[str, int]]:
    """Yield conditions, and of how many records each holds: comparisons of Python's whole numbers."""
    rows = list(zip(LARGE, SMALL, strict=True))
    for sign, holds in SIGNS.items():
        for edge in (-1, -(2**63), *EDGES):
            yield f"u {sign} {edge}", sum(u is not None and holds(u, edge) for u, _ in rows)
            yield f"{edge} {sign} i", sum(i is not None and holds(edge, i) for _, i in rows)
        yield f"u {sign} i", sum(u is not None and i is not None and holds(u, i) for u, i in rows)
        yield f"not i {sign} u", sum(u is None or i is None or not holds(i, u) for u, i in rows)
    some = (2**53 + 1, 2**63 + 1)
    for name, values in (("u", LARGE), ("i", SMALL)):
        yield f"{name} in {some}", sum(one in some for one in values)
        yield f"{name} not in {some}", sum(one is not None and one not in some for one in values)
    yield "u is null", 1


TRUTH = dict(questions())


def arrow() -> pa.Table:
    return pa.table({"u": pa.array(LARGE, pa.uint64()), "i": pa.array(SMALL, pa.int64())})


def check(source: Any, conditions: Iterable[str]) -> None:
    with open_table(source) as table:
        found = {text: int(table.read(ClippedSum(0, 1), where=text).total[0]) for text in conditions}
    assert found == {text: TRUTH[text] for text in found}


def test_every_condition_holds_of_as_many_records_as_in_python() -> None:
    assert TRUTH["u = 9007199254740993"] == 2 and TRUTH["u > 9223372036854775807"] == 5  # as counted by hand
    check(arrow(), TRUTH)


def test_frames_and_files_hold_the_same(tmp_path: Path) -> None:
    import polars as pl

    pq.write_table(arrow(), tmp_path / "t.parquet")
    frame = pd.DataFrame({"u": pd.array(LARGE, "UInt64"), "i": pd.array(SMALL, "Int64")})
    for source in (tmp_path / "t.parquet", frame, pl.from_arrow(arrow())):
        check(source, FEW)
    wide = pa.array([None if one is None else Decimal(one) for one in LARGE], pa.decimal128(20, 0))
    check(arrow().set_column(0, "u", wide), FEW)


def test_postgres_holds_the_same(postgres_server: Any) -> None:
    """Which has no such column: there they are decimals, and one that is no number is compared with none."""
    psycopg = pytest.importorskip("psycopg")
    url = postgres_server.url(postgres_server.create_database(), scheme="postgresql")
    rows = [*zip(LARGE, SMALL, strict=True)]
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (u numeric(20, 0), i bigint)")
        cursor.executemany("INSERT INTO t VALUES (%s, %s)", rows)
        cursor.execute("INSERT INTO t VALUES ('NaN', NULL)")
    check(f"{url}?table=t", FEW)


@pytest.mark.parametrize("engine", [SPARK])
def test_spark_holds_the_same(engine: str, spark_session: Any, tmp_path: Path) -> None:
    """Which reads whole numbers without a sign as decimals."""
    pq.write_table(arrow(), tmp_path / "t.parquet")
    check(spark_session.read.parquet(str(tmp_path / "t.parquet")), FEW)
    gc.collect()
