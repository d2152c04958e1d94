"""Derived columns as expressions of an engine: computed of each record within the one query that asks.

Numbers are cut to the bounds of their facts, days to theirs, and a value that is none the facts allow is missing,
before anything is done to them: no record can make a function fail, on any engine. What is added, subtracted,
multiplied and divided, and square roots, are rounded alike everywhere (IEEE 754); a logarithm may differ in its last
place.
"""

from __future__ import annotations

import datetime
import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ibis

from sottovoce.privacy.errors import InvalidData
from sottovoce.records.facts import Category, Count, Day, Facts, Flag, Number
from sottovoce.records.facts.columns import Column
from sottovoce.records.facts.derived_columns import SMALLEST, WEEKDAYS, column_of, day_of, months_of, recoding
from sottovoce.records.facts.derived_parser import Call, Expression, Named, Said, parse_derived
from sottovoce.records.tables.categories import category_code
from sottovoce.records.tables.columns import field, kind_in_words
from sottovoce.records.tables.engine import Engine, number
from sottovoce.records.tables.query_plans import PlannedQuery

_MONDAY = datetime.date(1970, 1, 5)


def with_derived(engine: Engine, records: Any, facts: Facts | None, names: Sequence[str]) -> Any:
    """Return records that have the derived columns among some names, too; the very records where none is derived."""
    if facts is None:
        return records
    derived = {name: spec for name in names if isinstance(name, str) and (spec := facts.derivation(name)) is not None}
    if not derived:
        return records
    if clash := {name.lower() for name in records.columns} & {name.lower() for name in derived}:
        raise InvalidData(f"the table has a column {clash.pop()!r} of its own; give the derived one another name")
    built = _Builder(engine, records, facts)
    return records.mutate(**{name: built.column(name) for name in derived})


