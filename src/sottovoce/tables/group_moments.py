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


def group_moments(asked: Asked, reading: GroupMoments) -> Plan:
    """Plan rows of (cell, records, sums), of which cell -1 holds the records that are in none, with sums of 0."""
    asked.no_missing("each column says itself what a missing value counts as")
    asked.take(reading.columns)
    groups, numbers = asked.names[: len(reading.groups)], list(asked.names[len(reading.groups) :])
    codes = group_codes(asked, reading, groups)
    fillers = list(reading.fillers)
    if reading.edges:
        inner, filler = reading.edges[1:-1], fillers.pop(0)
        missing = -1 if filler is None else int(np.searchsorted(inner, filler, side="right"))
        codes.append(_bin(_double(asked, numbers.pop(0)), inner, missing))
    placed = placed_rows(asked, reading.shape, codes, measured(asked, numbers, reading.scales, fillers))
    return by_cell(asked.engine, placed, reading)


def cell_counts(asked: Asked, reading: CellCounts) -> Plan:
    """Plan rows of (cell, records), of which cell -1 holds the records that are in none."""
    asked.no_missing("each column says itself what a missing value counts as")
    asked.take(reading.columns)
    return by_cell(asked.engine, placed_rows(asked, reading.shape, cell_codes(asked, reading), []), reading)


def group_codes(asked: Asked, reading: GroupMoments, names: Sequence[str]) -> list[Any]:
    """Return the place of each record in every group, -1 for none."""
    return [
        category_code(asked.value(name, categories, cut=False), categories, other)
        for name, categories, other in zip(names, reading.groups, reading.others, strict=True)
    ]


def cell_codes(asked: Asked, reading: CellCounts) -> list[Any]:
    """Return the place of each record in every column, -1 for none."""
    return [
        _bin(_double(asked, name), marks, other)
        if numeric
        else category_code(asked.value(name, marks, cut=False), marks, other)
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
    columns |= {f"t{i}": step for i, step in enumerate(steps)}
    kept = ibis.literal(True) if asked.kept is None else asked.kept.fill_null(False)
    coded = asked.engine.stage(asked.records.select(**columns, kept=kept, **carried))
    inside = functools.reduce(
        operator.and_,
        [coded.kept, *(coded[f"c{i}"] >= 0 for i in range(len(codes)))]
        + [coded[f"t{i}"].notnull() for i in range(len(steps))],
    )
    cell: Any = ibis.literal(0).cast("int64")
    for i, size in enumerate(shape):
        cell = cell * size + coded[f"c{i}"]
    return coded.select(
        cell=ibis.cases((inside, cell), else_=ibis.literal(-1).cast("int64")),
        **{f"t{i}": ibis.cases((inside, coded[f"t{i}"]), else_=0) for i in range(len(steps))},
        **{name: coded[name] for name in carried},
    )


def by_cell(engine: Engine, placed: Any, reading: GroupMoments | CellCounts) -> Plan:
    """Plan one row a cell from records that are in one, or in none."""
    sums = {f"s{i}": engine.total(placed[f"t{i}"]) for i in range(len(reading.measures))}
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
    off = ibis.greatest(ibis.least(value, number(scale.high)), number(scale.low)) - number(scale.middle)
    inner = engine.integer(off * number(scale.factor))
    ends = np.array([scale.low, scale.high]) - scale.middle
    if np.abs(ends * scale.factor).max() >= STEPS + 0.5:  # bounds so close for their size that the middle is none
        inner = ibis.greatest(ibis.least(inner, STEPS), -STEPS)
    odd = [(value.isnan(), missing), (value.isnull(), missing)]
    if not abs(scale.middle) * scale.factor > 2.0**-900:  # a number may lie so near the middle that its product is none
        odd.append((off.between(number(-scale.least), number(scale.least)), ibis.literal(0)))
    return ibis.cases(*odd, else_=inner).cast("int64")


def _bin(value: Any, inner: tuple[float, ...], missing: int) -> Any:
    below = [(value < number(edge), i) for i, edge in enumerate(inner)]
    return ibis.cases((value.isnan(), missing), *below, (value.notnull(), len(inner)), else_=missing)
