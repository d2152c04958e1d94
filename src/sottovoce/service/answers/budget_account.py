"""The purse of a curator: shares of a budget, its parts, what is left of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sottovoce.mechanisms import Mechanism
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.filter import Order, PrivacyFilter
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import Promise, parse_promise
from sottovoce.privacy.relation import REPLACE_ONE, check_same
from sottovoce.privacy.shares import percent
from sottovoce.records.facts.periods import Periods
from sottovoce.service.answers.period_words import left_in_words
from sottovoce.service.answers.question_parser import parse_spend
from sottovoce.service.ledger import Budget, Division, Entry

if TYPE_CHECKING:  # opens a database
    from sottovoce.service.ledger import Ledger

Spend = Promise | float | str


def like_the_last(left: float, last: float | None) -> str:
    """Return how many more answers like the last are covered by what is left, in words; nothing where none was paid.

    >>> like_the_last(0.5, 0.0004), like_the_last(0.5, 0.6), like_the_last(0.5, None)
    (': about 1,250 more like the last', ': too little for one more like the last', '')
    """
    if last is None or not last > 0:
        return ""
    more = int(left / last * (1 + 1e-9))
    return f": about {more:,} more like the last" if more else ": too little for one more like the last"


class BudgetAccount(ABC):
    """The budget of a data set in a ledger, and what is paid from it."""

    dataset: str
    who: str
    person: str | None
    budget: Budget
    periods: Periods | None = None
    """The periods of the data, each with the budget's limit to itself; None where they have none, or nobody says."""
    _division: Division | None = None
    _ledger: Ledger

    @abstractmethod
    def answered(self, mechanism: Mechanism, column: str | Sequence[str] | None = None, **options: object) -> Any:
        """Return a release with the number of its entry: paid for, made and recorded."""

    def charged_to(self, mechanism: Mechanism, where: str | None) -> dict[str, Any]:
        """Return the periods that a question reads; nothing where there are none, or it may read any."""
        del mechanism, where
        return {}

    @property
    def n(self) -> int | None:
        """How many records there are, or persons where these are protected; None where that is a secret."""
        return self.budget.n

    def refresh(self) -> None:  # noqa: B027 - what is asked of a budget that is not open does nothing
        """Take data that grow as they are now; nothing where they stay as they are."""

    def promise(self, spend: Promise | float | str | None, part: Budget | None = None) -> Promise | None:
        """Return the promise that goes with a share (``0.05``, ``"5%"``) of the budget, or of a part, as it was opened.

        A promise, or its text, stays what it is; where it names no relation, it is about the budget's neighbours.
        """
        if isinstance(spend, str):
            read = parse_spend(spend)
            spend = parse_promise(read) if isinstance(read, str) else read
        budget = self._payer(part)
        if spend is None:
            return None
        if isinstance(spend, Promise):
            meant = spend
            if spend.relation == REPLACE_ONE:
                meant = spend.under(budget.relation)
            elif self.person is not None:
                meant = spend.under(replace(spend.relation, unit="person"))
            check_same(meant.relation, budget.relation, "a budget or a part of it pays for claims about its neighbours")
            return meant
        return PrivacyFilter.from_dict(budget.filter).share(spend)

    def share(self, fraction: Spend, part: Budget | None = None) -> Promise:
        """Return the promise that costs a share of the budget as it was opened, in the notion it is counted in."""
        promise = self.promise(fraction, part)
        if promise is None:
            raise InvalidValue("spend= says what a question may cost: a share of the budget such as 0.05, or a promise")
        return promise

    def claimed(self, profile: Profile) -> Profile:
        """Return what a mechanism's claim about its records says here: where persons are protected, of a person.

        A mechanism is then shown one record a person, the average of theirs or one row; see `Table.read`.
        """
        return profile.shown_to(self.budget.relation)

    def open_part(self, name: str, promise: Promise | float | str, *, order: Order | None = None) -> Budget:
        """Open a part of the data set's budget for one person, or return it where it is open already.

        What the part is charged, the whole is charged in the same transaction: parts may add up to more than
        the whole, and their holders together still never exceed it.

        Parameters
        ----------
        name
            Whose part it is.
        promise
            A share of the whole (``0.25``, ``"25%"``), counted as the whole is and so in proportion to it: what costs
            10 % of a quarter costs 2.5 % of the whole. Or a promise of its own, such as ``ApproxDP(0.5, 1e-6)``, which
            this person's answers together then keep, counted at the order that suits *it*. Strengths of such promises
            are not in proportion: half the ε is about a quarter of the answers.
        order
            The Rényi order for a promise of its own, or ``"gaussian"``; the best one unless given.
        """
        if not isinstance(name, str) or not name.strip():
            raise InvalidValue("a part is named after whoever holds it; the name must not be empty")
        promise = self.share(promise)
        result = self._ledger.find_budget(f"{self.dataset}/{name}")
        if result is not None and order is None and (result.promise, result.whole) == (promise, self.budget.id):
            return result  # parts were once counted at the order of the whole
        facts: dict[str, Any] = {"n": self.budget.n, "schema": self.budget.schema, "order": order, "who": self.who}
        return self._ledger.open_budget(f"{self.dataset}/{name}", promise, whole=self.budget, **facts)

    def _payer(self, part: Budget | None) -> Budget:
        """Return the part that is to be charged, or the budget where none is."""
        return self.budget if part is None else self._part(part)

    def _part(self, part: Budget) -> Budget:
        if not isinstance(part, Budget):
            raise InvalidValue(f"a part is what open_part returns. Got a {type(part).__name__}")
        if part.whole != self.budget.id:
            raise InvalidValue(f"{part.dataset!r} is no part of the budget of {self.dataset!r}")
        return part

    def share_left(self, part: Budget | None = None, *, where: str | None = None) -> float:
        """Return the share of the budget, or of a part, that is not spent.

        Of data with periods, what the fullest has of those that a condition reads: of all, where it is not said.
        """
        budget = self._payer(part)
        if self._division is not None:
            shares = self.left_by_period(part)
            return min(shares[name] for name in (shares if self.periods is None else self.periods.reached(where)))
        return 1 - float(self._ledger.spent(budget)) / budget.limit if budget.limit else 0.0

    def left_by_period(self, part: Budget | None = None) -> dict[str, float]:
        """Return the share of the budget, or of a part, that each period has left; nothing where there are none."""
        budget = self._payer(part)
        spent = self._ledger.spent_by_period(budget)
        return {name: 1 - float(total) / budget.limit if budget.limit else 0.0 for name, total in spent.items()}

    def left(self, part: Budget | None = None) -> str:
        """Return what is left of the budget, or of a part, in words: ``50 % left: about 10 more like the last``.

        Of data with periods, what each has left: ``left: 50 % of 2024-01; 100 % of 2024-02 to no period``.
        `Budget.counted` says what is added up: ``curator.budget.counted``.
        """
        if self._division is not None:
            return left_in_words(self.left_by_period(part))
        budget = self._payer(part)
        share = max(0.0, round(self.share_left(part), 9))  # a hair left is nothing
        last = self._ledger.last_cost(budget)
        return f"{percent(share)} left{like_the_last(share * budget.limit, last)}"

    def remaining(self, part: Budget | None = None) -> Promise:
        """Return what is left of the budget, or of a part of it."""
        return self._ledger.remaining(self._payer(part))

    def history(self) -> list[Entry]:
        """Return every entry charged to the budget or a part of it, oldest first, verified."""
        return self._ledger.entries(self.dataset)

    def pending(self) -> list[Entry]:
        """Return what was reserved and has not ended: under way now, or left by a process that died."""
        return self._ledger.pending(self.dataset)
