"""Derived columns on every engine, record by record, beside what plain Python makes of the same record."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.records.facts import Category, Count, Day, Derived, Facts, Flag, Number
from sottovoce.records.readings import CategoryCounts, ClippedSum
from sottovoce.records.tables import open_table
from sottovoce.records.tables.derived_columns import with_derived

from .conftest import SPARK

_DATE = datetime.date
COST = [None, math.nan, math.inf, -math.inf, -0.0, 5e-324, 1e-300, 1e308, 0.5, 1.0, 99.99999999999999, 7.0, -3.0]
DAYS = [
    None,
    _DATE(1900, 1, 1),
    _DATE(2023, 12, 31),
    _DATE(2024, 2, 29),
    _DATE(2024, 12, 31),
    _DATE(2025, 1, 1),
    _DATE(2999, 12, 31),
]
WARDS = [None, "", "A", "B", "a", "A ", "C", "o'hara"]
FACTS = Facts(
    cost=Number(0.5, 100),
    change=Number(-1, 2),
    visits=Count(9, missing=3),
    admitted=Day("2023-11-30", "2025-01-31"),
    discharged=Day("2024-01-01", "2025-03-01", missing="2025-03-01"),
    ward=Category(["A", "B", "o'hara"]),
    dead=Flag(),
    log_cost=Derived("log(cost)"),
)
NAMES = ["cost", "change", "visits", "admitted", "discharged", "ward", "dead"]


def _records() -> list[tuple[Any, ...]]:
    visits = [None, 0, 9, 10, -1, 2**62]
    dead = [None, True, False]
    size = 210
    values = (COST, [-x if x is not None else None for x in COST], visits, DAYS, DAYS[::-1], WARDS, dead)
    strides = (1, 5, 1, 1, 3, 1, 1)
    cycles = [
        [given[(k * stride) % len(given)] for k in range(size)] for given, stride in zip(values, strides, strict=True)
    ]
    return list(zip(*cycles, strict=True))


RECORDS = _records()
FIRST_SEEN: dict[str, float] = {}


def _number(x: float | None, low: float, high: float) -> float | None:
    return None if x is None or math.isnan(x) else min(max(float(x), low), high) + 0.0


def _held(record: tuple[Any, ...]) -> dict[str, Any]:
    """What the facts make of a record."""
    cost, change, visits, admitted, discharged, ward, dead = record
    days = FACTS["admitted"], FACTS["discharged"]
    first, last = (
        None if day is None else min(max(day, column.first), column.last)  # type: ignore[attr-defined]
        for day, column in zip((admitted, discharged), days, strict=True)
    )
    return {
        "cost": _number(cost, 0.5, 100.0),
        "change": _number(change, -1.0, 2.0),
        "visits": 3.0 if visits is None else _number(visits, 0.0, 9.0),
        "admitted": first,
        "discharged": _DATE(2025, 3, 1) if last is None else last,
        "ward": ward if ward in ("A", "B", "o'hara") else None,
        "dead": dead,
    }


def _total(function: Callable[..., Any], *names: str) -> Callable[[dict[str, Any]], Any]:
    def of(held: dict[str, Any]) -> Any:
        values = [held[name] for name in names]
        return None if any(value is None for value in values) else function(*values)

    return of


_WEEK = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
ORACLES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "log_cost": _total(math.log, "cost"),
    "log(1 + cost)": _total(lambda x: math.log(1 + x), "cost"),
    "sqrt(cost)": _total(math.sqrt, "cost"),
    "cost ^ 2": _total(lambda x: x * x, "cost"),
    "square(change)": _total(lambda x: 0.0 if abs(x) < 2.0**-200 else x * x, "change"),
    "abs(change)": _total(abs, "change"),
    "cost - change": _total(lambda x, y: x - y, "cost", "change"),
    "cost * change": _total(lambda x, y: 0.0 if abs(y) < 2.0**-200 else x * y, "cost", "change"),
    "change / cost": _total(lambda x, y: 0.0 if abs(x) < 2.0**-200 else x / y, "change", "cost"),
    "visits + dead": _total(lambda x, y: x + y, "visits", "dead"),
    "discharged - admitted": _total(lambda x, y: float((x - y).days), "discharged", "admitted"),
    "clip(discharged - admitted, 0, 60)": _total(
        lambda x, y: float(min(max((x - y).days, 0), 60)), "discharged", "admitted"
    ),
    "admitted - '2024-01-01'": _total(lambda x: float((x - _DATE(2024, 1, 1)).days), "admitted"),
    "year(admitted)": _total(lambda x: x.year, "admitted"),
    "quarter(admitted)": _total(lambda x: (x.month + 2) // 3, "admitted"),
    "month(admitted)": _total(lambda x: x.month, "admitted"),
    "yearmonth(admitted)": _total(lambda x: f"{x:%Y-%m}", "admitted"),
    "weekday(admitted)": _total(lambda x: _WEEK[x.weekday()], "admitted"),
    "bands(cost, 1, 50)": _total(
        lambda x: "under 1" if x < 1 else "1 to under 50" if x < 50 else "50 and over", "cost"
    ),
    "bands(admitted, '2024-02-29')": _total(
        lambda x: "before 2024-02-29" if x < _DATE(2024, 2, 29) else "2024-02-29 and later", "admitted"
    ),
    "coalesce(change, cost, 7)": lambda held: next(
        (held[name] for name in ("change", "cost") if held[name] is not None), 7.0
    ),
    "coalesce(ward, 'none')": lambda held: held["ward"] or "none",
    "coalesce(admitted, discharged)": lambda held: held["admitted"] or held["discharged"],
    "coalesce(dead, dead)": lambda held: held["dead"],
    "recode(ward, 'A' = 'x', 'o''hara' = 'y')": lambda held: {"A": "x", "o'hara": "y"}.get(held["ward"]),
    "recode(ward, 'A' = 2.5, 1)": _total(lambda x: 2.5 if x == "A" else 1.0, "ward"),
    "recode(weekday(admitted), 'Saturday' = 'end', 'Sunday' = 'end', 'week')": _total(
        lambda x: "end" if x.weekday() > 4 else "week", "admitted"
    ),
    "sqrt(square(log(cost)) + 1)": _total(lambda x: math.sqrt(math.log(x) * math.log(x) + 1), "cost"),
}
"""Each expression, and what it makes of a record by the functions of Python."""


def _arrow() -> pa.Table:
    kinds = [pa.float64(), pa.float64(), pa.int64(), pa.date32(), pa.date32(), pa.string(), pa.bool_()]
    columns = zip(*RECORDS, strict=True)
    return pa.table({n: pa.array(c, k, from_pandas=False) for n, c, k in zip(NAMES, columns, kinds, strict=True)})


@pytest.fixture(scope="module", params=["parquet", "pandas", "polars", "postgres", SPARK])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The hostile records on an engine."""
    table = _arrow()
    source: Any = tmp_path_factory.mktemp("derived") / "records.parquet"
    if request.param == "parquet":
        pq.write_table(table, source)
    elif request.param == "pandas":
        source = pd.DataFrame({name: pd.Series(table[name].to_pylist(), dtype=object) for name in NAMES})
    elif request.param == "polars":
        source = pytest.importorskip("polars").from_arrow(table)
    elif request.param == "postgres":
        source = _in_postgres(request.getfixturevalue("postgres_server"))
    else:
        source = request.getfixturevalue("spark_session").createDataFrame(table)
    with open_table(source, facts=FACTS) as opened:
        yield opened


