"""What the order of events tells of hidden work: nothing before a tick, and nothing to those who are refused."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sottovoce.faces.client.errors import AnswerLost
from sottovoce.faces.server.pacing import TickGrid
from sottovoce.faces.server.questions import ServerQuestion
from sottovoce.faces.server.service import Service
from sottovoce.privacy.errors import BudgetExceeded, SottovoceError
from sottovoce.records.tables import Table
from sottovoce.service.ledger import State
from support.offices import BETA, token_for, write_office

USUAL = ServerQuestion(system=BETA, target="renyi:8,0.05", column="smoker")
PATIENCE = 60.0


class Held:
    """Work that begins, and ends only when it is let go."""

    def __init__(self) -> None:
        self.begun, self.free = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.begun.set()
        assert self.free.wait(PATIENCE)

    async def under_way(self) -> None:
        assert await asyncio.to_thread(self.begun.wait, PATIENCE)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A service with room for one answer at a time, for four of Ada's questions, and with a clock that stands still."""
    config = write_office(tmp_path, whole="renyi:8,0.3", each="renyi:8,0.2", limits="threads = 1")
    with Service(config) as opened:
        opened.grid = TickGrid(0.25, lambda: 0.0, lambda _: asyncio.sleep(0))
        yield opened


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    """The first read of a table is held."""
    work, real = Held(), Table.read

    def read(self: Table, *arguments: Any, **options: Any) -> Any:
        if not work.begun.is_set():
            work()
        return real(self, *arguments, **options)

    monkeypatch.setattr(Table, "read", read)
    yield work
    work.free.set()


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def told() -> None:
        async with asyncio.timeout(PATIENCE):
            await story()

    asyncio.run(told())


REFUSED = {
    "no such column": ServerQuestion(system=BETA, target="renyi:8,0.05", column="secret"),
    "no sense": ServerQuestion(system=BETA, target="renyi:8,0.05", column="smoker", where="ward > 3"),
    "no such query": ServerQuestion(system=BETA, target="renyi:8,0.05", column="smoker", query="theta['N']"),
    "unreachable": ServerQuestion(system=BETA, target="pure:0.5", column="smoker", mechanism="diffused"),
    "too dear": ServerQuestion(system=BETA, target="renyi:8,0.19", column="smoker"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_refusal_does_not_wait_for_hidden_work(service: Service, held: Held, why: str) -> None:
    async def story() -> None:
        ada = service.authenticate(token_for(service.config))
        answer = asyncio.create_task(service.ask(ada, "patients", USUAL))
        await held.under_way()
        with pytest.raises(SottovoceError) as refusal:
            await service.ask(ada, "patients", REFUSED[why])
        assert isinstance(refusal.value, BudgetExceeded) == (why == "too dear")
        assert not answer.done()
        held.free.set()
        assert (await answer)["entry"]

    run(story)


def test_a_retry_while_it_is_made_and_what_was_told_before_do_not_wait(service: Service, held: Held) -> None:
    async def story() -> None:
        ada = service.authenticate(token_for(service.config))
        held.begun.set()
        before = await service.ask(ada, "patients", USUAL, "monday")
        held.begun.clear()
        other = ServerQuestion(system=BETA, target="renyi:8,0.05", column="smoker", where="age > 40")
        answer = asyncio.create_task(service.ask(ada, "patients", other, "tuesday"))
        await held.under_way()
        with pytest.raises(SottovoceError, match="is pending"):
            await service.ask(ada, "patients", other, "tuesday")
        assert (await service.ask(ada, "patients", USUAL, "monday"))["release"] == before["release"]
        assert service.remaining(ada, "patients")["yours"]["spent"] > 0
        assert not answer.done()
        held.free.set()
        await answer

    run(story)


def test_a_slot_is_held_until_the_tick_and_not_until_the_work_ends(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first work ends at once; the second begins when the first one's tick has come, and not before."""
    events: list[str] = []

    async def story() -> None:
        tick, waiting = asyncio.Event(), asyncio.Event()

        async def sleep(_: float) -> None:
            events.append("waits")
            waiting.set()
            await tick.wait()

        service.grid = TickGrid(0.25, lambda: 0.0, sleep)
        curator = service._datasets["patients"].curator
        make = curator.make_all
        monkeypatch.setattr(curator, "make_all", lambda paid: events.append("made") or make(paid))
        ada = service.authenticate(token_for(service.config))
        first = asyncio.create_task(service.ask(ada, "patients", USUAL))
        await waiting.wait()
        second = asyncio.create_task(service.ask(ada, "patients", USUAL))
        while len(service.ledger.pending()) < 2:  # the second is paid for, and waits for the slot
            await asyncio.sleep(0.01)
        for _ in range(20):
            await asyncio.sleep(0.005)
        assert events == ["made", "waits"]
        events.append("tick")
        tick.set()
        await asyncio.gather(first, second)

    run(story)
    assert events == ["made", "waits", "tick", "made", "waits"]


def test_a_lost_answer_is_pending_until_its_tick(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError

    states: list[list[State]] = []

    async def sleep(_: float) -> None:
        states.append([entry.state for entry in service.ledger.entries()])

    monkeypatch.setattr(Table, "read", fail)
    service.grid = TickGrid(0.25, lambda: 0.0, sleep)
    ada = service.authenticate(token_for(service.config))
    with pytest.raises(AnswerLost):
        asyncio.run(service.ask(ada, "patients", USUAL))
    assert states == [[State.PENDING]]
    assert [entry.state for entry in service.ledger.entries()] == [State.LOST]


def test_a_question_still_being_built_is_given_up_at_the_end_and_costs_nothing(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Held()
    monkeypatch.setattr("sottovoce.faces.server.questions.build", lambda *_: work())

    async def story() -> None:
        ada = service.authenticate(token_for(service.config))
        asked = asyncio.create_task(service.ask(ada, "patients", USUAL))
        await work.under_way()
        service.stop()
        with pytest.raises(SottovoceError, match="is stopping"):
            await asked
        await service.drain()

    run(story)
    assert service.ledger.entries() == []
    work.free.set()
