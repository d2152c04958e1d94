"""From records to statistics in one pass, whatever holds the records.

NumPy arrays, pandas and polars columns, Arrow arrays and plain lists all turn into arrays by themselves, so none of
those libraries is imported here. Every record counts for something, whatever it holds, as it does in a table: to
refuse one would tell, outside all accounting, that such a record exists. Each is put on a public grid and the grid's
steps are added as whole numbers, so a sum is exact, the same in any order, and moves by no more than one record does.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import Any

import numpy as np

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.readings.columns import as_codes, as_numbers, as_rows
from sottovoce.readings.grid import Grid, exact_sum
from sottovoce.systems.statistics import BallSum, CategoryCounts, ClippedSum, Reading, Statistics

__all__ = ["ball_limit", "check_sums", "read_records"]


def read_records(reading: Reading, records: Any, missing: Any = None, *, public: bool = False) -> Statistics:
    """Return n and ΣS(x) of a column of records.

    Parameters
    ----------
    reading, records
        How a record becomes S(x), and a column of them.
    missing
        What a record counts as that is no number or of no category: a number within the bounds (0 cut to them, unless
        given), a category (the first). A missing coordinate counts as 0.
    public
        Whether the records are public: then one that is no number, or of no category, is refused.

    Examples
    --------
    >>> read_records(ClippedSum(0, 1), [0.25, 7.0, -3.0, None])
    Statistics(n=4, total=array([1.25]))
    >>> read_records(CategoryCounts(("a", "b")), ["b", "b", "a"])
    Statistics(n=3, total=array([1., 2.]))
    """
    match reading:
        case ClippedSum():
            return _clipped_sum(reading, records, missing, public)
        case CategoryCounts():
            return _category_counts(reading, records, missing, public)
        case BallSum():
            return _ball_sum(reading, records, public)


def check_sums(reading: Any, n: int) -> None:
    """Raise `InvalidValue` unless n such records can be added: a double must hold the sum, of whole ones exactly."""
    match reading:
        case ClippedSum(low, high, integer):
            _steps(reading)
            largest, most = max(abs(low), abs(high)), 2.0**53 if integer else sys.float_info.max
        case BallSum(_, radius):
            largest, most = radius, sys.float_info.max
        case _:
            largest, most = 1.0, 2.0**53
    if Fraction(n) * Fraction(largest) > Fraction(most):
        raise InvalidValue(
            f"the sum of n={n} records of size up to {largest:g} does not fit into a double; "
            "lower the bounds or measure in another unit"
        )


def _steps(reading: ClippedSum) -> tuple[Grid, int, int]:
    """Return the grid that a reading's bounds choose, and its first and last step within them."""
    low, high = reading.low, reading.high
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InvalidValue(f"bounds must be finite, the lower one first. Got {low} and {high}")
    grid = Grid(0) if reading.integer else Grid.covering(max(abs(low), abs(high)))
    first, last = grid.inside(low, high)
    if first > last or (first == last and low < high):
        raise InvalidValue(f"the bounds {low} and {high} lie too close together for their size")
    return grid, first, last


def _clipped_sum(reading: ClippedSum, records: Any, missing: Any, public: bool) -> Statistics:
    low, high = reading.low, reading.high
    default = min(max(0.0, low), high) if missing is None else missing
    if not isinstance(default, int | float) or not low <= default <= high:
        raise InvalidValue(f"a missing value must count as a number from {low} to {high}. Got missing={missing!r}")
    column = as_numbers(records)
    _check_public(public, bool(np.isnan(column).any()))
    check_sums(reading, column.size)
    grid, first, last = _steps(reading)
    column = np.where(np.isnan(column), default, column)
    total = exact_sum(grid.steps(np.floor(column) if reading.integer else column, first, last))
    # Rounded once, from the exact sum: so are the two numbers that a table gives.
    above = float(total / grid.unit - column.size * Fraction(low))
    return Statistics(column.size, np.array([grid.value(total)]), above)


def _ball_sum(reading: BallSum, records: Any, public: bool) -> Statistics:
    rows = as_rows(records, reading.dimension)
    _check_public(public, bool(np.isnan(rows).any()))
    check_sums(reading, len(rows))
    mantissa, exponent = math.frexp(reading.radius)
    # Beside a radius of about 1 no square overflows or underflows; scaling by a power of two is exact.
    with np.errstate(over="ignore", under="ignore"):
        size = np.abs(np.ldexp(rows, -exponent))
    tame = np.where(size >= 2.0**-100, np.minimum(size, 2.0**300), 0.0) * np.sign(np.where(np.isnan(rows), 0.0, rows))
    squares = np.zeros(len(tame))
    for column in tame.T:
        squares = squares + column * column
    limit = ball_limit(reading.dimension, mantissa)
    shrink = limit / np.maximum(np.sqrt(squares), limit)
    grid = Grid.covering(mantissa)
    most = 1 << 52
    steps = [exact_sum(grid.steps(column, -most, most)) for column in (tame * shrink[:, None]).T]
    scale = Fraction(2) ** exponent / grid.unit
    return Statistics(len(rows), np.array([float(step * scale) for step in steps]))


def ball_limit(dimension: int, radius: float) -> float:
    """Return the norm that rows are scaled to: short of `radius` by more than all rounding can add.

    The norm of d doubles is off by a relative (d + 2)·2⁻⁵³ at most, the scaled coordinates by two more roundings, and
    putting them, or their products, on a grid of 2⁻⁵¹ moves a row by √d·2⁻⁵¹ (a matrix by d·2⁻⁵¹).
    """
    return radius * (1 - (dimension + 8) * 2.0**-49)


def _category_counts(reading: CategoryCounts, records: Any, missing: Any, public: bool) -> Statistics:
    categories = reading.categories
    if missing is not None and missing not in categories:
        raise InvalidValue(f"a missing value must count as one of the categories. Got missing={missing!r}")
    codes = as_codes(records, categories, -1)
    unknown = codes < 0
    _check_public(public, bool(unknown.any()))
    codes = np.where(unknown, 0 if missing is None else categories.index(missing), codes)
    return Statistics(codes.size, np.bincount(codes, minlength=len(categories)).astype(np.float64))


def _check_public(public: bool, odd: bool) -> None:
    if public and odd:
        raise InvalidData("some public record is missing, no number or of no known category; leave it out")