def _in_postgres(server: Any) -> str:
    import psycopg

    url = server.url(server.create_database(), scheme="postgresql")
    with psycopg.connect(url) as connection:
        connection.execute(
            "CREATE TABLE stays (cost double precision, change double precision, visits bigint, admitted date, "
            "discharged date, ward text, dead boolean)"
        )
        with connection.cursor() as cursor, cursor.copy("COPY stays FROM STDIN") as copy:
            for record in RECORDS:
                copy.write_row(record)
    return f"{url}?table=stays"


@pytest.fixture(scope="module")
def seen(engine: Any) -> dict[str, list[Any]]:
    """What an engine makes of every record, in one query, the records in an order of its own."""
    records = with_derived(engine._engine, engine._records, FACTS, list(ORACLES))
    query = records.select(**{f"v{place}": records[text] for place, text in enumerate(ORACLES)})
    connection = engine._connection
    if connection.name == "pyspark":
        rows = [tuple(row) for row in connection._session.sql(connection.compile(query)).collect()]
        return dict(zip(ORACLES, map(list, zip(*rows, strict=True)), strict=True))
    columns = connection.to_pyarrow(query)
    return {text: columns[f"v{place}"].to_pylist() for place, text in enumerate(ORACLES)}


def _key(value: Any) -> tuple[bool, str]:
    return value is None, "" if value is None else f"{value:025.12f}" if isinstance(value, float) else str(value)


