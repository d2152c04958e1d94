"""Periods: how a public column divides records into disjoint parts, and which of them a condition can reach.

``admitted: monthly`` (weekly, quarterly, yearly) · ``ward`` · ``age: under 18, 18-64, 65+``

What a question reads is told by its text alone. A record whose value is missing, or lies in no period, is in the period
`NO_PERIOD`.
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import shown
from sottovoce.records.facts.bands import group_axis, group_texts, split_group
from sottovoce.records.facts.columns import Category, Count, Day, Number
from sottovoce.records.facts.condition_parser import KEYWORDS, parse_predicate
from sottovoce.records.facts.condition_tree import (
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
from sottovoce.records.facts.period_parts import (
    EXACT,
    MAYBE,
    DaySpan,
    NoValue,
    NumberSpan,
    OneLevel,
    OtherLevels,
    Outcomes,
    PeriodPart,
    disjunction,
    negation,
)

NO_PERIOD = "no period"
"""The period of the records whose value is missing or lies in none of the others."""
MOST = 1200
"""The most periods: every month of a hundred years."""
_DAY = datetime.timedelta(days=1)
_FEW = 8
"""So many periods a refusal names."""


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
    parts: tuple[tuple[str, tuple[PeriodPart, ...]], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """What the periods are called."""
        return tuple(name for name, _ in self.parts)

    def where(self, *names: str) -> str:
        """Return the condition that holds for the records of some periods alone, for `where`.

        >>> periods = parse_periods("admitted: monthly", Facts(admitted=Day("2024-01-01", "2024-12-31")))
        >>> periods.where("2024-03"), periods.where("2024-01", "2024-02")
        ("admitted between '2024-03-01' and '2024-03-31'", "admitted between '2024-01-01' and '2024-02-29'")
        """
        known = dict(self.parts)
        if not names or (unknown := [name for name in names if name not in known]):
            said = f"there is no {shown(unknown[0])}" if names else "name one or more"
            raise InvalidValue(f"the periods by {self.by} are {', '.join(_ends(self.names))}: {said}")
        wanted = [*dict.fromkeys(names)]
        if NO_PERIOD in wanted:
            others = [name for name in self.names if name not in wanted]
            return f"not ({self.where(*others)})" if others else ""
        spans = [part for name in wanted for part in known[name]]
        days = sorted((span for span in spans if isinstance(span, DaySpan)), key=lambda span: span.first)
        if days and all(after.first - before.last == _DAY for before, after in itertools.pairwise(days)):
            spans = [DaySpan(days[0].first, days[-1].last)]
        each = [str(part.condition(_named(self.column))) for part in spans]
        return each[0] if len(each) == 1 else f"({' or '.join(each)})"

    def reached(self, where: str | None) -> tuple[str, ...]:
        """Return the periods in which some record can fulfil a condition: all of them, where there is none."""
        if where is None:
            return self.names
        tree = parse_predicate(where)
        result = tuple(name for name, parts in self.parts if any(True in self._of(tree, part) for part in parts))
        if not result:
            raise InvalidValue(f"the condition holds in no period of {self.by!r}: {where}")
        return result

    def read_by(self, mechanism: object, where: str | None, person: str | None) -> tuple[str, ...]:
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
        if isinstance(self.parts[0][1][0], DaySpan) and not kind.startswith(("date", "timestamp")):
            held = "text" if kind == "string" else kind
            raise InvalidData(f"periods are told of a column of days or moments; {self.column!r} holds {held}: cast it")

    def _of(self, tree: Condition, part: PeriodPart) -> Outcomes:
        """Return what a condition can come to in a part, whatever the other columns hold (Kleene's three values)."""
        match tree:
            case And(parts):
                return negation(disjunction(negation(self._of(item, part)) for item in parts))
            case Or(parts):
                return disjunction(self._of(item, part) for item in parts)
            case Not(inner):
                return negation(self._of(inner, part))
            case Compare(_, ColumnTerm(name), Literal()) | OneOf(ColumnTerm(name)) | IsMissing(ColumnTerm(name)):
                return part.outcomes(tree) if name == self.column else MAYBE
        return MAYBE


def _named(column: str) -> str:
    return column if column.isidentifier() and column.lower() not in KEYWORDS else f"`{column}`"


def _ends(names: Sequence[str]) -> Sequence[str]:
    """Return names, or of many the first and the last."""
    return names if len(names) <= _FEW else (*names[: _FEW // 2], "…", *names[-2:])


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
    if facts.derivation(name) is not None:
        raise InvalidValue(f"what says the period is a column of the table, for good; {name!r} is derived from others")
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
    outside: list[PeriodPart] = [*_gaps(inside), NoValue()]
    parts: list[tuple[str, tuple[PeriodPart, ...]]] = [(item, (span,)) for item, span in spans.items()]
    return Periods(name, f"{name}: {every}", (*parts, (NO_PERIOD, tuple(outside))))


def _spans(
    begin: Callable[[datetime.date], datetime.date],
    called: Callable[[datetime.date], str],
    first: datetime.date,
    last: datetime.date,
) -> Iterator[tuple[str, DaySpan]]:
    while first <= last:
        end = _end(begin, first)
        yield called(first), DaySpan(first, end)
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
) -> DaySpan:
    """Return the days of a period by its name."""
    year, _, within = item.partition("-")
    at = datetime.date(int(year), 1, 1)
    if within.startswith("W"):
        at = datetime.date.fromisocalendar(int(year), int(within[1:]), 1)
    elif within:
        at = at.replace(month=3 * int(within[1:]) - 2 if within.startswith("Q") else int(within))
    if called(first := begin(at)) != item:
        raise InvalidValue(f"{item!r} is the name of no period")
    return DaySpan(first, _end(begin, first))


def _gaps(spans: Sequence[DaySpan]) -> Iterator[DaySpan]:
    """Yield the days that lie before, between and after periods."""
    if spans[0].first > datetime.date.min:
        yield DaySpan(datetime.date.min, spans[0].first - _DAY)
    for before, after in itertools.pairwise(spans):
        if after.first - before.last > _DAY:
            yield DaySpan(before.last + _DAY, after.first - _DAY)
    if spans[-1].last < datetime.date.max:
        yield DaySpan(spans[-1].last + _DAY, datetime.date.max)


def _of_levels(name: str, category: Category, known: Sequence[str]) -> Periods:
    levels = {str(value): value for value in category.categories}
    named = {item: levels.get(item, item) for item in [*known, *levels]}
    folded = {item.strip().casefold() for item in [*named, NO_PERIOD]}  # as an engine may compare them
    if len(folded) <= len(named) or len(levels) < len(category.categories):
        raise InvalidValue(f"two periods of {name!r} would have one name, or are called {NO_PERIOD!r}; name them apart")
    if len(named) > MOST:
        raise InvalidValue(f"there are at most {MOST} periods, and {name!r} has {len(named)}")
    parts: list[tuple[str, tuple[PeriodPart, ...]]] = [(item, (OneLevel(value),)) for item, value in named.items()]
    others = (NO_PERIOD, (OtherLevels(frozenset(named.values())), NoValue()))
    return Periods(name, name, (*parts, others))


def _of_bands(text: str, facts: Facts, known: Sequence[str]) -> Periods:
    axis = group_axis(text, facts)
    (by,) = group_texts((text,), facts)
    labels = tuple(map(str, axis.labels))
    if known and tuple(known) != (*labels, NO_PERIOD):
        raise InvalidValue(
            f"the bands of {axis.name!r} were {', '.join(known[:-1])}, and stay so. Got {', '.join(labels)}"
        )
    if len(labels) > MOST or any(not math.isinf(mark) and abs(mark) > EXACT for mark in axis.marks):
        raise InvalidValue(f"there are at most {MOST} periods, and their bands lie within ±2**53; {text!r} has others")
    bands = tuple(
        (label, (NumberSpan(low, high),))
        for label, (low, high) in zip(labels, itertools.pairwise(axis.marks), strict=True)
    )
    return Periods(axis.name, by, (*bands, (NO_PERIOD, (NoValue(text=True),))))
