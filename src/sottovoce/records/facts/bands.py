"""Groups that a question is asked by: a column of categories by its name, or bands of a number in words.

``ward`` · ``age: under 18, 18-64, 65+`` · ``age: 12 bands``
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.facts.cells import Axis, Cells
from sottovoce.records.facts.columns import Column, Count, Day, Number
from sottovoce.records.facts.derived_parser import call_at
from sottovoce.records.facts.encodings import levels_of
from sottovoce.records.facts.facts import Facts

_MOST = 1000
"""The most bands of one column."""
_OF_DAYS = {"monthly": "yearmonth", "yearly": "year"}
"""Groups of days in words, as those of periods, and the function of a day that each is."""
_LONGEST = 64_000
"""The most characters of them: as many as the most bands can need."""
_DASH = "[-‐‑‒–—−]"  # as word processors write them, too
_NUMBER = rf"(?:{_DASH}|\+)?(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][-+]?[0-9]++)?+"
_BAND = rf"""(?:(?:under|below)\s++{_NUMBER}
    | {_NUMBER}(?:\s*+\+|\s++(?:and\s++over|or\s++more)\b|\s*+(?:{_DASH}|\bto\b(?:\s++under\b)?+)\s*+{_NUMBER})?+)"""
BANDS = rf"(?>[0-9]{{1,9}}+\s++bands?\b|(?:{'|'.join(_OF_DAYS)})\b|{_BAND}(?:\s*+,\s*+{_BAND})*+)"
"""How bands are written, for a pattern with spaces that do not count: it is read in one way, so it never goes back."""
_EVEN = re.compile(r"([0-9]{1,9}+)\s++bands?", re.IGNORECASE)
_ONE = re.compile(_BAND, re.VERBOSE | re.IGNORECASE)


def group_axis(text: str, facts: Facts) -> Axis:
    """Return the groups that a text names: those of a column of categories or flags, or bands of a column of numbers.

    Bands lie side by side and leave no number out. Beside ``18-64`` the band below ends just before 18, however it is
    written, so that nothing is between them; a number at an edge is in the band above it.

    >>> from sottovoce.records.facts.columns import Category
    >>> facts = Facts(age=Number(0, 110), visits=Count(20), ward=Category(["A", "B"]))
    >>> group_axis("age: 0-17, 18-64, 65+", facts).labels
    ('under 18', '18 to under 65', '65 and over')
    >>> group_axis("visits: 0, 1-4, 5+", facts).labels, group_axis("visits: 3 bands", facts).labels
    (('0', '1 to 4', '5 and over'), ('0 to 6', '7 to 13', '14 and over'))
    >>> group_axis("ward", facts).labels
    ('A', 'B')
    """
    name, said = split_group(text, facts)
    column = facts[name]
    if not isinstance(column, Number | Count):
        if said and levels_of(column) is not None:
            raise InvalidValue(f"{name!r} is a {column.word}, and its own values are its groups: say by={name!r}")
        return value_axis(name, column)
    if not said:
        raise InvalidValue(f"{name!r} is a {column.word}, so it has no public list of groups; {_how(name, column)}")
    edges = _even(name, column, int(even[1])) if (even := _EVEN.fullmatch(said)) else _edges(name, column, said)
    filler = -1 if column.missing is None else int(np.searchsorted(edges, column.missing, side="right"))
    marks = (-math.inf, *edges, math.inf)
    return Axis(name, True, marks, _labels(marks, isinstance(column, Count)), filler)


def value_axis(name: str, column: Column) -> Axis:
    """Return the values of a column of categories or flags, or raise `InvalidValue` that says how others are cut."""
    values = levels_of(column)
    if values is None:
        said = f"{name!r} is a {column.word}, so it has no public list of values to count or to group by"
        if isinstance(column, Number | Count):
            raise InvalidValue(
                f"{said}; counts of it are cut, by Cells(facts, {{{name!r}: 12}}) or --cut {name}=12, and groups are "
                f"bands, by='{name}: 12 bands'"
            )
        if isinstance(column, Day):
            raise InvalidValue(f"{said}; name a derived column, such as month({name}) or yearmonth({name})")
        raise InvalidValue(f"{said}; add a column of categories to the table and name that")
    missing = getattr(column, "missing", None)
    return Axis(name, False, values, values, -1 if missing is None else values.index(missing))


def group_texts(given: tuple[str, ...] | Cells, facts: Facts) -> tuple[str, ...]:
    """Return what a question is grouped by as texts, from texts or from `Cells`; the same groups in the same words.

    >>> from sottovoce.records.facts.columns import Category
    >>> facts = Facts(age=Number(0, 110), ward=Category(["A", "B"]))
    >>> group_texts(Cells(facts, {"age": [0, 18, 65, 110], "ward": ...}), facts)
    ('age: under 18, 18 to under 65, 65 and over', 'ward')
    >>> group_texts(("`age` :  2 bands",), facts), group_texts(Cells(facts, {"age": 2}), facts)
    (('age: 2 bands',), ('age: 2 bands',))
    >>> group_texts(("seen: monthly",), Facts(seen=Day("2024-01-01", "2024-12-31")))
    ('yearmonth(seen)',)
    """
    if not isinstance(given, Cells):
        return tuple(_group_text(*split_group(item, facts), facts) for item in given)
    if given.missing != "out":
        raise InvalidValue("groups have no cell of missing values: by=Cells(facts, {...}), without missing='cell'")
    return tuple(_cut(given, axis) for axis in given.axes)


def _group_text(name: str, said: str, facts: Facts) -> str:
    """Return one group in the words it is kept in."""
    if said and isinstance(facts[name], Day):
        if (call := _OF_DAYS.get(said.strip())) is None:
            raise InvalidValue(f"groups of days are {name}: {', '.join(_OF_DAYS)}, or quarter({name}). Got {said!r}")
        return f"{call}({name if name.isidentifier() else f'`{name}`'})"
    return f"{name}: {' '.join(said.split())}" if said else name


def _cut(cells: Cells, axis: Axis) -> str:
    column = cells.facts[axis.name]
    if isinstance(column, Number | Count):
        if axis.size < 2:
            raise InvalidValue(f"{axis.name!r} is cut into one cell, which groups nothing; leave it out")
        inner = tuple(float(mark) for mark in axis.marks[1:-1])
        if inner == _even(axis.name, column, axis.size):
            return f"{axis.name}: {axis.size} bands"
        return f"{axis.name}: {', '.join(_labels((-math.inf, *inner, math.inf), False, exact=True))}"
    if axis.marks != group_axis(axis.name, cells.facts).marks:
        raise InvalidValue(f"groups are all values of {axis.name!r}: by=Cells(facts, {{{axis.name!r}: ...}})")
    return axis.name


def split_group(text: str, facts: Facts) -> tuple[str, str]:
    """Return the column that a text names, and the bands it speaks of; a name may hold colons itself."""
    if text in facts:
        return text, ""
    if len(text) > _LONGEST:
        raise InvalidValue(f"bands in words may have {_LONGEST} characters. Got {len(text)}")
    bare = text.strip()
    end = call_at(bare, 0)
    derived = [bare[:end]] if end is not None and bare[:end] in facts else []
    for name in [*derived, *sorted(facts, key=len, reverse=True)]:
        for full, written in ((text, name), *((bare, f"{mark}{name}{mark}") for mark in ("", "`", "'", '"'))):
            if full.startswith(written) and (remainder := full[len(written) :].lstrip()).startswith(":"):
                if said := remainder[1:].strip():
                    return name, said
                raise InvalidValue(f"{_how(name, facts[name])}. Got {text[:80]!r}")
    facts[text.partition(":")[0].strip()[:80]]  # which says that there is no such column
    raise InvalidValue(f"no group is called {text[:80]!r}")


def _how(name: str, column: Column) -> str:
    """Return how bands of this column can be said."""
    low, high = column.bounds if isinstance(column, Number | Count) else (0.0, 110.0)
    full = isinstance(column, Count)
    few = int(min(12, high + 1)) if full else 12
    middle = _short(math.ceil(low / 2 + high / 2) if full or high - low >= 2 else low / 2 + high / 2)
    bands = "under 18, 18-64, 65+" if low < 18 and high >= 65 else f"under {middle}, {middle}+"
    return f"say bands, such as '{name}: {bands}' or '{name}: {few} bands'"


def _even(name: str, column: Number | Count, bands: int) -> tuple[float, ...]:
    """Return the inner edges of so many bands between the bounds; of counts, of as many values as can be."""
    most = _MOST if isinstance(column, Number) else min(_MOST, column.high + 1)
    if not 2 <= bands <= most:
        raise InvalidValue(f"{name!r} has from 2 to {most} bands. Got {bands}")
    if isinstance(column, Count):
        return tuple(float(-(-k * (column.high + 1) // bands)) for k in range(1, bands))
    edges = np.linspace(column.low, column.high, bands + 1)[1:-1].tolist()
    if not all(low < high for low, high in itertools.pairwise([column.low, *edges, column.high])):
        raise InvalidValue(f"the bounds of {name!r} are too close together for {bands} bands")
    return tuple(edges)


def _edges(name: str, column: Number | Count, said: str) -> tuple[float, ...]:
    """Return the inner edges of bands that are written out, or say which of them does not fit the one before it."""
    low, high = column.bounds
    bands = list(_bands(name, column, said))
    first, last = bands[0], bands[-1]
    if first[0] > low:
        raise InvalidValue(
            f"the bands of {name!r} leave out what lies below {_short(first[0])}, and it begins at {_short(low)}; "
            f"begin with 'under {_short(first[0])}'"
        )
    if last[2] < high or (last[2] == high and last[3]):
        more = _short(last[1] + (not last[3] and last[1].is_integer() and last[1] + 1 <= high))
        raise InvalidValue(
            f"the bands of {name!r} leave out what lies above {_short(last[1])}, and it ends at {_short(high)}; end "
            f"with '{more}+'"
        )
    if not 2 <= len(bands) <= _MOST:
        raise InvalidValue(f"{name!r} has from 2 to {_MOST} bands. Got {len(bands)}")
    for (_, end, _, under), (start, *_) in itertools.pairwise(bands):
        shared = start == end and (under or isinstance(column, Number))
        if not shared and (under or start != end + 1 or not end.is_integer()):
            what = "overlap" if start <= end else "leave a gap"
            raise InvalidValue(
                f"the bands of {name!r} {what} where one begins at {_short(start)}; let them lie side by side"
            )
    edges = tuple(start for start, *_ in bands[1:])
    if not all(low < edge <= high for edge in edges) or not all(a < b for a, b in itertools.pairwise(edges)):
        raise InvalidValue(f"the bands of {name!r} rise and meet between its bounds, {low:g} and {high:g}")
    if isinstance(column, Count) and not all(edge.is_integer() for edge in edges):
        raise InvalidValue(f"{name!r} holds whole numbers, and so do its bands")
    return edges


def _bands(name: str, column: Column, said: str) -> Iterator[tuple[float, float, float, bool]]:
    """Yield of each band where it begins, its end as written, how far it goes, and whether the end is outside."""
    for text in (part.strip() for part in said.split(",")):
        if not _ONE.fullmatch(text):
            raise InvalidValue(f"{text[:40]!r} is no band of {name!r}; {_how(name, column)}")
        numbers = [float(re.sub(_DASH, "-", item)) + 0.0 for item in _numbers(text)]  # no zero is below zero
        if not all(map(math.isfinite, numbers)):
            raise InvalidValue(f"{text[:40]!r} is no band of {name!r}: its ends are finite; the last may be '65+'")
        words = text.lower()
        under = "under" in words or "below" in words
        if words[0] in "ub":
            yield -math.inf, numbers[0], numbers[0], True
        elif words.endswith(("+", "over", "more")):
            yield numbers[0], math.inf, math.inf, False
        else:
            start, end = numbers[0], numbers[-1]
            if end < start or (under and end == start):
                raise InvalidValue(f"{text[:40]!r} is no band of {name!r}: it ends before it begins")
            yield start, end, end, under


def _numbers(text: str) -> list[str]:
    """Return the numbers of a band; a minus between two is none of the second."""
    first = re.search(_NUMBER, text)
    assert first is not None
    remainder = re.sub(rf"^\s*(?:{_DASH}|to(?:\s+under)?)\s*", "", text[first.end() :], flags=re.IGNORECASE)
    second = re.match(_NUMBER, remainder)
    return [first[0], *([second[0]] if second else [])]


def _labels(marks: Sequence[float], whole: bool, *, exact: bool = False) -> tuple[str, ...]:
    """Return what bands between edges are called, in few digits where these tell them apart; all are texts."""
    inner = marks[1:-1]
    texts = [_short(edge) for edge in inner]
    if exact or len(set(texts)) < len(texts):
        texts = [repr(edge).removesuffix(".0") for edge in inner]
    if whole:
        starts = [0, *map(int, inner)]
        ends = [int(edge) - 1 for edge in inner]
        result = [str(a) if a == b else f"{a} to {b}" for a, b in zip(starts, ends, strict=False)]
        return (*result, f"{starts[-1]} and over")
    between = [f"{a} to under {b}" for a, b in itertools.pairwise(texts)]
    return (f"under {texts[0]}", *between, f"{texts[-1]} and over")


def _short(edge: float) -> str:
    text = f"{edge:.15g}"
    return text if len(text) <= 12 else f"{edge:.6g}"
