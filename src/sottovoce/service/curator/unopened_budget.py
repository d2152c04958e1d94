"""A budget as it would be opened: a question that it could not pay for opens none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NoReturn

from sottovoce.mechanisms import Mechanism
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.relation import ADD_REMOVE
from sottovoce.service.answers.paid_verbs import PaidVerbs
from sottovoce.service.curator.budget_opening import hides_n
from sottovoce.service.curator.privacy_unit import Protected
from sottovoce.service.ledger import Budget
from sottovoce.service.ledger.charging import charged, price

_ANY = 1000
"""How many records are imagined where that is public: what keeps a promise costs the same of any number of them."""


class UnopenedBudget(PaidVerbs):
    """The purse of a curator whose budget is not open yet: it knows what an answer would cost, and pays for none.

    Parameters
    ----------
    dataset, promise, protected
        What the budget would be of, all that it would allow, and whom it would protect.
    said
        What the curator is told of n: ``"private"`` where it is a secret.
    records
        How many there are, where that is public.

    Examples
    --------
    >>> from sottovoce.records.facts import Facts, Number
    >>> from sottovoce.privacy.promises import PureDP
    >>> purse = UnopenedBudget("patients", PureDP(1.0), Protected.of(Facts(sbp=Number(60, 250)), None))
    >>> purse.ensure_covered(purse.mechanism_for(purse.question("mean", "sbp"), PureDP(2.0)))
    Traceback (most recent call last):
    ...
    sottovoce.privacy.errors.BudgetExceeded: the budget of patients does not cover it: it takes 200 % of it ...
    """

    def __init__(
        self, dataset: str, promise: Promise, protected: Protected, said: str | None = None, records: int = _ANY
    ) -> None:
        hidden, meant = hides_n(promise, said), protected.meant(promise)
        meant = meant.under(replace(meant.relation, kind=ADD_REMOVE.kind)) if hidden else meant
        purse = PrivacyFilter(meant)
        self.facts, self.person, self.dataset, self.who = protected.facts, protected.person, dataset, ""
        n = None if meant.relation.hides_n else records
        self.budget = Budget(0, dataset, meant, n, {}, purse.to_dict(), float(purse.limit), "", "")

    def answered(self, mechanism: Mechanism, column: str | Sequence[str] | None = None, **options: object) -> NoReturn:
        """Refuse: there is no ledger to charge."""
        raise InvalidValue(f"the budget of {self.dataset} is not open yet")

    def answered_before(self, question: Any, part: Budget | None = None) -> None:
        """Return None: nothing was answered."""

    def share_left(self, part: Budget | None = None, *, where: str | None = None) -> float:
        """Return that all of it is left."""
        return 1.0

    def again(self, entry: int, *, level: float | str = 0.95) -> NoReturn:
        """Refuse: nothing was answered."""
        raise InvalidValue(f"the budget of {self.dataset} is not open yet")

    def ensure_covered(
        self, mechanism: Mechanism, *, where: str | None = None, part: Budget | None = None, draws: int = 1
    ) -> None:
        """Raise `BudgetExceeded` where not even the whole budget would pay for a release."""
        charged(self.budget, Fraction(0), price(self.budget, self.claimed(mechanism.cost(draws))))
