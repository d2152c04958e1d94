"""What is refused of a question before anything is priced: arguments, columns and groups that do not go together."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sottovoce.inference.cells.question_reading import QuestionReading
from sottovoce.inference.cells.time_series import seasons_of
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import as_floats, shown
from sottovoce.privacy.shares import read_share
from sottovoce.records.facts import Category, Cells, Flag
from sottovoce.records.facts.bands import group_texts, split_group
from sottovoce.records.facts.condition_parser import check_columns, check_levels

TAILS = ("any", "smooth")
"""What may be assumed of the tails of a column whose mean is asked: ``any`` assumes nothing, ``smooth`` that what lies
beyond where records were seen thins out as a generalized Pareto law does, but for a lump."""
OVER_TIME, WITH_SEASON = "time", "season"
"""What `pool` is where groups follow one another, and where they have a season moreover."""
SERIES: dict[Any, str] = {OVER_TIME: "pooled over time ", WITH_SEASON: "pooled over seasons "}
"""How each is said."""
_MOST_SEASONAL = 240
"""The most times that have a season, twenty years of months: work rises by their cube."""
OF_RECORDS = ("total", "sd")
"""Verbs that tell of the records themselves, and are made of what a mean is made of."""
UNSAID = ""
"""Of questions that were asked before tails were named: the posterior alone makes their intervals."""
_PRIOR = (1e-6, 1e9)
_MOST_GROUPS = 2**15
"""The most groups that each have a posterior of their own, a thousand draws long: what a laptop holds, in minutes."""


@dataclass(frozen=True, eq=False)
class CheckedQuestion(QuestionReading):
    """A question whose arguments are put in order and checked as it is made."""

    def __post_init__(self) -> None:
        if self.verb not in self.verbs:
            raise InvalidValue(f"a question is one of {', '.join(self.verbs)}. Got {self.verb!r}")
        by: object = self.by
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
        if not isinstance(self.pool, bool) and (not isinstance(self.pool, str) or self.pool not in SERIES):
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
        if self.tails not in (*TAILS, UNSAID):
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
        return self.pool in SERIES

    @property
    def seasons(self) -> list[int] | None:
        """Which season each group of the first column is of, as far as its labels say."""
        return seasons_of(self.groups.axes[0].labels)


def names_of(given: Any) -> tuple[str, ...]:
    """Return one name, or several, as a tuple."""
    if given is not None and not isinstance(given, str | Iterable):
        raise InvalidValue(f"columns are named by texts. Got {shown(given)}")
    if isinstance(given, Mapping):
        raise InvalidValue("columns are named by texts; to cut them say Cells(facts, {...})")
    result = (given,) if isinstance(given, str) else () if given is None else tuple(given)
    if not all(isinstance(name, str) for name in result):
        raise InvalidValue("columns are named by texts")
    return result


def _probabilities(given: Any) -> tuple[float, ...]:
    """Return quantiles, one or several, some of them perhaps in percent."""
    if not isinstance(given, str | int | float | Iterable):
        raise InvalidValue(f"at= is one probability or several, such as 0.5. Got {shown(given)}")
    parts = (given,) if isinstance(given, str | int | float) else tuple(given)
    read = [read_share("a quantile", item) if isinstance(item, str) else item for item in parts]
    return tuple(as_floats("at", read, 0.0).tolist())
