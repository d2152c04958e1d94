"""The verbs of a curator: each answer is paid from its purse."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sottovoce.answers.answer import Answer
from sottovoce.answers.intervals import checked_level
from sottovoce.answers.noisy_cells import NoisyCells
from sottovoce.answers.purse import Purse, Spend
from sottovoce.answers.questions import Question
from sottovoce.answers.regression import Regression
from sottovoce.answers.verbs import Verbs, check_options, regression_room
from sottovoce.facts.imagined import Imagined
from sottovoce.ledger import Budget
from sottovoce.ledger.charging import price
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.profile import Profile

if TYPE_CHECKING:  # the room needs an extra
    from sottovoce.regression.formula import Formula
    from sottovoce.regression.planned import RegressionPlan

__all__ = ["PaidVerbs"]


class PaidVerbs(Verbs, Purse):
    """The verbs of a `Curator`, who has the budget that they are paid from."""

    def mechanism_for(self, question: Question, spend: Spend = 0.05, part: Budget | None = None) -> NoisyCells:
        """Return the mechanism that would answer a question: the quietest for what the budget's accounting charges."""
        budget = self.budget if part is None else part
        target = self.share(spend, part)
        charged = [self.budget] if part is None else [self.budget, part]

        def share(profile: Profile) -> float:
            return max(one.share(price(one, self.claimed(profile))) for one in charged)

        return NoisyCells.calibrate(question, budget.n, target, price=share)

    def answer(
        self,
        question: Question,
        *,
        spend: Spend = 0.05,
        part: Budget | None = None,
        level: float | str = 0.95,
        **options: Any,
    ) -> Answer:
        """Answer a question: charged durably before any record is read, recorded before anyone sees it."""
        check_options(getattr(Verbs, question.verb), options)
        level = checked_level(level)  # before anything is spent
        mechanism = self.mechanism_for(question, spend, part)
        done = self.answered(mechanism, where=question.where, part=part, **options)
        budget = self.budget if part is None else part
        share = budget.share(price(budget, done.release.profile))
        return Answer(done.release, done.entry, share, level)

    def looks_for(self, formula: Formula, spend: Spend = 0.05, part: Budget | None = None) -> Any:
        """Return the mechanism that would fit a regression."""
        budget = self.budget if part is None else part
        return regression_room().AdaptiveLooks.calibrate(formula, budget.n, self.share(spend, part))

    def regression(
        self,
        formula: Formula,
        spend: Spend = 0.05,
        part: Budget | None = None,
        *,
        level: float | str = 0.95,
        **options: Any,
    ) -> Regression:
        """Fit a regression: charged once, durably, before any record is read, however often it looks at them."""
        check_options(Verbs.regress, options)
        level = checked_level(level)
        budget = self.budget if part is None else part
        mechanism = self.looks_for(formula, spend, part)
        done = self.answered(mechanism, where=formula.where, part=part, **options)
        return Regression(done.release, done.entry, budget.share(price(budget, done.release.profile)), level)

    def _foreseen(
        self,
        formula: Formula,
        spend: Spend,
        *,
        part: Budget | None,
        level: float | str,
        records: int | None,
        imagined: Imagined | Iterable[str] | None,
    ) -> RegressionPlan:
        mechanism = self.looks_for(formula, spend, part)
        made: RegressionPlan = regression_room().plan_looks(
            mechanism, self.share(spend, part), records, checked_level(level), imagined
        )
        return made

    def _purse(self, part: Budget | None) -> tuple[PrivacyFilter, int | None]:
        budget = self.budget if part is None else part
        return PrivacyFilter.from_dict(budget.filter), budget.n

    def fit(
        self,
        estimator: Any,
        features: Sequence[str],
        label: str | None = None,
        *,
        spend: Spend | None = None,
        part: Budget | None = None,
        **options: Any,
    ) -> Any:
        """Fit an estimator to the table: one release of its mechanism, charged as every other is.

        Parameters
        ----------
        estimator
            What has ``mechanism_for(n, promise, facts=, features=, label=)`` and ``keep(release)``, as every estimator
            of `sottovoce.estimators` has. Bounds and classes that it was not given come from the facts.
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
        if self.budget.n is None:
            raise InvalidValue(
                "an estimator must know how many records there are, and here that is a secret; ask for a regression by "
                "formula, which need not: curator.regress(...)"
            )
        names = [features] if isinstance(features, str) else list(features)
        promise = self.promise(spend, part)
        if promise is not None:  # it is shown one record a person, and speaks of records
            promise = promise.under(replace(promise.relation, unit="record"))
        mechanism = estimator.mechanism_for(self.budget.n, promise, facts=self.facts, features=names, label=label)
        columns = mechanism.columns or [*names, *([] if label is None else [label])]
        columns = columns[0] if len(columns) == 1 else columns
        return estimator.keep(self.answered(mechanism, columns, part=part, **options).release)
