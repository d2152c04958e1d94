"""Groups on every engine: the same whole numbers as in memory."""

import numpy as np
import pyarrow as pa
import pytest

from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Cells, Count, Facts, Flag, Number
from sottovoce.records.readings import CellCounts, GroupMoments, Statistics
from sottovoce.records.readings.bands import Bands
from sottovoce.records.tables import Table, open_table
from sottovoce.service.answers import NoisyCells, Question

from .conftest import on_engines

GROUPS = (("north", "south", "o'hara", ""), (False, True))
READINGS = [
    (GroupMoments(GROUPS, (-1, 1)), ["c", "flag"]),
    (GroupMoments(GROUPS[:1], (2,), measures=((-3.0, 7.3),), fillers=(None,), squared=True), ["c", "x"]),
    (GroupMoments((), (), measures=((1e-9, 2.5e9),), fillers=(3.0,), squared=True, counted=False), ["x"]),
    (GroupMoments(GROUPS[1:], (-1,), measures=((0.0, 9.0), (-1.0, 1.0)), fillers=(None, 0.5), squared=True),
     ["flag", "k", "f"]),
    (GroupMoments(GROUPS[1:], (-1,), measures=((-1.0, 9.0), (-3.0, 7.3)), fillers=(None, 0.5), squared=True,
                  crossed=True), ["flag", "k", "x"]),
    (GroupMoments(GROUPS[:1], (-1,), edges=tuple(np.linspace(-1, 1, 33).tolist()), fillers=(None,)), ["c", "u"]),
    (GroupMoments((), (), edges=(-0.5, 0.5, 1.5, 9.5), fillers=(9.0,)), ["k"]),
    (GroupMoments((), (), measures=((-(2.0**60), 2.0**60),), fillers=(None,)), ["wide"]),
    (GroupMoments((Bands((-1.0, 0.0, 0.1, 3.0)), GROUPS[1]), (-1, -1), measures=((0.0, 9.0),), fillers=(None,)),
     ["x", "flag", "k"]),
    (GroupMoments((GROUPS[0], Bands((2.5, 4.0)), Bands((0.0,))), (-1, 1, -1)), ["c", "k", "f"]),
    (GroupMoments((Bands(tuple(np.linspace(-1, 1, 9).tolist())), Bands((0.0, 2.0**53))), (4, -1)), ["u", "wide"]),
]  # fmt: skip


@pytest.mark.parametrize(("reading", "columns"), READINGS, ids=lambda value: str(value)[:24])
def test_groups_are_the_same_bits_everywhere(
    engine_table: Table, messy: pa.Table, reading: GroupMoments, columns: list[str]
) -> None:
    seen = engine_table.read(reading, columns)
    assert seen == reading.read([messy[name].to_pylist() for name in columns])
    assert reading.check(seen).n == messy.num_rows


def test_a_condition_takes_records_out_of_every_cell_and_leaves_n(engine_table: Table, messy: pa.Table) -> None:
    reading, columns = READINGS[1]
    seen = engine_table.read(reading, columns, where="k > 4")
    chosen = messy.filter(pa.compute.fill_null(pa.compute.greater(messy["k"], 4), False))
    inside = reading.read([chosen[name].to_pylist() for name in columns])
    assert seen.n == messy.num_rows
    assert np.array_equal(np.delete(seen.total, 4), np.delete(inside.total, 4))
    assert seen.total[:5].sum() == messy.num_rows


def test_nothing_but_none_is_read_where_no_record_fits(engine_table: Table, messy: pa.Table) -> None:
    reading, columns = READINGS[0]
    seen = engine_table.read(reading, columns, where="k > 1000000")
    assert seen.total[-1] == messy.num_rows
    assert not seen.total[:-1].any()


def test_a_record_left_out_is_not_where_missing_ones_are(engine_table: Table, messy: pa.Table) -> None:
    reading = CellCounts((True,), ((2.5, 4.5),), (1,))
    asked = [k for k, flag in zip(messy["k"].to_pylist(), messy["flag"].to_pylist(), strict=True) if flag]
    seen = engine_table.read(reading, ["k"], where="flag")
    assert seen.n == messy.num_rows
    assert seen.total[:3].tolist() == reading.read([asked]).total[:3].tolist()
    assert seen.total[3] == messy.num_rows - len(asked)


@pytest.mark.parametrize("low", [-128.0, -100.0, -(2.0**31) - 1, 3e9, 2.0**31 - 50])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_no_whole_number_is_too_far_from_any_bounds(low: float, bits: int) -> None:
    top = 2 ** (bits - 1)
    numbers = [-top, 1 - top, 0, 100, 127, top - 1, None]
    moments = GroupMoments((), (), measures=((low, low + 200.0),), fillers=(None,), squared=True)
    cells = CellCounts((True,), ((low, low + 100.0, low + 200.0),), (4,))
    with open_table(pa.table({"k": pa.array(numbers, f"int{bits}")})) as table:
        assert table.read(moments, ["k"]) == moments.read([numbers])
        assert table.read(cells, ["k"]) == cells.read([numbers])


