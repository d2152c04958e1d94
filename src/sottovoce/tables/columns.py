"""From the name of a column to an expression that a reading can use, by the column's public type."""

from __future__ import annotations

import difflib
from typing import Any

import ibis

from sottovoce.privacy.errors import InvalidData

__all__ = ["field", "is_text", "numeric"]


def field(table: Any, name: str) -> Any:
    """Return a column, or raise `InvalidData` that names the columns there are."""
    if not isinstance(name, str):
        raise InvalidData(f"a column is named by a text. Got a {type(name).__name__}")
    if name in table.columns:
        return table[name]
    close = difflib.get_close_matches(name, table.columns, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "it has " + ", ".join(map(repr, table.columns[:20]))
    raise InvalidData(f"there is no column {name!r} in the table; {hint}")


def is_text(table: Any, name: str) -> bool:
    """Return whether a column holds text."""
    return bool(field(table, name).type().is_string())


def numeric(table: Any, name: str) -> Any:
    """Return a column as integers (whole numbers and truth values) or doubles, its missing values null.

    NaN stays as it is: whoever compares it must say what it means.
    """
    column = field(table, name)
    kind = column.type()
    if kind.is_boolean():
        return ibis.cases((column, 1), (~column, 0), else_=ibis.null("int64"))
    if kind.is_integer():
        return column
    if kind.is_floating() or kind.is_decimal():
        return column.cast("float64")
    word = "text" if kind.is_string() else str(kind)
    raise InvalidData(f"column {name!r} holds {word}, not numbers; say what to count with a condition (where=...)")
