"""The curator: the one place where data and ledger meet."""

from typing import TYPE_CHECKING

from sottovoce.privacy.lazy_imports import lazily

if TYPE_CHECKING:
    from sottovoce.service.curator.curator import Curator as Curator
    from sottovoce.service.curator.readable_records import Records as Records
    from sottovoce.service.curator.release_stages import Paid as Paid
    from sottovoce.service.curator.release_stages import Quote as Quote
    from sottovoce.service.curator.release_stages import RecordedRelease as RecordedRelease
    from sottovoce.service.curator.release_stages import Unrecorded as Unrecorded

__getattr__ = lazily(__name__)
