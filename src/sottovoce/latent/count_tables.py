"""Count tables: which columns are crossed with which. All that a Gibbs sampler needs of the records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.facts import Facts
from sottovoce.latent.fields import ChainGrid, Field
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.readings import CrossCounts, Statistics
from sottovoce.readings.base import checked_n
from sottovoce.readings.grid import exact_sum

__all__ = ["CountTables"]

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class CountTables:
    """Tables of counts over public lists of categories; every record adds one to each table.

    A hidden Markov model counts (chain, step, category) for each of its fields, naive Bayes (class, category), a
    Bayesian network (parents, node).

    Parameters
    ----------
    fields
        The columns.
    tables
        For each table the names of the fields it crosses; the last one runs fastest.

    Examples
    --------
    >>> day, kind = Field("day", (1, 2)), Field("kind", ("a", "b", "c"))
    >>> tables = CountTables((day, kind), (("day", "kind"),))
    >>> statistics = tables.statistics({"day": [1, 1, 2, 2], "kind": ["a", "c", "c", "c"]})
    >>> tables.arrays(statistics)[0]
    array([[1, 0, 1],
           [0, 0, 2]])
    """

    word: ClassVar[str] = "count tables"
    parameter: ClassVar[str] = "counts"
    mechanisms: ClassVar[tuple[str, ...]] = ("noisy counts",)
    fields: tuple[Field, ...]
    tables: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))
        object.__setattr__(self, "tables", tuple(tuple(table) for table in self.tables))
        names = self.columns
        if len(set(names)) < len(names):
            raise InvalidValue(f"fields must have different names. Got {', '.join(names)}")
        if not self.tables:
            raise InvalidValue("there is nothing to count; give at least one table")
        for table in self.tables:
            if not table or len(set(table)) < len(table) or not set(table) <= set(names):
                raise InvalidValue(f"a table crosses different fields of {', '.join(names)}. Got {table}")
        for table, shape in zip(self.tables, self.shapes, strict=True):
            if math.prod(shape) < 2:
                raise InvalidValue(f"the table {table} has a single cell, so there is nothing to count")

    @classmethod
    def over(cls, grid: ChainGrid, fields: Sequence[Field]) -> Self:
        """Return one table (chain, step, category) a field."""
        crossed = [f.name for f in grid.fields]
        return cls((*grid.fields, *fields), tuple((*crossed, f.name) for f in fields))

    @property
    def columns(self) -> list[str]:
        """The columns to read, in order: what ``Curator.release(..., column=...)`` takes."""
        return [f.name for f in self.fields]

    @property
    def reading(self) -> CrossCounts:
        """How a record becomes S(x): public lists, so that a database can count by itself."""
        position = {name: i for i, name in enumerate(self.columns)}
        return CrossCounts(
            tuple(f.categories for f in self.fields),
            tuple(tuple(position[name] for name in table) for table in self.tables),
            tuple(f.other_code for f in self.fields),
        )

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each table."""
        size = {f.name: f.size for f in self.fields}
        return tuple(tuple(size[name] for name in table) for table in self.tables)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of cells of each table."""
        return tuple(math.prod(shape) for shape in self.shapes)

    def statistics(self, records: Any) -> Statistics:
        """Return n and the counts of records in memory: a mapping of columns, a frame, or a list of columns.

        A value outside its list counts as its field says; a record with one that counts as nothing is left out of every
        table, as in a database.
        """
        columns = self._columns(records)
        codes = {f.name: f.codes(column) for f, column in zip(self.fields, columns, strict=True)}
        lengths = {len(code) for code in codes.values()}
        if len(lengths) != 1:
            raise InvalidData("every column must have one value a record; these have different lengths")
        inside = np.logical_and.reduce([code >= 0 for code in codes.values()])
        codes = {name: code[inside] for name, code in codes.items()}
        counts = [
            np.bincount(np.ravel_multi_index([codes[name] for name in table], shape), minlength=size)
            for table, shape, size in zip(self.tables, self.shapes, self.sizes, strict=True)
        ]
        return Statistics(inside.size, np.concatenate(counts).astype(np.float64))

    def _columns(self, records: Any) -> list[Any]:
        names = records if isinstance(records, Mapping) else getattr(records, "column_names", None)
        names = getattr(records, "columns", None) if names is None else names
        if names is not None:
            known = set(names)
            missing = [name for name in self.columns if name not in known]
            if missing:
                raise InvalidData(f"the records have no column {missing[0]!r}; they need {', '.join(self.columns)}")
            return [records[name] for name in self.columns]
        if isinstance(records, list | tuple) and len(records) == len(self.fields):
            return list(records)
        raise InvalidData(f"give the records as a frame or a mapping with the columns {', '.join(self.columns)}")

    def arrays(self, statistics: Statistics) -> tuple[Integers, ...]:
        """Return each table of some statistics as an array, or raise `InvalidData` if they are none of ours."""
        total = statistics.total
        if total.shape != (sum(self.sizes),):
            raise InvalidData(f"these statistics must have {sum(self.sizes)} cells. Got {total.size}")
        counts = np.rint(total).astype(np.int64) if np.all(np.abs(total) <= 2.0**53) else None
        parts = None if counts is None else np.split(counts, np.cumsum(self.sizes)[:-1])
        if counts is None or parts is None or not np.array_equal(counts, total) or counts.min() < 0:
            raise InvalidData("counts must be whole numbers >= 0")
        if max(exact_sum(part) for part in parts) > checked_n(statistics.n):
            raise InvalidData("a table counts more records than there are")
        return tuple(part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Return the public description."""
        return {
            "system": self.word,
            "fields": [f.to_dict() for f in self.fields],
            "tables": [list(table) for table in self.tables],
        }

    @classmethod
    def from_facts(cls, settings: Mapping[str, Any], facts: Facts, column: str | None = None) -> Self:
        """Return the tables of a question, ``tables`` by the names of their columns; categories are facts."""
        del column
        tables = settings.get("tables")
        if unknown := set(settings) - {"kind", "system", "tables"}:
            raise InvalidValue(f"{cls.word} take tables. Got {', '.join(sorted(unknown))}")
        if not (isinstance(tables, list) and tables and all(isinstance(t, list) for t in tables)):
            raise InvalidValue('tables must be a list of lists of columns, such as [["ward", "smoker"]]')
        if not all(isinstance(name, str) for table in tables for name in table):
            raise InvalidValue("a table is a list of columns by their names")
        names = dict.fromkeys(name for table in tables for name in table)
        return cls(tuple(Field.from_facts(name, facts[name]) for name in names), tuple(map(tuple, tables)))

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Read count tables from `to_dict`'s form."""
        try:
            fields = tuple(Field(f["name"], tuple(f["categories"]), f.get("other")) for f in state["fields"])
            return cls(fields, tuple(tuple(table) for table in state["tables"]))
        except (KeyError, TypeError) as error:
            raise InvalidValue(f"cannot read count tables: {error}") from None
