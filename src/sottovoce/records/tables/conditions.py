"""From the tree of a condition to an Ibis expression that is true or false for every record, never unknown.

A comparison with a missing value (null or NaN) is false, on every engine. A written day is compared with days, with
moments (a moment lies on its day, in UTC where it has a zone) and with text that is written as days are; other text is
missing there.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ibis

from sottovoce.privacy.errors import InvalidData
from sottovoce.records.facts.condition_parser import parse_predicate
from sottovoce.records.facts.condition_tree import (
    MIRRORED,
    SIGNS,
    And,
    ColumnTerm,
    Compare,
    Condition,
    IsMissing,
    Literal,
    Not,
    OneOf,
    Or,
)
from sottovoce.records.tables.columns import WIDE, field, is_text, numeric, whole
from sottovoce.records.tables.date_conditions import days, is_day, written_days
from sottovoce.records.tables.engine import Engine, number


def condition(engine: Engine, table: object, text: str) -> Any:
    """Return the boolean expression of a condition written as text; where it is null, it does not hold."""
    return _Translator(engine, table).translate(parse_predicate(text), settled=False)


@dataclass(frozen=True)
class _Translator:
    """A table and its engine, of which a condition speaks."""

    engine: Engine
    table: Any

    def translate(self, tree: Condition, *, settled: bool) -> Any:
        """Return the expression of a tree, with null made false at the leaves where `settled`.

        Null and false come to the same under "and" and "or"; only "not" can tell them apart.
        """
        match tree:
            case And(parts) | Or(parts):
                join = operator.and_ if isinstance(tree, And) else operator.or_
                return functools.reduce(join, [self.translate(part, settled=settled) for part in parts])
            case Not(part):
                return ~self.translate(part, settled=True)
            case IsMissing(column, negated):
                missing = self.missing(column)
                return ~missing if negated else missing
            case _:
                leaf = self.leaf(tree)
                return leaf.fill_null(False) if settled else leaf

    def leaf(self, tree: ColumnTerm | OneOf | Compare) -> Any:
        match tree:
            case OneOf(column, values, negated):
                if self.holds_days(column):
                    each = [self.compare("!=" if negated else "=", column, value) for value in values]
                    return functools.reduce(operator.and_ if negated else operator.or_, each)
                pairs = [self.sides("=", column, value) for value in values]
                # Whole numbers on one side and fractions on the other are both compared as doubles.
                value = next((left for left, _ in pairs if left.type().is_floating()), pairs[0][0])
                if any(left.type().is_string() != value.type().is_string() for left, _ in pairs):
                    raise InvalidData(f"the list for column {column.name!r} mixes texts and numbers")
                inside = value.isin([right for _, right in pairs])
                return _known([value], ~inside if negated else inside)
            case Compare(sign, left, right):
                return self.compare(sign, left, right)
            case ColumnTerm(name):
                if name in self.engine.loose:
                    return numeric(self.engine, self.table, name) == 1
                if not field(self.table, name).type().is_boolean():
                    raise InvalidData(f"column {name!r} holds no truth values; compare it with something")
                return field(self.table, name)

    def compare(self, sign: str, left: ColumnTerm, right: ColumnTerm | Literal) -> Any:
        if self.holds_days(left):
            return days(self.table, sign, left, right)
        if isinstance(right, ColumnTerm) and self.holds_days(right):
            return days(self.table, MIRRORED[sign], right, left)
        flag = left.name in self.engine.flags
        if sign not in ("=", "!=") and isinstance(right, Literal) and is_day(right.value) and not flag:
            return written_days(self.table, sign, left, right)
        sides = self.sides(sign, left, right)
        return _known(sides, SIGNS[sign](*sides))

    def holds_days(self, column: ColumnTerm) -> bool:
        kind = field(self.table, column.name).type()
        return bool(kind.is_date() or kind.is_timestamp())

    def holds_flags(self, column: ColumnTerm) -> bool:
        return column.name in self.engine.flags or bool(field(self.table, column.name).type().is_boolean())

    def missing(self, column: ColumnTerm) -> Any:
        flag = column.name in self.engine.flags
        value = numeric(self.engine, self.table, column.name) if flag else field(self.table, column.name)
        empty = value.isnull()
        return empty | value.isnan().fill_null(False) if value.type().is_floating() else empty

    def sides(self, sign: str, left: ColumnTerm, right: ColumnTerm | Literal) -> list[Any]:
        """Return both sides of a comparison as texts or as numbers; what has no type follows the other side."""
        sides = (left, right)
        kinds = [self.holds_text(side) for side in sides]
        if False in kinds and True not in kinds:
            return self.numbers(sides)
        if False in kinds:
            flag = next((side.name for side in sides if isinstance(side, ColumnTerm) and self.holds_flags(side)), None)
            hint = "" if flag is None else f"; of a flag write {flag} = true, or {flag} = false"
            raise InvalidData(
                f"{_words(left)} and {_words(right)} cannot be compared: one is text, the other is not{hint}"
            )
        if sign not in ("=", "!="):
            if True not in kinds:
                return self.numbers(sides)
            raise InvalidData(
                f"text has no order that all engines share; compare {_words(left)} with = or !=, or with a day such as "
                "'2024-01-31'"
            )
        return [
            field(self.table, side.name) if isinstance(side, ColumnTerm) else ibis.literal(side.value) for side in sides
        ]

    def holds_text(self, side: ColumnTerm | Literal) -> bool | None:
        """Return whether a side is text; None where nobody said."""
        if isinstance(side, Literal):
            return isinstance(side.value, str)
        if side.name in self.engine.flags:
            return False
        return None if side.name in self.engine.loose else is_text(self.table, side.name)

    def numbers(self, sides: tuple[ColumnTerm | Literal, ColumnTerm | Literal]) -> list[Any]:
        """Return both sides as whole numbers, where neither may be another one: as integers where these hold both."""
        wholes = [self.whole(side) for side in sides]
        if any(side is None for side in wholes):
            return [self.double(side) for side in sides]
        wide = any(side.type().is_decimal() for side in wholes)
        return [side.cast(WIDE) for side in wholes] if wide else wholes

    def whole(self, side: ColumnTerm | Literal) -> Any:
        """Return a column, or a number that is written, as whole numbers; None where it may be another one."""
        if isinstance(side, ColumnTerm):
            return whole(self.engine, self.table, side.name)
        if isinstance(side.value, float):
            return None
        value = int(side.value)
        return ibis.literal(value) if value < 2**63 else ibis.literal(str(value)).cast(WIDE)

    def double(self, side: ColumnTerm | Literal) -> Any:
        if isinstance(side, ColumnTerm):
            return numeric(self.engine, self.table, side.name).cast("float64")
        return number(float(side.value))


def _known(sides: Sequence[Any], outcome: Any) -> Any:
    """Return an outcome that is false where a side is NaN."""
    guards = [~side.isnan() for side in sides if side.type().is_floating()]
    return functools.reduce(operator.and_, [*guards, outcome])


def _words(side: ColumnTerm | Literal) -> str:
    return f"column {side.name!r}" if isinstance(side, ColumnTerm) else repr(side.value)
