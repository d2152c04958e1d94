"""One record a person for readings that know of rows alone: the average of a number, or one row by a keyed hash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import ibis
import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.facts import Category, Count, Day, Facts, Flag, Number, Vector
from sottovoce.records.facts.columns import Column
from sottovoce.records.readings import CategoryCounts, ClippedSum, Reading, Statistics
from sottovoce.records.readings.group_moments import STEPS, MomentScale
from sottovoce.records.tables.categories import category_code
from sottovoce.records.tables.cells import measured
from sottovoce.records.tables.columns import field
from sottovoce.records.tables.engine import number
from sottovoce.records.tables.persons import check_moments, first_rows, person_of
from sottovoce.records.tables.query_plans import PLANS, PlannedQuery, QueryPlan
from sottovoce.records.tables.sums import clipped


def one_a_person(
    asked: PlannedQuery, reading: Reading, facts: Facts, conditions: Sequence[str], kept: Callable[[Any], Any]
) -> QueryPlan:
    """Plan a reading of one record a person.

    Parameters
    ----------
    asked, reading
        What is asked, of all rows.
    facts
        Whose a row is, and what is public of the columns.
    conditions, kept
        The columns of the condition, and the condition itself for a table.
    """
    persons = facts.persons
    assert persons is not None and facts.person is not None
    if persons.rows not in (None, 1):
        raise InvalidValue(
            f"this takes one record a person, for rows of one person go together: Person() or Person(rows=1), not "
            f"Person(rows={persons.rows})"
        )
    if persons.rows is None and isinstance(reading, ClippedSum) and not reading.integer and asked.names:
        return _average(asked, reading, facts.person)
    chosen = _one_row(asked, facts, [*asked.names, *conditions], persons.key)
    return _planned(asked, reading, chosen, kept(chosen))


def rows_a_person(asked: PlannedQuery, reading: CategoryCounts) -> QueryPlan:
    """Plan how many persons have 1, 2, … rows: the categories; more than the last count as the last."""
    if not all(isinstance(size, int) and size >= 1 for size in reading.categories):
        raise InvalidValue("how many rows a person has is counted in categories 1, 2 and so on")
    (name,), most = asked.names, max(size for size in reading.categories if isinstance(size, int))
    rows = asked.records.select(p=person_of(asked.records, name))
    rows = rows.filter(rows.p.notnull())
    each = rows.group_by("p").aggregate(rows=rows.count().cast("int64"))
    each = asked.engine.stage(each.select(**{name: ibis.least(each["rows"], ibis.literal(most))}))
    return _planned(asked, reading, each, None)


def _planned(asked: PlannedQuery, reading: Reading, persons: object, kept: object) -> QueryPlan:
    """Plan a reading of a table that has a row a person; how many rows there were before says nothing of it."""
    plan: QueryPlan = PLANS[reading.word](replace(asked, records=persons, kept=kept, whole=None), reading)
    return plan


def _average(asked: PlannedQuery, reading: ClippedSum, person: str) -> QueryPlan:
    """Plan the number of persons and the sum of each one's average, on the grid of the reading."""
    engine = asked.engine
    steps, grid = clipped(engine, asked.one(), reading, asked.missing)
    first, last = grid.inside(reading.low, reading.high)
    rows = engine.stage(asked.records.select(p=person_of(asked.records, person), s=steps))
    rows = rows.filter(rows.p.notnull())
    each = rows.group_by("p").aggregate(s=engine.added(rows.s), rows=rows.count().cast("float64"))
    mean = engine.integer(each.s / each["rows"])
    each = engine.stage(each.select(s=ibis.greatest(ibis.least(mean, last), first)))
    query = each.aggregate(n=each.count().cast("string"), s=engine.total(each.s))

    def decode(row: tuple[int, ...]) -> Statistics:
        n, total = row
        above = float(total / grid.unit - n * Fraction(reading.low))
        return Statistics(n, np.array([grid.value(total)]), above, (total / grid.unit,))

    return QueryPlan(query, decode)


def _one_row(asked: PlannedQuery, facts: Facts, names: Sequence[str], key: str) -> Any:
    """Return one row of every person, chosen by a hash of what the named columns hold; of those that count, if any."""
    engine, records, mine = asked.engine, asked.records, _columns(facts)
    named = list(dict.fromkeys(names))
    mine |= {name: facts[name] for name in named if facts.derivation(name) is not None}
    if unknown := [name for name in named if name not in mine]:
        raise InvalidValue(
            f"one row a person is chosen by columns that the facts describe, and they do not name {unknown[0]!r}"
        )
    mark = "_"
    while any(name.lower().startswith(mark) for name in records.columns):
        mark += "_"
    held = {f"{mark}h{i}": _held(asked, name, mine[name]) for i, name in enumerate(named)}
    raw = {f"{mark}r{i}": field(records, name) for i, name in enumerate(named)}
    kept = ibis.literal(True) if asked.kept is None or not asked.names else asked.kept.fill_null(False)
    person, outside = mark + "p", mark + "outside"
    whose = person_of(records, str(facts.person))
    rows = records.mutate(**held, **raw, **{person: whose, outside: ibis.cases((kept, 0), else_=1)})
    rows = engine.stage(rows.filter(rows[person].notnull()))
    chosen = first_rows(engine, rows, person, list(held), 1, key, first=[outside], raw=list(raw), mark=mark)
    return engine.stage(chosen.select(*named))


def _columns(facts: Facts) -> dict[str, Column]:
    """Return what is public of every column of the table that the facts describe, those of vectors apart."""
    result: dict[str, Column] = {}
    for name, column in facts.items():
        if isinstance(column, Vector):
            result |= {part: Number(-column.radius, column.radius) for part in column.of}
        elif name != facts.person:
            result[name] = column
    return result


def _held(asked: PlannedQuery, name: str, column: Column) -> Any:
    """Return what a column holds in the same whole numbers, or text, on every engine; what is missing alike."""
    if isinstance(column, Category):
        value = asked.value(name, column.categories, cut=False)
        return category_code(asked.engine, value, column.categories, -1).cast("int64")
    if isinstance(column, Flag):
        value = asked.value(name, cut=False).cast("float64")
        return ibis.cases((value.isnull(), -1), (value.isnan(), -1), (value != number(0.0), 1), else_=0).cast("int64")
    if isinstance(column, Number | Count):
        (steps,) = measured(asked, [name], [MomentScale(*column.bounds)], [None])
        return steps.fill_null(STEPS + 1)
    assert isinstance(column, Day)
    value = field(asked.records, name)
    check_moments(value, name)
    value = value.cast("date") if value.type().is_timestamp() else value
    return value.cast("string").fill_null("")
