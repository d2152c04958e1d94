"""What is public of a derived column: its kind and its range, from those of the columns it is made of.

Every function is total: a record in which a part is missing has a derived value that is missing, and numbers are cut to
the bounds of their facts before anything is done to them. So the range is that of interval arithmetic (Moore 1966), and
rounding outward keeps in it what any engine makes of a record.
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import shown
from sottovoce.records.facts.columns import Category, Column, Count, Day, Derived, Flag, Number
from sottovoce.records.facts.derived_parser import Call, Expression, Named, Said, parse_derived

LARGEST, SMALLEST = 2.0**200, 2.0**-200
"""Numbers above are refused and those below are zero: no product or quotient of two is too large or too small."""
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MOST = 1000
"""The most categories of a derived column, as of bands."""
_HEAVIEST = 512
"""How often the columns of an expression may stand in its query: each function names its parts more than once."""
_WEIGHTS = {"*": 2, "/": 2, "square": 3, "abs": 3, "log": 4, "clip": 3, "sqrt": 1, "coalesce": 2}
"""How often a function names each of its parts in a query."""
_KEEP_WHOLE = frozenset({"+", "-", "*", "abs", "square", "clip", "coalesce"})
"""Functions that make whole numbers of whole numbers."""
_ULPS = 4
"""Units in the last place by which a logarithm is rounded outward: engines' differ by one or two."""


def derived_column(spec: Derived, facts: Mapping[str, Column]) -> Column:
    """Return what is public of a derived column, by the facts of the others.

    >>> derived_column(Derived("cost / 100"), {"cost": Number(50, 900)})
    Number(low=0.5, high=9.0, missing=None)
    >>> derived_column(Derived("month(d)"), {"d": Day("2024-11-05", "2025-01-02")}).categories
    (1, 11, 12)
    """
    tree = parse_derived(spec.of)
    if _weight(tree) > _HEAVIEST:
        raise InvalidValue(f"{spec.of[:60]!r} takes too long to compute for every record; derive it from fewer steps")
    result = column_of(tree, facts)
    if isinstance(result, Said):
        raise InvalidValue(f"a derived column is made of at least one column. Got {shown(spec.of)}")
    return result if spec.missing is None else replace(result, missing=spec.missing)  # type: ignore[call-arg]


def _weight(tree: Expression) -> int:
    if not isinstance(tree, Call):
        return 1
    return _WEIGHTS.get(tree.word, 2) * sum(map(_weight, tree.parts))


def column_of(tree: Expression, facts: Mapping[str, Column]) -> Column | Said:
    """Return what is public of an expression; a value that is written stays as it is."""
    if isinstance(tree, Said):
        return tree
    if isinstance(tree, Named):
        column = facts[tree.name]  # KeyError where there is none
        if not isinstance(column, Number | Count | Flag | Category | Day):
            raise InvalidValue(f"{tree.name!r} is a {column.word}, of which nothing is derived")
        if isinstance(column, Number) and max(map(abs, column.bounds)) > LARGEST:
            raise InvalidValue(f"the bounds of {tree.name!r} are too large to derive a column from; use other units")
        return column
    if tree.word == "recode":
        return _recoded(tree, facts)
    parts = [column_of(part, facts) for part in tree.parts]
    result = _RANGES[tree.word](tree, parts)
    if isinstance(result, Number) and result.low == 0 and result.high <= 2**53 and _is_whole(tree, facts):
        return Count(int(result.high))
    return result


def _is_whole(tree: Expression, facts: Mapping[str, Column]) -> bool:
    """Say whether an expression of numbers is a whole number of every record."""
    if isinstance(tree, Said):
        return isinstance(tree.value, float) and tree.value.is_integer()
    if isinstance(tree, Named):
        column, spec = facts[tree.name], getattr(facts, "derivation", lambda _: None)(tree.name)
        return isinstance(column, Count | Flag) or (spec is not None and _is_whole(parse_derived(spec.of), facts))
    if tree.word == "-" and any(isinstance(column_of(part, facts), Day) for part in tree.parts):
        return True
    return tree.word in _KEEP_WHOLE and all(_is_whole(part, facts) for part in tree.parts)


