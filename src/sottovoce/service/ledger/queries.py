"""What a transaction asks of the events: a budget, an entry, what was spent."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from fractions import Fraction

from sottovoce.privacy.errors import InvalidValue, LedgerCorrupt
from sottovoce.service.ledger.charging import Reservation
from sottovoce.service.ledger.hash_chain import EMPTY, ChainEvent, Head, digest, unsealed
from sottovoce.service.ledger.records import (
    Budget,
    DataVersion,
    Entry,
    closed_entry,
    noted_version,
    opened_budget,
    reserved_entry,
)
from sottovoce.service.ledger.transaction import CLOSES, Transaction

__all__ = [
    "charged_whole",
    "check_holder",
    "earlier_entry",
    "find_budget",
    "find_entry",
    "find_version",
    "is_unread",
    "last_cost",
    "latest_entries",
    "lock_budget",
    "lock_entry",
    "noted",
    "reused_key",
    "sealed",
    "spent",
]

_NAMED = "kind = 'periods' AND key = (SELECT key FROM sottovoce_events WHERE sequence = ?)"
_SPENT = (
    f"SELECT spent, (SELECT max(sequence) FROM sottovoce_events WHERE {_NAMED}) FROM sottovoce_events "
    "WHERE budget = ? AND spent IS NOT NULL ORDER BY sequence DESC LIMIT 1"
)
_CLOSING = f"entry = ? AND {CLOSES}"
_BUDGET = "SELECT budget FROM sottovoce_events WHERE sequence = ? AND kind = 'reserve'"
_BEFORE = "WHERE sequence < ? AND budget = ? AND spent IS NOT NULL AND kind = 'reserve' ORDER BY sequence DESC LIMIT 1"
_PAUSED = (
    "SELECT kind FROM sottovoce_events WHERE sequence > ? AND entry = ? AND kind IN ('unread', 'resume') "
    "ORDER BY sequence DESC LIMIT 1"
)
_CLOSED = f"SELECT kind FROM sottovoce_events WHERE {_CLOSING}"
_REUSED = (
    "SELECT min(later.sequence) FROM sottovoce_events AS later JOIN sottovoce_events AS earlier "
    "ON earlier.key = later.key AND earlier.budget = later.budget AND earlier.sequence < later.sequence "
    "WHERE later.sequence > ? AND later.sequence <= ? AND later.kind = 'reserve' AND later.key IS NOT NULL "
    "AND earlier.kind = 'reserve' AND NOT EXISTS (SELECT 1 FROM sottovoce_events AS ending "
    f"WHERE ending.entry = earlier.sequence AND {CLOSES.replace('kind', 'ending.kind')} "
    "AND ending.kind = 'void' AND ending.sequence < later.sequence)"
)


def find_budget(transaction: Transaction, dataset: str) -> Budget | None:
    """Return the budget of a data set, if it has one."""
    event = transaction.event("WHERE key = ? AND kind = 'open' ORDER BY sequence LIMIT 1", dataset)
    return None if event is None else opened_budget(event, sealed(transaction, event))


def find_version(transaction: Transaction, budget: Budget) -> DataVersion | None:
    """Return what was noted last of a data set that grows; None of one that does not."""
    event = transaction.event("WHERE key = ? AND kind = 'grow' ORDER BY sequence DESC LIMIT 1", budget.dataset)
    return None if event is None else noted_version(event, sealed(transaction, event), budget.promise)


def noted(transaction: Transaction, name: str) -> Head:
    """Return how far another ledger had come when it was last noted; the empty head where it never was."""
    event = transaction.event("WHERE key = ? AND kind = 'note' ORDER BY sequence DESC LIMIT 1", name)
    content = {} if event is None else json.loads(event.body)
    return Head(content["count"], content["hash"]) if content else EMPTY


def spent(transaction: Transaction, budget: int) -> Fraction:
    """Return exactly what was spent of a budget: each change of it carries the new total."""
    total = transaction.totals.get(budget)
    if total is None:  # so nothing that is appended here has changed it
        row = transaction.look(_SPENT, budget, budget)
        transaction.periods.divided[budget] = None if row is None else row[1]
        total = transaction.totals[budget] = _total(budget, None if row is None else row[0])
    return total


def last_cost(transaction: Transaction, budget: int) -> float | None:
    """Return what the last entry that was not given up cost a budget, None where there is none."""
    before = 2**62
    query = "WHERE budget = ? AND spent IS NOT NULL AND sequence < ? ORDER BY sequence DESC LIMIT 1"
    while (event := transaction.event(query, budget, before)) is not None:
        before = event.sequence
        number = event.sequence if event.kind == "reserve" else event.entry
        if event.kind in ("reserve", "charge"):
            closing = transaction.event(f"WHERE {_CLOSING}", number)
            if closing is None or closing.kind != "void":
                return float(json.loads(event.body)["cost"])
    return None


def lock_budget(transaction: Transaction, budget: int) -> Fraction:
    """Lock the head and return exactly what was spent of a budget."""
    transaction.lock_head()
    return spent(transaction, budget)


def _total(budget: int, total: str | None) -> Fraction:
    if total is None:
        raise InvalidValue(f"the ledger has no budget {budget}")
    above, _, below = total.partition("/")
    return Fraction(int(above), int(below or 1))


def lock_entry(transaction: Transaction, entry: int, closed_so: str = "what was not recorded must not be shown") -> int:
    """Lock the head and return the budget of an entry that is still pending."""
    transaction.lock_head()
    if (known := transaction.open.get(entry)) is not None:
        return known
    ask = transaction.row if transaction.mentions(entry) else transaction.look
    budget, closed = ask(f"SELECT ({_BUDGET}), ({_CLOSED})", entry, entry)
    if budget is None:
        raise InvalidValue(f"the ledger has no entry {entry}; sottovoce ledger show lists them")
    if closed is not None:
        raise InvalidValue(f"entry {entry} was closed already ({closed}); {closed_so}")
    return int(budget)


def is_unread(transaction: Transaction, entry: int) -> bool:
    """Say whether the records went away under an entry that is pending, before anything of them was read."""
    row = transaction.row(_PAUSED, entry, entry)
    return row is not None and row[0] == "unread"


def check_holder(transaction: Transaction, reservation: Reservation) -> Fraction:
    """Return what a reservation cost; refuse whoever does not hold it."""
    row = transaction.row("SELECT body FROM sottovoce_events WHERE sequence = ?", reservation.entry)
    content = json.loads(row[0])
    if digest(reservation.token) != content["guard"]:
        raise InvalidValue(f"this is not the holder of entry {reservation.entry}; its cost stays spent")
    return Fraction(content["cost"])


def earlier_entry(transaction: Transaction, budget: Budget, key: str) -> Entry | None:
    """Return the entry that bears an idempotency key and still counts, if there is one."""
    if key in transaction.unused:
        return None
    query = "WHERE key = ? AND budget = ? AND kind = 'reserve' ORDER BY sequence DESC LIMIT 1"
    event = transaction.event(query, key, budget.id)
    entry = None if event is None else _entry(transaction, event, budget)
    return entry if entry is not None and entry.counts else None


def reused_key(transaction: Transaction, after: int, last: int) -> int | None:
    """Return the first reserve of these events whose key an earlier one bore that still counted, if there is one."""
    result: int | None = transaction.row(_REUSED, after, last)[0]
    return result


def find_entry(transaction: Transaction, budget: Budget, number: int) -> Entry | None:
    """Return the entry of this number, if it was charged to this budget."""
    event = transaction.event("WHERE sequence = ? AND budget = ? AND kind = 'reserve'", number, budget.id)
    return None if event is None else _entry(transaction, event, budget)


def latest_entries(transaction: Transaction, budget: Budget, most: int, after: int = 0) -> Iterator[Entry]:
    """Return the latest entries that were charged to a budget, newest first, all after another."""
    below = 2**63 - 1
    for _ in range(most):
        event = transaction.event(_BEFORE, below, budget.id)
        if event is None:
            return
        entry = _entry(transaction, event, budget)
        if entry.id <= after:
            return
        yield entry
        below = event.sequence


def _entry(transaction: Transaction, event: ChainEvent, budget: Budget) -> Entry:
    entry = reserved_entry(event, sealed(transaction, event), budget)
    if budget.whole is not None:
        entry = dataclasses.replace(entry, whole_cost=float(charged_whole(transaction, entry.id, budget.whole)))
    closing = transaction.event(f"WHERE {_CLOSING}", entry.id)
    if closing is None:
        return dataclasses.replace(entry, unread=is_unread(transaction, entry.id))
    return closed_entry(entry, closing, sealed(transaction, closing))


def sealed(transaction: Transaction, event: ChainEvent) -> dict[str, object]:
    """Return what an event says that was read by itself, checked against its own hash: opening may not have read it."""
    row = transaction.row("SELECT hash FROM sottovoce_events WHERE sequence = ?", event.sequence - 1)
    return unsealed(Head(event.sequence - 1, "" if row is None else row[0]), event)


def charged_whole(transaction: Transaction, entry: int, whole: int) -> Fraction:
    """Return what an entry of a part cost the whole: the event after the reserve says so."""
    event = transaction.event("WHERE sequence = ? AND kind = 'charge' AND entry = ?", entry + 1, entry)
    if event is None or event.budget != whole:
        raise LedgerCorrupt(f"entry {entry} was charged to a part of budget {whole} and not to the whole")
    return Fraction(json.loads(event.body)["cost"])
