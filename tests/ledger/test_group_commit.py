"""Group commit: what several threads want at once is one durable transaction, and each is told only of its own."""

import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from sottovoce.privacy.errors import BudgetExceeded, InvalidValue, LedgerUnavailable, SottovoceError
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.promises import RenyiDP
from sottovoce.service.ledger import EntryPending, Ledger, Reservation, changes, queries
from sottovoce.service.ledger.anchor import Anchor
from sottovoce.service.ledger.changes import committing
from sottovoce.service.ledger.group_commit import Group
from sottovoce.service.ledger.store import Store
from sottovoce.service.ledger.transaction import Transaction

COST = 0.125**2  # at order 2, of a Gaussian profile with this μ
PROFILE = GaussianProfile(0.125)


def together(ledger: Ledger, works: list[Callable[[], Any]], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Run works in threads of their own, all of which wait while the first of them writes; return what each got."""
    got: list[Any] = [None] * len(works)
    begun, go = threading.Event(), threading.Event()
    honest = Store.begin

    def held(store: Store, connection: Any, *, write: bool) -> None:
        if not begun.is_set():
            begun.set()
            go.wait(30)
        honest(store, connection, write=write)

    def run(i: int) -> None:
        try:
            got[i] = works[i]()
        except SottovoceError as error:
            got[i] = error

    monkeypatch.setattr(Store, "begin", held)
    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(works))]
    threads[0].start()
    assert begun.wait(30)
    for i, thread in enumerate(threads[1:], 1):
        thread.start()
        while len(ledger._group._waiting) < i:
            threading.Event().wait(0.001)
    go.set()
    for thread in threads:
        thread.join(60)
    monkeypatch.setattr(Store, "begin", honest)
    return got


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How far the ledger had come after each durable transaction, by the anchor beside it."""
    noted: list[int] = []
    honest = Anchor.write

    def write(anchor: Anchor, head: Any) -> None:
        honest(anchor, head)
        noted.append(head.count)

    monkeypatch.setattr(Anchor, "write", write)
    return noted


def opened(url: str | Path, covers: int) -> tuple[Ledger, Any]:
    ledger = Ledger(url, create=True, timeout=30)
    return ledger, ledger.open_budget("patients", RenyiDP(2, covers * COST), n=100, schema={})


def test_those_who_wait_share_one_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commits: list[int]
) -> None:
    ledger, budget = opened(tmp_path / "a.ledger", 10)
    with ledger:
        commits.clear()
        rights = together(ledger, [lambda: ledger.reserve(budget, PROFILE, {})] * 9, monkeypatch)
        assert commits == [3, 11]  # one alone, then eight at once
        assert sorted(right.entry for right in rights) == list(range(3, 12))
        assert ledger.spent(budget) == 9 * Fraction(COST)
        assert ledger.verify().count == 11