@pytest.mark.parametrize("text", ORACLES)
def test_every_record_is_what_python_makes_of_it(seen: dict[str, list[Any]], text: str) -> None:
    wanted = sorted((ORACLES[text](_held(record)) for record in RECORDS), key=_key)
    kind, values = FACTS[text], sorted(seen[text], key=_key)
    assert [value is None for value in values] == [value is None for value in wanted]
    for here, there in zip(values, wanted, strict=True):
        if here is None:
            continue
        if isinstance(kind, Number | Count):
            slack = 4 * math.ulp(there) if "log" in text else 0.0
            assert isinstance(here, float) and abs(here - there) <= slack
            assert kind.bounds[0] <= here <= kind.bounds[1]
        else:
            assert str(here)[:10] == str(there)[:10] if isinstance(kind, Day) else here == there
            assert not isinstance(kind, Category) or here in kind.categories


def test_a_question_is_one_query_and_its_sum_exact(engine: Any) -> None:
    where = "month(admitted) = 2 and I(discharged - admitted) >= 0"
    kept = [
        h
        for h in map(_held, RECORDS)
        if h["admitted"] and h["admitted"].month == 2 and h["admitted"] <= h["discharged"]
    ]
    squares = [h["cost"] ** 2 for h in kept if h["cost"] is not None]
    seen = engine.read(ClippedSum(0.25, 10000), "cost ^ 2", where=where, missing=0.25)
    assert seen.n == len(RECORDS)
    assert seen.total[0] == pytest.approx(sum(squares) + 0.25 * (len(RECORDS) - len(squares)), rel=1e-12)
    assert FIRST_SEEN.setdefault("total", seen.total[0]) == seen.total[0]  # to the last bit, on every engine
    days = engine.read(CategoryCounts(_WEEK), "weekday(admitted)", where=where)
    assert days.total.sum() == len(RECORDS)


def test_ranges_hold_every_record_of_any_values() -> None:
    """Brute force: what Python makes of all pairs of odd numbers within their bounds lies in the public range."""
    numbers = [-1e9, -3.0, -1e-6, -5e-324, 0.0, 5e-324, 1e-6, 0.1, 1.0, 2.0**0.5, 1e9]
    for (a, b), (c, d) in itertools.product(itertools.combinations(numbers, 2), repeat=2):
        facts = Facts(x=Number(a, b), y=Number(c, d))
        inside = [x for x in numbers if a <= x <= b], [y for y in numbers if c <= y <= d]
        signs: dict[str, Callable[[float, float], float]] = {
            "x + y": lambda x, y: x + y,
            "x - y": lambda x, y: x - y,
            "x * y": lambda x, y: x * y,
            "x / y": lambda x, y: x / y,
        }
        for text, function in signs.items():
            try:
                low, high = facts[text].bounds  # type: ignore[attr-defined]
            except InvalidValue:
                assert text == "x / y" or max(map(abs, (a, b, c, d))) < 1e-100, (text, a, b, c, d)
                continue
            assert all(low <= function(x, y) <= high for x, y in itertools.product(*inside))
        for text, one in {"x ^ 2": lambda x: x * x, "abs(x)": abs}.items():
            column = facts[text] if max(abs(a), abs(b)) > 1e-100 else None
            assert column is None or all(column.bounds[0] <= one(x) <= column.bounds[1] for x in inside[0])  # type: ignore[attr-defined]


