"""The same statistics from every engine: equal to an exact oracle in Python's integers and fractions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.facts.columns import Category, Column, Count, Flag, Number
from sottovoce.records.readings import (
    BallSum,
    CategoryCounts,
    ClassMoments,
    ClippedRows,
    ClippedSum,
    CrossCounts,
    Moments,
)
from sottovoce.records.tables import Table, open_table

from .conftest import SPARK, holding, on_engines


def is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def exact_sum(values: list[float | None], low: float, high: float, missing: float) -> Fraction:
    """Σ clip(x) with no rounding at all."""
    total = Fraction(0)
    for value in values:
        total += Fraction(missing if is_missing(value) else min(max(value, low), high))  # type: ignore[type-var]
    return total


BOUNDS = [(0.0, 10.0), (-3.0, 3.0), (0.1, 0.7), (-1e6, 1e15), (2.5, 2.5), (-1e-9, 1e-9), (-8.0, -0.3)]


def test_float_sums_are_the_same_bits_everywhere(engine_table: Table, messy: pa.Table) -> None:
    """Equal to sums of integers in Python, bit for bit, and within 1e-12 of the sums of fractions."""
    values = messy["x"].to_pylist()
    for low, high in BOUNDS if engine_table._connection.name != "pyspark" else BOUNDS[2:4]:  # which plans for long
        size = max(abs(low), abs(high))
        unit = 2 ** (51 - math.ceil(math.log2(size)))
        first, last = math.ceil(Fraction(low) * unit), math.floor(Fraction(high) * unit)
        total = 0
        for value in values:
            x = 0.0 if is_missing(value) else value
            inside = abs(x) < math.inf
            steps = round(Fraction(x) * unit) if inside else (last if x > 0 else first)
            total += min(max(steps, first), last)
        statistics = engine_table.read(ClippedSum(low, high), "x")
        assert (statistics.n, statistics.total[0]) == (len(values), total / unit)
        expected = exact_sum(values, low, high, missing=min(max(0.0, low), high))
        assert abs(Fraction(statistics.total[0]) - expected) <= Fraction(1e-12) * len(values) * Fraction(size)


def test_missing_counts_as_told(engine_table: Table, messy: pa.Table) -> None:
    values = messy["x"].to_pylist()
    assert any(map(is_missing, values))
    for missing in (None, 0.25):
        expected = exact_sum(values, 0.0, 1.0, missing or 0.0)
        seen = engine_table.read(ClippedSum(0.0, 1.0), "x", missing=missing)
        assert seen.total[0] == pytest.approx(float(expected), abs=1e-10)


@on_engines(
    "column, low, high, integer",
    [("k", 0, 5, False), ("k", 2, 2, True), ("wide", -7, 10**12, False), ("flag", 0, 1, True), ("flag", -2, 3, False)],
    spark=(1, 2, 4),
)
def test_whole_numbers_are_counted_exactly(
    engine_table: Table, messy: pa.Table, column: str, low: int, high: int, integer: bool
) -> None:
    default = min(max(0, low), high)
    values = [default if v is None else int(v) for v in messy[column].to_pylist()]
    statistics = engine_table.read(ClippedSum(low, high, integer=integer), column)
    assert (statistics.n, statistics.total[0]) == (len(values), sum(min(max(v, low), high) for v in values))


def test_whole_readings_floor_after_clipping(engine_table: Table, messy: pa.Table) -> None:
    values = [0.0 if is_missing(v) else v for v in messy["x"].to_pylist()]
    expected = sum(math.floor(min(max(v, -4), 6)) for v in values)
    assert engine_table.read(ClippedSum(-4, 6, integer=True), "x").total[0] == expected


def test_fractional_bounds_on_whole_numbers(engine_table: Table, messy: pa.Table) -> None:
    expected = exact_sum(messy["k"].to_pylist(), 0.5, 3.75, 0.5)
    assert engine_table.read(ClippedSum(0.5, 3.75), "k").total[0] == float(expected)


def test_single_precision_is_widened(engine_table: Table, messy: pa.Table) -> None:
    values = [0.0 if v is None else v for v in messy["f"].to_pylist()]
    expected = math.fsum(min(max(v, -1.0), 1.0) for v in values)
    assert engine_table.read(ClippedSum(-1, 1), "f").total[0] == pytest.approx(expected, rel=1e-12)


@on_engines("missing", [(None,), ("ünï",)], spark=(1,))
def test_category_counts(engine_table: Table, messy: pa.Table, missing: str | None) -> None:
    categories = ("north", "o'hara", "ünï", "south", "nobody", 'say "hi"')
    known = [v if v in categories else (missing or "north") for v in messy["c"].to_pylist()]
    statistics = engine_table.read(CategoryCounts(categories), "c", missing=missing)
    assert statistics.n == len(known)
    assert statistics.total.tolist() == [known.count(c) for c in categories]


@on_engines("categories", [(tuple(range(6)),), ((3.0, np.int64(4), 0),)], spark=(1,))
def test_categories_may_be_numbers(engine_table: Table, messy: pa.Table, categories: tuple[int, ...]) -> None:
    known = [v if v in categories else categories[0] for v in messy["k"].to_pylist()]
    total = engine_table.read(CategoryCounts(categories), "k").total
    assert total.tolist() == [known.count(c) for c in categories]


@pytest.mark.parametrize(
    ("name", "few", "more", "where"),
    [
        ("c", ("south", "o'hara", ""), [f"'{i}" for i in range(70)], None),
        ("k", (3, 4, 5), range(100, 170), "k > 3"),
        ("x", (3.0, 0.1, 10.0), [i + 0.7 for i in range(70)], "k > 3"),
    ],
)
def test_many_categories_are_counted_as_few_are(
    engine_table: Table, messy: pa.Table, name: str, few: tuple[object, ...], more: Sequence[object], where: str | None
) -> None:
    """Of few each is a column of the query, of many a row."""
    kept = [where is None or (k is not None and k > 3) for k in messy["k"].to_pylist()]
    known = [
        value if keep and value in few else few[0] for value, keep in zip(messy[name].to_pylist(), kept, strict=True)
    ]
    seen = engine_table.read(CategoryCounts((*few, *more)), name, where=where)
    assert seen.n == messy.num_rows
    assert seen.total.tolist() == [*map(known.count, few), *[0.0] * 70]


@on_engines("where", [(None,), ("k > 2",)], spark=(1,))
def test_cross_counts(engine_table: Table, messy: pa.Table, where: str | None) -> None:
    columns = (("north", "o'hara", "ünï", 'say "hi"'), (0, 2, 3), (False, True))
    reading = CrossCounts(columns, tables=((0, 1), (2,), (2, 0)), others=(-1, 1, -1))
    names = ["c", "k", "flag"]
    expected = [np.zeros(shape, dtype=int) for shape in reading.shapes]
    for row in messy.select(names).to_pylist():
        found = [
            categories.index(row[name]) if row[name] in categories else other
            for name, categories, other in zip(names, columns, reading.others, strict=True)
        ]
        kept = where is None or (row["k"] is not None and row["k"] > 2)
        if kept and min(found) >= 0:
            for table, crossed in zip(expected, reading.tables, strict=True):
                table[tuple(found[i] for i in crossed)] += 1
    statistics = engine_table.read(reading, names, where=where)
    assert statistics.n == messy.num_rows
    assert statistics.total.tolist() == np.concatenate([table.ravel() for table in expected]).tolist()


@pytest.mark.parametrize("engine", [SPARK])
def test_a_text_is_itself_to_spark(engine: str, spark_session: Any, tmp_path: Path) -> None:
    """Its queries take some of these for other signs, unless they are told not to."""
    texts = ["a\\b", "\\u0041", "a\nb", "100%", "$1", ":x", "😀", "'", "${x}", "\\${spark.app.name}", "A", "a", None]
    pq.write_table(pa.table({"c": texts, "k": list(range(len(texts)))}), tmp_path / "texts.parquet")
    reading = CrossCounts((tuple(texts[:10]), tuple(range(len(texts)))), ((0, 1),), (-1, -1))
    with open_table(spark_session.read.parquet(str(tmp_path))) as table:
        assert table.read(reading, ["c", "k"]) == reading.read([texts, list(range(len(texts)))])


@pytest.mark.parametrize("engine", [SPARK])
def test_a_query_that_is_compiled_says_the_same(
    engine: str, opened: Callable[[str], Table], spark_session: Any
) -> None:
    """As Spark has it for everybody: in the other tests it evaluates each query as it stands, once."""
    usual = {"adaptive.enabled": "true", "codegen.wholeStage": "true", "codegen.factoryMode": "CODEGEN_ONLY"}

    def answers(engine: str) -> list[list[float]]:
        table, texts = opened(engine), ("north", "o'hara", "ünï", 'say "hi"')
        return [
            table.read(ClippedSum(0.1, 0.7), "x", where="k > 2").total.tolist(),
            table.read(CrossCounts((texts, (0, 2, 3)), tables=((0, 1),), others=(-1, 1)), ["c", "k"]).total.tolist(),
        ]

    kept = {f"spark.sql.{name}": spark_session.conf.get(f"spark.sql.{name}") for name in usual}
    try:
        for name, value in usual.items():
            spark_session.conf.set(f"spark.sql.{name}", value)
        assert answers(engine) == answers("duckdb")
    finally:
        for name, value in kept.items():
            spark_session.conf.set(name, value)


SPANS = ((-3.0, 3.0), (0.1, 0.3), (1e9, 1e9 + 1, 1e9 + 0.25), (-1e100, 1e100), (0.0, 1e-100))


def test_class_moments_are_those_of_memory_to_the_last_bit(engine_table: Table, messy: pa.Table) -> None:
    numbers = [(name, span) for name in ("x", "f", "wide") for span in SPANS]
    if engine_table._connection.name == "pyspark":  # plans for seconds: each span once, and each column
        numbers = [*numbers[:3], numbers[8], numbers[14]]
    reading = ClassMoments(
        ("south", "north"), ((False, True), (0, 2, 3)), (1, 0, 2), tuple(span for _, span in numbers)
    )
    names = ["c", "flag", "k", *(name for name, _ in numbers)]
    statistics = engine_table.read(reading, names)
    assert statistics == reading.read([messy[name].to_pylist() for name in names])
    of_x = slice(0, [name for name, _ in numbers].count("x"))
    for (low, high, missing), found in zip(reading.bounds[of_x], reading.split(statistics.total)[1][of_x], strict=True):
        sums = [[0, 0], [0, 0]]
        for label, value in zip(messy["c"].to_pylist(), messy["x"].to_pylist(), strict=True):
            x = missing if value is None or math.isnan(value) else min(max(value, low), high)
            t = round((2 * ((x - low) / (high - low)) - 1) * 2**20)
            row = sums[0 if label == "south" else 1]
            row[0] += t
            row[1] += round(Fraction(t * t, 2**20) + Fraction(1, 10**9)) - 2**19  # a half goes up
        assert found.tolist() == sums


def test_every_record_has_a_class_so_that_none_is_left_out(engine_table: Table) -> None:
    reading = ClassMoments((0, 1), (), (0,), ((0.0, 1.0),))
    with pytest.raises(InvalidValue, match="leave where"):
        engine_table.read(reading, ["flag", "x"], where="k > 2")


def test_categories_may_be_truth_values_or_doubles(engine_table: Table, messy: pa.Table) -> None:
    flags = [v is True for v in messy["flag"].to_pylist()]
    total = engine_table.read(CategoryCounts((False, True)), "flag").total
    assert total.tolist() == [flags.count(False), flags.count(True)]
    doubles = [v if v in (0.1, 3.0) else 3.0 for v in messy["x"].to_pylist()]
    assert engine_table.read(CategoryCounts((3.0, 0.1)), "x").total.tolist() == [
        doubles.count(3.0),
        doubles.count(0.1),
    ]


def projected(messy: pa.Table, radius: float) -> np.ndarray:
    """The projection in exact directions: beyond 2³⁰⁰ radii a coordinate is cut to that."""
    huge = math.ldexp(1.0, math.frexp(radius)[1] + 300)
    cells = [[0.0 if is_missing(v) else min(max(v, -huge), huge) for v in messy[c].to_pylist()] for c in "uvw"]
    rows = np.array(cells).T
    return rows * np.minimum(1.0, radius / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), radius))


@pytest.mark.parametrize("radius", [0.3, 1e6])
def test_ball_sums(engine_table: Table, messy: pa.Table, radius: float) -> None:
    rows = projected(messy, radius)
    statistics = engine_table.read(BallSum(3, radius), ["u", "v", "w"])
    assert statistics.n == len(rows)
    expected = [math.fsum(column) for column in rows.T]
    np.testing.assert_allclose(statistics.total, expected, rtol=0, atol=1e-12 * len(rows) * radius)


@on_engines("intercept", [(True,), (False,)], spark=(0,))
def test_moments(engine_table: Table, messy: pa.Table, intercept: bool) -> None:
    radius, bounds = 2.0, (-1.0, 4.0)
    huge = math.ldexp(1.0, 2 + 300)
    cells = [
        [0.0 if is_missing(v) or abs(v) == math.inf else min(max(v, -huge), huge) for v in messy[c].to_pylist()]
        for c in "uvk"
    ]
    if intercept:
        cells.append([1.0] * len(messy))
    rows = np.array(cells).T
    rows = rows * np.minimum(1.0, radius / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), radius))
    reals = [0.0 if is_missing(v) or abs(v) == math.inf else v for v in messy["x"].to_pylist()]
    y = np.clip(reals, *bounds)
    reading = Moments(3 + intercept, radius, bounds, binary=False, intercept=1.0 * intercept)
    seen = engine_table.read(reading, ["u", "v", "k", "x"])
    assert seen.n == len(rows)
    gram, moment, ones, square = reading.split(seen.total)
    np.testing.assert_allclose(gram, rows.T @ rows, rtol=0, atol=1e-12 * len(rows) * radius**2)
    np.testing.assert_allclose(moment, rows.T @ y, rtol=0, atol=1e-12 * len(rows) * radius * 4)
    np.testing.assert_allclose(ones, rows.sum(axis=0), rtol=0, atol=1e-12 * len(rows) * radius)
    assert square == pytest.approx(y @ y, rel=1e-12)
    # The same bits as in memory, and so on every engine.
    records = [messy[c].to_pylist() for c in "uvk"]
    assert seen == reading.read((list(zip(*records, strict=True)), messy["x"].to_pylist()))


FEATURES = (Number(-3, 3), Flag(), Category(("north", "south", "o'hara"), missing="south"), Count(9))


@on_engines("label, name, where", [(Flag(), "flag", None), (Category(("ünï", "North")), "c", "x > 0")], spark=(1,))
def test_encoded_rows_and_moments(
    engine_table: Table, messy: pa.Table, label: Column, name: str, where: str | None
) -> None:
    facts = {"intercept": 0.3, "features": FEATURES, "label": label}
    names = ["x", "flag", "c", "k", name]
    rows = engine_table.read(ClippedRows(6, 1.5, **facts), names, where=where)
    moments = Moments(6, 1.5, **facts)
    seen = engine_table.read(moments, names, where=where)
    cells = [messy[column].to_pylist() for column in names]
    expected = ClippedRows(6, 1.5, **facts).read((list(zip(*cells[:-1], strict=True)), cells[-1]))
    kept = np.array([where is None or (v is not None and v > 0) for v in cells[0]])
    order = np.lexsort(rows.X.T), np.lexsort((expected.X * kept[:, None]).T)  # engines keep no order
    np.testing.assert_array_equal(rows.X[order[0]], (expected.X * kept[:, None])[order[1]])
    assert rows.n == seen.n == len(messy)
    assert sorted(rows.y) == sorted(np.where(kept, expected.y, -1.0))
    np.testing.assert_allclose(seen.total[:-1], moments.join(rows.X, rows.y)[:-1], rtol=0, atol=1e-8)


def test_conditions_are_read_the_same_everywhere(engine_table: Table, messy: pa.Table) -> None:
    rows = messy.to_pylist()

    def ok(row: dict[str, object], column: str) -> bool:
        return not is_missing(row[column])

    expected = {
        "x > 1": lambda r: ok(r, "x") and r["x"] > 1,
        "x <= 0.1": lambda r: ok(r, "x") and r["x"] <= 0.1,
        "x = 0.1 or x = -0.0": lambda r: ok(r, "x") and r["x"] in (0.1, 0.0),
        "not x > 1": lambda r: not (ok(r, "x") and r["x"] > 1),
        "x is null": lambda r: not ok(r, "x"),
        "x is not null and flag": lambda r: ok(r, "x") and r["flag"] is True,
        "not flag": lambda r: r["flag"] is not True,
        "flag = false": lambda r: r["flag"] is False,
        "c in ('north', 'o''hara')": lambda r: r["c"] in ("north", "o'hara"),
        "c not in ('north', 'South')": lambda r: r["c"] is not None and r["c"] != "north",
        "c != 'north' and (k >= 4 or k < 2)": lambda r: (
            r["c"] not in (None, "north") and ok(r, "k") and (r["k"] >= 4 or r["k"] < 2)
        ),
        "`education-num` > 12.5": lambda r: ok(r, "education-num") and r["education-num"] > 12.5,
        "u < v": lambda r: ok(r, "u") and ok(r, "v") and r["u"] < r["v"],
        "k = `education-num`": lambda r: ok(r, "k") and r["k"] == r["education-num"],
        "x > k": lambda r: ok(r, "x") and ok(r, "k") and r["x"] > r["k"],
        'c = "say ""hi"""': lambda r: r["c"] == 'say "hi"',
    }
    assert holding(engine_table, expected) == {text: sum(map(rule, rows)) for text, rule in expected.items()}


