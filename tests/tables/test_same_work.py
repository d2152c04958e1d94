"""Quick ways of reading give the same numbers, and no record chooses how a question is read."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sottovoce.records.readings import CategoryCounts, CellCounts, CrossCounts, GroupMoments, Moments, Reading
from sottovoce.records.tables import Table, open_table
from sottovoce.records.tables.cells import _even, bin_of
from sottovoce.records.tables.engine import ENGINES
from sottovoce.records.tables.persons import person_of

WORDS = ("north", "south", "")


def plan_of(table: Table, reading: Reading, columns: list[str], where: str | None) -> str:
    """Return the engine's plan, without the names of files and the numbers of rows it expects."""
    query = table._connection.compile(table._plan(reading, columns, where, None, None).query)
    rows = table._connection.con.execute(f"EXPLAIN {query}").fetchall()
    return re.sub(r"ibis_read_parquet_\w+|~?[\d,]+ rows?|[│┌┐└┘─├┤┬┴\s]+", " ", str(rows))


@pytest.mark.parametrize("where", [None, "age >= 40"])
def test_the_plan_is_the_same_whatever_the_records_hold(tmp_path: Path, where: str | None) -> None:
    """A single far number, NaN, null or stranger among the records leaves the plan as it is."""
    usual = pa.table({"x": [1.0, 2.0] * 50, "ward": [0, 1] * 50, "age": [50, 60] * 50})
    odd = pa.table({"x": [1e308, float("nan"), None], "ward": [2**40, None, -7], "age": [None, -3, 10**9]})
    plans = set()
    for name, rows in {"usual": usual, "odd": pa.concat_tables([usual.slice(3), odd])}.items():
        pq.write_table(rows, tmp_path / f"{name}.parquet")
        with open_table(tmp_path / f"{name}.parquet") as table:
            reading = GroupMoments(((0, 1),), (-1,), measures=((0.0, 5.0),), fillers=(None,), squared=True)
            plans.add(plan_of(table, reading, ["ward", "x"], where))
    assert len(plans) == 1


def test_pairs_are_counted_in_an_array_and_summed_in_a_table_of_those_there_are() -> None:
    """An array has room for all pairs of 8 bits: little for counts, too much for sums, and for persons of 16 bits.

    Of digits it has little for sums too, and for counts of three.
    """
    rows = pa.table({"ward": [0, 1, None], "age": [3, 300, None], "x": [1.0, None, 2.0], "whose": [1, 2, 2]})
    rows = rows.set_column(3, "whose", rows["whose"].cast(pa.int16()))
    groups = {"groups": ((0, 1),), "others": (-1,)}
    few = GroupMoments(**groups, measures=((0.0, 90.0),), fillers=(None,), squared=True)
    bins = CellCounts((False, True), ((0, 1), (0.5, 1.5)), (-1, -1))
    digits, tens = tuple(range(9)), tuple(range(10))
    measured = {"measures": ((0.0, 90.0),), "fillers": (None,), "squared": True}
    with open_table(rows) as table:
        for reading, columns, array in (
            (few, ["ward", "age"], True),
            (bins, ["ward", "x"], True),
            (GroupMoments((tens, tens), (-1, -1)), ["ward", "age"], True),
            (GroupMoments((tens, tens), (-1, -1), **measured), ["ward", "age", "x"], False),
            (GroupMoments((digits, tens), (-1, -1), **measured), ["ward", "age", "x"], True),
            (GroupMoments((digits, digits, digits), (-1, -1, -1)), ["ward", "age", "whose"], True),
            (GroupMoments((digits, tens, digits), (-1, -1, -1)), ["ward", "age", "whose"], False),
        ):
            assert ("PERFECT_HASH_GROUP_BY" in plan_of(table, reading, columns, None)) is array
        whose = person_of(table._records, "whose")
        assert whose.type().nbytes == 4


