"""How each reading becomes one query: a static table of where its plan lives."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ibis

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.registry import Registry
from sottovoce.records.readings import Aggregate
from sottovoce.records.tables.columns import field, is_text, numeric
from sottovoce.records.tables.engine import Engine

PLANS = Registry(
    "query for a reading",
    {
        "clipped sum": "sottovoce.records.tables.sums:clipped_sum",
        "category counts": "sottovoce.records.tables.sums:category_counts",
        "ball sum": "sottovoce.records.tables.sums:ball_sum",
        "cross counts": "sottovoce.records.tables.cross_counts:cross_counts",
        "group moments": "sottovoce.records.tables.group_moments:group_moments",
        "cell counts": "sottovoce.records.tables.group_moments:cell_counts",
        "class moments": "sottovoce.records.tables.cross_counts:class_moments",
        "clipped rows": "sottovoce.records.tables.regressions:clipped_rows",
        "moments": "sottovoce.records.tables.regressions:moments",
        "look": "sottovoce.records.tables.look_queries:look",
        "hazard look": "sottovoce.records.tables.hazard_queries:hazard_look",
        "ordinal look": "sottovoce.records.tables.ordinal_queries:ordinal_look",
        "person moments": "sottovoce.records.tables.persons:person_moments",
        "person cells": "sottovoce.records.tables.persons:person_cells",
        "rows of a person": "sottovoce.records.tables.persons:person_rows",
        "person look": "sottovoce.records.tables.persons:person_look",
        "function value": "sottovoce.records.tables.functions:function_reading",
        "function sum": "sottovoce.records.tables.functions:function_reading",
        "function rows": "sottovoce.records.tables.functions:function_reading",
    },
    "sottovoce.plans",
)
"""For each reading, by its word, the function ``(asked, reading) -> Plan``."""


@dataclass
class QueryPlan:
    """One query, and what it tells.

    Attributes
    ----------
    query
        An aggregate of one row of integers, n first; or of several rows of integers where `many`. An expression of
        Ibis, or the SQL of one row (`Written`), or for a `stream` what returns the batches.
    decode
        From that row, or those rows, to what is seen.
    many
        Whether the query has several rows.
    stream
        Whether the records themselves come out, as Arrow batches, for `decode` to go through.
    words
        The query in the engine's own words, once they have been put together.
    """

    query: Any
    decode: Callable[[Any], Aggregate]
    many: bool = False
    stream: bool = False
    words: str | None = None


class KeptPlans:
    """Plans by what tells their questions apart, so many of the latest; any number of threads may ask.

    Parameters
    ----------
    most
        How many are kept.
    """

    def __init__(self, most: int) -> None:
        self._most, self._plans, self._one_at_a_time = most, dict[Any, QueryPlan](), threading.Lock()

    def __len__(self) -> int:
        return len(self._plans)

    def get(self, key: object) -> QueryPlan | None:
        """Return the plan that is kept for a key, if any."""
        return self._plans.get(key)

    def keep(self, key: object, plan: QueryPlan) -> None:
        """Keep a plan in place of the oldest."""
        with self._one_at_a_time:
            while len(self._plans) >= self._most:
                del self._plans[next(iter(self._plans))]
            self._plans[key] = plan


@dataclass(frozen=True)
class PlannedQuery:
    """What a question asks of a table, as expressions of its engine.

    Attributes
    ----------
    engine, records
        The engine's traits, and the table.
    names
        The columns to read, in order.
    kept
        True for the records that the question is about; None where it is about all.
    missing
        What a missing value counts as, if the question says.
    whole
        The same records in a form whose number is known without reading them; None where there is none.
    """

    engine: Engine
    records: Any
    names: tuple[str, ...]
    kept: Any = None
    missing: Any = None
    whole: Any = None

    def one(self, categories: Sequence[object] | None = None) -> Any:
        """Return the only column, a record outside of `kept` as missing."""
        if len(self.names) != 1:
            raise InvalidData(f"this reading takes one column. Got {len(self.names)}")
        return self.value(self.names[0], categories)

    def value(self, name: str, categories: Sequence[object] | None = None, *, cut: bool = True) -> Any:
        """Return a column as numbers, or as its categories are; a record outside of `kept` as missing where `cut`."""
        # A column of no given type is text where its categories are texts, and numbers where they are not.
        typed = name not in self.engine.loose or any(isinstance(category, str) for category in categories or ())
        as_text = categories is not None and typed and is_text(self.records, name)
        value = field(self.records, name) if as_text else numeric(self.engine, self.records, name)
        if self.kept is None or not cut:
            return value
        return ibis.cases((self.kept, value), else_=ibis.null(value.type()))

    def take(self, count: int) -> None:
        """Raise `InvalidData` unless so many columns are named."""
        if len(self.names) != count:
            raise InvalidData(f"this reading takes {count} columns, in order. Got {len(self.names)}")

    def no_missing(self, why: str) -> None:
        """Raise `InvalidValue` where the question says what a missing value counts as."""
        if self.missing is not None:
            raise InvalidValue(why)
