"""The clerk: one thread that writes to the ledger for everyone who asks.

What waits while it writes is written together next, in one durable transaction, and whoever waited is told together.
Where more waits than one transaction takes, those who have waited longest go first.
Under a crowd that is one fsync and one hop between threads for many questions, where a thread each would take one each.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import operator
import queue
import threading
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from sottovoce.privacy.errors import LedgerUnavailable
from sottovoce.service.ledger import Ledger
from sottovoce.service.ledger.group_commit import Change

_MOST = 64
"""How many changes go into one transaction: who waits longest is told before all have been written."""


class _WriteJob:
    """A change that someone waits for: made, written, and then told."""

    __slots__ = ("change", "error", "future", "loop", "make", "since", "then", "value")

    def __init__(self, make: Callable[[], Change], then: Callable[[Any], Any], since: float) -> None:
        self.make, self.then, self.since = make, then, since
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.change: Change | None = None
        self.value: Any = None
        self.error: Exception | None = None

    def attempt(self, work: Callable[..., Any], *arguments: object) -> Any:
        try:
            return work(*arguments)
        except BaseException as error:
            self.error = _as_exception(error)
            return None

    def tell(self) -> None:
        if self.future.done():  # whoever waited was cancelled; what is written is written
            return
        if self.error is None:
            self.future.set_result(self.value)
        else:
            self.future.set_exception(self.error)


class GroupCommitWriter:
    """Writes changes for coroutines, many at once.

    Parameters
    ----------
    ledger
        Where they go.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._errands: queue.SimpleQueue[_WriteJob | None] = queue.SimpleQueue()
        self._gone = False
        self._thread = threading.Thread(target=self._serve, name="ledger", daemon=True)
        self._thread.start()

    async def write(self, make: Callable[[], Change], then: Callable[[Any], Any], since: float = math.inf) -> Any:
        """Make a change, have it written durably, and return what `then` makes of its outcome; raise what any raises.

        `make` and `then` run on the clerk's thread: neither may wait for anything. Of all that waits, what is `since`
        the longest for is written first: an answer that is made goes before a question that has just come.
        """
        errand = _WriteJob(make, then, since)
        self._errands.put(errand)
        if self._gone:  # whoever comes after the end must not wait for it
            self._turn_away()
        return await errand.future

    def close(self) -> None:
        """Finish what waits, and let go of the thread."""
        self._errands.put(None)
        self._thread.join()

    def _serve(self) -> None:
        np.seterr(all="ignore")
        waiting: list[_WriteJob] = []
        open_ = True
        try:
            while open_ or waiting:
                if open_:  # else an endless crowd would put off the end
                    come = self._come() if waiting else [self._errands.get(), *self._come()]
                    open_ = None not in come
                    waiting += (errand for errand in come if errand is not None)
                    waiting.sort(key=_since)  # of two alike, the first to come stays first
                now, waiting = waiting[:_MOST], waiting[_MOST:]
                self._run(now)
        finally:
            self._gone = True
            self._turn_away(waiting)

    def _come(self) -> list[_WriteJob | None]:
        """Return all who have come, in order."""
        come: list[_WriteJob | None] = []
        with contextlib.suppress(queue.Empty):
            while True:
                come.append(self._errands.get_nowait())
        return come

    def _turn_away(self, waiting: Iterable[_WriteJob] = ()) -> None:
        """Tell all who wait that nobody writes any more."""
        waiting = [*waiting, *(errand for errand in self._come() if errand is not None)]
        for errand in waiting:
            errand.error = LedgerUnavailable("the ledger is closed")
        _tell_all(waiting)

    def _run(self, errands: list[_WriteJob]) -> None:
        for errand in errands:
            errand.change = errand.attempt(errand.make)
        written = [errand for errand in errands if errand.error is None]
        try:
            outcomes = self._ledger.write_all([errand.change for errand in written if errand.change is not None])
        except BaseException as error:  # a thread that ended here would leave everyone waiting
            outcomes = [_as_exception(error)] * len(written)
        for errand, outcome in zip(written, outcomes, strict=True):
            if isinstance(outcome, Exception):
                errand.error = outcome
            else:
                errand.value = errand.attempt(errand.then, outcome)
        _tell_all(errands)


_since = operator.attrgetter("since")


def _as_exception(error: BaseException) -> Exception:
    """Return what whoever waits can be told: an exit or an interrupt would end their loop."""
    return error if isinstance(error, Exception) else LedgerUnavailable(f"writing was ended by {type(error).__name__}")


def _tell_all(errands: list[_WriteJob]) -> None:
    for loop in {errand.loop for errand in errands}:
        with contextlib.suppress(RuntimeError):  # the loop was closed, and nobody waits any more
            loop.call_soon_threadsafe(_tell, [errand for errand in errands if errand.loop is loop])


def _tell(errands: list[_WriteJob]) -> None:
    for errand in errands:
        errand.tell()
