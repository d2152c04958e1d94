"""Paying: a question is priced, charged, made, recorded and told, in this order."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import WeakKeyDictionary

from sottovoce.faces.client.errors import AnswerLost, NotAllowed
from sottovoce.faces.client.response_bodies import RemainingBody
from sottovoce.faces.server.config import Config
from sottovoce.faces.server.datasets import Dataset
from sottovoce.faces.server.descriptions import DividedDescription, divided, in_part, keyed
from sottovoce.faces.server.group_commit_writer import GroupCommitWriter
from sottovoce.faces.server.logs import log_failure, log_late
from sottovoce.faces.server.metrics import Metrics
from sottovoce.faces.server.orders import Asking
from sottovoce.faces.server.pacing import TickGrid
from sottovoce.faces.server.questions import ServerQuestion
from sottovoce.faces.server.readiness import Readiness
from sottovoce.faces.server.receipts import Signer
from sottovoce.faces.server.release_workers import ReleaseWorkers, quietly
from sottovoce.faces.server.response_builder import ResponseBuilder
from sottovoce.faces.server.tokens import Caller
from sottovoce.faces.server.tracing import Tracing
from sottovoce.faces.server.verbs import VerbQuestion
from sottovoce.faces.server.work_queue import Receive, WorkQueue, while_there
from sottovoce.mechanisms import Release
from sottovoce.privacy.errors import LedgerCorrupt, LedgerUnavailable, SourceLost, SourceUnavailable
from sottovoce.service.answers.repeated_question import repeat_note
from sottovoce.service.curator import Paid, Quote, RecordedRelease, Unrecorded
from sottovoce.service.curator.table_looks import RecordsChanged
from sottovoce.service.ledger import Budget, Entry, Ledger
from sottovoce.service.ledger.changes import totalling
from sottovoce.service.ledger.group_commit import Change
from sottovoce.service.ledger.hash_chain import SealedText, canonical_object

_REMEMBERED = 1024
"""How many questions are known with what was built for them."""
_LOST = (
    "the answer was lost after it was charged; the history has its entry. Tell your administrator before you ask "
    "again: each try is charged"
)
_WAITS = (
    "the records went away after the question was charged, and nothing of them was read: ask again under the same "
    "Idempotency-Key once they are back, and the answer is made without another charge"
)
_CHANGED = "records of {} came or went while your question was asked, and it was not charged; ask again"
_OUT_OF_REACH = (
    "the records of {} are out of reach now, and nothing was charged; ask again in a moment, and tell your "
    "administrator if it lasts"
)


class PaidAnswers(ABC):
    """The part of the service that spends budget. Nothing else in it blocks the event loop, or is refused, for it."""

    config: Config
    ledger: Ledger
    metrics: Metrics
    tracing: Tracing
    grid: TickGrid
    readiness: Readiness
    signer: Signer
    _builders: WorkQueue
    _clerk: GroupCommitWriter
    _makers: ReleaseWorkers
    _tellers: ThreadPoolExecutor

    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[Any]] = set()
        # What was built once for a question about a version of the data; budgets do not change while the server runs.
        self._orders: dict[tuple[int, int | None, type, str], Quote] = {}
        self._sayings: WeakKeyDictionary[Quote, ResponseBuilder] = WeakKeyDictionary()
        self._questions: WeakKeyDictionary[Quote, Any] = WeakKeyDictionary()

    @abstractmethod
    def _dataset(self, caller: Caller, scope: str, name: str) -> Dataset:
        """Return a data set, if the caller's token has this scope on it."""

    async def ask(self, caller: Caller, name: str, question: Asking, key: str | None = None) -> dict[str, Any]:
        """Answer a question: charge it durably, draw, wait for the next tick, record, and only then say so.

        What was made from the data is neither recorded nor told before a whole number of ticks after the question
        came, so that how long it took to make can be read off nothing: not its arrival, not the ledger.
        A caller who hangs up does not stop the work: what was charged is recorded.
        """
        return plain_of(await self._asked(caller, name, question, key))

    async def answer(
        self, caller: Caller, name: str, question: Asking, key: str | None = None, receive: Receive | None = None
    ) -> str:
        """Answer a question, as `ask`, in JSON. Who hangs up before it is charged, as `receive` tells, ends it."""
        return canonical_object(await self._asked(caller, name, question, key, receive))

    async def _asked(
        self, caller: Caller, name: str, question: Asking, key: str | None, receive: Receive | None = None
    ) -> dict[str, Any]:
        task = asyncio.create_task(self._ask(caller, name, question, key, receive))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def _ask(
        self, caller: Caller, name: str, question: Asking, key: str | None, receive: Receive | None
    ) -> dict[str, Any]:
        start, verb = self.grid.now(), question.verb if isinstance(question, VerbQuestion) else None
        dataset = self._dataset(caller, "ask", name)
        part = dataset.parts.get(caller.analyst)
        if part is None:
            raise NotAllowed(f"you have no budget on {name}; ask the administrator for one")
        if isinstance(question, VerbQuestion) and question.composed:
            return await self._described(caller, dataset, part, question, key)
        try:
            if dataset.version is not None and not await self._asked_before(part, key):
                start = await self._reached(dataset, start, dataset.curator.refresh)
            building = self._priced(caller, dataset, part, question)
            priced: Quote = await (building if receive is None else while_there(receive, building))
            earlier = await self.run(self._earlier, dataset, part, priced)
            if earlier is not None and isinstance(question, VerbQuestion) and question.again:
                return await self._repeated(caller, name, earlier, question)
            if dataset.grows and not await self._asked_before(part, key):
                start = await self._reached(dataset, start, dataset.curator.ensure_available)
            with self.tracing.span("charge", dataset=name, verb=verb):
                paid = await self._clerk.write(
                    lambda: dataset.curator.reserving(priced, key=key, who=caller.analyst), _same, start
                )
        except SourceUnavailable as error:
            self.readiness.note_reach(name, error)
            raise SourceUnavailable(_OUT_OF_REACH.format(name)) from None
        entry: Entry
        shown: dict[str, Any]
        if isinstance(paid, RecordedRelease):
            release = paid.release
            entry, shown = await self.run(self._told_before, dataset, part, caller.analyst, paid)
        else:
            with self.tracing.span("query", dataset=name, verb=verb):  # which ends at a tick, and so tells no more
                built = await self._makers.make(dataset.curator, paid, lambda: self._tick(name, start))
            self.metrics.observe_query(self.grid.now() - start, name)
            if isinstance(built, Exception):
                await self.run(self._lose, dataset, paid, built)
                if isinstance(built, RecordsChanged) and built.given_back:
                    raise SourceUnavailable(_CHANGED.format(name))
                raise AnswerLost(_WAITS if isinstance(built, SourceLost) else _LOST) from None
            release = built.release
            entry, shown = await self._record(caller, dataset, part, priced, built, start)
        if isinstance(question, ServerQuestion):  # whose release says it all
            return shown
        with self.tracing.span("inference", dataset=name, verb=verb):
            shown |= await self._told(question.told, release, entry, part)
        if earlier is not None and not isinstance(paid, RecordedRelease):
            shown |= {"earlier": earlier, "notes": [*shown["notes"], repeat_note(earlier)]}
        return shown

    async def _described(
        self, caller: Caller, dataset: Dataset, part: Budget, question: VerbQuestion, key: str | None
    ) -> dict[str, Any]:
        """Answer the questions of a description, each charged before a record is read, and tell them as one table.

        A retry under the key is told what was answered, and asks what was not.
        """
        name, turn = dataset.config.name, f"{caller.token}:{secrets.token_hex(8)}"
        if dataset.version is not None:
            await self._reached(dataset, self.grid.now(), dataset.curator.refresh)
        known = (question, dataset.config, dataset.curator, part)
        split: DividedDescription = await self._builders.run(turn, quietly, divided, *known)
        keys = keyed(key, len(split.questions))
        if not question.again and not await self._asked_before(part, keys[0]):
            await self.run(split.check_covered, dataset.curator, await self.run(self._remaining, caller, dataset))
        asking = zip(split.questions, keys, strict=True)
        done = await asyncio.gather(*(self._ask(caller, name, *it, None) for it in asking), return_exceptions=True)
        answers = [plain_of(said) for said in done if not isinstance(said, BaseException)]
        for error in done:
            if isinstance(error, BaseException):
                raise in_part(error, answers) from None
        shown = await self._told(split.told, question, answers)
        return {"dataset": name, **shown, "remaining": await self.run(self._remaining, caller, dataset)}

    @abstractmethod
    def _remaining(self, caller: Caller, dataset: Dataset) -> RemainingBody:
        """Return what is left: of the caller's own budget, where they have one, and of the whole."""

    @abstractmethod
    async def _repeated(self, caller: Caller, name: str, entry: int, question: VerbQuestion) -> dict[str, Any]:
        """Return the answer of an entry that was paid for before, as a question wants it shown."""

    async def earlier(self, caller: Caller, name: str, question: VerbQuestion, key: str | None) -> int | None:
        """Return the entry that answered the caller's very question before, if any; None of a retry under its key."""
        dataset = self._dataset(caller, "ask", name)
        part = dataset.parts.get(caller.analyst)
        if part is None or question.composed or await self._asked_before(part, key):
            return None
        if dataset.version is not None:
            with contextlib.suppress(SourceUnavailable):  # an answer that was paid for needs no records
                await self._reached(dataset, self.grid.now(), dataset.curator.refresh)
        priced = await self._priced(caller, dataset, part, question)
        entry: int | None = await self.run(self._earlier, dataset, part, priced)
        return entry

    def _earlier(self, dataset: Dataset, part: Budget, priced: Quote) -> int | None:
        question = self._questions.get(priced)
        return None if question is None else dataset.curator.answered_before(question, part)

    async def _asked_before(self, part: Budget, key: str | None) -> bool:
        """Return whether a question was charged under this key: its answer needs no records."""
        return key is not None and await self.run(self.ledger.find_key, part, key) is not None

    async def _reached(self, dataset: Dataset, start: float, check: Callable[[], object]) -> float:
        """Raise, before anything is charged, what a check of the records raises; return the moment to go on from.

        That is a tick: the check waits for whoever reads the records, and may count them.
        """
        try:
            await asyncio.get_running_loop().run_in_executor(self._makers.pool, quietly, check)
        finally:
            await self._tick(dataset.config.name, start)
        return self.grid.now()

    async def _tick(self, dataset: str, start: float) -> None:
        if (steps := await self.grid.wait(start)) > 1:
            self.metrics.count("answers_late", dataset=dataset)
            log_late(dataset, steps)

    async def _priced(self, caller: Caller, dataset: Dataset, part: Budget, question: Asking) -> Quote:
        """Return a question with its price, built on a thread of its own unless the very same one was built before."""
        text = question.text
        known = None if text is None else (part.id, dataset.version, type(question), text)
        priced = None if known is None else self._orders.get(known)
        if priced is None:
            turn = f"{caller.token}:{secrets.token_hex(8)}"  # questions, unlike plans, do not take turns
            priced = await self._builders.run(turn, quietly, self._build, dataset, part, question)
            if known is not None and len(self._orders) < _REMEMBERED:
                self._orders[known] = priced
        return priced

    def _build(self, dataset: Dataset, part: Budget, question: Asking) -> Quote:
        """Return a question that makes sense, with its price; raise what is wrong with another."""
        order = question.order(dataset.config, dataset.curator, part, self.config.limits.draws)
        priced = dataset.curator.price(
            order.mechanism,
            order.columns,
            where=order.where,
            missing=order.missing,
            draws=order.draws,
            purpose=order.purpose,
            accept_unproven=dataset.config.accept_unproven,
            part=part,
            about=order.about,
            then=order.then,
        )
        if order.question is not None:
            self._questions[priced] = order.question
        return priced

    def _lose(self, dataset: Dataset, paid: Paid, error: Exception) -> None:
        if isinstance(error, SourceLost):
            self.readiness.note_reach(dataset.config.name, error)
        elif not (isinstance(error, RecordsChanged) and error.given_back):
            self._note_lost(dataset.config.name, error)
        dataset.curator.give_up(paid.reservation, error)

    def _note_lost(self, dataset: str, error: Exception) -> None:
        log_failure(error, dataset=dataset)
        self.metrics.count("answers_lost", dataset=dataset)
        self.readiness.note_lost(dataset)

    async def _record(
        self, caller: Caller, dataset: Dataset, part: Budget, priced: Quote, made: Unrecorded, start: float
    ) -> tuple[Entry, dict[str, Any]]:
        """Record an answer, and return its entry and all that is said of it."""

        def change() -> Change:
            return totalling(dataset.curator.recording(made), [part, dataset.budget])

        def tell(outcome: Any) -> tuple[Entry, dict[str, Any]]:
            entry, spent = outcome
            self.metrics.count("answers", dataset=dataset.config.name)
            self.readiness.note_made(dataset.config.name)
            if (saying := self._sayings.get(priced)) is None:
                saying = self._sayings[priced] = self._saying(dataset, caller.analyst, entry)
            return entry, saying.told(entry, made.release.text, spent)

        try:
            return await self._clerk.write(change, tell, start)  # type: ignore[no-any-return]
        except Exception as error:
            await self.run(dataset.curator.give_up, made.reservation, error)
            if isinstance(error, LedgerCorrupt | LedgerUnavailable):
                raise
            self._note_lost(dataset.config.name, error)  # such as an entry that an administrator closed meanwhile
            raise AnswerLost(_LOST) from None

    def _saying(self, dataset: Dataset, analyst: str, entry: Entry) -> ResponseBuilder:
        return ResponseBuilder(self.signer, self.config.title, dataset, analyst, entry)

    def _told_before(
        self, dataset: Dataset, part: Budget, analyst: str, answer: RecordedRelease
    ) -> tuple[Entry, dict[str, Any]]:
        """Return the entry of an answer that was recorded before, and all that is said of it."""
        entry = self.ledger.find_entry(part, answer.entry)
        if entry is None:
            raise LedgerCorrupt(f"entry {answer.entry} is not in the ledger")
        self.metrics.count("answers", dataset=dataset.config.name)
        return entry, self._said(dataset, analyst, entry, answer.release)

    def _said(self, dataset: Dataset, analyst: str, entry: Entry, release: Release) -> dict[str, Any]:
        spent = self.ledger.totals([dataset.parts[analyst], dataset.budget])
        return self._saying(dataset, analyst, entry).told(entry, release.text, spent)

    async def _told(self, work: Callable[..., Any], *arguments: object) -> dict[str, Any]:
        return await asyncio.get_running_loop().run_in_executor(self._tellers, quietly, work, *arguments)

    async def run(self, work: Callable[..., Any], *arguments: object) -> Any:
        """Run a method that blocks for a moment on a thread of its own."""
        return await asyncio.get_running_loop().run_in_executor(None, quietly, work, *arguments)

    async def drain(self) -> None:
        """Wait for the answers under way, also those whose callers hung up."""
        await asyncio.gather(*self._under_way, return_exceptions=True)


def _same(outcome: object) -> Any:
    return outcome


def plain_of(said: Mapping[str, object]) -> dict[str, object]:
    """Return what is said of an answer in plain values."""
    return {name: json.loads(value.text) if isinstance(value, SealedText) else value for name, value in said.items()}
