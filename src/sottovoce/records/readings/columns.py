"""A column of anything as numbers, or as positions of categories: maps that no record can make fail.

What a record becomes depends on that record alone, never on its neighbours: a list that holds a text beside its
numbers stays a list of numbers with one missing. Nothing here says which record was odd, or that one was.
"""

from __future__ import annotations

import numbers as kinds
import warnings
from collections.abc import Hashable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.errors import InvalidData
from sottovoce.privacy.numbers import Floats

__all__ = ["as_codes", "as_numbers", "as_rows", "check_public", "label_array"]

Codes = NDArray[np.int64]


def as_numbers(values: object, what: str = "records") -> Floats:
    """Return one column as doubles; whatever is no number, or missing, is NaN.

    >>> as_numbers([1, None, "7", 10**400, 0.5])
    array([1. , nan, nan, inf, 0.5])
    """
    return _floats(_one_column(_array(values, what, typed=True), what))


def as_rows(values: Any, dimension: int) -> Floats:
    """Return rows of `dimension` coordinates as doubles; what is no number is NaN, and so is a row of another length.

    An array of another shape is refused: its shape is public. The rows of a list have lengths of their own.
    """
    if _is_list(values):
        array = _uniform_rows(values)
        if array is None or array.shape[1:] != (dimension,):
            rows = [_row(value, dimension) for value in values]
            return np.array(rows, dtype=np.float64).reshape(len(rows), dimension)
        return _floats(array)
    array = _array(values, "records", typed=True)
    if array.size == 0:
        return np.zeros((0, dimension))
    if array.ndim != 2:
        raise InvalidData(f"records must form rows of coordinates. Got an array of {array.ndim} dimensions")
    if array.shape[1] != dimension:
        raise InvalidData(f"each record must have {dimension} coordinates. Got {array.shape[1]}")
    return _floats(array)


def as_codes(values: object, labels: Sequence[Hashable], other: int, what: str = "records") -> Codes:
    """Return the position of each value among `labels`; `other` where it is none of them.

    >>> as_codes(["b", "a", None, ["b"]], ("a", "b"), other=-1)
    array([ 1,  0, -1, -1])
    """
    coded = getattr(values, "cat", values)  # a pandas Series of categoricals
    if hasattr(coded, "categories") and hasattr(coded, "codes"):
        places, table = np.asarray(coded.codes), np.append(_looked_up(list(coded.categories), labels, other), other)
        # A missing one is -1, the last entry. Where every place stays as it is, nothing is looked up.
        same = np.array_equal(table, [*range(len(table) - 1), -1])
        return places.astype(np.int64) if same else np.asarray(table[places])
    column = _one_column(_array(values, what, typed=False), what)
    known = label_array(tuple(labels))
    if known.dtype.kind + column.dtype.kind not in ("UU", "ii", "iu", "ib") or column.size == 0:
        return _looked_up(column.tolist(), labels, other)
    codes = _by_number(known, column) if known.dtype.kind == "i" else None
    if codes is None:
        order = np.argsort(known)
        codes = order[np.minimum(np.searchsorted(known[order], column), known.size - 1)]
    return np.where(known[codes] == column, codes, other).astype(np.int64)


def label_array(labels: tuple[Hashable, ...]) -> NDArray[Any]:
    """Return labels as an array: numbers or text where all are, objects otherwise.

    >>> label_array(("a", "b")).dtype.kind, label_array(("a", 1)).dtype.kind
    ('U', 'O')
    """
    result = {str if isinstance(c, str) else int if isinstance(c, int | np.integer) else object for c in labels}
    if result in ({str}, {int}) and not any(isinstance(c, bool) for c in labels):
        array = np.array(labels)
        # NumPy drops NULs at the end of a text, and has no whole numbers beyond 64 bits.
        if array.dtype.kind in "iU" and array.tolist() == [*labels]:
            return array
    return np.fromiter(labels, dtype=object, count=len(labels))


def _array(values: Any, what: str, *, typed: bool) -> NDArray[Any]:
    if isinstance(values, np.ma.MaskedArray):
        out = np.asarray(values.data).astype(object)
        out[np.ma.getmaskarray(values)] = None
        return np.asarray(out)
    if _is_list(values):
        # The type of an array made from a list depends on all of it, so only doubles, which every number alone
        # would become as well, are taken from there.
        array = _uniform(values) if typed else None
        return np.fromiter(values, dtype=object, count=len(values)) if array is None or array.ndim != 1 else array
    try:
        array = np.asarray(None if isinstance(values, Mapping | set | frozenset) else values)
    except Exception:
        array = np.asarray(None)
    if array.ndim == 0:
        raise InvalidData(f"the {what} must form a column or a list. Got a single {type(values).__name__}")
    return array


