"""One row in words, ``age=70, ward=Surgery``: what a regression is asked to predict for."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from sottovoce.facts.columns import Category, Column, Flag
from sottovoce.privacy.errors import InvalidValue

__all__ = ["parse_row"]

_LONGEST = 10_000
_YES = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


def parse_row(text: str, columns: Mapping[str, Column]) -> dict[str, Any]:
    """Return the values that a text gives to all of some columns; commas, and equal signs, may stand in a value.

    >>> from sottovoce.facts.columns import Number
    >>> parse_row("age=70, ward=Surgery, new", {"age": Number(0, 110), "ward": Category(["Surgery, new", "Other"])})
    {'age': 70.0, 'ward': 'Surgery, new'}
    """
    if len(text) > _LONGEST:
        raise InvalidValue(f"a row in words may have {_LONGEST} characters. Got {len(text)}")
    names = "|".join(re.escape(name) for name in sorted(columns, key=len, reverse=True))
    found = list(re.finditer(rf"(?:^|,)\s*(`?)({names})\1\s*=", text)) if columns else []
    given: dict[str, Any] = {}
    ends = [*(match.start() for match in found[1:]), len(text)]
    for match, end in zip(found, ends, strict=False):
        name, said = match[2], text[match.end() : end].strip()
        if name in given:
            raise InvalidValue(f"a row says each column once. Got {name!r} twice")
        given[name] = _value(name, columns[name], said)
    lacking = [name for name in columns if name not in given]
    if lacking or (text.strip() and (not found or text[: found[0].start()].strip())):
        wanted = f"say all of {', '.join(columns)}" if columns else "no column explains anything, so say nothing"
        raise InvalidValue(f"a row to predict for reads like age=70, ward=Surgery; {wanted}. Got {text[:80]!r}")
    return given


def _value(name: str, column: Column, said: str) -> Any:
    if isinstance(column, Category):
        for level in column.categories:
            if str(level) == said:
                return level
        some = ", ".join(map(str, column.categories[:12])) + (", …" if len(column.categories) > 12 else "")
        raise InvalidValue(f"{name!r} is one of {some}. Got {said[:80]!r}")
    if isinstance(column, Flag):
        if said.lower() not in _YES:
            raise InvalidValue(f"{name!r} is yes or no. Got {said[:80]!r}")
        return _YES[said.lower()]
    try:
        number = float(said)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InvalidValue(f"{name!r} is a number. Got {said[:80]!r}")
    return number
