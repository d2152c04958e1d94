"""Facts: what is public about a table, said once by a person and never read off the data."""

from sottovoce.records.facts.cells import Cells
from sottovoce.records.facts.columns import Category, Column, Count, Day, Derived, Flag, Number, Person, Vector
from sottovoce.records.facts.dummy_records import dummy_columns, dummy_csv
from sottovoce.records.facts.facts import Facts
from sottovoce.records.facts.facts_file import facts_template, read_facts

__all__ = [
    "Category",
    "Cells",
    "Column",
    "Count",
    "Day",
    "Derived",
    "Facts",
    "Flag",
    "Number",
    "Person",
    "Vector",
    "dummy_columns",
    "dummy_csv",
    "facts_template",
    "read_facts",
]
