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
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from sottovoce.ledger.store import Transaction, is_drivers
from sottovoce.privacy.errors import LedgerUnavailable

__all__ = ["Change", "Group"]

Change = Callable[[Transaction], Any]
"""What is to be done within a transaction that may hold other changes too."""


class _Job:
    """One change, and a gate that opens when it is done or when its thread is to write for all who wait."""

    def __init__(self, change: Change) -> None:
        self.change, self.done = change, False
        self.value: Any = None
        self.error: BaseException | None = None
        self.gate = threading.Lock()
        self.gate.acquire()

    def outcome(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


class Group:
    """The changes of one process to one ledger, in the order in which they came.

    Parameters
    ----------
    writing
        Opens a transaction that is durable, and noted, once its block has ended well.
    name
        What is written to, for messages.
    timeout
        How many seconds a change waits for those before it.
    """

    def __init__(self, writing: Callable[[], AbstractContextManager[Transaction]], name: str, timeout: float) -> None:
        self._writing, self._name, self._timeout = writing, name, timeout
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._turn = threading.Lock()
        self._waiting: list[_Job] = []
        self._writes = False

    def run(self, change: Change) -> Any:
        """Return what a change returns, once it is durable; raise what it raises, and then it left no trace."""
        if self._process != os.getpid():
            self._start()  # a child shares nothing with the threads of its parent
        job = _Job(change)
        with self._turn:
            self._waiting.append(job)
            first, self._writes = not self._writes, True
        if not first:
            self._wait(job)
        if not job.done:
            self._write_for_all()
        return job.outcome()

    def _wait(self, job: _Job) -> None:
        if job.gate.acquire(timeout=self._timeout):
            return
        with self._turn:
            if job in self._waiting and not job.gate.acquire(blocking=False):
                self._waiting.remove(job)
                raise self._unavailable("other threads are writing to it")
            if job in self._waiting:  # it was told to write at this very moment
                return
        job.gate.acquire()  # it is being written down just now

    def _unavailable(self, why: str) -> LedgerUnavailable:
        return LedgerUnavailable(f"the ledger {self._name} cannot be used: {why}")

    def _write_for_all(self) -> None:
        with self._turn:
            jobs, self._waiting = self._waiting, []
        try:
            with self._writing() as transaction:
                if len(jobs) == 1:
                    jobs[0].value = jobs[0].change(transaction)
                else:
                    _change_each(transaction, jobs)
        except BaseException as error:
            for job in jobs:
                job.error = (
                    copy.copy(error)
                    if isinstance(error, Exception)
                    else self._unavailable("its writer was interrupted")
                )
            if not isinstance(error, Exception):
                raise
            jobs[0].error = error
        finally:
            with self._turn:
                self._writes = bool(self._waiting)
                if self._waiting:
                    self._waiting[0].gate.release()
            for job in jobs:
                job.done = True
                job.gate.release()


def _change_each(transaction: Transaction, jobs: list[_Job]) -> None:
    transaction.lock_head()  # before the first savepoint: what is locked after one is let go when it is undone
    for job in jobs:
        head = transaction.head
        transaction.run("SAVEPOINT change")
        try:
            job.value = job.change(transaction)
        except Exception as error:
            if is_drivers(error):  # the connection is in doubt, and with it all that went before
                raise
            job.error, transaction.head = error, head
            transaction.run("ROLLBACK TO SAVEPOINT change")
        transaction.run("RELEASE SAVEPOINT change")
