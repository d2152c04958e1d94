"""The curator: the one place where data and ledger meet."""

from typing import TYPE_CHECKING

from sottovoce.privacy.lazy_imports import lazily

if TYPE_CHECKING:
    from sottovoce.service.curator.curator import Curator
    from sottovoce.service.curator.readable_records import Records
    from sottovoce.service.curator.release_stages import Paid, Quote, RecordedRelease, Unrecorded

__all__ = ["Curator", "Paid", "Quote", "RecordedRelease", "Records", "Unrecorded"]

__getattr__ = lazily(__name__)
