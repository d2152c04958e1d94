"""Charging: what a request costs a budget, and when it is refused.

Sums are exact, so that no order of entries lets their total past the limit.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from sottovoce.privacy.errors import BudgetExceeded, InvalidValue, LedgerUnavailable
from sottovoce.privacy.filter import Order, PrivacyFilter, checked_cost
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.shares import percent
from sottovoce.service.ledger.hash_chain import canonical
from sottovoce.service.ledger.records import Budget, Entry, State

__all__ = [
    "Charge",
    "EntryPending",
    "KeyTaken",
    "Reservation",
    "answered",
    "charged",
    "check_same",
    "price",
    "what_is_left",
]


class EntryPending(LedgerUnavailable):
    """A request with this idempotency key was reserved and has not ended; this one spent nothing.

    `entry` is what was reserved, where that is known: whoever may not close it is told something else.
    """

    def __init__(self, message: str, entry: Entry | None = None) -> None:
        super().__init__(message)
        self.entry = entry


class KeyTaken(InvalidValue):
    """The idempotency key belongs to another request; this one spent nothing."""


class Charge(NamedTuple):
    """A request as it is charged to a budget, and to its whole: made once, however often it is asked.

    Attributes
    ----------
    request, profile
        What is asked, in plain values, and what it provably costs; their texts as `canonical` has them.
    cost, whole_cost
        In the units of the filters of the budget and of its whole.
    periods, division
        The periods that it reads, where the data have any, and the number of the event that named them.
    """

    budget: Budget
    whole: Budget | None
    request: Mapping[str, Any]
    profile: Profile
    request_text: str
    profile_text: str
    cost: float
    whole_cost: float | None
    periods: tuple[str, ...] | None = None
    division: int | None = None

    @property
    def profile_state(self) -> Mapping[str, Any]:
        """The profile in plain values, as an entry has it."""
        return _state(self.profile_text)

    @classmethod
    def of(
        cls,
        budget: Budget,
        whole: Budget | None,
        profile: Profile,
        request: Mapping[str, object],
        periods: tuple[str, ...] | None = None,
        division: int | None = None,
    ) -> Charge:
        """Price a request."""
        asked = dict(request)
        whole_cost = None if whole is None else price(whole, profile)
        texts = canonical(asked), profile.text
        return cls(budget, whole, asked, profile, *texts, price(budget, profile), whole_cost, periods, division)


@dataclass
class Reservation:
    """The right to release once, held by the process that reserved it and by no other.

    `token` never leaves the process unless it voids: the ledger holds only its hash, so nobody else can give
    the budget back. `reserved` is what was reserved: the charge, by whom, when, under which key. It is
    `resumed` where it takes up what was paid for before, and is then not given back.
    """

    entry: int
    token: str = field(repr=False)
    touched: bool = False
    resumed: bool = False
    reserved: tuple[Charge, str, str, str | None] | None = field(default=None, repr=False)

    def touch(self) -> None:
        """Say that the data is about to be read; from here on the cost is never given back."""
        self.touched = True


def price(budget: Budget, profile: Profile) -> float:
    """Return what a profile costs, in the units of the filter fixed when the budget was opened."""
    return _cost(budget.promise, budget.filter["order"], profile)


def what_is_left(budget: Budget, spent: Fraction) -> Promise:
    """Return what is left of a budget, as a promise of its kind, rounded down."""
    return _fixed_filter(budget.promise, budget.filter["order"]).remaining_after(spent)


def charged(budget: Budget, spent: Fraction, cost: float, period: str | None = None) -> Fraction:
    """Return the exact total after a charge, of a period where one is named, or refuse it."""
    if not (type(cost) is float and cost >= 0.0):  # nearly all are; checked every time, whatever is remembered
        cost = checked_cost(cost)
    if cost < math.inf:
        # In whole numbers, which are as exact as fractions, and made into one once.
        (above, below), (limit, parts) = cost.as_integer_ratio(), budget.limit.as_integer_ratio()
        so_far, each = spent.as_integer_ratio()
        above, below = so_far * below + above * each, each * below
        if above * parts <= limit * below:
            return Fraction(above, below)
    why = _drawn_down(budget, spent).refusal(cost)
    if math.isfinite(cost) and budget.limit > 0:
        remaining = float(1 - spent / Fraction(budget.limit))
        why = f"it takes {percent(cost / budget.limit)} of it and {percent(remaining)} is left ({why})"
    where = "" if period is None else f" in {period}"
    raise BudgetExceeded(f"the budget of {budget.dataset} does not cover it{where}: {why}; nothing was spent")


def _unlike(entry: Entry, asked: Charge) -> str:
    """Return in what two requests differ: in which parts, or in what they cost."""
    first, second = json.loads(canonical(entry.request)), json.loads(asked.request_text)
    unlike = {name for name in {*first, *second} if first.get(name) != second.get(name)}
    parts = sorted("question" if name == "asked" else name for name in unlike)
    return f", which has another {', '.join(parts) or 'cost'}"


def check_same(entry: Entry, asked: Charge) -> None:
    """Refuse a key that belongs to another request."""
    if (canonical(entry.request), canonical(entry.profile_state)) != (asked.request_text, asked.profile_text):
        raise KeyTaken(
            f"the key {entry.key!r} belongs to another request, entry {entry.id}{_unlike(entry, asked)}; "
            "ask as then for its answer, or use a new key and pay for another"
        )


def answered(entry: Entry, asked: Charge) -> Entry:
    """Return the entry that bears a request's key, if it is the answer to this very request."""
    check_same(entry, asked)
    if entry.state is not State.COMMITTED:
        why = f"was reserved as entry {entry.id} at {entry.at} and is {entry.state}; it counts as spent."
        if entry.state is State.PENDING:
            why += f" If its process died, close it: sottovoce ledger recover … {entry.id}, or Ledger.recover."
        raise EntryPending(f"the request with key {entry.key!r} {why} To pay for another answer, use a new key", entry)
    return entry


def _drawn_down(budget: Budget, spent: Fraction) -> PrivacyFilter:
    rounded = float(spent)
    if Fraction(rounded) < spent:
        rounded = math.nextafter(rounded, math.inf)
    return PrivacyFilter.from_dict(budget.filter, [rounded])


@functools.lru_cache(maxsize=1024)
def _state(profile_text: str) -> Mapping[str, Any]:
    state: Mapping[str, object] = json.loads(profile_text)
    return state


@functools.lru_cache(maxsize=1024)
def _cost(promise: Promise, order: Order | None, profile: Profile) -> float:
    return float(_fixed_filter(promise, order).cost(profile))


@functools.lru_cache
def _fixed_filter(promise: Promise, order: Order | None) -> PrivacyFilter:
    return PrivacyFilter(promise, order)
