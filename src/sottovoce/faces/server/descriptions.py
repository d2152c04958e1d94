"""Table 1 over the wire: its questions are each charged and answered as any other, under keys made of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sottovoce.faces.client.errors import AnswerLost
from sottovoce.faces.client.reach import LIMITED, of_periods, reach
from sottovoce.faces.client.response_bodies import RemainingBody
from sottovoce.faces.server.config import DatasetConfig
from sottovoce.faces.server.verbs import VerbQuestion, rows_of
from sottovoce.inference.cells.intervals import checked_level
from sottovoce.privacy.errors import BudgetExceeded, InvalidValue, SourceUnavailable
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.shares import percent
from sottovoce.records.facts import Facts
from sottovoce.service.answers.catalogue import CATALOGUE, Verb, spend_of
from sottovoce.service.answers.describe_verb import TableQuestion
from sottovoce.service.curator import Curator
from sottovoce.service.ledger import Budget

_PLAIN = (BudgetExceeded, AnswerLost, SourceUnavailable)
"""Refusals that are told with what was answered all the same."""


@dataclass(frozen=True)
class DividedDescription:
    """A description that makes sense: what it asks, and its questions with the shares that they cost.

    Attributes
    ----------
    table, questions
        What is described, and what is asked for it, one after the other.
    share
        What all of it may cost.
    """

    table: TableQuestion
    questions: tuple[VerbQuestion, ...]
    share: float

    def check_covered(self, curator: Curator, remaining: RemainingBody) -> None:
        """Refuse it, before anything is charged, where what is left does not pay for all of it."""
        periods = None if curator.periods is None else tuple(curator.periods.reached(self.table.where))
        reachable, limited = reach(of_periods(remaining, periods))
        if reachable < self.share:
            why = f", {LIMITED}" if limited else ""
            raise BudgetExceeded(
                f"the description takes {percent(self.share)} of your budget, and {percent(reachable)} is left{why}; "
                "nothing was spent"
            )

    def told(self, question: VerbQuestion, answers: Sequence[Mapping[str, object]]) -> dict[str, Any]:
        """Return the table that the answers to its questions make, and these; it follows from them, so it is free."""
        built = self.table.answered([CATALOGUE[said["verb"]].read(said) for said in answers])
        head, body = built.paper_lines()
        asked = {"columns": list(self.table.columns), "by": list(self.table.by), "where": self.table.where}
        return {
            "verb": question.verb,
            "question": built.describe(),
            "asked": asked,
            "level": built.level,
            "entries": built.entries,
            "share": built.share,
            "notes": built.notes,
            "table": rows_of(built) if question.table else None,
            "differences": built.differences,
            "lines": {"head": head, "body": body},
            "answers": list(answers),
        }


def divided(question: VerbQuestion, config: DatasetConfig, curator: Curator, part: Budget) -> DividedDescription:
    """Return the questions of a description with their shares, or raise what is wrong with it. Reads no record.

    The shares follow from public things, so that a retry under its key asks the very same questions.
    """
    verb: Verb = CATALOGUE[question.verb]
    level, share = checked_level(question.level), spend_of(question.spend)
    if isinstance(share, Promise):
        raise InvalidValue(f"a description is paid by a share of the budget such as 0.2. Got {share}")
    question.built(config, curator, part)  # which says what is wrong with it
    table = verb.question(curator.facts or Facts({}), verb.checked(question.arguments))
    questions = []
    for item, paid in zip(table.parts, curator.shares_of(table.parts, share, part), strict=True):
        given = CATALOGUE[item.verb].arguments_of(item)
        asked = replace(question, verb=item.verb, arguments=given, spend=paid, level=level, table=False)
        asked.built(config, curator, part)
        questions.append(asked)
    return DividedDescription(table, tuple(questions), share)


def keyed(key: str | None, count: int) -> list[str | None]:
    """Return a key for each of several questions that were asked under one, as a curator makes them.

    >>> keyed("monday", 2)
    ['monday-1', 'monday-2']
    """
    return [None if key is None else f"{key}-{place + 1}" for place in range(count)]


def in_part(error: BaseException, answers: Sequence[Mapping[str, object]]) -> BaseException:
    """Return why a description was not answered, with which entries were charged all the same."""
    if not answers or not isinstance(error, _PLAIN):
        return error
    entries = ", ".join(str(said["entry"]) for said in answers)
    return type(error)(
        f"{error}; of the description, entries {entries} were answered and charged: asked with again, they are free"
    )
