"""The columns of a table cut into parts so fine that everything that was released of it is about some of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import mapping, restoring
from sottovoce.privacy.numbers import Floats, shown
from sottovoce.records.facts import Category, Count, Facts, Flag, Number
from sottovoce.records.facts.cells import Axis

__all__ = ["CUT", "ColumnParts", "TableColumns"]

Within = Callable[[Floats, Floats, Floats], Floats]
"""Values between two ends, at chances between 0 and 1."""
CUT = (Category, Flag, Number, Count)
"""The kinds of columns that are cut into parts."""


@dataclass(frozen=True)
class ColumnParts:
    """One column, cut: its categories, or numbers from one edge to just below the next; what is missing comes last.

    Attributes
    ----------
    name
        The column.
    values
        Its categories; none for numbers.
    edges
        The inner edges between its parts, of numbers; those beyond the ends are in the first and the last.
    bounds
        The public bounds, of numbers.
    counts
        Whether they are whole.
    missing
        Whether missing values have a part of their own: where the facts do not say what they count as.
    filler
        Otherwise the part that they are in.
    """

    name: str
    values: tuple[Any, ...]
    edges: tuple[float, ...]
    bounds: tuple[float, float] | None
    counts: bool
    missing: bool
    filler: int = -1

    @property
    def size(self) -> int:
        """How many parts there are."""
        return (len(self.values) or len(self.edges) + 1) + self.missing

    @property
    def ends(self) -> list[tuple[float, float]]:
        """The least and the largest number of each part, but that of missing values."""
        highs = [edge - 1 if self.counts else math.nextafter(edge, -math.inf) for edge in self.edges]
        return list(zip((-math.inf, *self.edges), (*highs, math.inf), strict=True))

    @property
    def labels(self) -> list[str]:
        """What each part is called."""
        if self.values:
            names = [shown(value).strip("'") for value in self.values]
        else:
            assert self.bounds is not None
            marks = [f"{mark:g}" for mark in (self.bounds[0], *self.edges, self.bounds[1])]
            names = [f"{low} to {high}" for low, high in itertools.pairwise(marks)]
        return [*names, "missing"] if self.missing else names

    def places(self, axis: Axis) -> NDArray[np.int64]:
        """Return for each part the place of an axis of the same column that it lies in, -1 for none."""
        if self.values:
            known = {value: place for place, value in enumerate(axis.marks)}
            inside = [known.get(value, axis.other) for value in self.values]
        else:
            inner = np.array(axis.marks[1:-1], dtype=np.float64)
            if not set(inner.tolist()) <= set(self.edges):
                raise InvalidValue(f"{self.name!r} was cut otherwise")
            inside = np.searchsorted(inner, [-math.inf, *self.edges], side="right").tolist()
        return np.array([*inside, *([axis.other] if self.missing else [])], dtype=np.int64)

    def drawn(self, codes: NDArray[np.int64], rng: np.random.Generator, within: Within | None = None) -> Any:
        """Return values of parts, None where they are missing; numbers as `within` says, or evenly within theirs."""
        if self.values:
            return np.array([*self.values, *([None] if self.missing else [])], dtype=object)[codes]
        assert self.bounds is not None
        low = np.clip([low for low, _ in self.ends], *self.bounds)
        high = np.clip([high for _, high in self.ends], *self.bounds)
        inside = np.minimum(codes, len(low) - 1)
        if within is not None:
            ends = [*self.edges, self.bounds[1] + self.counts]
            step = 0.5 * self.counts  # of whole numbers, edges are halfway between two
            starts = np.array([self.bounds[0], *self.edges])
            numbers: Any = within(starts[inside] - step, np.array(ends)[inside] - step, rng.random(codes.size))
            numbers = np.clip(np.rint(numbers) if self.counts else numbers, low[inside], high[inside])
        elif self.counts:
            numbers = rng.integers(np.ceil(low)[inside], np.floor(high)[inside], endpoint=True).astype(np.float64)
        else:
            numbers = rng.uniform(low[inside], high[inside])
        return np.where(codes == len(low), np.nan, numbers) if self.missing else numbers


@dataclass(frozen=True, eq=False)
class TableColumns:
    """The columns of some facts that can be cut, and the edges between the parts of those that hold numbers.

    Examples
    --------
    >>> facts = Facts(age=Number(0, 110, missing=0), ward=Category(["A", "B"]))
    >>> columns = TableColumns(facts, {"age": (18.0, 65.0)})
    >>> columns.sizes, columns.parts["age"].ends[1][0]
    ({'age': 3, 'ward': 3}, 18.0)
    """

    facts: Facts
    edges: Mapping[str, Sequence[float]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", {name: tuple(sorted(set(map(float, e)))) for name, e in self.edges.items()})

    @cached_property
    def parts(self) -> dict[str, ColumnParts]:
        """Every column, cut."""
        result = {}
        for name, column in self.facts.items():
            if not isinstance(column, CUT):
                continue
            values: tuple[Any, ...] = ()
            if not isinstance(column, Number | Count):
                values = (False, True) if isinstance(column, Flag) else column.categories
            edges = () if values else tuple(self.edges.get(name, ()))
            bounds = None if values else column.bounds  # type: ignore[union-attr]
            whole_numbers, missing = isinstance(column, Count), column.missing is None
            filler = -1
            if not missing:
                at: Any = column.missing
                known = values.index(at) if values else np.searchsorted(edges, at, side="right")
                filler = int(known)
            result[name] = ColumnParts(name, values, edges, bounds, whole_numbers, missing, filler)
        return result

    @property
    def sizes(self) -> dict[str, int]:
        """How many parts each column has."""
        return {name: parts.size for name, parts in self.parts.items()}

    def shape(self, clique: Sequence[str]) -> tuple[int, ...]:
        """Return how many parts each column of a clique has."""
        return tuple(self.parts[name].size for name in clique)

    @classmethod
    def even(cls, facts: Facts, bins: int) -> Self:
        """Return columns of which numbers are cut evenly between their bounds; counts value by value if they are few.

        >>> TableColumns.even(Facts(age=Number(0, 100), visits=Count(3)), 4).edges
        {'age': (25.0, 50.0, 75.0), 'visits': (1.0, 2.0, 3.0)}
        """
        edges: dict[str, Sequence[float]] = {}
        for name, column in facts.items():
            if isinstance(column, Count):
                steps = min(bins, column.high + 1)
                edges[name] = sorted({float(-(-k * (column.high + 1) // steps)) for k in range(1, steps)})
            elif isinstance(column, Number):
                edges[name] = np.linspace(column.low, column.high, bins + 1)[1:-1].tolist()
        return cls(facts, edges)

    def with_edges(self, more: Mapping[str, Sequence[float]]) -> TableColumns:
        """Return the columns with more edges."""
        names = {*self.edges, *more}
        return TableColumns(self.facts, {name: (*self.edges.get(name, ()), *more.get(name, ())) for name in names})

    def widths(self, name: str) -> Floats:
        """Return how wide the parts of a column of numbers are, within its bounds."""
        parts = self.parts[name]
        assert parts.bounds is not None
        return np.diff([parts.bounds[0], *parts.edges, parts.bounds[1]])

    def to_dict(self) -> dict[str, Any]:
        """Return the columns as plain values; `from_dict` reads them back."""
        edges = {name: list(edges) for name, edges in self.edges.items()}
        return {"facts": self.facts.to_dict(), "names": list(self.facts), "edges": edges}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Read columns from `to_dict`'s form."""
        state = mapping("columns of a table", state)
        with restoring("columns of a table"):
            facts = Facts.from_dict(state["facts"])
            return cls(Facts({name: facts[name] for name in state["names"]}), state["edges"])
