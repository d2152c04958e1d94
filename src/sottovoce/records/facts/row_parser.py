"""One row, in words, ``age=70, ward=Surgery``, or by name: what a regression is asked to predict for."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import shown
from sottovoce.records.facts.columns import Category, Column, Flag

LONGEST = 10_000
"""The most characters of a row in words."""
_YES = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


def parse_row(row: str | Mapping[str, object], columns: Mapping[str, Column]) -> dict[str, object]:
    """Return the values that a row gives to all of some columns; in words, commas and equal signs may stand in a value.

    >>> from sottovoce.records.facts.columns import Number
    >>> columns = {"age": Number(0, 110), "ward": Category(["Surgery, new", "Other"])}
    >>> parse_row("age=70, ward=Surgery, new", columns)
    {'age': 70.0, 'ward': 'Surgery, new'}
    >>> parse_row({"ward": "Other", "age": 70}, columns)
    {'age': 70.0, 'ward': 'Other'}
    """
    given = _split(row, columns) if isinstance(row, str) else row
    refuse_unknown(given, columns)
    if lacking := [name for name in columns if name not in given]:
        raise InvalidValue(f"a row to predict for lacks {', '.join(lacking)[:80]}; {_wanted(columns)}")
    return {name: _value(name, column, given[name]) for name, column in columns.items()}


def refuse_unknown(given: Iterable[object], columns: Mapping[str, Column]) -> None:
    """Refuse, by its name, the first of some columns that no term has."""
    if unknown := [name for name in given if name not in columns]:
        raise InvalidValue(f"the formula has no column {shown(unknown[0])}; {_wanted(columns)}")


def _split(text: str, columns: Mapping[str, Column]) -> dict[str, str]:
    """Return what a text says of each column that it names."""
    if len(text) > LONGEST:
        raise InvalidValue(f"a row in words may have {LONGEST} characters. Got {len(text)}")
    names = "|".join(re.escape(name) for name in sorted(columns, key=len, reverse=True))
    result = list(re.finditer(rf"(?:^|,)\s*(`?)({names})\1\s*=", text)) if columns else []
    if text[: result[0].start() if result else None].strip():
        reads = "a row to predict for reads like age=70, ward=Surgery"
        raise InvalidValue(f"{reads}; {_wanted(columns)}. Got {text[:80]!r}")
    given: dict[str, str] = {}
    ends = [*(match.start() for match in result[1:]), len(text)]
    for match, end in zip(result, ends, strict=False):
        if match[2] in given:
            raise InvalidValue(f"a row says each column once. Got {match[2]!r} twice")
        said = given[match[2]] = text[match.end() : end].strip()
        other = re.search(r",\s*`?([^,=`]+)`?=", said)
        if other and said not in _levels(columns[match[2]]):
            refuse_unknown([other[1].strip()], columns)
    return given


def _levels(column: Column) -> list[str]:
    return [str(level) for level in column.categories] if isinstance(column, Category) else []


def _wanted(columns: Mapping[str, Column]) -> str:
    return f"say each of {', '.join(columns)}" if columns else "no column explains anything, so say nothing"


def _value(name: str, column: Column, said: Any) -> Any:
    """Return a value of a column, as it is or in words."""
    if isinstance(column, Category):
        for level in column.categories:
            if str(level) == said or (level == said and isinstance(level, bool) == isinstance(said, bool)):
                return level
        subset = ", ".join(map(str, column.categories[:12])) + (", …" if len(column.categories) > 12 else "")
        raise InvalidValue(f"{name!r} is one of {subset}. Got {shown(said)}")
    if isinstance(column, Flag):
        word = (said if isinstance(said, str) else shown(said)).lower()
        if word not in _YES:
            raise InvalidValue(f"{name!r} is yes or no. Got {shown(said)}")
        return _YES[word]
    try:
        number = math.nan if isinstance(said, bool) else float(said)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InvalidValue(f"{name!r} is a number. Got {shown(said)}")
    return number