@dataclass(frozen=True)
class _Interval:
    """All numbers between two, the ends as fractions."""

    low: Fraction
    high: Fraction

    def number(self, what: object) -> Number:
        low, high = _below(self.low), -_below(-self.high)
        if max(abs(low), abs(high)) > LARGEST:
            raise InvalidValue(f"{what} may be as large as {max(abs(low), abs(high)):.3g}; use other units")
        if not low < high:
            raise InvalidValue(f"{what} is always {low:g}; it tells nothing")
        return Number(low, high)


def _below(value: Fraction) -> float:
    """Return a double that is not above a fraction: the fraction itself where it is one."""
    try:
        nearest = float(value)
    except OverflowError:
        raise InvalidValue("a derived column may be too large for a number; use other units") from None
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)


def _interval(word: str, part: Column | Said) -> _Interval:
    if isinstance(part, Said) and isinstance(part.value, float):
        if part.value and not SMALLEST <= abs(part.value) <= LARGEST:
            raise InvalidValue(f"{part.value:g} is too large or too small a number for a derived column")
        return _Interval(Fraction(part.value), Fraction(part.value))
    if isinstance(part, Flag):
        return _Interval(Fraction(0), Fraction(1))
    if isinstance(part, Number | Count):
        low, high = part.bounds
        return _Interval(Fraction(low), Fraction(high))
    raise InvalidValue(f"{word!r} takes numbers. Got {_in_words(part)}")


def _in_words(part: Column | Said) -> str:
    return repr(part.value) if isinstance(part, Said) else f"a {part.word}"


def _arithmetic(tree: Call, parts: Sequence[Column | Said]) -> Column:
    days = [isinstance(part, Day) for part in parts]
    if tree.word == "-" and any(days):
        return _days_between(tree, parts)
    a, b = (_interval(tree.word, part) for part in parts)
    if tree.word == "+":
        return _Interval(a.low + b.low, a.high + b.high).number(tree)
    if tree.word == "-":
        return _Interval(a.low - b.high, a.high - b.low).number(tree)
    if tree.word == "/" and b.low < Fraction(SMALLEST) and b.high > -Fraction(SMALLEST):
        raise InvalidValue(f"{tree} divides by what may be 0; give {tree.parts[1]} bounds on one side of 0")
    corners = [x * y if tree.word == "*" else x / y for x in (a.low, a.high) for y in (b.low, b.high)]
    if _may_vanish(a) or (tree.word == "*" and _may_vanish(b)):
        corners.append(Fraction(0))
    return _Interval(min(corners), max(corners)).number(tree)


def _may_vanish(part: _Interval) -> bool:
    """Say whether numbers are among these that count as 0 where they are multiplied or divided."""
    return part.low < Fraction(SMALLEST) and part.high > -Fraction(SMALLEST)


def _days_between(tree: Call, parts: Sequence[Column | Said]) -> Column:
    (first, last), (begin, end) = (_span(tree, part) for part in parts)
    return _Interval(Fraction((first - end).days), Fraction((last - begin).days)).number(tree)


def _span(tree: Call, part: Column | Said) -> tuple[datetime.date, datetime.date]:
    if isinstance(part, Day):
        return part.first, part.last
    if isinstance(part, Said) and isinstance(part.value, str):
        day = day_of(part.value)
        return day, day
    raise InvalidValue(f"{tree} takes a day from a day, such as '2024-01-31'. Got {_in_words(part)}")


def day_of(text: str) -> datetime.date:
    """Return a day that is written in an expression."""
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise InvalidValue(f"a day reads like '2024-01-31'. Got {shown(text)}") from None


def _of_one(tree: Call, parts: Sequence[Column | Said]) -> _Interval:
    if len(parts) != 1:
        raise InvalidValue(f"{tree.word} takes one column. Got {len(parts)}")
    return _interval(tree.word, parts[0])


def _absolute(tree: Call, parts: Sequence[Column | Said]) -> Column:
    of = _of_one(tree, parts)
    least = Fraction(0) if of.low <= 0 <= of.high else min(abs(of.low), abs(of.high))
    most = max(abs(of.low), abs(of.high))
    if tree.word == "abs":
        return _Interval(least, most).number(tree)
    return _Interval(Fraction(0) if _may_vanish(of) else least**2, most**2).number(tree)