def test_what_counts_as_zero_is_in_the_range() -> None:
    """No record ends the query: a product of numbers that are too small is 0, of which there is no logarithm."""
    facts = Facts(x=Number(1e-70, 1), y=Number(1e-10, 1), large=Number(1, 2.0**150))
    records = pa.table({"x": [1.0, 1e-70], "y": [1.0, 1e-10], "large": [1.0, 1e60]})
    for text in ("x * y", "x ^ 2", "x / y", "coalesce(x * y, 1)", "y / large * x", "sqrt(x) * x"):
        assert facts[text].bounds[0] == 0  # type: ignore[attr-defined]
        with pytest.raises(InvalidValue, match="numbers above 0"):
            facts[f"log({text})"]
        with pytest.raises(InvalidValue, match="may be 0"):
            facts[f"1 / ({text})"]
    told = {"y * y": 1e-20, "y / large": 1e-10 / 1e60, "log(x)": math.log(1e-70), "log(x + y)": math.log(1e-10)}
    with open_table(records, facts=facts) as table:
        for text, least in told.items():
            total = table.read(ClippedSum(*facts[text].bounds), text).total[0]  # type: ignore[attr-defined]
            assert total == pytest.approx(least + (math.log(2) if "+" in text else "log" not in text), rel=1e-9)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("log(change)", "may be -1"),
        ("sqrt(change)", "from 0 on"),
        ("cost / change", "may be 0"),
        ("month(cost)", "takes one column of days"),
        ("log(ward)", "takes numbers"),
        ("recode(ward, 'Z' = 'x')", "list no value 'Z'"),
        ("recode(ward)", "reads like"),
        ("bands(cost, 50, 1)", "rise within the bounds"),
        ("bands(cost, '2024-01-01')", "numbers as edges"),
        ("coalesce(cost, ward)", "mixes kinds"),
        ("log(nothing)", "no column 'nothing'"),
        ("log(cost", "expected"),
        ("log(cost) + foo(cost)", "no function is called 'foo'"),
        ("cost ^ 3", "the only power is the square"),
        ("square(square(square(square(square(square(cost))))))", "takes too long"),
        ("cost * 1e59 * 1e59", "may be as large"),
        ("cost * 0", "is always 0"),
        ("log(" * 40 + "cost" + ")" * 40, "nested"),
        ("discharged - 'soon'", "a day reads like"),
        ("log(2) + 1", "at least one column"),
    ],
)
def test_what_makes_no_sense_is_refused_by_the_facts_alone(text: str, said: str) -> None:
    with pytest.raises(InvalidValue, match=said):
        FACTS[text]


def test_moments_in_a_zone_and_clashing_names_are_refused_by_the_schema() -> None:
    frame = pa.table({"day": pa.array([0], pa.timestamp("us", tz="UTC")), "LC": [1.0], "cost": [1.0]})
    facts = Facts(day=Day("2024-01-01", "2024-12-31"), cost=Number(1, 2), lc=Derived("log(cost)"))
    with open_table(frame, facts=facts) as table:
        if not table.is_frame:
            with pytest.raises(InvalidData, match="time zone"):
                table.check(CategoryCounts((1, 2)), "month(day)")
        with pytest.raises(InvalidData, match="of its own"):
            table.check(ClippedSum(0, 1), "lc")


def test_whole_numbers_from_zero_on_are_counts() -> None:
    kinds = {"clip(discharged - admitted, 0, 60)": Count(60), "visits + dead": Count(10), "square(visits)": Count(81)}
    kinds |= {"abs(visits - 4)": Count(5), "coalesce(visits, 12)": Count(12)}
    assert {text: FACTS[text] for text in kinds} == kinds
    assert isinstance(FACTS["visits / 2"], Number) and isinstance(FACTS["visits - dead"], Number)
    stays = Facts({**FACTS.held, "los": Derived("discharged - admitted")})
    assert stays["clip(los, 0, 60)"] == Count(60)
    assert Facts({**stays.said, "kept": Derived("clip(los, 0, 60)")})["kept"] == Count(60)


def test_facts_tell_of_derived_columns_and_read_them_back() -> None:
    again = Facts.from_dict(FACTS.to_dict())
    assert again == FACTS and list(again) == list(FACTS)
    assert FACTS.to_dict()["log_cost"] == {"kind": "derived", "of": "log(cost)"}
    assert "log_cost" not in FACTS.types and "log_cost" not in FACTS.held
    assert FACTS.about(["month(admitted)"]).to_dict() == {
        "admitted": {"kind": "day", "first": "2023-11-30", "last": "2025-01-31"},
        "month(admitted)": {"kind": "derived", "of": "month(admitted)"},
    }
    assert "log(cost)" in FACTS and "log(nothing)" not in FACTS and "log(cost)" not in list(FACTS)
    with pytest.raises(InvalidValue, match="before it"):
        Facts(c=Derived("sqrt(b)"), b=Derived("log(a)"), a=Number(1, 2))


def test_a_derived_column_may_say_what_a_missing_value_counts_as() -> None:
    facts = Facts(cost=Number(1, 100), log_cost=Derived("log(cost)", missing=2))
    with open_table(pa.table({"cost": [None, 1.0]}), facts=facts) as table:
        assert table.read(ClippedSum(0, 5), "log_cost").total[0] == 2.0
