"""What a table refuses, and that a refusal never depends on a record."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.records.readings import BallSum, CategoryCounts, ClippedRows, ClippedSum, Moments
from sottovoce.records.tables import Table, open_table

RECORDS = pa.table({"age": [30, 40], "ward": ["N", "S"], "day": pa.array([0, 1], pa.date32()), "x": [0.5, 1.5]})


@pytest.fixture(scope="module")
def records() -> Iterator[Table]:
    """A table opened once and only read from."""
    with open_table(RECORDS) as table:
        yield table


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((ClippedSum(0, 1), "aeg"), InvalidData, "did you mean 'age'"),
        ((ClippedSum(0, 1), "zzz"), InvalidData, "it has 'age', 'ward', 'day', 'x'"),
        ((ClippedSum(0, 1), "ward"), InvalidData, "holds text"),
        ((ClippedSum(0, 1), "day"), InvalidData, "holds days"),
        ((ClippedSum(0, 1), ["age", "x"]), InvalidData, "takes one column"),
        ((ClippedSum(0, 1), 3), InvalidData, "named by a text"),
        ((ClippedSum(0, 1), None), InvalidData, "say what to read"),
        ((ClippedSum(0, float("inf")), "x"), InvalidValue, "finite"),
        ((ClippedSum(0, float("nan")), "x"), InvalidValue, "finite"),
        ((ClippedSum(2, 1), "x"), InvalidValue, "lower one first"),
        ((ClippedSum(0, 2.5, integer=True), "x"), InvalidValue, "whole bounds"),
        ((ClippedSum(0, 1e30), "x"), InvalidValue, "another unit"),
        ((ClippedSum(0, 1e-30), "x"), InvalidValue, "another unit"),
        ((CategoryCounts(("N", 3)), "ward"), InvalidData, "holds text"),
        ((CategoryCounts(("N", "S")), "age"), InvalidData, "holds numbers"),
        ((CategoryCounts((1.0, float("nan"))), "age"), InvalidData, "cannot be found"),
        ((CategoryCounts(("N", "N")), "ward"), InvalidValue, "different values"),
        ((CategoryCounts(()), "ward"), InvalidValue, "different values"),
        ((BallSum(3, 1.0), ["age", "x"]), InvalidData, "takes 3 columns"),
        ((BallSum(2, 1.0), ["ward", "x"]), InvalidData, "holds text"),
        ((BallSum(1, 0.0), ["x"]), InvalidValue, "radius"),
        (("sum", "x"), InvalidValue, "expected a reading"),
    ],
)
def test_a_bad_request_is_refused(
    records: Table, arguments: tuple[Any, ...], error: type[Exception], words: str
) -> None:
    for ask in (records.read, records.check):
        with pytest.raises(error, match=words) as caught:
            ask(*arguments)
        assert "\n" not in str(caught.value)


def test_a_check_reads_no_record(tmp_path: Path) -> None:
    path = tmp_path / "gone.parquet"
    pq.write_table(RECORDS, path)
    with open_table(path) as table:
        path.unlink()
        table.check(ClippedSum(0, 1), "age", where="ward = 'N'")
        table.check(CategoryCounts(("N", "S")), "ward", missing="S")
        table.check(BallSum(2, 1.0), ["age", "x"])
        with pytest.raises(InvalidData, match=r"gone\.parquet could not be read"):
            table.read(ClippedSum(0, 1), "age", where="ward = 'N'")


@pytest.mark.parametrize(
    ("reading", "column", "missing"),
    [
        (ClippedSum(0, 1), "x", 2.0),
        (ClippedSum(0, 1), "x", float("nan")),
        (ClippedSum(0, 1), "x", "0"),
        (CategoryCounts(("N", "S")), "ward", "W"),
        (BallSum(1, 1.0), ["x"], 0.0),
    ],
)
def test_missing_must_lie_in_the_range_of_the_reading(records: Table, reading: Any, column: Any, missing: Any) -> None:
    with pytest.raises(InvalidValue, match="missing"):
        records.read(reading, column, missing=missing)


@pytest.mark.parametrize("kind", [Moments, ClippedRows])
def test_regressions_refuse_what_they_cannot_read(kind: Any) -> None:
    with open_table(RECORDS) as table:
        with pytest.raises(InvalidData, match="1 feature"):
            table.read(kind(1, 1.0), ["x"])
        with pytest.raises(InvalidData, match="no column"):
            table.read(kind(1, 1.0), ["age", "target"])
        with pytest.raises(InvalidValue, match="leave missing out"):
            table.read(kind(1, 1.0), ["age", "x"], missing=0.5)
        with pytest.raises(InvalidValue, match="data_norm"):
            kind(1, -1.0)


def test_an_empty_table(tmp_path: Path) -> None:
    pq.write_table(RECORDS.slice(0, 0), tmp_path / "empty.parquet")
    with open_table(tmp_path / "empty.parquet") as table:
        assert table.count() == 0
        for reading, column in (
            (ClippedSum(0, 1), "x"),
            (CategoryCounts(("N", "S")), "ward"),
            (BallSum(1, 1.0), ["x"]),
        ):
            seen = table.read(reading, column)
            assert seen.n == 0
            assert not np.any(seen.total)
        assert table.read(ClippedRows(1, 1.0), ["age", "x"]).n == 0


def test_a_closed_table_says_so_and_leaves_the_callers_connection_open() -> None:
    connection = ibis.duckdb.connect()
    connection.con.register("records", RECORDS)
    table = open_table(connection.table("records"))
    assert repr(table) == "Table('the Ibis table', 4 columns)"
    table.close()
    table.close()
    with pytest.raises(InvalidData, match="closed"):
        table.count()
    assert connection.list_tables() == ["records"]


class OneRecord:
    """A table of three doubles that holds one record, another for each question: opened and planned for only once."""

    def __init__(self) -> None:
        self.connection = ibis.duckdb.connect()
        self.connection.con.execute("CREATE TABLE records (x0 DOUBLE, x1 DOUBLE, x2 DOUBLE)")
        self.table = open_table(self.connection.table("records"))

    def of(self, *record: float | None) -> Table:
        self.connection.con.execute("DELETE FROM records")
        self.connection.con.execute("INSERT INTO records VALUES (?, ?, ?)", record)
        return self.table


@pytest.fixture(scope="module")
def one() -> Iterator[OneRecord]:
    one = OneRecord()
    yield one
    one.connection.disconnect()


ANYTHING = st.none() | st.floats(width=64) | st.sampled_from([0.1, 0.7, -0.3, 1e308, 5e-324])


@settings(max_examples=20, deadline=None)
@given(
    record=ANYTHING,
    bounds=st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)).map(sorted),
    missing=st.floats(0, 1),
)
def test_what_a_record_adds_lies_within_the_bounds(
    one: OneRecord, record: float | None, bounds: list[float], missing: float
) -> None:
    low, high = bounds
    filler = min(low + missing * (high - low), high)
    assume(max(-low, high) >= 1e-9)
    assume(high - low >= 1e-9 or high == low)
    try:
        total = one.of(record, None, None).read(ClippedSum(low, high), "x0", missing=filler).total[0]
    except InvalidValue:  # bounds closer together than a step, known without the record
        assert high - low < 2.0**-50 * max(-low, high)
        return
    assert low <= total <= high


@settings(max_examples=20, deadline=None)
@given(record=st.lists(ANYTHING, min_size=3, max_size=3), radius=st.floats(1e-6, 1e6))
def test_a_projected_record_lies_in_the_ball_exactly(one: OneRecord, record: list[float | None], radius: float) -> None:
    total = one.of(*record).read(BallSum(3, radius), ["x0", "x1", "x2"]).total
    assert sum(Fraction(v) ** 2 for v in total) <= Fraction(radius) ** 2


@settings(max_examples=20, deadline=None)
@given(first=st.lists(ANYTHING, min_size=3, max_size=3), second=st.lists(ANYTHING, min_size=3, max_size=3))
def test_one_record_never_moves_the_gram_matrix_by_more_than_its_sensitivity(
    one: OneRecord, first: list[float | None], second: list[float | None]
) -> None:
    """‖xx' − zz'‖ ≤ √2 c² and ‖xy − zt‖ ≤ 2cB for rows of norm c and targets within ±B."""
    reading = Moments(3, 1.0, (-2, 2), binary=False, intercept=0.4)

    def sums(record: list[float | None]) -> tuple[np.ndarray, np.ndarray]:
        gram, moment, *_ = reading.split(one.of(*record).read(reading, ["x0", "x1", "x2"]).total)
        return gram, moment

    (gram, moment), (other_gram, other_moment) = sums(first), sums(second)
    assert np.linalg.norm(gram - other_gram) <= np.sqrt(2)
    assert np.linalg.norm(moment - other_moment) <= 4


def test_a_condition_alone_is_a_record_of_0_or_1() -> None:
    with open_table(RECORDS) as table:
        assert table.read(ClippedSum(0, 1), where="age > 35").total.tolist() == [1.0]
        assert table.read(ClippedSum(0.25, 0.5), where="age > 35").total.tolist() == [0.75]
        assert table.read(CategoryCounts((1, 0)), where="age > 5").total.tolist() == [2.0, 0.0]
        assert table.read(CategoryCounts((False, True)), where="age > 35").total.tolist() == [1.0, 1.0]
        with pytest.raises(InvalidValue, match="0 and 1"):
            table.read(CategoryCounts(("no", "yes")), where="age > 35")
        with pytest.raises(InvalidValue, match="never missing"):
            table.read(ClippedSum(0, 1), where="age > 35", missing=0)
        with pytest.raises(InvalidValue, match="lower one first"):
            table.read(ClippedSum(1, 0), where="age > 35")


@pytest.mark.parametrize("bounds", [(0, 90), (-10, 0), (-10, 10), (3, 9), (-9, -3), (0, 0)])
def test_a_missing_whole_number_is_what_it_counts_as_wherever_that_lies(bounds: tuple[int, int]) -> None:
    low, high = bounds
    ages = [None, -5, 0, 3, 90, 91, 10**12, None, -(2**63)]
    with open_table(pa.table({"age": pa.array(ages, pa.int64())})) as table:
        for missing in (None, low, high, (low + high) // 2):
            seen = table.read(ClippedSum(low, high), "age", missing=missing)
            assert seen == ClippedSum(low, high).read(ages, missing)