def _cut(tree: Call, parts: Sequence[Column | Said]) -> Column:
    if len(parts) != 3 or not all(isinstance(part, Said) for part in parts[1:]):
        raise InvalidValue("clip takes a column and two numbers, such as clip(discharged - admitted, 0, 60)")
    of, *ends = (_interval("clip", part) for part in parts)
    low, high = (end.low for end in ends)
    if not low < high:
        raise InvalidValue(f"{tree} takes the smaller number first")
    return _Interval(min(max(of.low, low), high), max(min(of.high, high), low)).number(tree)


def _root(tree: Call, parts: Sequence[Column | Said]) -> Column:
    of = _of_one(tree, parts)
    if of.low < 0:
        raise InvalidValue(f"{tree} is of numbers from 0 on, and {tree.parts[0]} may be {float(of.low):g}")
    low, high = math.sqrt(_below(of.low)), math.sqrt(-_below(-of.high))  # correctly rounded, on every engine
    return Number(low, high)


def _logarithm(tree: Call, parts: Sequence[Column | Said]) -> Column:
    of = _of_one(tree, parts)
    if of.low <= 0:
        raise InvalidValue(
            f"{tree} is of numbers above 0, and {tree.parts[0]} may be {float(of.low):g}; raise its lower bound, or "
            f"say log(1 + {tree.parts[0]})"
        )
    low, high = math.log(_below(of.low)), math.log(-_below(-of.high))
    for _ in range(_ULPS):
        low = low and math.nextafter(low, -math.inf)  # log 1 is 0 everywhere
        high = high and math.nextafter(high, math.inf)
    return Number(low, high)


