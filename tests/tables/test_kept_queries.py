"""A query is put together once for a question, and has as many threads as memory holds; neither looks at a record."""

import gc
import weakref
from pathlib import Path
from typing import Any

import duckdb
import ibis
import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from sottovoce.inference.regression import Formula
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.records.facts import Facts, Flag, Number
from sottovoce.records.readings import CategoryCounts, ClippedSum, GroupMoments
from sottovoce.records.readings.functions import FunctionSum
from sottovoce.records.tables import Table, engine, open_table, sources
from sottovoce.records.tables.duckdb_threads import narrowed, threads_for
from sottovoce.records.tables.query_plans import KeptPlans


@pytest.fixture
def table() -> Any:
    with open_table(pa.table({"x": [1.0, 2.0, None, 50.0], "k": [0, 1, 1, 7], "c": ["a", "b", None, "a"]})) as opened:
        yield opened


def test_what_is_read_again_is_read_anew_by_the_same_words(table: Table) -> None:
    reading, changed = ClippedSum(0, 10), ClippedSum(0, 20)
    assert table.read(reading, "x").total[0] == 13
    kept = table._plan(reading, "x", None, None, None)
    assert kept.words is not None
    assert table._plan(ClippedSum(0, 10), "x", None, None, None) is kept
    assert table.read(changed, "x").total[0] == 23
    assert table.read(reading, "x", where="k = 1").total[0] == 2
    assert table.read(reading, "x", missing=5).total[0] == 18
    assert table.read(reading, "k").total[0] == 9


def test_questions_that_python_takes_for_the_same_are_told_apart() -> None:
    with open_table(pa.table({"k": [0, 1, 1, 2]})) as table:
        table._plans = KeptPlans(64)
        for categories in ((0, 1), (0.0, 1.0), (False, True), (1, 0), (0, 1)):
            counts = table.read(CategoryCounts(categories), "k").total
            assert counts.tolist() == ([3, 1] if categories == (1, 0) else [2, 2])
        assert len(table._plans) == 4


def test_so_many_questions_are_kept_and_no_more(table: Table) -> None:
    table._plans = KeptPlans(8)
    for high in range(1, 20):
        table.check(ClippedSum(0, high), "x")
    assert len(table._plans) == 8
    assert table.read(ClippedSum(0, 1), "x").total[0] == 3


def test_a_look_where_noise_led_is_not_kept() -> None:
    """Each takes a megabyte and more where there are many columns, and none is taken twice."""
    formula = Formula("y ~ x", Facts(y=Flag(), x=Number(0, 10)))
    with open_table(pa.table({"x": [1.0, 2.0, 3.0], "y": [True, False, True]})) as table:
        table._plans = KeptPlans(64)
        first = formula.look(3)
        for _ in range(2):
            table.read(first, formula.columns)
        for centre in (0.25, 0.5):
            table.read(formula.look_at(3, np.array([0.0, centre]), np.eye(2), 1.0, first.parts), formula.columns)
        assert len(table._plans) == 1


def test_tables_of_the_same_columns_share_words_and_nothing_else(tmp_path: Path) -> None:
    """What is kept outlives its table: it must name no connection, and know every type that a question is read by."""
    rows, others = ({"x": [x, 2.0, None], "c": ["1", "0", "2"]} for x in (1.0, 5.0))
    seen, connections = [], []
    for records in (rows, others):
        pq.write_table(pa.table(records), tmp_path / "x.parquet")
        pc.write_csv(pa.table(records), tmp_path / "x.csv")
        typed = {"types": {"x": "float64", "c": "int8"}}
        for source, more in (
            (pa.table(records), {}),
            (tmp_path / "x.parquet", {}),
            (tmp_path / "x.csv", {}),
            (tmp_path / "x.csv", typed),
            (tmp_path / "x.csv", {"facts": Facts({"x": Number(0, 10), "c": Flag()})}),
            (pa.table({"x": records["x"]}), {}),
        ):
            with open_table(source, **more) as table:
                asked = [(ClippedSum(0, 10), "x"), (CategoryCounts((0, 1)), None)]
                seen.append([table.read(*each, where="x > 1").total.tolist() for each in asked])
                seen[-1].append(table.count())
                if "c" in table.schema and (more or source == tmp_path / "x.csv"):
                    seen[-1].append(table.read(ClippedSum(0, 10), "c").total.tolist())
                kept = table._plan(ClippedSum(0, 10), "x", None, None, None)
            with open_table(source, **more) as again:
                assert again._plan(ClippedSum(0, 10), "x", None, None, None) is kept
            connections.append(weakref.ref(table._connection))
    plain, numbers, flags = [[2.0], [2.0, 1.0], 3], [[3.0]], [[1.0]]
    high = [[7.0], [1.0, 2.0], 3]
    for found, expected in ((seen[:6], plain), (seen[6:], high)):
        assert found == [expected, expected, expected + numbers, expected + numbers, expected + flags, expected]
    del table, again
    gc.collect()
    assert [ref() for ref in connections] == [None] * 12


