"""Records as numbers, by maps that never fail: the value of one record cannot stop a release, warn, or touch another.

The number of records and of columns is public, so that a table of the wrong shape is refused. What stands in a cell is
not: a cell that holds no finite number (a hole, an infinity, text, anything) is *missing*, and reads as NaN here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats

_PLAIN = "biuf"
"""Kinds of arrays that hold real numbers and nothing else."""


def finite(values: object) -> Floats:
    """Return numbers in double precision, NaN where they are infinite or too large for it.

    >>> finite(np.array([1, 2], dtype=np.int8)).tolist(), np.isnan(finite([np.inf, 1.0])).tolist()
    ([1.0, 2.0], [True, False])
    """
    with np.errstate(all="ignore"):  # a cast that overflows must not be heard of
        doubles = np.array(values, dtype=np.float64)
    doubles[~np.isfinite(doubles)] = np.nan
    return doubles


def fill(values: Floats, missing: Any) -> Floats:
    """Return the values with a public number, or one a column, in place of those that are missing."""
    return np.where(np.isfinite(values), values, missing)


def table_of(X: object, columns: int | None = None) -> Any:
    """Return X as a table of numbers, one row a record; plain arrays of numbers come back as they are.

    A list may hold rows of several lengths: they are cut or padded to `columns`, or where that is None to the length
    that most of them have, which is as public as the number of records.

    >>> table_of([[1, "2"], [None, 3.5], [4, "x", 5]]).tolist()
    [[1.0, 2.0], [nan, 3.5], [4.0, nan]]
    """
    if isinstance(X, list | tuple):
        return _table_of_rows(X, columns)
    array = _array("X", X)
    if array.ndim != 2:
        raise InvalidData(
            f"X must be a table: Expected 2D array, got {array.ndim}D array instead. Reshape your data with "
            "reshape(-1, 1) if it is one column, or reshape(1, -1) if it is one record"
        )
    return array if array.dtype.kind in _PLAIN else _by_cell(array)


def column_of(y: object) -> Floats:
    """Return y as a column of numbers, NaN where there is none.

    >>> column_of([1, "x", None, 2.5]).tolist()
    [1.0, nan, nan, 2.5]
    """
    column = cells_of(y)
    return finite(column) if column.dtype.kind in _PLAIN else _by_cell(column)


def cells_of(y: object) -> NDArray[Any]:
    """Return y as one cell a record, each as it was given."""
    if y is None:
        raise InvalidData("a fit requires y to be passed, but the target y is None")
    if isinstance(y, list | tuple):
        column = np.empty(len(y), dtype=object)
        for k, cell in enumerate(y):
            # [[1], [2]] is a column too.
            column[k] = cell[0] if isinstance(cell, list | tuple) and len(cell) == 1 else cell
        return column
    array = _array("y", y)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InvalidData(f"y should be a 1d array, got an array of shape {array.shape} instead.")
    return array


def class_places(y: object, classes: Sequence[object]) -> NDArray[np.intp]:
    """Return which of the public classes each label is; a label that is none of them counts as the first.

    A label is a class if the two are equal, read as the same number, or are written alike: whether one odd label
    turned the whole column into text must not matter.

    >>> class_places(["no", "yes", "perhaps", None], ["no", "yes"]).tolist()
    [0, 1, 0, 0]
    """
    column = cells_of(y)
    names: dict[Any, int] = {}
    for place, name in reversed(list(enumerate(classes))):
        names.update(dict.fromkeys(_keys(name), place))
    if column.dtype.kind == "O":
        return np.array([_place(cell, names) for cell in column], dtype=np.intp)
    values, where = np.unique(column, return_inverse=True)
    return np.array([_place(value, names) for value in values], dtype=np.intp)[where.ravel()]


def missing_values(missing: object, columns: int) -> Floats:
    """Return the public number, or numbers, that stand for missing cells, or say what is wrong with them."""
    try:
        values = np.asarray(missing, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidValue(f"missing must be a number, or one a column. Got {missing!r}") from None
    if values.shape not in ((), (columns,)) or not np.all(np.isfinite(values)):
        raise InvalidValue(f"missing must be one finite number, or {columns}, one a column. Got {missing!r}")
    return values


def _array(name: str, values: object) -> NDArray[Any]:
    if hasattr(values, "tocsr"):  # a sparse matrix
        raise InvalidData(f"{name} is a sparse matrix, and sparse input is not supported; use {name}.toarray()")
    if not (hasattr(values, "__array__") or hasattr(values, "__array_interface__") or hasattr(values, "__dlpack__")):
        raise InvalidData(f"{name} must be an array, a data frame or a list. Got {type(values).__name__}")
    if isinstance(values, np.ma.MaskedArray):
        cells = values.data.astype(object)
        cells[np.ma.getmaskarray(values)] = None
        return cells
    return np.asarray(values)


def _table_of_rows(rows: Sequence[object], columns: int | None) -> Floats:
    cells = [_cells(row) for row in rows]
    if columns is None:
        lengths = Counter(len(row) for row in cells)
        columns = min(lengths, key=lambda length: (-lengths[length], length)) if lengths else 0
    if cells and columns == 0:
        raise InvalidData("X must be a table: Expected 2D array, got 1D array instead. Reshape your data")
    table = np.full((len(cells), columns), np.nan)
    for k, row in enumerate(cells):
        table[k, : len(row)] = [number(cell) for cell in row[:columns]]
    return table


def _cells(row: object) -> Sequence[Any]:
    if isinstance(row, list | tuple):
        return row
    return row.tolist() if isinstance(row, np.ndarray) and row.ndim == 1 else ()


def _by_cell(array: NDArray[Any]) -> Floats:
    if array.dtype.kind == "c":
        return finite(np.where(array.imag == 0, array.real, np.nan))
    cells = array.astype(object).ravel()
    return np.array([number(cell) for cell in cells], dtype=np.float64).reshape(array.shape)


def number(cell: Any) -> float:
    """Return the finite number that a cell holds, or NaN."""
    if hasattr(cell, "__len__") and not isinstance(cell, str | bytes):
        return math.nan
    if isinstance(cell, complex | np.complexfloating):
        cell = cell.real if cell.imag == 0 else None
    try:
        value = float(cell)
    except Exception:  # whatever an odd object does, it is no number
        return math.nan
    return value if math.isfinite(value) else math.nan


def _keys(label: object) -> list[Any]:
    """Return under which names a label goes: how it is written, then the number it is."""
    try:
        keys: list[object] = [label.decode() if isinstance(label, bytes) else str(label)]
    except Exception:  # text that cannot be made is no name
        keys = []
    value = number(label)
    return keys if math.isnan(value) else [*keys, value]


def _place(cell: object, names: dict[Any, int]) -> int:
    return next((names[key] for key in _keys(cell) if key in names), 0)