@pytest.fixture(scope="module")
def odd_texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts that are no UTF-8 among others, in several row groups, beside numbers of every kind."""
    raw = [b"north", b"\xff\xfe", None, b"south", b"", b"nor\xc3", b"North"] * 40
    texts = _as_text(raw)
    n, rng = len(raw), np.random.default_rng(4)
    whole = pa.array([None if i % 9 == 0 else int(rng.integers(-2, 5)) for i in range(n)], pa.int32())
    real = pa.array([(1.5, None, float("nan"), float("inf"), -1e308, 0.25)[i % 6] for i in range(n)])
    flag = pa.array([(True, False, None)[i % 3] for i in range(n)])
    path = tmp_path_factory.mktemp("odd") / "texts.parquet"
    pq.write_table(pa.table({"c": texts, "k": whole, "x": real, "flag": flag}), path, row_group_size=50)
    return path


def _as_text(raw: list[bytes | None]) -> pa.Array:
    """Return bytes as a column of text that nobody checked."""
    there = pa.array(raw, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(raw), there.buffers(), null_count=there.null_count)


READINGS: list[tuple[Reading, list[str]]] = [
    (CategoryCounts(WORDS), ["c"]),
    (CategoryCounts(("North", *WORDS, *map(str, range(9)))), ["c"]),
    (CrossCounts((WORDS, (0, 1, 2), (False, True)), ((0,), (0, 1), (1, 2)), (-1, -1, 0)), ["c", "k", "flag"]),
    (CellCounts((False, True), (WORDS, (0.0, 1.0)), (3, -1)), ["c", "x"]),
    (GroupMoments((WORDS,), (1,), measures=((-1.0, 2.0),), fillers=(None,), squared=True), ["c", "x"]),
    (GroupMoments((WORDS, (0, 3)), (-1, -1)), ["c", "k"]),
]


@pytest.mark.parametrize(("reading", "columns"), READINGS, ids=lambda value: str(value)[:16])
def test_counts_by_texts_are_those_of_memory(odd_texts: Path, reading: Reading, columns: list[str]) -> None:
    rows = pq.read_table(odd_texts)
    texts = [None if b is None else b.decode("utf-8", "replace") for b in _as_bytes(rows["c"])]
    held = {name: texts if name == "c" else rows[name].to_pylist() for name in columns}
    whole = reading.read(held["c"] if isinstance(reading, CategoryCounts) else [held[name] for name in columns])
    with open_table(odd_texts) as table:
        assert table._plan(reading, columns, None, None, None).stream
        assert table.read(reading, columns) == whole
        table._batches = None  # by DuckDB's own sums
        assert table.read(reading, columns) == whole


def _as_bytes(column: pa.ChunkedArray) -> list[bytes | None]:
    return [b for chunk in column.chunks for b in chunk.view(pa.binary()).to_pylist()]


@pytest.mark.parametrize(("low", "high", "bins"), [(0.0, 80.0, 64), (-1e-6, 3e-6, 7), (0.1, 0.7, 33), (-1e9, 3e9, 128)])
def test_even_bins_are_those_between_the_edges(low: float, high: float, bins: int) -> None:
    inner = np.linspace(low, high, bins + 1)[1:-1]
    far = [-np.inf, np.inf, -1e308, 1e308, 5e-324, 0.0, np.nan, low, high, (low + high) / 2]
    rng = np.random.default_rng(2)
    near = [edge for e in inner for edge in (e, np.nextafter(e, -np.inf), np.nextafter(e, np.inf))]
    values = np.array([*far, *near, *rng.uniform(2 * low - high, 2 * high - low, 2000)])
    with open_table(pa.table({"x": values})) as table:
        engine = ENGINES["duckdb"]
        assert _even(table._records.x, tuple(inner)) is not None
        found = table._records.select(x=table._records.x, bin=bin_of(engine, table._records.x, tuple(inner), None))
        rows = table._connection.to_pyarrow(found)
    expected = [None if np.isnan(v) else int(np.searchsorted(inner, v, side="right")) for v in rows["x"].to_numpy()]
    assert rows["bin"].to_pylist() == expected


@pytest.mark.parametrize("bins", [64, 126, 127, 128, 300])
@pytest.mark.parametrize("other", [-1, 2])
@pytest.mark.parametrize("file", [True, False])
def test_missing_numbers_are_in_their_bin_and_records_left_out_in_none(
    tmp_path: Path, bins: int, other: int, file: bool
) -> None:
    """Null, NaN and the infinities, beside a record that no condition holds for: no two of them are mistaken."""
    inner = tuple(np.linspace(-1.0, 3.0, bins + 1)[1:-1].tolist())
    numbers = [None, float("nan"), np.inf, -np.inf, 0.0, 2.9, -1.0, 3.0, 99.0, -99.0] * 3
    asked = [0] * 10 + [1] * 10 + [None] * 10
    rows = pa.table({"x": pa.array(numbers, pa.float64()), "ask": pa.array(asked, pa.int32())})
    pq.write_table(rows, tmp_path / "rows.parquet")
    reading = CellCounts((True,), (inner,), (other,))
    inside = reading.read([numbers[10:20]]).total[:-1]
    with open_table(tmp_path / "rows.parquet" if file else rows) as table:
        assert table.read(reading, ["x"]) == reading.read([numbers])
        seen = table.read(reading, ["x"], where="ask = 1")
    assert seen.n == 30
    assert seen.total[:-1].tolist() == inside.tolist()


@pytest.mark.parametrize("bits", [7, 8, 15, 16, 31, 32, 63, 64])
@pytest.mark.parametrize("filler", [None, 2.0])
def test_no_number_is_near_the_end_of_what_a_cast_can_hold(bits: int, filler: float | None) -> None:
    """DuckDB checks a double before it rounds it: half a step below 2³¹ it becomes -2³¹."""
    steps = [sign * (2.0**bits + off) for sign in (-1, 1) for off in (-1.6, -1.0, -0.6, -0.5, -0.4, 0.0, 0.4, 0.5, 0.6)]
    moments = GroupMoments((), (), measures=((0.0, 80.0),), fillers=(filler,), squared=True)
    cut = GroupMoments((), (), edges=tuple(np.linspace(0.0, 80.0, 65).tolist()), fillers=(filler,))
    for reading, numbers in (
        (moments, [40.0 + step / moments.scales[0].factor for step in steps]),
        (cut, [step * 1.25 for step in steps]),
    ):
        with open_table(pa.table({"x": [*numbers, None]})) as table:
            assert table.read(reading, ["x"]) == reading.read([[*numbers, None]])


@pytest.mark.parametrize("where", [None, "k > 1"])
def test_moments_of_numbers_of_every_size_are_those_of_memory(where: str | None) -> None:
    """DuckDB cuts nothing off that is tiny: it is no step of the grid, and no product of it an error."""
    rng = np.random.default_rng(8)
    size = 10.0 ** rng.integers(-310, 309, (300, 2)) * rng.choice([-1.0, 1.0], (300, 2))
    x = np.where(rng.random((300, 2)) < 0.1, rng.choice([np.nan, np.inf, -np.inf, 0.0], (300, 2)), size)
    y = np.concatenate([rng.normal(0, 3, 200), 10.0 ** rng.integers(-310, 309, 99), [np.nan]])
    x[200:] = rng.normal(0, 0.1, (100, 2))
    k = rng.integers(0, 4, 300)
    reading = Moments(3, 1.5, (-2.0, 2.0), binary=False, intercept=0.4)
    with open_table(pa.table({"a": x[:, 0], "b": x[:, 1], "y": y, "k": k})) as table:
        seen = table.read(reading, ["a", "b", "y"], where=where)
    kept = np.ones(300, dtype=bool) if where is None else k > 1
    assert seen.n == 300
    assert seen.total.tolist() == reading.read((x[kept], y[kept])).total.tolist()
