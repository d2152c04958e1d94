"""Arguments of verbs: what each is told, of which kind, in words for forms and in JSON schemas."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sottovoce.inference.cells.question_checks import OVER_TIME, WITH_SEASON
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import shown
from sottovoce.records.facts import Category, Column, Count, Flag, Number

VALUES, NUMBERS = (Flag, Category), (Number, Count)
_LONGEST = 2000
_SCHEMAS: dict[str, dict[str, Any]] = {
    "column": {"type": "string", "maxLength": 200},
    "columns": {
        "anyOf": [
            {"type": "string", "maxLength": _LONGEST},
            {"type": "array", "items": {"type": "string", "maxLength": _LONGEST}, "maxItems": 16},
        ]
    },
    "text": {"type": "string", "maxLength": _LONGEST},
    "number": {"type": "number", "minimum": -1e6, "maximum": 1e6},
    "numbers": {"type": "array", "items": {"type": "number", "minimum": -1e6, "maximum": 1e6}, "maxItems": 64},
    "whole": {"type": "integer", "minimum": 0, "maximum": 4096},
    "flag": {"type": "boolean"},
    "choice": {"type": "string", "maxLength": 100},
}


@dataclass(frozen=True)
class Argument:
    """One thing that a verb is told.

    Attributes
    ----------
    name
        The keyword, in Python and over the wire.
    kind
        ``column``, ``columns``, ``text``, ``number``, ``numbers``, ``whole``, ``flag`` or ``choice``.
    label, help
        What a form calls it, and what it says below.
    columns
        The kinds of column it may name; none for other arguments.
    choices
        What a ``choice`` is one of; of a ``flag``, what it may be beside true and false.
    needed
        Whether the verb makes no sense without it.
    bands
        Whether it may also name bands of a number, in words.
    """

    name: str
    kind: str
    label: str
    help: str = ""
    columns: tuple[type[Column], ...] = ()
    choices: tuple[str, ...] = ()
    needed: bool = False
    bands: bool = False

    def fitting(self, facts: Mapping[str, Column]) -> list[str]:
        """Return the columns that this argument may name."""
        return [name for name, column in facts.items() if isinstance(column, self.columns)]

    def schema(self, facts: Mapping[str, Column] | None = None) -> dict[str, Any]:
        """Return the JSON schema of its values; with facts, the columns there are."""
        schema = {"title": self.label} | _SCHEMAS[self.kind] | ({"description": self.help} if self.help else {})
        if self.kind == "choice":
            schema["enum"] = list(self.choices)
        elif self.choices:
            schema = {name: part for name, part in schema.items() if name != "type"}
            schema["enum"] = [False, True, *self.choices]
        if facts is not None and self.columns:
            item: dict[str, Any] = {"type": "string", "enum": self.fitting(facts)}
            if self.bands and (numbers := [name for name, column in facts.items() if isinstance(column, NUMBERS)]):
                words = f"Bands of a number, such as {numbers[0]}: 12 bands"
                item = {"anyOf": [item, {"type": "string", "maxLength": _LONGEST, "description": words}]}
            several = {"anyOf": [item, {"type": "array", "items": item}]}
            schema = {"title": self.label} | (item if self.kind == "column" else several)
        return schema

    def checked(self, value: object) -> Any:
        """Return a value of the right kind, or raise `InvalidValue`."""
        if self.kind == "flag" and isinstance(value, str) and value in self.choices:
            return value
        if not _KINDS[self.kind](value):
            raise InvalidValue(f"{self.name} must be {WANTED[self.kind]}. Got {shown(value)}")
        if self.kind == "choice" and value not in self.choices:
            raise InvalidValue(f"{self.name} must be one of {', '.join(self.choices)}. Got {value!r}")
        return tuple(value) if isinstance(value, list) else value


def _text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST


def is_number(value: object) -> bool:
    """Say whether a value is a number that a double holds: neither infinite nor NaN, nor of a thousand digits."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


_KINDS: dict[str, Any] = {
    "column": _text,
    "columns": lambda v: _text(v) or (isinstance(v, list | tuple) and len(v) <= 16 and all(map(_text, v))),
    "text": _text,
    "number": is_number,
    "numbers": lambda v: is_number(v) or (isinstance(v, list | tuple) and len(v) <= 64 and all(map(is_number, v))),
    "whole": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "flag": lambda v: isinstance(v, bool),
    "choice": _text,
}
WANTED = {
    "column": "the name of a column",
    "columns": "the name of a column, or a list of at most 16, each of at most 2000 characters",
    "text": "a text of at most 2000 characters",
    "number": "a number",
    "numbers": "a number, or a list of at most 64",
    "whole": "a whole number",
    "flag": "true or false",
    "choice": "a word",
}


BY = Argument(
    "by",
    "columns",
    "By group",
    "Every group that the condition leaves gets a row, and all together cost once. Numbers are grouped in bands, such "
    "as age: under 18, 18-64, 65+ or age: 12 bands.",
    VALUES,
    bands=True,
)
WHERE = Argument(
    "where",
    "text",
    "Only records where",
    "The answer is about the records for which this holds. The others are left out, never counted as a value.",
)
POOL = Argument(
    "pool",
    "flag",
    "Let groups share strength",
    "Small groups borrow from the others, as much as the groups are alike; or from those before and after ('time'), "
    "and from the same months of other years ('season').",
    choices=(OVER_TIME, WITH_SEASON),
)
PRIOR = Argument("prior", "number", "Records the prior counts for", "1.5, shared by the values, unless given.")
