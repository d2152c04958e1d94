"""Public times that cut a column of times into cells, of survival and of hazards."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, shown
from sottovoce.records.facts.columns import Count, Number

_ROUNDED = 1 / 50
"""Even times are rounded to a power of ten that is at most this part of a cell: a reader sees 305, not 305.167."""


def rising_times(name: str, column: Number | Count, cuts: object, even: int, most: int) -> tuple[float, ...]:
    """Return the times at which cells of a column end, from their number or the times themselves.

    Where nothing is said there are so many `even` ones, and there are no more than `most`.

    >>> rising_times("days", Number(0, 360), 3, 12, 64), rising_times("days", Count(9), [0, 2, 5], 12, 64)
    ((120.0, 240.0, 360.0), (2.0, 5.0))
    >>> rising_times("days", Number(1, 1826), 3, 12, 64)
    (610.0, 1220.0, 1826.0)
    """
    low, high = column.bounds
    if isinstance(cuts, float) and cuts.is_integer():
        cuts = int(cuts)
    if cuts is None or (isinstance(cuts, tuple | list) and not len(cuts)):
        cuts = even
    if isinstance(cuts, int) and not isinstance(cuts, bool):
        if not 1 <= cuts <= most:
            raise InvalidValue(f"{name!r} is cut into 1 to {most} cells of time. Got {cuts}")
        times = np.linspace(low, high, cuts + 1)[1:]
        times = np.unique(np.ceil(times)) if isinstance(column, Count) else _legible(times, (high - low) / cuts)
    else:
        try:
            times = np.array(list(cuts) if isinstance(cuts, Iterable) else cuts, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidValue(f"cuts= are rising times, such as [30, 90, 365]. Got {shown(cuts)}") from None
        times = times[1:] if times.ndim == 1 and times.size > 1 and times[0] == low else times
    if times.ndim != 1 or not 1 <= times.size <= most or not np.all(np.diff(times) > 0):
        raise InvalidValue(f"cuts= are 1 to {most} rising times, such as [30, 90, 365]. Got {shown(cuts)}")
    if not low < times[0] or not times[-1] <= high:
        raise InvalidValue(f"cuts= lie above {low:g} and up to {high:g}, the bounds of {name!r}. Got {shown(cuts)}")
    if isinstance(column, Count) and not np.array_equal(times, np.rint(times)):
        raise InvalidValue(f"{name!r} holds whole numbers, and so do cuts=. Got {shown(cuts)}")
    return tuple(times.tolist())


def _legible(times: Floats, width: float) -> Floats:
    """Return times rounded to few digits, but the last, which is a bound."""
    digits = -math.floor(math.log10(width * _ROUNDED))
    return np.append(np.round(times[:-1], digits), times[-1])
