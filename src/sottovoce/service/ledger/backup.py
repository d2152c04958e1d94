"""Copies of a ledger that is in use, and the way back from one: never to before where an anchor saw it.

Whoever restores an older copy gives back what was spent since, and with it the promise. The copy bears the anchor's
word of its moment, and a restore asks every anchor there is.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from pathlib import Path

from sottovoce.privacy.errors import InvalidValue, LedgerCorrupt, LedgerUnavailable
from sottovoce.service.ledger.anchor import Anchor
from sottovoce.service.ledger.files import advised
from sottovoce.service.ledger.hash_chain import EMPTY, Head
from sottovoce.service.ledger.ledger import Ledger, anchor_elsewhere
from sottovoce.service.ledger.store import Store, read_url

__all__ = ["back_up", "restore"]

_log = logging.getLogger(__name__)
_BESIDE = ("", "-wal", "-shm", "-anchor")
_PATIENCE = 30.0
"""Seconds to wait for others, as `Ledger` does."""


def back_up(place: str | os.PathLike[str], target: Path, *, anchor: str | os.PathLike[str] | None = None) -> Head:
    """Copy a ledger that others may be writing to, verify the copy in full, and return how far it reaches.

    Beside the copy lies its anchor, which says the same: note it elsewhere, too.

    Parameters
    ----------
    place, anchor
        The ledger, a SQLite file, and where else it is noted how far it has come.
    target
        Where the copy goes; nothing may be there.
    """
    with Ledger(place, anchor=anchor) as ledger:
        if ledger.path is None:
            raise InvalidValue(
                f"{ledger.url} is backed up with its database, by pg_dump; ledger verify says how far it had come"
            )
        _copy(ledger.path, target)
    try:
        with Ledger(target) as copy:
            head: Head = copy.verify()
    except BaseException:
        _remove(target)
        raise
    return head


def restore(backup: Path, place: str | os.PathLike[str], *, anchor: str | os.PathLike[str] | None = None) -> Head:
    """Put a copy in the place of a ledger that was lost, and return how far it reaches.

    Raises
    ------
    LedgerCorrupt
        If an anchor, beside the place or elsewhere, says that the ledger had come further, or was another.
    """
    path = _file(place)
    if path.exists():
        raise InvalidValue(f"there is a ledger at {path}, which knows more than any copy; move it away, not its anchor")
    beside = Anchor.beside(path).read()
    with Ledger(backup) as copy:
        reached = copy.verify()
    _check(beside, reached, f"the anchor beside {path}")
    if beside == EMPTY and (anchor is None or _noted(anchor, place) == EMPTY):
        _log.warning(
            "no anchor says how far %s had come; whatever was charged after event %d is forgotten with this",
            path,
            reached.count,
        )
    _copy(backup, path)
    try:
        with Ledger(path, anchor=anchor) as restored:
            head: Head = restored.verify(anchor=None if beside == EMPTY else beside)
    except BaseException as error:
        _remove(path, keep="-anchor" if beside != EMPTY else None)
        if isinstance(error, LedgerCorrupt) and anchor is not None:
            raise LedgerCorrupt(f"{error}; the copy at {backup} ends at event {reached.count}. {_ADVICE}") from None
        raise
    return head


def _noted(anchor: str | os.PathLike[str], place: str | os.PathLike[str]) -> Head:
    """Return what an anchor elsewhere says of a ledger; the empty head where it says nothing, as a new one does."""
    with contextlib.ExitStack() as opened:
        store = opened.enter_context(contextlib.closing(Store(read_url(place), _PATIENCE)))
        return opened.enter_context(contextlib.closing(anchor_elsewhere(anchor, store, _PATIENCE))).read()


_ADVICE = "Restore a later copy; where there is none, what is left of its budgets counts as spent"


def _check(noted: Head, reached: Head, where: str) -> None:
    if noted.count > reached.count:
        raise LedgerCorrupt(
            f"{where} says that the ledger had come to event {noted.count}, and the copy ends at {reached.count}: what "
            f"was spent in between would be given back. {_ADVICE}"
        )


def _file(place: str | os.PathLike[str]) -> Path:
    address = read_url(place)
    if address.drivername != "sqlite" or address.database is None:
        raise InvalidValue(
            "a ledger in PostgreSQL is restored with its database, by pg_restore; ledger verify --anchor then says "
            "whether anything is missing"
        )
    return Path(address.database).absolute()


def _copy(source: Path, target: Path) -> None:
    """Copy a SQLite file page by page while others write; the copy is of one moment."""
    if target.exists() or any(target.with_name(target.name + ending).exists() for ending in _BESIDE[1:3]):
        raise InvalidValue(f"there is something at {target} already; name another place")
    try:
        target.touch(mode=0o600, exist_ok=False)
        reading = contextlib.closing(sqlite3.connect(source.absolute().as_uri() + "?mode=ro", uri=True))
        with reading as before, contextlib.closing(sqlite3.connect(target)) as after:
            before.backup(after)
        with target.open("r+b") as file:
            os.fsync(file.fileno())
    except FileExistsError:
        raise InvalidValue(f"there is something at {target} already; name another place") from None
    except (OSError, sqlite3.Error) as error:
        _remove(target)
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise LedgerUnavailable(f"cannot copy {source} to {target}: {advised(said)}") from None


def _remove(path: Path, keep: str | None = None) -> None:
    for ending in _BESIDE:
        if ending != keep:
            path.with_name(path.name + ending).unlink(missing_ok=True)
