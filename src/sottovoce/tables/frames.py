"""A pandas frame as an Arrow table, whose columns of objects are text of no type."""

from __future__ import annotations

from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np
import pyarrow as pa

from sottovoce.readings.persons import shortest
from sottovoce.tables.agreeing import distinct

__all__ = ["from_pandas"]


def from_pandas(frame: Any, person: str | None) -> tuple[pa.Table, frozenset[str]]:
    """Convert a frame; a column of objects is text of no type, for Arrow would work a type out from its values."""
    loose = [place for place, kind in enumerate(frame.dtypes) if _of_objects(kind)]
    texts = [place for place, kind in enumerate(frame.dtypes) if kind.name == "string"]
    names = [str(name) for name in frame.columns]
    arrays = [
        _text(frame.iloc[:, place], named=names[place] == person)
        if place in {*loose, *texts}
        else pa.array(frame.iloc[:, place], from_pandas=True)
        for place in range(len(names))
    ]
    distinct(names, "the frame")
    return pa.table(dict(zip(names, arrays, strict=True))), frozenset(names[place] for place in loose)


def _of_objects(kind: Any) -> bool:
    """Say whether a column, or its categories, hold objects; pandas calls objects that are all texts ``str``."""
    if kind.name == "category":
        return getattr(kind.categories.dtype, "kind", None) == "O"
    return kind.name in ("object", "str")


def _text(values: Any, *, named: bool = False) -> pa.Array:
    """Return cells as texts; of what persons are `named`, True is 1, as it is in memory: one person."""
    values = values.astype(object)
    if named:
        values = [int(value) if isinstance(value, bool | np.bool_) else value for value in values]
    try:
        return pa.array(values, pa.string(), from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.array([_word(value) for value in values], pa.string())


def _word(value: Any) -> str | None:
    """Return a cell as text, and what Arrow takes for text as Arrow does: one cell must not change how others read."""
    try:
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value).decode("utf-8", "replace")
        if isinstance(value, str):
            word = str.__str__(value)
        elif value is None or value != value:  # noqa: PLR0124 - NaN is not itself
            return None
        elif isinstance(value, Real) and not isinstance(value, Integral) and float(value).is_integer():
            word = str(int(float(value)))  # pandas reads a long file in parts, where 7 may be 7.0
        elif isinstance(value, Decimal):  # a database may tell 7 and 7.00 of one column
            word = shortest(value)
        else:
            word = str(value)
        return word.encode("utf-8", "surrogatepass").decode("utf-8", "replace")  # "?" may be a category
    except Exception:  # an object that cannot even be compared or written is a missing value
        return None
