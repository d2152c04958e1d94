"""Worker processes for long work on public things: each can be ended at any moment, whatever it is doing.

A thread cannot be: what it is in the middle of may be one call into compiled code, and may take all memory there is.
Nothing but public things is sent to a worker, so how long it takes and that it was ended tell nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import importlib
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from sottovoce.faces.client.errors import CallerLeft
from sottovoce.privacy.errors import InvalidValue

SECONDS = 60.0
"""Seconds that one step of a plan may take: ten times the longest that was measured on one core."""
_STARTING = 120.0
"""Seconds in which a worker must have imported what it needs, on a busy machine."""
_MEMORY = 4 * 2**30
"""Bytes of data that a worker may hold: plans take a few hundred million."""
_LOOK = 0.05
"""Seconds between two looks at whether anyone still waits."""
_PRELOADED = "sottovoce.faces.server.budget_meaning"
"""What a worker imports before it says that it is ready: all that plans need."""
_TOO_LARGE = "no plan can be made of this: it takes more memory than a server lets it"


class _Worker:
    """A process that carries out one piece of work at a time."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._held, watched = socket.socketpair()  # closed by the kernel when this process ends, however it ends
        ends = theirs.fileno(), watched.fileno()
        program = "from sottovoce.faces.server.planning_processes import _live; _live()"
        path = os.pathsep.join(item for item in sys.path if item)
        self._process = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, ends)],
            pass_fds=ends,
            env=os.environ | {"PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
        )
        theirs.close()
        watched.close()
        self._link = Connection(ours.detach())
        self._ready = False

    def call(self, work: Callable[..., Any], arguments: tuple[object, ...], wanted: Callable[[], bool]) -> Any:
        """Return what work returns, or raise what it raises."""
        if not self._ready:
            self._answer(wanted, _STARTING)
            self._ready = True
        self._link.send((work, arguments))
        good, outcome = self._answer(wanted, SECONDS)
        if not good:
            raise outcome
        return outcome

    def _answer(self, wanted: Callable[[], bool], seconds: float) -> Any:
        deadline = time.monotonic() + seconds
        try:
            while not self._link.poll(_LOOK):
                _check_wanted(wanted, deadline)
            return self._link.recv()
        except (EOFError, OSError):
            self.end()
            raise InvalidValue(_TOO_LARGE) from None
        except BaseException:
            self.end()
            raise

    @property
    def alive(self) -> bool:
        """Whether it can be given more work."""
        return self._process.poll() is None

    def end(self) -> None:
        """End it, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        self._link.close()
        self._held.close()


def _check_wanted(wanted: Callable[[], bool], deadline: float) -> None:
    if not wanted():
        raise CallerLeft("nobody waits for this any more")
    if time.monotonic() > deadline:
        raise InvalidValue("this takes longer to plan than a server lets it; plan it on a machine of yours")


_idle: list[_Worker] = []
_turn = threading.Lock()


def call(work: Callable[..., Any], *arguments: object, wanted: Callable[[], bool]) -> Any:
    """Carry out work in a process of its own, which is ended as soon as nobody wants it or it takes too long.

    Work is a function of a module, its arguments and its outcome are values that can be pickled.
    """
    with _turn:
        worker = next((_idle.pop() for _ in range(len(_idle)) if _idle[-1].alive), None)
    worker = worker or _Worker()
    try:
        return worker.call(work, arguments, wanted)
    finally:
        if worker.alive:
            with _turn:
                _idle.append(worker)


def prepare() -> None:
    """Start a worker, so that the first who plans need not wait until it has imported everything."""
    with _turn:
        if not _idle:
            _idle.append(_Worker())


@atexit.register
def _end_all() -> None:
    with _turn:
        while _idle:
            _idle.pop().end()


def _live() -> None:
    """Serve as a worker: read work, write what came of it, until the other end is closed."""
    for ignored in (signal.SIGINT, signal.SIGHUP):  # a terminal's, and meant for the server
        signal.signal(ignored, signal.SIG_IGN)
    _end_with(int(sys.argv[2]))
    import resource  # noqa: PLC0415 - of POSIX

    importlib.import_module(_PRELOADED)
    from sottovoce.faces.server.release_workers import quietly  # noqa: PLC0415

    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    link = Connection(int(sys.argv[1]))
    link.send("ready")
    with contextlib.suppress(EOFError, OSError):
        while True:
            work, arguments = link.recv()
            try:
                outcome = True, quietly(work, *arguments)
            except MemoryError:
                outcome = False, InvalidValue(_TOO_LARGE)
            except Exception as error:  # whoever waits for it is told
                outcome = False, _portable(error)
            link.send(outcome)


def _portable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__} in a plan")
    return error


def _end_with(watched: int) -> None:
    """Let the kernel end this process when the other end of a socket is closed, whatever this one is doing.

    A thread that looks at its parent would wait for the interpreter's lock, which one call into compiled code may hold
    for days.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)  # which ends the process
    fcntl.fcntl(watched, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(watched, fcntl.F_SETFL, fcntl.fcntl(watched, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([watched], [], [], 0)[0]:  # closed before it was watched
        os._exit(1)
