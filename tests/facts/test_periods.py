"""Periods: what a condition can reach is told by its text, and is never less than what some record can do."""

from __future__ import annotations

import datetime
import random

import duckdb
import ibis
import pytest

import sottovoce as sv
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.records.facts.periods import CALENDAR, MOST, NO_PERIOD, parse_periods
from sottovoce.records.tables.conditions import condition
from sottovoce.records.tables.engine import engine_of

FACTS = sv.Facts(
    admitted=sv.Day("2024-01-15", "2024-04-10"),
    ward=sv.Category(["A", "B"]),
    age=sv.Number(0, 110),
    visits=sv.Count(20),
    smoker=sv.Flag(),
    shifted=sv.Derived("coalesce(admitted, '2024-02-01')"),
)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("admitted: quarterly", ("2024-Q1", "2024-Q2")),
        ("admitted: yearly", ("2024",)),
        ("admitted: Monthly", ("2024-01", "2024-02", "2024-03", "2024-04")),
        ("age: under 18, 18-64, 65+", ("under 18", "18 to under 65", "65 and over")),
        ("visits: 2 bands", ("0 to 10", "11 and over")),
        (" ward ", ("A", "B")),
    ],
)
def test_periods_have_names(text: str, names: tuple[str, ...]) -> None:
    assert parse_periods(text, FACTS).names == (*names, NO_PERIOD)


def test_weeks_are_those_of_the_calendar() -> None:
    names = parse_periods("admitted: weekly", sv.Facts(admitted=sv.Day("2024-12-28", "2025-01-07"))).names
    assert names == ("2024-W52", "2025-W01", "2025-W02", NO_PERIOD)


@pytest.mark.parametrize("every", CALENDAR)
def test_periods_of_the_calendar_lie_side_by_side(every: str) -> None:
    periods = parse_periods(f"d: {every}", sv.Facts(d=sv.Day("2019-12-30", "2024-06-01")))
    begin, called = CALENDAR[every]
    day = datetime.date(2019, 12, 1)
    while day < datetime.date(2024, 8, 1):
        text = day.isoformat()
        name = called(begin(day)) if called(begin(day)) in periods.names else NO_PERIOD
        assert periods.reached(f"d = '{text}'") == (name,)
        day += datetime.timedelta(days=1)
    again = parse_periods(f"d: {every}", sv.Facts(d=sv.Day("2019-12-30", "2020-01-01")), periods.names)
    assert again == periods  # narrower facts keep the names, and these mean the same days


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("smoker", "'smoker' is a flag"),
        ("age", "periods are of a day"),
        ("admitted", "weekly, monthly, quarterly, yearly"),
        ("admitted: fortnightly", "weekly, monthly, quarterly, yearly"),
        ("ward: A, B", "'ward' is a category"),
        ("nothing: monthly", "nothing"),
        ("", "period= names a column"),
        ("admitted: daily", "weekly"),
        ("coalesce(admitted, '2024-02-01'): monthly", "derived from others"),
        ("shifted: monthly", "derived from others"),
    ],
)
def test_what_names_no_periods_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidValue, match=said):
        parse_periods(text, FACTS)


def test_periods_that_cannot_be_told_apart_are_refused() -> None:
    for levels in (["a", "A"], ["x", NO_PERIOD], ["x", "No Period "], [1, "1"]):
        with pytest.raises(InvalidValue):
            parse_periods("c", sv.Facts(c=sv.Category(levels)))
    with pytest.raises(InvalidValue, match=f"at most {MOST} periods"):
        parse_periods("d: weekly", sv.Facts(d=sv.Day("1900-01-01", "2024-01-01")))
    with pytest.raises(InvalidValue, match="and stay so"):
        parse_periods("age: under 18, 18+", FACTS, ("under 20", "20 and over", NO_PERIOD))
    for known in ("2024-13", "2024-W60", "spring"):
        with pytest.raises(ValueError, match=r"\w"):
            parse_periods("admitted: monthly", FACTS, (known, NO_PERIOD))
    with pytest.raises(InvalidData, match="holds text: cast it"):
        parse_periods("admitted: monthly", FACTS).check_type({"admitted": "string"})
    with pytest.raises(InvalidData, match="is not there"):
        parse_periods("ward", FACTS).check_type({})
    with pytest.raises(InvalidValue, match="holds in no period"):
        parse_periods("ward", FACTS).reached("ward = 'A' and ward = 'B'")


DAYS = ["2024-01-31", "2024-02-01", "2024-02-29", "2024-03-15"]
MORE = ["2023-12-31", "2024-01-01", "2024-02-15", "2024-03-01", "2024-03-31", "2024-04-01", "2024-04-30", "2024-05-01"]
LEAVES = {
    "admitted: monthly": [
        *(f"admitted {sign} '{day}'" for sign in ("<", "<=", ">", ">=", "=", "!=") for day in DAYS),
        "admitted in ('2024-02-01', '2024-03-15')",
        "admitted not in ('2024-02-01', '2024-03-15')",
        "admitted is null",
        "admitted is not null",
        "admitted not between '2024-02-01' and '2024-02-29'",
        "age > 40",
    ],
    "ward": [
        *(f"ward {sign} '{level}'" for sign in ("=", "!=") for level in "ABC"),
        *(f"ward {word} ('A', 'C')" for word in ("in", "not in")),
        "ward is null",
        "ward is not null",
        "age > 40",
    ],
    "age: under 18, 18-64, 65+": [
        *(f"age {sign} {edge}" for sign in ("<", "<=", ">", ">=", "=", "!=") for edge in (17.5, 18, 40, 65)),
        "age in (18, 70)",
        "age not in (18, 70)",
        "age is null",
        "age is not null",
        "ward = 'A'",
    ],
}


