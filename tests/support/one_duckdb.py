"""One DuckDB for all tables that a worker's tests open: to start one takes twenty milliseconds, of hundreds of tests.

A table has a connection of its own to it, which holds its records and is closed with it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

__all__ = ["OneDuckDB"]


class OneDuckDB:
    """In place of `duckdb.connect`: a further connection to the database with these settings, where there is one.

    Parameters
    ----------
    connect
        DuckDB's own.
    apart
        Whether what is opened now wants a database of its own.
    """

    def __init__(self, connect: Callable[..., Any], apart: Callable[[], bool]) -> None:
        self._connect, self._apart = connect, apart
        self._running: dict[object, Any] = {}

    def __call__(self, database: str = ":memory:", read_only: bool = False, config: Any = None) -> Any:
        """Connect as `duckdb.connect` does; what memory cannot hold goes to one folder."""
        config = config or {}
        if database != ":memory:" or "temp_directory" not in config or self._apart():
            return self._connect(database, read_only, config)
        settings = {name: value for name, value in config.items() if name != "temp_directory"}
        key = os.getpid(), frozenset(settings.items())
        if key not in self._running:
            # Files are read anew by every table, as one alone would: tests write two of one name in a moment.
            settings |= {"temp_directory": tempfile.mkdtemp(prefix="duckdb-"), "enable_external_file_cache": False}
            self._running[key] = self._connect(database, config=settings)
        return self._running[key].cursor()
