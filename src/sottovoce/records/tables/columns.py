"""From the name of a column to an expression that a reading can use, by the column's public type."""

from __future__ import annotations

import difflib
import math
from decimal import Decimal
from typing import Any

import ibis

from sottovoce.privacy.errors import InvalidData
from sottovoce.privacy.numbers import shown
from sottovoce.records.tables.engine import Engine, number

WIDE = "decimal(38, 0)"
"""What holds whole numbers of 64 bits with a sign and without one, on every engine."""
_YES, _NO = ("true", "yes"), ("false", "no")

_PLACES = 300
"""Decimals of so many places before and after the point are doubles, none too large and none too small."""
_DIGITS, _POWERS = 15, 22
"""Whole numbers of so many digits are doubles, and so are powers of ten up to this one: one division rounds once."""

_WIDEST = 38
"""The digits of the widest decimals that every engine has."""


def field(table: Any, name: str) -> Any:
    """Return a column, or raise `InvalidData` that names the columns there are."""
    if not isinstance(name, str):
        raise InvalidData(f"a column is named by a text. Got {shown(name)}")
    if name in table.columns:
        return table[name]
    close = difflib.get_close_matches(name, table.columns, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "it has " + ", ".join(map(repr, table.columns[:20]))
    raise InvalidData(f"there is no column {name!r} in the table; {hint}")


def is_text(table: object, name: str) -> bool:
    """Return whether a column holds text."""
    return bool(field(table, name).type().is_string())


def kind_in_words(kind: Any) -> str:
    """Return what a column of a type holds: of numbers and of days alike, however wide they are."""
    if kind.is_string():
        return "text"
    if kind.is_boolean():
        return "truth values"
    if kind.is_date() or kind.is_timestamp():
        return "days"
    return "numbers" if kind.is_numeric() else str(kind)


def numeric(engine: Engine, table: object, name: str) -> Any:
    """Return a column as integers (whole numbers and truth values) or doubles, its missing values null.

    NaN stays as it is: whoever compares it must say what it means. Text of no given type is the number it reads as,
    1 for true or yes, 0 for false or no, and missing otherwise; that of a flag is what `truth` says.
    """
    column = field(table, name)
    kind, small = column.type(), "int8" if engine.small else "int32"
    if kind.is_string() and name in engine.flags:
        return (truth(column) if engine.tries else _word_of_truth(column)).cast(small)
    if kind.is_string() and name in engine.untyped:
        value, word = column.try_cast("float64"), column.strip().lower()
        return ibis.cases(
            (value.notnull(), value), (word.isin(_YES), 1.0), (word.isin(_NO), 0.0), else_=ibis.null("float64")
        )
    if kind.is_boolean():
        return column.cast(small)
    if kind.is_integer():
        return _signed(column)
    if kind.is_decimal():
        return _double(column)
    if kind.is_floating():
        return column.cast("float64")
    raise InvalidData(
        f"column {name!r} holds {kind_in_words(kind)}, not numbers; say what to count with a condition (where=...)"
    )


def whole(engine: Engine, table: object, name: str) -> Any:
    """Return a column of whole numbers, every digit of which counts, its missing values null; None of any other.

    They are integers, or decimals where 64 bits with a sign do not hold all of them: unsigned ones of 64 bits, which
    some engines have as decimals without places.
    """
    column = field(table, name)
    kind = column.type()
    if name in engine.doubles:
        return None
    if kind.is_unsigned_integer() and kind.nbytes == 8:
        return column.cast(WIDE)
    if kind.is_decimal() and kind.scale == 0 and kind.precision is not None and kind.precision < _WIDEST:
        known = ~column.cast("float64").isnan()  # as PostgreSQL's may be
        return ibis.cases((known, column.cast(WIDE)), else_=ibis.null(WIDE))
    result = numeric(engine, table, name)
    return result if result.type().is_integer() else None


def truth(text: Any) -> Any:
    """Return text as truth values: true, yes, t, y and a 1 however it is written; their opposites; missing otherwise.

    Files that were written from frames with missing values hold flags as ``1.0`` and ``0.0``.
    """
    value = text.try_cast("float64")
    odd = ibis.cases((value == 1.0, True), (value == 0.0, False), else_=text.strip().try_cast("boolean"))
    return ibis.coalesce(text.try_cast("boolean"), odd)  # most cells are plain words, and soon read


def _word_of_truth(text: Any) -> Any:
    """Return the same truth values where no cast can be tried: a 1 or 0 is written in one of two ways."""
    word = text.strip().lower()
    yes, no = word.isin((*_YES, "t", "y", "1", "1.0")), word.isin((*_NO, "f", "n", "0", "0.0"))
    return ibis.cases((yes, True), (no, False), else_=ibis.null("boolean"))


def _signed(column: Any) -> Any:
    """Return whole numbers as int64: an unsigned column cannot be compared with a number below 0 in every engine.

    Of unsigned ones of 64 bits half are beyond that; they are doubles, as they are wherever they are numbers.
    """
    kind = column.type()
    if not kind.is_unsigned_integer():
        return column
    return column.cast("float64" if kind.nbytes == 8 else "int64")


def _double(column: Any) -> Any:
    """Return decimals as doubles; those that a double may not hold (PostgreSQL's) cut off where the cast would fail."""
    kind = column.type()
    if kind.precision is not None and kind.precision - kind.scale <= _PLACES and kind.scale <= _PLACES:
        if kind.precision <= _DIGITS:
            return column.cast("float64")
        # A cast rounds longer ones twice. As text, each is the nearest double on every engine.
        text = column.cast("string").cast("float64")
        if kind.scale > _POWERS:
            return text
        low, high = (ibis.literal(f"{Decimal(end).scaleb(-kind.scale):f}").cast(kind) for end in (-(2**53), 2**53))
        return ibis.cases((column.between(low, high), column.cast("float64")), else_=text)
    huge, tiny = (ibis.literal(text).cast("decimal") for text in ("1.7976931348623157e308", "1e-300"))
    size = column.abs()
    return ibis.cases(
        (column == ibis.literal("NaN").cast("decimal"), ibis.null("float64")),
        (size.between(tiny, huge), column.cast("float64")),
        (column > huge, number(math.inf)),
        (column < -huge, number(-math.inf)),
        (size < tiny, number(0.0)),
        else_=ibis.null("float64"),
    )
