"""Other ledgers in a folder, and of which data their budgets are: a quick look for a warning, that verifies nothing."""

from __future__ import annotations

import contextlib
import itertools
import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

_FILES = 64
"""At most so many ledgers of a folder are looked into."""
_PATIENCE = 0.1
"""Seconds to wait for one that somebody else writes."""
_FIRST = "SELECT body FROM sottovoce_events WHERE sequence <= 64 AND kind = 'open'"
"""Budgets are opened first: the events of a long ledger need not all be read."""


def budgets_beside(folders: Iterable[Path], own: Path | None) -> list[tuple[Path, list[str], str]]:
    """Return the budgets that other ledgers of some folders hold: in which ledger, of which files, and their salt.

    What cannot be read is passed over, for nothing rests on it.
    """
    result = []
    for folder in dict.fromkeys(folders):
        with contextlib.suppress(OSError):
            for path in itertools.islice(sorted(folder.glob("*.ledger")), _FILES):
                if path.is_file() and (own is None or not own.exists() or not path.samefile(own)):
                    result += [(path, parts, salt) for parts, salt in _sources(path)]
    return result


def _sources(path: Path) -> list[tuple[list[str], str]]:
    # Not mode=ro, which would leave a log and its index behind; SQLite may put a log away, and nothing else is written.
    address = f"file:{quote(str(path.resolve()))}?mode=rw"
    try:
        with contextlib.closing(sqlite3.connect(address, uri=True, timeout=_PATIENCE)) as connection:
            sources = [json.loads(body).get("source") for (body,) in connection.execute(_FIRST)]
        return [([str(part) for part in source["parts"]], str(source["salt"])) for source in sources if source]
    except (sqlite3.Error, OSError, ValueError, LookupError, AttributeError, TypeError):
        return []
