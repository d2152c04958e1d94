"""Releases of several tables by one regression, made side by side: what they share is found once."""

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from sottovoce.inference.regression import AdaptiveLooks, Coefficients
from sottovoce.records.readings import Statistics
from sottovoce.records.readings.base import ReadableRecords
from sottovoce.records.readings.in_memory_records import as_columns
from sottovoce.records.readings.look import CHUNK

__all__ = ["released"]


def released(
    mechanism: AdaptiveLooks, tables: Iterable[Any], rngs: Iterable[np.random.Generator]
) -> list[Coefficients]:
    """Return the value of a release of each table, every one with its own noise: what it would be alone."""
    held = list(tables)
    seen = {place: mechanism.see(_Encoded(mechanism, table)) for place, table in {id(one): one for one in held}.items()}
    shown = [partial(_noisy, mechanism, seen[id(table)], rng) for table, rng in zip(held, rngs, strict=True)]
    return mechanism.conclude_all(mechanism.walk_all(shown))


def _noisy(mechanism: AdaptiveLooks, seen: Any, rng: np.random.Generator, look: Any, scales: Any) -> Any:
    return mechanism._noisy(seen, look, scales, rng)


class _Encoded(ReadableRecords):
    """The rows of a table, encoded once for all looks."""

    def __init__(self, mechanism: AdaptiveLooks, table: Any) -> None:
        look = mechanism.reading
        *values, last = as_columns(look.columns, [table[name] for name in mechanism.system.columns])
        parts = [slice(start, start + CHUNK) for start in range(0, len(last), CHUNK)]
        self.n, self.parts = (
            len(last),
            [(*look.encoding.rows([column[part] for column in values], len(last[part])), last[part]) for part in parts],
        )

    def look(self, reading: Any) -> Statistics:
        """Return what a reading makes of them."""
        sums = (reading.of_rows(rows, known, reading.model.outcome(last)) for rows, known, last in self.parts)
        return Statistics(self.n, sum(sums, np.zeros(reading.size)))
