"""Changes: what is done to a ledger within a transaction, which may hold other changes too.

Each is made outside of the transaction and written inside of it. It checks first and writes then, and raises what it
refuses.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from sottovoce.privacy.errors import InvalidValue, LedgerCorrupt
from sottovoce.service.ledger import queries
from sottovoce.service.ledger.charging import Charge, Reservation, answered, check_same
from sottovoce.service.ledger.group_commit import About, Change
from sottovoce.service.ledger.hash_chain import Head, SealedText, canonical, commit_body, digest, reserve_body
from sottovoce.service.ledger.period_queries import find_division, given_back, periods_charged, spending, total_after
from sottovoce.service.ledger.records import Budget, DataVersion, Division, Entry, State
from sottovoce.service.ledger.schema import now
from sottovoce.service.ledger.transaction import Transaction

__all__ = [
    "committed",
    "committing",
    "dividing",
    "growing",
    "leaving_unread",
    "noting",
    "opening",
    "recovering",
    "reserving",
    "resuming",
    "totalling",
    "voiding",
]


class _Tokens:
    """Tokens that nobody can guess, from randomness taken for many at once; a forked child takes its own."""

    def __init__(self) -> None:
        self._process, self._ready = 0, list[str]()

    def __next__(self) -> str:
        if self._process != os.getpid():
            self._process, self._ready = os.getpid(), []
        try:
            return self._ready.pop()  # one thread's, whoever else asks
        except IndexError:
            lot = secrets.token_hex(64 * 16)
            self._ready.extend(lot[i : i + 32] for i in range(32, len(lot), 32))
            return lot[:32]


_TOKENS = _Tokens()


def opening(dataset: str, facts: Mapping[str, object], source: Mapping[str, object] | None, who: str) -> Change:
    """Open a data set's budget where it has none; its budget comes back."""

    def change(transaction: Transaction) -> Budget | None:
        transaction.lock_head()
        result = queries.find_budget(transaction, dataset)
        if result is None:
            noted = {} if source is None else {"source": dict(source)}
            content = {**facts, **noted, "who": who, "at": now()}
            transaction.append_total("open", content, transaction.head.count + 1, Fraction(0), key=dataset)
            result = queries.find_budget(transaction, dataset)
        return result

    return change


def growing(budget: Budget, n: int | None, schema: Mapping[str, str], who: str) -> Change:
    """Note what is public of a data set that grows, where that is news; what is noted of it last comes back."""

    def change(transaction: Transaction) -> DataVersion | None:
        transaction.lock_head()
        last = queries.find_version(transaction, budget)
        if last is None or (last.n, last.schema) != (n, dict(schema)):
            content = {"n": n, "schema": dict(schema), "who": who, "at": now()}
            transaction.append("grow", content, budget=budget.id, key=budget.dataset)
            last = queries.find_version(transaction, budget)
        return last

    return change


def dividing(budget: Budget, by: str, names: Sequence[str], who: str, *, home: bool = False) -> Change:
    """Name the periods of a budget, or more of them; those that it has come back."""

    def change(transaction: Transaction) -> Division | None:
        transaction.lock_head()
        before = find_division(transaction, budget)
        if before is not None and (before.by, before.names, before.home) == (by, tuple(names), home):
            return before
        if before is not None:
            before.check_extended(by, names, home=home)
        total = queries.spent(transaction, budget.id)
        number = transaction.head.count + 1
        content: dict[str, object] = {"by": by, "names": list(names), "who": who, "at": now()}
        content |= {"home": True} if home else {}
        transaction.append_total("periods", content, budget.id, total, key=budget.dataset)
        transaction.periods.divided[budget.id] = number
        transaction.periods.spent = {}  # begun anew, that of every part too
        return find_division(transaction, budget)

    return change


def reserving(asked: Charge, *, who: str, key: str | None, again: Callable[[Transaction, Entry | None], Any]) -> About:
    """Charge a request; the right to release comes back, or the entry that was committed under its key before.

    Of such an entry `again` makes sure that it is the ledger's.
    """
    token, at = next(_TOKENS), now()
    guard = digest(token)

    def change(transaction: Transaction) -> Reservation | Entry:
        budget, full = asked.budget, asked.whole
        before = queries.lock_budget(transaction, budget.id)
        if key is not None and (entry := queries.earlier_entry(transaction, budget, key)) is not None:
            again(transaction, entry)
            if not entry.unread:
                return answered(entry, asked)
            check_same(entry, asked)
            return _taken_up(transaction, entry, asked, who)
        periods, number = periods_charged(transaction, asked), transaction.head.count + 1
        total = total_after(transaction, budget, before, periods, asked.cost)
        if full is not None and asked.whole_cost is not None:
            so_far = queries.spent(transaction, full.id)
            of_whole = total_after(transaction, full, so_far, periods, asked.whole_cost)
        spent = str(total)
        body = reserve_body(
            number,
            budget.id,
            key,
            spent,
            at=at,
            cost=asked.cost,
            guard=guard,
            profile=asked.profile_text,
            request=asked.request_text,
            who=who,
            periods=periods,
        )
        transaction.append_body("reserve", body, budget.id, number, key, spent)
        transaction.totals[budget.id] = total
        if full is not None:
            transaction.append_total("charge", {"cost": asked.whole_cost}, full.id, of_whole, entry=number)
        reserved = asked if periods is None else asked._replace(periods=periods)
        return Reservation(number, token, reserved=(reserved, who, at, key))

    return About(change, key=key)


