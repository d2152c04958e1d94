"""What a user's function reads: tame columns, streamed out of the engine and held in this process alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ibis
import numpy as np

from sottovoce.records.readings import Aggregate
from sottovoce.records.readings.function_reading import FunctionReading
from sottovoce.records.tables.query_plans import PlannedQuery, QueryPlan
from sottovoce.records.tables.regressions import floats, raw


def function_reading(asked: PlannedQuery, reading: FunctionReading) -> QueryPlan:
    """Plan the columns as numbers and places of categories; the function sees them when all have come."""
    asked.no_missing("the facts of a column say what a missing cell counts as; leave missing out")
    asked.take(len(reading.columns))
    reading.known()
    columns = {
        f"x{k}": raw(asked, name, fact) for k, (name, fact) in enumerate(zip(asked.names, reading.columns, strict=True))
    }
    if asked.kept is not None:
        columns["kept"] = ibis.cases((asked.kept, 1), else_=0)

    def decode(batches: Iterator[Any]) -> Aggregate:
        parts = [[floats(batch.column(name)) for name in columns] for batch in batches]
        result = (
            [np.concatenate(part) for part in zip(*parts, strict=True)] if parts else [np.zeros(0) for _ in columns]
        )
        kept = None if asked.kept is None else result.pop() == 1
        seen: Aggregate = reading.seen(result, kept)
        return seen

    return QueryPlan(asked.records.select(**columns), decode, stream=True)
