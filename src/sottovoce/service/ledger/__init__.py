"""The ledger: the durable budget."""

from typing import TYPE_CHECKING

from sottovoce.privacy.lazy_imports import lazily

if TYPE_CHECKING:
    from sottovoce.service.ledger.charging import EntryPending as EntryPending
    from sottovoce.service.ledger.charging import KeyTaken as KeyTaken
    from sottovoce.service.ledger.charging import Reservation as Reservation
    from sottovoce.service.ledger.hash_chain import Head as Head
    from sottovoce.service.ledger.ledger import Ledger as Ledger
    from sottovoce.service.ledger.records import Budget as Budget
    from sottovoce.service.ledger.records import DataVersion as DataVersion
    from sottovoce.service.ledger.records import Division as Division
    from sottovoce.service.ledger.records import Entry as Entry
    from sottovoce.service.ledger.records import State as State

__getattr__ = lazily(__name__)
