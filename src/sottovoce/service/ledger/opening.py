"""Opening a ledger: created whole or not at all, and never mistaken for another thing."""

from __future__ import annotations

import contextlib
import glob
import logging
import os
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path

import sqlalchemy as sa

from sottovoce.privacy.errors import LedgerCorrupt, LedgerUnavailable
from sottovoce.service.ledger import schema
from sottovoce.service.ledger.anchor import Noting
from sottovoce.service.ledger.files import advised
from sottovoce.service.ledger.hash_chain import EMPTY
from sottovoce.service.ledger.store import Store

_WINDOWS = os.name == "nt"
_CREATION = 0x536F74746F  # the advisory lock that PostgreSQL's creators take


_log = logging.getLogger(__name__)


def open_store(store: Store, anchors: Iterable[Noting], timeout: float, *, create: bool) -> None:
    """Bring the ledger of a store to this version; with `create`, make one where there is none."""
    noted = [(anchor.name, anchor.read()) for anchor in anchors]  # first: a ledger is there before its anchors are
    gone = next((f"{name} says that it had come to event {head.count}" for name, head in noted if head != EMPTY), None)
    if store.path is None:
        _open_postgres(store, gone, create=create)
    else:
        _open_sqlite(store.path, gone, timeout, create=create)
    _bring_up_to_date(store)


def is_there(store: Store) -> bool:
    """Say whether a store holds a ledger."""
    if store.path is not None:
        return store.path.exists()
    with store.transaction(write=False) as transaction:
        return schema.read_version(transaction) is not None


def _bring_up_to_date(store: Store) -> None:
    with store.transaction(write=False) as transaction:
        result = schema.read_version(transaction)
    if result is None:
        raise LedgerCorrupt(f"{store.name} is a database, but holds no ledger")
    if result != schema.VERSION:
        with store.transaction(write=True) as transaction:
            transaction.lock_head()
            # Read again under the lock: another process may have upgraded it meanwhile.
            schema.upgrade(transaction, schema.read_version(transaction) or result)


def _open_postgres(store: Store, gone: str | None, *, create: bool) -> None:
    with store.transaction(write=True) as transaction:
        transaction.run(f"SELECT pg_advisory_xact_lock({_CREATION})")
        if schema.read_version(transaction) is not None:
            return
        _check_absent(store.name, gone, create=create)
        schema.create(transaction)


def _check_absent(place: object, gone: str | None, *, create: bool) -> None:
    """Raise unless a ledger may be made where there is none."""
    if gone is not None:
        raise LedgerCorrupt(
            f"the ledger {place} is gone, and {gone}: put it back; a new one would forget what was spent"
        )
    if not create:
        raise LedgerUnavailable(
            f"there is no ledger at {place}; whoever asks first creates one, by naming a budget (--budget, budget=)"
        )


def _open_sqlite(path: Path, gone: str | None, timeout: float, *, create: bool) -> None:
    try:
        if not path.exists():
            _check_absent(path, gone, create=create)
            _create_sqlite(path, timeout)
        result = path.stat()
        if not stat.S_ISREG(result.st_mode):
            raise LedgerUnavailable(f"cannot open the ledger {path}: it is no plain file")
        if result.st_size == 0:
            raise LedgerCorrupt(f"the ledger {path} is empty: it was cut off, for a ledger never starts empty")
        if result.st_nlink > 1:
            _finish_creation(path)
    except OSError as error:
        raise LedgerUnavailable(f"cannot open the ledger {path}: {advised(str(error.strerror))}") from None
    if result.st_mode & 0o077 and hasattr(os, "geteuid"):  # Windows has access lists, and bits that say nothing
        _log.warning("the ledger %s is open to other users of this machine; chmod 600 closes it", path)


def _create_sqlite(path: Path, timeout: float) -> None:
    # Made under another name and linked when whole: no crash leaves half a ledger, of two creators one wins.
    draft = path.with_name(f"{path.name}-{secrets.token_hex(8)}")
    try:
        draft.touch(mode=0o600, exist_ok=False)  # its log and all else beside it get the same bits
        store = Store(sa.URL.create("sqlite", database=str(draft)), timeout)
        store.name = str(path)  # what is wrong with a draft is told of the ledger
        with contextlib.closing(store), store.transaction(write=True) as transaction:
            schema.create(transaction)
        _sync(draft)
        try:
            os.link(draft, path)
        except FileExistsError:
            return
        # Its name must be as durable as it is. Windows opens no folder; there the file's own journal has the name, and
        # is written out with the file.
        _sync(path if _WINDOWS else path.parent)
    finally:
        for ending in ("", "-wal", "-shm"):  # a log is left where the disk was full
            draft.with_name(draft.name + ending).unlink(missing_ok=True)


def _finish_creation(path: Path) -> None:
    """Take away the name under which a ledger was made, where its creator is about to or was killed before it could."""
    for draft in path.parent.glob(f"{glob.escape(path.name)}-{'[0-9a-f]' * 16}"):
        with contextlib.suppress(FileNotFoundError):
            if draft.samefile(path):
                draft.unlink()


def _sync(path: Path) -> None:
    # Windows syncs only what may be written to, and elsewhere no folder may be.
    file = os.open(path, os.O_RDWR if _WINDOWS else os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
