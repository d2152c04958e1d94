"""Questions by verb: what a curator is asked in the words of the question, over the wire."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sottovoce.faces.server.answers import plain
from sottovoce.faces.server.config import DatasetConfig
from sottovoce.faces.server.orders import Asking, Order
from sottovoce.faces.server.questions import check_condition, target_of
from sottovoce.inference.cells.cell_mechanisms import POSTERIORS
from sottovoce.inference.cells.intervals import checked_level
from sottovoce.mechanisms import Mechanism, Release
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import Promise
from sottovoce.records.facts import Category, Facts, Flag
from sottovoce.records.facts.bands import group_axis
from sottovoce.service.answers.answer import Answer
from sottovoce.service.answers.catalogue import CATALOGUE, Verb, spend_of
from sottovoce.service.answers.contrast import contrast
from sottovoce.service.answers.predictions import Row
from sottovoce.service.answers.question_parser import parse_question
from sottovoce.service.curator import Curator
from sottovoce.service.ledger import Budget, Entry

_GROUPING = (Category, Flag)
_MOST_GROUPS = 2000
"""The most combinations of values that one answer may have a row for."""


@dataclass(frozen=True)
class VerbQuestion(Asking):
    """What is asked by verb, in plain values.

    Attributes
    ----------
    verb, arguments
        The word of a verb of the `CATALOGUE`, and what it is told.
    spend
        A share of the caller's own budget such as 0.05 or ``"5%"``, or a promise such as ``"approx:0.1,1e-6"``.
    level
        How often the intervals hold the truth.
    table
        Whether to say the rows; whoever reads the release can make them themselves.
    purpose
        What the answer is for; recorded.
    predict
        Rows of which a regression also says what to expect; made of the release, so they cost nothing.
    again
        Whether an earlier answer to this very question is told instead, where there is one: free.
    """

    verb: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    spend: Any = 0.05
    level: float = 0.95
    table: bool = True
    purpose: str | None = None
    predict: Sequence[Row] = ()
    again: bool = False

    @property
    def composed(self) -> bool:
        """Whether it is several questions under one price."""
        verb: Verb = CATALOGUE[self.verb]
        return verb.composed

    @classmethod
    def parsed(cls, text: str) -> VerbQuestion:
        """Return the question that a text asks, such as ``mean of sbp by ward``."""
        asked = parse_question(text)
        word, columns = asked.pop("verb"), asked.pop("columns")
        if word == "counts" or len(columns) > 1:
            return cls(word, asked | {"columns": columns})
        return cls(word, asked | {"column": columns[0]})

    def order(self, config: DatasetConfig, curator: Curator, part: Budget, most_draws: int) -> Order:
        """Return the order, or raise what is wrong with the question. Reads no record."""
        del most_draws
        question, mechanism = self.built(config, curator, part)
        about = {"verb": self.verb, "asked": question.describe()}
        return Order(mechanism, where=question.where, purpose=self.purpose, about=about, question=question)

    def built(self, config: DatasetConfig, curator: Curator, part: Budget | None) -> tuple[Any, Mechanism]:
        """Return what is asked, and what would answer it, or raise what is wrong with the question."""
        verb: Verb = CATALOGUE[self.verb]
        checked_level(self.level)
        spend = spend_of(self.spend)
        if isinstance(spend, Promise):
            target_of(str(spend))
        arguments = verb.checked(self.arguments)
        if arguments.get("where") is not None:
            check_condition(arguments["where"], config)
        facts = curator.facts or Facts({})
        _check_groups(verb, arguments, facts)
        question = verb.question(facts, arguments)
        if (cells := getattr(question, "cells", None)) is not None and cells.size > _MOST_GROUPS:
            raise InvalidValue(
                f"an answer has at most {_MOST_GROUPS} rows, and these cells are {cells.size}; cut fewer"
            )
        verb.check_rows(question, self.predict)
        return question, verb.mechanism(curator, question, spend, part, config.mechanisms)

    def told(self, release: Release, entry: Entry, part: Budget) -> dict[str, Any]:
        """Return the question in words, its rows with their intervals, and the share it cost."""
        return told_of(release, entry, part, level=self.level, table=self.table, predict=self.predict)


def told_of(
    release: Release,
    entry: Entry,
    part: Budget,
    *,
    level: float = 0.95,
    table: bool = True,
    predict: Sequence[Row] = (),
) -> dict[str, object]:
    """Return what is said of an entry that a verb made; made of the release alone, so that saying it again is free."""
    share = part.share(entry.cost)
    verb: Verb = CATALOGUE[entry.request["verb"]]
    answer = verb.answer(release, entry.id, share, level)
    said: dict[str, object] = {"verb": entry.request["verb"], "question": entry.request["asked"], "level": level}
    said |= {"whose": getattr(getattr(answer, "question", None), "whose", None), "earlier": None}
    said |= {"predicted": verb.expected(answer, predict) if predict else None, "together": None}
    return said | told_as(answer, share, table=table)


def told_as(answer: Any, share: float | None = None, *, table: bool = True) -> dict[str, object]:
    """Return the rows of an answer, what one must know to read them, and the share that it cost."""
    share = answer.share if share is None else share
    return {"notes": list(getattr(answer, "notes", ())), "share": share, "table": rows_of(answer) if table else None}


def contrast_of(release: Release, first: int, second: int, level: float) -> dict[str, object]:
    """Return two rows of an answer beside each other; it follows from the release, so it is free."""
    if not isinstance(release.value, POSTERIORS):
        raise InvalidValue("only rows of proportions, means, totals, rates, counts and quantiles are compared")
    said = contrast(Answer(release, level=level), first, second)
    return {"first": first, "second": second, "row": said.difference.row, "sentences": said.sentences()}


def rows_of(answer: Any) -> list[dict[str, object]]:
    """Return the rows of any answer as plain values for JSON."""
    rows = answer.rows if hasattr(answer, "rows") else answer.table.to_dict("records")
    return [{str(name): plain(value) for name, value in row.items()} for row in rows]


def verbs_of(config: DatasetConfig) -> list[Verb]:
    """Return the verbs that some column of a data set answers to, by a mechanism that is allowed."""
    verbs: list[Verb] = [CATALOGUE[word] for word in CATALOGUE]
    facts = config.facts
    return [
        verb
        for verb in verbs
        if verb.serves(config.mechanisms)
        and all(item.fitting(facts) for item in verb.arguments if item.needed and item.columns)
    ]


def _check_groups(verb: Verb, arguments: Mapping[str, Any], facts: Facts) -> None:
    """Refuse more groups than one answer has rows for, before any of them is made."""
    sizes = []
    for argument in verb.arguments:
        given = arguments.get(argument.name) if argument.kind in ("column", "columns") else None
        named = [given] if isinstance(given, str) else list(given or ())
        sizes += [
            group_axis(name, facts).size
            for name in named
            if (argument.bands and name not in facts) or isinstance(facts[name], _GROUPING)
        ]
    if (groups := math.prod(sizes)) > _MOST_GROUPS:
        raise InvalidValue(f"an answer has at most {_MOST_GROUPS} rows, and these groups are {groups}; name fewer")
