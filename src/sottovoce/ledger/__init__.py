"""The ledger: the durable budget."""

from typing import TYPE_CHECKING

from sottovoce.privacy.lazily import lazily

if TYPE_CHECKING:
    from sottovoce.ledger.chain import Head
    from sottovoce.ledger.charging import EntryPending, KeyTaken, Reservation
    from sottovoce.ledger.ledger import Ledger
    from sottovoce.ledger.records import Budget, Entry, State

__all__ = ["Budget", "Entry", "EntryPending", "Head", "KeyTaken", "Ledger", "Reservation", "State"]

__getattr__ = lazily(__name__)
