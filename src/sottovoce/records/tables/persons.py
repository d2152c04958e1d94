"""Persons instead of rows: one group-by on the person inside the engine, whatever the order of the rows.

Whole numbers are added, divided once as doubles and rounded, so every engine finds the same averages.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import ibis
import numpy as np

from sottovoce.privacy.errors import InvalidData
from sottovoce.records.readings import PersonCells, PersonLook, PersonMoments, PersonRows, Statistics
from sottovoce.records.readings.group_moments import STEPS
from sottovoce.records.readings.person_cells import PersonPlaces
from sottovoce.records.tables.cells import cell_codes, group_codes, measured, placed_rows
from sottovoce.records.tables.columns import field
from sottovoce.records.tables.engine import Engine, number
from sottovoce.records.tables.group_moments import by_cell
from sottovoce.records.tables.look_queries import contributions, looked, places, product, sums_of
from sottovoce.records.tables.query_plans import PlannedQuery, QueryPlan
from sottovoce.records.tables.sql_text import case, double

_FEW = 8
"""Of so many cells each is counted in a column of its own, in one pass; of more, that takes persons times cells."""


@ibis.udf.scalar.builtin(name="md5", signature=(("string",), "string"))
def _md5(text):  # type: ignore[no-untyped-def]
    """Return the hexadecimal digest, of the engine."""


def person_of(records: object, name: str) -> Any:
    """Return whose each row is: a text or a whole number, null for nobody."""
    column = field(records, name)
    kind = column.type()
    if kind.is_string() or kind.is_integer():
        # Of 16 bits DuckDB would hold the sums of all persons that there could be, in every thread.
        return column.cast("int32") if kind.is_integer() and kind.nbytes < 4 else column
    if kind.is_floating():
        full = column.cast("float64")
        inside = full.between(number(-(2.0**62)), number(2.0**62))
        sure = ibis.cases((full.isnan(), number(0.5)), (inside, full), else_=number(0.5))
        return ibis.cases((sure == sure.floor().cast("float64"), sure.floor().cast("int64")), else_=ibis.null("int64"))
    if kind.is_nested() or kind.is_json() or kind.is_interval():
        raise InvalidData(f"column {name!r} holds {kind}, of which what is the same may be written in several ways")
    check_moments(column, name)
    if kind.is_decimal() and kind.scale is None:  # PostgreSQL's, where 1 and 1.00 are one number
        shorter = column.cast("string").re_replace(r"(\.[0-9]*[1-9])0+$", r"\1")
        return shorter.re_replace(r"\.0+$", "").nullif("NaN")
    return column.cast("int32") if kind.is_boolean() else column.cast("string")


def check_moments(column: Any, name: str) -> None:
    """Refuse, by their type, moments of which one far enough away would end the query that writes them out."""
    kind = column.type()
    if kind.is_timestamp() and kind.scale in (0, 3):
        raise InvalidData(
            f"column {name!r} holds moments in {kind}, of which persons cannot be told apart nor rows chosen; keep "
            "them in microseconds, or as days"
        )


def person_moments(asked: PlannedQuery, reading: PersonMoments) -> QueryPlan:
    """Plan rows of (cell, persons, sums): each person in the group that most of their rows are in."""
    asked.no_missing("each column says itself what a missing value counts as")
    asked.take(reading.columns)
    cut = len(reading.groups)
    groups, numbers, last = asked.names[:cut], asked.names[cut:-1], asked.names[-1]
    steps = measured(asked, numbers, reading.averaged, reading.fillers)
    shape = [len(categories) for categories in reading.groups]
    person = person_of(asked.records, last)
    if groups or not steps:
        placed = placed_rows(asked, shape, group_codes(asked, reading, groups), steps, p=person)
        each = _commonest(asked.engine, placed, shape, len(steps))
    else:
        each = _averages(asked, steps, person)
    if reading.edges:
        inner = [int(edge) for edge in reading.inner]
        below = [(each.t0 < edge, i) for i, edge in enumerate(inner)]
        bin_ = ibis.cases(*below, else_=len(inner)) if below else ibis.literal(0)
        cell = ibis.cases((each.cell >= 0, each.cell * (len(inner) + 1) + bin_), else_=each.cell)
        each = each.select(cell=cell, **{f"t{i}": each[f"t{i + 1}"] for i in range(len(steps) - 1)})
    return by_cell(asked.engine, each, reading)


def person_cells(asked: PlannedQuery, reading: PersonCells) -> QueryPlan:
    """Plan the sums of persons' shares in every cell: of a few cells as one row, of many as rows of (cell, shares)."""
    engine, placed = asked.engine, _cells(asked, reading)
    placed = engine.stage(placed.filter(placed.p.notnull()))
    if reading.cells <= _FEW:
        names = [f"c{k}" for k in range(reading.cells)]
        each = placed.group_by("p").aggregate(
            whole=_number(placed.cell >= 0), **{name: _number(placed.cell == k) for k, name in enumerate(names)}
        )
        each = _shares(engine, each, names)
        totals = {name: engine.total(each[name]) for name in names}
        query = each.aggregate(n=each.count().cast("string"), **totals)
        return QueryPlan(query, lambda row: reading.gathered(row[0], row[1:], []))
    by = placed.group_by("p", "cell").aggregate(rows=placed.count().cast("int64"))
    inside = by.filter(by.cell >= 0)
    full = inside["rows"].sum().over(ibis.window(group_by="p")).cast("int64")
    each = _shares(engine, inside.mutate(whole=full), ["rows"], "cell")
    result = each.group_by("cell").aggregate(records=engine.total(each["rows"]))
    return _with_persons(reading, result, by)