def _calendar(tree: Call, parts: Sequence[Column | Said]) -> Column:
    if len(parts) != 1 or not isinstance(parts[0], Day):
        got = _in_words(parts[0]) if len(parts) == 1 else f"{len(parts)}"
        raise InvalidValue(f"{tree.word} takes one column of days. Got {got}")
    first, last = parts[0].first, parts[0].last
    if tree.word == "weekday":
        return Category(WEEKDAYS)
    months = months_of(parts[0])
    if tree.word == "year":
        return _few(tree, range(first.year, last.year + 1))
    if tree.word == "yearmonth":
        return _few(tree, [f"{at // 12:04d}-{at % 12 + 1:02d}" for at in months])
    step = 3 if tree.word == "quarter" else 1
    return Category(tuple(sorted({at % 12 // step + 1 for at in months})))


def months_of(column: Day) -> range:
    """Return the months between two days, numbered from the year 0 on."""
    return range(column.first.year * 12 + column.first.month - 1, column.last.year * 12 + column.last.month)


def _few(tree: Call, levels: Sequence[object]) -> Category:
    if len(levels) > _MOST:
        raise InvalidValue(f"{tree} has {len(levels)} values, more than {_MOST}; narrow the days that the facts say")
    return Category(tuple(levels))


def _bands(tree: Call, parts: Sequence[Column | Said]) -> Column:
    of, edges = parts[0], [part.value if isinstance(part, Said) else None for part in parts[1:]]
    if isinstance(of, Day):
        if not all(isinstance(edge, str) for edge in edges):
            raise InvalidValue(f"bands of days have days as edges, bands({tree.parts[0]}, '2024-01-31', ...)")
        marks: list[Any] = [day_of(str(edge)) for edge in edges]
        ends: tuple[Any, Any] = (of.first, of.last)
        words = ("before {}", "{} to before {}", "{} and later")
    else:
        if not all(isinstance(edge, float) for edge in edges):
            raise InvalidValue(f"bands of numbers have numbers as edges, bands({tree.parts[0]}, 18, 65)")
        interval = _interval("bands", of)
        marks, ends = edges, (float(interval.low), float(interval.high))
        words = ("under {}", "{} to under {}", "{} and over")
    rising = all(a < b for a, b in itertools.pairwise(marks))
    if not marks or len(marks) >= _MOST or not rising or not ends[0] < marks[0] or not marks[-1] <= ends[1]:
        raise InvalidValue(f"the edges of {tree} rise within the bounds, {ends[0]} to {ends[1]}, and are at least one")
    texts = [str(mark) if isinstance(of, Day) else repr(mark).removesuffix(".0") for mark in marks]
    between = [words[1].format(*pair) for pair in itertools.pairwise(texts)]
    return Category((words[0].format(texts[0]), *between, words[2].format(texts[-1])))


def _first_known(tree: Call, parts: Sequence[Column | Said]) -> Column:
    columns = [part for part in parts if not isinstance(part, Said)]
    if not columns or len(parts) < 2:
        raise InvalidValue("coalesce takes columns, and at the end a value if one is to be there always")
    if all(isinstance(part, Flag) for part in parts):
        return Flag()
    if all(isinstance(part, Day) for part in columns):
        spans = [_span(tree, part) for part in parts]
        return Day(min(first for first, _ in spans), max(last for _, last in spans))
    if all(isinstance(part, Category) for part in columns):
        levels: dict[Any, None] = {}
        for part in parts:
            levels |= dict.fromkeys(part.categories if isinstance(part, Category) else (_plain(part),))
        if len({isinstance(level, str) for level in levels}) > 1:
            raise InvalidValue(f"{tree} mixes texts and numbers")
        return Category(tuple(levels))
    if any(isinstance(part, Category | Day) for part in columns):
        raise InvalidValue(f"{tree} mixes kinds: " + ", ".join(_in_words(part) for part in parts))
    intervals = [_interval("coalesce", part) for part in parts]
    ends = [end for each in intervals for end in (each.low, each.high)]
    counted = all(isinstance(part, Count | Flag) for part in columns)
    if counted and min(ends) >= 0 and all(end.denominator == 1 for end in ends):
        return Count(int(max(ends)))
    return _Interval(min(ends), max(ends)).number(tree)


def _plain(part: Any) -> Any:
    """Return a written value as categories have it: whole numbers without a point."""
    value = part.value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _recoded(tree: Call, facts: Mapping[str, Column]) -> Column:
    of = column_of(tree.parts[0], facts)
    if not isinstance(of, Category):
        raise InvalidValue(f"recode takes a column of categories; bands cut numbers and days. Got {_in_words(of)}")
    pairs, other = recoding(tree)
    if unknown := [key for key in pairs if key not in of.categories]:
        listed = ", ".join(map(repr, of.categories[:10]))
        raise InvalidValue(f"the facts list no value {unknown[0]!r} of {tree.parts[0]}; they list {listed}")
    values = list(dict.fromkeys([*pairs.values(), *([] if other is None else [other])]))
    if len({isinstance(value, str) for value in values}) > 1:
        raise InvalidValue(f"{tree} mixes texts and numbers")
    if isinstance(values[0], str):
        return Category(tuple(values))
    numbers = [_interval("recode", Said(float(value))) for value in values]
    return _Interval(min(each.low for each in numbers), max(each.high for each in numbers)).number(tree)


def recoding(tree: Call) -> tuple[dict[Any, Any], Any]:
    """Return what each listed value of a ``recode`` becomes, and what the others do; None where they are missing."""
    *pairs, last = tree.parts[1:] or (Said(0.0),)
    other = None
    if isinstance(last, Call) and last.word == "=":
        pairs.append(last)
    elif isinstance(last, Said):
        other = _plain(last)
    sides = [pair.parts for pair in pairs if isinstance(pair, Call) and pair.word == "="]
    said = [[_plain(part) for part in pair] for pair in sides if all(isinstance(part, Said) for part in pair)]
    keys = [key for key, _ in said]
    if not said or len(said) < len(pairs) or len(set(keys)) < len(keys):
        raise InvalidValue("a recode reads like recode(ward, 'A' = 'surgery', 'B' = 'surgery', 'other'), each once")
    return {pair[0]: pair[1] for pair in said}, other


_RANGES: dict[str, Callable[[Call, Sequence[Column | Said]], Column]] = {
    **dict.fromkeys(("+", "-", "*", "/"), _arithmetic),
    **dict.fromkeys(("abs", "square"), _absolute),
    **dict.fromkeys(("year", "quarter", "month", "yearmonth", "weekday"), _calendar),
    "clip": _cut,
    "sqrt": _root,
    "log": _logarithm,
    "bands": _bands,
    "coalesce": _first_known,
}
"""What is public of a function, by that of its parts."""
