"""Group commit: changes that several threads want at the same time go into one durable transaction.

Whoever comes while nobody writes writes at once, alone. Whoever comes meanwhile waits, and when the transaction under
way has ended, the first of those who wait writes for all of them: one fsync, however many they are. Each change has its
own savepoint, so that one that is refused leaves no trace and the others are none the worse. Nobody is told anything
before the transaction that holds their change is durable.
"""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

from sottovoce.privacy.errors import LedgerUnavailable
from sottovoce.service.ledger.transaction import HeadMoved, Transaction, is_drivers

Change = Callable[[Transaction], Any]
"""What is to be done within a transaction that may hold other changes too."""


class About:
    """A change that says what it asks of the ledger first: what a whole group asks is looked up at once.

    It may be made more than once, and only the last counts: where another process writes meanwhile, it is made anew.

    Attributes
    ----------
    change
        What is to be done.
    key, entry
        The idempotency key that it must be the first to use, and the entry that it closes, if any.
    """

    __slots__ = ("change", "entry", "key")

    def __init__(self, change: Change, key: str | None = None, entry: int | None = None) -> None:
        self.change, self.key, self.entry = change, key, entry

    def __call__(self, transaction: Transaction) -> Any:
        """Make the change."""
        return self.change(transaction)

    def then(self, work: Callable[[Any, Transaction], Any]) -> About:
        """Return the change, with what `work` makes of its outcome within the transaction."""
        return About(lambda transaction: work(self.change(transaction), transaction), self.key, self.entry)


class _Job:
    """One change, and what came of it: nothing, unless it is durable."""

    __slots__ = ("change", "durable", "error", "value")

    def __init__(self, change: Change) -> None:
        self.change = change
        self.value: Any = None
        self.error: BaseException | None = None
        self.durable = False


class _Party:
    """The changes of one thread; where it waits, a gate that opens when they are done or it is to write for all."""

    __slots__ = ("done", "gate", "jobs")
    gate: threading.Lock

    def __init__(self, jobs: list[_Job]) -> None:
        self.jobs, self.done = jobs, False

    def close(self) -> None:
        """Make the gate, closed: whoever need not wait has none."""
        self.gate = threading.Lock()
        self.gate.acquire()


_ALONE = _Party([])
"""Whoever writes while nobody waits: no line is made for it."""


class Group:
    """The changes of one process to one ledger, in the order in which they came.

    Parameters
    ----------
    writing
        Opens a transaction that is durable once its block has ended well.
    written
        Is told of each that is durable, before anyone else.
    name
        What is written to, for messages.
    timeout
        How many seconds a change waits for those before it.
    """

    def __init__(
        self,
        writing: Callable[[], AbstractContextManager[Transaction]],
        written: Callable[[Transaction], None],
        name: str,
        timeout: float,
    ) -> None:
        self._writing, self._written, self._name, self._timeout = writing, written, name, timeout
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._turn = threading.Lock()
        self._waiting: list[_Party] = []
        self._writer: _Party | None = None

    def run(self, change: Change) -> Any:
        """Return what a change returns, once it is durable; raise what it raises, and then it left no trace."""
        if self._process != os.getpid():
            self._start()  # a child shares nothing with the threads of its parent
        alone = False
        try:
            with self._turn:
                alone = self._writer is None  # and then nobody waits
                if alone:
                    self._writer = _ALONE
            if alone:
                return self._write_one(change)
        finally:
            if alone:
                self._leave(_ALONE)
        job = _Job(change)
        self._see_to([job])
        if not job.durable:
            raise self._failure(job)
        return job.value

    def run_all(self, changes: Iterable[Change]) -> list[object]:
        """Return what each of some changes returns, once all of them are durable, or the exception that it raises."""
        jobs = [_Job(change) for change in changes]
        if jobs:
            self._see_to(jobs)
        return [job.value if job.durable else self._failure(job) for job in jobs]

    def _failure(self, job: _Job) -> BaseException:
        """Return why a change failed; one whose writer ended in any way before it was durable has failed too."""
        return self._unavailable("its writer was interrupted") if job.error is None else job.error

    def _see_to(self, jobs: list[_Job]) -> None:
        if self._process != os.getpid():
            self._start()  # a child shares nothing with the threads of its parent
        party = _Party(jobs)
        try:
            with self._turn:
                first = self._writer is None  # and then nobody waits
                if first:
                    self._writer = party
                else:
                    party.close()
                    self._waiting.append(party)
            if first:
                self._write(jobs)
            else:
                self._wait(party)
                if not party.done:
                    self._write_for_all()
        finally:
            self._leave(party)

    def _wait(self, party: _Party) -> None:
        if party.gate.acquire(timeout=self._timeout):
            return
        with self._turn:
            if party in self._waiting and self._writer is not party:
                raise self._unavailable("other threads are writing to it")
            if self._writer is party:  # it was told to write at this very moment
                party.gate.acquire(blocking=False)
                return
        party.gate.acquire()  # it is being written down just now

    def _leave(self, party: _Party) -> None:
        """Take a thread out of the line, however it ended; one that was to write lets the next one do so."""
        with self._turn:
            waiting = self._waiting
            if party in waiting:
                waiting.remove(party)
            if self._writer is party:
                self._writer = waiting[0] if waiting else None
                if waiting:
                    waiting[0].gate.release()

    def _unavailable(self, why: str) -> LedgerUnavailable:
        return LedgerUnavailable(f"the ledger {self._name} cannot be used: {why}")

    def _write_for_all(self) -> None:
        parties: list[_Party] = []
        try:
            with self._turn:
                parties, self._waiting = self._waiting, []
            self._write([job for party in parties for job in party.jobs])
        finally:
            for party in parties:
                party.done = True
                party.gate.release()

    def _write(self, jobs: list[_Job]) -> None:
        try:
            if len(jobs) == 1:
                jobs[0].value = self._write_one(jobs[0].change)
            else:
                with self._writing() as transaction:
                    _change_each(transaction, jobs)
                self._written(transaction)
            for job in jobs:
                job.durable = job.error is None
        except Exception as error:
            for job in jobs[1:]:
                job.error = _copied(error)
            jobs[0].error = error

    def _write_one(self, change: Change) -> Any:
        """Return what a change returns or raise what it raises; first in the hope that nobody else writes."""
        try:
            with self._writing() as transaction:
                if isinstance(change, About):
                    transaction.hope()
                    try:
                        value = change.change(transaction)
                    except Exception:
                        transaction.make_sure()  # what was refused may have been for a total that is none any more
                        raise
                else:
                    value = change(transaction)
        except HeadMoved:
            if not isinstance(change, About):
                raise
            with self._writing() as transaction:
                value = change.change(transaction)
        self._written(transaction)
        return value


def _copied(error: Exception) -> Exception:
    """Return an exception for another thread to raise: the same one where it cannot be copied."""
    try:
        return copy.copy(error)
    except Exception:
        return error


def _change_each(transaction: Transaction, jobs: list[_Job]) -> None:
    transaction.lock_head()  # before the first savepoint: what is locked after one is let go when it is undone
    asked = [job.change for job in jobs if isinstance(job.change, About)]
    transaction.look_up(key for item in asked if (key := item.key) is not None)
    transaction.look_for(entry for item in asked if (entry := item.entry) is not None)
    for job in jobs:
        try:
            job.value = transaction.attempt(job.change)
        except Exception as error:
            if is_drivers(error):
                raise
            job.error = error
