"""Bands of a number: every door puts every value into the same band, and one record or person moves little."""

import itertools
import math
from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sottovoce as sv
from sottovoce.records.readings import GroupMoments
from sottovoce.records.readings.bands import Bands
from sottovoce.records.tables import Table, open_table
from sottovoce.service.answers import Question

EDGES = [
    (0.1, 0.2, 0.3, 0.7),  # none of which is a double
    (-5e-324, 0.0, 5e-324),
    (5e-324, 1e-323, 1.5e-323, 2e-323),
    (-1.7e308, -0.5e308, 0.5e308, 1.7e308),
    (2.0**53 - 1, 2.0**53, 2.0**53 + 2),  # even only as doubles add
    (9e18, 1e19, 1.5e19),
    tuple(np.linspace(0, 110, 13)[1:-1].tolist()),
    tuple(np.linspace(1e15, 1e15 + 3, 12)[1:-1].tolist()),
]
ENDS = [
    math.nan,
    math.inf,
    -math.inf,
    0.0,
    -0.0,
    5e-324,
    1.7976931348623157e308,
    -1.7976931348623157e308,
    2.0**53,
    1e19,
]


AROUND = [math.nextafter(edge, side) for edges in EDGES for edge in edges for side in (-math.inf, math.inf)]
MIDDLES = [a / 2 + b / 2 for edges in EDGES for a, b in itertools.pairwise(edges)]
VALUES = [*ENDS, *itertools.chain.from_iterable(EDGES), *AROUND, *MIDDLES]


def counted(table: Table, edges: tuple[float, ...]) -> list[float]:
    """Return how many values a table reads in each band, those in none last."""
    return list(table.read(GroupMoments((Bands(edges),), (-1,)), ["x"]).total.tolist())


def expected(values: list[Any], edges: tuple[float, ...]) -> list[float]:
    numbers = [math.nan if value is None else float(value) for value in values]
    places = [-1 if math.isnan(x) else sum(x >= edge for edge in edges) for x in numbers]
    return [float(places.count(place)) for place in (*range(len(edges) + 1), -1)]


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Table]]:
    """The same values as frames, files and a table of a database."""
    import polars as pl

    place = tmp_path_factory.mktemp("bands")
    data = {"x": VALUES}
    arrow = pa.table(data)
    pq.write_table(arrow, place / "t.parquet")
    (place / "t.csv").write_text("x\n" + "".join(f"{value!r}\n" for value in VALUES))
    with duckdb.connect(place / "t.duckdb") as made:
        made.execute("create table t as select * from arrow")
    facts = sv.Facts(x=sv.Number(-1e300, 1e300))
    sources = [pd.DataFrame(data), pl.DataFrame(data), arrow, place / "t.parquet", place / "t.csv"]
    with ExitStack() as stack:
        opened = [stack.enter_context(open_table(source, facts=facts)) for source in sources]
        yield [*opened, stack.enter_context(open_table(f"duckdb://{place / 't.duckdb'}?table=t"))]


@pytest.mark.parametrize("edges", EDGES, ids=lambda edges: f"{edges[0]:g}")
def test_every_door_reads_the_same_bands(edges: tuple[float, ...], doors: list[Table]) -> None:
    truth = expected(VALUES, edges)
    assert GroupMoments((Bands(edges),), (-1,)).read([VALUES]).total.tolist() == truth
    for table in doors:
        assert counted(table, edges) == truth


@pytest.mark.parametrize(
    ("kind", "values", "edges"),
    [
        (pa.int64(), [-(2**63), 0, 2**53, 2**53 + 1, 2**53 + 3, 2**63 - 1, None], (2.0**53, 2.0**53 + 2, 2.0**53 + 4)),
        (pa.uint64(), [0, 2**63 - 1, 2**63, 10**19, 15 * 10**18, 2**64 - 1, None], (2.0**63, 1e19, 1.5e19, 2.0**64)),
        (pa.decimal128(20, 1), [Decimal("26836612522233674.6"), Decimal("-0.1"), None], (-0.1, 26836612522233674.6)),
        (pa.decimal128(38, 37), [Decimal("0.1234567890000000000000000000000000000")], (0.123456789,)),
        (pa.decimal128(38, 0), [Decimal("182903877961947217289345130436455202")], (1.8290387796194722e35,)),
    ],
    ids=lambda value: str(value)[:16],
)  # fmt: skip
def test_numbers_too_long_for_a_double_are_in_the_band_of_the_nearest_one(
    kind: Any, values: list[Any], edges: tuple[float, ...]
) -> None:
    with open_table(pa.table({"x": pa.array(values, kind)})) as table:
        assert counted(table, edges) == expected(values, edges)