def _is_list(values: object) -> bool:
    """Say whether these are records that each have a type of their own: a list, or a sequence like one."""
    return isinstance(values, Sequence) and not isinstance(values, str | bytes | bytearray | memoryview | np.ndarray)


def _plain(kind: type) -> bool:
    """Say whether an array takes values of a type as `_number` takes them one by one."""
    return kind in (float, int, bool) or (
        issubclass(kind, np.number | np.bool_) and not issubclass(kind, np.timedelta64 | np.complexfloating)
    )


def _uniform_rows(rows: Any) -> NDArray[Any] | None:
    """Return a list of rows as an array of numbers, or None where any is no plain row of plain numbers."""
    result = set(map(type, rows))
    if result == {np.ndarray}:
        plain = all(row.ndim == 1 and row.dtype.kind in "biuf" for row in rows)
    else:
        plain = result <= {list, tuple} and all(map(_plain, {type(cell) for row in rows for cell in row}))
    return _uniform_array(rows) if plain and len(set(map(len, rows))) == 1 else None


def _uniform(values: Any) -> NDArray[Any] | None:
    """Return a list as an array of numbers, or None where it holds anything else.

    Of plain numbers only: NumPy also takes arrays of no dimension, and whatever offers itself as one, for numbers, and
    beside a text they would be none.
    """
    return _uniform_array(values) if all(map(_plain, set(map(type, values)))) else None


def _uniform_array(values: object) -> NDArray[Any] | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            array = np.asarray(values)
        except Exception:
            return None
    return array if array.dtype.kind in "biuf" else None


def _one_column(array: NDArray[Any], what: str) -> NDArray[Any]:
    if array.ndim != 1:
        raise InvalidData(f"the {what} must form one column. Got an array of {array.ndim} dimensions")
    return array


def _floats(array: NDArray[Any]) -> Floats:
    if array.dtype.kind in "biuf":
        with np.errstate(all="ignore"):
            return array.astype(np.float64)
    if array.dtype.kind != "O":
        return np.full(array.shape, np.nan)
    flat = np.fromiter(map(_number, array.ravel().tolist()), dtype=np.float64, count=array.size)
    return flat.reshape(array.shape)


def _number(value: Any) -> float:
    try:
        # A time span of NumPy's counts as a whole number there, though it is none.
        if not isinstance(value, np.timedelta64) and isinstance(value, kinds.Real | Decimal | np.bool_):
            return float(value)
        return _from_scalar(value) if hasattr(value, "__array__") else np.nan
    except OverflowError:
        return np.inf if value > 0 else -np.inf
    except Exception:  # a signalling NaN, or a number of someone's own that fails
        return np.nan


def _from_scalar(value: object) -> float:
    """Return an array of no dimension as a number, or NaN."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = np.asarray(value)
    number = array.ndim == 0 and array.dtype.kind in "biuf" and not np.ma.is_masked(value)
    return float(_floats(array[None])[0]) if number else np.nan


def _row(value: object, dimension: int) -> list[float]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cells = _array(value, "record", typed=False)
    except Exception:  # a text, a single number, or a sequence of someone's own that fails
        return [np.nan] * dimension
    return list(map(_number, cells.tolist())) if cells.shape == (dimension,) else [np.nan] * dimension


def _looked_up(values: list[object], labels: Sequence[Hashable], other: int) -> Codes:
    place = {label: i for i, label in enumerate(labels)}.get

    def code(value: object) -> int:
        try:
            return place(value, other)
        except Exception:  # what cannot be hashed or compared is no label
            return other

    return np.fromiter(map(code, values), dtype=np.int64, count=len(values))


def _by_number(known: NDArray[Any], column: NDArray[Any]) -> Any:
    """Look whole numbers up in a table, where their labels lie close together; strangers land on any code."""
    low, high = int(known.min()), int(known.max())
    if high - low > 1 << 16:
        return None
    table = np.zeros(high - low + 1, dtype=np.int64)
    table[known - low] = np.arange(known.size)
    return table[np.clip(column.astype(np.int64), low, high) - low]


def check_public(public: bool, odd: bool) -> None:
    """Raise `InvalidData` where a record that is public is odd: nothing is told that nobody knew."""
    if public and odd:
        raise InvalidData("some public record is missing, no number or of no known category; leave it out")
