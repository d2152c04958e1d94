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


def group_moments(asked: Asked, reading: GroupMoments) -> Plan:
    """Plan rows of (cell, records, sums), of which cell -1 holds the records that are in none, with sums of 0."""
    asked.no_missing("each column says itself what a missing value counts as")
    asked.take(reading.columns)
    names = list(asked.names)
    groups, numbers = names[: len(reading.groups)], names[len(reading.groups) :]
    codes = [
        category_code(asked.value(name, categories, cut=False), categories, other)
        for name, categories, other in zip(groups, reading.groups, reading.others, strict=True)
    ]
    fillers = list(reading.fillers)
    if reading.edges:
        inner, filler = reading.edges[1:-1], fillers.pop(0)
        missing = -1 if filler is None else int(np.searchsorted(inner, filler, side="right"))
        codes.append(_bin(_double(asked, numbers.pop(0)), inner, missing))
    values = [_double(asked, name) for name in numbers]
    steps = [
        _steps(asked.engine, value, scale, filler)
        for value, scale, filler in zip(values, reading.scales, fillers, strict=True)
    ]
    return _by_cell(asked, reading, codes, steps)


def cell_counts(asked: Asked, reading: CellCounts) -> Plan:
    """Plan rows of (cell, records), of which cell -1 holds the records that are in none."""
    asked.no_missing("each column says itself what a missing value counts as")
    asked.take(reading.columns)
    codes = [
        _bin(_double(asked, name), marks, other)
        if numeric
        else category_code(asked.value(name, marks, cut=False), marks, other)
        for name, numeric, marks, other in zip(asked.names, reading.numeric, reading.marks, reading.others, strict=True)
    ]
    return _by_cell(asked, reading, codes, [])


def _by_cell(asked: Asked, reading: GroupMoments | CellCounts, codes: list[Any], steps: list[Any]) -> Plan:
    """Plan one row a cell from the place of each record in every column, -1 for none, and what it adds."""
    engine = asked.engine
    columns = {f"c{i}": code.cast("int64") for i, code in enumerate(codes)}
    columns |= {f"t{i}": step for i, step in enumerate(steps)}
    kept = ibis.literal(True) if asked.kept is None else asked.kept.fill_null(False)
    coded = engine.stage(asked.records.select(**columns, kept=kept))
    inside = functools.reduce(
        operator.and_,
        [coded.kept, *(coded[f"c{i}"] >= 0 for i in range(len(codes)))]
        + [coded[f"t{i}"].notnull() for i in range(len(steps))],
    )
    cell: Any = ibis.literal(0).cast("int64")
    for i, size in enumerate(reading.shape):
        cell = cell * size + coded[f"c{i}"]
    placed = coded.select(
        cell=ibis.cases((inside, cell), else_=ibis.literal(-1).cast("int64")),
        **{f"t{i}": ibis.cases((inside, coded[f"t{i}"]), else_=0) for i in range(len(steps))},
    )
    sums = {f"s{i}": engine.total(placed[f"t{i}"]) for i in range(len(steps))}
    if reading.squared:
        first = placed.t0.cast("float64")
        sums["square"] = engine.total(engine.integer(first * first * number(1 / STEPS)))
    query = placed.group_by("cell").aggregate(records=placed.count(), **sums)

    def decode(rows: NDArray[np.int64]) -> Statistics:
        table = np.zeros((1 + reading.moments, reading.cells))
        placed = rows[rows[:, 0] >= 0] if rows.size else rows.reshape(0, 2 + reading.moments)
        table[:, placed[:, 0]] = placed[:, 1:].T
        n = int(rows[:, 1].sum()) if rows.size else 0
        return reading.gathered(n, table[0], table[1:])

    return Plan(query, decode, many=True)


def _double(asked: Asked, name: str) -> Any:
    return asked.value(name, cut=False).cast("float64")


def _steps(engine: Engine, value: Any, scale: Scale, filler: float | None) -> Any:
    """Return t in whole steps, null where the number is missing; NaN goes first, for engines order it differently."""
    missing = ibis.null("int64") if filler is None else ibis.literal(int(scale.steps(np.array([filler]))[0]))
    off = value - number(scale.middle)
    inner = engine.integer(off * number(scale.factor))
    return ibis.cases(
        (value.isnan(), missing),
        (value < number(scale.low), -STEPS),
        (value > number(scale.high), STEPS),
        (off.between(number(-scale.least), number(scale.least)), 0),
        (value.notnull(), ibis.greatest(ibis.least(inner, STEPS), -STEPS)),
        else_=missing,
    ).cast("int64")


def _bin(value: Any, inner: tuple[float, ...], missing: int) -> Any:
    below = [(value < number(edge), i) for i, edge in enumerate(inner)]
    return ibis.cases((value.isnan(), missing), *below, (value.notnull(), len(inner)), else_=missing)
