"""Counts and sums of every public group, by one query inside the engine that groups by cell."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import ibis
import numpy as np
from numpy.typing import NDArray

from sottovoce.readings import CellCounts, GroupMoments, Statistics
from sottovoce.readings.group_moments import STEPS, Scale
from sottovoce.tables.cross_counts import category_code
from sottovoce.tables.engine import Engine, number
from sottovoce.tables.plans import Asked, Plan

__all__ = ["by_cell", "cell_codes", "cell_counts", "group_codes", "group_moments", "measured", "placed_rows"]

_SHIFT = STEPS.bit_length() - 1


def group_moments(asked: Asked, reading: GroupMoments) -> Plan:
    """Plan rows of (cell, records, those inside, sums), of which cell -1 holds the records that are in none."""
    asked.no_missing("each column says itself what a missing value counts as")
    asked.take(reading.columns)
    groups, numbers = asked.names[: len(reading.groups)], list(asked.names[len(reading.groups) :])
    codes = group_codes(asked, reading, groups)
    fillers = list(reading.fillers)
    if reading.edges:
        inner, filler = reading.edges[1:-1], fillers.pop(0)
        missing = None if filler is None else int(np.searchsorted(inner, filler, side="right"))
        codes.append(_bin(_double(asked, numbers.pop(0)), inner, missing))
    return _rows_by_cell(asked, reading, codes, measured(asked, numbers, reading.scales, fillers))


def cell_counts(asked: Asked, reading: CellCounts) -> Plan:
    """Plan rows as `group_moments` does, without sums."""
    asked.no_missing("each column says itself what a missing value counts as")
    asked.take(reading.columns)
    return _rows_by_cell(asked, reading, cell_codes(asked, reading), [])


def group_codes(asked: Asked, reading: GroupMoments, names: Sequence[str]) -> list[Any]:
    """Return the place of each record in every group, null for none."""
    return [
        category_code(asked.engine, asked.value(name, categories, cut=False), categories, _place(other))
        for name, categories, other in zip(names, reading.groups, reading.others, strict=True)
    ]


def cell_codes(asked: Asked, reading: CellCounts) -> list[Any]:
    """Return the place of each record in every column, null for none."""
    return [
        _bin(_double(asked, name), marks, _place(other))
        if numeric
        else category_code(asked.engine, asked.value(name, marks, cut=False), marks, _place(other))
        for name, numeric, marks, other in zip(
            asked.names, reading.numeric, reading.marks, reading.others, strict=False
        )
    ]


def measured(asked: Asked, names: Sequence[str], scales: Sequence[Scale], fillers: Sequence[float | None]) -> list[Any]:
    """Return numbers in whole steps, null where missing."""
    return [
        _steps(asked.engine, _double(asked, name), scale, filler)
        for name, scale, filler in zip(names, scales, fillers, strict=True)
    ]


def placed_rows(asked: Asked, shape: Sequence[int], codes: list[Any], steps: list[Any], **carried: Any) -> Any:
    """Return a record's cell from its place in every column, -1 for none, and what it adds there (t0, t1 and so on)."""
    columns = {f"c{i}": code.cast("int64") for i, code in enumerate(codes)}
    columns |= {f"t{i}": step.cast("int64") for i, step in enumerate(steps)}
    kept = ibis.literal(True) if asked.kept is None else asked.kept.fill_null(False)
    coded = asked.engine.stage(asked.records.select(**columns, kept=kept, **carried))
    inside = functools.reduce(operator.and_, [coded.kept, *(coded[name].notnull() for name in columns)])
    cell: Any = ibis.literal(0).cast("int64")
    for i, size in enumerate(shape):
        cell = cell * size + coded[f"c{i}"]
    return coded.select(
        cell=ibis.cases((inside, cell), else_=ibis.literal(-1).cast("int64")),
        **{f"t{i}": ibis.cases((inside, coded[f"t{i}"]), else_=0) for i in range(len(steps))},
        **{name: coded[name] for name in carried},
    )


def _rows_by_cell(asked: Asked, reading: GroupMoments | CellCounts, codes: list[Any], steps: list[Any]) -> Plan:
    """Plan one row a cell from the place of each record in every column and what it adds, null for none.

    Null spreads by itself, through the arithmetic of the cell and through sums, so no record is asked twice whether it
    is inside: what a cell holds are the records whose first number is there.
    """
    columns = {f"c{i}": code.cast("int64") for i, code in enumerate(codes)}
    columns |= {f"t{i}": step for i, step in enumerate(steps)}
    if asked.kept is not None:
        columns["kept"] = asked.kept.fill_null(False)
    coded = asked.engine.stage(asked.records.select(**columns))
    cell: Any = ibis.literal(0).cast("int64")
    for i, size in enumerate(reading.shape):
        cell = cell * size + coded[f"c{i}"] if i else coded.c0
    needed = [coded[f"t{i}"].notnull() for i in range(len(steps))] if len(steps) > 1 else []
    needed += [] if asked.kept is None else [coded.kept]
    if needed:
        cell = ibis.cases((functools.reduce(operator.and_, needed), cell), else_=ibis.null("int64"))
    placed = coded.select(cell=cell, **{f"t{i}": coded[f"t{i}"] for i in range(len(steps))})
    return by_cell(asked.engine, placed, reading)


def by_cell(engine: Engine, placed: Any, reading: GroupMoments | CellCounts) -> Plan:
    """Plan one row a cell from records that are in one, or in none (null, or -1)."""
    steps = len(reading.measures)
    sums = {f"s{i}": engine.total(placed[f"t{i}"]).fill_null("0") for i in range(steps)}
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
