"""What several paid for at once is made together, each with noise of its own; slots are held until the ticks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from sottovoce.faces.server.release_workers import ReleaseWorkers
from sottovoce.mechanisms import NoisyStatistics, TemperedPosterior
from sottovoce.mechanisms.conjugate import BetaBernoulli, DirichletCategorical
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import PureDP
from sottovoce.records.tables import Table
from sottovoce.service.curator import Curator, Paid, Quote, Unrecorded

NOISY = NoisyStatistics.calibrate(BetaBernoulli(1, 1), n=40, target=PureDP(0.05))


@pytest.fixture
def curator(tmp_path: Any) -> Any:
    import pyarrow as pa

    data = pa.table({"smoker": [i % 4 == 0 for i in range(40)]})
    with Curator(data, tmp_path / "p.ledger", PureDP(100.0), dataset="patients") as opened:
        yield opened


def paid_for(curator: Curator, priced: Quote, many: int) -> list[Paid]:
    return curator._ledger.write_all([curator.reserving(priced) for _ in range(many)])


async def at_once() -> None:
    await asyncio.sleep(0)


def made(curator: Curator, paid: list[Paid], tick: Callable[[], Any] = at_once, threads: int = 4) -> list[Any]:
    makers = ReleaseWorkers(threads)

    async def story() -> list[Any]:
        return await asyncio.gather(*(makers.make(curator, one, tick) for one in paid))

    try:
        return asyncio.run(asyncio.wait_for(story(), 60))
    finally:
        makers.close()


def test_those_who_wait_for_one_question_are_served_by_one_read(
    curator: Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    honest = Table.read
    monkeypatch.setattr(Table, "read", lambda *a, **k: reads.append(1) or honest(*a, **k))
    priced = curator.price(NOISY, "smoker")
    paid = paid_for(curator, priced, 30)
    drafts = made(curator, paid)
    assert reads == [1]
    assert [draft.reservation.entry for draft in drafts] == [one.reservation.entry for one in paid]
    assert all(one.reservation.touched for one in paid)
    assert len({float(draft.release.value.noisy[0]) for draft in drafts}) > 10  # noise of their own: b = 20
    for draft in drafts:
        curator.record(draft)
    assert len(curator.history()) == 30


@pytest.mark.parametrize(
    "mechanism",
    [
        TemperedPosterior.calibrate(BetaBernoulli(1, 1), n=40, target=PureDP(0.5)),
        NoisyStatistics(DirichletCategorical([1.0, 1.0]), 40, "laplace", 2.0),
    ],
)
def test_what_takes_longer_for_many_is_made_one_by_one(curator: Curator, mechanism: Any) -> None:
    priced = curator.price(mechanism, "smoker")
    assert not priced.together
    drafts = made(curator, paid_for(curator, priced, 3))
    assert all(isinstance(draft, Unrecorded) for draft in drafts)


def test_questions_that_differ_are_not_mixed_up(curator: Curator) -> None:
    one, other = curator.price(NOISY, "smoker"), curator.price(NOISY, "smoker", where="not smoker")
    paid = [paid for pair in zip(paid_for(curator, one, 3), paid_for(curator, other, 3), strict=True) for paid in pair]
    with pytest.raises(InvalidValue, match="as one question"):
        curator.make_all(paid)
    assert not any(one.reservation.touched for one in paid)
    drafts = made(curator, paid)
    assert [draft.reservation for draft in drafts] == [one.reservation for one in paid]


def test_what_was_paid_for_once_is_made_once(curator: Curator) -> None:
    first, second = paid_for(curator, curator.price(NOISY, "smoker"), 2)
    with pytest.raises(InvalidValue, match="made once"):
        curator.make_all([first, second, first])
    assert not first.reservation.touched
    curator.make_all([first])
    for again in ([first], [second, first]):
        with pytest.raises(InvalidValue, match="made once"):
            curator.make_all(again)
    assert not second.reservation.touched


def test_a_failure_is_told_to_all_and_the_next_is_made(curator: Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    priced = curator.price(NOISY, "smoker")
    with monkeypatch.context() as patch:
        patch.setattr(Table, "read", lambda *_, **__: 1 / 0)
        assert [type(one) for one in made(curator, paid_for(curator, priced, 3))] == [ZeroDivisionError] * 3
    assert isinstance(made(curator, paid_for(curator, priced, 1))[0], Unrecorded)


def test_a_slot_is_free_when_the_last_of_its_ticks_has_come(curator: Curator) -> None:
    """Five wait, three of them for one piece of work; one slot; each piece begins after all ticks of the one before."""
    one, other = curator.price(NOISY, "smoker"), curator.price(NOISY, "smoker", where="smoker")
    paid = [*paid_for(curator, one, 3), *paid_for(curator, other, 2)]
    events: list[str] = []
    honest = curator.make_all

    def make_all(paid: Any) -> Any:
        events.append(f"made {len(paid)}")
        return honest(paid)

    async def tick() -> None:
        await asyncio.sleep(0.002 * (len(events) % 3))
        events.append("tick")

    curator.make_all = make_all  # type: ignore[method-assign]
    made(curator, paid, tick, threads=1)
    assert events == ["made 3", *["tick"] * 3, "made 2", *["tick"] * 2]


@pytest.mark.parametrize("moments", range(12))
def test_whoever_is_cancelled_takes_no_slot_along(curator: Curator, moments: int) -> None:
    makers = ReleaseWorkers(1)
    makers.pool = _AtOnce()  # type: ignore[assignment]
    paid = paid_for(curator, curator.price(NOISY, "smoker"), 4)

    async def story() -> None:
        some = [asyncio.ensure_future(makers.make(curator, one, at_once)) for one in paid[:3]]
        for _ in range(moments):
            await asyncio.sleep(0)
        for one in some:
            one.cancel()
        await asyncio.gather(*some, return_exceptions=True)
        assert isinstance(await makers.make(curator, paid[3], at_once), Unrecorded)

    asyncio.run(asyncio.wait_for(story(), 60))


class _AtOnce(Executor):
    """Does what it is given when it is given, so that every moment of a loop is the same each time."""

    def submit(self, work: Any, /, *arguments: Any, **options: Any) -> Any:
        done: Future[Any] = Future()
        done.set_result(work(*arguments, **options))
        return done
