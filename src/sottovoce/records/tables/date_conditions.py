"""Days in conditions: a written day against a column of days, of moments, or of text. No record is converted, so none
can fail to be.
"""

from __future__ import annotations

import datetime
import re
from typing import Any

import ibis

from sottovoce.privacy.errors import InvalidData
from sottovoce.records.facts.condition_tree import SIGNS, ColumnTerm, Literal
from sottovoce.records.tables.columns import field, kind_in_words

_WRITTEN = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"


def is_day(value: object) -> bool:
    """Say whether a literal is a text that is written as a day is."""
    return isinstance(value, str) and re.fullmatch(_WRITTEN, value) is not None


def days(table: object, sign: str, left: ColumnTerm, right: ColumnTerm | Literal) -> Any:
    """Return the comparison of a column of days or moments with a written day, or with another such column."""
    column = field(table, left.name)
    if isinstance(right, ColumnTerm):
        other = field(table, right.name)
        if column.type().copy(nullable=True) != other.type().copy(nullable=True):
            raise InvalidData(
                f"columns {left.name!r} and {right.name!r} cannot be compared: they hold {column.type()} and "
                f"{other.type()}; compare each with a day"
            )
        return SIGNS[sign](column, other)
    day = _day(left.name, right.value)
    if column.type().is_date():
        return SIGNS[sign](column, ibis.date(day.isoformat()))
    return _on_day(column, sign, day)


def written_days(table: object, sign: str, column: ColumnTerm, right: Literal) -> Any:
    """Return the comparison of text with a written day: text that is written as days are has their order."""
    text = field(table, column.name)
    if not text.type().is_string():
        raise InvalidData(f"column {column.name!r} holds {kind_in_words(text.type())}, and {right.value!r} is a day")
    result = ibis.cases((text.re_search(f"^{_WRITTEN}$"), text), else_=ibis.null("string"))
    return SIGNS[sign](result, ibis.literal(_day(column.name, right.value).isoformat()))


def _day(name: str, value: Any) -> datetime.date:
    try:
        if is_day(value):
            return datetime.date.fromisoformat(value)
    except ValueError:  # such as the 30th of February
        pass
    raise InvalidData(f"column {name!r} holds days; compare it with one such as '2024-01-31'. Got {value!r}")


def _on_day(column: Any, sign: str, day: datetime.date) -> Any:
    """Return the comparison of moments with a day, whose moments all lie on it: none is turned into a day for it."""
    kind = column.type()
    if kind.scale == 9:  # which reach less far than days do
        column, kind = column.cast(kind.copy(scale=6)), kind.copy(scale=6)
    begun = column >= _moment(day, kind)
    if day == datetime.date.max:
        over = ibis.cases((column.notnull(), False), else_=ibis.null("boolean"))
    else:
        over = column >= _moment(day + datetime.timedelta(days=1), kind)
    match sign:
        case ">=":
            return begun
        case "<":
            return ~begun
        case ">":
            return over
        case "<=":
            return ~over
        case "=":
            return begun & ~over
    return ~begun | over


def _moment(day: datetime.date, kind: Any) -> Any:
    """Return midnight in the column's own unit: moments in seconds reach further than those in microseconds, which
    they would be turned into.
    """
    midnight = ibis.timestamp(f"{day.isoformat()} 00:00:00", timezone="UTC" if kind.timezone else None)
    return midnight if kind.scale in (None, 6) else midnight.cast(kind)
