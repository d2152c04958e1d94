"""From a reading and a column to one aggregate query, and from its integers back to statistics.

Every record counts for something, whatever it holds: a reading that refused some records would tell, outside
all accounting, that such a record exists.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import ibis
import numpy as np

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Integers
from sottovoce.records.readings import BallSum, CategoryCounts, ClippedSum, Statistics
from sottovoce.records.tables.ball import Ball
from sottovoce.records.tables.categories import category_code, category_literals
from sottovoce.records.tables.engine import Engine, number
from sottovoce.records.tables.grid import EngineGrid
from sottovoce.records.tables.query_plans import PlannedQuery, QueryPlan

_FEW = 64
"""So many categories are counted side by side: each is a column of the query, and compared with every value."""


def clipped_sum(asked: PlannedQuery, reading: ClippedSum) -> QueryPlan:
    """Plan n and the sum of a column clipped to [low, high]; without a column, of 1 where the condition holds."""
    table = asked.records
    if not asked.names:
        return _condition_count(asked, reading)
    engine, column = asked.engine, asked.one()
    within = _within(column, reading, asked.missing)
    quick = within.counted and engine.skips
    steps, passed = _steps(engine, column, within), within.filler
    if quick and passed == within.first:  # a missing number is passed over, and becomes the first or the last
        steps = ibis.least(ibis.greatest(column, within.first), within.last)
    elif quick:
        steps, passed = ibis.greatest(ibis.least(column, within.last), within.first), within.last
    grid, there = within.grid, {} if passed == within.filler else {"there": column.count().cast("string")}
    query = table.aggregate(n=table.count().cast("string"), s=engine.total(steps), **there)

    def decode(row: tuple[int, ...]) -> Statistics:
        n, total = row[:2]
        if there:
            total += (n - row[2]) * (within.filler - passed)
        above = float(total / grid.unit - n * Fraction(reading.low))
        return Statistics(n, np.array([grid.value(total)]), above, (total / grid.unit,))

    return QueryPlan(query, decode)


@dataclass(frozen=True)
class _Within:
    """What a column is cut to, in steps of a grid: the first and the last, and what a missing number counts as.

    `counted` says that whole numbers are cut to whole bounds.
    """

    grid: EngineGrid
    first: int
    last: int
    filler: int
    counted: bool
    floored: bool


def _within(column: Any, reading: ClippedSum, missing: Any) -> _Within:
    low, high = _bounds(reading)
    default = min(max(0.0, low), high) if missing is None else missing
    if isinstance(default, str) or not low <= default <= high:
        raise InvalidValue(f"a missing value must count as a number from {low} to {high}. Got missing={missing!r}")
    counted = column.type().is_integer() and all(float(v).is_integer() for v in (low, high, default))
    widest = EngineGrid.covering(max(abs(low), abs(high)))
    grid = EngineGrid(0) if reading.integer or counted else widest
    first, last = grid.inside(low, high)
    if first > last:
        raise InvalidValue(f"the bounds {low} and {high} lie too close together for their size")
    filler = math.floor(default) if reading.integer else min(max(grid.nearest(default), first), last)
    return _Within(grid, first, last, filler, counted, reading.integer)


def clipped(engine: Engine, column: object, reading: ClippedSum, missing: object) -> tuple[Any, EngineGrid]:
    """Return the column clipped and counted in steps of a grid, a missing value counted as `missing`."""
    within = _within(column, reading, missing)
    return _steps(engine, column, within), within.grid


def _steps(engine: Engine, column: Any, within: _Within) -> Any:
    first, last, filler, grid = within.first, within.last, within.filler, within.grid
    if within.counted:
        return ibis.greatest(ibis.least(ibis.coalesce(column, filler), last), first)
    value = column.cast("float64")
    floor, ceiling = number(grid.value(first)), number(grid.value(last))
    inner = value.floor() if within.floored else engine.integer(value * number(grid.scale))
    # NaN goes first: engines order it differently, and DuckDB drops a comparison that the minimum and maximum
    # stored in a Parquet file seem to settle, although NaN is left out of those.
    return ibis.cases(
        (value.isnan(), filler),
        (value.between(floor, ceiling), inner),
        (value < floor, first),
        (value > ceiling, last),
        else_=filler,
    )


def _bounds(reading: ClippedSum) -> tuple[float, float]:
    low, high = reading.low, reading.high
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise InvalidValue(f"bounds must be finite, the lower one first. Got {low} and {high}")
    if reading.integer and not (float(low).is_integer() and float(high).is_integer()):
        raise InvalidValue(f"whole numbers need whole bounds. Got {low} and {high}")
    return low, high


def category_counts(asked: PlannedQuery, reading: CategoryCounts) -> QueryPlan:
    """Plan the number of records of each category; one that fits none counts as `missing`.

    The engine groups by the raw value first, so a record is hashed once however many categories there are;
    only the listed categories and n leave it. A few categories leave in one row; of many each has a row of its own.
    """
    engine, table, missing, categories = asked.engine, asked.records, asked.missing, reading.categories
    if len(set(categories)) < len(categories) or not categories:
        raise InvalidValue("categories must be a list of different values")
    if not asked.names:
        return _condition_count(asked, reading)
    if missing is not None and missing not in categories:
        raise InvalidValue(f"a missing value must count as one of the categories. Got missing={missing!r}")
    default = categories.index(missing) if missing is not None else 0
    column = asked.one(categories)
    if len(categories) > _FEW:
        groups = _by_value(table, column)
        rows = groups.select(code=category_code(engine, groups.value, categories, default), records=groups.records)
        query = rows.group_by("code").aggregate(records=engine.total(rows.records))
        return QueryPlan(query, lambda rows: _tallied(rows, len(categories)), many=True)
    column, literals = category_literals(column, categories)
    groups = _by_value(table, column)
    counts = {
        f"c{i}": engine.total(ibis.cases((groups.value == literal, groups.records), else_=0))
        for i, literal in enumerate(literals)
    }
    query = groups.aggregate(n=engine.total(groups.records), **counts)

    def decode(row: tuple[int, ...]) -> Statistics:
        n, counts = row[0], np.array(row[1:], dtype=np.int64)
        counts[default] += n - counts.sum()
        return Statistics(n, counts.astype(np.float64))

    return QueryPlan(query, decode)


def _by_value(table: Any, column: Any) -> Any:
    return table.select(value=column).group_by("value").aggregate(records=lambda t: t.count())


def _tallied(rows: Integers, size: int) -> Statistics:
    counts = np.zeros(size)
    counts[rows[:, 0]] = rows[:, 1]
    return Statistics(int(rows[:, 1].sum()), counts)


def _condition_count(asked: PlannedQuery, reading: ClippedSum | CategoryCounts) -> QueryPlan:
    """Plan the statistics of records that are 1 where a condition holds and 0 elsewhere, from one count."""
    table, kept = asked.records, asked.kept
    if kept is None:
        raise InvalidData("say what to read: a column, a condition (where=...), or both")
    asked.no_missing("a condition is 0 or 1 and never missing, so it takes no value for missing")
    if isinstance(reading, ClippedSum):
        low, high = _bounds(reading)
        zero, item = (Fraction(min(max(value, low), high)) for value in (0, 1))
    elif {*reading.categories} != {0, 1}:
        raise InvalidValue(f"a condition is 0 or 1, so its categories are 0 and 1. Got {reading.categories!r}")
    query = table.aggregate(n=table.count().cast("string"), k=table.count(where=kept).cast("string"))

    def decode(row: tuple[int, ...]) -> Statistics:
        n, ones = row
        if isinstance(reading, CategoryCounts):
            return Statistics(n, np.array([ones if category else n - ones for category in reading.categories]))
        total = ones * item + (n - ones) * zero
        return Statistics(n, np.array([float(total)]), float(total - n * Fraction(reading.low)), (total,))

    return QueryPlan(query, decode)


def ball_sum(asked: PlannedQuery, reading: BallSum) -> QueryPlan:
    """Plan n and the sum of vectors projected onto a ball; records outside `kept` count as the origin."""
    asked.no_missing("a missing coordinate counts as 0; a ball takes no other value for it")
    asked.take(reading.dimension)
    engine, ball = asked.engine, Ball(reading.dimension, reading.radius)
    values, grid = [asked.value(name, cut=False) for name in asked.names], EngineGrid.covering(reading.radius)
    rows = ball.project(engine, asked.records, values, kept=asked.kept, scale=grid.scale)
    steps = [engine.integer(rows[f"w{i}"]) for i in range(reading.dimension)]
    query = rows.aggregate(n=rows.count().cast("string"), **{f"s{i}": engine.total(s) for i, s in enumerate(steps)})

    def decode(row: tuple[int, ...]) -> Statistics:
        exact = tuple(steps / grid.unit for steps in row[1:])
        return Statistics(row[0], np.array([float(entry) for entry in exact]), exact=exact)

    return QueryPlan(query, decode)
