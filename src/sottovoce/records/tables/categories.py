"""Categories as an engine knows them: literals of a column's kind, and the position of each value among them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import numpy as np

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.records.facts.tokenizer import checked_text
from sottovoce.records.tables.engine import Engine, number

__all__ = ["category_code", "category_literals"]

_LONG = 20
"""So many texts are compared with one after the other as soon as one is found as a key."""


def category_literals(column: Any, categories: Sequence[object]) -> tuple[object, list[object]]:
    """Return a column without NaN, and its categories as literals of the column's kind."""
    literals = [_category(column, category) for category in categories]
    if column.type().is_floating():  # NaN apart: engines disagree what it equals
        column = ibis.cases((column.isnan(), ibis.null("float64")), else_=column)
    return column, literals


def _category(column: Any, category: Any) -> Any:
    if column.type().is_string():
        return ibis.literal(_text(category))
    if isinstance(category, bool | int | float | np.number | np.bool_):
        exact = float(category)
        if exact.is_integer() and abs(exact) < 2**53:
            return ibis.literal(int(exact))
        if math.isfinite(exact):
            return number(exact)
    raise InvalidData(f"the column holds numbers, so a category {category!r} cannot be found in it")


def _text(category: object) -> str:
    if not isinstance(category, str):
        raise InvalidData(
            f"the column holds text, so a category {category!r} cannot be found in it; say in the facts that it is a "
            "category, and list its texts"
        )
    return checked_text(category)


def category_code(
    engine: Engine, value: Any, categories: tuple[object, ...], other: int | None, *, loose: bool = False
) -> Any:
    """Return the position of a value among its categories, `other` (or null) of what is none of them.

    Where `loose`, what is none of them may be any number that is no position: that is quicker.
    """
    if len(set(categories)) < len(categories) or not categories:
        raise InvalidValue("categories must be a list of different values")
    if engine.searches and value.type().is_string():
        texts = ibis.literal([_text(category) for category in categories], "array<string>")  # one node, not thousands
        place = array_position(texts, value).cast("int64").nullif(0) - 1
        return place if other is None else place.fill_null(other)
    if engine.opens and value.type().is_string() and len(categories) > _LONG:
        keys = json.dumps({_text(category): place for place, category in enumerate(categories)}, ensure_ascii=False)
        place = jsonb_extract_path_text(keys, value).cast("int64")
        return place if other is None else place.fill_null(other)
    value, literals = category_literals(value, categories)
    missing = ibis.null("int64") if other is None else ibis.literal(other).cast("int64")
    if value.type().is_integer() and tuple(categories) == tuple(range(len(categories))):
        if loose and other is None:
            return value if value.type().is_int8() else ibis.greatest(ibis.least(value, len(categories)), -1)
        return ibis.cases((value.between(0, len(categories) - 1), value.cast("int64")), else_=missing)
    return ibis.cases(*((value == literal, i) for i, literal in enumerate(literals)), else_=missing)


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def array_position(values: dt.Array[dt.String], value: str) -> dt.Int32:
    """Return the place of a value in a list, from 1 on; 0 or null where it is not in it."""


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def jsonb_extract_path_text(keys: str, value: str) -> dt.String:
    """Return what stands under a key of an object; null where there is no such key."""
