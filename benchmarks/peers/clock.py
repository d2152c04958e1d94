"""The one stopwatch, for us and for peers: nothing but the standard library, so that it runs in any environment.

It counts processor seconds of this process over all its threads, which stay fair on a machine that does other work too.
"""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["best"]


def best(call: Callable[[], object], repeats: int = 7, seconds: float = 0.15) -> float:
    """Return the fastest mean time of one call, in processor seconds."""
    call()
    start = time.process_time()
    call()
    number = max(1, int(seconds / repeats / max(time.process_time() - start, 1e-9)))
    times = []
    for _ in range(repeats):
        start = time.process_time()
        for _ in range(number):
            call()
        times.append((time.process_time() - start) / number)
    return min(times)