def test_a_refusal_among_others_leaves_no_trace(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, whole = opened(url, 4)
    with ledger:
        part = ledger.open_budget("patients of ada", RenyiDP(2, 9 * COST), n=100, schema={}, whole=whole)
        got = together(ledger, [lambda: ledger.reserve(part, PROFILE, {})] * 7, monkeypatch)
        granted = [one for one in got if isinstance(one, Reservation)]
        # The part covers all seven and the whole only four: the rest is refused after the part was charged.
        assert len(granted) == 4
        assert [type(one) for one in got if one not in granted] == [BudgetExceeded] * 3
        assert ledger.spent(whole) == ledger.spent(part) == 4 * Fraction(COST)
        assert len(ledger.entries()) == 4
        assert ledger.verify().count == 3 + 2 * 4


def test_a_change_that_cannot_be_written_harms_no_other(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, budget = opened(url, 10)
    with ledger:
        strange: list[Any] = []

        def half_written(transaction: Any) -> None:
            asked = {"request": {}, "profile": PROFILE.to_dict(), "cost": COST, "guard": "", "who": "", "at": ""}
            number, total = transaction.head.count + 1, queries.lock_budget(transaction, budget.id) + Fraction(COST)
            transaction.append_total("reserve", asked, budget.id, total, entry=number)
            transaction.append("commit", {"odd": object()}, budget=budget.id, entry=number)

        def odd() -> None:
            with pytest.raises(TypeError):
                ledger.write(half_written)
            strange.append("refused")

        good = lambda: ledger.reserve(budget, PROFILE, {})  # noqa: E731
        got = together(ledger, [good, good, odd, good], monkeypatch)
        assert strange == ["refused"]
        assert [isinstance(one, Reservation) for one in got] == [True, True, False, True]
        assert ledger.spent(budget) == 3 * Fraction(COST)
        ledger.verify()


def test_nobody_is_told_where_the_transaction_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, budget = opened(tmp_path / "a.ledger", 10)
    with ledger:
        right = ledger.reserve(budget, PROFILE, {})
        assert isinstance(right, Reservation)
        honest = ledger._writing

        def failing() -> Any:
            monkeypatch.setattr(ledger._group, "_writing", unavailable)  # from the second transaction on
            return honest()

        def unavailable() -> Any:
            raise LedgerUnavailable("the disk is full")

        monkeypatch.setattr(ledger._group, "_writing", failing)
        works = [lambda: ledger.reserve(budget, PROFILE, {})] * 4 + [lambda: ledger.commit(right, {"value": 1})]
        got = together(ledger, works, monkeypatch)
        assert isinstance(got[0], Reservation)
        assert [str(one) for one in got[1:]] == ["the disk is full"] * 4
        assert len({id(one) for one in got[1:]}) == 4  # an exception each: threads add their own traces to it
        monkeypatch.setattr(ledger._group, "_writing", honest)
        assert ledger.spent(budget) == 2 * Fraction(COST)
        assert ledger.find_entry(budget, right.entry).state == "pending"  # type: ignore[union-attr]
        ledger.commit(right, {"value": 1})


def test_whoever_waited_too_long_spent_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, budget = opened(tmp_path / "a.ledger", 10)
    with ledger:
        monkeypatch.setattr(ledger._group, "_timeout", 0.05)
        begun, go = threading.Event(), threading.Event()

        def slow(transaction: Any) -> None:
            transaction.lock_head()
            begun.set()
            go.wait(30)

        thread = threading.Thread(target=lambda: ledger._group.run(slow))
        thread.start()
        assert begun.wait(30)
        with pytest.raises(LedgerUnavailable, match="other threads are writing"):
            ledger.reserve(budget, PROFILE, {})
        go.set()
        thread.join(30)
        assert ledger.spent(budget) == 0
        assert isinstance(ledger.reserve(budget, PROFILE, {}), Reservation)


def test_an_interrupt_stops_its_own_thread_and_not_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, budget = opened(tmp_path / "a.ledger", 10)
    with ledger:

        def interrupted(transaction: Any) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            ledger._group.run(interrupted)
        assert isinstance(ledger.reserve(budget, PROFILE, {}), Reservation)
        assert ledger.verify().count == 3


def test_changes_of_one_thread_share_a_transaction_and_one_is_refused_alone(tmp_path: Path, commits: list[int]) -> None:
    ledger, budget = opened(tmp_path / "a.ledger", 3)
    with ledger:
        commits.clear()
        asked = ledger.charge(budget, PROFILE, {})
        got = ledger.write_all([ledger.reserving(asked) for _ in range(5)])
        assert [type(one) for one in got] == [Reservation] * 3 + [BudgetExceeded] * 2
        assert commits == [5]
        assert ledger.write_all([]) == []
        assert ledger.spent(budget) == 3 * Fraction(COST)
        assert ledger.verify().count == 5


def test_totals_that_are_kept_are_those_of_the_events(url: str) -> None:
    """Two processes' worth of ledgers write in turn; neither may go by what it knew before the other wrote."""
    ledger, whole = opened(url, 12)
    with ledger, Ledger(url, timeout=30) as other:
        part = ledger.open_budget("patients of ada", RenyiDP(2, 8 * COST), n=100, schema={}, whole=whole)
        theirs = other.budget("patients of ada")
        for turn in range(4):
            mine = ledger.reserve(part, PROFILE, {})
            assert isinstance(mine, Reservation)
            if turn == 1:
                ledger.void(mine, "never mind")
            assert isinstance(other.reserve(theirs, PROFILE, {}), Reservation)
            with pytest.raises(BudgetExceeded):  # leaves what is known as it was
                ledger.reserve(part, GaussianProfile(4.0), {})
        assert ledger.spent(part) == other.spent(theirs) == 7 * Fraction(COST)
        assert isinstance(ledger.reserve(part, PROFILE, {}), Reservation)
        for one, held in ((ledger, part), (other, theirs)):
            with pytest.raises(BudgetExceeded):
                one.reserve(held, PROFILE, {})
        assert ledger.spent(whole) == 8 * Fraction(COST)
        ledger.verify()


def test_an_error_that_cannot_be_copied_leaves_nobody_a_right_that_is_not_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OddError(Exception):
        def __init__(self, first: str, second: str) -> None:
            super().__init__(first + second)

    honest = Transaction.finish

    def failing(transaction: Transaction) -> None:
        if transaction.head.count > transaction.start.count + 1:
            raise OddError("no", "!")
        honest(transaction)

    with Ledger(tmp_path / "a.ledger", create=True) as ledger:
        budget = ledger.open_budget("d", RenyiDP(2, 1.0), n=3, schema={})
        monkeypatch.setattr(Transaction, "finish", failing)

        def reserve() -> Any:
            try:
                return ledger.reserve(budget, PROFILE, {})
            except OddError as error:
                return error

        got = together(ledger, [reserve] * 4, monkeypatch)
        assert isinstance(got[0], Reservation)
        assert all(isinstance(one, OddError) for one in got[1:])
        monkeypatch.setattr(Transaction, "finish", honest)
        assert ledger.spent(budget) == Fraction(COST)


def test_an_interrupt_of_one_who_waits_or_is_told_to_write_stops_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, budget = opened(tmp_path / "a.ledger", 10)
    honest = Group._wait

    def interrupted(group: Group, party: Any) -> None:
        honest(group, party)
        if threading.current_thread().name == "unlucky":
            raise KeyboardInterrupt

    with ledger:
        monkeypatch.setattr(Group, "_wait", interrupted)

        def unlucky() -> str:
            threading.current_thread().name = "unlucky"
            try:
                ledger.reserve(budget, PROFILE, {})
            except KeyboardInterrupt:
                return "interrupted"
            return "went on"

        reserve = lambda: ledger.reserve(budget, PROFILE, {})  # noqa: E731
        got = together(ledger, [reserve, unlucky, reserve, reserve], monkeypatch)  # it is the next to write
        assert got[1] == "interrupted"
        assert all(isinstance(got[i], Reservation) for i in (0, 2, 3))
        assert ledger._group._writer is None
        assert ledger._group._waiting == []
        assert isinstance(reserve(), Reservation)
        assert ledger.spent(budget) == 4 * Fraction(COST)
        ledger.verify()


def test_the_same_entry_or_key_twice_in_one_transaction(url: str) -> None:
    """What is appended and not yet written counts as much as what was read."""
    ledger, budget = opened(url, 10)
    with ledger:
        asked = ledger.charge(budget, PROFILE, {})
        right = ledger.reserve(budget, PROFILE, {})
        assert isinstance(right, Reservation)
        got = ledger.write_all([committing(right, {"value": i}) for i in range(3)])
        assert [isinstance(one, Exception) for one in got] == [False, True, True]
        assert "was closed already (commit)" in str(got[1])
        first, second, other = ledger.write_all([ledger.reserving(asked, key=key) for key in ("k", "k", "l")])
        assert isinstance(first, Reservation)
        assert isinstance(second, EntryPending)
        assert isinstance(other, Reservation)
        # Reserved and closed in one transaction, by changes that know of each other through it alone.
        seen: list[Any] = []

        def both(transaction: Any) -> None:
            mine = changes.reserving(asked, who="", key=None, again=lambda *_: None)(transaction)
            seen.append(mine)
            committing(mine, {"value": 1})(transaction)

        done, late = ledger.write_all([both, lambda transaction: committing(seen[0], {"value": 2})(transaction)])
        assert done is None
        assert "was closed already" in str(late)
        assert ledger.spent(budget) == 4 * Fraction(COST)
        ledger.verify()


def test_an_entry_that_another_process_closed_is_closed(url: str) -> None:
    ledger, budget = opened(url, 10)
    with ledger, Ledger(url, timeout=30) as other:
        rights = ledger.write_all([ledger.reserving(ledger.charge(budget, PROFILE, {})) for _ in range(3)])
        other.recover(rights[1].entry, note="it seemed dead")
        got = ledger.write_all([committing(right, {"value": 1}) for right in rights])
        assert [isinstance(one, Exception) for one in got] == [False, True, False]
        assert "(recover)" in str(got[1])
        ledger.verify()


def test_a_change_that_asks_and_then_fails_leaves_no_trace(url: str) -> None:
    """What it appended was written by then, because it asked; what went before it stays."""
    ledger, budget = opened(url, 10)
    with ledger:
        asked = ledger.charge(budget, PROFILE, {})

        def regretted(transaction: Transaction) -> None:
            right = changes.reserving(asked, who="", key="k", again=lambda *_: None)(transaction)
            assert queries.find_entry(transaction, budget, right.entry) is not None
            raise InvalidValue("never mind")

        wanted = [ledger.reserving(asked), regretted, ledger.reserving(asked, key="k"), regretted]
        got = ledger.write_all(wanted)
        assert [type(one) for one in got] == [Reservation, InvalidValue, Reservation, EntryPending]
        assert ledger.spent(budget) == 2 * Fraction(COST)
        assert [entry.key for entry in ledger.entries()] == [None, "k"]
        assert ledger.verify().count == 4
        for right in (got[0], got[2]):
            ledger.commit(right, {"value": 1})
        ledger.verify()


def test_a_large_group_is_written_whole_and_in_order(url: str) -> None:
    ledger, budget = opened(url, 150)
    with ledger:
        asked = ledger.charge(budget, PROFILE, {})
        got = ledger.write_all([ledger.reserving(asked, key=f"k{i}") for i in range(157)])
        assert [isinstance(one, Reservation) for one in got] == [True] * 150 + [False] * 7
        assert [entry.key for entry in ledger.entries()] == [f"k{i}" for i in range(150)]
        ledger.write_all([committing(right, {"value": i}) for i, right in enumerate(got[:150])])
        assert ledger.verify().count == 302
        assert ledger.spent(budget) == 150 * Fraction(COST)