def test_what_facts_call_a_flag_is_one_in_their_table_alone() -> None:
    rows = pa.table({"c": ["1", "0", "2"]})
    with open_table(rows, facts=Facts({"c": Flag()})) as flags, open_table(rows) as texts:
        assert flags.read(ClippedSum(0, 10), "c").total[0] == 1
        with pytest.raises(InvalidData, match="holds text"):
            texts.read(ClippedSum(0, 10), "c")


def test_what_is_asked_of_a_callers_table_is_kept_with_it() -> None:
    connection = ibis.duckdb.connect()
    connection.con.execute("CREATE TABLE made AS SELECT unnest([1.0, 2.0, 3.0]::DOUBLE[]) AS x")
    with open_table(connection.table("made")) as first, open_table(connection.table("made")) as second:
        plans = [table._plan(ClippedSum(0, 10), "x", None, None, None) for table in (first, second)]
        assert plans[0] is not plans[1]
        assert [len(table._plans) for table in (first, second)] == [1, 1]


def test_a_file_that_changed_is_read_as_it_is_now(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    for rows in ([1.0, 2.0], [3.0, 4.0]):
        pq.write_table(pa.table({"x": rows}), path)
        with open_table(path) as table:
            assert table.read(ClippedSum(0, 10), "x").total[0] == sum(rows)


def test_tables_and_functions_in_memory_are_told_to_the_engine() -> None:
    @ibis.udf.scalar.python
    def doubled(x: float) -> float:
        return 2 * x

    connection = ibis.duckdb.connect()
    held = ibis.memtable(pa.table({"x": [1.0, 2.0, 3.0]}))
    connection.con.execute("CREATE TABLE made AS SELECT unnest([1.0, 2.0, 3.0]::DOUBLE[]) AS x")
    made = connection.table("made")
    for source, expected in ((made.mutate(x=doubled(made.x)), 12), (made.union(held), 12)):
        with open_table(source) as table:
            assert [table.read(ClippedSum(0, 10), "x").total[0] for _ in range(2)] == [expected] * 2


def test_records_in_no_cell_are_in_none_by_whatever_key() -> None:
    """Where a number is missing the first key says so: cells, sums and n are those of memory."""
    rng = np.random.default_rng(3)
    odd = [None, float("nan"), float("inf"), float("-inf"), 1e308, -1e308, 0.0, 5.0]
    x = [odd[i] if i < len(odd) else float(v) for i, v in enumerate(rng.normal(2, 3, 400))]
    ward = [None if i % 11 == 0 else int(rng.integers(-1, 4)) for i in range(400)]
    age = [None if i % 7 == 0 else int(rng.integers(-5, 100)) for i in range(400)]
    rows = pa.table({"ward": ward, "x": pa.array(x, pa.float64()), "age": age})
    wards = ((0, 1, 2),)
    readings = [
        (GroupMoments(wards, (-1,), measures=((0.0, 5.0),), fillers=(None,), squared=True), ["ward", "x"]),
        (GroupMoments(wards, (2,), measures=((0.0, 5.0),), fillers=(None,), squared=True), ["ward", "x"]),
        (GroupMoments((), (), measures=((0.0, 5.0),), fillers=(None,), squared=True), ["x"]),
        (GroupMoments(wards, (-1,), measures=((0.0, 90.0),), fillers=(None,)), ["ward", "age"]),
        (GroupMoments(wards, (1,), measures=((-3.0, 90.0),), fillers=(2.0,)), ["ward", "age"]),
    ]
    with open_table(rows) as table:
        for reading, columns in readings:
            assert table.read(reading, columns) == reading.read([rows[name].to_pylist() for name in columns])


def test_fewer_threads_where_a_query_is_wide() -> None:
    wide = ", ".join(f"SUM(x * {k}.5 + {k}) AS s{k}" for k in range(2000))
    assert threads_for(wide, 2**30) < threads_for("SELECT SUM(x) FROM t", 2**30)
    assert threads_for(wide, 1.0) == 1
    connection = ibis.duckdb.connect(threads=32, memory_limit="500MB")

    def threads() -> int:
        return int(connection.con.execute("SELECT current_setting('threads')").fetchone()[0])

    with narrowed(connection, wide):
        assert threads() == threads_for(wide, 476.8 * 2**20) < 32
    assert threads() == 32
    with pytest.raises(duckdb.Error), narrowed(connection, wide):
        connection.raw_sql("SELECT no_such_column")
    assert threads() == 32
    with narrowed(connection, "SELECT 1"):
        assert threads() == 32
    connection.disconnect()


def test_a_wide_question_is_answered_on_a_machine_of_many_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without fewer threads the engine runs out of its memory."""
    d, n = 16, 34_000
    rng = np.random.default_rng(0)
    names = [f"x{i}" for i in range(d)]
    columns = {name: rng.uniform(-1, 1, n) for name in names} | {"y": rng.random(n) < 0.4}
    pq.write_table(pa.table(columns), tmp_path / "wide.parquet", row_group_size=2048)
    formula = Formula("y ~ " + " + ".join(names), Facts({"y": Flag()} | {name: Number(-1, 1) for name in names}))
    look = formula.look_at(n, np.zeros(d + 1), np.eye(d + 1) + 0.01, 5.0, ("score", "information"))
    monkeypatch.setitem(sources.SETTINGS, "memory_limit", "100MB")
    monkeypatch.setitem(sources.SETTINGS, "threads", 16)
    with open_table(tmp_path / "wide.parquet") as table:
        assert table.read(look, [*names, "y"]).n == n
        monkeypatch.setattr(engine, "narrowed", lambda *_: narrowed(table._connection, ""))
        with pytest.raises(InvalidData, match="OutOfMemory"):
            table.read(look, [*names, "y"])


def test_the_environment_says_how_much_memory_duckdb_may_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = "SELECT current_setting('memory_limit')"
    pq.write_table(pa.table({"x": [1.0]}), tmp_path / "x.parquet")
    for said, held in ((None, "953.6 MiB"), ("200MB", "190.7 MiB"), ("2 GB", "1.8 GiB")):
        monkeypatch.delenv("SOTTOVOCE_MEMORY", raising=False)
        if said is not None:
            monkeypatch.setenv("SOTTOVOCE_MEMORY", said)
        with open_table(tmp_path / "x.parquet") as table:
            assert table._connection.con.execute(limit).fetchone() == (held,)
    for odd in ("", "lots", "99MB", "-1GB", "1e9", "200"):
        monkeypatch.setenv("SOTTOVOCE_MEMORY", odd)
        with pytest.raises(InvalidValue, match=r"SOTTOVOCE_MEMORY is 100 MB or more"):
            open_table(tmp_path / "x.parquet")


def test_a_thread_is_counted_with_every_column_it_reads() -> None:
    few, many = (", ".join(f'SUM("t0"."x{i % k}" * 2)' for i in range(200)) for k in (2, 200))
    assert threads_for(many, 2**30) < threads_for(few, 2**30) / 10


class _Times:
    """A function that looks like every other of its kind."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __repr__(self) -> str:
        return "times"

    def __call__(self, record: Any) -> float:
        return self.factor * float(np.ravel(record)[0])


def test_two_functions_that_look_alike_are_two_questions() -> None:
    with open_table(pa.table({"x": [1.0, 2.0, 3.0]})) as table:
        found = [table.read(FunctionSum(_Times(k), (Number(0, 10),), 0, 10), ["x"]).total[0] for k in (1, 2)]
    assert found == [6, 12]
