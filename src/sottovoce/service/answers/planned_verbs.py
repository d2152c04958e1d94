"""Questions of a table and what answering them would cost: forecasts, free, that look at no record."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sottovoce.inference.cells.intervals import checked_level
from sottovoce.inference.cells.questions import Question, make_question
from sottovoce.privacy.errors import BudgetExceeded, InvalidValue, NotInstalled
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.numbers import shown
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.shares import percent
from sottovoce.records.facts import Cells, Facts
from sottovoce.records.facts.assumed_distribution import AssumedDistribution, imagined_of
from sottovoce.records.facts.bands import group_texts
from sottovoce.records.facts.condition_parser import check_levels
from sottovoce.service.answers.budget_account import Spend
from sottovoce.service.answers.description_plan import (
    DescriptionPlan,
    equal_widths,
    foreseen_parts,
    parse_description,
    width_of,
)
from sottovoce.service.answers.description_questions import described_words, table_questions
from sottovoce.service.answers.priced_option import PricedOption
from sottovoce.service.answers.question_parser import parse_question, parse_spend
from sottovoce.service.answers.trade_off import TradeOff
from sottovoce.service.answers.verb_options import PlanOptions, check_options
from sottovoce.service.ledger import Budget

if TYPE_CHECKING:  # the room needs an extra
    from sottovoce.inference.regression.formula import Formula
    from sottovoce.inference.regression.regression_plan import RegressionPlan

Columns = str | Sequence[str] | None
Groups = Columns | Cells


class PlannedVerbs(ABC):
    """What a question is made of, and how wide its answer will be for a share of the budget."""

    facts: Facts | None

    def _described_plan(
        self, asked: Mapping[str, Any], share: float, part: Budget | None, records: int | None
    ) -> DescriptionPlan:
        """Return what each question of a description will be worth, or raise what asking it would raise."""
        if self.facts is None:
            raise InvalidValue("a description needs the facts of the table: Curator(data, facts=..., ...)")
        columns, by, where = asked["columns"], group_texts(asked["by"], self.facts), asked["where"]
        questions = table_questions(columns, by, self.facts, where)
        for question in questions:
            check_levels(question.where, self.facts)
        self._check_left(share, part, where)
        purse, n = self._purse(part)
        n = n if records is None else records
        if n is None:
            raise InvalidValue("how many records there are is a secret; say records=..., how many to imagine")
        shares = self.shares_of(questions, share, part)
        return foreseen_parts(described_words(columns, by, where), questions, n, purse, shares)

    def _check_left(self, share: float, part: Budget | None, where: str | None) -> None:
        """Refuse a description that what is left does not pay for."""
        if (remaining := self._share_left(part, where)) < share:
            raise BudgetExceeded(
                f"the description takes {percent(share)} of the budget, and {percent(remaining)} is left; "
                "nothing was spent"
            )

    def shares_of(self, questions: Sequence[Question], spend: float, part: Budget | None) -> list[float]:
        """Return the shares of the questions of a description, by the rule of equal widths; even if n is a secret."""
        purse, n = self._purse(part)
        if n is None:
            return equal_widths([1.0] * len(questions), spend)
        return equal_widths([width_of(item, n, purse, spend / len(questions)) for item in questions], spend)

    @abstractmethod
    def _share_left(self, part: Budget | None, where: str | None = None) -> float:
        """Return the share of the budget that is left."""

    def formula(self, text: str, **asked: Any) -> Formula:
        """Return a regression of this table, made from its facts."""
        if self.facts is None:
            raise InvalidValue("a formula needs the facts of the table: Curator(data, facts=..., ...)")
        given = {name: value for name, value in asked.items() if value is not None}
        built: Formula = regression_room().formula_of(text, self.facts, **given)
        check_levels(built.where, self.facts)
        return built

    def plan(
        self,
        question: Question | str,
        *,
        family: str | None = None,
        where: str | None = None,
        spend: Spend = 0.05,
        prior: float | None = None,
        misses: float | None = None,
        exposure: str | None = None,
        event: str | None = None,
        cuts: Sequence[float] | int | None = None,
        start: str | None = None,
        part: Budget | None = None,
        level: float | str = 0.95,
        records: int | None = None,
        imagined: AssumedDistribution | Iterable[str] | None = None,
        **options: Any,
    ) -> RegressionPlan | PricedOption | DescriptionPlan:
        """Return how wide the intervals of an answer will be: a forecast, free of cost; no record is looked at.

        What would be refused is refused here, too: a question of another table, or one that the budget does not cover.

        Parameters
        ----------
        question
            A question as `ask` takes it, or a formula as `regress` does, of which every term is foreseen; or what
            `describe` is told, as ``"describe age, smoker by ward"``, of which every question is.
        family, where, prior, misses, exposure, event, cuts, start
            Of a formula, as for `regress`; a question has its condition in its words.
        spend, part, level
            What would be paid: of a question a share of the budget; and the level of the intervals.
        records
            How many records to imagine, where that is a secret.
        imagined
            What is known of the columns, such as ``["smoker=20%", "ward:C=5%", "age=0.1"]``, the same by column,
            ``{"smoker": 0.2}``, or an `AssumedDistribution`, which also says which part of the records `where` keeps.
            While something is left unsaid, each term has two widths: one if values are met alike, one if they are rare.
        """
        check_options(PlannedVerbs.plan, options, ())
        shown: PlanOptions = {"part": part, "level": level, "records": records, "imagined": imagined}
        said: dict[str, Any] = {"family": family, "where": where, "prior": prior, "misses": misses}
        said |= {"exposure": exposure, "event": event, "cuts": cuts, "start": start}
        if isinstance(question, str) and "~" in question:
            return self._foreseen(self.formula(question, **said), spend, shown)
        if any(value is not None for value in said.values()):
            raise InvalidValue(
                "family=, where=, prior=, misses=, exposure=, event=, cuts= and start= are of a formula; write a "
                "condition into the question"
            )
        share = parse_spend(spend) if isinstance(spend, str) else spend
        if isinstance(share, str | Promise):
            raise InvalidValue(f"a question is planned for a share of the budget such as 0.05. Got {spend}")
        if (described := parse_description(question)) is not None:
            return self._described_plan(described, float(share), part, records)
        return self._offered(question, self.balance(question, **shown).at(share), part)

    @abstractmethod
    def _foreseen(self, formula: Formula, spend: Spend, options: PlanOptions) -> RegressionPlan:
        """Return the plan of a regression."""

    def share_for(
        self,
        question: Question | str,
        width: float | str,
        part: Budget | None = None,
        *,
        records: int | None = None,
        imagined: AssumedDistribution | Iterable[str] | None = None,
    ) -> float:
        """Return the share of the budget that an answer needs to be known to ± `width`, as `balance` foresees it."""
        offer = self.balance(question, part, records=records, imagined=imagined).for_width(width)
        return self._offered(question, offer, part).share

    @abstractmethod
    def _offered(self, question: Question | str, offer: PricedOption, part: Budget | None = None) -> PricedOption:
        """Return an offer, or raise what asking the question for it would raise."""

    def balance(
        self,
        question: Question | str,
        part: Budget | None = None,
        *,
        baseline: float = 0.01,
        level: float | str = 0.95,
        records: int | None = None,
        imagined: AssumedDistribution | Iterable[str] | None = None,
    ) -> TradeOff:
        """Return how the share, the accuracy and the risk of a question go together: a forecast, free of cost.

        Groups are taken to be equal, flags even, and numbers to spread over a quarter of their bounds, unless records
        are `imagined` to be others, ``["ward:C=5%"]``: a group that few are in takes far more. Where n is a secret,
        `records` says how many to imagine. `baseline` is how often a guess comes true without the answer.
        """
        asked = self._question_of(question)
        purse, n = self._purse(part)
        n = n if records is None else records
        if n is None:
            raise InvalidValue("how many records there are is a secret; say records=..., how many to imagine")
        return TradeOff(asked, n, purse, baseline, imagined_of(imagined, asked.grouped_facts), checked_level(level))

    @abstractmethod
    def _purse(self, part: Budget | None) -> tuple[PrivacyFilter, int | None]:
        """Return the budget that is paid from, and how many records there are; None where that is a secret."""

    def _question_of(self, given: Question | str) -> Question:
        """Return a question that is one, or is said in words."""
        if isinstance(given, str):
            return self.parsed(given)
        if not isinstance(given, Question):
            raise InvalidValue(f"a question is asked in words, such as 'mean of age by ward'. Got {shown(given)}")
        return given

    def parsed(self, text: str) -> Question:
        """Return the question about this table that a text asks."""
        asked = parse_question(text)
        return self.question(asked.pop("verb"), asked.pop("columns"), **asked)

    def question(self, verb: str, columns: Columns, **asked: Any) -> Question:
        """Return a question about this table, made from its facts."""
        if self.facts is None:
            raise InvalidValue("a question needs the facts of the table: Curator(data, facts=..., ...)")
        given = {name: value for name, value in asked.items() if value is not None}
        built = make_question(verb, columns, self.facts, **given)
        check_levels(built.where, self.facts)
        return built


def regression_room() -> Any:
    """Return the room of regressions, or say which extra it needs."""
    try:
        return importlib.import_module("sottovoce.inference.regression")
    except ImportError:
        said = "regressions need the regression extra: pip install 'sottovoce[regression]'"
        raise NotInstalled(said, name="jax") from None
