"""Labels to positions and back, for whole columns at once."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.errors import InvalidData

__all__ = ["codes_of", "label_array"]

Codes = NDArray[np.intp]


def label_array(labels: tuple[Hashable, ...]) -> NDArray[Any]:
    """Return labels as an array: numbers or text where all are, objects otherwise.

    >>> label_array(("a", "b")).dtype.kind, label_array(("a", 1)).dtype.kind
    ('U', 'O')
    """
    kinds = {str if isinstance(c, str) else int if isinstance(c, int | np.integer) else object for c in labels}
    if kinds in ({str}, {int}) and not any(isinstance(c, bool) for c in labels):
        return np.array(labels)
    out = np.empty(len(labels), dtype=object)
    out[:] = labels
    return out


def codes_of(what: str, values: Any, labels: tuple[Hashable, ...]) -> Codes:
    """Return the position of each value among `labels`, or raise `InvalidData` naming the first stranger.

    >>> codes_of("category", ["b", "a", "b"], ("a", "b"))
    array([1, 0, 1])
    """
    if hasattr(values, "cat"):  # a pandas Series of categoricals
        values = values.cat
    if hasattr(values, "categories") and hasattr(values, "codes"):
        return _from_categorical(what, values, labels)
    known = label_array(labels)
    column = np.asarray(values)
    if column.ndim != 1:
        raise InvalidData(f"the {what} column must be one-dimensional. Got shape {column.shape}")
    if column.size == 0:
        return np.zeros(0, dtype=np.intp)
    kinds = known.dtype.kind + column.dtype.kind
    if kinds in ("UU", "ii", "iu", "ib"):
        codes = _by_number(known, column) if kinds[0] == "i" else None
        if codes is None:
            order = np.argsort(known)
            codes = order[np.minimum(np.searchsorted(known[order], column), len(labels) - 1)]
        bad = known[codes] != column
        if bad.any():
            raise _stranger(what, column[bad][0], labels)
        return codes
    return _one_by_one(what, column, labels)


def _by_number(known: NDArray[Any], column: NDArray[Any]) -> Codes | None:
    """Look whole numbers up in a table, where their labels lie close together; strangers land on any code."""
    low, high = int(known.min()), int(known.max())
    if high - low > 1 << 16:
        return None
    table = np.zeros(high - low + 1, dtype=np.intp)
    table[known - low] = np.arange(known.size)
    return np.asarray(table[np.clip(column.astype(np.int64), low, high) - low])


def _from_categorical(what: str, values: Any, labels: tuple[Hashable, ...]) -> Codes:
    codes = np.asarray(values.codes)
    if codes.size and codes.min() < 0:
        raise InvalidData(f"the {what} column has a missing value; drop or fill it first")
    table = _one_by_one(what, np.asarray(values.categories, dtype=object), labels, strict=False)
    out: Codes = table[codes]
    if out.size and out.min() < 0:
        raise _stranger(what, values.categories[codes[out < 0][0]], labels)
    return out


def _one_by_one(what: str, column: NDArray[Any], labels: tuple[Hashable, ...], *, strict: bool = True) -> Codes:
    """Look labels of mixed kinds up in a dictionary; `map` and `fromiter` keep the loop out of Python."""
    place = {label: i for i, label in enumerate(labels)}
    try:
        codes = np.fromiter(map(place.get, column.tolist(), repeat(-1)), dtype=np.intp, count=column.size)
    except TypeError:
        raise InvalidData(f"the {what} column holds something that is no label, such as a list") from None
    if strict and codes.size and codes.min() < 0:
        raise _stranger(what, column[codes < 0][0], labels)
    return codes


def _stranger(what: str, value: Any, labels: tuple[Hashable, ...]) -> InvalidData:
    shown = ", ".join(map(str, labels[:8])) + (", …" if len(labels) > 8 else "")
    value = value.item() if isinstance(value, np.generic) else value
    return InvalidData(f"the {what} column holds {value!r}, which is not among: {shown}")
