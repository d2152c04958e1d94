"""A budget for each period: an entry is charged to the periods that it reads, and to no other."""

from __future__ import annotations

import itertools
import multiprocessing
import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from sottovoce.privacy.errors import BudgetExceeded, InvalidValue, LedgerCorrupt
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.promises import RenyiDP
from sottovoce.service.ledger import Budget, Ledger, Reservation
from sottovoce.service.ledger.replay import Replay
from support.period_audit import spent_by_text

QUARTER = GaussianProfile(0.5)  # costs 1/4 at Rényi order 2
NAMES = ("January", "February", "no period")
BY = "admitted: monthly"


def charge(ledger: Ledger, budget: Budget, *periods: str, mu: float = 0.5, **options: Any) -> Reservation:
    options |= {"periods": periods} if periods else {}
    right = ledger.reserve(budget, GaussianProfile(mu), {"mechanism": "noise"}, **options)
    assert isinstance(right, Reservation)
    return right


def check(ledger: Ledger) -> None:
    """Verify, and compare what is known with what the text alone adds up to."""
    ledger.verify()
    replay = Replay()
    with ledger._store.transaction(write=False) as transaction:
        for events in transaction.batches(0):
            for event in events:
                replay.feed(event)
    by_text = spent_by_text(ledger._store)
    for budget in ledger.budgets():
        totals = ledger.spent_by_period(budget)
        assert totals == replay.by_period.get(budget.id, {}) == by_text.get(budget.dataset, {})
        assert all(0 <= total <= Fraction(budget.limit) for total in totals.values())
        assert ledger.spent(budget) == max(totals.values(), default=ledger.spent(budget))


def test_each_period_has_the_limit_to_itself(ledger: Ledger, budget: Budget) -> None:
    division = ledger.divide(budget, BY, NAMES, who="ada")
    assert (division.by, division.names, division.others) == (BY, NAMES, "no period")
    for _ in range(4):
        charge(ledger, budget, "January")
    with pytest.raises(BudgetExceeded, match="the budget of patients does not cover it in January"):
        charge(ledger, budget, "January", "February")
    ledger.commit(charge(ledger, budget, "February"), {"value": 1})
    with pytest.raises(BudgetExceeded, match="January"):
        charge(ledger, budget)  # of which nobody said what it reads: all
    assert ledger.spent_by_period(budget) == {"January": 1, "February": Fraction(1, 4), "no period": 0}
    assert [entry.periods for entry in ledger.entries()][-1] == ("February",)
    assert ledger.entries()[-1].to_dict()["periods"] == ["February"]
    check(ledger)


def test_what_was_spent_before_counts_in_every_period(ledger: Ledger, budget: Budget) -> None:
    pending = charge(ledger, budget)
    charge(ledger, budget)
    ledger.divide(budget, BY, NAMES)
    assert set(ledger.spent_by_period(budget).values()) == {Fraction(1, 2)}
    charge(ledger, budget, "February")
    ledger.void(pending, "not asked")  # it was charged to all of them
    assert ledger.spent_by_period(budget) == {
        "January": Fraction(1, 4),
        "February": Fraction(1, 2),
        "no period": Fraction(1, 4),
    }
    check(ledger)


def test_a_period_that_is_named_later_begins_with_what_its_records_were_charged(ledger: Ledger, budget: Budget) -> None:
    ledger.divide(budget, BY, NAMES)
    charge(ledger, budget, "no period")
    charge(ledger, budget, "January")
    again = ledger.divide(budget, BY, ("January", "February", "March", "no period"))
    assert ledger.divide(budget, BY, ("January", "February", "March", "no period")) == again
    assert ledger.spent_by_period(budget) == {
        "January": Fraction(1, 4),
        "February": 0,
        "March": Fraction(1, 4),
        "no period": Fraction(1, 4),
    }
    for by, names, said in (
        ("ward", NAMES, "for good"),
        (BY, ("January", "no period"), "would be gone: February, March"),
        (BY, ("January", "February", "no period", "March"), "stays in 'no period'"),
    ):
        with pytest.raises(InvalidValue, match=said):
            ledger.divide(budget, by, names)
    check(ledger)


def test_what_is_given_up_is_given_back_to_its_periods_alone(ledger: Ledger, budget: Budget) -> None:
    ledger.divide(budget, BY, NAMES)
    right, other = charge(ledger, budget, "January"), charge(ledger, budget, "January", "February")
    ledger.void(right, "given up")
    assert ledger.spent_by_period(budget) == {"January": Fraction(1, 4), "February": Fraction(1, 4), "no period": 0}
    ledger.void(other, "given up")
    assert ledger.spent(budget) == 0
    check(ledger)


