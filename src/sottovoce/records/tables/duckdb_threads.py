"""How many threads of DuckDB fit into its memory: each holds 2,048 numbers for every operation of a query."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_OPERATION_BYTES, _COLUMN_BYTES, _LEAST_BYTES = 16 * 2**10, 2**20, 2 * 2**20
"""What a thread holds for each operation and sum, of each column (a page of a Parquet file), and besides."""
_UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_OPERATION = re.compile(r" [*+/-] |\bSUM\(|\bCASE\b|\bLIST_INNER_PRODUCT\(")
_COLUMN = re.compile(r'"t\d+"\.("(?:[^"]|"")+")')
_SHORT = 10_000
"""A query of fewer letters holds little beside its rows."""
_one_at_a_time = threading.Lock()


def threads_for(text: str, room: float) -> int:
    """Return how many threads may work on a query, by its words and the bytes there are: never by a record.

    >>> threads_for("SELECT SUM(x * y) FROM t", 2**30)
    504
    >>> threads_for("SELECT " + ", ".join(f'SUM("t0"."x{i}" * 2)' for i in range(100)), 2**30)
    9
    """
    read, done = len(set(_COLUMN.findall(text))), len(_OPERATION.findall(text))
    held = _LEAST_BYTES + _COLUMN_BYTES * read + _OPERATION_BYTES * done
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
