"""Periods: how a public column divides records into disjoint parts, and which of them a condition can reach.

``admitted: monthly`` (weekly, quarterly, yearly) · ``ward`` · ``age: under 18, 18-64, 65+``

What a question reads is told by its text alone. A record whose value is missing, or lies in no period, is in the period
`NO_PERIOD`.
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import shown
from sottovoce.records.facts.bands import group_axis, group_texts, split_group
from sottovoce.records.facts.columns import Category, Count, Day, Number
from sottovoce.records.facts.condition_parser import parse_predicate
from sottovoce.records.facts.condition_tree import (
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
from sottovoce.records.facts.facts import Facts

NO_PERIOD = "no period"
"""The period of the records whose value is missing or lies in none of the others."""
MOST = 1200
"""The most periods: every month of a hundred years."""
_EXACT = 2.0**53
"""Whole numbers up to here are the same on every engine, as integers and as doubles."""

Outcomes = frozenset[bool]
"""What a condition can come to."""
_YES, _NO, _MAYBE = frozenset({True}), frozenset({False}), frozenset({True, False})
_DAY = datetime.timedelta(days=1)


def _month(day: datetime.date) -> datetime.date:
    return day.replace(day=1)


def _quarter(day: datetime.date) -> datetime.date:
    return day.replace(month=day.month - (day.month - 1) % 3, day=1)


CALENDAR: Mapping[str, tuple[Callable[[datetime.date], datetime.date], Callable[[datetime.date], str]]] = {
    "weekly": (
        lambda day: day - _DAY * day.weekday(),
        lambda day: "{}-W{:02}".format(*day.isocalendar()),
    ),
    "monthly": (_month, lambda day: f"{day.year:04}-{day.month:02}"),
    "quarterly": (_quarter, lambda day: f"{day.year:04}-Q{(day.month + 2) // 3}"),
    "yearly": (lambda day: day.replace(month=1, day=1), lambda day: f"{day.year:04}"),
}
"""Of every division of the calendar: the first day of the period that a day is in, and what the period is called."""


class _Part(Protocol):
    """What the values of a period can be, as far as a condition can tell."""

    def outcomes(self, leaf: Compare | OneOf | IsMissing) -> Outcomes:
        """Return what a comparison of the column with values can come to."""


@dataclass(frozen=True)
class _Missing:
    """No value that compares with anything; what stands there instead of one may be called missing or not."""

    def outcomes(self, leaf: Compare | OneOf | IsMissing) -> Outcomes:
        match leaf:
            case Compare("!=") | OneOf(negated=True) | IsMissing():
                return _MAYBE
        return _NO


@dataclass(frozen=True)
class _Days:
    """Days from one to another, both included, or without end."""

    first: datetime.date
    last: datetime.date

    def outcomes(self, leaf: Compare | OneOf | IsMissing) -> Outcomes:
        match leaf:
            case IsMissing(_, negated):
                return _YES if negated else _NO
            case Compare(sign, _, Literal(str(text))):
                return self._beside(sign, text)
            case OneOf(_, values, negated):
                each = [self._beside("=", str(item.value)) for item in values]
                return _not(_either(each)) if negated else _either(each)
        return _MAYBE

    def _beside(self, sign: str, text: str) -> Outcomes:
        try:
            day = datetime.date.fromisoformat(text)
        except ValueError:  # which the table refuses
            return _MAYBE
        if day in (datetime.date.min, datetime.date.max):  # there may be earlier and later ones, in an engine
            return _MAYBE
        if sign in ("=", "!="):
            same = _NO if not self.first <= day <= self.last else _YES if self.first == self.last else _MAYBE
            return same if sign == "=" else _not(same)
        return frozenset(bool(SIGNS[sign](end, day)) for end in (self.first, self.last))


@dataclass(frozen=True)
class _Band:
    """Numbers from `low` to just below `high`."""

    low: float
    high: float

    def outcomes(self, leaf: Compare | OneOf | IsMissing) -> Outcomes:
        match leaf:
            case IsMissing(_, negated):
                return _YES if negated else _NO
            case Compare(sign, _, Literal(value)):
                return self._beside(sign, value)
            case OneOf(_, values, negated):
                each = [self._beside("=", item.value) for item in values]
                return _not(_either(each)) if negated else _either(each)
        return _MAYBE

    def _beside(self, sign: str, value: Any) -> Outcomes:
        if isinstance(value, bool | str) or not abs(value) <= _EXACT:
            return _MAYBE
        match sign:
            case "=" | "!=":
                same = _MAYBE if self.low <= value < self.high else _NO
                return same if sign == "=" else _not(same)
            case ">=":
                return _YES if value <= self.low else _NO if value >= self.high else _MAYBE
            case ">":
                return _YES if value < self.low else _NO if value >= self.high else _MAYBE
        return _not(self._beside({"<": ">=", "<=": ">"}[sign], value))


@dataclass(frozen=True)
class _Level:
    """One value of a column of categories; beside a value of another type, nobody knows."""

    value: Any

    def outcomes(self, leaf: Compare | OneOf | IsMissing) -> Outcomes:
        match leaf:
            case IsMissing(_, negated):
                return _YES if negated else _NO
            case Compare(("=" | "!=") as sign, _, Literal(value)):
                same = self._same(value)
                return same if sign == "=" else _not(same)
            case OneOf(_, values, negated):
                each = _either([self._same(item.value) for item in values])
                return _not(each) if negated else each
        return _MAYBE

    def _same(self, value: Any) -> Outcomes:
        if type(value) is not type(self.value):
            return _MAYBE
        return _YES if value == self.value else _NO


@dataclass(frozen=True)
class _Others:
    """Every value but those of the periods."""

    values: frozenset[Any]

    def outcomes(self, leaf: Compare | OneOf | IsMissing) -> Outcomes:
        match leaf:
            case Compare("=", _, Literal(value)):
                return self._same([value])
            case OneOf(_, values, False):
                return self._same([item.value for item in values])
        return _MAYBE

    def _same(self, values: Sequence[Any]) -> Outcomes:
        known = {(type(value), value) for value in self.values}
        return _NO if all((type(value), value) in known for value in values) else _MAYBE


def _not(outcomes: Outcomes) -> Outcomes:
    return frozenset(not outcome for outcome in outcomes)


def _either(each: Iterable[Outcomes]) -> Outcomes:
    return frozenset(map(any, itertools.product(*dict.fromkeys(each))))


@dataclass(frozen=True)
class Periods:
    """A public column, and the disjoint parts that its values divide the records into.

    A period of the calendar has all of its days, whatever bounds the facts have: as these are extended, periods are
    added, and none of the others changes.

    Attributes
    ----------
    column, by
        The column, and the text that says how it divides the records.
    names
        What the periods are called, `NO_PERIOD` last.

    Examples
    --------
    >>> facts = Facts(admitted=Day("2024-01-15", "2024-04-10"), age=Number(0, 110))
    >>> periods = parse_periods("admitted: monthly", facts)
    >>> periods.names
    ('2024-01', '2024-02', '2024-03', '2024-04', 'no period')
    >>> periods.reached("admitted >= '2024-02-01' and admitted < '2024-03-01' and age > 40")
    ('2024-02',)
    >>> periods.reached("admitted < '2024-02-10' or age > 90") == periods.reached(None) == periods.names
    True
    """

    column: str
    by: str
    parts: tuple[tuple[str, tuple[_Part, ...]], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """What the periods are called."""
        return tuple(name for name, _ in self.parts)

    def reached(self, where: str | None) -> tuple[str, ...]:
        """Return the periods in which some record can fulfil a condition: all of them, where there is none."""
        if where is None:
            return self.names
        tree = parse_predicate(where)
        result = tuple(name for name, parts in self.parts if any(True in self._of(tree, part) for part in parts))
        if not result:
            raise InvalidValue(f"the condition holds in no period of {self.by!r}: {where}")
        return result

    def read_by(self, mechanism: Any, where: str | None, person: str | None) -> tuple[str, ...]:
        """Return the periods that a mechanism reads.

        Of persons only readings of persons look at no row for which the condition does not hold; others are charged to
        all periods.
        """
        first = person is None or getattr(getattr(mechanism, "reading", None), "persons", False)
        return self.reached(where) if first else self.names

    def check_type(self, schema: Mapping[str, str]) -> None:
        """Refuse a column that is not there, or of days that are kept as something else."""
        kind = schema.get(self.column)
        if kind is None:
            raise InvalidData(f"the column {self.column!r} that says the period of a record is not there")
        if isinstance(self.parts[0][1][0], _Days) and not kind.startswith(("date", "timestamp")):
            raise InvalidData(f"periods are told of a column of days or moments; {self.column!r} holds {kind}: cast it")

    def _of(self, tree: Condition, part: _Part) -> Outcomes:
        """Return what a condition can come to in a part, whatever the other columns hold (Kleene's three values)."""
        match tree:
            case And(parts):
                return _not(_either(_not(self._of(item, part)) for item in parts))
            case Or(parts):
                return _either(self._of(item, part) for item in parts)
            case Not(inner):
                return _not(self._of(inner, part))
            case Compare(_, ColumnTerm(name), Literal()) | OneOf(ColumnTerm(name)) | IsMissing(ColumnTerm(name)):
                return part.outcomes(tree) if name == self.column else _MAYBE
        return _MAYBE


def parse_periods(text: str, facts: Facts, known: Sequence[str] = ()) -> Periods:
    """Return the periods that a text names, with those that were `known` before; facts that are narrower now keep them.

    >>> facts = Facts(ward=Category(["A", "B"]), age=Number(0, 110))
    >>> parse_periods("ward", facts).names, parse_periods("age: under 18, 18+", facts).names
    (('A', 'B', 'no period'), ('under 18', '18 and over', 'no period'))
    >>> parse_periods("ward", facts, ("C", "no period")).names
    ('C', 'A', 'B', 'no period')
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidValue(f"period= names a column, such as 'admitted: monthly' or 'ward'. Got {shown(text)}")
    name, said = split_group(text.strip(), facts)
    match facts[name]:
        case Day() as day:
            return _of_days(name, said.lower(), day, known[:-1])
        case Category() as category if not said:
            return _of_levels(name, category, known[:-1])
        case Number() | Count() if said:
            return _of_bands(text, facts, known)
    word = facts[name].word
    raise InvalidValue(
        f"periods are of a day ('admitted: monthly'), a category by its name, or a number in bands ('age: 4 bands'); "
        f"{name!r} is a {word}. Got {shown(text)}"
    )


def _of_days(name: str, every: str, day: Day, known: Sequence[str]) -> Periods:
    if every not in CALENDAR:
        raise InvalidValue(f"periods of days are {', '.join(CALENDAR)}: '{name}: monthly'. Got {every!r}")
    begin, called = CALENDAR[every]
    first, last = begin(day.first), day.last
    spans = dict(itertools.islice(_spans(begin, called, first, last), MOST + 1))
    for item in known:
        spans.setdefault(item, _span_called(item, begin, called))
    if len(spans) > MOST:
        raise InvalidValue(f"there are at most {MOST} periods, and {name!r} has more; take longer ones")
    spans = dict(sorted(spans.items(), key=lambda item: item[1].first))
    inside = sorted(spans.values(), key=lambda span: span.first)
    outside: list[_Part] = [*_gaps(inside), _Missing()]
    parts: list[tuple[str, tuple[_Part, ...]]] = [(item, (span,)) for item, span in spans.items()]
    return Periods(name, f"{name}: {every}", (*parts, (NO_PERIOD, tuple(outside))))


def _spans(
    begin: Callable[[datetime.date], datetime.date],
    called: Callable[[datetime.date], str],
    first: datetime.date,
    last: datetime.date,
) -> Iterator[tuple[str, _Days]]:
    while first <= last:
        end = _end(begin, first)
        yield called(first), _Days(first, end)
        if end == datetime.date.max:
            return
        first = end + _DAY


def _end(begin: Callable[[datetime.date], datetime.date], first: datetime.date) -> datetime.date:
    """Return the last day of the period that begins with a day: at most a year later."""
    low, high = 0, min(366, (datetime.date.max - first).days)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if begin(first + _DAY * middle) == first else (low, middle - 1)
    return first + _DAY * low


def _span_called(
    item: str, begin: Callable[[datetime.date], datetime.date], called: Callable[[datetime.date], str]
) -> _Days:
    """Return the days of a period by its name."""
    year, _, within = item.partition("-")
    at = datetime.date(int(year), 1, 1)
    if within.startswith("W"):
        at = datetime.date.fromisocalendar(int(year), int(within[1:]), 1)
    elif within:
        at = at.replace(month=3 * int(within[1:]) - 2 if within.startswith("Q") else int(within))
    if called(first := begin(at)) != item:
        raise InvalidValue(f"{item!r} is the name of no period")
    return _Days(first, _end(begin, first))


def _gaps(spans: Sequence[_Days]) -> Iterator[_Days]:
    """Yield the days that lie before, between and after periods."""
    if spans[0].first > datetime.date.min:
        yield _Days(datetime.date.min, spans[0].first - _DAY)
    for before, after in itertools.pairwise(spans):
        if after.first - before.last > _DAY:
            yield _Days(before.last + _DAY, after.first - _DAY)
    if spans[-1].last < datetime.date.max:
        yield _Days(spans[-1].last + _DAY, datetime.date.max)


def _of_levels(name: str, category: Category, known: Sequence[str]) -> Periods:
    levels = {str(value): value for value in category.categories}
    named = {item: levels.get(item, item) for item in [*known, *levels]}
    folded = {item.strip().casefold() for item in [*named, NO_PERIOD]}  # as an engine may compare them
    if len(folded) <= len(named) or len(levels) < len(category.categories):
        raise InvalidValue(f"two periods of {name!r} would have one name, or are called {NO_PERIOD!r}; name them apart")
    if len(named) > MOST:
        raise InvalidValue(f"there are at most {MOST} periods, and {name!r} has {len(named)}")
    parts: list[tuple[str, tuple[_Part, ...]]] = [(item, (_Level(value),)) for item, value in named.items()]
    others = (NO_PERIOD, (_Others(frozenset(named.values())), _Missing()))
    return Periods(name, name, (*parts, others))


def _of_bands(text: str, facts: Facts, known: Sequence[str]) -> Periods:
    axis = group_axis(text, facts)
    (by,) = group_texts((text,), facts)
    labels = tuple(map(str, axis.labels))
    if known and tuple(known) != (*labels, NO_PERIOD):
        raise InvalidValue(
            f"the bands of {axis.name!r} were {', '.join(known[:-1])}, and stay so. Got {', '.join(labels)}"
        )
    if len(labels) > MOST or any(not math.isinf(mark) and abs(mark) > _EXACT for mark in axis.marks):
        raise InvalidValue(f"there are at most {MOST} periods, and their bands lie within ±2**53; {text!r} has others")
    bands = tuple(
        (label, (_Band(low, high),)) for label, (low, high) in zip(labels, itertools.pairwise(axis.marks), strict=True)
    )
    return Periods(axis.name, by, (*bands, (NO_PERIOD, (_Missing(),))))
