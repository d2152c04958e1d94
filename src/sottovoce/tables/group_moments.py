"""Counts and sums of every public group, by one query inside the engine that groups by cell."""

from __future__ import annotations

import functools
import operator
from typing import Any

import ibis
import numpy as np
from numpy.typing import NDArray

from sottovoce.readings import CellCounts, GroupMoments, Statistics
from sottovoce.readings.group_moments import STEPS, Scale
from sottovoce.tables.cross_counts import category_code
from sottovoce.tables.engine import Engine, number
from sottovoce.tables.plans import Asked, Plan

__all__ = ["cell_counts", "group_moments"]

_SHIFT = STEPS.bit_length() - 1


def group_moments(asked: Asked, reading: GroupMoments) -> Plan:
    """Plan rows of (cell, records, those inside, sums), of which cell -1 holds the records that are in none."""
    asked.no_missing("each column says itself what a missing value counts as")
    asked.take(reading.columns)
    names = list(asked.names)
    groups, numbers = names[: len(reading.groups)], names[len(reading.groups) :]
    codes = [
        category_code(asked.engine, asked.value(name, categories, cut=False), categories, _place(other))
        for name, categories, other in zip(groups, reading.groups, reading.others, strict=True)
    ]
    fillers = list(reading.fillers)
    if reading.edges:
        inner, filler = reading.edges[1:-1], fillers.pop(0)
        missing = None if filler is None else int(np.searchsorted(inner, filler, side="right"))
        codes.append(_bin(_double(asked, numbers.pop(0)), inner, missing))
    values = [_double(asked, name) for name in numbers]
    steps = [
        _steps(asked.engine, value, scale, filler)
        for value, scale, filler in zip(values, reading.scales, fillers, strict=True)
    ]
    return _by_cell(asked, reading, codes, steps)


def cell_counts(asked: Asked, reading: CellCounts) -> Plan:
    """Plan rows as `group_moments` does, without sums."""
    asked.no_missing("each column says itself what a missing value counts as")
    asked.take(reading.columns)
    codes = [
        _bin(_double(asked, name), marks, _place(other))
        if numeric
        else category_code(asked.engine, asked.value(name, marks, cut=False), marks, _place(other))
        for name, numeric, marks, other in zip(asked.names, reading.numeric, reading.marks, reading.others, strict=True)
    ]
    return _by_cell(asked, reading, codes, [])


def _by_cell(asked: Asked, reading: GroupMoments | CellCounts, codes: list[Any], steps: list[Any]) -> Plan:
    """Plan one row a cell from the place of each record in every column and what it adds, null for none.

    Null spreads by itself, through the arithmetic of the cell and through sums, so no record is asked twice whether it
    is inside: what a cell holds are the records whose first number is there.
    """
    engine = asked.engine
    columns = {f"c{i}": code.cast("int64") for i, code in enumerate(codes)}
    columns |= {f"t{i}": step for i, step in enumerate(steps)}
    if asked.kept is not None:
        columns["kept"] = asked.kept.fill_null(False)
    coded = engine.stage(asked.records.select(**columns))
    cell: Any = ibis.literal(0).cast("int64")
    for i, size in enumerate(reading.shape):
        cell = cell * size + coded[f"c{i}"] if i else coded.c0
    needed = [coded[f"t{i}"].notnull() for i in range(len(steps))] if len(steps) > 1 else []
    needed += [] if asked.kept is None else [coded.kept]
    if needed:
        cell = ibis.cases((functools.reduce(operator.and_, needed), cell), else_=ibis.null("int64"))
    placed = coded.select(cell=cell, **{f"t{i}": coded[f"t{i}"] for i in range(len(steps))})
    sums = {f"s{i}": engine.total(placed[f"t{i}"]).fill_null("0") for i in range(len(steps))}
    if reading.squared:
        first = placed.t0.cast("int64")  # t² is never halfway between two steps, so half a step more rounds it
        sums["square"] = engine.total((first * first + STEPS // 2) >> _SHIFT).fill_null("0")
    inside = placed.t0.count() if steps else placed.count()
    query = placed.group_by("cell").aggregate(records=placed.count(), inside=inside, **sums)
    query = query.mutate(cell=query.cell.fill_null(-1))

    def decode(rows: NDArray[np.int64]) -> Statistics:
        table = np.zeros((1 + reading.moments, reading.cells))
        placed = rows[rows[:, 0] >= 0] if rows.size else rows.reshape(0, 3 + reading.moments)
        table[:, placed[:, 0]] = placed[:, 2:].T
        n = int(rows[:, 1].sum()) if rows.size else 0
        return reading.gathered(n, table[0], table[1:])

    return Plan(query, decode, many=True)


def _double(asked: Asked, name: str) -> Any:
    return asked.value(name, cut=False).cast("float64")


def _place(other: int) -> int | None:
    return None if other < 0 else other


def _steps(engine: Engine, value: Any, scale: Scale, filler: float | None) -> Any:
    """Return t in whole steps, null where the number is missing. Most numbers lie within the bounds: they go first."""
    missing = ibis.null("int32") if filler is None else ibis.literal(int(scale.steps(np.array([filler]))[0]))
    off = value - number(scale.middle)
    inner = engine.integer(off * number(scale.factor), "int32")
    ends = [(end - scale.middle) * scale.factor for end in (scale.low, scale.high)]
    if max(map(abs, ends)) > STEPS + 0.25:  # bounds so close together that their middle is rounded
        inner = ibis.greatest(ibis.least(inner, STEPS), -STEPS)
    small = [(off.between(number(-scale.least), number(scale.least)), 0)] if engine.underflows else []
    return ibis.cases(
        *small,
        (value.between(number(scale.low), number(scale.high)), inner),
        (value.isnan(), missing),
        (value < number(scale.low), -STEPS),
        (value > number(scale.high), STEPS),
        else_=missing,
    ).cast("int32")


def _bin(value: Any, inner: tuple[float, ...], missing: int | None) -> Any:
    """Return the number of a bin: halfway first, so that a record is compared with few of the edges."""
    none = ibis.null("int64") if missing is None else missing

    def between(first: int, last: int) -> Any:
        if first == last:
            return ibis.literal(first).cast("int64")
        middle = (first + last) // 2
        return ibis.cases((value < number(inner[middle]), between(first, middle)), else_=between(middle + 1, last))

    return ibis.cases((value.isnan(), none), (value.notnull(), between(0, len(inner))), else_=none)
