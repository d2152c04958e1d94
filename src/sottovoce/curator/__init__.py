"""The curator: the one place where data and ledger meet."""

from sottovoce.curator.curator import Curator
from sottovoce.curator.records import Records
from sottovoce.curator.stages import Answer, Draft, Paid, Priced

__all__ = ["Answer", "Curator", "Draft", "Paid", "Priced", "Records"]