@dataclass(frozen=True)
class _Builder:
    """A table, its engine and its facts.

    Within expressions a number is a double, a flag is 0 or 1, a category its position and a day a date; what is missing
    is null, and never NaN.
    """

    engine: Engine
    records: Any
    facts: Facts

    def column(self, name: str) -> Any:
        """Return a derived column as one of a table would be: categories by their names."""
        column, value = self.facts[name], self.named(name)
        if isinstance(column, Flag):
            return ibis.cases((value == 1, True), (value == 0, False), else_=ibis.null("boolean"))
        return self._labelled(value, column.categories) if isinstance(column, Category) else value

    def named(self, name: str) -> Any:
        """Return a column by its name, derived or not, its missing values filled where the facts say with what."""
        column, spec = self.facts[name], self.facts.derivation(name)
        value = self._held(name, column) if spec is None else self.value(parse_derived(spec.of))
        filler = getattr(column, "missing", None)
        if filler is None:
            return value
        if isinstance(column, Category):
            return value.fill_null(column.categories.index(filler))
        return value.fill_null(ibis.date(filler.isoformat()) if isinstance(column, Day) else number(float(filler)))

    def value(self, tree: Expression) -> Any:
        """Return an expression of columns."""
        if isinstance(tree, Named):
            return self.named(tree.name)
        assert isinstance(tree, Call)
        special = {"recode": self._recoded, "coalesce": self._first_known, "bands": self._banded}
        if tree.word == "-" and any(isinstance(self._kind(part), Day) for part in tree.parts):
            return self._days_between(tree)
        if tree.word in special:
            return special[tree.word](tree)
        if tree.word in _CALENDAR:
            return _CALENDAR[tree.word](self.value(tree.parts[0]), self._kind(tree.parts[0]))
        return _ARITHMETIC[tree.word](*map(self._number, tree.parts), self._kind(tree))

    def _kind(self, tree: Expression) -> Column | Said:
        return column_of(tree, self.facts)

    def _number(self, tree: Expression) -> Any:
        return number(float(tree.value)) if isinstance(tree, Said) else self.value(tree)

    def _held(self, name: str, column: Column) -> Any:
        """Return a column of the table as what its facts say, cut to their bounds."""
        asked = PlannedQuery(self.engine, self.records, (name,))
        if isinstance(column, Category):
            value = asked.value(name, column.categories)
            return category_code(self.engine, value, column.categories, None)
        if isinstance(column, Day):
            return _day(field(self.records, name), name, column)
        value = asked.value(name).cast("float64")
        if isinstance(column, Flag):
            return ibis.cases((value == 0.0, number(0.0)), (value == 1.0, number(1.0)), else_=ibis.null("float64"))
        assert isinstance(column, Number | Count)
        low, high = map(number, column.bounds)
        return ibis.cases(
            (value.isnan(), ibis.null("float64")),
            (value < low, low),
            (value > high, high),
            (value == 0.0, number(0.0)),  # which has a sign
            else_=value,
        )

    def _labelled(self, code: object, labels: Sequence[object]) -> Any:
        texts = any(isinstance(label, str) for label in labels)
        kind = "string" if texts else "int64" if all(isinstance(label, int) for label in labels) else "float64"
        literals = [ibis.literal(label) if texts else ibis.literal(label).cast(kind) for label in labels]
        return ibis.cases(*((code == place, label) for place, label in enumerate(literals)), else_=ibis.null(kind))

    def _days_between(self, tree: Call) -> Any:
        first, last = (
            ibis.date(day_of(str(part.value)).isoformat()) if isinstance(part, Said) else self.value(part)
            for part in tree.parts
        )
        return first.delta(last, unit="day").cast("float64")

    def _banded(self, tree: Call) -> Any:
        of, value = self._kind(tree.parts[0]), self.value(tree.parts[0])
        said = [part.value for part in tree.parts[1:] if isinstance(part, Said)]
        day = isinstance(of, Day)
        edges = [ibis.date(day_of(str(edge)).isoformat()) if day else number(float(edge)) for edge in said]
        below = [(value < edge, ibis.literal(place).cast("int64")) for place, edge in enumerate(edges)]
        return ibis.cases((value.isnull(), ibis.null("int64")), *below, else_=ibis.literal(len(edges)).cast("int64"))

    def _first_known(self, tree: Call) -> Any:
        column = self._kind(tree)
        parts = [self._as(part, column) for part in tree.parts]
        return ibis.coalesce(*parts)

    def _as(self, part: Expression, column: Column | Said) -> Any:
        """Return a part as a value of the whole: its category's place among all."""
        if not isinstance(column, Category):
            if isinstance(part, Said):
                said = part.value
                return ibis.date(day_of(said).isoformat()) if isinstance(said, str) else number(said)
            return self.value(part)
        kind = self._kind(part)
        if isinstance(kind, Said):
            return ibis.literal(column.categories.index(kind.value)).cast("int64")
        assert isinstance(kind, Category)
        return self._moved(self.value(part), [column.categories.index(level) for level in kind.categories])

    def _moved(self, code: object, places: Sequence[int]) -> Any:
        if list(places) == list(range(len(places))):
            return code
        each = ((code == old, ibis.literal(new).cast("int64")) for old, new in enumerate(places))
        return ibis.cases(*each, else_=ibis.null("int64"))

    def _recoded(self, tree: Call) -> Any:
        of, result, code = self._kind(tree.parts[0]), self._kind(tree), self.value(tree.parts[0])
        assert isinstance(of, Category)
        pairs, other = recoding(tree)
        into = [pairs.get(level, other) for level in of.categories]
        if isinstance(result, Category):
            at = [
                None if value is None else ibis.literal(result.categories.index(value)).cast("int64") for value in into
            ]
            kind = "int64"
        else:
            at, kind = [None if value is None else number(float(value)) for value in into], "float64"
        known = [(code == place, value) for place, value in enumerate(at) if value is not None]
        return ibis.cases(*known, else_=ibis.null(kind))


