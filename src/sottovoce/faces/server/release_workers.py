"""Making: threads that read records and make what was paid for, each kept until its tick.

What several paid for at the same time is made together where that takes hardly longer than one alone: the statistics
are read once, all noise is drawn at once, and threads change hands once for all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from sottovoce.service.curator import Curator, Paid, Quote, Unrecorded


class _Work:
    """One piece of work: a question, all who wait for it, and how many of their ticks are still to come."""

    __slots__ = ("curator", "due", "members")

    def __init__(self, curator: Curator) -> None:
        self.curator, self.due = curator, 0
        self.members: list[tuple[Paid, asyncio.Future[Unrecorded | Exception]]] = []


class _Line:
    """What waits on one event loop, and the slots for what is under way."""

    def __init__(self, slots: int) -> None:
        self.slots = asyncio.Semaphore(slots)
        self.waiting: dict[Quote, _Work] = {}
        self.tasks: set[asyncio.Task[None]] = set()


class ReleaseWorkers:
    """Makes releases for coroutines.

    Parameters
    ----------
    threads
        How many pieces of work are under way at once, each until the ticks of all who wait for it.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix="read")
        self._lines: WeakKeyDictionary[asyncio.AbstractEventLoop, _Line] = WeakKeyDictionary()

    async def make(self, curator: Curator, paid: Paid, tick: Callable[[], Any]) -> Unrecorded | Exception:
        """Make a release, or return why it failed, at a tick; what it took is seen in nothing that happens before.

        The slot is held until then, so that a question that waits for it does not learn when the work ended.
        """
        loop = asyncio.get_running_loop()
        if (line := self._lines.get(loop)) is None:
            line = self._lines[loop] = _Line(self._threads)
        if (work := line.waiting.get(paid.priced)) is None:
            work = _Work(curator)
            if paid.priced.together:
                line.waiting[paid.priced] = work
            task = loop.create_task(self._run(line, paid.priced, work))
            line.tasks.add(task)
            task.add_done_callback(line.tasks.discard)
        future: asyncio.Future[Unrecorded | Exception] = loop.create_future()
        work.members.append((paid, future))
        try:
            built = await future
            await tick()
        finally:
            if not future.cancelled():  # of who was cancelled before anything was made, `_run` takes leave
                _leave(line, work)
        return built

    async def _run(self, line: _Line, priced: Quote, work: _Work) -> None:
        await line.slots.acquire()
        line.waiting.pop(priced, None)  # who comes from now on waits for the next
        work.due = len(work.members)
        paid = [item for item, _ in work.members]
        built: Sequence[Unrecorded | Exception]
        try:
            built = await asyncio.get_running_loop().run_in_executor(self.pool, quietly, work.curator.make_all, paid)
        except Exception as error:
            built = [error] * len(paid)
        for (_, future), item in zip(work.members, built, strict=True):
            if future.done():  # whoever waited was cancelled: nobody waits for that tick
                _leave(line, work)
            else:
                future.set_result(item)

    def close(self) -> None:
        """Finish what is under way, and let go of the threads."""
        self.pool.shutdown()


def _leave(line: _Line, work: _Work) -> None:
    """Let one go who waited; with the last of them goes the slot."""
    work.due -= 1
    if not work.due:
        line.slots.release()


def quietly(work: Callable[..., Any], *arguments: object) -> Any:
    """Run work at the edge of what floats can hold: infinities are answers here, and no warning is due."""
    with np.errstate(all="ignore"):
        return work(*arguments)
