"""Which groups a condition rules out: by its words and how the groups are cut, never by any record."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from sottovoce.records.facts.cells import Axis
from sottovoce.records.facts.condition_parser import columns_of, parse_predicate
from sottovoce.records.facts.condition_tree import (
    SIGNS,
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
    Value,
)

_Band = tuple[float, float]
"""From a number to just below another."""
_Known = Mapping[str, Value | _Band]
_Outcomes = tuple[bool, bool]
"""Whether a condition may hold, and whether it may fail."""
_EITHER = (True, True)
_WHOLE = 2.0**53
"""From here on a condition sees every whole number as it is, and a band the double next to it."""


def groups_kept(where: str | None, axes: Sequence[Axis]) -> list[int]:
    """Return the places of the groups that the condition leaves room for.

    A group that also holds what is missing or unknown stays: the condition sees such values as they are.

    >>> wards = Axis("ward", False, ("A", "B", "C"), ("A", "B", "C"), -1)
    >>> groups_kept("ward in ('A', 'B') and age > 40", [wards]), groups_kept("ward = 'C' or age > 40", [wards])
    ([0, 1], [0, 1, 2])
    """
    places = range(math.prod(axis.size for axis in axes))
    if where is None:
        return list(places)
    tree = parse_predicate(where)
    named = set(columns_of(tree))
    shown = [[_known(axis, place) if axis.name in named else {} for place in range(axis.size)] for axis in axes]
    groups = zip(places, itertools.product(*shown), strict=True)
    return [place for place, parts in groups if _outcomes(tree, {k: v for part in parts for k, v in part.items()})[0]]


def _known(axis: Axis, place: int) -> dict[str, Value | _Band]:
    """Return what is known of a column in one of its groups."""
    if place == axis.other or (axis.missing and place == axis.size - 1):
        return {}
    if not axis.numeric:
        return {axis.name: axis.marks[place]}
    ends = (float("-inf"), *axis.marks[1:-1], float("inf"))  # what lies beyond the ends is in the first and the last
    return {axis.name: (ends[place], ends[place + 1])}


def _outcomes(condition: Condition, known: _Known) -> _Outcomes:
    match condition:
        case And(parts):
            result = [_outcomes(part, known) for part in parts]
            return all(hold for hold, _ in result), any(fail for _, fail in result)
        case Or(parts):
            return _opposite(_outcomes(And(tuple(Not(part) for part in parts)), known))
        case Not(part):
            return _opposite(_outcomes(part, known))
    names = [side.name for side in condition.sides if isinstance(side, ColumnTerm)]
    return _of_one(condition, known[names[0]]) if len(names) == 1 and names[0] in known else _EITHER


def _opposite(outcomes: _Outcomes) -> _Outcomes:
    hold, fail = outcomes
    return fail, hold


def _of_one(leaf: Leaf, known: Value | _Band) -> _Outcomes:
    """Return how a comparison of one column, of which something is known, may end; a known value is not missing."""
    match leaf:
        case IsMissing(_, negated):
            return negated, not negated
        case OneOf(_, values, negated):
            result = [_compared("=", known, value.value) for value in values]
            either = any(hold for hold, _ in result), all(fail for _, fail in result)
            return _opposite(either) if negated else either
        case Compare(sign, _, right):
            return _compared(sign, known, right.value) if isinstance(right, Literal) else _EITHER
        case ColumnTerm():
            return _compared("=", known, True)


def _compared(sign: str, known: Value | _Band, value: Value) -> _Outcomes:
    """Return how a value, or those of a band, may compare with one that is written; either way where that is unsure."""
    if sign == "!=":
        return _opposite(_compared("=", known, value))
    if isinstance(known, tuple):
        return _EITHER if isinstance(value, str | bool) or abs(value) >= _WHOLE else _banded(sign, *known, value)
    kinds = {str if isinstance(item, str) else bool if isinstance(item, bool) else float for item in (known, value)}
    if len(kinds) > 1 or (sign != "=" and kinds != {float}):
        return _EITHER
    holds = bool(SIGNS[sign](known, value))
    return holds, not holds


def _banded(sign: str, low: float, high: float, value: float) -> _Outcomes:
    return {
        "=": (low <= value < high, True),
        "<": (low < value, high > value),
        "<=": (low <= value, high > value),
        ">": (high > value, low <= value),
        ">=": (high > value, low < value),
    }[sign]
