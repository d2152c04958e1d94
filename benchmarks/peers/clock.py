"""The one stopwatch, for us and for peers: nothing but the standard library, so that it runs in any environment."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["best"]


def best(call: Callable[[], object], repeats: int = 7, seconds: float = 0.15) -> float:
    """Return the fastest mean time of one call, in seconds."""
    call()
    start = time.perf_counter()
    call()
    number = max(1, int(seconds / repeats / max(time.perf_counter() - start, 1e-9)))
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(number):
            call()
        times.append((time.perf_counter() - start) / number)
    return min(times)
