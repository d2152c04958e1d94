"""The verbs: the questions people ask, each one release, with an answer one can read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast

from sottovoce.inference.cells.intervals import checked_level
from sottovoce.inference.cells.question_checks import names_of
from sottovoce.inference.cells.questions import Question
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import shown
from sottovoce.records.facts import Cells
from sottovoce.records.facts.bands import group_texts
from sottovoce.records.facts.condition_parser import check_levels
from sottovoce.service.answers.answer import Answer
from sottovoce.service.answers.budget_account import Spend
from sottovoce.service.answers.description import Description
from sottovoce.service.answers.description_questions import table_questions
from sottovoce.service.answers.planned_verbs import Columns, Groups, PlannedVerbs
from sottovoce.service.answers.question_parser import parse_spend
from sottovoce.service.answers.regression import Regression
from sottovoce.service.answers.survival import SurvivalAnswer
from sottovoce.service.answers.verb_options import AnswerOptions, ReleaseOptions, check_options
from sottovoce.service.ledger import Budget

if TYPE_CHECKING:  # the room needs an extra
    from sottovoce.inference.regression.formula import Formula

__all__ = ["Verbs"]


class Verbs(PlannedVerbs):
    """What a `Curator`, or a server's `Client`, can be asked, in the words of the question.

    Every verb takes `by` (columns of categories or flags, or bands of a number such as ``"age: under 18, 18-64, 65+"``
    or ``"age: 12 bands"``; every combination gets a row, all at one price), `where` (which records it is about; the
    others count as outside, never as a value), `spend` (a share of the budget as it was opened, or a promise) and
    `part` (charge a part of the budget).
    """

    def answer(
        self,
        question: Question,
        *,
        spend: Spend = 0.05,
        part: Budget | None = None,
        level: float | str = 0.95,
        **options: Unpack[ReleaseOptions],
    ) -> Answer:
        """Answer a question: charged durably before any record is read, recorded before anyone sees it.

        The options are those of `proportion`; every verb that asks a question comes here.
        """
        check_options(getattr(Verbs, question.verb), options)
        answer: Answer = self._once(question, spend, part, checked_level(level), options)
        return answer

    @abstractmethod
    def _once(
        self, question: Question | Formula, spend: Spend, part: Budget | None, level: float, options: ReleaseOptions
    ) -> Any:
        """Return the answer to a question or a formula, paid for once; or an earlier one, where that is asked for."""

    def proportion(
        self,
        column: str,
        *,
        by: Groups = None,
        where: str | None = None,
        spend: Spend = 0.05,
        pool: bool | str = False,
        prior: float = 1.5,
        part: Budget | None = None,
        **options: Unpack[AnswerOptions],
    ) -> Answer:
        """Return the share of records with a flag, or with each category of a column; missing values are left out.

        Parameters
        ----------
        column
            A flag or a column of categories.
        by, where, spend, part
            As for every verb.
        pool
            Let groups share strength: each group's shares lie around common ones, as closely as the groups say. Or
            ``"time"``: the groups of the first column of `by` follow one another, each near that before it;
            ``"season"``: months or quarters, moreover alike from year to year.
        prior
            How many records the prior counts for in each group, shared by the values; 1.5 unless given.
        options
            As in `Curator.release`: ``idempotency_key``, ``rng``. ``again=True`` tells the earlier answer to this very
            question, free, where there is one; otherwise one that is paid for again is noted in the log beforehand.
        """
        asked = {"by": by, "where": where, "pool": pool, "prior": prior}
        return self.answer(self.question("proportion", column, **asked), spend=spend, part=part, **options)

    def mean(
        self,
        column: str,
        *,
        by: Groups = None,
        where: str | None = None,
        spend: Spend = 0.05,
        pool: bool | str = False,
        tails: str = "any",
        part: Budget | None = None,
        **options: Unpack[AnswerOptions],
    ) -> Answer:
        """Return the mean of a column of numbers; its spread is unknown, and missing values are left out.

        The parameters are those of `proportion`, and `tails`: what is assumed of how values thin out. ``"any"`` assumes
        nothing. ``"smooth"`` looks first where the tail begins, and takes it to go on as a generalized Pareto law does:
        where bounds are far beyond nearly all values, intervals are a half to a third as wide. The answer says how many
        records could hide beyond, unseen, and what they would do to the mean.
        """
        asked = {"by": by, "where": where, "pool": pool, "tails": tails}
        return self.answer(self.question("mean", column, **asked), spend=spend, part=part, **options)

    def total(
        self,
        column: str,
        *,
        by: Groups = None,
        where: str | None = None,
        spend: Spend = 0.05,
        part: Budget | None = None,
        **options: Unpack[AnswerOptions],
    ) -> Answer:
        """Return the sum of a column of numbers over the records themselves; missing values are left out.

        The parameters are those of `proportion`. Mean and standard deviation of the same release are free:
        ``answer.mean()``, ``answer.sd()``.
        """
        asked = {"by": by, "where": where}
        return self.answer(self.question("total", column, **asked), spend=spend, part=part, **options)

    def sd(
        self,
        column: str,
        *,
        by: Groups = None,
        where: str | None = None,
        spend: Spend = 0.05,
        part: Budget | None = None,
        **options: Unpack[AnswerOptions],
    ) -> Answer:
        """Return the standard deviation of a column of numbers: of the records themselves, as papers tell it.

        The parameters are those of `proportion`. Mean and total of the same release are free: ``answer.mean()``,
        ``answer.total()``; so is the standard deviation of a mean that was paid for, ``answer.sd()``.
        """
        asked = {"by": by, "where": where}
        return self.answer(self.question("sd", column, **asked), spend=spend, part=part, **options)

    def rate(
        self,
        column: str,
        *,
        exposure: str | None = None,
        by: Groups = None,
        where: str | None = None,
        spend: Spend = 0.05,
        pool: bool | str = False,
        part: Budget | None = None,
        **options: Unpack[AnswerOptions],
    ) -> Answer:
        """Return how often something happens: the sum of counts over the number of records, or over `exposure`.

        With an exposure the column may be one of any numbers: see `ratio`.
        """
        asked = {"by": by, "where": where, "pool": pool, "exposure": exposure}
        return self.answer(self.question("rate", column, **asked), spend=spend, part=part, **options)

    def ratio(self, column: str, per: str, **options: Any) -> Answer:
        """Return the sum of a column over the sum of another, such as costs per day: a `rate` with an exposure."""
        return self.rate(column, exposure=per, **options)

    def counts(
        self,
        columns: Columns | Cells,
        *,
        by: Groups = None,
        where: str | None = None,
        spend: Spend = 0.05,
        pool: bool | str = False,
        prior: float = 1.5,
        part: Budget | None = None,
        **options: Unpack[AnswerOptions],
    ) -> Answer:
        """Return how many records hold each combination of the values of some columns: a contingency table.

        Columns of numbers are cut by `Cells`: ``curator.counts(Cells(facts, {"age": 12, "ward": ...}))``. Any model
        can then be fitted to the answer, see `sottovoce.inference.custom.fit_model`.
        """
        asked: dict[str, object] = {"by": by, "where": where, "pool": pool, "prior": prior}
        if isinstance(columns, Cells):
            asked["cells"], columns = columns, columns.names
        return self.answer(self.question("counts", columns, **asked), spend=spend, part=part, **options)

    def quantiles(
        self,
        column: str,
        at: Sequence[float | str] | float | str = (0.25, 0.5, 0.75),
        *,
        by: Groups = None,
        where: str | None = None,
        spend: Spend = 0.05,
        part: Budget | None = None,
        **options: Any,
    ) -> Answer:
        """Return quantiles of a column of numbers, searched for in a few rounds of counts; by default the quartiles.

        `at` says which, as probabilities or in percent, ``["10%", "90%"]``.
        """
        if options.pop("bins", 0) != 0:  # what they were cut into before they were searched for
            raise InvalidValue("quantiles are searched for, in cells as narrow as the noise allows; leave bins out")
        asked = {"by": by, "where": where, "at": at}
        return self.answer(self.question("quantiles", column, **asked), spend=spend, part=part, **options)

    def survival(
        self,
        column: str,
        *,
        event: str,
        cuts: Sequence[float] | int | None = None,
        by: Groups = None,
        where: str | None = None,
        spend: Spend = 0.05,
        part: Budget | None = None,
        **options: Unpack[AnswerOptions],
    ) -> SurvivalAnswer:
        """Return the share of records still without an event at some times: a curve for every group, with its band.

        One histogram is released, of groups, of whether a time ended in the event, and between which cuts. It tells
        medians, restricted means, who is at risk, and differences between groups, all free.

        Parameters
        ----------
        column, event
            How long a record was followed, and the flag that says whether its time ended in the event; where it did
            not, the record is censored then. Or a category of several events of which one rules the others out, whose
            first value is of those censored: the curve is of any of them, and ``answer.incidences`` tells them apart.
            A record without one of the two is left out.
        cuts
            The times to tell of, public and rising; or how many, evenly up to the bound: 12 unless given. Whoever is
            followed beyond the last is still without the event there.
        by, where, spend, part, options
            As for every verb.
        """
        asked = {"by": by, "where": where, "event": event, "cuts": cuts}
        answer = self.answer(self.question("survival", column, **asked), spend=spend, part=part, **options)
        return cast("SurvivalAnswer", answer)

    def describe(
        self,
        columns: Columns,
        *,
        by: Groups = None,
        where: str | None = None,
        spend: float | str = 0.2,
        part: Budget | None = None,
        level: float | str = 0.95,
        **options: object,
    ) -> Description:
        """Return Table 1 of some columns: numbers as mean (SD) and median [IQR], categories as n (%), missing ones.

        It is made of several questions, each an entry of its own, whose shares add up to `spend`: in the proportion of
        the widths that are foreseen, so that all are about equally wide beside what their columns vary by. Nothing is
        asked unless all is covered; should one fail, it is said which were charged. With `again=True` those that were
        answered before cost nothing.

        Parameters
        ----------
        columns
            Flags, categories and numbers.
        by, where, part, level, options
            As for every verb.
        spend
            The share of the budget that all of it may cost.
        """
        check_options(Verbs.describe, options)
        if self.facts is None:
            raise InvalidValue("a description needs the facts of the table: Curator(data, facts=..., ...)")
        share = parse_spend(spend) if isinstance(spend, str) else spend
        if isinstance(share, str | bool) or not isinstance(share, int | float) or not 0 < share <= 1:
            raise InvalidValue(f"a description is paid by a share of the budget such as 0.2. Got {shown(spend)}")
        names = names_of(columns)
        groups = group_texts(by if isinstance(by, Cells) else names_of(by), self.facts)
        asked = table_questions(names, groups, self.facts, where)
        for question in asked:
            check_levels(question.where, self.facts)
        certain, shares = checked_level(level), self.shares_of(asked, float(share), part)
        if not options.get("again"):
            self._check_left(float(share), part, where)
        key, answers = options.pop("idempotency_key", None), list[Answer]()
        for place, (question, paid) in enumerate(zip(asked, shares, strict=True)):
            keyed: ReleaseOptions = {} if key is None else {"idempotency_key": f"{key}-{place + 1}"}
            try:
                answers.append(self.answer(question, spend=paid, part=part, level=certain, **options, **keyed))
            except Exception as error:
                if answers:
                    entries = ", ".join(str(answer.entry) for answer in answers)
                    error.add_note(f"the description was answered in part, and that is charged: entries {entries}")
                raise
        return Description(names, groups, self.facts, tuple(answers), where)

    def regress(
        self,
        formula: str,
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
        **options: Unpack[AnswerOptions],
    ) -> Regression:
        """Return a regression such as ``"smoker ~ age + C(ward) + age:sex"``: a table of terms with intervals.

        Parameters
        ----------
        formula
            Columns, ``C(column)``, ``a:b``, ``a*b``, ``0 +`` and ``(1 | group)``; levels, bounds and scales are the
            facts' own.
        family
            ``logistic``, ``probit``, ``linear``, ``poisson`` or ``multinomial``, by the response's kind unless given;
            ``ordinal`` of a category whose values are declared in their order, or a count up to 11: proportional odds.
        where, spend, part
            As for every verb. A record with a missing value is left out, unless the facts say what it counts as.
        prior
            The prior standard deviation of the linear predictor; see `Formula`.
        misses
            How much the formula may miss, as a part of how far responses vary about it; 0 takes it to be right:
            intervals are mostly narrower then, and too narrow where it is not. See `Formula`.
        exposure
            Of counts the column of numbers that says how long or of how many each record was counted, such as days at
            risk: rates are per unit of it. ``+ offset(log(days))`` in the formula says the same.
        event, cuts, start
            A flag that says whether the time that is explained, ``"days ~ age + C(ward)"``, ended in the event: the
            table is of hazard ratios. Hazards are constant between public cuts: rising times, or into how many
            intervals of one width the time is cut, 6 unless given. ``start`` is the column that says when follow-up
            began, where that is not at 0 for all (left truncation).
        options
            As in `Curator.release`, and ``level`` of the intervals.
        """
        said: dict[str, Any] = {"prior": prior, "misses": misses, "exposure": exposure}
        said |= {"event": event, "cuts": cuts, "start": start}
        asked = self.formula(formula, family=family, where=where, **said)
        return self.regression(asked, spend, part, **options)

    def regression(
        self,
        formula: Formula,
        spend: Spend = 0.05,
        part: Budget | None = None,
        *,
        level: float | str = 0.95,
        **options: Unpack[ReleaseOptions],
    ) -> Regression:
        """Fit a regression: charged once, durably, before any record is read, however often it looks at them."""
        check_options(Verbs.regress, options)
        fitted: Regression = self._once(formula, spend, part, checked_level(level), options)
        return fitted

    def ask(
        self, text: str, *, spend: Spend = 0.05, part: Budget | None = None, **options: Unpack[AnswerOptions]
    ) -> Answer:
        """Return the answer to a question in words, such as ``"mean of sbp by ward where age >= 40"``."""
        return self.answer(self.parsed(text), spend=spend, part=part, **options)