def _number(holds: object) -> Any:
    """Return how many rows a condition holds for."""
    return ibis.cases((holds, 1), else_=0).sum().cast("int64")


def _shares(engine: Engine, each: Any, names: Sequence[str], *along: str) -> Any:
    """Return numbers of rows as shares of the `whole`, in steps, rounded down."""
    below = ibis.greatest(each.whole, 1).cast("float64")
    share = {name: ((each[name] * STEPS).cast("float64") / below).floor().cast("int64") for name in names}
    kept = {f"rows of {name}": each[name] for name in names} | {name: each[name] for name in ("whole", *along)}
    each = engine.stage(each.select(**share, **kept))
    # The double may have been rounded up to the next whole number.
    exact = {
        name: ibis.cases((each[name] * each.whole > each[f"rows of {name}"] * STEPS, each[name] - 1), else_=each[name])
        for name in names
    }
    return engine.stage(each.select(**exact, **{name: each[name] for name in along}))


def person_rows(asked: PlannedQuery, reading: PersonRows) -> QueryPlan:
    """Plan rows of (cell, rows) of the chosen rows, and of cell -1 with as many rows as there are persons."""
    placed = _cells(asked, reading)
    placed = asked.engine.stage(placed.filter(placed.p.notnull()))
    inside = placed.filter(placed.cell >= 0)
    kept = first_rows(asked.engine, inside, "p", ["cell"], reading.rows, reading.key)
    result = kept.group_by("cell").aggregate(records=kept.count().cast("string"))
    return _with_persons(reading, result, placed)


def _with_persons(reading: PersonPlaces, found: Any, placed: Any) -> QueryPlan:
    """Plan what was found in each cell, and in a row of its own (cell -1) how many persons there are."""
    persons = placed.aggregate(records=placed.p.nunique().cast("string"))
    query = found.union(persons.select(cell=ibis.literal(-1).cast("int64"), records=persons.records))

    def decode(rows: Any) -> Statistics:
        inside, counts = rows[rows[:, 0] >= 0], np.zeros(reading.cells)
        counts[inside[:, 0]] = inside[:, 1]
        return reading.gathered(int(rows[rows[:, 0] < 0, 1].sum()), counts, [])

    return QueryPlan(query, decode, many=True)


def _cells(asked: PlannedQuery, reading: PersonPlaces) -> Any:
    asked.no_missing("each column says itself what a missing value counts as")
    asked.take(reading.columns)
    person = person_of(asked.records, asked.names[-1])
    return placed_rows(asked, reading.shape, cell_codes(asked, reading), [], p=person)


def person_look(asked: PlannedQuery, reading: PersonLook) -> QueryPlan:
    """Plan the number of persons and the sums of what each gives: the average of their rows."""
    asked.take(len(reading.columns) + 1)
    D = reading.dimension
    rows = contributions(asked, reading, person=person_of(asked.records, asked.names[-1]))
    parts = {f"w{i}": f"w{i}" for i in range(D)}
    if "information" in reading.parts:
        pairs = [*places(D, off=False), *places(D, off=True)]
        parts |= {f"h{i}_{j}": product(reading, i, j) for i, j in pairs}
    rows = rows.select(parts, "person", "known", tail=" WHERE person IS NOT NULL")
    sums = {name: rows.added(name) for name in parts}
    below = {"below": f"GREATEST(CAST(SUM({case('known', '1', '0')}) AS DOUBLE), {double(1.0)})"}
    summed = rows.select(sums | below, tail=" GROUP BY person")
    each = summed.select({name: summed.integer(f"{name} / below") for name in parts})
    return looked(each, sums_of(reading, lambda i, j: f"h{i}_{j}"))


