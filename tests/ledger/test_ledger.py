import dataclasses
import hashlib
import json
import logging
import math
import random
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.privacy.errors import BudgetExceeded, InvalidValue, LedgerCorrupt, UnprovenPrivacy
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.profile import Basis
from sottovoce.privacy.promises import RenyiDP
from sottovoce.service.ledger import Budget, Entry, EntryPending, Ledger, Reservation, State
from sottovoce.service.ledger.charging import charged

QUARTER = GaussianProfile(0.5)  # costs exactly 1/4 of the budget
REQUEST = {"mechanism": {"name": "noise", "n": 100}, "column": "smoker"}


def reserve(ledger: Ledger, budget: Budget, **options: object) -> Reservation:
    right = ledger.reserve(budget, QUARTER, REQUEST, **options)  # type: ignore[arg-type]
    assert isinstance(right, Reservation)
    return right


def test_a_release_is_recorded_whole(ledger: Ledger, budget: Budget) -> None:
    right = reserve(ledger, budget, who="ada", key="k1")
    ledger.commit(right, {"value": [0.1, 0.2]})
    (entry,) = ledger.entries("patients")
    assert (entry.state, entry.who, entry.key, entry.cost) == (State.COMMITTED, "ada", "k1", 0.25)
    assert entry.request == REQUEST
    assert entry.profile == QUARTER
    assert entry.basis is Basis.EXACT
    assert json.loads(entry.release or "") == {"value": [0.1, 0.2]}
    assert entry.at <= (entry.closed_at or "")
    assert ledger.spent(budget) == Fraction(1, 4)
    assert json.loads(json.dumps(entry.to_dict()))["release"] == {"value": [0.1, 0.2]}


def test_only_the_hash_is_kept_when_asked(ledger: Ledger, budget: Budget) -> None:
    ledger.commit(reserve(ledger, budget), {"value": 3}, keep=False)
    (entry,) = ledger.entries()
    assert entry.release is None
    assert entry.value_hash == hashlib.sha256(b'{"value":3}').hexdigest()
    ledger.verify()


def test_the_fifth_quarter_is_refused_and_nothing_is_spent(ledger: Ledger, budget: Budget) -> None:
    for _ in range(4):
        ledger.commit(reserve(ledger, budget), {})
    before = ledger.verify()
    with pytest.raises(BudgetExceeded, match="nothing was spent"):
        reserve(ledger, budget)
    with pytest.raises(BudgetExceeded):
        ledger.reserve(budget, GaussianProfile(1e-150), REQUEST)  # not even 1e-300 is left
    assert ledger.verify() == before
    assert ledger.spent(budget) == 1


def test_what_remains_is_a_promise_of_the_same_kind(ledger: Ledger, budget: Budget) -> None:
    assert ledger.remaining(budget) == RenyiDP(2, 1.0)
    ledger.commit(reserve(ledger, budget), {})
    assert ledger.remaining(budget) == RenyiDP(2, 0.75)


def test_rounding_never_lets_the_total_past_the_limit(ledger: Ledger, budget: Budget) -> None:
    # Ten times 0.1 in floats: the running float sum is 0.9999999999999999 and would let a little more through.
    tenth = GaussianProfile(math.sqrt(0.1))
    cost = Fraction(float(tenth.renyi(2)))
    fits = math.floor(1 / cost)
    for _ in range(fits):
        ledger.commit(ledger.reserve(budget, tenth, REQUEST), {})
    with pytest.raises(BudgetExceeded):
        ledger.reserve(budget, tenth, REQUEST)
    assert ledger.spent(budget) == fits * cost


@given(st.lists(st.floats(0, 0.4, allow_subnormal=True), min_size=1, max_size=30), st.randoms())
def test_the_order_of_entries_changes_nothing_in_the_sum(costs: list[float], order: random.Random) -> None:
    budget = Budget(1, "p", RenyiDP(2, 1.0), 1, {}, {}, float(math.fsum(costs)) + 1, "", "")
    forwards = Fraction(0)
    for cost in costs:
        forwards = charged(budget, forwards, cost)
    order.shuffle(costs)
    backwards = Fraction(0)
    for cost in costs:
        backwards = charged(budget, backwards, cost)
    assert forwards == backwards == sum(map(Fraction, costs))


@pytest.mark.parametrize("cost", [-6.42, -5e-324, math.nan, -math.inf])
def test_a_cost_below_nothing_is_refused(
    ledger: Ledger, budget: Budget, monkeypatch: pytest.MonkeyPatch, cost: float
) -> None:
    part = ledger.open_budget("patients/ada", RenyiDP(2, 1.0), n=100, schema=budget.schema, whole=budget)
    before = ledger.verify()
    for wrong in ({budget.id}, {part.id}, {budget.id, part.id}):  # of the whole, of the part, of both
        monkeypatch.setattr(
            "sottovoce.service.ledger.charging.price", lambda one, _, w=wrong: cost if one.id in w else 0.25
        )
        with pytest.raises(InvalidValue, match="cost"):
            reserve(ledger, part)
    assert ledger.verify() == before
    assert ledger.spent(budget) == ledger.spent(part) == 0


