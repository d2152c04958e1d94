"""The clerk: one thread that writes to the ledger for everyone who asks.

What waits while it writes is written together next, in one durable transaction, and whoever waited is told together.
Under a crowd that is one fsync and one hop between threads for many questions, where a thread each would take one each.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from sottovoce.ledger import Ledger
from sottovoce.ledger.grouping import Change

__all__ = ["Clerk"]


class _Errand:
    """A change that someone waits for: made, written, and then told."""

    __slots__ = ("change", "error", "future", "loop", "make", "then", "value")

    def __init__(self, make: Callable[[], Change], then: Callable[[Any], Any]) -> None:
        self.make, self.then = make, then
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.change: Change | None = None
        self.value: Any = None
        self.error: Exception | None = None

    def attempt(self, work: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return work(*arguments)
        except Exception as error:
            self.error = error
            return None

    def tell(self) -> None:
        if self.future.done():  # whoever waited was cancelled; what is written is written
            return
        if self.error is None:
            self.future.set_result(self.value)
        else:
            self.future.set_exception(self.error)


class Clerk:
    """Writes changes for coroutines, many at once.

    Parameters
    ----------
    ledger
        Where they go.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._errands: queue.SimpleQueue[_Errand | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="ledger", daemon=True)
        self._thread.start()

    async def write(self, make: Callable[[], Change], then: Callable[[Any], Any]) -> Any:
        """Make a change, have it written durably, and return what `then` makes of its outcome; raise what any raises.

        `make` and `then` run on the clerk's thread: neither may wait for anything.
        """
        errand = _Errand(make, then)
        self._errands.put(errand)
        return await errand.future

    def close(self) -> None:
        """Finish what waits, and let go of the thread."""
        self._errands.put(None)
        self._thread.join()

    def _serve(self) -> None:
        np.seterr(all="ignore")
        open_ = True
        while open_:
            errands = [self._errands.get()]
            with contextlib.suppress(queue.Empty):
                while True:
                    errands.append(self._errands.get_nowait())
            open_ = None not in errands
            self._run([errand for errand in errands if errand is not None])

    def _run(self, errands: list[_Errand]) -> None:
        for errand in errands:
            errand.change = errand.attempt(errand.make)
        written = [errand for errand in errands if errand.error is None]
        try:
            outcomes = self._ledger.write_all([errand.change for errand in written if errand.change is not None])
        except Exception as error:
            outcomes = [error] * len(written)
        for errand, outcome in zip(written, outcomes, strict=True):
            if isinstance(outcome, Exception):
                errand.error = outcome
            else:
                errand.value = errand.attempt(errand.then, outcome)
        for loop in {errand.loop for errand in errands}:
            with contextlib.suppress(RuntimeError):  # the loop was closed, and nobody waits any more
                loop.call_soon_threadsafe(_tell, [errand for errand in errands if errand.loop is loop])


def _tell(errands: list[_Errand]) -> None:
    for errand in errands:
        errand.tell()
