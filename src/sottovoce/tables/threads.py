"""How many threads of DuckDB fit into its memory: each holds 2,048 numbers for every operation of a query."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["narrowed", "threads_for"]

_OPERATION_BYTES, _ROW_BYTES = 10 * 2**10, 20 * 2**20
"""What a thread holds for each operation (not all of its numbers count against the limit), and of rows read ahead."""
_UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_OPERATION = re.compile(r" [*+/-] |\bSUM\(|\bCASE\b|\bAS\b")
_SHORT = 10_000
"""A query of fewer letters holds little beside its rows."""
_one_at_a_time = threading.Lock()


def threads_for(text: str, room: float) -> int:
    """Return how many threads may work on a query, by its words and the bytes there are: never by a record.

    >>> threads_for("SELECT SUM(x * y) FROM t", 2**30)
    51
    >>> threads_for("SELECT " + ", ".join(f"SUM(x{i} * y)" for i in range(10_000)), 2**30)
    4
    """
    held = _ROW_BYTES + _OPERATION_BYTES * len(_OPERATION.findall(text))
    return max(1, int(room // held))


@contextmanager
def narrowed(connection: Any, text: str) -> Iterator[None]:
    """Let fewer threads of a DuckDB connection work where memory cannot hold all of theirs at once.

    DuckDB ends a query that needs more than its limit, and on a machine of many cores a wide regression would. Such
    queries take turns, so that one cannot give back the threads of another.
    """
    if len(text) < _SHORT:
        yield
        return
    words = "SELECT current_setting('memory_limit'), current_setting('threads')"
    limit, threads = connection.con.execute(words).fetchone()
    size, _, unit = str(limit).partition(" ")
    fit = threads_for(text, float(size) * _UNITS[unit]) if unit in _UNITS else threads
    if fit >= threads:
        yield
        return
    with _one_at_a_time:
        threads = connection.con.execute("SELECT current_setting('threads')").fetchone()[0]
        connection.con.execute(f"SET threads = {min(fit, threads)}")
        try:
            yield
        finally:
            connection.con.execute(f"SET threads = {threads}")
