"""Several tables of counts, cross-classified by one query inside the engine."""

from __future__ import annotations

from typing import Any

import ibis
import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.errors import InvalidValue
from sottovoce.readings import CrossCounts, Statistics
from sottovoce.tables.plans import Asked, Plan
from sottovoce.tables.sums import category_literals

__all__ = ["category_code", "cross_counts"]

Cells = NDArray[np.int64]


def cross_counts(asked: Asked, reading: CrossCounts) -> Plan:
    """Plan every table of a reading: rows of (table, cell, records), of which table -1 carries n.

    Only cells of the public lists leave the engine, and n.

    The engine turns each value into the position of its category and groups by all positions at once, so the
    records are read once however many tables there are.
    """
    asked.no_missing("each list of categories says itself what a missing value counts as")
    asked.take(len(reading.columns))
    engine, table, kept = asked.engine, asked.records, asked.kept
    pairs = zip(asked.names, reading.columns, strict=True)
    values = [asked.value(name, categories, cut=False) for name, categories in pairs]
    codes = {
        f"c{i}": category_code(value, categories, other)
        for i, (value, categories, other) in enumerate(zip(values, reading.columns, reading.others, strict=True))
    }
    coded = table.select(**codes, kept=ibis.literal(True) if kept is None else kept.fill_null(False))
    inside = coded.filter([coded.kept, *(coded[name] >= 0 for name in codes)])
    groups = inside.group_by(list(codes)).aggregate(records=lambda t: t.count())
    n = table.aggregate(records=table.count().cast("string"))
    parts = [n.select(table=_whole(-1), cell=_whole(0), records=n.records)]
    for position, (crossed, shape) in enumerate(zip(reading.tables, reading.shapes, strict=True)):
        cell = _whole(0)
        for column, size in zip(crossed, shape, strict=True):
            cell = cell * size + groups[f"c{column}"].cast("int64")
        cells = groups.select(cell=cell.cast("int64"), records=groups.records)
        sums = cells.group_by("cell").aggregate(records=engine.total(cells.records))
        parts.append(sums.select(table=_whole(position), cell=sums.cell, records=sums.records))
    sizes = [int(np.prod(shape)) for shape in reading.shapes]
    starts = np.concatenate([[0], np.cumsum(sizes)])

    def decode(rows: Cells) -> Statistics:
        total = np.zeros(starts[-1])
        cells = rows[rows[:, 0] >= 0]
        total[starts[cells[:, 0]] + cells[:, 1]] = cells[:, 2]
        return Statistics(int(rows[rows[:, 0] < 0, 2].sum()), total)

    return Plan(ibis.union(*parts) if len(parts) > 1 else parts[0], decode, many=True)


def _whole(value: int) -> Any:
    return ibis.literal(value).cast("int64")


def category_code(value: Any, categories: tuple[Any, ...], other: int) -> Any:
    """Return the position of a value among its categories."""
    if len(set(categories)) < len(categories) or not categories:
        raise InvalidValue("categories must be a list of different values")
    value, literals = category_literals(value, categories)
    return ibis.cases(*((value == literal, i) for i, literal in enumerate(literals)), else_=other)
