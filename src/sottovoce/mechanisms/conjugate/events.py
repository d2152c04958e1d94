"""Events of a new record: a condition on ``x`` as the cells of the line, or the categories, where it holds."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.facts.condition_tree import ColumnTerm, Compare, Condition, IsMissing, Literal, Value


@dataclass(frozen=True)
class Cell:
    """One point of the line, or all that lies strictly between two."""

    low: float
    high: float

    @property
    def is_point(self) -> bool:
        """Whether it is a single point."""
        return self.low == self.high


def cells_in(event: Condition) -> list[Cell]:
    """Return the disjoint cells in which an event holds.

    The numbers written in an event cut the line into points and the open stretches between them; within each, the
    event is the same throughout, so one look decides.

    >>> from sottovoce.records.facts.condition_parser import parse_predicate
    >>> cells_in(parse_predicate("x >= 2 and not x > 5"))
    [Cell(low=2.0, high=2.0), Cell(low=2.0, high=5.0), Cell(low=5.0, high=5.0)]
    """
    cuts = sorted({float(value) for value in _constants(event, text=False)})
    ends = [-float("inf"), *cuts, float("inf")]
    cells = [Cell(low, high) for low, high in itertools.pairwise(ends)]
    cells += [Cell(cut, cut) for cut in cuts]
    return [cell for cell in sorted(cells, key=lambda c: (c.low, c.high)) if event.holds(_inside(cell))]


def categories_in(event: Condition, categories: tuple[object, ...]) -> list[int]:
    """Return the positions of the categories for which an event holds.

    >>> from sottovoce.records.facts.condition_parser import parse_predicate
    >>> categories_in(parse_predicate("x in ('N', 'S')"), ("E", "N", "S"))
    [1, 2]
    """
    known = set(categories)
    for value in _constants(event, text=True):
        if value not in known:
            raise InvalidValue(f"x is one of {', '.join(map(repr, categories))}. Got {value!r}")
    return [index for index, category in enumerate(categories) if event.holds(category)]


def _inside(cell: Cell) -> float:
    if cell.is_point:
        return cell.low
    if cell.low == -float("inf"):
        return 0.0 if cell.high == float("inf") else cell.high - max(1.0, abs(cell.high))
    return cell.low + (max(1.0, abs(cell.low)) if cell.high == float("inf") else (cell.high - cell.low) / 2)


def _constants(event: Condition, *, text: bool) -> list[Value]:
    """Return every value an event compares x with; refuse what is no event of x."""
    result = []
    for leaf in event.leaves():
        columns = [side.name for side in leaf.sides if isinstance(side, ColumnTerm)]
        if isinstance(leaf, IsMissing):
            raise InvalidValue("a new record is never missing; an event compares x with values")
        for name in columns:
            if name.lower() != "x":
                raise InvalidValue(f"an event is about x, the new record. Got {name!r}")
        if isinstance(leaf, ColumnTerm):
            raise InvalidValue("x alone is no event; write one such as x = 1")
        if isinstance(leaf, Compare) and text and not leaf.equates:
            said = "categories have no order; compare x with = or !=, or say x in (...)"
            raise InvalidValue(f"{said}. Got {leaf.sign!r}")
        if len(columns) != 1:
            raise InvalidValue("an event compares x with a value")
        result += [_check_value(side.value, text=text) for side in leaf.sides if isinstance(side, Literal)]
    return result


def _check_value(value: Value, *, text: bool) -> Value:
    if not text and isinstance(value, str):
        raise InvalidValue(f"x is a number here; compare it with numbers. Got {value!r}")
    return value
