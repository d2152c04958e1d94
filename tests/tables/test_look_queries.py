"""Looks on every engine: the same sums as in memory, but for the last digit of an exponential."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from sottovoce.records.facts import Category, Count, Flag, Number
from sottovoce.records.facts.encodings import Encoding
from sottovoce.records.facts.splines import Spline
from sottovoce.records.readings import Look
from sottovoce.records.tables import Table

COLUMNS = (Number(-3, 7.5), Category(["north", "south", "o'hara"]), Flag(False), Number(-1, 1, 0.25))
ENTRIES = ((), ((0, -1),), ((1, 1),), ((1, 2),), ((0, -1), (2, -1)), ((3, -1),))
ENCODING = Encoding(("x", "c", "flag", "u"), COLUMNS, ENTRIES, (True, True, True, False))
FEWER = Encoding(("x", "c", "flag", "u"), COLUMNS, ENTRIES[:3], (True, True, True, False))
"""What a family makes of the entries is the same for few of them: the sums are as many as their square."""
NAMES = ["x", "c", "flag", "u"]
CASES = {
    "logistic": (Flag(), "flag"),
    "probit": (Category(["north", "south"], "north"), "c"),
    "linear": (Number(-2, 4), "w"),
    "poisson": (Count(12), "k"),
    "multinomial": (Category(["", "ünï", "south"]), "c"),
}


def reading(family: str, **rest: object) -> Look:
    encoding, size = (ENCODING, 6) if family == "logistic" else (FEWER, 3)
    rng = np.random.default_rng(5)
    shape = np.eye(size) + 0.2 * rng.standard_normal((size, size))
    centre = tuple(rng.normal(size=6 if family == "multinomial" else size).tolist())
    rows = tuple(map(tuple, shape.tolist()))
    return Look(encoding, CASES[family][0], family, centre, rows, 1.9, 11, **rest)  # type: ignore[arg-type]


@pytest.mark.parametrize(("family", "extra"), [(family, 0.6 * (family == "poisson")) for family in CASES])
def test_a_look_is_the_same_everywhere_to_within_a_step_a_record(
    engine_table: Table, messy: pa.Table, family: str, extra: float
) -> None:
    look, columns = reading(family, extra=extra), [*NAMES, CASES[family][1]]
    seen = engine_table.read(look, columns)
    here = look.read([messy[name].to_pylist() for name in columns])
    assert seen.n == here.n == messy.num_rows
    assert np.abs(seen.total).max() > 1000
    # A record whose entry lies within an ulp of a half step may be rounded the other way: two of 1,000 at most.
    assert np.abs(seen.total - here.total).max() <= 2 * 2.0**look.bits
    assert np.count_nonzero(seen.total != here.total) <= 2 * look.dimension
    assert look.check(seen)


def test_splines_are_the_same_everywhere(engine_table: Table, messy: pa.Table) -> None:
    entries = (*ENTRIES[:1], *(((0, -2 - k),) for k in range(5)), ((3, -2),), ((3, -3),))
    splines = (Spline("bs", 5), None, None, Spline("ns", 2))
    encoding, size = Encoding(("x", "c", "flag", "u"), COLUMNS, entries, (True,) * 4, splines), len(entries)
    rows = tuple(map(tuple, np.eye(size).tolist()))
    look = Look(encoding, Flag(), "logistic", (0.3,) * size, rows, 1.9, 11)
    columns = [*NAMES, "flag"]
    seen, here = engine_table.read(look, columns), look.read([messy[name].to_pylist() for name in columns])
    assert np.abs(here.total).max() > 1000
    assert np.abs(seen.total - here.total).max() <= 2 * 2.0**look.bits
    assert np.count_nonzero(seen.total != here.total) <= 2 * look.dimension


@pytest.mark.parametrize(("cap", "extra"), [(24, 0.0), (25, 32.0), (120, 0.6)])
def test_counts_are_the_same_everywhere_however_far_out_they_are_cut(
    engine_table: Table, messy: pa.Table, cap: int, extra: float
) -> None:
    look = replace(reading("poisson"), response=Count(1000), cap=cap, extra=extra)
    columns = [*NAMES, "k"]
    seen, here = engine_table.read(look, columns), look.read([messy[name].to_pylist() for name in columns])
    assert np.abs(here.total).max() > 1000
    assert np.abs(seen.total - here.total).max() <= 2 * 2.0**look.bits
    assert np.count_nonzero(seen.total != here.total) <= 2 * look.dimension


def test_what_lies_beyond_a_cut_is_the_same_everywhere(engine_table: Table, messy: pa.Table) -> None:
    look, columns = reading("linear", parts=("score",), cap=1.1, beyond=0.3), [*NAMES, "w"]
    seen, here = engine_table.read(look, columns), look.read([messy[name].to_pylist() for name in columns])
    assert np.abs(here.total).max() > 1000
    assert np.abs(seen.total - here.total).max() <= 2 * 2.0**look.bits


def test_what_counts_have_beyond_a_cut_is_the_same_everywhere(engine_table: Table, messy: pa.Table) -> None:
    look = replace(reading("poisson", parts=("score",)), response=Count(1000), cap=9, beyond=4)
    seen, here = engine_table.read(look, [*NAMES, "k"]), look.read([messy[name].to_pylist() for name in [*NAMES, "k"]])
    assert np.abs(here.total).max() > 1000
    assert np.abs(seen.total - here.total).max() <= 2 * 2.0**look.bits


def test_a_condition_leaves_n_and_takes_records_out(engine_table: Table, messy: pa.Table) -> None:
    look, columns = reading("linear", cap=0.6), [*NAMES, "w"]
    seen = engine_table.read(look, columns, where="k > 4")
    chosen = messy.filter(pa.compute.fill_null(pa.compute.greater(messy["k"], 4), False))
    here = look.read([chosen[name].to_pylist() for name in columns])
    assert seen.n == messy.num_rows
    assert np.abs(seen.total - here.total).max() <= 2 * 2.0**look.bits


def test_only_the_parts_that_are_asked_for_are_added(engine_table: Table) -> None:
    look = reading("logistic", parts=("score",))
    assert engine_table.read(look, [*NAMES, "flag"]).total.shape == (6,)
