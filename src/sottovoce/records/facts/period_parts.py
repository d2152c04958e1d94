"""What a comparison can come to over all values that a period has: true, false, or either.

Whatever an engine may make of a comparison is among its outcomes: an engine may compare texts but for case, or whole
numbers as doubles.
"""

from __future__ import annotations

import datetime
import itertools
import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sottovoce.records.facts.condition_tree import SIGNS, Compare, IsMissing, Literal, OneOf

EXACT = 2.0**53
"""Whole numbers up to here are the same on every engine, as integers and as doubles."""

Outcomes = frozenset[bool]
"""What a condition can come to."""
YES, NO, MAYBE = frozenset({True}), frozenset({False}), frozenset({True, False})


class PeriodPart(Protocol):
    """What the values of a period can be, as far as a condition can tell."""

    def outcomes(self, leaf: Compare | OneOf | IsMissing) -> Outcomes:
        """Return what a comparison of the column with values can come to."""

    def condition(self, column: str) -> str | None:
        """Return the condition that holds for these values of a column alone; None where none is written."""


@dataclass(frozen=True)
class NoValue:
    """No value that compares with anything; what stands there instead of one may be called missing or not.

    Where numbers are expected it may be a `text`, and equal one that is written.
    """

    text: bool = False

    def outcomes(self, leaf: Compare | OneOf | IsMissing) -> Outcomes:
        """Return what a comparison can come to."""
        match leaf:
            case Compare("=", _, Literal(str())) | OneOf(values=[Literal(str()), *_]) if self.text:
                return MAYBE
            case Compare("!=") | OneOf(negated=True) | IsMissing():
                return MAYBE
        return NO

    def condition(self, column: str) -> None:
        """Return None."""


@dataclass(frozen=True)
class DaySpan:
    """DaySpan from one to another, both included, or without end."""

    first: datetime.date
    last: datetime.date

    def outcomes(self, leaf: Compare | OneOf | IsMissing) -> Outcomes:
        """Return what a comparison can come to."""
        match leaf:
            case IsMissing(_, negated):
                return YES if negated else NO
            case Compare(sign, _, Literal(str(text))):
                return self._beside(sign, text)
            case OneOf(_, values, negated):
                each = [self._beside("=", str(item.value)) for item in values]
                return negation(disjunction(each)) if negated else disjunction(each)
        return MAYBE

    def condition(self, column: str) -> str:
        """Return the condition that holds for these days alone."""
        return f"{column} between '{self.first}' and '{self.last}'"

    def _beside(self, sign: str, text: str) -> Outcomes:
        try:
            day = datetime.date.fromisoformat(text)
        except ValueError:  # which the table refuses
            return MAYBE
        if day in (datetime.date.min, datetime.date.max):  # there may be earlier and later ones, in an engine
            return MAYBE
        if sign in ("=", "!="):
            same = NO if not self.first <= day <= self.last else YES if self.first == self.last else MAYBE
            return same if sign == "=" else negation(same)
        return frozenset(bool(SIGNS[sign](end, day)) for end in (self.first, self.last))


@dataclass(frozen=True)
class NumberSpan:
    """Numbers from `low` to just below `high`."""

    low: float
    high: float

    def outcomes(self, leaf: Compare | OneOf | IsMissing) -> Outcomes:
        """Return what a comparison can come to."""
        match leaf:
            case IsMissing(_, negated):
                return YES if negated else NO
            case Compare(sign, _, Literal(value)):
                return self._beside(sign, value)
            case OneOf(_, values, negated):
                each = [self._beside("=", item.value) for item in values]
                return negation(disjunction(each)) if negated else disjunction(each)
        return MAYBE

    def condition(self, column: str) -> str:
        """Return the condition that holds for these numbers alone."""
        ends = [(">=", self.low), ("<", self.high)]
        return " and ".join(f"{column} {sign} {end!r}" for sign, end in ends if not math.isinf(end))

    def _beside(self, sign: str, value: Any) -> Outcomes:
        if isinstance(value, bool | str) or not abs(value) <= EXACT:
            return MAYBE
        match sign:
            case "=" | "!=":
                same = MAYBE if self.low <= value < self.high else NO
                return same if sign == "=" else negation(same)
            case ">=":
                return YES if value <= self.low else NO if value >= self.high else MAYBE
            case ">":
                return YES if value < self.low else NO if value >= self.high else MAYBE
        return negation(self._beside({"<": ">=", "<=": ">"}[sign], value))


@dataclass(frozen=True)
class OneLevel:
    """One value of a column of categories; beside a value of another type, nobody knows."""

    value: Any

    def outcomes(self, leaf: Compare | OneOf | IsMissing) -> Outcomes:
        """Return what a comparison can come to."""
        match leaf:
            case IsMissing(_, negated):
                return YES if negated else NO
            case Compare(("=" | "!=") as sign, _, Literal(value)):
                same = self._same(value)
                return same if sign == "=" else negation(same)
            case OneOf(_, values, negated):
                each = disjunction([self._same(item.value) for item in values])
                return negation(each) if negated else each
        return MAYBE

    def condition(self, column: str) -> str:
        """Return the condition that holds for this value alone."""
        return f"{column} = {_written(self.value)}"

    def _same(self, value: object) -> Outcomes:
        if type(value) is not type(self.value):
            return MAYBE
        return YES if value == self.value else NO if _apart(value, self.value) else MAYBE


@dataclass(frozen=True)
class OtherLevels:
    """Every value but those of the periods."""

    values: frozenset[Any]

    def outcomes(self, leaf: Compare | OneOf | IsMissing) -> Outcomes:
        """Return what a comparison can come to."""
        match leaf:
            case Compare("=", _, Literal(value)):
                return self._same([value])
            case OneOf(_, values, False):
                return self._same([item.value for item in values])
        return MAYBE

    def condition(self, column: str) -> None:
        """Return None."""

    def _same(self, values: Sequence[object]) -> Outcomes:
        known = {(type(value), value) for value in self.values}
        return NO if all((type(value), value) in known for value in values) else MAYBE


def _apart(a: Any, b: Any) -> bool:
    """Say whether two unlike values are unlike to every engine: one may compare texts but for case, accents and spaces
    around them, and whole numbers as doubles.
    """
    if isinstance(a, str):
        return _folded(a) != _folded(b)
    return bool(min(abs(a), abs(b)) < EXACT)


def _folded(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text.strip())
    return "".join(sign for sign in plain if not unicodedata.combining(sign)).casefold().strip()


def _written(value: object) -> str:
    """Return a value as a condition writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def negation(outcomes: Outcomes) -> Outcomes:
    """Return what the opposite of a condition can come to."""
    return frozenset(not outcome for outcome in outcomes)


def disjunction(each: Iterable[Outcomes]) -> Outcomes:
    """Return what it can come to that one of some conditions holds, whatever they have to do with each other."""
    return frozenset(map(any, itertools.product(*dict.fromkeys(each))))
