"""How many digits a number is told with, wherever an answer is written: as many as its interval bears out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

NUMBERS = ("estimate", "low", "high")
"""What the numbers of a row are called."""
_FINEST = 8
"""So many digits behind the point at most."""
_ABOUT = 2
"""Where a ratio is known to no more than a factor e, each of its ends has so many digits that count."""
_PLAIN = 1e-4, 1e6
"""Between these, numbers are written without a power of ten."""


def formatted(row: Mapping[str, Any], *, counts: bool = False, names: Sequence[str] = NUMBERS) -> list[str]:
    """Return the numbers of a row with as many digits as its interval bears out; what is not known is a ``?``.

    The last digit is worth between a hundredth and a tenth of the interval's width.

    >>> formatted({"estimate": 56.1032, "low": 40.6, "high": 71.9})
    ['56', '41', '72']
    >>> formatted({"estimate": 3.0, "low": 3.0, "high": 3.0})  # a quantile of counts, known
    ['3', '3', '3']
    >>> formatted({"estimate": 1e-9, "low": -1e-9, "high": 3e-9})  # of a unit as small as that
    ['1e-09', '-1e-09', '3e-09']
    >>> formatted({"estimate": None, "low": 0.0, "high": 1.0})  # of a row that noise hides
    ['?', '0.0', '1.0']
    >>> formatted({"estimate": "2024-01-31", "low": "2024-01-29", "high": "2024-02-02"})  # of days
    ['2024-01-31', '2024-01-29', '2024-02-02']
    """
    if isinstance(row[names[-1]], str):
        return ["?" if row[name] is None else str(row[name]) for name in names]
    numbers = [float(row[name]) if row[name] is not None else math.nan for name in names]
    if _minute(numbers):
        return [f"{value:.2g}" for value in numbers]
    low, high = numbers[names.index("low")], numbers[names.index("high")]
    width = max(high - low, 1e-12)
    known = low == high and all(value.is_integer() for value in numbers)
    bare = counts or known or not math.isfinite(width)
    digits = 0 if bare else int(np.clip(1 - np.floor(np.log10(width)), 0, _FINEST))
    return [_written(value, digits) for value in numbers]


def formatted_ratio(row: Mapping[str, Any]) -> list[str]:
    """Return a ratio and its ends; where it is known to less than a factor e, each has the digits that it bears out.

    >>> formatted_ratio({"estimate": 1.0295, "low": 1.0262, "high": 1.0328})
    ['1.0295', '1.0262', '1.0328']
    >>> formatted_ratio({"estimate": 7.1, "low": 0.0213, "high": 1620.0})  # not "7 (0 to 1,620)"
    ['7.1', '0.021', '1,600']
    """
    numbers = [math.nan if row[name] is None else float(row[name]) for name in NUMBERS]
    _, low, high = numbers
    if not (0 < low < math.inf and 0 < high < math.inf) or high < math.e * low:
        return formatted(row)
    return [_counting(value, _ABOUT) for value in numbers]


def sure(probability: float) -> str:
    """Return a probability as text: nothing is certain.

    >>> sure(0.97), sure(1.0), sure(0.0)
    ('0.970', '>0.999', '<0.001')
    """
    return ">0.999" if probability >= 0.9995 else "<0.001" if probability < 0.0005 else f"{probability:.3f}"


def _minute(numbers: Sequence[float]) -> bool:
    """Return whether numbers that are not all 0 would be written as zeros, with as many digits as are ever shown."""
    return 0 < max(map(abs, numbers)) < 1e-6 and not any(map(math.isnan, numbers))


def _written(value: float, digits: int) -> str:
    if math.isnan(value):
        return "?"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    text = f"{value:,.{digits}f}"
    return text.removeprefix("-") if not any(digit in text for digit in "123456789") else text


def _counting(value: float, digits: int) -> str:
    """Return a number above zero with so many digits that count."""
    if not _PLAIN[0] <= value < _PLAIN[1]:
        return f"{value:.{digits}g}"
    power = math.floor(math.log10(float(f"{value:.{digits - 1}e}")))
    return f"{round(value, digits - 1 - power):,.{max(digits - 1 - power, 0)}f}"