def _averages(asked: PlannedQuery, steps: list[Any], person: object) -> Any:
    """Return one row a person: the averages over their rows, in the one cell there is, or -1 where no row counts."""
    engine, names = asked.engine, [f"t{i}" for i in range(len(steps))]
    kept = {} if asked.kept is None else {"kept": asked.kept.fill_null(False)}
    rows = engine.stage(asked.records.select(p=person, **dict(zip(names, steps, strict=True)), **kept))
    if kept or len(names) > 1:
        conditions = [rows[name].notnull() for name in names] + [rows[name] for name in kept]
        inside = functools.reduce(operator.and_, conditions)
        rows = rows.select(
            p=rows.p, **{name: ibis.cases((inside, rows[name]), else_=ibis.null("int64")) for name in names}
        )
    rows = rows.filter(rows.p.notnull())
    each = rows.group_by("p").aggregate(
        rows=rows.t0.count().cast("float64"), **{name: engine.added(rows[name]).fill_null(0.0) for name in names}
    )
    cell = ibis.cases((each["rows"] > number(0.0), 0), else_=-1).cast("int64")
    below = ibis.greatest(each["rows"], number(1.0))
    return engine.stage(each.select(cell=cell, **{name: engine.integer(each[name] / below) for name in names}))


def _commonest(engine: Engine, placed: Any, shape: Sequence[int], sums: int) -> Any:
    """Return one row a person: the cell that most of their rows are in, -1 for none, and the averages over those."""
    placed = engine.stage(placed.filter(placed.p.notnull()))
    names, cells = [f"t{i}" for i in range(sums)], math.prod(shape)
    if cells * (1 + sums) <= _FEW:
        each = _best_of_few(engine, placed, names, cells)
    else:
        by = placed.group_by("p", "cell").aggregate(
            rows=placed.count().cast("int64"), **{name: engine.added(placed[name]) for name in names}
        )
        rank = ibis.cases((by.cell >= 0, _rank(by["rows"], by.cell, cells)), else_=0)
        by = engine.stage(by.mutate(rank=rank))
        each = by.group_by("p").aggregate(
            rows=by["rows"].argmax(by["rank"]).cast("float64"),
            cell=by.cell.argmax(by["rank"]),
            **{name: by[name].argmax(by["rank"]) for name in names},
        )
    below = ibis.greatest(each["rows"], number(1.0))
    return engine.stage(each.select(cell=each.cell, **{name: engine.integer(each[name] / below) for name in names}))


def _rank(rows: Any, cell: Any, cells: int) -> Any:
    """Return what is highest for the cell with most rows, and of several for the first; no two cells have the same."""
    return rows * (cells + 1) + (cells - cell)


def _best_of_few(engine: Engine, placed: Any, names: Sequence[str], cells: int) -> Any:
    """Return the rows and sums of each person's commonest cell, every cell in columns of its own: one pass."""
    zero = ibis.literal(0).cast("int64")
    columns = {f"r{k}": _number(placed.cell == k) for k in range(cells)}
    for name in names:
        columns |= {
            f"{name}_{k}": engine.added(ibis.cases((placed.cell == k, placed[name]), else_=zero)) for k in range(cells)
        }
    each = engine.stage(placed.group_by("p").aggregate(**columns))
    each = engine.stage(each.mutate(**{f"k{k}": _rank(each[f"r{k}"], k, cells) for k in range(cells)}))
    most = ibis.greatest(*(each[f"k{k}"] for k in range(cells))) if cells > 1 else each.k0
    each = engine.stage(each.mutate(most=most))

    def best(of: Any, other: Any) -> Any:
        return ibis.cases(*((each.most == each[f"k{k}"], of(k)) for k in range(cells)), else_=other)

    subset = each.most > cells  # where no row is in a cell, all that is left of a rank is the cell
    return each.select(
        cell=ibis.cases((subset, best(lambda k: ibis.literal(k).cast("int64"), -1)), else_=-1).cast("int64"),
        rows=best(lambda k: each[f"r{k}"], 0).cast("float64"),
        **{name: best(lambda k, name=name: each[f"{name}_{k}"], number(0.0)) for name in names},
    )


def first_rows(
    engine: Engine,
    rows: Any,
    person: str,
    holds: Sequence[str],
    most: int,
    key: str,
    *,
    first: Sequence[str] = (),
    raw: Sequence[str] = (),
    mark: str = "_",
) -> Any:
    """Return the rows of each person whose hash comes first, at most so many.

    The hash is of the key, the person, what the row holds, and which of its like it is. Rows that hold the same are
    numbered by their `raw` columns, so it makes no difference where they are stored: which of two equal ones is which
    is all the same. Rows whose `first` are lower go before others. New columns begin with `mark`.
    """
    copy, digest, place = (mark + word for word in ("copy", "digest", "place"))
    alike = ibis.window(group_by=[person, *holds], order_by=list(raw or holds))
    numbered = engine.stage(rows.mutate(**{copy: ibis.row_number().over(alike) + 1}))
    text: object = ibis.literal(key)
    for name in (person, *holds, copy):
        text = text + ibis.literal("|") + numbered[name].cast("string")
    hashed = engine.stage(numbered.mutate(**{digest: _md5(text)}))
    order = ibis.window(group_by=person, order_by=[*first, digest, *holds, copy])
    ranked = engine.stage(hashed.mutate(**{place: ibis.row_number().over(order)}))
    return ranked.filter(ranked[place] < most)
