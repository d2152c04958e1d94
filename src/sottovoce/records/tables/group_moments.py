"""Counts and sums of every public group, by one query inside the engine."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ibis
import numpy as np

from sottovoce.privacy.numbers import Integers
from sottovoce.records.readings import CellCounts, GroupMoments, Statistics
from sottovoce.records.readings.bands import Bands
from sottovoce.records.readings.group_moments import STEPS
from sottovoce.records.tables.categories import category_code
from sottovoce.records.tables.cells import bin_of, place_or_none, steps_of
from sottovoce.records.tables.columns import field
from sottovoce.records.tables.engine import Engine
from sottovoce.records.tables.query_plans import PlannedQuery, QueryPlan

__all__ = ["by_cell", "cell_counts", "group_moments"]

_SHIFT = STEPS.bit_length() - 1
_FEW = 2**13
"""So many combinations of whole numbers are counted each on its own, and turned into steps afterwards."""
_BITS, _QUICK = 18, 14
"""An array of counts has places of so many bits at most, and is no work beside a small file up to so many."""
_DIGIT = "decimal(1, 0)"
_BITS_OF = {"int8": 9, _DIGIT: 5}
"""The bits of all numbers of a kind and of null, as DuckDB makes room for them; there is no array for other kinds."""


def group_moments(asked: PlannedQuery, reading: GroupMoments) -> QueryPlan:
    """Plan the counts and sums of every cell."""
    asked.no_missing("each column says itself what a missing value counts as")
    asked.take(reading.columns)
    groups, numbers = asked.names[: len(reading.groups)], list(asked.names[len(reading.groups) :])
    keys = [_key(asked, *each) for each in zip(groups, reading.groups, reading.others, strict=True)]
    fillers = list(reading.fillers)
    if reading.edges:
        inner, filler = reading.edges[1:-1], fillers.pop(0)
        missing = None if filler is None else int(np.searchsorted(inner, filler, side="right"))
        keys.append(_binned(asked, numbers.pop(0), inner, missing))
    return _rows_by_cell(asked, reading, keys, numbers, fillers)


def cell_counts(asked: PlannedQuery, reading: CellCounts) -> QueryPlan:
    """Plan the counts of every cell."""
    asked.no_missing("each column says itself what a missing value counts as")
    asked.take(reading.columns)
    columns = zip(asked.names, reading.numeric, reading.marks, reading.others, strict=True)
    keys = [
        _binned(asked, name, marks, place_or_none(other)) if numeric else _key(asked, name, marks, other)
        for name, numeric, marks, other in columns
    ]
    return _rows_by_cell(asked, reading, keys)


def _rows_by_cell(
    asked: PlannedQuery,
    reading: GroupMoments | CellCounts,
    keys: list[Key],
    names: Sequence[str] = (),
    fillers: Sequence[float | None] = (),
) -> QueryPlan:
    """Plan one row for each combination of keys: of the places in every column and, where they are few, of the numbers.

    A record is in no cell where a number is not there, or where the question is not about it. Such records are left
    out, and all are counted apart; where the engine would have to read them once more for that, their first key is
    null, for a key less is read sooner.
    """
    engine, records = asked.engine, asked.records
    numbers = [asked.value(name, cut=False) for name in names]
    scales = reading.scales if isinstance(reading, GroupMoments) else ()
    known = [number for number, filler in zip(numbers, fillers, strict=True) if filler is None]
    few = [_few(number, s.low, s.high, f) for number, s, f in zip(numbers, scales, fillers, strict=True)]
    values = [key for key in few if key is not None]
    if len(values) < len(numbers) or reading.cells * math.prod(key.size for key in values) > _FEW:
        values = []
    # For the sums of all pairs of 8 bits an array would need too much room.
    kinds = _kinds(engine, [*keys, *values], _BITS if values or not numbers else _QUICK)
    columns = {f"c{i}": key.value.cast(kind) for i, (key, kind) in enumerate(zip(keys, kinds, strict=False))}
    columns |= {f"v{i}": key.value.cast(kinds[len(keys) + i]) for i, key in enumerate(values)}
    if not values:
        measures = zip(numbers, scales, fillers, strict=True)
        columns |= {
            f"t{i}": steps_of(engine, number.cast("float64"), s, f, loose=True)
            for i, (number, s, f) in enumerate(measures)
        }
    kept, there = [] if asked.kept is None else [asked.kept], [_there(number) for number in known]
    # To leave a record out costs more than to count whole numbers, and less than to add fractions.
    out, conditions = ([*kept, *there], []) if not values else (kept, there)
    if asked.whole is None:
        out, conditions = [], [*there, *kept]
    if apart := bool(out):
        records = records.filter(out)
    if conditions:
        inside = functools.reduce(operator.and_, conditions)
        columns |= {"c0": ibis.cases((inside, columns["c0"]))} if keys else {"inside": inside}
    rows = engine.stage(records.select(**columns))
    grouped = [name for name in columns if not name.startswith("t")]
    sums = {} if values else _sums(engine, rows, reading)
    result = (rows.group_by(grouped) if grouped else rows).aggregate(records=rows.count(), **sums)
    inside = ibis.cases((result.inside, 1), else_=0) if "inside" in columns else ibis.literal(1)
    shown = {name: result[name].cast("int64").fill_null(-1) for name in grouped if name != "inside"}
    query = result.select(**shown, inside=inside.cast("int64"), records=result.records, **{s: result[s] for s in sums})
    if apart:
        full = asked.whole.aggregate(records=asked.whole.count())
        ends = {name: ibis.literal(-1).cast("int64") for name in [*shown, "inside"]}
        zeros = {name: ibis.literal("0") for name in sums}
        query = query.union(full.select(**ends, records=full.records, **zeros))

    def decode(rows: Integers) -> Statistics:
        rows = rows.reshape(-1, len(query.columns))
        codes, mark, records = rows[:, : len(shown)], rows[:, len(shown)], rows[:, len(shown) + 1]
        n = int(records[mark < 0].sum() if apart else records.sum())
        places = [key.place(codes[:, i]) for i, key in enumerate(keys)]
        there = functools.reduce(operator.and_, [mark > 0, *(place >= 0 for place in places)])
        cell = np.ravel_multi_index([place[there] for place in places], reading.shape) if keys else 0
        added = rows[there][:, len(shown) + 2 :].T
        if values:
            steps = [s.steps(codes[there, len(keys) + i].astype(np.float64)) for i, s in enumerate(scales)]
            steps += reading.products(steps) if isinstance(reading, GroupMoments) and reading.squared else []
            added = np.array(steps) * records[there]
        table = np.zeros((1 + reading.moments, reading.cells))
        for line, part in zip(table, [records[there], *added], strict=True):
            np.add.at(line, np.broadcast_to(cell, part.shape), part)
        return reading.gathered(n, table[0], table[1:])

    return QueryPlan(query, decode, many=True)


def _sums(engine: Engine, rows: Any, reading: GroupMoments | CellCounts) -> dict[str, Any]:
    """Return the sums of t of every measure, and of the squares that go with them."""
    sums = {f"s{i}": engine.total(rows[f"t{i}"]).fill_null("0") for i in range(len(reading.measures))}
    if reading.squared:
        first = rows.t0.cast("int64")  # t² is never halfway between two steps, so half a step more rounds it
        sums["square"] = engine.total((first * first + STEPS // 2) >> _SHIFT).fill_null("0")
    if reading.crossed:
        second = rows.t1.cast("int64")
        apart = first - second
        sums["second"] = engine.total((second * second + STEPS // 2) >> _SHIFT).fill_null("0")
        sums["apart"] = engine.total((apart * apart + 2 * STEPS) >> (_SHIFT + 2)).fill_null("0")
    return sums


def by_cell(engine: Engine, placed: Any, reading: GroupMoments | CellCounts) -> QueryPlan:
    """Plan one row a cell from records that are in one, or in none (-1)."""
    query = placed.group_by("cell").aggregate(records=placed.count(), **_sums(engine, placed, reading))

    def decode(rows: Integers) -> Statistics:
        rows = rows.reshape(-1, 2 + reading.moments)
        table, placed = np.zeros((1 + reading.moments, reading.cells)), rows[rows[:, 0] >= 0]
        table[:, placed[:, 0]] = placed[:, 1:].T
        return reading.gathered(int(rows[:, 1].sum()), table[0], table[1:])

    return QueryPlan(query, decode, many=True)


@dataclass(frozen=True)
class Key:
    """What records are grouped by: whole numbers, from which a place in a column follows, below 0 for none.

    Attributes
    ----------
    value
        An expression of the engine.
    place
        From its whole numbers to places.
    least, most
        Bounds of its whole numbers, whatever the records hold.
    """

    value: Any
    place: Callable[[Integers], Integers]
    least: int
    most: int

    @property
    def size(self) -> int:
        """How many numbers it has at most."""
        return self.most - self.least + 1


def _kinds(engine: Engine, keys: Sequence[Key], room: int) -> list[str]:
    """Return of what kind the numbers of each key are: of 8 bits, or of one digit, where an array has room for all.

    Each thread clears an array of its own and goes through it. For two numbers of 8 bits that takes 2 ms, more than a
    thread's share of two million records; to make digits takes a few nanoseconds a record.
    """
    wide = ["int32"] * len(keys)
    if not engine.small or any(key.least < -128 or key.most > 127 for key in keys):
        return wide
    kinds = ["int8"] * len(keys)
    for place, key in enumerate(keys):
        if sum(map(_BITS_OF.__getitem__, kinds)) > _QUICK and key.least >= -9 and key.most <= 9:
            kinds[place] = _DIGIT
    return kinds if sum(map(_BITS_OF.__getitem__, kinds)) <= room else wide


def _there(number: Any) -> Any:
    """Say whether a number is there; to some engines null is no NaN, to others it may be one."""
    return number.notnull() & ~number.isnan() if number.type().is_floating() else number.notnull()


def _few(number: Any, low: float, high: float, filler: float | None) -> Key | None:
    """Return whole numbers within their bounds, where they are whole and few: each is then counted on its own."""
    first, last = math.floor(low), math.ceil(high)
    if not number.type().is_integer() or not _near(first, last) or not (filler is None or float(filler).is_integer()):
        return None
    filled = number if filler is None else number.fill_null(int(filler))
    # A missing one is any number here: it is known otherwise that it is missing.
    value = ibis.greatest(ibis.least(filled, last), first)
    return Key(value, lambda found: found, first, last)


def _key(asked: PlannedQuery, name: str, categories: tuple[object, ...] | Bands, other: int) -> Key:
    """Return the places of categories, or of bands."""
    if isinstance(categories, Bands):
        return _binned(asked, name, categories.edges, place_or_none(other))
    code = category_code(
        asked.engine, asked.value(name, categories, cut=False), categories, place_or_none(other), loose=True
    )
    size = len(categories) + (other == len(categories))
    # Numbers of 8 bits may be left as they are.
    all_bits = code.type().is_int8() and not field(asked.records, name).type().is_boolean()
    bounds = (-128, 127) if all_bits else (-1, size)
    return Key(code, lambda found: np.where(found < size, found, -1), *bounds)


def _near(first: int, last: int) -> bool:
    """Say whether the whole numbers from one to another are few, and all of 32 bits."""
    return last - first < _FEW and first >= -(2**31) and last < 2**31


def _binned(asked: PlannedQuery, name: str, inner: tuple[float, ...], missing: int | None) -> Key:
    """Return the bins between inner edges: what is missing is in none, or where it is said to be."""
    number, bins, none = asked.value(name, cut=False), len(inner) + 1, -1 if missing is None else missing
    first, last = (math.floor(inner[0]) - 1, math.ceil(inner[-1])) if inner else (0, 0)
    if number.type().is_integer() and inner and _near(first, last):
        beyond = last - first + 1
        # How far two numbers of 8 bits are apart need not fit into 8 bits.
        there = ibis.greatest(ibis.least(number, last), first).cast("int32") - first
        value = ibis.cases((number.notnull(), there), else_=beyond)

        def place(found: Integers) -> Integers:
            bin_ = np.searchsorted(inner, (found + first).astype(np.float64), side="right")
            return np.where(found < 0, -1, np.where(found < beyond, bin_, none))

        return Key(value, place, 0, beyond)
    value = bin_of(asked.engine, number.cast("float64"), inner, missing, loose=True)
    return Key(value, lambda found: np.where(found < bins, found, none), -1, bins)
