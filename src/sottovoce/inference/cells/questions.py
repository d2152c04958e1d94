"""The questions people ask, as values: what is read, in which groups, and what the answer's rows are called."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.inference.cells.groups import Groups
from sottovoce.inference.cells.groups import shown as shown_value
from sottovoce.inference.cells.quantile_search import ValueAxis
from sottovoce.inference.cells.time_series import seasons_of
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import mapping, restoring
from sottovoce.privacy.numbers import as_floats, shown
from sottovoce.privacy.registry import Registry
from sottovoce.privacy.shares import read_share
from sottovoce.records.facts import Category, Cells, Column, Count, Day, Facts, Flag, Number
from sottovoce.records.facts.bands import group_texts, split_group
from sottovoce.records.facts.column_names import quoted
from sottovoce.records.facts.condition_parser import check_columns, check_levels
from sottovoce.records.facts.excluded_groups import groups_kept
from sottovoce.records.readings import CellCounts, GroupMoments, PersonCells, PersonMoments, PersonRows, Statistics

__all__ = ["OF_RECORDS", "TAILS", "VERBS", "Question", "make_question"]

VERBS = ("proportion", "mean", "total", "sd", "rate", "counts", "quantiles", "survival")
_OF_VERBS = Registry(
    "question", {"survival": "sottovoce.inference.cells.survival_question:SurvivalQuestion"}, "sottovoce.questions"
)
"""Questions that are told more than a `Question`, by the verb."""
TAILS = ("any", "smooth")
"""What may be assumed of the tails of a column whose mean is asked: ``any`` assumes nothing, ``smooth`` that what lies
beyond where records were seen thins out as a generalized Pareto law does, but for a lump."""
OVER_TIME, WITH_SEASON = "time", "season"
"""What `pool` is where groups follow one another, and where they have a season moreover."""
_SERIES: dict[Any, str] = {OVER_TIME: "pooled over time ", WITH_SEASON: "pooled over seasons "}
"""How each is said."""
_MOST_SEASONAL = 240
"""The most times that have a season, twenty years of months: work rises by their cube."""
_TAILED = ("mean", "rate")
"""Verbs that say what they assume of tails."""
OF_RECORDS = ("total", "sd")
"""Verbs that tell of the records themselves, and are made of what a mean is made of."""
_UNSAID = ""
"""Of questions that were asked before tails were named: the posterior alone makes their intervals."""
_PRIOR = (1e-6, 1e9)
_BINS = (8, 128)
"""A distribution is cut into no fewer and no more bins."""
_MOST_GROUPS = 2**15
"""The most groups that each have a posterior of their own, a thousand draws long: what a laptop holds, in minutes."""
_NAMED = 12
"""So many groups are named that a condition rules out."""
_UNKNOWN_BINS = 32
"""Into so many where nobody may know how many records there are."""


@dataclass(frozen=True, eq=False)
class Question:
    """One of the `VERBS` about columns whose facts are public.

    Parameters
    ----------
    verb
        ``proportion``, ``mean``, ``total``, ``sd``, ``rate``, ``counts`` or ``quantiles``.
    columns
        The column asked about; for ``counts`` one or several.
    facts
        What is public of every column that is named.
    by
        Columns of categories or flags, or bands of a number, ``age: under 18, 18-64, 65+`` or ``age: 12 bands``; every
        combination that `where` leaves gets a row, empty or not. Or `Cells`, which say both.
    where
        Which records the question is about. The others, and those with a missing value, are counted apart.
    exposure
        For a rate: the column whose sum the counts are divided by.
    at
        For quantiles: which, as probabilities or in percent, ``"90%"``.
    bins
        For quantiles that were released before they were searched for: into how many bins the column was cut.
    pool
        Whether groups share strength by a prior whose spread is learned from all of them; ``"time"`` where those of the
        first column of `by` follow one another, each near that before it; ``"season"`` where months, or quarters, are
        moreover alike from year to year.
    prior
        How many records the prior counts for in each group, shared by the values there are: of a yes-or-no share two
        is a flat prior and one is Jeffreys'; 1.5 lies between. Counts, means and quantiles use it for the sizes of
        their cells alone.
    cells
        For counts: how the columns are cut, where not every one of them is a list of categories taken whole.
    tails
        For means and rates: ``"any"``, which assumes nothing of how a column's values spread within its bounds; for
        means ``"smooth"``, which takes what lies beyond where records were seen to thin out smoothly.
    crossed
        For a rate per an exposure: whether products of the two were added up, as they are now. Without them an answer
        tells of the exposures of its records alone.

    Examples
    --------
    >>> facts = Facts(sbp=Number(60, 250), ward=Category(["A", "B"]), age=Number(0, 110))
    >>> Question("mean", ("sbp",), facts, by=("ward",), where="age >= 40").describe()
    'mean of sbp by ward where age >= 40'
    """

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

    def __post_init__(self) -> None:
        if self.verb not in self.verbs:
            raise InvalidValue(f"a question is one of {', '.join(self.verbs)}. Got {self.verb!r}")
        by: Any = self.by
        for cells in (by, self.cells):
            if isinstance(cells, Cells) and any(self.facts[name] != cells.facts[name] for name in cells.names):
                raise InvalidValue("these cells were cut by other facts than those of the table")
        text = {
            "columns_asked": names_of(self.columns_asked),
            "by": group_texts(by if isinstance(by, Cells) else names_of(by), self.facts),
            "at": _probabilities(self.at),
            "prior": float(as_floats("prior", self.prior, 0.0)),
        }
        for name, value in text.items():
            object.__setattr__(self, name, value)
        self._check_arguments()
        self._check_columns()
        self._check_groups()
        self.reading  # noqa: B018 - a column of the wrong kind is refused here

    def _check_arguments(self) -> None:
        """Refuse what goes with another verb, and numbers out of their range."""
        if not isinstance(self.pool, bool) and (not isinstance(self.pool, str) or self.pool not in _SERIES):
            raise InvalidValue(f"pool= is True, False, {OVER_TIME!r} or {WITH_SEASON!r}. Got {shown(self.pool)}")
        if self.exposure is not None and not isinstance(self.exposure, str):
            raise InvalidValue(f"exposure= names a column. Got {shown(self.exposure)}")
        if self.verb != "rate" and self.exposure is not None:
            raise InvalidValue('exposure= ("per") goes with a rate; groups are named by by=')
        if self.verb != "quantiles" and (self.at or self.bins):
            raise InvalidValue("at= and bins= go with quantiles")
        if self.verb == "quantiles" and self.pool:
            raise InvalidValue("quantiles of groups are not pooled")
        if self.verb in OF_RECORDS and self.pool:
            raise InvalidValue(f"{self.verb} tells of the records themselves, and groups of them are not pooled")
        if self.tails not in (*TAILS, _UNSAID):
            raise InvalidValue(f"tails= is one of {', '.join(TAILS)}. Got {shown(self.tails)}")
        if self.tails == "smooth":
            self._check_smooth()
        rising = all(low < high for low, high in itertools.pairwise((0.0, *self.at, 1.0)))
        if not rising or (self.verb == "quantiles" and not self.at):
            raise InvalidValue(
                "quantiles are rising probabilities between 0 and 1, such as [0.25, 0.5], or in percent, '25%'. "
                f"Got {list(self.at)}"
            )
        if self.bins and not (isinstance(self.bins, int) and 2 <= self.bins <= 4096):
            raise InvalidValue(f"bins must be a whole number from 2 to 4096. Got {self.bins!r}")
        if self.cells is not None and (not isinstance(self.cells, Cells) or self.verb != "counts" or self.by):
            raise InvalidValue("cells= goes with counts, and says itself by which columns")
        if not _PRIOR[0] <= self.prior <= _PRIOR[1]:
            raise InvalidValue(f"prior must lie between {_PRIOR[0]:g} and {_PRIOR[1]:g} records. Got {self.prior!r}")

    def _check_smooth(self) -> None:
        """Refuse what a smooth tail is not assumed of."""
        if self.verb != "mean":
            raise InvalidValue('tails="smooth" goes with a mean')
        if self.pool:
            raise InvalidValue('groups with tails="smooth" are not pooled: each has a tail of its own; leave pool= out')
        if self.averaged:
            raise InvalidValue(
                'tails="smooth" is of records, not of a person\'s average: take one row a person, Person(rows=1), or '
                "say closer bounds"
            )

    def _check_columns(self) -> None:
        """Refuse columns that cannot be asked about, or not together; keep the facts of those that are named."""
        if not self.columns_asked or (self.verb != "counts" and len(self.columns_asked) != 1):
            raise InvalidValue(f"{self.verb} takes one column. Got {len(self.columns_asked)}")
        if self.cells is not None and self.cells.names != self.columns_asked:
            raise InvalidValue("these cells are of other columns than are asked about")
        named = [*(self._asked if self.first_day is None else self.columns_asked)]
        named += (split_group(text, self.facts)[0] for text in self.by)
        if len(set(named)) < len(named):
            raise InvalidValue(f"a question names a column once. Got {', '.join(named)}")
        if self.exposure is not None and isinstance(per := self.facts[self.exposure], Category | Flag):
            is_a = f"{self.exposure!r} is a {per.word}"
            raise InvalidValue(f"a rate is per a number, such as years, and {is_a}; groups follow the word by (by=)")
        named += check_columns(self.where, self.facts)
        object.__setattr__(self, "facts", self.facts.about(named))
        if self.facts.person in named:
            raise InvalidValue(f"{self.facts.person!r} says whose a row is; nobody is asked about it")
        if self.rows > 1 and self.verb != "counts":
            raise InvalidValue(
                f"{self.verb} takes one record a person, for rows of one person go together: Person() averages their "
                f"rows, Person(rows=1) takes one. Person(rows={self.rows}) is for counts"
            )

    def _check_groups(self) -> None:
        """Refuse groups that are too many, of which there is none, or whose shares there is nothing to ask of."""
        if self.verb == "proportion" and self.values < 2:
            raise InvalidValue(f"{self.columns_asked[0]!r} has one category, whose share is 1; ask for its counts")
        if self.verb != "counts" and self.groups.size > _MOST_GROUPS:
            raise InvalidValue(
                f"{self.verb} is told of at most {_MOST_GROUPS} groups, and these are {self.groups.size}; ask by fewer"
            )
        if self.is_series:
            self._check_over_time()
        if not self.kept:
            check_levels(self.where, self.facts)  # most likely a slip, which is better said as one
            by = ", ".join(split_group(text, self.facts)[0] for text in self.by)
            raise InvalidValue(f"the condition rules out every group by {by}: {self.where}")

    def _check_over_time(self) -> None:
        """Refuse what cannot follow in time: groups that have no order, and answers that are no single number."""
        single = self.verb in ("mean", "rate") or (self.verb == "proportion" and not self.each_value)
        if not single or self.exposure is not None:
            raise InvalidValue(f"pool={self.pool!r} is of the share of a flag, or of the mean of a number")
        if not self.by or self.groups.axes[0].size < 3:
            raise InvalidValue(
                f"pool={self.pool!r} takes three groups or more that follow one another: the first column of by=, such "
                "as months in their order"
            )
        if self.pool == WITH_SEASON and (self.seasons is None or len(self.seasons) > _MOST_SEASONAL):
            raise InvalidValue(
                f"pool={WITH_SEASON!r} takes months or quarters of more than one year, at most {_MOST_SEASONAL}: "
                "groups called such as 2024-01 or 2024-Q1, the first column of by=, such as by='yearmonth(admitted)'"
            )

    @property
    def is_series(self) -> bool:
        """Whether groups of the first column are pooled as times that follow one another."""
        return self.pool in _SERIES

    @property
    def seasons(self) -> list[int] | None:
        """Which season each group of the first column is of, as far as its labels say."""
        return seasons_of(self.groups.axes[0].labels)

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """What answers it, by the word."""
        if self.tails == "smooth":
            return ("smooth means", "smooth group means")
        return ("quantile search",) if self.verb == "quantiles" and not self.bins else ("noisy cells",)

    @property
    def cut(self) -> str:
        """How counts cut columns of numbers, in words."""
        return "" if self.cells is None else self.cells.text

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
    def parameter(self) -> str:
        """The verb and its column, for names."""
        return f"{self.verb} of {', '.join(self.columns_asked)}"

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
    def whose(self) -> str | None:
        """What a person counts as in the answer, in words; None where a record is a row."""
        if self.facts.person is None:
            return None
        if self.rows:
            return "one row of each person counts" if self.rows == 1 else f"at most {self.rows} rows of a person count"
        if self.verb == "counts":
            return "each person counts as one, in every cell as the part of their rows that is in it"
        if not self.reading.persons:
            return "one row of each person counts"
        return "each person counts once, by the average of their rows" + (
            " in the group that most of these are in (of several, the first)" if self.by else ""
        )

    @property
    def rare(self) -> bool:
        """Whether it is of counts that are rather small beside the largest: a rate of counts is."""
        return self.verb == "rate" and isinstance(self.facts[self.columns_asked[0]], Count)

    @property
    def certain_of(self) -> str | None:
        """Of what the intervals tell, where noise is all that makes an answer uncertain, in words."""
        if self.exposure is not None and not self.crossed:
            return f"for the {self.exposure} of these very records: intervals do not tell how others would differ"
        what = {"total": "a total", "sd": "a standard deviation"}.get(self.verb)
        return what and f"{what} of these very records: intervals tell what noise hides, not how others would differ"

    @property
    def partly_whole(self) -> bool:
        """Whether values are whole but where a person's average is not: of a person with one row it is."""
        return isinstance(self.value_column, Count) and self.averaged

    @property
    def bounded(self) -> str | None:
        """What a value beyond the bounds counts as, and how finely a quantile is told, in words."""
        column = self.facts[self.columns_asked[0]]
        if self.verb in ("mean", "rate", *OF_RECORDS):
            low, high = self._bounds(self.columns_asked[0])
            if isinstance(column, Count):
                return f"counts above {high:,.12g} count as {high:,.12g}"
            return f"values below {low:,.12g} count as {low:,.12g} and values above {high:,.12g} as {high:,.12g}"
        if isinstance(column, Day):
            return f"days before {column.first} count as {column.first} and days after {column.last} as {column.last}"
        if self.verb != "quantiles" or isinstance(column, Count):
            return None
        if not self.bins:
            return None
        edges: Any = getattr(self.reading, "edges", ())
        return f"told by bins of {edges[1] - edges[0]:.3g}: where many values are alike, as whole years are, no nearer"

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

    def with_bins(self, n: int | None, deviation: float) -> Question:
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
    def label_names(self) -> list[str]:
        """The columns that name a row of the answer."""
        if self.each_value:
            return [*self.groups.names, *self.columns_asked]
        return [*self.groups.names, *(["quantile"] if self.verb == "quantiles" and not self.median else [])]

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

    @property
    def places(self) -> list[int]:
        """Which rows of the posterior are rows of the answer: those of the groups that are kept."""
        each = len(self._every_label) // self.groups.size
        return [each * group + row for group in self.kept for row in range(each)]

    @property
    def ruled_out(self) -> str | None:
        """Of which groups the condition leaves no record, in words; None where there are none."""
        kept = set(self.kept)
        out = [label for place, label in enumerate(self.groups.labels) if place not in kept]
        names = ", ".join(" / ".join(map(shown_value, label)) for label in out[:_NAMED])
        more = f" and {len(out) - _NAMED} more" if len(out) > _NAMED else ""
        return f"the condition leaves no record of {names}{more}" if out else None

    @property
    def labels(self) -> list[tuple[Hashable, ...]]:
        """What each row of the answer is called, one value a `label_names`."""
        labels = self._every_label
        return [labels[place] for place in self.places]

    @cached_property
    def _every_label(self) -> list[tuple[Hashable, ...]]:
        if self.cells is not None:
            return self.cells.labels
        if self.each_value:
            return self.valued.labels
        if self.verb != "quantiles" or self.median:
            return self.groups.labels
        return [(*group, quantile) for group in self.groups.labels for quantile in self.at]

    def statistics(self, records: Any) -> Statistics:
        """Return what is seen of records in memory: a frame or a mapping of columns. A condition is for tables."""
        if self.where is not None:
            raise InvalidValue("a condition is read in a table; open the records with open_table")
        if self.facts.person is not None and not self.reading.persons:
            raise InvalidValue("one row a person is chosen in a table; ask through a curator")
        return self.reading.read([records[name] for name in self.columns])

    def describe(self) -> str:
        """Return the question in one line, as `sottovoce ask` and `Curator.ask` take it."""
        what = ", ".join(map(quoted, self.columns_asked))
        at = ", ".join(np.format_float_positional(p, trim="0") for p in self.at)
        verb = "median" if self.median else f"{self.verb} {at}".rstrip()
        pooled = _SERIES.get(self.pool, "pooled " * bool(self.pool))
        text = pooled + "smooth " * (self.tails == "smooth") + f"{verb} of {what}"
        text += self._details
        groups = [split_group(item, self.facts) for item in self.by]
        by = ", ".join(f"{quoted(name)}: {said}" if said else quoted(name) for name, said in groups)
        text += f" by {by}" if by else ""
        return text + (f" where {self.where}" if self.where is not None else "")

    @property
    def _details(self) -> str:
        """What is said of the column asked about."""
        return f" per {quoted(self.exposure)}" if self.exposure else ""

    def to_dict(self) -> dict[str, Any]:
        """Return the question as plain values; `from_dict` reads it back."""
        given = {"verb": self.verb, "columns": list(self.columns_asked), "facts": self.facts.to_dict()}
        remainder = {"by": list(self.by), "where": self.where, "exposure": self.exposure, "at": list(self.at)}
        state = {"system": self.word} | given | remainder | {"bins": self.bins, "pool": self.pool, "prior": self.prior}
        if self.verb in _TAILED and self.tails != _UNSAID:
            state["tails"] = self.tails
        if self.exposure is not None and self.crossed:
            state["crossed"] = True
        return state if self.cells is None else state | {"cells": self.cells.to_dict()}

    @classmethod
    def from_dict(cls, state: Mapping[str, object]) -> Self:
        """Read a question from `to_dict`'s form."""
        state = mapping("question", state)
        if cls is Question and (verb := state.get("verb")) in _OF_VERBS:
            kind: type[Self] = _OF_VERBS[verb]
            return kind.from_dict(state)
        with restoring("a question"):
            remainder = {name: state[name] for name in ("where", "exposure", "bins", "pool", "prior")}
            if state.get("cells") is not None:
                remainder["cells"] = Cells.from_dict(
                    {"names": state["columns"]} | mapping("table of cells", state["cells"])
                )
            if state["verb"] in _TAILED:
                remainder["tails"] = str(state.get("tails", _UNSAID))
            remainder["crossed"] = state["exposure"] is None or bool(state.get("crossed", False))
            columns, by, at = (tuple(state[name]) for name in ("columns", "by", "at"))
            return cls(state["verb"], columns, Facts.from_dict(state["facts"]), by, at=at, **remainder)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Question) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]