def _day(column: Any, name: str, days: Day) -> Any:
    """Return dates within their bounds; moments are those of their day."""
    kind = column.type()
    if kind.is_timestamp() and kind.timezone is None:
        if kind.scale == 9:  # which reach less far than days do
            column = column.cast(kind.copy(scale=6))
        after = days.last + datetime.timedelta(days=1) if days.last < datetime.date.max else None
        bounds = (days.first, after)
        first, late = (None if day is None else ibis.timestamp(f"{day.isoformat()} 00:00:00") for day in bounds)
        over = [] if late is None else [(column >= late, ibis.date(days.last.isoformat()))]
        early = (column < first, ibis.date(days.first.isoformat()))
        return ibis.cases(early, *over, else_=column.cast("date"))
    if not kind.is_date():
        held = "moments in a time zone" if kind.is_timestamp() else kind_in_words(kind)
        hint = "; texts such as 2024-03-07 are read as days of CSV and of frames" if kind.is_string() else ""
        raise InvalidData(f"column {name!r} holds {held}, of which nothing is derived by days; keep it as days{hint}")
    first, last = (ibis.date(day.isoformat()) for day in (days.first, days.last))
    return ibis.cases((column < first, first), (column > last, last), else_=column)


def _year_month(value: Any) -> Any:
    return value.year().cast("int64") * 12 + value.month().cast("int64") - 1


def _month(value: Any, days: Any, step: int = 1) -> Any:
    levels = sorted({at % 12 // step for at in months_of(days)})
    month = value.month().cast("int64")
    each = ((month.between(level * step + 1, level * step + step), place) for place, level in enumerate(levels))
    return ibis.cases(
        *((inside, ibis.literal(place).cast("int64")) for inside, place in each), else_=ibis.null("int64")
    )


def _weekday(value: Any, days: Any) -> Any:
    del days
    since = value.delta(ibis.date(_MONDAY.isoformat()), unit="day").cast("int64")
    return ((since % len(WEEKDAYS)) + len(WEEKDAYS)) % len(WEEKDAYS)  # the remainder of a negative may be negative


_CALENDAR: dict[str, Callable[[Any, Any], Any]] = {
    "year": lambda value, days: value.year().cast("int64") - days.first.year,
    "quarter": functools.partial(_month, step=3),
    "month": _month,
    "yearmonth": lambda value, days: _year_month(value) - months_of(days).start,
    "weekday": _weekday,
}
"""The place of a day among the categories of each function."""


def _tiny(*values: Any) -> Any:
    """Say whether any of some numbers is as good as zero: products and quotients of the others are no underflow."""
    small = number(SMALLEST)
    return functools.reduce(operator.or_, [value.abs() < small for value in values])


def _product(a: Any, b: Any, kind: Any) -> Any:
    del kind
    return ibis.cases((a.isnull() | b.isnull(), ibis.null("float64")), (_tiny(a, b), number(0.0)), else_=a * b)


def _quotient(a: Any, b: Any, kind: Any) -> Any:
    del kind
    return ibis.cases((a.isnull() | b.isnull(), ibis.null("float64")), (_tiny(a), number(0.0)), else_=a / b)


def _square(a: Any, kind: Any) -> Any:
    del kind
    return ibis.cases((_tiny(a), number(0.0)), else_=a * a)


def _logarithm(a: Any, kind: Any) -> Any:
    low, high = kind.bounds
    result = a.ln()
    return ibis.cases((result < number(low), number(low)), (result > number(high), number(high)), else_=result)


_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "+": lambda a, b, _: a + b,
    "-": lambda a, b, _: a - b,
    "*": _product,
    "/": _quotient,
    "square": _square,
    "abs": lambda a, _: ibis.cases((a < number(0.0), number(0.0) - a), else_=a),
    "clip": lambda a, low, high, _: ibis.cases((a < low, low), (a > high, high), else_=a),
    "sqrt": lambda a, _: a.sqrt(),
    "log": _logarithm,
}
"""Each function of numbers, with what is public of its outcome last."""
