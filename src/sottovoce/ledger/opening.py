"""Opening a ledger: created whole or not at all, and never mistaken for another thing."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import sqlalchemy as sa

from sottovoce.ledger import schema
from sottovoce.ledger.anchor import Anchor
from sottovoce.ledger.chain import EMPTY
from sottovoce.ledger.store import Store
from sottovoce.privacy.errors import LedgerCorrupt, LedgerUnavailable

__all__ = ["open_store"]

_CREATION = 0x536F74746F  # the advisory lock that PostgreSQL's creators take


def open_store(url: sa.URL, *, create: bool, timeout: float) -> Store:
    """Return the store of a ledger, brought to this version; with `create`, make one where there is none."""
    store = Store(url, timeout)
    try:
        if store.path is None:
            _open_postgres(store, create=create)
        else:
            _open_sqlite(store.path, timeout, create=create)
        _bring_up_to_date(store)
    except BaseException:
        store.close()
        raise
    return store


def _bring_up_to_date(store: Store) -> None:
    with store.transaction(write=False) as transaction:
        found = schema.read_version(transaction)
    if found is None:
        raise LedgerCorrupt(f"{store.name} is a database, but holds no ledger")
    if found != schema.VERSION:
        with store.transaction(write=True) as transaction:
            transaction.lock_head()
            # Read again under the lock: another process may have upgraded it meanwhile.
            schema.upgrade(transaction, schema.read_version(transaction) or found)


def _open_postgres(store: Store, *, create: bool) -> None:
    with store.transaction(write=True) as transaction:
        transaction.run(f"SELECT pg_advisory_xact_lock({_CREATION})")
        if schema.read_version(transaction) is not None:
            return
        if not create:
            raise LedgerUnavailable(f"there is no ledger at {store.name}; open a budget to create it")
        schema.create(transaction)


def _open_sqlite(path: Path, timeout: float, *, create: bool) -> None:
    anchor = Anchor(path)
    noted = anchor.read()  # first: a ledger is there before its anchor is
    try:
        if not path.exists():
            if noted != EMPTY:
                raise LedgerCorrupt(
                    f"the ledger {path} is gone, and {anchor.path.name} says that it had come to event "
                    f"{noted.count}: put it back; a new one would forget what was spent"
                )
            if not create:
                raise LedgerUnavailable(f"there is no ledger at {path}; open a budget to create it")
            _create_sqlite(path, timeout)
        if path.stat().st_size == 0:
            raise LedgerCorrupt(f"the ledger {path} is empty: it was cut off, for a ledger never starts empty")
    except OSError as error:
        raise LedgerUnavailable(f"cannot open the ledger {path}: {error.strerror}") from None


def _create_sqlite(path: Path, timeout: float) -> None:
    # Made under another name and linked when whole: no crash leaves half a ledger, of two creators one wins.
    draft = path.with_name(f"{path.name}-{secrets.token_hex(8)}")
    try:
        draft.touch(mode=0o644, exist_ok=False)
        store = Store(sa.URL.create("sqlite", database=str(draft)), timeout)
        with store.transaction(write=True) as transaction:
            schema.create(transaction)
        store.close()
        _sync(draft)
        try:
            os.link(draft, path)
        except FileExistsError:
            return
        _sync(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