def make_question(verb: str, columns: Any, facts: Facts, **asked: Any) -> Question:
    """Return the question of a verb, of the kind that knows it.

    >>> make_question("mean", "sbp", Facts(sbp=Number(60, 250))).describe()
    'mean of sbp'
    """
    kind: type[Question] = _OF_VERBS[verb] if isinstance(verb, str) and verb in _OF_VERBS else Question
    if kind is Question and (extra := [name for name in ("event", "cuts") if name in asked]):
        raise InvalidValue(f"{extra[0]}= goes with survival. Got it with {shown(verb)}")
    return kind(verb, columns, facts, **asked)


def names_of(given: object) -> tuple[str, ...]:
    """Return one name, or several, as a tuple."""
    if given is not None and not isinstance(given, str | Iterable):
        raise InvalidValue(f"columns are named by texts. Got {shown(given)}")
    if isinstance(given, Mapping):
        raise InvalidValue("columns are named by texts; to cut them say Cells(facts, {...})")
    result = (given,) if isinstance(given, str) else () if given is None else tuple(given)
    if not all(isinstance(name, str) for name in result):
        raise InvalidValue("columns are named by texts")
    return result


def _probabilities(given: object) -> tuple[float, ...]:
    """Return quantiles, one or several, some of them perhaps in percent."""
    if not isinstance(given, str | int | float | Iterable):
        raise InvalidValue(f"at= is one probability or several, such as 0.5. Got {shown(given)}")
    parts = (given,) if isinstance(given, str | int | float) else tuple(given)
    read = [read_share("a quantile", item) if isinstance(item, str) else item for item in parts]
    return tuple(as_floats("at", read, 0.0).tolist())


def _filler(column: Column) -> float | None:
    missing = getattr(column, "missing", None)
    return None if missing is None else float(missing)
