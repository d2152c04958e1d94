"""Count tables: which columns are crossed with which, and what is left of them through noise.

They are all that a Gibbs sampler needs of the records; everything after noisy ones is post-processing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.inference.latent.count_forecast import forecast_proportions
from sottovoce.inference.latent.fields import ChainGrid, Field, field_from
from sottovoce.mechanisms.conjugate.distributions import Dirichlet
from sottovoce.mechanisms.forecast import Forecast, mean_width
from sottovoce.mechanisms.integer_noise import IntegerNoise, NoiseKind
from sottovoce.mechanisms.noisy_statistics import NoisyStatistics
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.json_values import mapping, restoring
from sottovoce.privacy.numbers import Floats, Integers, as_floats
from sottovoce.privacy.promises import Promise
from sottovoce.records.facts import Facts
from sottovoce.records.readings import CrossCounts, Statistics
from sottovoce.records.readings.base import checked_n
from sottovoce.records.readings.grid import exact_sum


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
    mechanisms: ClassVar[tuple[str, ...]] = ("noisy statistics",)
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
    def block_names(self) -> list[str]:
        """What each table goes by: its last field, or all of them where two tables end alike."""
        last = [table[-1] for table in self.tables]
        return last if len(set(last)) == len(last) else [" × ".join(table) for table in self.tables]

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

    def statistics(self, records: object) -> Statistics:
        """Return n and the counts of records in memory: a mapping of columns, a frame, or a list of columns.

        A value outside its list counts as its field says; a record with one that counts as nothing is left out of every
        table, as in a database.
        """
        return self.reading.read(columns_by_name(records, self.columns))

    def through_blocks(
        self, n: int, total: Floats, noises: Sequence[IntegerNoise], rng: np.random.Generator
    ) -> NoisyTables:
        """Return noisy counts as they are, with the law of their noise."""
        del rng
        parts = np.split(np.rint(total).astype(np.int64), np.cumsum(self.sizes)[:-1])
        return NoisyTables(self, n, tuple(p.reshape(s) for p, s in zip(parts, self.shapes, strict=True)), tuple(noises))

    def forecast_blocks(self, n: int, mean: Any, noises: Sequence[IntegerNoise], level: float) -> Forecast:
        """Return what to expect if the cells of each table had these proportions; reads no private data.

        What is forecast is the posterior of each table's proportions that knows of the noise (prior: one record, shared
        by all cells): its divergence from the posterior without privacy, summed over tables, and the width of its
        intervals. The mean is the proportions of all cells, table after table; each table's sum to one.
        """
        proportions = np.split(np.atleast_1d(as_floats("mean", mean, 0.0)), np.cumsum(self.sizes)[:-1])
        if not 0 < level < 1:
            raise InvalidValue(f"level must lie between 0 and 1. Got {level!r}")
        for part, size in zip(proportions, self.sizes, strict=True):
            if part.size != size or abs(part.sum() - 1) > 1e-9:
                raise InvalidValue(f"mean must be {self.sizes} proportions, each table's summing to one")
        result = [forecast_proportions(p, n, noise, level) for p, noise in zip(proportions, noises, strict=True)]
        exact = [mean_width(Dirichlet(n * part + 1 / part.size).interval(level)) for part in proportions]
        divergence, widths = zip(*result, strict=True)
        return Forecast(float(sum(divergence)), float(np.mean(widths)), float(np.mean(exact)), level)

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

    def to_dict(self) -> dict[str, object]:
        """Return the public description."""
        return {
            "system": self.word,
            "fields": [f.to_dict() for f in self.fields],
            "tables": [list(table) for table in self.tables],
        }

    @classmethod
    def from_facts(cls, settings: Mapping[str, object], facts: Facts, column: str | None = None) -> Self:
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
    def from_dict(cls, state: Mapping[str, object]) -> Self:
        """Read count tables from `to_dict`'s form."""
        state = mapping("system of count tables", state)
        with restoring("count tables"):
            fields = tuple(map(field_from, state["fields"]))
            return cls(fields, tuple(tuple(table) for table in state["tables"]))