@pytest.mark.parametrize(
    ("text", "kind"),
    [*((text, "DATE") for text in LEAVES), *(("admitted: monthly", kind) for kind in ("TIMESTAMP", "TIMESTAMPTZ"))],
)
def test_no_record_fulfils_a_condition_outside_of_what_it_reaches(text: str, kind: str) -> None:
    """Every record of a small table, by DuckDB, beside what is told from the text."""
    facts = sv.Facts({name: FACTS[name] for name in ("admitted", "ward", "age")})
    periods = parse_periods(text, facts)
    clock = "" if kind == "DATE" else " 23:59:59.999999" + ("+00" if kind == "TIMESTAMPTZ" else "")
    days = [f"{kind} '{day}{clock}'" for day in DAYS + MORE] + [f"{kind} 'infinity'", f"{kind} '-infinity'", "NULL"]
    engine = duckdb.connect()
    engine.execute("SET TimeZone = 'UTC'")
    engine.execute(
        f"CREATE TABLE t AS SELECT * FROM (VALUES {', '.join(f'({day})' for day in days)}) AS a(admitted), "
        "(VALUES ('A'), ('B'), ('C'), (''), (NULL)) AS b(ward), "
        "(VALUES (17.5::DOUBLE), (17.999), (18), (40), (64.9), (65), (1e9), ('nan'::DOUBLE), (-1), (NULL)) AS c(age)"
    )
    member = {
        "admitted: monthly": "CASE WHEN admitted IS NULL OR NOT isfinite(admitted) OR admitted < DATE '2024-01-01' OR "
        "admitted >= DATE '2024-05-01' THEN 'no period' ELSE strftime(admitted, '%Y-%m') END",
        "ward": "CASE WHEN ward IN ('A', 'B') THEN ward ELSE 'no period' END",
        "age: under 18, 18-64, 65+": "CASE WHEN age IS NULL OR isnan(age) THEN 'no period' WHEN age < 18 THEN "
        "'under 18' WHEN age < 65 THEN '18 to under 65' ELSE '65 and over' END",
    }[text]
    engine.execute(f"CREATE TABLE u AS SELECT *, {member} AS period FROM t")
    connection = ibis.duckdb.from_connection(engine)
    records = connection.table("u")
    reader = engine_of(connection, frozenset())
    source, leaves = random.Random(3), LEAVES[text]
    conditions = leaves + [f"not {leaf}" for leaf in leaves]
    for _ in range(60):
        parts = [source.choice(["", "not "]) + f"({source.choice(leaves)})" for _ in range(3)]
        first, second = source.choice(["and", "or"]), source.choice(["and", "or"])
        conditions.append(f"{source.choice(['', 'not '])}({parts[0]} {first} {parts[1]}) {second} {parts[2]}")
    exact = 0
    for where in conditions:
        kept = records.filter(condition(reader, records, where).fill_null(False)).period
        seen = set(kept.as_table().distinct().to_pyarrow()["period"].to_pylist())
        try:
            reached = set(periods.reached(where))
        except InvalidValue:
            reached = set()
        assert seen <= reached, where
        exact += seen == reached
    assert exact > 0.7 * len(conditions)  # and it is hardly ever more


def test_comparisons_with_odd_values_are_taken_to_hold() -> None:
    months, wards = parse_periods("admitted: monthly", FACTS), parse_periods("ward", FACTS)
    assert months.reached("admitted < '9999-12-31'") == months.names
    assert NO_PERIOD in months.reached("admitted > '9999-12-31'")
    assert wards.reached("ward = 1") == wards.names
    assert wards.reached("ward = 'A'") == ("A",)
    for alike in ("a", "A ", "Á"):  # an engine may say that they are the same
        assert "A" in wards.reached(f"ward = '{alike}'") and wards.reached(f"ward != '{alike}'") == wards.names
    large = parse_periods("c", sv.Facts(c=sv.Category([1, 2**53, 2**53 + 1])))
    assert large.reached(f"c = {2**53}") == (str(2**53), str(2**53 + 1))  # as doubles they are one
    ages = parse_periods("age: 2 bands", FACTS)
    assert ages.reached("age = 'none'") == ages.reached("age in ('none', 'nobody')") == ages.names
    assert ages.reached(f"age > {2**60}") == ages.names[:-1]  # of a missing one no comparison holds
    assert ages.reached("age = true") == ages.names[:-1]


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("admitted: monthly", FACTS),
        ("admitted: weekly", FACTS),
        ("age: under 18, 18-64, 65+", FACTS),
        ("visits: 2 bands", FACTS),
        ("the ward", sv.Facts({"the ward": sv.Category(["A", "O'Hara", 'say "B"'])})),
        ("code", sv.Facts(code=sv.Category([1, 2, 30]))),
    ],
)
def test_the_condition_of_some_periods_reaches_these_alone(text: str, facts: sv.Facts) -> None:
    periods = parse_periods(text, facts)
    for names in [(name,) for name in periods.names] + [periods.names[:2], periods.names[1:], periods.names[::2]]:
        assert set(periods.reached(periods.where(*names) or None)) == set(names)
        assert set(periods.reached(f"smoker and {periods.where(*names)}")) == set(names)
    assert periods.where(*periods.names) == ""


def test_the_condition_of_a_period_is_refused_where_there_is_none() -> None:
    periods = parse_periods("admitted: monthly", FACTS)
    with pytest.raises(InvalidValue, match="2024-01, 2024-02, 2024-03, 2024-04, no period: there is no '2025-01'"):
        periods.where("2025-01")
    with pytest.raises(InvalidValue, match="name one or more"):
        periods.where()
