"""Table 1 in the catalogue of verbs: several questions under one price, for every face."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sottovoce.inference.cells.questions import Question
from sottovoce.mechanisms import Mechanism, Release
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import restoring
from sottovoce.privacy.promises import Promise
from sottovoce.records.facts import Category, Count, Facts, Flag, Number
from sottovoce.records.facts.bands import group_texts
from sottovoce.records.facts.condition_parser import check_levels
from sottovoce.service.answers.answer import Answer
from sottovoce.service.answers.arguments import BY, WHERE, Argument
from sottovoce.service.answers.catalogue import Verb
from sottovoce.service.answers.description import Description
from sottovoce.service.answers.description_questions import described_words, table_questions
from sottovoce.service.answers.paid_verbs import PaidVerbs
from sottovoce.service.ledger import Budget


@dataclass(frozen=True, eq=False)
class TableQuestion:
    """What a description asks: columns, groups and a condition, and the questions that these come to.

    >>> TableQuestion(("age",), ("ward",), Facts(age=Number(0, 110), ward=Category(["A", "B"]))).describe()
    'description of age by ward'
    """

    columns: tuple[str, ...]
    by: tuple[str, ...]
    facts: Facts
    where: str | None = None

    @cached_property
    def parts(self) -> list[Question]:
        """The questions that it is made of."""
        return table_questions(self.columns, self.by, self.facts, self.where)

    @property
    def columns_asked(self) -> tuple[str, ...]:
        """What is described."""
        return self.columns

    def describe(self) -> str:
        """Return what is described, in one line."""
        return described_words(self.columns, self.by, self.where)

    def answered(self, answers: Sequence[Answer]) -> Description:
        """Return the table that answers to its questions make."""
        return Description(self.columns, self.by, self.facts, tuple(answers), self.where)


class DescribeVerb(Verb):
    """Several questions under one price, each an entry of its own; together they are one table."""

    composed = True

    def question(self, facts: Facts, given: Mapping[str, object]) -> TableQuestion:
        """Return what is described, with the questions that it comes to."""
        asked = self.checked(given)
        columns, by = asked["columns"], asked.get("by") or ()
        columns = (columns,) if isinstance(columns, str) else tuple(columns)
        groups = group_texts((by,) if isinstance(by, str) else tuple(by), facts)
        built = TableQuestion(columns, groups, facts, asked.get("where"))
        for part in built.parts:
            check_levels(part.where, facts)
        return built

    def mechanism(
        self,
        curator: PaidVerbs,
        question: Any,
        spend: Promise | float,
        part: Budget | None = None,
        allowed: Collection[str] | None = None,
    ) -> Mechanism:
        """Return what the first of its questions would be answered by, were all the price spent on that."""
        return super().mechanism(curator, question.parts[0], spend, part, allowed)

    def answer(self, release: Release, entry: int | None, share: float | None, level: float = 0.95) -> Any:
        """Refuse: no single release holds a description."""
        raise InvalidValue("a description is several answers, each told again by the number of its own entry")

    def read(self, state: Mapping[str, Any]) -> Description:
        """Read a description from what a server told."""
        from sottovoce.service.answers.catalogue import CATALOGUE  # noqa: PLC0415 - which holds this verb

        with restoring("a description"):
            answers = [CATALOGUE[said["verb"]].read(said) for said in state["answers"]]
            asked, every = state["asked"], [answer.question.facts.to_dict() for answer in answers]
            facts = Facts.from_dict({name: column for item in every for name, column in item.items()})
            columns, by = tuple(asked["columns"]), tuple(asked["by"])
            return TableQuestion(columns, by, facts, asked["where"]).answered(answers)


DESCRIBE = DescribeVerb(
    "describe",
    "Table 1: who is in the data",
    (
        Argument("columns", "columns", "Columns to describe", "", (Flag, Category, Number, Count), needed=True),
        BY,
        WHERE,
    ),
)