def test_parts_have_the_periods_of_their_whole(ledger: Ledger, budget: Budget) -> None:
    early = ledger.open_budget("patients/ada", RenyiDP(2, 0.5), n=100, schema=budget.schema, whole=budget)
    charge(ledger, early)
    ledger.divide(budget, BY, NAMES)
    late = ledger.open_budget("patients/bob", RenyiDP(2, 0.5), n=100, schema=budget.schema, whole=budget)
    right = charge(ledger, late, "January")
    charge(ledger, early, "February")
    with pytest.raises(BudgetExceeded, match="patients/ada does not cover it in February"):
        charge(ledger, early, "February")
    quarter, half = Fraction(1, 4), Fraction(1, 2)
    assert ledger.spent_by_period(early) == {"January": quarter, "February": half, "no period": quarter}
    assert ledger.spent_by_period(late) == {"January": quarter, "February": 0, "no period": 0}
    assert ledger.spent_by_period(budget) == {"January": half, "February": half, "no period": quarter}
    ledger.void(right, "given up")
    assert ledger.spent_by_period(budget)["January"] == quarter
    ledger.divide(budget, BY, ("January", "February", "March", "no period"))
    assert ledger.spent_by_period(late)["March"] == 0
    assert ledger.spent_by_period(early)["March"] == quarter
    assert ledger.division(late) == ledger.division(budget)
    with pytest.raises(InvalidValue, match="is a part; it has the periods of its whole"):
        ledger.divide(late, BY, NAMES)
    check(ledger)


@pytest.mark.parametrize(
    ("periods", "said"),
    [(("March",), "there is no 'March'"), ((), "at least one"), (("January", "January"), "each once")],
)
def test_periods_that_make_no_sense_are_refused(
    ledger: Ledger, budget: Budget, periods: tuple[str, ...], said: str
) -> None:
    with pytest.raises(InvalidValue, match="has no periods"):
        ledger.reserve(budget, QUARTER, {}, periods=["January"])
    ledger.divide(budget, BY, NAMES)
    with pytest.raises(InvalidValue, match=said):
        ledger.reserve(budget, QUARTER, {}, periods=periods)
    assert ledger.spent(budget) == 0


def test_a_question_priced_before_periods_were_named_anew(ledger: Ledger, budget: Budget, url: str) -> None:
    blank = ledger.charge(budget, QUARTER, {})
    first = ledger.divide(budget, BY, NAMES)
    asked = ledger.charge(budget, QUARTER, {}, periods=["no period"], division=first.number)
    with Ledger(url) as other:
        other.divide(other.budget("patients"), BY, ("January", "February", "March", "no period"))
    ledger.write(ledger.reserving(asked))  # its records may be of March, as it is called now
    assert [name for name, total in ledger.spent_by_period(budget).items() if total] == ["March", "no period"]
    ledger.write(ledger.reserving(ledger.charge(budget, QUARTER, {}, periods=["January"], division=first.number)))
    ledger.write(ledger.reserving(blank))  # what was priced without periods is charged to all
    assert [float(total) for total in ledger.spent_by_period(budget).values()] == [0.5, 0.25, 0.5, 0.5]
    check(ledger)


