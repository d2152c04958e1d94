"""Linear algebra on one thread: of small matrices threads spend nearly all of their time waiting for each other."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


@contextmanager
def one_thread() -> Iterator[None]:
    """Hold linear algebra to one thread in a `with` block, if threadpoolctl is there to tell it."""
    _HELD.take()
    try:
        yield
    finally:
        _HELD.give_back()


class _Held:
    """The limit, which is one for the whole process: it goes with the last of those who asked for it."""

    def __init__(self) -> None:
        self._turn, self._asked = threading.Lock(), 0
        self._limit: Any = None

    def take(self) -> None:
        """Set the limit, if nobody has."""
        with self._turn:
            self._asked += 1
            if self._asked == 1 and (pools := _pools()) is not None:
                self._limit = pools.limit(limits=1, user_api="blas")

    def give_back(self) -> None:
        """Let go of the limit, if nobody else wants it."""
        with self._turn:
            self._asked -= 1
            if not self._asked and self._limit is not None:
                self._limit.restore_original_limits()
                self._limit = None


_HELD = _Held()


@cache  # looking through all libraries that are loaded takes longer than many a fit
def _pools() -> Any:
    """Return the pools of threads of the libraries that are loaded; None where they have one thread or no reader."""
    if os.environ.get("OMP_NUM_THREADS") == "1":
        return None
    try:
        from threadpoolctl import ThreadpoolController  # noqa: PLC0415 - scikit-learn brings it, an extra
    except ImportError:
        return None
    return ThreadpoolController()
