"""From a record to its cell and to what it adds there, in whole numbers that are the same on every engine."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import ibis
import numpy as np

from sottovoce.records.readings import CellCounts, GroupMoments
from sottovoce.records.readings.bands import Bands
from sottovoce.records.readings.group_moments import STEPS, MomentScale
from sottovoce.records.tables.categories import category_code
from sottovoce.records.tables.engine import Engine, number
from sottovoce.records.tables.query_plans import PlannedQuery

_FINEST = 2.0**-30
"""Bins this narrow beside their numbers lie evenly only because doubles are so coarse there, and the nearest edge of a
number may be another one."""


def group_codes(asked: PlannedQuery, reading: GroupMoments, names: Sequence[str]) -> list[object]:
    """Return the place of each record in every group, null for none."""
    return [_code(asked, *each) for each in zip(names, reading.groups, reading.others, strict=True)]


def cell_codes(asked: PlannedQuery, reading: CellCounts) -> list[Any]:
    """Return the place of each record in every column, null for none."""
    columns = zip(asked.names, reading.numeric, reading.marks, reading.others, strict=False)
    return [
        _binned(asked, name, marks, other) if numeric else _code(asked, name, marks, other)
        for name, numeric, marks, other in columns
    ]


def _code(asked: PlannedQuery, name: str, kind: Any, other: int) -> Any:
    if isinstance(kind, Bands):
        return _binned(asked, name, kind.edges, other)
    return category_code(asked.engine, asked.value(name, kind, cut=False), kind, place_or_none(other))


def _binned(asked: PlannedQuery, name: str, edges: tuple[float, ...], other: int) -> Any:
    return bin_of(asked.engine, asked.value(name, cut=False).cast("float64"), edges, place_or_none(other))


def measured(
    asked: PlannedQuery, names: Sequence[str], scales: Sequence[MomentScale], fillers: Sequence[float | None]
) -> list[Any]:
    """Return numbers in whole steps, null where missing."""
    return [
        steps_of(asked.engine, asked.value(name, cut=False).cast("float64"), scale, filler)
        for name, scale, filler in zip(names, scales, fillers, strict=True)
    ]


def placed_rows(
    asked: PlannedQuery, shape: Sequence[int], codes: list[Any], steps: list[Any], **carried: object
) -> Any:
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


def place_or_none(other: int) -> int | None:
    """Return a place, None where it says that there is none."""
    return None if other < 0 else other


def steps_of(engine: Engine, value: Any, scale: MomentScale, filler: float | None, *, loose: bool = False) -> Any:
    """Return t in whole steps; where the number is missing that of the filler, or null, or if `loose` any number."""
    none = 0 if loose else None
    filled = none if filler is None else int(scale.steps(np.array([filler]))[0])
    missing = ibis.null("int32") if filled is None else ibis.literal(filled).cast("int32")
    off = value - number(scale.middle)
    steps = off * number(scale.factor)
    beyond = [(value < number(scale.low), -STEPS), (value > number(scale.high), STEPS)]
    if engine.tries and filled is not None:
        # What is missing, or too far off for a whole number, is asked what it is; the rest is cut, which fills nulls.
        # In 64 bits: of 32, DuckDB takes what is half a step below 2³¹ for -2³¹.
        tried = steps.try_cast("int64")
        far = ibis.cases((value.isnan(), missing), *beyond, else_=missing)
        if filler is None:
            far = ibis.cases((value > number(scale.middle), STEPS), else_=-STEPS)
        result = tried.coalesce(far.cast("int64"))
        return ibis.greatest(ibis.least(result, STEPS), -STEPS).cast("int32")
    inner = engine.integer(steps, "int32")
    ends = [(end - scale.middle) * scale.factor for end in (scale.low, scale.high)]
    if max(map(abs, ends)) > STEPS + 0.25:  # bounds so close together that their middle is rounded
        inner = ibis.greatest(ibis.least(inner, STEPS), -STEPS)
    small = [(off.between(number(-scale.least), number(scale.least)), 0)] if engine.underflows else []
    inside = value.between(number(scale.low), number(scale.high))  # most numbers: they go first
    return ibis.cases(*small, (inside, inner), (value.isnan(), missing), *beyond, else_=missing).cast("int32")


def bin_of(engine: Engine, value: Any, inner: tuple[float, ...], missing: int | None, *, loose: bool = False) -> Any:
    """Return the number of a bin; where the number is missing that given, or null.

    Where `loose`, a missing number may be in any bin after the last, and if none is given null: that is quicker.
    """
    bins = _even(value, inner) if engine.tries else None
    if loose and bins is not None:
        return bins if missing is None else bins.fill_null(len(inner) + 1)
    none = ibis.null("int64") if missing is None else ibis.literal(missing).cast("int64")
    if bins is None:
        bins = _halved(value, inner, 0, len(inner))
    return ibis.cases((value.isnan(), none), (value.notnull(), bins), else_=none)


def _even(value: Any, inner: tuple[float, ...]) -> Any:
    """Return the bin between edges that lie evenly: the nearest edge, or the bin below it. None where they do not.

    Edges are added up in doubles as here, so the one comparison is with the edge itself: near the middle of a bin it
    makes no difference which of its two edges is taken for the nearest. NaN, which DuckDB takes for the largest number,
    is in a bin after the last; null is null.
    """
    last = len(inner)
    if last < 3:
        return None
    about = (inner[-1] - inner[0]) / (last - 1)
    if not about > _FINEST * max(map(abs, inner)):
        return None
    for width in (about, math.nextafter(about, 0.0), math.nextafter(about, math.inf)):
        start = inner[0] - width
        if [start + float(k) * width for k in range(1, last + 1)] == list(inner) and math.isfinite(1 / width):
            break
    else:
        return None
    tried = ((value - number(start)) * number(1 / width)).try_cast("int64")
    far = ibis.cases((value < number(start), 1), else_=last).cast("int64")
    kind = "int8" if last < 2**7 - 1 else "int64"
    nearest = ibis.greatest(ibis.least(tried.coalesce(far), last), 1).cast(kind)
    edge = nearest.cast("float64") * number(width) + number(start)
    return nearest - (value < edge).cast(kind) + value.isnan().cast(kind)


def _halved(value: object, inner: tuple[float, ...], first: int, last: int) -> Any:
    """Return the bin, halfway first, so that a record is compared with few of the edges."""
    if first == last:
        return ibis.literal(first).cast("int64")
    middle = (first + last) // 2
    below, above = _halved(value, inner, first, middle), _halved(value, inner, middle + 1, last)
    return ibis.cases((value < number(inner[middle]), below), else_=above)