@pytest.mark.parametrize("categories", [4, 9, 10])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_no_whole_number_is_too_large_for_the_kind_it_is_grouped_as(bits: int, categories: int) -> None:
    """Numbers from one end of their bits to the other, in one, two and three groups, counted and with sums."""
    rng, ends = seeded_rng(bits), [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1]
    some = [*range(-12, 13), -100, 100, *ends, None]
    ward, age = ([some[i] for i in rng.integers(0, len(some), 999)] for _ in range(2))
    flag, x = [[None, False, True][i] for i in rng.integers(0, 3, 999)], rng.normal(0, 3, 999).tolist()
    lists: dict[str, list[object]] = {"ward": ward, "age": age, "flag": flag, "x": x}
    kinds = [pa.int64() if bits == 64 else pa.type_for_alias(f"int{bits}")] * 2 + [pa.bool_(), pa.float64()]
    data = {name: pa.array(lists[name], kind) for name, kind in zip(lists, kinds, strict=True)}
    whole, flags = tuple(range(categories)), (False, True)
    readings: list[tuple[GroupMoments, list[str]]] = [
        (GroupMoments((whole, flags), (-1, -1)), ["ward", "flag"]),
        (GroupMoments((whole, whole, flags), (-1, 2, 1)), ["ward", "age", "flag"]),
        (GroupMoments((whole,), (-1,), measures=((-9.0, 9.0),), fillers=(None,), squared=True), ["ward", "age"]),
        (GroupMoments((whole, flags), (-1, -1), measures=((0.0, 90.0),), fillers=(0.0,)), ["ward", "flag", "age"]),
        (GroupMoments((whole, flags), (-1, -1), measures=((-1.0, 1.0),), fillers=(None,)), ["ward", "flag", "x"]),
        (GroupMoments((whole,), (-1,), edges=(-1.5, 0.5, 4.0, 7.0), fillers=(None,)), ["ward", "age"]),
    ]
    with open_table(pa.table(data)) as table:
        for reading, columns in readings:
            assert table.read(reading, columns) == reading.read([lists[name] for name in columns])


FACTS = Facts(
    c=Category(["north", "south", "o'hara", ""]),
    flag=Flag(),
    x=Number(-3, 7.3),
    k=Count(9),
    w=Number(0, 4),
    u=Number(-1, 1),
    wide=Category([0, 7, 8]),
)
QUESTIONS = {
    "proportion": Question("proportion", "flag", FACTS, by="c"),
    "share of whole numbers": Question("proportion", "wide", FACTS),
    "mean": Question("mean", "x", FACTS, by=("c", "flag"), where="k >= 3"),
    "rate": Question("rate", "k", FACTS, by="flag"),
    "rate per": Question("rate", "k", FACTS, by="c", exposure="w"),
    "counts": Question("counts", ("c", "flag"), FACTS, where="x > 0 or c = 'south'"),
    "cells": Question("counts", ("x", "c"), FACTS, cells=Cells(FACTS, {"x": 5, "c": ...})),
    "quantiles": Question("quantiles", "u", FACTS, by="flag", at=(0.5,), bins=37),
}


# The readings of the others are those above, of Spark too.
@on_engines("name", [(name,) for name in QUESTIONS], spark=(1, 2, 6))
def test_every_verb_answers_the_same_bits_on_every_engine(engine_table: Table, messy: pa.Table, name: str) -> None:
    """What an engine reads is what memory reads, so the same noise gives the same cells, and the same answer."""
    question = QUESTIONS[name]
    seen = engine_table.read(question.reading, question.columns, where=question.where)
    lists = {column: messy[column].to_pylist() for column in messy.column_names}
    kept = [True] * messy.num_rows
    if name == "mean":
        kept = [k is not None and k >= 3 for k in lists["k"]]
    if name == "counts":  # NaN is neither above zero nor below it
        kept = [(x is not None and x > 0) or c == "south" for x, c in zip(lists["x"], lists["c"], strict=True)]
    chosen = [[v for v, keep in zip(lists[column], kept, strict=True) if keep] for column in question.columns]
    inside = question.reading.split(question.reading.read(chosen).total)
    found = question.reading.split(seen.total)
    outside = messy.num_rows - sum(kept)
    if question.reading.counted:
        inside[0][-1] += outside
    assert seen.n == messy.num_rows
    assert all(np.array_equal(a, b) for a, b in zip(found, inside, strict=True))
    mechanism = NoisyCells(question, messy.num_rows, "gaussian", 4.0)
    here = Statistics(messy.num_rows, np.concatenate(inside))
    assert mechanism.release(seen, seeded_rng(1)).value == mechanism.release(here, seeded_rng(1)).value
