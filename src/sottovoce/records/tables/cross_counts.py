"""Several tables of counts, and sums by class, cross-classified by one query inside the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ibis
import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Integers
from sottovoce.records.readings import ClassMoments, CrossCounts, Statistics
from sottovoce.records.readings.class_moments import STEPS
from sottovoce.records.tables.categories import category_code
from sottovoce.records.tables.engine import Engine, number
from sottovoce.records.tables.query_plans import PlannedQuery, QueryPlan

__all__ = ["class_moments", "cross_counts"]

Cells = Integers

_MISSING = "each list of categories says itself what a missing value counts as"


def cross_counts(asked: PlannedQuery, reading: CrossCounts) -> QueryPlan:
    """Plan every table of a reading: rows of (table, cell, records), of which table -1 carries n.

    Only cells of the public lists leave the engine, and n.

    The engine turns each value into the position of its category and groups by all positions at once, so the
    records are read once however many tables there are.
    """
    asked.no_missing(_MISSING)
    asked.take(len(reading.columns))
    coded = asked.records.select(**_codes(asked, reading), kept=_kept(asked))
    names = [f"c{i}" for i in range(len(reading.columns))]
    inside = coded.filter([coded.kept, *(coded[name] >= 0 for name in names)])
    groups = inside.group_by(names).aggregate(records=lambda t: t.count())
    query = ibis.union(_all_records(asked), *_summed(asked.engine, groups, _tables(groups, reading)))
    return QueryPlan(query, _decode(reading.sizes), many=True)


def class_moments(asked: PlannedQuery, reading: ClassMoments) -> QueryPlan:
    """Plan the tables of a reading and then its numbers' sums by class, as rows like those of `cross_counts`."""
    asked.no_missing(_MISSING)
    counts, kinds = reading.counts, 1 + len(reading.categories)
    asked.take(kinds + len(reading.bounds))
    if asked.kept is not None:
        raise InvalidValue("every record has its class; leave where=... out, or open a table of the records you want")
    steps: dict[str, Any] = {}
    for j, (name, bounds) in enumerate(zip(asked.names[kinds:], reading.bounds, strict=True)):
        steps[f"t{j}"] = _centred(asked.engine, asked.value(name).cast("float64"), *bounds)
    coded = asked.engine.stage(asked.records.select(**_codes(asked, counts), **steps))
    sums: dict[str, Any] = {}
    for name in steps:
        t = coded[name]
        # Whole numbers below 2⁴¹ in doubles, halved exactly: the same floor in every engine.
        square = ((t * t + number(STEPS / 2)) * number(1 / STEPS)).floor() - number(STEPS / 2)
        sums |= {f"{name}s0": t.cast("int64"), f"{name}s1": square.cast("int64")}
    names = [f"c{i}" for i in range(kinds)]
    rows = coded.select(*names, **sums)
    grouped = {name: rows[name].cast("decimal(38, 0)").sum() for name in sums}
    groups = rows.group_by(names).aggregate(records=rows.count(), **grouped)
    tables = _tables(groups, counts)
    for j in range(len(reading.bounds)):
        for k in (0, 1):
            cell = (groups.c0.cast("int64") * 2 + k).cast("int64")
            tables.append((len(counts.tables) + j, cell, groups[f"t{j}s{k}"]))
    sizes = (*counts.sizes, *[2 * len(reading.classes)] * len(reading.bounds))
    query = ibis.union(_all_records(asked), *_summed(asked.engine, groups, tables))
    return QueryPlan(query, _decode(sizes), many=True)


def _centred(engine: Engine, value: Any, low: float, high: float, missing: float) -> Any:
    """Return t of a number in steps, as a double: the very operations that `readings` does in memory."""
    width = high - low
    # A difference that division would lose below the smallest double counts as none, which is the same step.
    above = ibis.cases(
        (value.isnan(), number(missing - low)),
        (value >= number(high), number(width)),
        (value <= number(low), number(0.0)),
        (value.notnull(), value - number(low)),
        else_=number(missing - low),
    )
    share = ibis.cases((above < number(width * 2.0**-60), number(0.0)), else_=above / number(width))
    return engine.integer((share * number(2.0) - number(1.0)) * number(STEPS)).cast("float64")


def _codes(asked: PlannedQuery, reading: CrossCounts) -> dict[str, Any]:
    """Return each column of categories as positions."""
    lists = list(zip(asked.names, reading.columns, reading.others, strict=False))
    values = [asked.value(name, categories, cut=False) for name, categories, _ in lists]
    return {
        f"c{i}": category_code(asked.engine, value, categories, other)
        for i, (value, (_, categories, other)) in enumerate(zip(values, lists, strict=True))
    }


def _kept(asked: PlannedQuery) -> Any:
    return ibis.literal(True) if asked.kept is None else asked.kept.fill_null(False)


def _all_records(asked: PlannedQuery) -> Any:
    n = asked.records.aggregate(records=asked.records.count().cast("string"))
    return n.select(table=_whole(-1), cell=_whole(0), records=n.records)


def _tables(groups: Any, reading: CrossCounts) -> list[tuple[int, Any, Any]]:
    """Return every table by its position, and of each group its cell there and its records."""
    tables = []
    for position, (crossed, shape) in enumerate(zip(reading.tables, reading.shapes, strict=True)):
        cell = _whole(0)
        for column, size in zip(crossed, shape, strict=True):
            cell = cell * size + groups[f"c{column}"].cast("int64")
        tables.append((position, cell.cast("int64"), groups.records))
    return tables


def _summed(engine: Engine, groups: Any, tables: Sequence[tuple[int, Any, Any]]) -> list[Any]:
    """Return the cells of every table, summed over the groups: one query a table, or one for all of them where each
    would read the records again.
    """
    if engine.copies:
        rows = [
            ibis.struct({"table": _whole(position), "cell": cell, "records": records.cast("decimal(38, 0)")})
            for position, cell, records in tables
        ]
        row = groups.select(row=ibis.array(rows).unnest()).row
        sums = row.as_table().select(**{name: row[name] for name in ("table", "cell", "records")})
        return [sums.group_by("table", "cell").aggregate(records=engine.total(sums.records))]
    parts = []
    for position, cell, records in tables:
        cells = groups.select(cell=cell, records=records)
        sums = cells.group_by("cell").aggregate(records=engine.total(cells.records))
        parts.append(sums.select(table=_whole(position), cell=sums.cell, records=sums.records))
    return parts


def _decode(sizes: Sequence[int]) -> Callable[[Cells], Statistics]:
    starts = np.concatenate([[0], np.cumsum(sizes)])

    def decode(rows: Cells) -> Statistics:
        total = np.zeros(starts[-1])
        cells = rows[rows[:, 0] >= 0]
        total[starts[cells[:, 0]] + cells[:, 1]] = cells[:, 2]
        return Statistics(int(rows[rows[:, 0] < 0, 2].sum()), total)

    return decode


def _whole(value: int) -> Any:
    return ibis.literal(value).cast("int64")
