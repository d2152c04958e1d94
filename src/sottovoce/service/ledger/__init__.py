"""The ledger: the durable budget."""

from typing import TYPE_CHECKING

from sottovoce.privacy.lazy_imports import lazily

if TYPE_CHECKING:
    from sottovoce.service.ledger.charging import EntryPending, KeyTaken, Reservation
    from sottovoce.service.ledger.hash_chain import Head
    from sottovoce.service.ledger.ledger import Ledger
    from sottovoce.service.ledger.records import Budget, DataVersion, Entry, State

__all__ = ["Budget", "DataVersion", "Entry", "EntryPending", "Head", "KeyTaken", "Ledger", "Reservation", "State"]

__getattr__ = lazily(__name__)