def test_a_condition_turns_other_records_into_missing_ones(engine_table: Table, messy: pa.Table) -> None:
    rows = messy.to_pylist()
    kept = [r["k"] if r["c"] == "north" and r["k"] is not None else 0 for r in rows]
    statistics = engine_table.read(ClippedSum(0, 50), "k", where="c = 'north'")
    assert (statistics.n, statistics.total[0]) == (len(rows), sum(kept))
    counts = engine_table.read(CategoryCounts(("south", "north")), "c", where="k > 3", missing="south")
    norths = sum(1 for r in rows if r["c"] == "north" and r["k"] is not None and r["k"] > 3)
    assert counts.total.tolist() == [len(rows) - norths, norths]
    inside = [min(max(r["u"], -1.0), 1.0) for r in rows if r["flag"] and not is_missing(r["u"])]
    seen = engine_table.read(BallSum(1, 1.0), ["u"], where="flag")
    assert (seen.n, seen.total[0]) == (len(rows), pytest.approx(math.fsum(inside), abs=1e-9))


def test_schema_and_count(engine_table: Table, messy: pa.Table) -> None:
    assert list(engine_table.schema) == messy.column_names
    assert engine_table.schema["c"] == "string"
    assert engine_table.schema["x"] == "float64"
    assert engine_table.count() == len(messy)
