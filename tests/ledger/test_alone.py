"""A process that seems to be alone assumes that the chain ends where it left it; nobody else's write is missed."""

import sqlite3
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from sottovoce.privacy.errors import BudgetExceeded, InvalidValue, LedgerCorrupt
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.promises import RenyiDP
from sottovoce.service.ledger import Budget, Ledger, Reservation, queries
from sottovoce.service.ledger.group_commit import About

COST = 0.125**2  # at order 2, of a Gaussian profile with this μ
COVERS = 6


def reserve(ledger: Ledger, budget: Budget) -> Reservation:
    right = ledger.reserve(budget, GaussianProfile(0.125), {})
    assert isinstance(right, Reservation)
    return right


@pytest.fixture
def two(url: str) -> Iterator[tuple[Ledger, Budget, Ledger, Budget]]:
    """A ledger that has been alone for some transactions, and another that has it open too."""
    with Ledger(url, create=True, timeout=30) as ledger, Ledger(url, timeout=30) as other:
        budget = ledger.open_budget("patients", RenyiDP(2, COVERS * COST), n=100, schema={})
        for _ in range(3):
            reserve(ledger, budget)
        assert ledger._kept.alone
        yield ledger, budget, other, other.budget("patients")


def test_alone_it_moves_the_head_and_inserts_and_asks_for_nothing(tmp_path: Path) -> None:
    with Ledger(tmp_path / "p.ledger", create=True) as ledger:
        budget = ledger.open_budget("patients", RenyiDP(2, COVERS * COST), n=100, schema={})
        reserve(ledger, budget)
        ran: list[str] = []
        (connection,) = ledger._store._idle
        connection.raw.set_trace_callback(ran.append)
        ledger.commit(reserve(ledger, budget), {"value": 1})
        connection.raw.set_trace_callback(None)
        assert [statement.split()[0] for statement in ran] == ["BEGIN", "UPDATE", "INSERT", "COMMIT"] * 2
        ledger.verify()


def test_what_another_wrote_meanwhile_counts(two: tuple[Ledger, Budget, Ledger, Budget]) -> None:
    ledger, budget, other, theirs = two
    reserve(other, theirs)
    reserve(ledger, budget)
    assert ledger.spent(budget) == 5 * Fraction(COST)
    reserve(other, theirs)
    with pytest.raises(BudgetExceeded):
        reserve(ledger, budget)
    assert ledger.spent(budget) == COVERS * Fraction(COST)
    assert ledger.verify().count == 2 + COVERS


def test_nothing_is_refused_for_a_total_that_is_none_any_more(two: tuple[Ledger, Budget, Ledger, Budget]) -> None:
    ledger, budget, other, _ = two
    rights = [reserve(ledger, budget) for _ in range(3)]
    assert ledger._kept.alone
    other.void(rights[0], "never mind")
    reserve(ledger, budget)
    with pytest.raises(BudgetExceeded):
        reserve(ledger, budget)
    ledger.verify()


def test_an_entry_that_another_closed_is_closed(two: tuple[Ledger, Budget, Ledger, Budget]) -> None:
    ledger, budget, other, _ = two
    right = reserve(ledger, budget)
    other.recover(right.entry, note="it seemed dead")
    with pytest.raises(InvalidValue, match=r"was closed already \(recover\)"):
        ledger.commit(right, {"value": 1})
    ledger.verify()


def test_what_is_only_looked_up_is_of_the_chain_as_it_ends(two: tuple[Ledger, Budget, Ledger, Budget]) -> None:
    ledger, budget, other, theirs = two
    reserve(other, theirs)
    assert ledger.write(About(lambda transaction: queries.lock_budget(transaction, budget.id))) == 4 * Fraction(COST)


@pytest.mark.parametrize("ask", [queries.spent, queries.last_cost])
def test_a_change_that_asks_is_made_anew_for_the_chain_as_it_ends(
    two: tuple[Ledger, Budget, Ledger, Budget], ask: Callable[..., Any]
) -> None:
    ledger, budget, other, theirs = two
    more = other.open_budget("others", RenyiDP(2, 1.0), n=1, schema={})
    made: list[int] = []

    def change(transaction: Any) -> Any:
        before = queries.lock_budget(transaction, budget.id)
        made.append(transaction.head.count)
        return before, ask(transaction, more.id)

    reserve(other, theirs)
    before, _ = ledger.write(About(change))
    assert before == 4 * Fraction(COST)
    assert made[-1] == ledger.verify().count == 7


def test_a_head_put_back_is_found(tmp_path: Path) -> None:
    path = tmp_path / "p.ledger"
    with Ledger(path, create=True) as ledger:
        budget = ledger.open_budget("patients", RenyiDP(2, COVERS * COST), n=100, schema={})
        for _ in range(3):
            reserve(ledger, budget)
        with sqlite3.connect(path) as forger:
            forger.execute(
                "UPDATE sottovoce_head SET (count, hash) = "
                "(SELECT sequence, hash FROM sottovoce_events WHERE sequence = 4)"
            )
        forger.close()
        with pytest.raises(LedgerCorrupt, match="had come to event 5 and now ends at 4: it was swapped"):
            reserve(ledger, budget)
