"""Quantiles of days: numbers of days after the first one are told as dates, and dates are placed as numbers."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from typing import Any

from sottovoce.privacy.errors import InvalidValue


def with_dates(row: Mapping[str, Any], first: datetime.date) -> dict[str, Any]:
    """Return a row whose numbers are days after the first as dates; ends between two days are drawn outwards.

    >>> with_dates({"estimate": 30.4, "low": 28.0, "high": 32.5}, datetime.date(2024, 1, 1))
    {'estimate': '2024-01-31', 'low': '2024-01-29', 'high': '2024-02-03'}
    """
    middle = None if row["estimate"] is None else date_at(round(row["estimate"]), first)
    ends = {"low": date_at(math.floor(row["low"]), first), "high": date_at(math.ceil(row["high"]), first)}
    return dict(row) | {"estimate": middle} | ends


def date_at(days: float, first: datetime.date) -> str:
    """Return the date so many days after the first; a part of a day belongs to the next.

    >>> date_at(30.5, datetime.date(2024, 1, 1))
    '2024-02-01'
    """
    return (first + datetime.timedelta(days=math.ceil(days))).isoformat()


def days_after(text: str, first: datetime.date) -> int:
    """Return how many days after the first a date is, or raise `InvalidValue`.

    >>> days_after("2024-02-01", datetime.date(2024, 1, 1))
    31
    """
    try:
        return (datetime.date.fromisoformat(text.strip().strip("'\"")) - first).days
    except ValueError:
        raise InvalidValue(f"a column of days is compared with a date, such as {first}. Got {text!r}") from None


def placed(value: Any) -> float:
    """Return where a number or a date lies on an axis; NaN where nothing is told.

    >>> placed("0001-01-02"), placed(2.5)
    (2.0, 2.5)
    """
    if isinstance(value, str):
        return float(datetime.date.fromisoformat(value).toordinal())
    return math.nan if value is None else float(value)
