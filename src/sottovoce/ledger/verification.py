"""Verification: everything a ledger recorded, read and checked in one pass."""

from __future__ import annotations

from collections.abc import Iterable

from sottovoce.ledger import schema
from sottovoce.ledger.chain import EMPTY, Head
from sottovoce.ledger.replay import Replay
from sottovoce.ledger.store import Transaction
from sottovoce.privacy.errors import LedgerCorrupt

__all__ = ["replay_all"]


def replay_all(transaction: Transaction, anchors: Iterable[Head]) -> Replay:
    """Return the ledger's state, rebuilt from its events, or raise `LedgerCorrupt` and say where it is wrong.

    Checks, in turn: the database's own structure (SQLite), every event against the hash chain and the rules,
    the head against the last event, each anchor, a head noted earlier, against the chain, and the tables
    against those the ledger was created with.
    """
    if transaction.sqlite:
        _check_pages(transaction)
    wanted = {anchor for anchor in anchors if anchor != EMPTY}
    counts = {anchor.count for anchor in wanted}
    replay = Replay()
    for event in transaction.events():
        replay.feed(event)
        if event.sequence in counts and any(a.count == event.sequence and a != replay.head for a in wanted):
            raise LedgerCorrupt(f"event {event.sequence} is not the one that was noted outside; history was rewritten")
    transaction.read_head()
    head = transaction.head
    if replay.head.count < head.count:
        raise LedgerCorrupt(f"events {replay.head.count + 1} to {head.count} are missing: the end was cut off")
    if replay.head != head:
        raise LedgerCorrupt(f"the head says {head}, and the last event is {replay.head}")
    if replay.owed is not None:
        raise LedgerCorrupt(f"the ledger ends before the whole of entry {replay.owed[1]} was charged or refunded")
    if head.count < (last := max(counts, default=0)):
        raise LedgerCorrupt(
            f"the ledger ends at event {head.count}, and event {last} was once written: the last "
            f"{last - head.count} are lost (a damaged write-ahead log, or an older copy put in its place)"
        )
    if schema.read_version(transaction) != replay.version or schema.layout(transaction) != replay.layout:
        raise LedgerCorrupt("the ledger's tables are not as they were created: a column, index or trigger was changed")
    return replay


def _check_pages(transaction: Transaction) -> None:
    said = [str(row[0]) for row in transaction.run("PRAGMA integrity_check(1)").fetchall()]
    if said != ["ok"]:
        raise LedgerCorrupt(f"the ledger's file is damaged: {said[0].strip().splitlines()[-1]}")
    if transaction.run("PRAGMA application_id").fetchone()[0] != schema.APPLICATION:
        raise LedgerCorrupt("the file is not marked as a ledger")
