import itertools

import numpy as np
import pyarrow as pa
import pytest

from sottovoce.inference.latent import ChainGrid, CountTables, Field
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.records.readings import Statistics
from sottovoce.records.tables import open_table

GRID = ChainGrid(Field("region", ("N", "S")), (Field("year", (2018, 2019)), Field("month", (1, 2, 3))))
FIELDS = (Field("kind", ("a", "b", "c")), Field("hurt", (0, 1)))
TABLES = CountTables.over(GRID, FIELDS)


def events(n: int, seed: int = 1) -> dict[str, list[object]]:
    rng = np.random.default_rng(seed)
    return {f.name: [f.categories[i] for i in rng.integers(0, f.size, n)] for f in TABLES.fields}


def test_tables_count_what_a_loop_counts() -> None:
    data = events(400)
    kinds, hurts = TABLES.arrays(TABLES.statistics(data))
    assert kinds.shape == (2, 2, 3, 3)
    assert hurts.shape == (2, 2, 3, 2)
    rows = list(zip(*data.values(), strict=True))
    for r, y, m, k in itertools.product(*(f.categories for f in (*GRID.fields, FIELDS[0]))):
        place = tuple(f.categories.index(v) for f, v in zip((*GRID.fields, FIELDS[0]), (r, y, m, k), strict=True))
        assert kinds[place] == sum(row[:4] == (r, y, m, k) for row in rows)


def test_frames_arrow_tables_and_lists_of_columns_are_read_alike() -> None:
    data = events(50)
    read = TABLES.statistics(data)
    assert TABLES.statistics(pa.table(data)) == read
    assert TABLES.statistics(pa.table(data).to_pandas()) == read
    assert TABLES.statistics(list(data.values())) == read


def test_the_engine_counts_what_memory_counts() -> None:
    data = events(500, seed=2)
    with open_table(pa.table(data)) as table:
        read = table.read(TABLES, TABLES.columns)
    assert read == TABLES.statistics(data)


def test_the_engine_leaves_unknown_values_out_and_counts_them_in_n() -> None:
    data = events(100, seed=3)
    data["kind"][0] = "unheard of"
    data["hurt"][1] = None
    data["region"][2] = None
    with open_table(pa.table(data)) as table:
        read = table.read(TABLES, TABLES.columns)
    kept = {name: column[3:] for name, column in data.items()}
    assert read.n == 100
    np.testing.assert_array_equal(read.total, TABLES.statistics(kept).total)


def test_other_takes_what_no_category_fits_both_ways() -> None:
    fields = (Field("kind", ("a", "rest"), other="rest"), Field("age", (1, 2), other=2))
    tables = CountTables(fields, (("kind",), ("age",)))
    data = {"kind": ["a", "z", None, "a"], "age": [1.0, float("nan"), 7.0, 2.0]}
    with open_table(pa.table(data)) as table:
        read = table.read(tables, ["kind", "age"])
    np.testing.assert_array_equal(read.total, [2, 2, 1, 3])
    assert tables.statistics(data) == read


def test_a_condition_leaves_records_out_of_every_table() -> None:
    data = events(200, seed=4)
    with open_table(pa.table(data)) as table:
        read = table.read(TABLES, TABLES.columns, where="kind = 'a' or hurt = 1")
    keep = [k == "a" or h == 1 for k, h in zip(data["kind"], data["hurt"], strict=True)]
    kept = {name: [v for v, wanted in zip(column, keep, strict=True) if wanted] for name, column in data.items()}
    assert read.n == 200
    np.testing.assert_array_equal(read.total, TABLES.statistics(kept).total)


def test_the_engine_says_what_it_cannot_read() -> None:
    with open_table(pa.table(events(5))) as table:
        with pytest.raises(InvalidData, match="takes 5 columns"):
            table.check(TABLES, ["kind"])
        with pytest.raises(InvalidData, match="no column 'knid'"):
            table.check(TABLES, ["region", "year", "month", "knid", "hurt"])
        with pytest.raises(InvalidData, match="cannot be found"):
            table.check(TABLES, ["year", "year", "month", "kind", "hurt"])
        with pytest.raises(InvalidValue, match="missing"):
            table.check(TABLES, TABLES.columns, missing="a")
    with open_table(pa.table(events(5)).slice(0, 0)) as table:
        assert table.read(TABLES, TABLES.columns).n == 0


def test_zero_events_are_empty_tables() -> None:
    read = TABLES.statistics({name: [] for name in TABLES.columns})
    assert read.n == 0
    assert not read.total.any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": np.array([["a"]])}, "one column"),
        ({"kind": ["a", "b"]}, "different lengths"),
    ],
)
def test_records_that_do_not_fit_are_refused(change: dict[str, list[object]], message: str) -> None:
    record = {"region": ["N"], "year": [2018], "month": [1], "kind": ["a"], "hurt": [0]}
    with pytest.raises(InvalidData, match=message):
        TABLES.statistics(record | change)


@pytest.mark.parametrize("odd", ["z", None, ["a"], 3.5, object(), np.nan, 10**400], ids=lambda odd: type(odd).__name__)
def test_a_record_outside_of_the_lists_is_left_out_as_in_a_table(odd: object) -> None:
    data = events(40, seed=3)
    data["kind"][7] = odd
    kept = {name: [v for i, v in enumerate(column) if i != 7] for name, column in data.items()}
    read = TABLES.statistics(data)
    assert (read.n, read.total.tolist()) == (40, TABLES.statistics(kept).total.tolist())
    if odd in ("z", None):
        with open_table(pa.table(data)) as table:
            assert table.read(TABLES, TABLES.columns) == read


def test_a_missing_column_is_named() -> None:
    with pytest.raises(InvalidData, match="no column 'year'"):
        TABLES.statistics({"region": ["N"]})
    with pytest.raises(InvalidData, match="frame or a mapping"):
        TABLES.statistics(3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Field("", (1,)), "name of a column"),
        (lambda: Field("a", ()), "at least one"),
        (lambda: Field("a", (1, 1)), "different values"),
        (lambda: Field("a", "abc"), "list of values"),
        (lambda: Field("a", ([1], [2])), "texts or numbers"),
        (lambda: Field("a", (1, 2), other=3), "other must be one of"),
        (lambda: ChainGrid(Field("a", (1,)), ()), "at least one for its steps"),
        (lambda: CountTables((Field("a", (1, 2)),), ()), "nothing to count"),
        (lambda: CountTables((Field("a", (1,)),), (("a",),)), "single cell"),
        (lambda: CountTables((Field("a", (1, 2)),), (("b",),)), "crosses different fields"),
        (lambda: CountTables((Field("a", (1, 2)), Field("a", (1, 2))), (("a",),)), "different names"),
    ],
)
def test_descriptions_that_make_no_sense_are_refused(make, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        make()


@pytest.mark.parametrize("total", [[1.5, 0.5], [-1, 3], [3, 0], [1, 1, 0], [float("nan"), 1]])
def test_statistics_of_other_tables_are_refused(total: list[float]) -> None:
    tables = CountTables((Field("a", (1, 2)),), (("a",),))
    with pytest.raises(InvalidData):
        tables.arrays(Statistics(2, np.array(total)))


def test_count_tables_survive_json() -> None:
    assert CountTables.from_dict(TABLES.to_dict()) == TABLES
    with pytest.raises(InvalidValue, match="cannot read count tables"):
        CountTables.from_dict({"fields": 3})
