"""Verification: what a ledger recorded, read and checked in one pass, all of it or what came after a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sottovoce.privacy.errors import LedgerCorrupt
from sottovoce.service.ledger import queries, schema
from sottovoce.service.ledger.hash_chain import EMPTY, Head, unsealed
from sottovoce.service.ledger.replay import Replay
from sottovoce.service.ledger.transaction import Transaction


def replay_all(transaction: Transaction, anchors: Iterable[Head], *, forget: bool = False) -> Replay:
    """Return the ledger's state, rebuilt from its events, or raise `LedgerCorrupt` and say where it is wrong.

    Checks, in turn: the database's own structure (SQLite), every event against the hash chain and the rules,
    the head against the last event, each anchor, a head noted earlier, against the chain, and the tables
    against those the ledger was created with. With `forget`, memory does not grow with the chain: only what is pending
    is kept of the entries.
    """
    if transaction.sqlite:
        _check_pages(transaction)
    return _follow(transaction, Replay(forget=forget), anchors)


def replay_since(transaction: Transaction, anchors: Iterable[Head], state: Mapping[str, object]) -> Replay:
    """Return the ledger's state from what it was at a checkpoint and the events since; raise `LedgerCorrupt` otherwise.

    The events before the checkpoint are not read again, but for those that later ones lean on, which must still say
    what they said. So must the totals of every budget.
    """
    if transaction.sqlite:
        _check_mark(transaction)
    replay = Replay.resumed(state)
    _check_noted(transaction, replay.head)
    if (first := transaction.row("SELECT min(sequence) FROM sottovoce_events")[0]) < 1:
        raise LedgerCorrupt(f"event {first} lies before the first")
    for event in replay.leaned_on.values():
        if transaction.event("WHERE sequence = ?", event.sequence) != event:
            raise LedgerCorrupt(f"event {event.sequence} is not what it was at the checkpoint")
    _follow(transaction, replay, anchors)
    for budget, total in replay.spent.items():
        if queries.spent(transaction, budget) != total:
            raise LedgerCorrupt(f"the total of budget {budget} is not what its events add up to")
    return replay


def linked(transaction: Transaction, first: int, last: Head) -> Head:
    """Follow the hashes from an event to a head that is known, and return the head before that event.

    For an answer older than a checkpoint: its own hash can be made again by whoever altered it, the chain from there
    to the checkpoint cannot. The rules were checked when the checkpoint was sealed.
    """
    row = transaction.row("SELECT hash FROM sottovoce_events WHERE sequence = ?", first - 1)
    before = head = Head(first - 1, "" if row is None else row[0])
    for events in transaction.batches(head.count):
        for event in events[: last.count - head.count]:
            unsealed(head, event)
            head = Head(event.sequence, event.hash)
        if head.count >= last.count:
            break
    if head != last:
        raise _rewritten(last.count)
    return before


def _follow(transaction: Transaction, replay: Replay, anchors: Iterable[Head]) -> Replay:
    """Take in every event that follows, and check that they end where they should."""
    wanted = {anchor for anchor in anchors if anchor != EMPTY}
    for anchor in wanted:
        if anchor.count <= replay.head.count:
            _check_noted(transaction, anchor)
    counts = {anchor.count for anchor in wanted}
    for events in transaction.batches(replay.head.count):
        before = replay.head.count
        for event in events:
            replay.feed(event)
            if event.sequence in counts and any(a.count == event.sequence and a != replay.head for a in wanted):
                raise _rewritten(event.sequence)
        if replay.forget and (again := queries.reused_key(transaction, before, replay.head.count)) is not None:
            raise LedgerCorrupt(f"event {again} (reserve) breaks the rules: its key was used already")
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


def _check_noted(transaction: Transaction, noted: Head) -> None:
    """Check that the row of an event that is not read again bears the hash that was noted of it."""
    row = transaction.row("SELECT hash FROM sottovoce_events WHERE sequence = ?", noted.count)
    if row is None or row[0] != noted.hash:
        raise _rewritten(noted.count)


def _rewritten(event: int) -> LedgerCorrupt:
    return LedgerCorrupt(f"event {event} is not the one that was noted outside; history was rewritten")


def _check_pages(transaction: Transaction) -> None:
    said = [str(row[0]) for row in transaction.run("PRAGMA integrity_check(1)").fetchall()]
    if said != ["ok"]:
        raise LedgerCorrupt(f"the ledger's file is damaged: {said[0].strip().splitlines()[-1]}")
    _check_mark(transaction)


def _check_mark(transaction: Transaction) -> None:
    if transaction.run("PRAGMA application_id").fetchone()[0] != schema.APPLICATION:
        raise LedgerCorrupt("the file is not marked as a ledger")
