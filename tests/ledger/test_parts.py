"""Parts of a budget: whoever holds them, together they never exceed the whole."""

import threading
from collections import Counter
from fractions import Fraction

import pytest

from sottovoce.privacy.errors import BudgetExceeded, InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.promises import GaussianDP, RenyiDP
from sottovoce.service.ledger import Budget, Entry, KeyTaken, Ledger, Reservation, State

QUARTER = GaussianProfile(0.5)  # costs 1/4 at Rényi order 2


def part(ledger: Ledger, whole: Budget, name: str, epsilon: float = 0.75) -> Budget:
    return ledger.open_budget(f"patients/{name}", RenyiDP(2, epsilon), n=100, schema=whole.schema, whole=whole)


def test_what_a_part_is_charged_its_whole_is_charged_too(ledger: Ledger, budget: Budget) -> None:
    ada = part(ledger, budget, "ada")
    right = ledger.reserve(ada, QUARTER, {"mechanism": "noise"}, who="ada")
    assert isinstance(right, Reservation)
    assert ledger.spent(ada) == ledger.spent(budget) == Fraction(1, 4)
    ledger.commit(right, {"value": 1})
    (entry,) = ledger.entries("patients")
    assert (entry.dataset, entry.cost, entry.whole_cost) == ("patients/ada", 0.25, 0.25)
    assert ledger.find_entry(ada, entry.id) == entry
    assert ledger.find_entry(budget, entry.id) is None


def test_each_is_counted_by_its_own_filter(ledger: Ledger, budget: Budget) -> None:
    ada = ledger.open_budget("patients/ada", GaussianDP(1.0), n=100, schema=budget.schema, whole=budget)
    ledger.reserve(ada, QUARTER, {})
    assert ledger.remaining(ada) == GaussianDP(0.75**0.5)
    assert ledger.remaining(budget) == RenyiDP(2, 0.75)


def test_the_part_refuses_what_the_whole_would_cover(ledger: Ledger, budget: Budget) -> None:
    ada = part(ledger, budget, "ada", epsilon=0.25)
    ledger.reserve(ada, QUARTER, {})
    with pytest.raises(BudgetExceeded, match="patients/ada"):
        ledger.reserve(ada, QUARTER, {})
    assert ledger.spent(budget) == Fraction(1, 4)


def test_the_whole_refuses_what_the_part_would_cover_and_nothing_is_spent(ledger: Ledger, budget: Budget) -> None:
    ada, bob = part(ledger, budget, "ada"), part(ledger, budget, "bob")
    for _ in range(3):
        ledger.reserve(ada, QUARTER, {})
    ledger.reserve(bob, QUARTER, {})
    head = ledger.verify()
    with pytest.raises(BudgetExceeded, match="budget of patients does not"):
        ledger.reserve(bob, QUARTER, {})
    assert ledger.verify() == head
    assert ledger.spent(bob) == Fraction(1, 4)
    assert ledger.spent(budget) == 1


def test_a_voided_entry_gives_both_their_cost_back(ledger: Ledger, budget: Budget) -> None:
    ada = part(ledger, budget, "ada")
    right = ledger.reserve(ada, QUARTER, {})
    assert isinstance(right, Reservation)
    ledger.void(right, "changed my mind")
    assert ledger.spent(ada) == ledger.spent(budget) == 0
    (entry,) = ledger.entries("patients")
    assert entry.state is State.VOID
    ledger.verify()


def test_keys_of_two_parts_do_not_meet(ledger: Ledger, budget: Budget) -> None:
    ada, bob = part(ledger, budget, "ada"), part(ledger, budget, "bob")
    first = ledger.reserve(ada, QUARTER, {"q": 1}, key="monday")
    assert isinstance(first, Reservation)
    ledger.commit(first, {"value": 1})
    again = ledger.reserve(ada, QUARTER, {"q": 1}, key="monday")
    assert isinstance(again, Entry)
    assert again.whole_cost == 0.25
    assert isinstance(ledger.reserve(bob, QUARTER, {"q": 2}, key="monday"), Reservation)
    with pytest.raises(KeyTaken, match="another request"):
        ledger.reserve(ada, QUARTER, {"q": 2}, key="monday")


def test_a_part_is_of_a_known_budget_and_has_no_parts(ledger: Ledger, budget: Budget) -> None:
    ada = part(ledger, budget, "ada")
    assert part(ledger, budget, "ada") == ada
    with pytest.raises(InvalidValue, match="a part has no parts"):
        part(ledger, ada, "deeper")
    with pytest.raises(InvalidValue, match="never changes"):
        ledger.open_budget("patients/ada", RenyiDP(2, 0.75), n=100, schema=budget.schema)


def test_a_ledger_opened_anew_knows_the_parts(url: str, ledger: Ledger, budget: Budget) -> None:
    ada = part(ledger, budget, "ada")
    ledger.reserve(ada, QUARTER, {})
    with Ledger(url) as again:
        found = again.budget("patients/ada")
        assert found == ada
        assert isinstance(again.reserve(found, QUARTER, {}), Reservation)
        assert again.spent(again.budget("patients")) == Fraction(1, 2)


def test_colluding_threads_never_exceed_the_whole(ledger: Ledger, budget: Budget) -> None:
    sixteenth = GaussianProfile(0.25)
    parts = [part(ledger, budget, name, epsilon=1.0) for name in ("ada", "bob", "eve")]
    outcomes: Counter[str] = Counter()

    def spend(mine: Budget) -> None:
        for _ in range(8):
            try:
                ledger.reserve(mine, sixteenth, {}, who=mine.dataset)
                outcomes["granted"] += 1
            except BudgetExceeded:
                outcomes["refused"] += 1

    threads = [threading.Thread(target=spend, args=(mine,)) for mine in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == {"granted": 16, "refused": 8}
    assert sum(ledger.spent(mine) for mine in parts) == ledger.spent(budget) == 1
    ledger.verify()
