"""From records to statistics in one pass, whatever holds the records.

NumPy arrays, pandas and polars columns, Arrow arrays and plain lists all turn into arrays by themselves, so
none of
those libraries is imported here. What cannot be read is refused without saying which record or what it held.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from sottovoce.privacy.errors import InvalidData
from sottovoce.privacy.numbers import Floats
from sottovoce.systems.statistics import BallSum, CategoryCounts, ClippedSum, Reading, Statistics

__all__ = ["read_records"]


def read_records(reading: Reading, records: Any) -> Statistics:
    """Return n and ΣS(x) of a column of records.

    Examples
    --------
    >>> read_records(ClippedSum(0, 1), [0.25, 7.0, -3.0])
    Statistics(n=3, total=array([1.25]))
    >>> read_records(CategoryCounts(("a", "b")), ["b", "b", "a"])
    Statistics(n=3, total=array([1., 2.]))
    """
    match reading:
        case ClippedSum():
            return _clipped_sum(reading, records)
        case CategoryCounts():
            return _category_counts(reading, records)
        case BallSum():
            return _ball_sum(reading, records)


def _clipped_sum(reading: ClippedSum, records: Any) -> Statistics:
    column = _numbers(records, 1)
    clipped = np.clip(column, reading.low, reading.high)
    if reading.integer:
        np.floor(clipped, out=clipped)
    return Statistics(column.size, clipped.sum())


def _ball_sum(reading: BallSum, records: Any) -> Statistics:
    rows = _numbers(records, 2)
    if rows.size == 0:
        return Statistics(0, np.zeros(reading.dimension))
    if rows.shape[1] != reading.dimension:
        raise InvalidData(f"each record must have {reading.dimension} coordinates. Got {rows.shape[1]}")
    lengths = np.linalg.norm(rows, axis=1)
    shrink = np.minimum(1.0, reading.radius / np.maximum(lengths, reading.radius))
    # One contiguous row a coordinate: NumPy then adds pairwise, whose error the grid of noisy sums allows for.
    return Statistics(len(rows), np.ascontiguousarray((shrink[:, None] * rows).T).sum(axis=1))


def _category_counts(reading: CategoryCounts, records: Any) -> Statistics:
    column = _array(records)
    if column.ndim != 1 and column.size:
        raise InvalidData(f"records must form one column. Got an array of {column.ndim} dimensions")
    size = len(reading.categories)
    if column.size and column.dtype.kind in "iub" and reading.categories == tuple(range(size)):
        codes = column.astype(np.int64)
        if codes.min() < 0 or codes.max() >= size:
            raise _unknown_category()
        return Statistics(codes.size, np.bincount(codes, minlength=size).astype(np.float64))
    counts = Counter(column.ravel().tolist())
    try:
        known = [counts.pop(category, 0) for category in reading.categories]
    except TypeError:
        raise InvalidData("a record cannot be compared with the categories") from None
    if counts:
        raise _unknown_category()
    return Statistics(column.size, np.array(known, dtype=np.float64))


def _unknown_category() -> InvalidData:
    return InvalidData(
        "some record belongs to no known category; list every category when you build the system, "
        "or map the rest to one of them first"
    )


def _array(records: Any) -> Any:
    if isinstance(records, np.ma.MaskedArray) and np.ma.is_masked(records):
        raise InvalidData("some record is masked; fill or drop those records first")
    try:
        array = np.asarray(records)
    except Exception:
        raise InvalidData(f"cannot read records from a {type(records).__name__}; give a column or a list") from None
    if array.ndim == 0:
        raise InvalidData(f"records must form a column. Got a single {type(records).__name__}")
    return array


def _numbers(records: Any, dimensions: int) -> Floats:
    array = _array(records)
    if array.size == 0:
        return np.zeros((0,) * dimensions)
    if array.ndim != dimensions:
        shape = "one column" if dimensions == 1 else "rows of coordinates"
        raise InvalidData(f"records must form {shape}. Got an array of {array.ndim} dimensions")
    if array.dtype.kind not in "biuf":
        if array.dtype.kind != "O" or any(isinstance(v, str | bytes) for v in array.flat):
            raise InvalidData(f"records must be numbers. Got {array.dtype}")
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            raise InvalidData("records must be numbers, with none missing") from None
    floats: Floats = array.astype(np.float64)
    if not np.all(np.isfinite(floats)):
        raise InvalidData("some record is missing, NaN or infinite; fill or drop those records first")
    return floats
