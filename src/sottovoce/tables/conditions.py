"""From the tree of a condition to an Ibis expression that is true or false for every record, never unknown.

A comparison with a missing value (null or NaN) is false, on every engine.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import ibis

from sottovoce.privacy.errors import InvalidData
from sottovoce.tables.columns import field, is_text, numeric
from sottovoce.tables.engine import number
from sottovoce.tables.predicate import (
    And,
    Column,
    Compare,
    Condition,
    IsMissing,
    Literal,
    Not,
    OneOf,
    Or,
    parse_predicate,
)

__all__ = ["condition"]

SIGNS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def condition(table: Any, text: str) -> Any:
    """Return the boolean expression of a condition written as text; where it is null, it does not hold."""
    return _translate(table, parse_predicate(text), settled=False)


def _translate(table: Any, tree: Condition, *, settled: bool) -> Any:
    """Return the expression of a tree, with null made false at the leaves where `settled`.

    Null and false come to the same under "and" and "or"; only "not" can tell them apart.
    """
    match tree:
        case And(parts) | Or(parts):
            join = operator.and_ if isinstance(tree, And) else operator.or_
            return functools.reduce(join, [_translate(table, part, settled=settled) for part in parts])
        case Not(part):
            return ~_translate(table, part, settled=True)
        case IsMissing(column, negated):
            missing = _missing(table, column)
            return ~missing if negated else missing
        case _:
            leaf = _leaf(table, tree)
            return leaf.fill_null(False) if settled else leaf


def _leaf(table: Any, tree: Column | OneOf | Compare) -> Any:
    match tree:
        case OneOf(column, values, negated):
            pairs = [_sides(table, "=", column, value) for value in values]
            # Whole numbers on one side and fractions on the other are both compared as doubles.
            value = next((left for left, _ in pairs if left.type().is_floating()), pairs[0][0])
            inside = value.isin([right for _, right in pairs])
            return _known(table, [column], ~inside if negated else inside)
        case Compare(sign, left, right):
            return _known(table, [left, right], SIGNS[sign](*_sides(table, sign, left, right)))
        case Column(name):
            if not field(table, name).type().is_boolean():
                raise InvalidData(f"column {name!r} holds no truth values; compare it with something")
            return field(table, name)


def _known(table: Any, sides: Sequence[Column | Literal], outcome: Any) -> Any:
    """Return an outcome that is false where a side is NaN."""
    columns = [field(table, side.name) for side in sides if isinstance(side, Column)]
    guards = [~column.isnan() for column in columns if column.type().is_floating()]
    return functools.reduce(operator.and_, [*guards, outcome])


def _missing(table: Any, column: Column) -> Any:
    value = field(table, column.name)
    empty = value.isnull()
    return empty | value.isnan().fill_null(False) if value.type().is_floating() else empty


def _sides(table: Any, sign: str, left: Column | Literal, right: Column | Literal) -> list[Any]:
    sides = (left, right)
    if not any(_holds_text(table, side) for side in sides):
        return _numbers(table, sides)
    if not all(_holds_text(table, side) for side in sides):
        raise InvalidData(f"{_words(left)} and {_words(right)} cannot be compared: one is text, the other is not")
    if sign not in ("=", "!="):
        raise InvalidData(f"text has no order that all engines share; compare {_words(left)} with = or !=")
    return [_text(table, side) for side in sides]


def _words(side: Column | Literal) -> str:
    return f"column {side.name!r}" if isinstance(side, Column) else repr(side.value)


def _holds_text(table: Any, side: Column | Literal) -> bool:
    return is_text(table, side.name) if isinstance(side, Column) else isinstance(side.value, str)


def _text(table: Any, side: Column | Literal) -> Any:
    return field(table, side.name) if isinstance(side, Column) else ibis.literal(side.value)


def _numbers(table: Any, sides: tuple[Column | Literal, Column | Literal]) -> list[Any]:
    columns = {side: numeric(table, side.name) for side in sides if isinstance(side, Column)}
    whole = all(c.type().is_integer() for c in columns.values())
    whole = whole and not any(isinstance(side, Literal) and isinstance(side.value, float) for side in sides)
    found = []
    for side in sides:
        if isinstance(side, Column):
            found.append(columns[side] if whole else columns[side].cast("float64"))
        else:
            found.append(ibis.literal(int(side.value)) if whole else number(float(side.value)))
    return found
