"""Public cells: how columns are cut so that every record falls into one of a public list of boxes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import mapping, restoring
from sottovoce.privacy.numbers import Floats
from sottovoce.records.facts.columns import Category, Column, Count, Flag, Number
from sottovoce.records.facts.facts import Facts

_MOST = 4096
"""The most cells of one column."""
_RULES = ("out", "cell")
_MISSING = "missing"
"""Said among the cuts where missing values are cells of their own."""


@dataclass(frozen=True)
class Axis:
    """One column, cut.

    Attributes
    ----------
    name, numeric
        The column, and whether it holds numbers.
    marks
        Categories; of numbers the edges, first and last among them, which may be infinite.
    labels
        What each cell is called, that of missing values among them.
    other
        The place of the cell that a missing or unknown value is in; -1 where it is in none.
    """

    name: str
    numeric: bool
    marks: tuple[Any, ...]
    labels: tuple[Hashable, ...]
    other: int

    @property
    def size(self) -> int:
        """How many cells the column is cut into."""
        return len(self.labels)

    @property
    def missing(self) -> bool:
        """Whether missing values have a cell of their own, the last."""
        return self.size > (len(self.marks) - 1 if self.numeric else len(self.marks))


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of one or several columns: every combination of the parts into which each is cut, the last fastest.

    Parameters
    ----------
    facts
        What is public of the columns.
    cuts
        For each column how it is cut. A number of cells: a `Number` is cut evenly between its bounds; a `Count` value
        by value, with the last cell open. Or edges, rising: a cell runs from one to just below the next, and values
        beyond the ends are in the first and last cell; an infinite last edge says so (a time that is censored
        there). Categories and flags take ``...`` for all values, or a list of some; the others count as missing.
    missing
        ``"out"``: a record with a missing value is in no cell, so that the question is about the others alone.
        ``"cell"``: missing values of a column are a cell of their own. Where the facts say what a missing value counts
        as, that is its cell.

    Examples
    --------
    >>> facts = Facts(age=Number(0, 110), ward=Category(["A", "B"]), visits=Count(20))
    >>> cells = Cells(facts, {"age": 11, "ward": ...})
    >>> cells.shape, cells.size, cells.edges("age")[:3].tolist(), cells.labels[1]
    ((11, 2), 22, [0.0, 10.0, 20.0], ('0 to 10', 'B'))
    >>> Cells(facts, {"visits": 4}).axes[0].labels
    (0, 1, 2, '3 or more')
    >>> Cells(facts, {"age": [0, 18, 65, float("inf")]}, missing="cell").axes[0].labels
    ('0 to 18', '18 to 65', '65 or more', 'missing')
    """

    facts: Facts
    cuts: Mapping[str, Any]
    missing: str = "out"

    def __post_init__(self) -> None:
        if not isinstance(self.facts, Facts):
            raise InvalidValue(f"cells are cut by public facts: Cells(facts, ...). Got a {type(self.facts).__name__}")
        if not isinstance(self.cuts, Mapping) or not self.cuts:
            raise InvalidValue("say how each column is cut, such as {'age': 12, 'ward': ...}")
        if self.missing not in _RULES:
            raise InvalidValue(f"missing must be 'out' or 'cell'. Got {self.missing!r}")
        object.__setattr__(self, "facts", Facts({name: self.facts[name] for name in self.cuts}))
        object.__setattr__(self, "cuts", dict(self.cuts))
        if self.size < 2 or self.size > 2**20:
            raise InvalidValue(f"there must be from 2 to 2**20 cells. Got {self.size}")

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """Every column, cut."""
        return tuple(_axis(name, self.facts[name], cut, self.missing) for name, cut in self.cuts.items())

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(axis.name for axis in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many cells each column is cut into."""
        return tuple(axis.size for axis in self.axes)

    @property
    def size(self) -> int:
        """How many cells there are."""
        return math.prod(self.shape)

    @property
    def labels(self) -> list[tuple[Hashable, ...]]:
        """What every cell is called, a part a column."""
        return list(itertools.product(*(axis.labels for axis in self.axes)))

    @property
    def everyone(self) -> bool:
        """Whether every record, whatever it holds, is in a cell."""
        return all(axis.other >= 0 for axis in self.axes)

    def axis(self, name: str) -> Axis:
        """Return a column, cut."""
        for axis in self.axes:
            if axis.name == name:
                return axis
        raise InvalidValue(f"no cells of {name!r}; there are those of {', '.join(self.names)}")

    def edges(self, name: str) -> Floats:
        """Return the edges of the cells of a column of numbers, first and last among them."""
        axis = self.axis(name)
        if not axis.numeric:
            raise InvalidValue(f"{name!r} is cut into categories, which have no edges")
        return np.array(axis.marks, dtype=np.float64)

    @property
    def text(self) -> str:
        """How columns of numbers are cut, and whether missing values have cells, as `parse` reads it."""
        if any(
            axis.marks != _axis(axis.name, self.facts[axis.name], ..., "out").marks
            for axis in self.axes
            if not axis.numeric
        ):
            raise InvalidValue("in words cells are all values of a category")
        parts = [f"{a.name}={','.join(f'{mark:.17g}' for mark in a.marks)}" for a in self.axes if a.numeric]
        return "; ".join([*parts, *([_MISSING] if self.missing == "cell" else [])])

    @classmethod
    def parse(cls, facts: Facts, columns: Sequence[str], text: str, missing: str = "out") -> Self:
        """Return the cells of columns of which a text says how some are cut; the others are categories, taken whole.

        >>> facts = Facts(age=Number(0, 110), ward=Category(["A", "B"]), days=Number(0, 365))
        >>> Cells.parse(facts, ["age", "ward", "days"], "age=11; days=0,7,30,inf").shape
        (11, 2, 3)
        >>> Cells.parse(facts, ["ward"], "missing").labels  # these have cells of their own
        [('A',), ('B',), ('missing',)]
        """
        said: dict[str, object] = {}
        for part in filter(None, (item.strip() for item in text.split(";"))):
            if part == _MISSING:
                missing = "cell"
                continue
            name, _, parts = part.rpartition("=")
            if name not in columns or name in said:
                raise InvalidValue(f"a cut names a column that is asked about, once, such as age=12. Got {part[:80]!r}")
            try:
                said[name] = [float(item) for item in parts.split(",")] if "," in parts else int(parts)
            except ValueError:
                raise InvalidValue(
                    f"a column is cut into a number of cells, or at edges, such as days=0,7,30,inf. Got {part[:80]!r}"
                ) from None
        return cls(facts, {name: said.get(name, ...) for name in columns}, missing)

    def to_dict(self) -> dict[str, object]:
        """Return the cells as plain values; `from_dict` reads them back."""
        cuts = {axis.name: [_ended(mark) for mark in axis.marks] for axis in self.axes}
        # In order, for JSON that is written to be the same again sorts its keys.
        return {"facts": self.facts.to_dict(), "names": list(self.names), "cuts": cuts, "missing": self.missing}

    @classmethod
    def from_dict(cls, state: Mapping[str, object]) -> Self:
        """Read cells from `to_dict`'s form."""
        state = mapping("table of cells", state)
        with restoring("a table of cells"):
            facts = Facts.from_dict(state["facts"])
            cuts = {name: _opened(state["cuts"][name]) for name in state.get("names", state["cuts"])}
            return cls(facts, cuts, state["missing"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cells) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]


def _axis(name: str, column: Column, cut: object, missing: str) -> Axis:
    if isinstance(column, Number | Count):
        marks = _edges(name, column, cut)
        labels = tuple(_label(low, high, isinstance(column, Count)) for low, high in itertools.pairwise(marks))
        filler = None if column.missing is None else int(np.searchsorted(marks[1:-1], column.missing, side="right"))
    elif isinstance(column, Category | Flag):
        marks = _categories(name, column, cut)
        labels = marks
        filler = None if column.missing is None else marks.index(column.missing)
    else:
        raise InvalidValue(
            f"{name!r} is a {column.word}, which cannot be cut; give its facts as a number or a category"
        )
    if filler is None and missing == "cell":
        return Axis(name, isinstance(column, Number | Count), marks, (*labels, _named(labels)), len(labels))
    return Axis(name, isinstance(column, Number | Count), marks, labels, -1 if filler is None else filler)


def _named(labels: Sequence[Hashable]) -> str:
    """Return a name for the cell of missing values that no other cell has."""
    name = "missing"
    while name in labels:
        name = f"({name})"
    return name


def _categories(name: str, column: Category | Flag, cut: object) -> tuple[Any, ...]:
    known: tuple[object, ...] = (False, True) if isinstance(column, Flag) else column.categories
    if cut is ... or cut is None:
        return known
    if isinstance(cut, str | bytes) or not isinstance(cut, Sequence) or not cut:
        raise InvalidValue(f"{name!r} is cut into its categories: say ... for all, or a list of some. Got {cut!r}")
    chosen = tuple(cut)
    if len(set(chosen)) < len(chosen) or any(value not in known for value in chosen):
        raise InvalidValue(f"the cells of {name!r} must be different categories that its facts name")
    if column.missing is not None and len(chosen) < len(known):
        raise InvalidValue(f"a missing {name!r} counts as one of its categories, so all of them are cells; say ...")
    return chosen


def _edges(name: str, column: Number | Count, cut: object) -> tuple[float, ...]:
    low, high = column.bounds
    if isinstance(cut, bool) or cut is ... or cut is None:
        raise InvalidValue(f"{name!r} holds numbers: say into how many cells it is cut, or the edges between them")
    if isinstance(cut, int | np.integer):
        if not 1 <= cut <= _MOST:
            raise InvalidValue(f"{name!r} is cut into 1 to {_MOST} cells. Got {cut}")
        if isinstance(column, Number):
            return tuple(np.linspace(low, high, int(cut) + 1).tolist())
        if cut > column.high + 1:
            raise InvalidValue(f"{name!r} has {column.high + 1} values, so it has no more cells. Got {cut}")
        return (*map(float, range(int(cut))), high + 1 if cut == high + 1 else math.inf)
    try:
        edges = np.array(cut, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidValue(f"the edges of {name!r} are rising numbers. Got {cut!r}") from None
    if edges.ndim != 1 or not 2 <= edges.size <= _MOST + 1 or not np.all(np.diff(edges) > 0):
        raise InvalidValue(f"the edges of {name!r} are two or more rising numbers")
    inner = edges[1:-1]
    if np.any((inner <= low) | (inner > high)) or not np.all(np.isfinite(inner)):
        raise InvalidValue(f"the inner edges of {name!r} lie between its bounds, {low:g} and {high:g}")
    if isinstance(column, Count) and not np.array_equal(inner, np.rint(inner)):
        raise InvalidValue(f"{name!r} holds whole numbers, and so do its edges")
    return tuple(edges.tolist())


def _label(low: float, high: float, whole: bool) -> Hashable:
    if high == math.inf:
        return f"{low:g} or more"
    if low == -math.inf:
        return f"below {high:g}"
    if whole:
        return int(low) if high - low == 1 else f"{low:g} to {high - 1:g}"
    return f"{low:g} to {high:g}"


def _ended(mark: object) -> Any:
    """Return an edge for JSON, which has no infinities."""
    return None if isinstance(mark, float) and math.isinf(mark) else mark


def _opened(marks: Sequence[object]) -> list[Any]:
    ends = {0: -math.inf, len(marks) - 1: math.inf}
    return [ends.get(place, mark) if mark is None else mark for place, mark in enumerate(marks)]
