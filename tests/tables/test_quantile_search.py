"""Quantiles are searched for on every engine: the same bits in every round as in memory, whatever the records hold."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from sottovoce.inference.cells.questions import Question
from sottovoce.inference.cells.searched_quantiles import SearchedQuantiles
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Count, Facts, Flag, Number
from sottovoce.records.readings import ReadableRecords
from sottovoce.records.tables import Table

from .conftest import on_engines

FACTS = Facts(
    x=Number(-3, 7.3), k=Count(20), f=Number(-1, 1, missing=0.5), c=Category(("north", "o'hara", "")), flag=Flag()
)
QUESTIONS = [
    Question("quantiles", ("x",), FACTS, by=("c",), at=(0.25, 0.5, 0.9)),
    Question("quantiles", ("k",), FACTS, by=("flag",), at=(0.5,)),
    Question("quantiles", ("f",), FACTS, at=(0.1, 0.9)),
]


@dataclass(frozen=True, eq=False)
class Asked(ReadableRecords):
    """A table, read as a curator reads it."""

    table: Table
    columns: list[str]

    def look(self, reading: Any) -> Any:
        """Return what a reading makes of the table."""
        return self.table.read(reading, self.columns)


@on_engines("question", [(question,) for question in QUESTIONS], spark=(0, 1))
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_every_round_of_a_search_is_the_same_everywhere(
    engine_table: Table, question: Question, messy: pa.Table, kind: Any
) -> None:
    search = SearchedQuantiles(question, messy.num_rows, kind, 2.0)
    here = {name: messy[name].to_pylist() for name in question.columns}
    there = search.release(Asked(engine_table, question.columns), seeded_rng(5)).value
    assert there.to_dict() == search.release(here, seeded_rng(5)).value.to_dict()
    assert len(there.rounds) == len(search.scales) > 1
