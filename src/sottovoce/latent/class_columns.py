"""The columns of a naive Bayes model: what is counted, and how records are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sottovoce.latent.bounded import Bounded
from sottovoce.latent.count_tables import CountTables
from sottovoce.latent.fields import Field
from sottovoce.privacy.errors import InvalidData, InvalidValue

__all__ = ["categories_by_name", "class_tables", "columns_of", "complete", "tails"]


def class_tables(label: Field, fields: Sequence[Field | Bounded]) -> CountTables:
    """Return one table (class, category) a categorical column; the classes alone where there is none."""
    kinds = [field for field in fields if isinstance(field, Field)]
    crossed = tuple((label.name, field.name) for field in kinds) or ((label.name,),)
    return CountTables((label, *kinds), crossed)


def complete(field: Field | Bounded) -> Any:
    """Return the column with a category for whatever fits none, the first unless it has one: every record counts."""
    if isinstance(field, Bounded) or field.other_code >= 0:
        return field
    return replace(field, other=next(category for category in field.categories if category is not None))


def categories_by_name(fields: Sequence[Field | Bounded], columns: Sequence[Any]) -> dict[str, Any]:
    """Return the categorical columns by name."""
    return {f.name: column for f, column in zip(fields, columns, strict=True) if isinstance(f, Field)}


def columns_of(X: Any, fields: Sequence[Field | Bounded]) -> tuple[list[Any], int]:
    """Return the columns of X: by name where it has names, else by position; and how many rows there are."""
    names = getattr(X, "column_names", None)
    names = list(getattr(X, "columns", ())) if names is None else names
    if isinstance(X, Mapping) or len(names):
        missing = [f.name for f in fields if f.name not in (X if isinstance(X, Mapping) else names)]
        if missing:
            raise InvalidData(f"X has no column {missing[0]!r}; it needs {', '.join(f.name for f in fields)}")
        columns = [X[f.name] for f in fields]
        if len({len(column) for column in columns}) != 1:
            raise InvalidData("every column of X must have one value a record; these have different lengths")
        return columns, len(columns[0])
    if isinstance(X, list | tuple):
        return _from_rows(X, len(fields)), len(X)
    rows = np.asarray(X) if not isinstance(X, np.ma.MaskedArray) else X
    if rows.ndim != 2 or rows.shape[1] != len(fields):
        raise InvalidData(f"X must be a table with {len(fields)} columns, one a feature. Got shape {rows.shape}")
    return [rows[:, k] for k in range(rows.shape[1])], len(rows)


def _from_rows(rows: Sequence[Any], width: int) -> list[Any]:
    """Return the columns of a list of rows, each cell as it is: an array would make one type of them all.

    A row of another length has all its values missing, unless every row has another length.
    """
    cells = [_cells(row, width) for row in rows]
    if rows and not any(cells):
        raise InvalidData(f"X must be a table with {width} columns, one a feature")
    nothing = (None,) * width
    return [[(row or nothing)[k] for row in cells] for k in range(width)]


def _cells(row: Any, width: int) -> list[Any]:
    """Return the cells of a row, or none where it is no row of this width."""
    try:
        cells = [] if isinstance(row, str | bytes | Mapping) else list(row)
    except Exception:
        return []
    return cells if len(cells) == width else []


def tails(level: float) -> list[float]:
    """Return the two probabilities between which an equal-tailed interval holds `level`."""
    if not 0 < level < 1:
        raise InvalidValue(f"level must lie between 0 and 1. Got {level!r}")
    return [(1 - level) / 2, (1 + level) / 2]
