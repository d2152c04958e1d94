"""Lines: long work on public things, such as plans, apart from everything that touches a record."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import queue
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from sottovoce.faces.client.errors import CallerLeft, ServerStopping, TooManyRequests
from sottovoce.faces.server.planning_processes import call

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
"""What tells, last of all, that a caller hung up."""
_EACH = 8
"""How many jobs one caller may have in line."""


@dataclass(eq=False)
class _QueuedJob:
    caller: str
    work: Callable[[], Any]
    future: concurrent.futures.Future[Any] = field(default_factory=concurrent.futures.Future)
    apart: bool = False
    wanted: bool = True


_CURRENT: ContextVar[_QueuedJob | None] = ContextVar("job", default=None)


def breathe() -> None:
    """Stop here if nobody waits any more for the job of this thread; long work calls this between its steps."""
    job = _CURRENT.get()
    if job is not None and not job.wanted:
        raise CallerLeft("nobody waits for this any more")


def apart(work: Callable[..., Any], *arguments: object) -> Any:
    """Carry out work on public things, which are values that can be pickled: in a process where this job has one.

    It is then ended, whatever it is doing, when nobody waits for the job any more.
    """
    job = _CURRENT.get()
    breathe()
    if job is None or not job.apart:
        return work(*arguments)
    return call(work, *arguments, wanted=lambda: job.wanted)


class WorkQueue:
    """A bounded line for a few threads, in which each caller has one job under way at a time.

    The threads end with the process: no job, however long, keeps a server from stopping.

    Parameters
    ----------
    threads
        How many jobs run at once.
    most
        How many may be under way or waiting, of all callers together.
    apart
        Whether what jobs do in `apart` has a process of its own.
    """

    def __init__(self, threads: int, most: int, *, apart: bool = False) -> None:
        self._most, self._apart = most, apart
        self._ready: queue.SimpleQueue[_QueuedJob | None] = queue.SimpleQueue()
        self._jobs: dict[str, deque[_QueuedJob]] = {}
        self._turn = threading.Lock()
        self._stopped = False
        self._threads = [threading.Thread(target=self._serve, daemon=True, name="line") for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    async def run(self, caller: str, work: Callable[..., Any], *arguments: object) -> Any:
        """Run work when it is the caller's turn; a coroutine that is cancelled takes its job out of the line.

        Raises `TooManyRequests` where the line is full, `ServerStopping` once `stop` was called.
        """
        job = _QueuedJob(caller, lambda: work(*arguments), apart=self._apart)
        self._enter(job)
        try:
            return await asyncio.wrap_future(job.future)
        except asyncio.CancelledError:
            self._leave(job)
            raise

    def _enter(self, job: _QueuedJob) -> None:
        with self._turn:
            if self._stopped:
                raise ServerStopping("the server is stopping; ask again when it is back")
            mine = self._jobs.get(job.caller, ())
            if len(mine) >= _EACH or sum(map(len, self._jobs.values())) >= self._most:
                raise TooManyRequests("too much is waiting to be computed; wait a moment", 1.0)
            self._jobs.setdefault(job.caller, deque()).append(job)
            if not mine:
                self._ready.put(job)

    def _leave(self, job: _QueuedJob) -> None:
        with self._turn:
            job.wanted = False
            mine = self._jobs.get(job.caller, deque())
            if job in list(mine)[1:]:  # the first is in a thread's hands, or about to be
                mine.remove(job)

    def _serve(self) -> None:
        while (job := self._ready.get()) is not None:
            if job.wanted and job.future.set_running_or_notify_cancel():
                _CURRENT.set(job)
                try:
                    outcome, failure = job.work(), None
                except BaseException as error:  # whoever waits for it is told
                    outcome, failure = None, error
                with contextlib.suppress(concurrent.futures.InvalidStateError):  # the server stopped meanwhile
                    if failure is None:
                        job.future.set_result(outcome)
                    else:
                        job.future.set_exception(failure)
            self._follow(job)

    def _follow(self, job: _QueuedJob) -> None:
        """Let the caller's next job come forward."""
        with self._turn:
            mine = self._jobs[job.caller]
            mine.popleft()
            if mine:
                self._ready.put(mine[0])
            else:
                del self._jobs[job.caller]

    def stop(self) -> None:
        """Take no more jobs, and tell everyone who waits for one that the server is stopping."""
        with self._turn:
            self._stopped = True
            jobs = [job for line in self._jobs.values() for job in line]
        for job in jobs:
            job.wanted = False
            with contextlib.suppress(concurrent.futures.InvalidStateError):
                job.future.set_exception(ServerStopping("the server is stopping; ask again when it is back"))

    def close(self) -> None:
        """Stop, and let go of the threads; one that is in the middle of a job is not waited for."""
        self.stop()
        for _ in self._threads:
            self._ready.put(None)


async def while_there(receive: Receive, work: Coroutine[Any, Any, Any]) -> Any:
    """Run work for as long as the caller stays on the line; `receive` tells when they hang up."""
    task, gone = asyncio.create_task(work), asyncio.create_task(_gone(receive))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise CallerLeft("the caller hung up")
        return task.result()
    finally:
        for item in (task, gone):
            item.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