def _taken_up(transaction: Transaction, entry: Entry, asked: Charge, who: str) -> Reservation:
    """Give the right to release an entry again, of which nothing was read: to one who asks, and to no other."""
    transaction.append("resume", {"who": who, "at": now()}, budget=entry.budget, entry=entry.id)
    charge = asked._replace(periods=entry.periods)
    return Reservation(entry.id, "", resumed=True, reserved=(charge, entry.who, entry.at, entry.key))


def resuming(budget: Budget, number: int, asked: Charge, who: str) -> Change:
    """Take up an entry under which the records went away before anything of them was read."""

    def change(transaction: Transaction) -> Reservation:
        queries.lock_entry(transaction, number, "it cannot be finished")
        entry = queries.find_entry(transaction, budget, number)
        if entry is None or not entry.unread:
            raise InvalidValue(f"entry {number} is under way, or its records may have been read; it cannot be finished")
        check_same(entry, asked)
        return _taken_up(transaction, entry, asked, who)

    return change


def leaving_unread(entry: int, note: str, who: str) -> Change:
    """Note that the records went away under an entry before anything of them was read; it stays spent, and pending."""

    def change(transaction: Transaction) -> None:
        budget = queries.lock_entry(transaction, entry)
        transaction.append("unread", {"note": note, "who": who, "at": now()}, budget=budget, entry=entry)

    return change


def committing(reservation: Reservation, release: Mapping[str, object] | SealedText, *, keep: bool = True) -> About:
    """Record a release; the content of the event comes back."""
    value = release.text if isinstance(release, SealedText) else canonical(release)
    value_hash, at = digest(value), now()

    def change(transaction: Transaction) -> Mapping[str, Any]:
        entry = reservation.entry
        budget = queries.lock_entry(transaction, entry)
        body = commit_body(transaction.head.count + 1, budget, entry, at=at, kept=keep, value_hash=value_hash)
        transaction.append_body("commit", body, budget, entry, value=value if keep else None)
        return {"value_hash": value_hash, "kept": keep, "at": at}

    return About(change, entry=reservation.entry)


def committed(reservation: Reservation, content: Mapping[str, Any], value: str | None) -> Entry:
    """Return the entry of a release as it was recorded by whoever reserved it, without reading it back."""
    if reservation.reserved is None:
        raise InvalidValue(f"entry {reservation.entry} was not reserved here")
    asked, who, at, key = reservation.reserved
    return Entry(
        id=reservation.entry,
        budget=asked.budget.id,
        dataset=asked.budget.dataset,
        state=State.COMMITTED,
        profile_state=asked.profile_state,
        request=asked.request,
        cost=asked.cost,
        basis=asked.profile.basis,
        who=who,
        at=at,
        key=key,
        closed_at=content["at"],
        value_hash=content["value_hash"],
        release=value if content["kept"] else None,
        whole_cost=asked.whole_cost,
        periods=asked.periods,
    )


def totalling(change: About, budgets: Sequence[Budget]) -> About:
    """Make a change; what it returns comes back with what is spent of some budgets after it."""
    return change.then(lambda found, transaction: (found, [spending(transaction, budget) for budget in budgets]))


def voiding(reservation: Reservation, note: str, known: Callable[[int], Budget]) -> Change:
    """Give a reservation up and its cost back."""
    if reservation.touched:
        raise InvalidValue(f"entry {reservation.entry} may have read the data; its cost stays spent")
    content = {"token": reservation.token, "note": note, "at": now()}

    def change(transaction: Transaction) -> None:
        budget = known(queries.lock_entry(transaction, reservation.entry))
        cost = queries.check_holder(transaction, reservation)
        after = given_back(transaction, budget, reservation.entry, cost)
        transaction.append_total("void", content, budget.id, after, entry=reservation.entry)
        if budget.whole is not None:
            cost = queries.charged_whole(transaction, reservation.entry, budget.whole)
            after = given_back(transaction, known(budget.whole), reservation.entry, cost)
            transaction.append_total("refund", {}, budget.whole, after, entry=reservation.entry)

    return change


def recovering(entry: int, note: str, who: str) -> Change:
    """Close an entry that never ended; it stays spent."""

    def change(transaction: Transaction) -> None:
        budget = queries.lock_entry(transaction, entry, "there is nothing left to recover")
        transaction.append("recover", {"note": note, "who": who, "at": now()}, budget=budget, entry=entry)

    return change


def noting(name: str, head: Head, url: str) -> Change:
    """Note how far another ledger has come, where that is news."""

    def change(transaction: Transaction) -> None:
        transaction.lock_head()
        last = queries.noted(transaction, name)
        if last.count == head.count and last != head:
            raise LedgerCorrupt(f"event {head.count} of {name} is not the one that was noted in {url}")
        if last.count < head.count:
            transaction.append("note", {"count": head.count, "hash": head.hash, "at": now()}, key=name)

    return change
