"""The verbs of a curator: each answer is paid from its purse."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sottovoce.inference.cells.cell_mechanisms import CellMechanism, mechanism_kind
from sottovoce.inference.cells.intervals import checked_level
from sottovoce.inference.cells.questions import Question
from sottovoce.mechanisms import Mechanism
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.numbers import shown
from sottovoce.privacy.profile import Profile
from sottovoce.service.answers.answer import Answer
from sottovoce.service.answers.budget_account import BudgetAccount, Spend
from sottovoce.service.answers.period_words import listed
from sottovoce.service.answers.planned_verbs import regression_room
from sottovoce.service.answers.priced_option import PricedOption
from sottovoce.service.answers.regression import Regression
from sottovoce.service.answers.repeated_question import repeat_note
from sottovoce.service.answers.survival import answer_of
from sottovoce.service.answers.verb_options import PlanOptions, ReleaseOptions
from sottovoce.service.answers.verbs import Verbs
from sottovoce.service.ledger import Budget
from sottovoce.service.ledger.charging import price

if TYPE_CHECKING:  # the room needs an extra
    from sottovoce.inference.regression.formula import Formula
    from sottovoce.inference.regression.regression_plan import RegressionPlan

__all__ = ["PaidVerbs"]

_log = logging.getLogger(__name__)


class PaidVerbs(Verbs, BudgetAccount):
    """The verbs of a `Curator`, who has the budget that they are paid from."""

    def mechanism_for(self, question: Question, spend: Spend = 0.05, part: Budget | None = None) -> CellMechanism:
        """Return the mechanism that would answer a question: the quietest for what the budget's accounting charges."""
        target = self.share(spend, part)
        charged = [self.budget] if part is None else [self.budget, part]

        def share(profile: Profile) -> float:
            return max(item.share(price(item, self.claimed(profile))) for item in charged)

        return mechanism_kind(question, self.n).calibrate(question, self.n, target, price=share)

    def _once(
        self, question: Question | Formula, spend: Spend, part: Budget | None, level: float, options: ReleaseOptions
    ) -> Any:
        self.refresh()
        earlier, again = self._asked_before(question, part, options)
        if earlier is not None and again:
            return self.again(earlier, level=level)
        budget = self.budget if part is None else part
        is_question = isinstance(question, Question)
        find: Callable[..., Mechanism] = self.mechanism_for if is_question else self.looks_for
        mechanism = find(question, spend, part)
        done = self.answered(mechanism, where=question.where, part=part, **options)
        share = budget.share(price(budget, done.release.profile))
        earlier = None if earlier == done.entry else earlier
        if not is_question:
            return Regression(done.release, done.entry, share, level, earlier)
        answer = answer_of(done.release, done.entry, share, level, earlier)
        return answer if earlier is None else self._told_with_earlier(answer, budget)

    def _told_with_earlier(self, answer: Answer, budget: Budget) -> Answer:
        """Return an answer told with what earlier ones to the question know, where a ledger has them."""
        del budget
        return answer

    def looks_for(self, formula: Formula, spend: Spend = 0.05, part: Budget | None = None) -> Any:
        """Return the mechanism that would fit a regression."""
        return regression_room().looks_of(formula, self.n, self.share(spend, part))

    def _asked_before(
        self, question: Question | Formula, part: Budget | None, options: ReleaseOptions
    ) -> tuple[int | None, bool]:
        """Return the entry that answered this very question, if there is one, and whether `again` asks for it.

        Where it does not, that is noted before the question is charged.
        """
        again = options.pop("again", False)
        if not isinstance(again, bool):
            raise InvalidValue(f"again= is True or False. Got {shown(again)}")
        if not again and options.get("idempotency_key") is not None:  # a retry under its key is free anyway
            return None, False
        entry = self.answered_before(question, part)
        if entry is not None and not again:
            _log.warning("%s; this one is paid for anew", repeat_note(entry))
        return entry, again

    @abstractmethod
    def answered_before(self, question: Any, part: Budget | None = None) -> int | None:
        """Return the entry of an answer that these data gave to a question lately, if there is one: `again` is free."""

    @abstractmethod
    def again(self, entry: int, *, level: float | str = 0.95) -> Any:
        """Return an answer that was paid for before, by the number of its entry; free."""

    @abstractmethod
    def ensure_covered(self, mechanism: Mechanism, *, where: str | None = None, part: Budget | None = None) -> None:
        """Raise what asking this would raise now, of the question, the table or the budgets. Nothing is spent."""

    def _offered(self, question: Question | str, offer: PricedOption, part: Budget | None = None) -> PricedOption:
        asked = self._question_of(question)
        self.refresh()
        mechanism = self.mechanism_for(asked, offer.share, part)
        self.ensure_covered(mechanism, where=asked.where, part=part)
        periods = self.charged_to(mechanism, asked.where).get("periods", ())
        return replace(offer, earlier=self.answered_before(asked, part), periods=periods)

    def _foreseen(self, formula: Formula, spend: Spend, options: PlanOptions) -> RegressionPlan:
        part, level = options["part"], checked_level(options["level"])
        self.refresh()
        mechanism = self.looks_for(formula, spend, part)
        self.ensure_covered(mechanism, where=formula.where, part=part)
        built: RegressionPlan = regression_room().plan_looks(
            mechanism, self.share(spend, part), options["records"], level, options["imagined"]
        )
        periods = self.charged_to(mechanism, formula.where).get("periods", ())
        charged = f"charged to {listed(periods)}" if periods else None
        notes = (charged, repeat_note(self.answered_before(formula, part)))
        return replace(built, cautions=(*built.cautions, *filter(None, notes)))

    def _share_left(self, part: Budget | None, where: str | None = None) -> float:
        self.refresh()
        return self.share_left(part, where=where)

    def _purse(self, part: Budget | None) -> tuple[PrivacyFilter, int | None]:
        budget = self.budget if part is None else self._part(part)
        return PrivacyFilter.from_dict(budget.filter), self.n

    def fit(
        self,
        estimator: object,
        features: Sequence[str],
        label: str | None = None,
        *,
        spend: Spend | None = None,
        part: Budget | None = None,
        **options: object,
    ) -> Any:
        """Fit an estimator to the table: one release of its mechanism, charged as every other is.

        Parameters
        ----------
        estimator
            What has ``mechanism_for(n, promise, facts=, features=, label=)`` and ``keep(release)``, as every estimator
            of `sottovoce.faces.estimators` has. Bounds and classes that it was not given come from the facts.
        features, label
            The columns.
        spend
            The promise, or a share of the budget (or of the part); left out, the estimator's own promise.
        part
            The budget to charge: a part of the data set's.
        options
            As in `release`: ``where``, ``missing``, ``rng``, ``idempotency_key``, ``accept_unproven``.
        """
        if not (hasattr(estimator, "mechanism_for") and hasattr(estimator, "keep")):
            raise InvalidValue(f"a curator fits estimators of sottovoce. Got a {type(estimator).__name__}")
        self.refresh()
        if self.n is None:
            raise InvalidValue(
                "an estimator must know how many records there are, and here that is a secret; ask for a regression by "
                "formula, which need not: curator.regress(...)"
            )
        names = [features] if isinstance(features, str) else list(features)
        promise = self.promise(spend, part)
        if promise is not None:  # it is shown one record a person, and speaks of records
            promise = promise.under(replace(promise.relation, unit="record"))
        mechanism = estimator.mechanism_for(self.n, promise, facts=self.facts, features=names, label=label)
        columns = mechanism.columns or [*names, *([] if label is None else [label])]
        columns = columns[0] if len(columns) == 1 else columns
        return estimator.keep(self.answered(mechanism, columns, part=part, **options).release)
