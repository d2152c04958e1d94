"""Pacing: answers leave on a grid of time, and callers take turns within their limits."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from sottovoce.faces.client.errors import TooManyRequests
from sottovoce.service.curator.readable_records import next_tick


class TickGrid:
    """Moments a step after a start, and two, four, eight of them: work that ends between the same two is told at the
    same moment, whatever it took; see `next_tick`.
    """

    def __init__(
        self,
        step: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.step, self.now, self._sleep = step, clock, sleep

    async def wait(self, start: float) -> float:
        """Wait for the next moment after `start`, and return how many steps that is: 1 where it was in time."""
        taken = self.now() - start
        tick = next_tick(taken, self.step)
        await self._sleep(tick - taken)
        return tick / self.step


class Bucket:
    """A limit a minute for each of many callers: unused turns add up to one minute's worth, never more.

    Only the callers seen last are remembered; one that is forgotten starts with a full minute.

    Examples
    --------
    >>> clock = iter([0.0, 0.0, 0.0, 30.0]).__next__
    >>> bucket = Bucket(2, clock)
    >>> bucket.take("ada"), bucket.take("ada")
    (None, None)
    >>> bucket.take("ada")
    Traceback (most recent call last):
        ...
    sottovoce.faces.client.errors.TooManyRequests: more than 2 requests a minute; wait 30 s
    """

    def __init__(self, per_minute: float, clock: Callable[[], float] = time.monotonic, most: int = 10_000) -> None:
        self._rate, self._most, self._clock, self._most_callers = per_minute / 60, per_minute, clock, most
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._turn = threading.Lock()

    def take(self, caller: str, turns: float = 1.0) -> None:
        """Take turns, or raise `TooManyRequests`; `turns=0` only looks."""
        with self._turn:
            now = self._clock()
            remaining, since = self._left.pop(caller, (self._most, now))
            remaining = min(self._most, remaining + (now - since) * self._rate)
            enough = remaining >= max(turns, 1.0)
            self._left[caller] = (remaining - turns if enough else remaining, now)
            if len(self._left) > self._most_callers:
                self._left.popitem(last=False)
        if not enough:
            wait = max(1.0, math.ceil((1 - remaining) / self._rate))
            raise TooManyRequests(f"more than {self._most:g} requests a minute; wait {wait:g} s", wait)
