"""What regressions read: their moments as one query of sums, or their rows, streamed out of the engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ibis
import numpy as np

from sottovoce.privacy.errors import InvalidData
from sottovoce.privacy.numbers import Floats
from sottovoce.records.facts.columns import Category, Column, Flag
from sottovoce.records.readings import ClippedRows, Moments, Rows, Statistics
from sottovoce.records.readings.design_rows import TINY, RowReading, default_place, span
from sottovoce.records.tables.ball import Ball, isfinite
from sottovoce.records.tables.categories import category_literals
from sottovoce.records.tables.engine import number
from sottovoce.records.tables.grid import EngineGrid
from sottovoce.records.tables.query_plans import PlannedQuery, QueryPlan

_HUGE = float(np.finfo(np.float64).max)
_WHY = "the facts of a feature say what a missing cell counts as; leave missing out"


def moments(asked: PlannedQuery, reading: Moments) -> QueryPlan:
    """Plan n and the moments X'X, X'y, X'1 and y'y by one query; a record outside of `kept` adds nothing but its n."""
    features, label = _taken(asked, reading)
    engine, ball = asked.engine, Ball(reading.dimension, reading.data_norm)
    parts, fillers = [part for name, fact in features for part in _encoded(asked, name, fact)], None
    if not reading.features:
        parts = [asked.value(name, cut=False) for name, _ in features]
        fillers = [*_fillers(reading).tolist(), *([0.0] if reading.intercept else [])]
    if reading.intercept:
        parts.append(number(reading.intercept))
    y = _response(asked, label, reading)
    if asked.kept is not None:
        y = ibis.cases((asked.kept, y), else_=number(0.0))
    grids = [EngineGrid.covering(bound) for bound in reading.bounds()]
    gram, cross, item, square = (grid.scale for grid in grids)
    rows = ball.project(
        engine,
        asked.records,
        parts,
        fillers=fillers,
        bounded=bool(reading.features) and abs(reading.intercept) <= ball.huge,
        kept=asked.kept,
        scale=item,
        y=y,
    )
    # Steps of every grid from few products: powers of two change no bit of them.
    places = range(reading.dimension)
    scaled = {f"u{i}": rows[f"w{i}"] * number(gram / (item * item)) for i in places}
    rows = engine.stage(rows.mutate(**scaled, v=rows.y * number(cross / item), z=rows.y * number(square)))
    products = (
        [rows[f"w{i}"] * rows[f"u{j}"] for i, j in reading.places],
        [rows[f"w{i}"] * rows.v for i in places],
        [rows[f"w{i}"] for i in places],
        [rows.y * rows.z],
    )
    sums = [(value, grid) for part, grid in zip(products, grids, strict=True) for value in part]
    totals = {f"s{k}": engine.total(engine.integer(value)) for k, (value, _) in enumerate(sums)}
    query = rows.aggregate(n=rows.count().cast("string"), **totals)

    def decode(row: tuple[int, ...]) -> Statistics:
        return Statistics(row[0], np.array([g.value(s) for s, (_, g) in zip(row[1:], sums, strict=True)]))

    return QueryPlan(query, decode)


def clipped_rows(asked: PlannedQuery, reading: ClippedRows) -> QueryPlan:
    """Plan the rows as numbers and places of categories; they are encoded and clipped batch by batch as they come.

    Here records, not sums, leave the engine: they are held in this process, and nowhere else.
    """
    features, label = _taken(asked, reading)
    columns = {f"x{k}": raw(asked, name, fact) for k, (name, fact) in enumerate(features)}
    columns["y"] = raw(asked, *label)
    if asked.kept is not None:
        columns["kept"] = ibis.cases((asked.kept, 1), else_=0)

    def decode(batches: Iterator[Any]) -> Rows:
        parts = []
        for batch in batches:
            result = [floats(batch.column(name)) for name in columns]
            kept = None if asked.kept is None else result.pop() == 1
            parts.append(reading.seen(result[:-1], result[-1], kept))
        if not parts:
            return Rows(0, np.zeros((0, reading.dimension)), np.zeros(0))
        X, y = np.concatenate([part.X for part in parts]), np.concatenate([part.y for part in parts])
        return Rows(len(y), X, y)

    return QueryPlan(asked.records.select(**columns), decode, stream=True)


def _taken(asked: PlannedQuery, reading: RowReading) -> tuple[list[tuple[str, Any]], tuple[str, Any]]:
    """Return each feature's name with what is public of it, then the label's."""
    asked.no_missing(_WHY)
    if len(asked.names) != reading.inputs + 1:
        raise InvalidData(
            f"this regression takes {reading.inputs} feature(s) and then the label. Got {len(asked.names)} column(s)"
        )
    facts = reading.features or (None,) * reading.inputs
    return list(zip(asked.names[:-1], facts, strict=True)), (asked.names[-1], reading.label)


def _fillers(reading: RowReading) -> Floats:
    return np.broadcast_to(reading.missing, (reading.inputs,))


def raw(asked: PlannedQuery, name: str, fact: Column | None) -> Any:
    """Return a column as numbers, null where missing; of categories the place of each."""
    if not isinstance(fact, Category):
        return asked.value(name, cut=False).cast("float64")
    column, literals = category_literals(asked.value(name, fact.categories, cut=False), fact.categories)
    places = [(column == literal, place) for place, literal in enumerate(literals)]
    return ibis.cases(*places, else_=default_place(fact)).cast("float64")


def _encoded(asked: PlannedQuery, name: str, fact: Column | None) -> list[Any]:
    """Return the entries of a feature, as `readings.rows.encoded` makes them."""
    if fact is None:
        return []
    if isinstance(fact, Category):
        place = raw(asked, name, fact)
        wanted = range(1, len(fact.categories))
        return [ibis.cases((place == number(float(k)), number(1.0)), else_=number(0.0)) for k in wanted]
    value = asked.value(name, cut=False).cast("float64")
    if isinstance(fact, Flag):
        filler = number(float(bool(fact.missing)))
        finite = value.abs().between(number(0.0), number(_HUGE))
        yes = (finite & (value != number(0.0)), number(1.0))
        return [ibis.cases((value.isnan(), filler), yes, (finite, number(0.0)), else_=filler)]
    return [_scaled(value, fact)]


def _scaled(value: Any, fact: Column) -> Any:
    """Return a number or a count as −1 to 1, by the very operations of `readings.rows.scaled`."""
    low, high, filler = span(fact)
    tiny = number(TINY * max(abs(low), abs(high)))
    zero = min(max(0.0, low), high)
    inside = ibis.cases(
        (value.isnan(), number(filler)),
        (value.abs() < tiny, number(zero)),
        (value.between(number(low), number(high)), value),
        (value < number(low), number(low)),
        (value > number(high), number(high)),
        else_=number(filler),
    )
    part = (inside - number(low)) / number(high - low)
    return number(2.0) * part - number(1.0)


def _response(asked: PlannedQuery, label: tuple[str, Any], reading: RowReading) -> Any:
    """Return the label as a double in its range."""
    name, fact = label
    low, high = reading.labels
    if reading.binary:
        value = raw(asked, name, fact)
        if isinstance(fact, Flag):
            value = _encoded(asked, name, fact)[0]
        yes = high if fact is None else 1.0
        return ibis.cases((value.isnan(), number(low)), (value == number(yes), number(high)), else_=number(low))
    value = asked.value(name, cut=False).cast("float64")
    if fact is not None:
        wide = number(low) + (_scaled(value, fact) + number(1.0)) * number((high - low) / 2)
        return _tamed(wide, reading)
    if asked.engine.skips:  # what is tiny is no step of the grid, and no product of it an error
        inside = ibis.greatest(ibis.least(value, number(high)), number(low))
        return ibis.cases((isfinite(value), inside), else_=number(reading.neutral))
    inside = ibis.cases(
        (value.isnan(), number(reading.neutral)),
        (value.between(number(low), number(high)), value),
        (value.between(number(-_HUGE), number(low)), number(low)),
        (value.between(number(high), number(_HUGE)), number(high)),
        else_=number(reading.neutral),
    )
    return _tamed(inside, reading)


def _tamed(value: object, reading: RowReading) -> Any:
    low, high = (number(end) for end in reading.labels)
    inside = ibis.greatest(ibis.least(value, high), low)
    tiny = number(TINY * max(map(abs, reading.labels)))
    return ibis.cases((inside.abs() >= tiny, inside), else_=number(0.0))


def floats(column: Any) -> Floats:
    """Return an Arrow column as doubles, NaN where it is null."""
    with np.errstate(all="ignore"):
        return np.asarray(column.cast("float64").to_numpy(zero_copy_only=False), dtype=np.float64)
