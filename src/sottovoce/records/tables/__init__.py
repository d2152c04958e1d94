"""One pass from any table to a system's statistics, inside the engine that holds the records."""

from sottovoce.records.tables.sources import open_table
from sottovoce.records.tables.table import Table

__all__ = ["Table", "open_table"]
