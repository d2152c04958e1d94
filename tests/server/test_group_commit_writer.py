"""The clerk: everyone's changes are written, each is told of its own, and nobody before they are durable."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sottovoce.faces.server.group_commit_writer import GroupCommitWriter
from sottovoce.privacy.errors import BudgetExceeded, InvalidValue, LedgerUnavailable
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.promises import RenyiDP
from sottovoce.service.ledger import Budget, Ledger, Reservation
from sottovoce.service.ledger.changes import committing

COST, PROFILE = 0.125**2, GaussianProfile(0.125)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "p.ledger", create=True) as opened:
        yield opened


@pytest.fixture
def budget(ledger: Ledger) -> Budget:
    return ledger.open_budget("patients", RenyiDP(2, 5 * COST), n=100, schema={})


@pytest.fixture
def clerk(ledger: Ledger) -> Iterator[GroupCommitWriter]:
    opened = GroupCommitWriter(ledger)
    yield opened
    opened.close()


def test_each_is_told_of_its_own(ledger: Ledger, budget: Budget, clerk: GroupCommitWriter) -> None:
    asked = ledger.charge(budget, PROFILE, {})

    def nonsense() -> Any:
        raise InvalidValue("no such thing")

    async def story() -> list[Any]:
        wanted = [clerk.write(lambda: ledger.reserving(asked), lambda right: right.entry) for _ in range(7)]
        odd = [clerk.write(nonsense, id), clerk.write(lambda: ledger.reserving(asked, key="k"), lambda _: 1 / 0)]
        return await asyncio.gather(*odd, *wanted, return_exceptions=True)

    no, failed, *got = asyncio.run(story())
    assert isinstance(no, InvalidValue)
    assert isinstance(failed, ZeroDivisionError)  # told late: what was written stays written
    granted = [one for one in got if isinstance(one, int)]
    assert len(granted) == len(set(granted)) == 4
    assert [type(one) for one in got if one not in granted] == [BudgetExceeded] * 3
    assert ledger.spent(budget) == 5 * ledger.entries()[0].cost
    ledger.verify()


def test_what_waits_is_written_together(
    ledger: Ledger, budget: Budget, clerk: GroupCommitWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go, sizes = threading.Event(), threading.Event(), []
    honest = ledger.write_all

    def held(changes: Any) -> Any:
        wanted = list(changes)
        sizes.append(len(wanted))
        begun.set()
        assert go.wait(30)
        return honest(wanted)

    monkeypatch.setattr(ledger, "write_all", held)
    asked = ledger.charge(budget, PROFILE, {})

    async def story() -> list[Reservation]:
        first = asyncio.create_task(clerk.write(lambda: ledger.reserving(asked), lambda right: right))
        await asyncio.to_thread(begun.wait, 30)
        rest = [asyncio.create_task(clerk.write(lambda: ledger.reserving(asked), lambda right: right)) for _ in "abcd"]
        await asyncio.sleep(0)
        assert not first.done()
        go.set()
        return await asyncio.gather(first, *rest)

    rights = asyncio.run(story())
    assert sizes == [1, 4]
    assert len({right.entry for right in rights}) == 5
    for right in rights:
        ledger.commit(right, {"value": 1})


def test_who_has_waited_longest_goes_first_and_the_end_comes_after_all(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = threading.Event(), threading.Event()
    made: list[float] = []

    def held(changes: Any) -> Any:
        begun.set()
        assert go.wait(30)
        return [None for _ in changes]

    def making(since: float) -> Any:
        def make() -> Any:
            made.append(since)
            return lambda _: None

        return make

    monkeypatch.setattr(ledger, "write_all", held)
    clerk = GroupCommitWriter(ledger)

    async def story() -> None:
        wanted = [asyncio.create_task(clerk.write(making(0.5), id, 0.5))]
        await asyncio.to_thread(begun.wait, 30)
        came = [*(2.0 + i / 1000 for i in range(150)), 1.0]  # more than go into two transactions, the oldest last
        wanted += [asyncio.create_task(clerk.write(making(since), id, since)) for since in came]
        await asyncio.sleep(0)
        go.set()
        await asyncio.to_thread(clerk.close)
        await asyncio.gather(*wanted)

    asyncio.run(story())
    assert made == [0.5, 1.0, *(2.0 + i / 1000 for i in range(150))]


def test_a_ledger_that_fails_is_told_to_all_and_the_clerk_goes_on(
    ledger: Ledger, budget: Budget, clerk: GroupCommitWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_: Any) -> Any:
        raise LedgerUnavailable("the disk is full")

    asked = ledger.charge(budget, PROFILE, {})

    async def ask(many: int) -> list[Any]:
        wanted = [clerk.write(lambda: ledger.reserving(asked), lambda right: right) for _ in range(many)]
        return await asyncio.gather(*wanted, return_exceptions=True)

    with monkeypatch.context() as patch:
        patch.setattr(ledger, "write_all", gone)
        assert [str(one) for one in asyncio.run(ask(3))] == ["the disk is full"] * 3
    (right,) = asyncio.run(ask(1))
    assert isinstance(right, Reservation)


def test_what_is_under_way_is_finished_at_the_end(ledger: Ledger, budget: Budget) -> None:
    clerk = GroupCommitWriter(ledger)
    right = ledger.reserve(budget, PROFILE, {})
    assert isinstance(right, Reservation)

    async def story() -> None:
        task = asyncio.create_task(clerk.write(lambda: committing(right, {"value": 1}), lambda content: content))
        await asyncio.sleep(0)
        await asyncio.to_thread(clerk.close)
        assert (await task)["kept"]

    asyncio.run(story())
    assert [str(entry.state) for entry in ledger.entries()] == ["committed"]


def test_a_crowd_that_does_not_end_does_not_put_off_the_end(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go = threading.Event(), threading.Event()
    sizes: list[int] = []
    tasks: list[asyncio.Task[Any]] = []

    async def story() -> list[Any]:
        loop, clerk = asyncio.get_running_loop(), GroupCommitWriter(ledger)

        def come(many: int, here: threading.Event) -> None:
            tasks.extend(loop.create_task(clerk.write(lambda: lambda _: None, id)) for _ in range(many))
            loop.call_soon(here.set)  # after each of them has asked

        def held(changes: list[Any]) -> list[Any]:
            sizes.append(len(changes))
            begun.set()
            assert go.wait(30)
            if len(sizes) < 10:
                loop.call_soon_threadsafe(come, 65, here := threading.Event())
                assert here.wait(30)
            return [None for _ in changes]

        monkeypatch.setattr(ledger, "write_all", held)
        come(1, threading.Event())
        await asyncio.to_thread(begun.wait, 30)
        closing = asyncio.create_task(asyncio.to_thread(clerk.close))
        while clerk._errands.empty():
            await asyncio.sleep(0)
        go.set()
        await closing
        return await asyncio.gather(*tasks, return_exceptions=True)

    told = [isinstance(one, LedgerUnavailable) for one in asyncio.run(story())]
    assert sizes == [1, 64, 1]
    assert told == [False] * 66 + [True] * 130


def test_what_would_end_its_thread_is_told_and_the_clerk_goes_on(
    ledger: Ledger, budget: Budget, clerk: GroupCommitWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(*_: Any) -> Any:
        raise SystemExit(3)

    asked = ledger.charge(budget, PROFILE, {})

    async def story() -> list[Any]:
        wanted = [clerk.write(ended, id), clerk.write(lambda: ledger.reserving(asked), ended)]
        return await asyncio.gather(*wanted, return_exceptions=True)

    assert [type(one) for one in asyncio.run(story())] == [LedgerUnavailable] * 2
    with monkeypatch.context() as patch:
        patch.setattr(ledger, "write_all", ended)
        assert [type(one) for one in asyncio.run(story())] == [LedgerUnavailable] * 2
    (right,) = asyncio.run(asyncio.wait_for(_all(clerk.write(lambda: ledger.reserving(asked), lambda one: one)), 30))
    assert isinstance(right, Reservation)


async def _all(*wanted: Any) -> list[Any]:
    return await asyncio.gather(*wanted)


def test_whoever_comes_after_the_end_is_told_so(ledger: Ledger, budget: Budget) -> None:
    clerk = GroupCommitWriter(ledger)
    clerk.close()
    asked = ledger.charge(budget, PROFILE, {})
    late = clerk.write(lambda: ledger.reserving(asked), lambda one: one)
    with pytest.raises(LedgerUnavailable, match="is closed"):
        asyncio.run(asyncio.wait_for(late, 30))
    assert ledger.entries() == []
