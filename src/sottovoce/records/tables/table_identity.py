"""Where a table comes from: what tells two data sets apart, whatever they are called."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult

from sottovoce.privacy.errors import SourceUnavailable
from sottovoce.records.tables.folders import file_place

_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433, "clickhouse": 9000}
_FILES = frozenset({"duckdb", "sqlite"})


@dataclass(frozen=True)
class Origin:
    """The one name of some data, and the files it lies in.

    Attributes
    ----------
    identity
        A resolved path, or a database's address with its table and without user and password.
    parts
        The resolved files, or the identity itself: two tables that share a part share records.
    is_files
        Whether the parts are files.
    is_text
        Whether the files give their columns no types, as CSV gives none.
    database
        The file of a database that lies in one; others may write to it while it is open.
    latest
        Of data that have versions, returns the number of the one that there is now.
    """

    identity: str
    parts: tuple[str, ...]
    is_files: bool = True
    is_text: bool = False
    database: str | None = None
    latest: Callable[[], int] | None = field(default=None, compare=False)

    def shares(self, parts: Sequence[str]) -> bool:
        """Say whether one of these is among the parts, by whatever name: a hard link is the same file."""
        if not self.is_files:
            return bool({*parts} & {*self.parts})
        return bool(({*parts} & {*self.parts}) or (_files(parts) & _files(self.parts)))

    def fingerprint(self) -> dict[str, Any]:
        """Return the size in bytes and the time of the last change (in nanoseconds) of files; nothing of a database.

        The records themselves are not read for it. A file that is gone is a `SourceUnavailable`.
        """
        if self.latest is not None:
            return {"version": self.latest()}
        files = self.parts if self.is_files else [] if self.database is None else [self.database]
        try:
            result = [os.stat(part) for part in files]  # noqa: PTH116 - asked with every question, twice as fast
        except OSError as error:
            gone = Path(error.filename).name
            raise SourceUnavailable(
                f"the file {gone} is gone, or may not be read; nothing was spent. Put it back as it was "
                "(cp -p keeps its time) and ask again"
            ) from None
        if not self.is_files:
            return {}
        return {"size": sum(file.st_size for file in result), "modified": max(file.st_mtime_ns for file in result)}


def _files(paths: Sequence[str]) -> set[tuple[int, int]]:
    return {place for path in paths if (place := file_place(path)) is not None}


def file_origin(path: str, files: Sequence[str]) -> Origin:
    """Return the origin of a path that names these files.

    One file is the same data by whatever link, folder or pattern it is reached; several go by the resolved folder or
    pattern.
    """
    parts = tuple(sorted({os.path.realpath(file) for file in files}))
    return Origin(parts[0] if len(parts) == 1 else os.path.realpath(path), parts)


def scheme_of(parts: SplitResult) -> str:
    """Return the kind of database of an address: ``postgres`` and ``postgresql+psycopg`` are PostgreSQL too."""
    scheme = parts.scheme.partition("+")[0]
    return "postgresql" if scheme == "postgres" else scheme


def database_origin(parts: SplitResult, table: str, schema: str | None) -> Origin:
    """Return the origin of a table in a database.

    >>> from urllib.parse import urlsplit
    >>> database_origin(urlsplit("postgresql://me:secret@127.0.0.1/db"), "people", "public").identity
    'postgresql://localhost:5432/db?table=public.people'
    """
    scheme = scheme_of(parts)
    full = table if not schema else f"{schema}.{table}"
    if scheme in _FILES:
        path = os.path.realpath(f"{parts.netloc}{parts.path}")
        identity = f"{scheme}://{path}?table={full}"
        return Origin(identity, (identity,), is_files=False, database=path)
    host = (parts.hostname or "localhost").lower()
    host = "localhost" if host in ("127.0.0.1", "::1") else host
    port = parts.port or _PORTS.get(scheme)
    identity = f"{scheme}://{host}{'' if port is None else f':{port}'}{parts.path}?table={full}"
    return Origin(identity, (identity,), is_files=False)