def test_a_ledger_once_charged_less_than_nothing_says_so(
    ledger: Ledger, budget: Budget, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sottovoce.service.ledger.charging.price", lambda *_: -6.42)
    monkeypatch.setattr(
        "sottovoce.service.ledger.period_queries.charged", lambda _, spent, cost: spent + Fraction(cost)
    )
    reserve(ledger, budget)
    with pytest.raises(LedgerCorrupt, match=r"event 3 \(reserve\) .*charged -6.42.* from here on is in doubt"):
        Ledger(url)


def test_a_reservation_counts_until_it_is_voided(ledger: Ledger, budget: Budget) -> None:
    right = reserve(ledger, budget)
    assert ledger.spent(budget) == Fraction(1, 4)
    assert [entry.id for entry in ledger.pending()] == [right.entry]
    ledger.void(right, "the column is of the wrong type")
    assert ledger.spent(budget) == 0
    assert ledger.pending() == []
    (entry,) = ledger.entries()
    assert (entry.state, entry.note) == (State.VOID, "the column is of the wrong type")
    ledger.verify()


def test_nothing_is_given_back_once_the_data_may_have_been_read(ledger: Ledger, budget: Budget) -> None:
    right = reserve(ledger, budget)
    right.touch()
    with pytest.raises(InvalidValue, match="stays spent"):
        ledger.void(right, "never mind")
    assert ledger.spent(budget) == Fraction(1, 4)


def test_only_the_holder_of_a_reservation_can_void_it(ledger: Ledger, budget: Budget) -> None:
    right = reserve(ledger, budget)
    forged = Reservation(right.entry, "guessed")
    with pytest.raises(InvalidValue, match="not the holder"):
        ledger.void(forged, "give it back")
    assert ledger.spent(budget) == Fraction(1, 4)


def test_a_recovered_entry_stays_spent(ledger: Ledger, budget: Budget) -> None:
    right = reserve(ledger, budget)
    ledger.recover(right.entry, note="the machine lost power", who="bob")
    (entry,) = ledger.entries()
    assert (entry.state, entry.note) == (State.LOST, "the machine lost power")
    assert ledger.pending() == []
    assert ledger.spent(budget) == Fraction(1, 4)


@pytest.mark.parametrize("how", ["commit", "void", "recover"])
def test_an_entry_closes_once(ledger: Ledger, budget: Budget, how: str) -> None:
    closings = {
        "commit": lambda right: ledger.commit(right, {"value": 1}),
        "void": lambda right: ledger.void(right, "no"),
        "recover": lambda right: ledger.recover(right.entry, note="crash"),
    }
    right = reserve(ledger, budget)
    closings[how](right)
    spent = ledger.spent(budget)
    for again in closings.values():
        with pytest.raises(InvalidValue, match=f"closed already \\({how}\\)"):
            again(right)
    assert ledger.spent(budget) == spent
    ledger.verify()


def test_an_unknown_entry_is_refused(ledger: Ledger, budget: Budget) -> None:
    with pytest.raises(InvalidValue, match="no entry 99"):
        ledger.recover(99, note="?")
    with pytest.raises(InvalidValue, match="no entry 2"):
        ledger.recover(budget.id, note="a budget is no entry")


def test_pending_entries_are_reported_on_opening(
    ledger: Ledger, budget: Budget, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    right = reserve(ledger, budget, who="ada")
    with caplog.at_level(logging.WARNING), Ledger(url) as again:
        assert again.spent(again.budget("patients")) == Fraction(1, 4)
    (record,) = caplog.records
    assert f"entry {right.entry} of patients, reserved by ada" in record.getMessage()
    assert "has not ended; it counts as spent; " in record.getMessage()
    reserve(ledger, budget)
    reserve(ledger, budget)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        Ledger(url).close()
    (record,) = caplog.records  # one line, however many there are
    assert f"entry {right.entry} of patients" in record.getMessage()
    assert "has not ended, nor have 2 more; they count as spent; " in record.getMessage()


class TestIdempotency:
    def test_a_retry_returns_the_stored_release_and_costs_nothing(self, ledger: Ledger, budget: Budget) -> None:
        right = reserve(ledger, budget, key="k")
        ledger.commit(right, {"value": 7})
        again = ledger.reserve(budget, QUARTER, dict(reversed(REQUEST.items())), key="k")
        assert isinstance(again, Entry)
        assert (again.id, again.release) == (right.entry, '{"value":7}')
        assert ledger.spent(budget) == Fraction(1, 4)

    def test_it_does_so_even_when_the_budget_is_spent(self, ledger: Ledger, budget: Budget) -> None:
        for key in "abcd":
            ledger.commit(reserve(ledger, budget, key=key), {"value": key})
        again = ledger.reserve(budget, QUARTER, REQUEST, key="b")
        assert isinstance(again, Entry)
        assert again.release == '{"value":"b"}'

    def test_a_key_belongs_to_one_request(self, ledger: Ledger, budget: Budget) -> None:
        ledger.commit(reserve(ledger, budget, key="k"), {})
        for profile, request, what in [
            (QUARTER, REQUEST | {"column": "age", "purpose": "a plan"}, "column, purpose"),
            (QUARTER, REQUEST | {"asked": "mean of age"}, "question"),  # as a server's requests say
            (GaussianProfile(0.25), REQUEST, "cost"),
        ]:
            with pytest.raises(
                InvalidValue, match=f"belongs to another request, entry [0-9]+, which has another {what};"
            ):
                ledger.reserve(budget, profile, request, key="k")
        assert ledger.spent(budget) == Fraction(1, 4)

    def test_a_key_under_way_or_lost_is_refused(self, ledger: Ledger, budget: Budget) -> None:
        right = reserve(ledger, budget, key="k")
        with pytest.raises(EntryPending, match=f"is pending.*ledger recover … {right.entry},"):
            reserve(ledger, budget, key="k")
        ledger.recover(right.entry, note="crash")
        with pytest.raises(EntryPending, match=r"is lost; it counts as spent\. To pay for another"):
            reserve(ledger, budget, key="k")
        assert ledger.spent(budget) == Fraction(1, 4)

    def test_a_voided_key_is_free_again(self, ledger: Ledger, budget: Budget) -> None:
        ledger.void(reserve(ledger, budget, key="k"), "not yet")
        ledger.commit(reserve(ledger, budget, key="k"), {"value": 1})
        assert ledger.spent(budget) == Fraction(1, 4)
        ledger.verify()

    def test_keys_of_two_budgets_do_not_meet(self, ledger: Ledger, budget: Budget) -> None:
        other = ledger.open_budget("others", RenyiDP(2, 1.0), n=5, schema={})
        ledger.commit(reserve(ledger, budget, key="k"), {"value": 1})
        ledger.commit(reserve(ledger, other, key="k"), {"value": 2})
        assert ledger.spent(other) == ledger.spent(budget) == Fraction(1, 4)


def test_an_unproven_profile_needs_consent_and_is_marked(ledger: Ledger, budget: Budget) -> None:
    unproven = dataclasses.replace(QUARTER, basis=Basis.CONVERGENCE)
    with pytest.raises(UnprovenPrivacy, match="accept_unproven=True"):
        ledger.reserve(budget, unproven, REQUEST)
    assert ledger.entries() == []
    ledger.reserve(budget, unproven, REQUEST, accept_unproven=True)
    (entry,) = ledger.entries()
    assert entry.basis is Basis.CONVERGENCE


def test_a_budget_is_opened_once_and_never_changes(ledger: Ledger, budget: Budget) -> None:
    facts = {"n": 100, "schema": dict(budget.schema)}
    assert ledger.open_budget("patients", budget.promise, **facts, who="bob") == budget
    assert ledger.budget("patients") == budget
    for promise, change in [
        (RenyiDP(2, 2.0), {}),
        (RenyiDP(3, 1.0), {}),
        (budget.promise, {"n": 101}),
        (budget.promise, {"schema": {"smoker": "boolean"}}),
    ]:
        with pytest.raises(InvalidValue, match="a budget never changes"):
            ledger.open_budget("patients", promise, **(facts | change))
    assert ledger.budgets() == [budget]


def test_a_data_set_without_a_budget_is_refused(ledger: Ledger) -> None:
    with pytest.raises(InvalidValue, match="no budget for 'nobody'"):
        ledger.budget("nobody")


def test_a_budget_made_up_by_the_caller_is_refused(ledger: Ledger, budget: Budget) -> None:
    richer = dataclasses.replace(budget, limit=1e9)
    with pytest.raises(InvalidValue, match="was not read from the ledger"):
        ledger.reserve(richer, GaussianProfile(30.0), REQUEST)


def test_budgets_are_spent_apart(ledger: Ledger, budget: Budget, spend: Callable[..., int]) -> None:
    other = ledger.open_budget("others", RenyiDP(2, 0.5), n=5, schema={})
    spend(0.5)
    assert (ledger.spent(budget), ledger.spent(other)) == (Fraction(1, 4), 0)
    assert len(ledger.entries("patients")) == 1
    assert ledger.entries("others") == []
    ledger.reserve(other, QUARTER, REQUEST)
    ledger.reserve(other, QUARTER, REQUEST)
    with pytest.raises(BudgetExceeded, match="budget of others"):
        ledger.reserve(other, QUARTER, REQUEST)
