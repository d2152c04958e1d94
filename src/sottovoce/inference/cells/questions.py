"""The questions people ask, as values: what is read, in which groups, and what the answer's rows are called."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from sottovoce.inference.cells.groups import shown as shown_value
from sottovoce.inference.cells.question_checks import OF_RECORDS, SERIES, UNSAID, CheckedQuestion
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import mapping, restoring
from sottovoce.privacy.numbers import shown
from sottovoce.privacy.registry import Registry
from sottovoce.records.facts import Cells, Count, Day, Facts
from sottovoce.records.facts.bands import split_group
from sottovoce.records.facts.column_names import quoted

__all__ = ["Question", "make_question"]

_OF_VERBS = Registry(
    "question", {"survival": "sottovoce.inference.cells.survival_question:SurvivalQuestion"}, "sottovoce.questions"
)
"""Questions that are told more than a `Question`, by the verb."""
_TAILED = ("mean", "rate")
"""Verbs that say what they assume of tails."""
_NAMED = 12
"""So many groups are named that a condition rules out."""


@dataclass(frozen=True, eq=False)
class Question(CheckedQuestion):
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
    >>> from sottovoce.records.facts import Category, Number
    >>> facts = Facts(sbp=Number(60, 250), ward=Category(["A", "B"]), age=Number(0, 110))
    >>> Question("mean", ("sbp",), facts, by=("ward",), where="age >= 40").describe()
    'mean of sbp by ward where age >= 40'
    """

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

    @property
    def parameter(self) -> str:
        """The verb and its column, for names."""
        return f"{self.verb} of {', '.join(self.columns_asked)}"

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
    def label_names(self) -> list[str]:
        """The columns that name a row of the answer."""
        if self.each_value:
            return [*self.groups.names, *self.columns_asked]
        return [*self.groups.names, *(["quantile"] if self.verb == "quantiles" and not self.median else [])]

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

    def describe(self) -> str:
        """Return the question in one line, as `sottovoce ask` and `Curator.ask` take it."""
        what = ", ".join(map(quoted, self.columns_asked))
        at = ", ".join(np.format_float_positional(p, trim="0") for p in self.at)
        verb = "median" if self.median else f"{self.verb} {at}".rstrip()
        pooled = SERIES.get(self.pool, "pooled " * bool(self.pool))
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

    def to_dict(self) -> dict[str, object]:
        """Return the question as plain values; `from_dict` reads it back."""
        given: dict[str, object] = {"verb": self.verb, "columns": list(self.columns_asked)}
        given["facts"] = self.facts.to_dict()
        remainder: dict[str, object] = {
            "by": list(self.by),
            "where": self.where,
            "exposure": self.exposure,
            "at": list(self.at),
        }
        state: dict[str, object] = {"system": self.word} | given | remainder
        state |= {"bins": self.bins, "pool": self.pool, "prior": self.prior}
        if self.verb in _TAILED and self.tails != UNSAID:
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
                remainder["tails"] = str(state.get("tails", UNSAID))
            remainder["crossed"] = state["exposure"] is None or bool(state.get("crossed", False))
            columns, by, at = (tuple(state[name]) for name in ("columns", "by", "at"))
            return cls(state["verb"], columns, Facts.from_dict(state["facts"]), by, at=at, **remainder)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Question) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]


def make_question(verb: str, columns: Any, facts: Facts, **asked: Any) -> Question:
    """Return the question of a verb, of the kind that knows it.

    >>> from sottovoce.records.facts import Number
    >>> make_question("mean", "sbp", Facts(sbp=Number(60, 250))).describe()
    'mean of sbp'
    """
    kind: type[Question] = _OF_VERBS[verb] if isinstance(verb, str) and verb in _OF_VERBS else Question
    if kind is Question and (extra := [name for name in ("event", "cuts") if name in asked]):
        raise InvalidValue(f"{extra[0]}= goes with survival. Got it with {shown(verb)}")
    return kind(verb, columns, facts, **asked)
