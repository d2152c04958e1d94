"""What a question reads of the records: groups, columns, bounds, and the cells that are counted or added up."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.inference.cells.groups import Groups
from sottovoce.inference.cells.quantile_search import ValueAxis
from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.facts import Category, Cells, Column, Count, Day, Facts, Flag, Number
from sottovoce.records.facts.column_names import quoted
from sottovoce.records.facts.excluded_groups import groups_kept
from sottovoce.records.readings import CellCounts, GroupMoments, PersonCells, PersonMoments, PersonRows, Statistics

VERBS = ("proportion", "mean", "total", "sd", "rate", "counts", "quantiles", "survival")
_BINS = (8, 128)
"""A distribution is cut into no fewer and no more bins."""
_UNKNOWN_BINS = 32
"""Into so many where nobody may know how many records there are."""


@dataclass(frozen=True, eq=False)
class QuestionReading:
    """The fields of a question, and the reading that follows from them; `Question` says what they are."""

    word: ClassVar[str] = "question"
    verbs: ClassVar[tuple[str, ...]] = tuple(verb for verb in VERBS if verb != "survival")
    """The verbs that this kind of question knows."""
    verb: str
    columns_asked: tuple[str, ...]
    facts: Facts
    by: tuple[str, ...] = ()
    where: str | None = None
    exposure: str | None = None
    at: tuple[float, ...] = ()
    bins: int = 0
    pool: bool | str = False
    prior: float = 1.5
    cells: Cells | None = None
    tails: str = "any"
    crossed: bool = True

    @cached_property
    def groups(self) -> Groups:
        """What the question is grouped by."""
        return Groups.named(self.by, self.facts)

    @cached_property
    def valued(self) -> Groups:
        """The groups, each with all values of the columns asked about in it."""
        return self.groups.and_values(self.columns_asked, self.facts)

    @property
    def grouped_facts(self) -> Facts:
        """The facts, with a column in bands as one of categories: what can be imagined of it."""
        return self.groups.within(self.facts)

    @property
    def columns(self) -> list[str]:
        """The columns to read, in the reading's order; whose a row is, last."""
        person = [self.facts.person] if self.reading.persons and self.facts.person else []
        return [*self.groups.names, *self._asked, *person]

    @property
    def _asked(self) -> list[str]:
        """The columns asked about, as they are read, and the exposure."""
        if self.first_day is not None:
            return [f"{quoted(self.columns_asked[0])} - '{self.first_day}'"]
        return [*self.columns_asked, *([self.exposure] if self.exposure else [])]

    @property
    def first_day(self) -> datetime.date | None:
        """The day from which days are counted, where quantiles of a column of days are asked; None of others."""
        column = self.facts[self.columns_asked[0]] if self.verb == "quantiles" else None
        return column.first if isinstance(column, Day) else None

    @property
    def value_column(self) -> Column:
        """What is public of the values asked about: of days, how many there are after the first."""
        column = self.facts[self.columns_asked[0]]
        if isinstance(column, Day) and self.first_day is not None:
            return Count((column.last - column.first).days)
        return column

    @property
    def rows(self) -> int:
        """How many rows a person may count with; 0 where a record is a person's average, or where nobody is told."""
        persons = self.facts.persons
        return 0 if persons is None or persons.rows is None else persons.rows

    @property
    def averaged(self) -> bool:
        """Whether a record is the average of a person's rows."""
        return self.facts.person is not None and not self.rows

    @property
    def partly_whole(self) -> bool:
        """Whether values are whole but where a person's average is not: of a person with one row it is."""
        return isinstance(self.value_column, Count) and self.averaged

    @property
    def whole(self) -> bool:
        """Whether records of the column are whole numbers; a person's average need not be."""
        return isinstance(self.value_column, Count) and not self.averaged

    @cached_property
    def reading(self) -> GroupMoments | CellCounts:
        """What is seen of the records: the cells, and in them counts and sums."""
        if self.cells is not None:
            return self._counted(Groups(self.cells.axes))
        if self.verb == "counts" and self.facts.person is not None:
            return self._counted(self.valued)
        if self.verb in ("proportion", "counts") and not self.shares_of_yes:
            return self._grouped(self.valued)
        if self.verb == "quantiles":
            column = self.value_column
            low, high = self._bounds(self.columns_asked[0])
            bins = self.bins or _BINS[0]
            if isinstance(column, Count) and column.high + 1 <= bins:  # a bin a value
                edges = tuple(k - 0.5 for k in range(column.high + 2))
            else:
                edges = tuple(np.linspace(low, high, bins + 1).tolist())
            return self.cut_at(edges)
        fillers = tuple(_filler(self.facts[name]) for name in self._asked)
        counted = bool(self.by) or self.where is not None or None in fillers
        measures = tuple(map(self._bounds, self._asked))
        return self._grouped(
            self.groups,
            measures=measures,
            fillers=fillers,
            squared=True,
            counted=counted,
            crossed=self.crossed and self.exposure is not None,
        )

    def cut_at(self, edges: Iterable[float]) -> GroupMoments:
        """Return the reading that counts, in every group, the records between public edges of the column."""
        filler = _filler(self.value_column)
        return self._grouped(self.groups, edges=tuple(edges), fillers=(filler,))

    def measured_between(self, low: float, high: float) -> GroupMoments:
        """Return the reading that adds up the column within a public window, and its squares; it has one cell."""
        filler = _filler(self.facts[self.columns_asked[0]])
        return self._grouped(self.groups, measures=((low, high),), fillers=(filler,), squared=True)

    @property
    def value_bounds(self) -> tuple[float, float]:
        """The public bounds of the column."""
        return self._bounds(self.columns_asked[0])

    @property
    def may_miss(self) -> bool:
        """Whether a record may have no value that counts: it is missing, or a condition leaves the record out."""
        return self.where is not None or _filler(self.facts[self.columns_asked[0]]) is None

    @property
    def value_axis(self) -> ValueAxis:
        """Where quantiles of the column may lie, and edges between them."""
        low, high = self._bounds(self.columns_asked[0])
        return ValueAxis.whole_numbers(int(high)) if self.whole else ValueAxis.between(low, high)

    def _grouped(self, groups: Groups, **rest: Any) -> GroupMoments:
        # Of a person with several categories one row counts: a share of each would be no record of a category.
        averaged = self.averaged and self.verb != "counts" and (self.verb != "proportion" or self._yes)
        return (PersonMoments if averaged else GroupMoments)(groups.kinds, groups.others, **rest)

    def _counted(self, groups: Groups) -> CellCounts:
        cut = groups.numeric, groups.marks, groups.others
        if self.rows:
            key = "" if self.facts.persons is None else self.facts.persons.key
            return PersonRows(*cut, self.rows, key)
        return (PersonCells if self.averaged else CellCounts)(*cut)

    @property
    def shares_of_yes(self) -> bool:
        """Whether a flag is averaged: a person is then a share of yes, and the proportion a mean of shares."""
        return self.verb == "proportion" and self._yes and self.averaged

    def _bounds(self, name: str) -> tuple[float, float]:
        column = self.value_column if name == self.columns_asked[0] else self.facts[name]
        if self.shares_of_yes:
            return 0.0, 1.0
        if not isinstance(column, Number | Count):
            instead = "counts" if self.verb == "total" else "proportion"
            instead = "quantiles" if isinstance(column, Day) else instead
            hint = f"; ask for its {instead}" if isinstance(column, Category | Flag | Day) else ""
            raise InvalidValue(f"{self.verb} needs a column of numbers; {name!r} is a {column.word}{hint}")
        if name == self.exposure and column.bounds[0] < 0:
            raise InvalidValue(f"an exposure is never below zero; {name!r} may be")
        if self.verb == "rate" and self.exposure is None and isinstance(column, Number):
            raise InvalidValue(f"a rate is of counts, or per a column; {name!r} is a {column.word}: ask for its mean")
        return column.bounds

    def with_bins(self, n: int | None, deviation: float) -> Self:
        """Return the question with as many bins as the noise lets one tell apart: public numbers only."""
        if self.verb != "quantiles" or self.bins:
            return self
        if n is None:
            return replace(self, bins=_UNKNOWN_BINS)
        text = n / self.groups.size / max(deviation, 0.5)
        bins = 2 ** round(math.log2(min(max(text**0.6, _BINS[0]), _BINS[1])))
        return replace(self, bins=bins)

    @property
    def values(self) -> int:
        """How many values of the column have a share of each group."""
        return self.valued.size // self.groups.size if self.cells is None else self.cells.size

    @property
    def each_value(self) -> bool:
        """Whether every value of the column has a row of its own."""
        return self.verb == "counts" or (self.verb == "proportion" and not self._yes)

    @property
    def median(self) -> bool:
        """Whether the median alone is asked for: it then has no column that says so in every row."""
        return self.at == (0.5,)

    @property
    def _yes(self) -> bool:
        return isinstance(self.facts[self.columns_asked[0]], Flag)

    @cached_property
    def kept(self) -> list[int]:
        """The places of the groups that the condition leaves room for; of the others there is nothing to tell."""
        return groups_kept(self.where, self.groups.axes)

    def statistics(self, records: Any) -> Statistics:
        """Return what is seen of records in memory: a frame or a mapping of columns. A condition is for tables."""
        if self.where is not None:
            raise InvalidValue("a condition is read in a table; open the records with open_table")
        if self.facts.person is not None and not self.reading.persons:
            raise InvalidValue("one row a person is chosen in a table; ask through a curator")
        return self.reading.read([records[name] for name in self.columns])


def _filler(column: Column) -> float | None:
    missing = getattr(column, "missing", None)
    return None if missing is None else float(missing)
