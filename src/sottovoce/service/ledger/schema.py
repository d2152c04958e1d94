"""The tables of a ledger: one of events that only grows, a row for its head, a row for the version."""

from __future__ import annotations

import datetime
import functools
import time
from collections.abc import Callable, Mapping

import sqlalchemy as sa
from sqlalchemy.schema import CreateIndex, CreateTable

from sottovoce.privacy.errors import LedgerCorrupt, LedgerUnavailable
from sottovoce.service.ledger.hash_chain import EMPTY, canonical, digest
from sottovoce.service.ledger.transaction import Transaction

__all__ = ["APPLICATION", "UPGRADES", "VERSION", "create", "layout", "now", "read_version", "upgrade"]

VERSION = 1
"""The schema this library writes. A ledger of a newer one is refused, of an older one upgraded."""

UPGRADES: Mapping[int, Callable[[Transaction], None]] = {}
"""For each older version, the step that takes its tables to the next."""

APPLICATION = 0x536F7474  # "Sott": marks the SQLite file as ours
_metadata = sa.MetaData()

events = sa.Table(
    "sottovoce_events",
    _metadata,
    sa.Column(
        "sequence",
        sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
        primary_key=True,
        autoincrement=False,
    ),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("budget", sa.BigInteger),
    sa.Column("entry", sa.BigInteger),
    sa.Column("key", sa.Text),
    sa.Column("spent", sa.Text),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("value", sa.Text),
    sa.Column("hash", sa.Text, nullable=False),
)
head = sa.Table(
    "sottovoce_head",
    _metadata,
    sa.Column("id", sa.Integer, sa.CheckConstraint("id = 1"), primary_key=True, autoincrement=False),
    sa.Column("count", sa.BigInteger, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
)
version = sa.Table("sottovoce_version", _metadata, sa.Column("version", sa.Integer, primary_key=True))


def _partial(name: str, *columns: sa.Column[object], where: sa.ColumnElement[bool], unique: bool = False) -> sa.Index:
    return sa.Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)


# Partial, so that each transaction touches few pages: a page more is a write and part of an fsync more.
_partial("sottovoce_spent", events.c.budget, events.c.sequence, where=events.c.spent.is_not(None))
_partial("sottovoce_key", events.c.key, where=events.c.key.is_not(None))
# Not IN, for which SQLite would make a table of its own with every row that it inserts. Ledgers that were made before
# have it so; see `CLOSES`.
_closes = sa.or_(*(events.c.kind == kind for kind in ("commit", "void", "recover")))
_partial("sottovoce_closed", events.c.entry, where=_closes, unique=True)

_SQLITE_RULES = [
    "CREATE TRIGGER sottovoce_no_update BEFORE UPDATE ON sottovoce_events "
    "BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END",
    "CREATE TRIGGER sottovoce_no_delete BEFORE DELETE ON sottovoce_events "
    "BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END",
    f"PRAGMA application_id = {APPLICATION}",
]
_POSTGRES_RULES = [
    "CREATE FUNCTION sottovoce_refuse() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION 'the ledger only grows'; END $$",
    "CREATE TRIGGER sottovoce_only_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON sottovoce_events "
    "FOR EACH STATEMENT EXECUTE FUNCTION sottovoce_refuse()",
]


def create(transaction: Transaction) -> None:
    """Make the tables and the first event."""
    dialect = transaction.dialect
    for table in _metadata.sorted_tables:
        transaction.run(str(CreateTable(table).compile(dialect=dialect)))
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            transaction.run(str(CreateIndex(index).compile(dialect=dialect)))
    for rule in _SQLITE_RULES if transaction.sqlite else _POSTGRES_RULES:
        transaction.run(rule)
    transaction.run(f"INSERT INTO sottovoce_version (version) VALUES ({VERSION})")
    transaction.run(f"INSERT INTO sottovoce_head (id, count, hash) VALUES (1, 0, '{EMPTY.hash}')")
    transaction.append("create", {"version": VERSION, "layout": layout(transaction), "at": now()})


def read_version(transaction: Transaction) -> int | None:
    """Return the schema version of an existing ledger; None where the database holds none."""
    exists = (
        "SELECT 1 FROM sqlite_schema WHERE name = 'sottovoce_version'"
        if transaction.sqlite
        else "SELECT 1 WHERE to_regclass('sottovoce_version') IS NOT NULL"
    )
    if transaction.run(exists).fetchone() is None:
        return None
    rows = transaction.run("SELECT version FROM sottovoce_version").fetchall()
    if len(rows) != 1 or not isinstance(rows[0][0], int):
        raise LedgerCorrupt("the ledger does not say which one schema version it has")
    return rows[0][0]


def upgrade(transaction: Transaction, found: int) -> None:
    """Take an older ledger's tables to this version, and write that down as an event; the head is locked."""
    if found > VERSION:
        raise LedgerUnavailable(
            f"the ledger has schema version {found} and this sottovoce knows {VERSION}; use a newer sottovoce"
        )
    if any(step not in UPGRADES for step in range(found, VERSION)):
        raise LedgerCorrupt(f"the ledger says that it has schema version {found}, which there never was")
    for step in range(found, VERSION):
        UPGRADES[step](transaction)
    if found < VERSION:
        transaction.run(f"UPDATE sottovoce_version SET version = {VERSION}")
        transaction.append("migrate", {"version": VERSION, "layout": layout(transaction), "at": now()})


def layout(transaction: Transaction) -> str | None:
    """Return a hash of a SQLite ledger's tables, indexes and triggers; PostgreSQL guards its own."""
    if not transaction.sqlite:
        return None
    rows = transaction.run("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name").fetchall()
    # In a damaged file a name may be bytes, which are no plain value, and no name either.
    return digest(canonical([[repr(cell) if isinstance(cell, bytes) else cell for cell in row] for row in rows]))


def now() -> str:
    """Return the time, in UTC, to the millisecond."""
    seconds, remainder = divmod(time.time_ns() // 10**6, 1000)
    return f"{_second(seconds)}.{remainder:03}+00:00"


@functools.lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    """Return a second in UTC: there are many transactions in one, and this takes longer than some of their steps."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")
