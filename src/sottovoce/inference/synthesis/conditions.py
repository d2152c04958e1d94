"""Where a condition holds among the parts of columns: known for every part, or no marginal can be made of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.inference.synthesis.table_columns import ColumnParts, TableColumns
from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.facts import Count, Facts, Number
from sottovoce.records.facts.condition_parser import columns_of, parse_predicate
from sottovoce.records.facts.condition_tree import (
    And,
    ColumnTerm,
    Compare,
    Condition,
    IsMissing,
    Leaf,
    Literal,
    Not,
    OneOf,
    Or,
)

__all__ = ["columns_of_condition", "edges_of_condition", "holds_in"]

Mask = NDArray[np.bool_]


def columns_of_condition(where: str | None) -> list[str]:
    """Return the columns that a condition names, each once.

    >>> columns_of_condition("age >= 65 or (ward = 'A' and age < 18)")
    ['age', 'ward']
    """
    return [] if where is None else list(dict.fromkeys(columns_of(parse_predicate(where))))


def edges_of_condition(where: str | None, facts: Facts) -> dict[str, list[float]]:
    """Return where columns of numbers must be cut, so that a condition holds in each part or does not.

    >>> edges_of_condition("age >= 65 and visits > 2", Facts(age=Number(0, 110), visits=Count(9)))
    {'age': [65.0], 'visits': [3.0]}
    """
    result: dict[str, list[float]] = {}
    for leaf in [] if where is None else parse_predicate(where).leaves():
        column = leaf.sides[0] if leaf.sides else None
        if not isinstance(column, ColumnTerm) or not isinstance(facts[column.name], Number | Count):
            continue
        counts = isinstance(facts[column.name], Count)
        for side in leaf.sides[1:]:
            if isinstance(side, Literal) and not isinstance(side.value, str | bool):
                value = float(side.value)
                from_here = float(math.ceil(value)) if counts else value
                beyond = float(math.floor(value) + 1) if counts else math.nextafter(value, math.inf)
                sign = leaf.sign if isinstance(leaf, Compare) else "="
                edges = {"<": [from_here], ">=": [from_here], "<=": [beyond], ">": [beyond]}.get(
                    sign, [from_here, beyond]
                )
                result.setdefault(column.name, []).extend(edges)
    return result


def holds_in(where: str, columns: TableColumns, clique: Sequence[str]) -> Mask:
    """Return in which cells of a clique a condition holds, as a database would say; refuse one that splits a cell.

    >>> columns = TableColumns(Facts(age=Number(0, 110), visits=Count(9, missing=0)), {"age": (65.0,)})
    >>> holds_in("age < 65", columns, ["age"]).tolist()  # the last part is of missing ages
    [True, False, False]
    """
    hold, _ = _known(parse_predicate(where), columns, clique)
    return np.broadcast_to(hold, columns.shape(clique)).ravel()


def _known(condition: Condition, columns: TableColumns, clique: Sequence[str]) -> tuple[Mask, Mask]:
    """Return where a condition is true, and where it is false: a comparison with what is missing is false."""
    match condition:
        case And(parts):
            pairs = [_known(part, columns, clique) for part in parts]
            return _all([t for t, _ in pairs]), _any([f for _, f in pairs])
        case Or(parts):
            pairs = [_known(part, columns, clique) for part in parts]
            return _any([t for t, _ in pairs]), _all([f for _, f in pairs])
        case Not(part):
            true, false = _known(part, columns, clique)
            return false, true
    names = {side.name for side in condition.sides if isinstance(side, ColumnTerm)}
    if len(names) != 1:
        raise InvalidValue("a condition that compares two columns is kept by no table of counts")
    name = names.pop()
    cut = columns.parts[name]
    if not cut.missing:
        raise InvalidValue(f"a condition sees a missing {name!r} as missing, and in counts it has a value")
    shape = [1] * len(clique)
    shape[list(clique).index(name)] = cut.size
    true, false = _of_parts(condition, cut)
    return true.reshape(shape), false.reshape(shape)


def _of_parts(leaf: Leaf, parts: ColumnParts) -> tuple[Mask, Mask]:
    spans: list[Any] = list(parts.values) if parts.values else parts.ends
    outcomes = [_outcomes(leaf, span, numbers=not parts.values) for span in spans]
    outcomes.append((not leaf.negated, leaf.negated) if isinstance(leaf, IsMissing) else (False, True))
    if any(hold and fail for hold, fail in outcomes):
        raise InvalidValue(f"{parts.name!r} is cut elsewhere than the condition cuts it")
    return np.array([hold for hold, _ in outcomes]), np.array([fail for _, fail in outcomes])


def _outcomes(leaf: Leaf, span: Any, *, numbers: bool) -> tuple[bool, bool]:
    """Return whether a leaf may hold, and whether it may fail, in a part."""
    match leaf:
        case IsMissing(_, negated):
            return negated, not negated
        case OneOf(_, values, negated):
            pairs = [_compared("=", span, literal.value, numbers=numbers) for literal in values]
            hold, fail = any(h for h, _ in pairs), all(f for _, f in pairs)
            return (fail, hold) if negated else (hold, fail)
        case Compare(sign, _, Literal(value)):
            return _compared(sign, span, value, numbers=numbers)
        case ColumnTerm():
            return _compared("=", span, True, numbers=numbers)
    raise InvalidValue("a condition that compares two columns is kept by no table of counts")


def _compared(sign: str, span: Any, value: Any, *, numbers: bool) -> tuple[bool, bool]:
    if sign == "!=":
        hold, fail = _compared("=", span, value, numbers=numbers)
        return fail, hold
    low, high = span if numbers else (span, span)
    if isinstance(low, str) != isinstance(value, str):
        raise InvalidValue("a condition compares a text with what is none")
    hold, fail = {
        "=": (low <= value <= high, not low == value == high),
        "<": (low < value, high >= value),
        "<=": (low <= value, high > value),
        ">": (high > value, low <= value),
        ">=": (high >= value, low < value),
    }[sign]
    return bool(hold), bool(fail)


def _all(masks: Sequence[Mask]) -> Mask:
    result = masks[0]
    for mask in masks[1:]:
        result = result & mask
    return result


def _any(masks: Sequence[Mask]) -> Mask:
    result = masks[0]
    for mask in masks[1:]:
        result = result | mask
    return result
