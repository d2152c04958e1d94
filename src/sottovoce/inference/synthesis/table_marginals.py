"""What is counted of a table for synthetic ones: margins of its columns, cut into public parts; and their release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.inference.synthesis.counted_cells import CountedCells
from sottovoce.inference.synthesis.table_columns import ColumnParts, TableColumns
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.json_values import mapping, restoring
from sottovoce.records.facts.cells import Axis
from sottovoce.records.readings import CellCounts, Statistics

__all__ = ["NoisyMarginals", "TableMarginals"]


@dataclass(frozen=True, eq=False)
class TableMarginals:
    """The margins of a table over columns that are cut into public parts: a system of `MarginalChoice`.

    Examples
    --------
    >>> from sottovoce.records.facts import Facts, Flag, Number
    >>> system = TableMarginals(TableColumns.even(Facts(age=Number(0, 100), ill=Flag()), 4))
    >>> system.reading_of(("ill",)).shape, system.reading_of(("age", "ill")).shape
    ((1, 3), (5, 3))
    """

    word: ClassVar[str] = "table marginals"
    parameter: ClassVar[str] = "marginals"
    mechanisms: ClassVar[tuple[str, ...]] = ("marginal choice",)
    table: TableColumns

    def __post_init__(self) -> None:
        if len(self.table.parts) < 2:
            raise InvalidValue("relations are of two columns or more")
        if set(self.table.parts) != set(self.table.facts):
            other = next(name for name in self.table.facts if name not in self.table.parts)
            raise InvalidValue(f"{other!r} is a {self.table.facts[other].word}, which is not cut; leave it out")

    @property
    def columns(self) -> list[str]:
        """The columns to read, in order."""
        return list(self.table.parts)

    @property
    def reading(self) -> CellCounts:
        """What is seen first: the cells of the first column."""
        return self.reading_of(self.columns[:1])

    def reading_of(self, clique: Sequence[str]) -> CellCounts:
        """Return the reading of the margin over a clique: every other column has one cell, which holds all."""
        cuts = [_cut(parts) if name in clique else _joined(parts) for name, parts in self.table.parts.items()]
        numeric, marks, others = zip(*cuts, strict=True)
        return CellCounts(tuple(numeric), tuple(marks), tuple(others))

    def statistics(self, records: Any) -> Statistics:
        """Return what is seen of records in memory first."""
        return self.reading.read([records[name] for name in self.columns])

    def to_dict(self) -> dict[str, Any]:
        """Return the public description."""
        return {"system": self.word, "table": self.table.to_dict()}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Read the system from `to_dict`'s form."""
        return cls(TableColumns.from_dict(mapping("table marginals", state)["table"]))


def _cut(parts: ColumnParts) -> tuple[bool, tuple[Any, ...], int]:
    marks: tuple[Any, ...] = parts.values or parts.edges
    return not parts.values, marks, parts.size - 1 if parts.missing else parts.filler


def _joined(parts: ColumnParts) -> tuple[bool, tuple[Any, ...], int]:
    return (False, parts.values[:1], 0) if parts.values else (True, (), 0)


@dataclass(frozen=True, eq=False)
class NoisyMarginals:
    """Noisy margins of a table, as they were chosen and released.

    Attributes
    ----------
    table
        The columns, cut.
    n
        How many records there were.
    cliques, counts, scales
        The columns of each margin, its noisy counts, and the scale of its discrete Gaussian noise.
    """

    table: TableColumns
    n: int
    cliques: tuple[tuple[str, ...], ...]
    counts: tuple[Any, ...]
    scales: tuple[float, ...]

    def __post_init__(self) -> None:
        sizes = [int(np.prod(self.table.shape(clique))) for clique in self.cliques]
        if [len(part) for part in self.counts] != sizes or len(self.scales) != len(sizes):
            raise InvalidData("every margin has a noisy count a cell, and the scale of its noise")

    def counted(self) -> Iterator[tuple[CountedCells, Any, float]]:
        """Yield what each margin counts, its noisy counts and the variance of their noise."""
        for clique, counts, scale in zip(self.cliques, self.counts, self.scales, strict=True):
            axes = tuple(_axis(self.table.parts[name]) for name in clique)
            yield CountedCells(axes, None), np.asarray(counts, dtype=np.float64), scale**2

    def to_dict(self) -> dict[str, Any]:
        """Return the margins as plain values; `from_dict` reads them back."""
        counts = [np.asarray(part).tolist() for part in self.counts]
        state = {"value": "noisy marginals", "table": self.table.to_dict(), "n": self.n}
        return state | {"cliques": [list(c) for c in self.cliques], "counts": counts, "scales": list(self.scales)}

    @staticmethod
    def from_dict(state: Mapping[str, Any]) -> NoisyMarginals:
        """Read margins from `to_dict`'s form."""
        with restoring("noisy marginals"):
            cliques = tuple(tuple(clique) for clique in state["cliques"])
            counts = tuple(np.array(part, dtype=np.int64) for part in state["counts"])
            table = TableColumns.from_dict(state["table"])
            return NoisyMarginals(table, int(state["n"]), cliques, counts, tuple(map(float, state["scales"])))


def _axis(parts: ColumnParts) -> Axis:
    labels = tuple(map(str, range(parts.size)))
    marks: tuple[Any, ...] = parts.values or (-np.inf, *parts.edges, np.inf)
    return Axis(parts.name, not parts.values, marks, labels, parts.size - 1 if parts.missing else parts.filler)
