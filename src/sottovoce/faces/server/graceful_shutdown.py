"""The end of a server: told to stop, it stops within its grace."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def stopping_within(grace: float, stop: Callable[[], None]) -> Iterator[None]:
    """Within the block, call `stop` in the event loop at SIGTERM or SIGINT, before whoever listens already.

    A terminal that hangs up ends no worker: SIGHUP is for the process that runs them.

    The operating system ends the process `grace` seconds after the first of them, whatever it is doing then: what
    was charged and not recorded stays spent, as after a crash. Only a process's main thread can listen.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    listening = {item: signal.getsignal(item) for item in (signal.SIGTERM, signal.SIGINT)}
    shown: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:
        if not shown:
            # An alarm that nobody handles is the one thing that ends a process whose threads all hang.
            signal.setitimer(signal.ITIMER_REAL, max(grace, 0.001))
        shown.append(number)
        loop.call_soon_threadsafe(stop)
        handler = listening[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    ours = [item for item, handler in listening.items() if callable(handler)]
    for item in ours:
        signal.signal(item, hear)
    try:
        yield
    finally:
        for item in ours:
            signal.signal(item, listening[item])
