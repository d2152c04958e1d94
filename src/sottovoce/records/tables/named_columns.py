"""The columns of a frame by what the facts call them, for the types of a frame follow from what its records hold.

One missing value turns a column of truth values into one of objects, one text turns numbers into texts, and a column
without a value has no type at all. Were questions refused by such a type, or cells read by it, one record would decide
how every other is read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ibis

from sottovoce.records.facts import Category, Count, Day, Facts, Flag, Number, Vector
from sottovoce.records.facts.columns import Column
from sottovoce.records.tables.columns import numeric, truth
from sottovoce.records.tables.engine import Engine, number

_MOMENT = "timestamp(6)"
_WRITTEN = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?)?$"
"""How a day is written, or a moment without a zone; DuckDB would also read `infinity` and `epoch`."""
_EXACT = 2.0**53
"""Up to here every whole number is a double."""


def named_types(facts: Facts) -> dict[str, str]:
    """Return the types of the columns that facts name, but for the column that says whose a row is."""
    return {name: kind for name, kind in facts.types.items() if name != facts.person}


def compared_as_doubles(facts: Facts) -> frozenset[str]:
    """Return the columns whose numbers are compared as doubles: a frame with one missing number holds no others."""
    kinds = (Number, Count, Vector, Category)
    return frozenset(
        part for name, column in facts.items() if isinstance(column, kinds) for part in column.columns(name)
    )


def as_named(engine: Engine, records: Any, facts: Facts) -> Any:
    """Return records whose named columns have the types of the facts; a cell of no such value is missing.

    Each cell becomes what it would be in any other frame. The column that says whose a row is stays as it is: persons
    are told apart by texts and numbers alike.
    """
    columns = {part: column for name, column in facts.items() for part in column.columns(name)}
    named = {name: column for name, column in columns.items() if name in records.columns and name != facts.person}
    return records.mutate(**{name: _read_as(column, engine, records, name) for name, column in named.items()})


def _read_as(column: Column, engine: Engine, records: Any, name: str) -> Any:
    match column:
        case Flag():
            return _flag(engine, records, name)
        case Number() | Count() | Vector():
            return _number(engine, records, name)
        case Category(categories):
            texts = any(isinstance(category, str) for category in categories)
            return _text(engine, records, name) if texts else _number(engine, records, name)
        case Day():
            return _moment(records[name])
        case _:
            return records[name]


def _flag(engine: Engine, records: Any, name: str) -> Any:
    """Return truth values: a number is one where it is 1 or 0, and a text as in every other source."""
    column = records[name]
    kind = column.type()
    if kind.is_boolean():
        return column
    if kind.is_string():
        return truth(column)
    if not kind.is_numeric():
        return ibis.null("boolean")
    value = numeric(engine, records, name)
    return ibis.cases((value == 1, True), (value == 0, False), else_=ibis.null("boolean"))


def _number(engine: Engine, records: Any, name: str) -> Any:
    """Return numbers: whole ones of a frame's own type stay whole, which changes no outcome up to 2⁵³."""
    kind = records[name].type()
    if kind.is_string():
        return numeric(replace(engine, untyped=engine.untyped | {name}), records, name)
    if kind.is_boolean() or kind.is_numeric():
        return numeric(engine, records, name)
    return ibis.null("float64")


def _text(engine: Engine, records: Any, name: str) -> Any:
    """Return texts: truth values and numbers as Python writes them, whole ones without a point."""
    column = records[name]
    kind = column.type()
    if kind.is_boolean():
        return ibis.cases((column, "True"), (~column, "False"), else_=ibis.null("string"))
    if kind.is_integer():
        return column.cast("string")
    if kind.is_numeric():
        value = numeric(engine, records, name).cast("float64")
        inside = value.between(number(-_EXACT), number(_EXACT))
        there = ibis.cases((inside, value), else_=number(0.5))
        full = inside & (there == there.floor())
        return ibis.cases(
            (value.isnan(), ibis.null("string")),
            (full, there.floor().cast("int64").cast("string")),
            else_=value.cast("string"),
        )
    plain = kind.is_string() or kind.is_date() or (kind.is_timestamp() and kind.scale == 6)
    return column.cast("string") if plain else ibis.null("string")


def _moment(column: Any) -> Any:
    """Return days or moments; a text is one where it is written as such."""
    kind = column.type()
    if kind.is_date() or kind.is_timestamp():
        return column
    if kind.is_string():
        return ibis.cases((column.re_search(_WRITTEN), column.try_cast(_MOMENT)), else_=ibis.null(_MOMENT))
    return ibis.null(_MOMENT)