def test_whole_numbers_beyond_63_bits_are_summed_as_they_are() -> None:
    reading = GroupMoments((), (), measures=((0.0, 2e19),), fillers=(None,), squared=True)
    values = [2**63 + 5, 10**19, 2**64 - 1, 7]
    with open_table(pa.table({"x": pa.array(values, pa.uint64())})) as table:
        assert table.read(reading, ["x"]) == reading.read([values])


FACTS = sv.Facts(x=sv.Number(-1, 1), c=sv.Category(("a", "b", "d")), y=sv.Number(0, 2), flag=sv.Flag(), k=sv.Count(3))
BY = "x: under 0, 0 to under 0.1, 0.1+"
NUMBERS: list[Any] = [math.nan, math.inf, -math.inf, -0.0, -5e-324, 0.1, math.nextafter(0.1, 0.0), None]
ASKED: list[tuple[str, tuple[str, ...], list[tuple[Any, ...]]]] = [
    ("mean", ("y",), [(0.0, 2.0, math.nan, -math.inf)]),
    ("proportion", ("flag",), [(True, False, None)]),
    ("rate", ("k",), [(0, 3, 10**9)]),
    ("counts", ("flag",), [(True, None)]),
]


def moved(reading: Any, first: Any, second: Any, n: int | None) -> None:
    """Assert that two totals lie no farther apart than the reading claims, part by part."""
    gap, start = np.abs(second.total - first.total), 0
    for block in reading.blocks(n):
        part, start = gap[start : start + block.size], start + block.size
        move = block.movement
        steps = part / move.grid
        assert (steps**2).sum() <= move.squares
        assert not move.cells or (np.count_nonzero(steps) <= move.cells and steps.max() <= move.width)
        assert move.total is None or steps.sum() <= move.total
    assert start == gap.size


@pytest.mark.parametrize(("verb", "column", "kinds"), ASKED)
def test_one_record_moves_what_is_claimed_and_no_more_than_by_categories(
    verb: str, column: tuple[str, ...], kinds: Any
) -> None:
    question = Question(verb, column, FACTS, by=(BY,))
    reading = question.reading
    assert tuple(question.columns) == ("x", *column)
    by_category = Question(verb, column, FACTS, by=("c",)).reading
    assert [b.movement for b in reading.blocks(3)] == [b.movement for b in by_category.blocks(3)]
    assert [b.movement for b in reading.blocks(None)] == [b.movement for b in by_category.blocks(None)]
    records = list(itertools.product(NUMBERS, *kinds))
    rest = [records[0], records[7]]

    def read(rows: list[Any]) -> Any:
        return reading.read([list(part) for part in zip(*rows, strict=True)])

    alone, seen = read(rest), [read([one, *rest]) for one in records]
    for one in seen:
        moved(reading, one, alone, None)
    for one, other in itertools.combinations(seen, 2):
        moved(reading, one, other, 3)


@pytest.mark.parametrize("person", [sv.Person(), sv.Person(rows=2)])
def test_one_person_with_several_rows_moves_what_is_claimed(person: sv.Person) -> None:
    facts = sv.Facts({**FACTS, "who": person})
    rows = list(itertools.product([math.nan, math.inf, -0.0, 0.1, math.nextafter(0.1, 0.0)], [True, None]))
    for verb in ("proportion", "counts") if person.rows is None else ("counts",):
        question = Question(verb, ("flag",), facts, by=(BY,))
        reading, column = question.reading, ("flag",)
        assert tuple(question.columns) == ("x", "flag", "who")
        same = Question(verb, column, facts, by=("c",)).reading
        assert [b.movement for b in reading.blocks(2)] == [b.movement for b in same.blocks(2)]
        rest = [(*row, "bob") for row in rows[3:6]]
        seen = [
            reading.read([list(part) for part in zip(*([(*row, "ann") for row in own] + rest), strict=True)])
            for own in itertools.chain.from_iterable(
                itertools.combinations_with_replacement(rows, k) for k in (1, 2, 3)
            )
        ]
        alone = reading.read([list(part) for part in zip(*rest, strict=True)])
        for one in seen:
            moved(reading, one, alone, None)
        for one, other in zip(seen, [*seen[37:], *seen[:37]], strict=True):
            moved(reading, one, other, 2)
