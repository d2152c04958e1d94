"""The curator: the one place where data and ledger meet."""

from typing import TYPE_CHECKING

from sottovoce.privacy.lazily import lazily

if TYPE_CHECKING:
    from sottovoce.curator.curator import Curator
    from sottovoce.curator.records import Records
    from sottovoce.curator.stages import Answer, Draft, Paid, Priced

__all__ = ["Answer", "Curator", "Draft", "Paid", "Priced", "Records"]

__getattr__ = lazily(__name__)
