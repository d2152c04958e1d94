"""Events of a ledger, made one after the other without one."""

from typing import Any

from sottovoce.service.ledger.hash_chain import ChainEvent, Head, body_of

__all__ = ["next_event"]


def next_event(
    head: Head,
    kind: str,
    content: dict[str, Any],
    budget: int | None = None,
    entry: int | None = None,
    key: str | None = None,
    spent: str | None = None,
    value: str | None = None,
) -> ChainEvent:
    """Return the event that follows `head`."""
    body = body_of(kind, content, head.count + 1, budget, entry, key, spent)
    sequence, seal = head.after(body)
    return ChainEvent(sequence, kind, budget, entry, key, spent, body, value, seal)
