"""What a transaction asks of the events about periods: which a budget has, and what is spent of each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from sottovoce.privacy.errors import LedgerCorrupt
from sottovoce.service.ledger import queries
from sottovoce.service.ledger.charging import Charge, charged
from sottovoce.service.ledger.hash_chain import ChainEvent
from sottovoce.service.ledger.period_totals import Spending, begun, charged_periods, moved
from sottovoce.service.ledger.records import Budget, Division, named_division
from sottovoce.service.ledger.transaction import Transaction

_COLUMNS = "sequence, kind, budget, entry, key, spent, body, value, hash"
_CHARGED = (
    f"SELECT {_COLUMNS} FROM sottovoce_events "
    "WHERE budget = ? AND spent IS NOT NULL AND sequence > ? AND kind <> 'periods' ORDER BY sequence"
)
_NAMED = (
    f"SELECT {_COLUMNS} FROM sottovoce_events WHERE kind = 'periods' AND sequence > ? "
    "AND key = (SELECT key FROM sottovoce_events WHERE sequence = ?) ORDER BY sequence"
)


def find_division(transaction: Transaction, budget: Budget) -> Division | None:
    """Return the periods that a budget has, or its whole; None where it has none."""
    divided = budget.id if budget.whole is None else budget.whole
    queries.spent(transaction, divided)
    number = transaction.periods.divided.get(divided)
    return None if number is None else _numbered(transaction, number)


def _numbered(transaction: Transaction, number: int) -> Division:
    known = transaction.periods.divisions
    if number not in known:
        event = transaction.event("WHERE sequence = ? AND kind = 'periods'", number)
        if event is None:
            raise LedgerCorrupt(f"event {number} names no periods")
        known[number] = named_division(event, queries.sealed(transaction, event))
    return known[number]


def periods_charged(transaction: Transaction, asked: Charge) -> tuple[str, ...] | None:
    """Return the periods that a request is charged to; None where its data have none."""
    division = find_division(transaction, asked.budget)
    if division is None and asked.periods is None:
        return None
    before = None if asked.division is None else _numbered(transaction, asked.division)
    return charged_periods(division, asked.periods, before)


def by_period(transaction: Transaction, budget: Budget) -> Mapping[str, Fraction]:
    """Return exactly what is spent of each period of a budget: what is known, and what its events since then say."""
    known = transaction.periods.spent.get(budget.id)
    if known is None or known.event < transaction.start.count:
        after, totals = (0, None) if known is None else known
        divided = budget.id if budget.whole is None else budget.whole
        rows = transaction.run(_CHARGED, budget.id, after).fetchall()
        rows += transaction.run(_NAMED, after, divided).fetchall()
        events = [ChainEvent(*row) for row in sorted(rows, key=lambda row: row[0])]
        known = Spending(transaction.head.count, _added_up(transaction, events, totals))
        transaction.periods.spent[budget.id] = known
    return known.totals


def spending(transaction: Transaction, budget: Budget) -> Fraction | Mapping[str, Fraction]:
    """Return exactly what is spent of a budget; of one with periods, what of each is."""
    divided = find_division(transaction, budget) is not None
    return by_period(transaction, budget) if divided else queries.spent(transaction, budget.id)


def total_after(
    transaction: Transaction, budget: Budget, spent: Fraction, periods: Sequence[str] | None, cost: float
) -> Fraction:
    """Return what is spent of a budget after a charge, or refuse it; of one with periods, what of the fullest is."""
    if periods is None:
        return charged(budget, spent, cost)
    totals = by_period(transaction, budget)
    fullest = max(periods, key=totals.__getitem__)
    most = charged(budget, totals[fullest], cost, fullest)
    _note(transaction, budget, moved(totals, periods, Fraction(cost)))
    return max(most, spent)


def given_back(transaction: Transaction, budget: Budget, entry: int, cost: Fraction) -> Fraction:
    """Return what is spent of a budget once an entry is given up; of one with periods, what of the fullest is."""
    if find_division(transaction, budget) is None:
        return queries.spent(transaction, budget.id) - cost
    totals = by_period(transaction, budget)
    after = moved(totals, _content(transaction, entry).get("periods"), -cost)
    _note(transaction, budget, after)
    return max(after.values())


def _note(transaction: Transaction, budget: Budget, totals: Mapping[str, Fraction]) -> None:
    """Remember what is spent with the event that comes next."""
    transaction.periods.spent[budget.id] = Spending(transaction.head.count + 1, totals)


def _added_up(
    transaction: Transaction, events: Sequence[ChainEvent], totals: Mapping[str, Fraction] | None
) -> Mapping[str, Fraction]:
    spent = Fraction(0)
    for event in events:
        content = json.loads(event.body)
        if event.kind == "periods":
            totals = begun(named_division(event, content), totals, spent)
        elif totals is not None and event.kind != "open":
            periods, cost = _periods_and_cost(transaction, event, content)
            totals = moved(totals, periods, cost)
        spent = spent if event.spent is None or event.kind == "periods" else Fraction(event.spent)
    assert totals is not None  # it has periods, or nobody asks
    return totals


def _periods_and_cost(
    transaction: Transaction, event: ChainEvent, content: Mapping[str, Any]
) -> tuple[Sequence[str] | None, Fraction]:
    if event.kind == "reserve":
        return content.get("periods"), Fraction(content["cost"])
    entry = int(event.entry or 0)
    reserve = _content(transaction, entry)
    match event.kind:
        case "charge":
            cost = Fraction(content["cost"])
        case "refund":
            cost = -Fraction(_content(transaction, entry + 1)["cost"])
        case _:
            cost = -Fraction(reserve["cost"])
    return reserve.get("periods"), cost


def _content(transaction: Transaction, number: int) -> dict[str, Any]:
    content: dict[str, object] = json.loads(
        transaction.row("SELECT body FROM sottovoce_events WHERE sequence = ?", number)[0]
    )
    return content