@dataclass(frozen=True, eq=False)
class NoisyTables:
    """Noised tables with the law of their noise. Use them as often as you like: no further cost.

    Attributes
    ----------
    tables
        What was counted.
    n
        How many records there were.
    counts
        One array a table, whole numbers, some of them below zero.
    noises
        The noise on each table.
    """

    tables: CountTables
    n: int
    counts: tuple[Integers, ...]
    noises: tuple[IntegerNoise, ...]

    def __post_init__(self) -> None:
        counts = tuple(np.asarray(c, dtype=np.int64) for c in self.counts)
        object.__setattr__(self, "counts", counts)
        if tuple(c.shape for c in counts) != self.tables.shapes or len(self.noises) != len(counts):
            raise InvalidData("every table needs one array of its shape, and its noise")

    def table(self, name: str) -> Integers:
        """Return the table whose last field is `name`."""
        for crossed, counts in zip(self.tables.tables, self.counts, strict=True):
            if crossed[-1] == name:
                return counts
        raise InvalidValue(f"no table ends in {name!r}; they end in {', '.join(t[-1] for t in self.tables.tables)}")

    @property
    def clipped(self) -> tuple[Integers, ...]:
        """The counts with what fell below zero set to 0."""
        return tuple(np.maximum(c, 0) for c in self.counts)

    def summary(self) -> dict[str, str]:
        """Return each table in a few words."""
        named = zip(self.tables.tables, self.counts, self.noises, strict=True)
        return {" × ".join(t): f"{c.size} cells, {x.kind} noise of scale {x.scale:.4g}" for t, c, x in named}

    def to_dict(self) -> dict[str, object]:
        """Return the tables as plain values; `from_dict` reads them back."""
        return {
            "value": "noisy tables",
            "tables": self.tables.to_dict(),
            "n": self.n,
            "counts": [c.ravel().tolist() for c in self.counts],
            "noises": [{"kind": noise.kind, "scale": noise.scale} for noise in self.noises],
        }

    @staticmethod
    def from_dict(state: Mapping[str, Any]) -> NoisyTables:
        """Read tables from `to_dict`'s form."""
        with restoring("noisy tables"):
            tables = CountTables.from_dict(state["tables"])
            counts = tuple(np.reshape(c, s) for c, s in zip(state["counts"], tables.shapes, strict=True))
            noises = tuple(IntegerNoise(noise["kind"], noise["scale"]) for noise in state["noises"])
            return NoisyTables(tables, int(state["n"]), counts, noises)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoisyTables) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]


class OverTables(ABC):
    """What a model has that needs count tables and no more of the records."""

    parameter: ClassVar[str]
    foretold: ClassVar[str] = "the shares of the cells that the model is fitted to, not of what it finds in them"

    @property
    @abstractmethod
    def tables(self) -> CountTables:
        """What is counted."""

    @property
    def columns(self) -> list[str]:
        """The columns to read, in order."""
        return self.tables.columns

    @property
    def block_names(self) -> list[str]:
        """What each table goes by: its last field."""
        return self.tables.block_names

    @property
    def reading(self) -> CrossCounts:
        """How a record becomes S(x): public lists, so that a database can count by itself."""
        return self.tables.reading

    def statistics(self, records: object) -> Statistics:
        """Return n and the counts of records in memory."""
        return self.tables.statistics(records)

    def forecast_blocks(self, n: int, mean: object, noises: Sequence[IntegerNoise], level: float) -> Forecast:
        """Return what to expect of the tables that the model is fitted to; see `CountTables.forecast_blocks`."""
        return self.tables.forecast_blocks(n, mean, noises, level)

    def noisy_counts(
        self,
        n: int,
        target: Promise,
        noise: NoiseKind | None = None,
        shares: Mapping[str, float] | Sequence[float] | None = None,
    ) -> NoisyStatistics:
        """Return the mechanism that noises every table once and releases the tables.

        Fit what it releases as often as you like. (`NoisyStatistics` of the model itself releases one such fit.) See
        `NoisyStatistics.calibrate`; shares go by the name of a table's last field.
        """
        return NoisyStatistics.calibrate(self.tables, n, target, noise, shares)


def columns_by_name(records: Any, wanted: Sequence[str]) -> list[object]:
    """Return the wanted columns of a frame, a mapping, or a list of just these columns in order."""
    names = records if isinstance(records, Mapping) else getattr(records, "column_names", None)
    names = getattr(records, "columns", None) if names is None else names
    if names is not None:
        known = set(names)
        missing = [name for name in wanted if name not in known]
        if missing:
            raise InvalidData(f"the records have no column {missing[0]!r}; they need {', '.join(wanted)}")
        return [records[name] for name in wanted]
    if isinstance(records, list | tuple) and len(records) == len(wanted):
        return list(records)
    raise InvalidData(f"give the records as a frame or a mapping with the columns {', '.join(wanted)}")