def test_two_who_write_and_one_who_comes_later_know_the_same(ledger: Ledger, budget: Budget, url: str) -> None:
    source = random.Random(5)
    with Ledger(url) as other:
        theirs = other.budget("patients")
        open_rights: list[tuple[Ledger, Reservation]] = []
        for step in range(60):
            at, mine = source.choice([(ledger, budget), (other, theirs)])
            match source.randrange(6):
                case 0 if step > 10:
                    names = [f"month {k}" for k in range(2 + step // 20)]
                    at.divide(mine, BY, (*names, "no period"))
                case 1 if open_rights:
                    at, right = open_rights.pop(source.randrange(len(open_rights)))
                    at.void(right, "given up")
                case _:
                    division = at.division(mine)
                    names = [] if division is None else source.sample(division.names, source.randint(1, 2))
                    try:
                        open_rights.append((at, charge(at, mine, *names, mu=0.25)))
                    except BudgetExceeded:
                        continue
            assert ledger.spent_by_period(budget) == other.spent_by_period(theirs)
    check(ledger)
    with Ledger(url) as third:
        check(third)


def test_changes_of_a_group_that_are_refused_leave_no_trace(ledger: Ledger, budget: Budget) -> None:
    ledger.divide(budget, BY, NAMES)
    wanted = [
        ledger.reserving(ledger.charge(budget, GaussianProfile(0.5), {}, periods=[name]))
        for name in ["January"] * 6 + ["February"] * 2
    ]
    outcomes = ledger.write_all(wanted)
    assert [isinstance(outcome, Reservation) for outcome in outcomes] == [True] * 4 + [False] * 2 + [True] * 2
    assert ledger.spent_by_period(budget) == {"January": 1, "February": Fraction(1, 2), "no period": 0}
    check(ledger)


def test_a_checkpoint_knows_the_periods(
    url: str, ledger: Ledger, budget: Budget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    ledger.divide(budget, BY, NAMES)
    right = charge(ledger, budget, "January")
    with Ledger(url) as other:
        other.leave_checkpoint()
    charge(ledger, budget, "February", "January")
    with Ledger(url) as later:
        assert later.opened[0].count > 0
        assert later.spent_by_period(later.budget("patients"))["January"] == Fraction(1, 2)
        later.void(right, "given up")
        check(later)


def _spend(url: str, period: str, done: Any) -> None:
    with Ledger(url) as ledger:
        granted = 0
        for _ in range(12):
            try:
                charge(ledger, ledger.budget("patients"), period, "February")
                granted += 1
            except BudgetExceeded:
                break
        done.put((period, granted))


def test_two_processes_never_overspend_a_period(ledger: Ledger, budget: Budget, url: str) -> None:
    ledger.divide(budget, BY, NAMES)
    context = multiprocessing.get_context("spawn")
    done = context.Queue()
    workers = [context.Process(target=_spend, args=(url, name, done)) for name in ("January", "no period")]
    for worker in workers:
        worker.start()
    granted = dict(done.get(timeout=60) for _ in workers)
    for worker in workers:
        worker.join()
    assert sum(granted.values()) == 4  # February is in each
    assert ledger.spent_by_period(budget)["February"] == 1
    check(ledger)


def _altered(change: Callable[[dict[str, Any]], None]) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    profile = {"request": {}, "profile": QUARTER.to_dict(), "guard": "x", "who": "ada", "at": "t"}
    opening = {"promise": RenyiDP(2, 1.0).to_dict(), "n": 9, "schema": {}, "filter": {}, "limit": 1.0}
    named = {"by": BY, "names": list(NAMES), "who": "ada", "at": "t"}
    reserve = profile | {"cost": 0.25, "periods": ["January"]}
    columns = {"budget": 2, "entry": 4, "spent": "1/4"}
    parts = {"named": named, "reserve": reserve, "columns": columns}
    change(parts)
    return [
        ("create", {"version": 1, "layout": "abc"}, {}),
        ("open", opening | {"who": "ada", "at": "t"}, {"budget": 2, "key": "patients", "spent": "0"}),
        ("periods", named, {"budget": 2, "key": "patients", "spent": "0"}),
        ("reserve", reserve, columns),
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda parts: parts["reserve"].pop("periods"), "says its periods"),
        (lambda parts: parts["reserve"].update(periods=["May"]), "there is no 'May'"),
        (lambda parts: parts["reserve"].update(periods=[]), "at least one"),
        (lambda parts: parts["columns"].update(spent="1/2"), "the running total is wrong"),
        (lambda parts: (parts["reserve"].update(cost=2.0), parts["columns"].update(spent="2")), "overspent"),
        (lambda parts: parts["named"].update(names=["a"]), "two periods or more"),
        (lambda parts: parts["named"].update(names=["a", "a"]), "two periods or more"),
        (lambda parts: parts["named"].update(names=[1, 2]), "two periods or more"),
    ],
)
def test_events_of_periods_that_break_a_rule_are_told(change: Callable[[dict[str, Any]], None], said: str) -> None:
    from tests.ledger.test_replay import replay

    assert replay(_altered(lambda _: None)).by_period == {2: {"January": Fraction(1, 4), "February": 0, "no period": 0}}
    with pytest.raises(LedgerCorrupt, match=said):
        replay(_altered(change))


def test_entries_that_are_charged_in_any_order_add_up(ledger: Ledger, budget: Budget) -> None:
    ledger.divide(budget, BY, NAMES)
    for order in itertools.permutations(NAMES, 2):
        charge(ledger, budget, *order, mu=0.1)
    totals = set(ledger.spent_by_period(budget).values())
    assert len(totals) == 1
    check(ledger)


def _spend_for_ever(url: str, begun: Any) -> None:
    source = random.Random()
    with Ledger(url) as ledger:
        budget = ledger.budget("patients")
        while True:
            names = source.sample(NAMES, source.randint(1, 3))
            try:
                right = charge(ledger, budget, *names, mu=0.05)
                if source.random() < 0.3:
                    ledger.void(right, "given up")
                elif source.random() < 0.7:
                    ledger.commit(right, {"value": 1})
            except BudgetExceeded:
                pass
            begun.set()


def test_processes_that_are_killed_leave_no_period_overspent(ledger: Ledger, budget: Budget, url: str) -> None:
    ledger.divide(budget, BY, NAMES)
    context, source = multiprocessing.get_context("spawn"), random.Random(8)
    for _ in range(3):
        begun = context.Event()
        worker = context.Process(target=_spend_for_ever, args=(url, begun))
        worker.start()
        assert begun.wait(60)
        worker.join(source.uniform(0.0, 0.4))
        worker.kill()
        worker.join()
        with Ledger(url) as after:
            check(after)
