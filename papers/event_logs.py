"""The two event logs of the hidden Markov study: public grids, public categories, counts a cell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papers.data import PT_DISTRICTS, pt_fires
from sottovoce.inference.latent import ChainGrid, CountTables, Field, HiddenMarkovModel
from sottovoce.records.tables.bundled import HK_DISTRICTS, hk_collisions

__all__ = ["HONG_KONG", "PORTUGAL", "EventLog"]

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class EventLog:
    """A log of events in districts and months, with the lists that are public about it.

    Attributes
    ----------
    name, events
        The place, and what an event is called.
    grid, fields
        Where and when, and what is seen of an event. Rare levels count as a common one by rule, not by count.
    load
        Reads the table.
    """

    name: str
    events: str
    grid: ChainGrid
    fields: tuple[Field, ...]
    load: Callable[[], Any]

    def model(self, states: int) -> HiddenMarkovModel:
        """Return the model with this many states."""
        return HiddenMarkovModel(self.grid, self.fields, states)

    def counts(self) -> tuple[Integers, ...]:
        """Return the true counts (district, month, category) of each field; not private."""
        return _counts(self)

    @property
    def corpus(self) -> CountTables:
        """What naive Bayes counts: every field over the whole log."""
        return CountTables(self.fields, tuple((f.name,) for f in self.fields))


@cache
def _counts(log: EventLog) -> tuple[Integers, ...]:
    model = log.model(1)
    table = log.load().select(list(model.tables.columns)).to_pandas(strings_to_categorical=True)
    return model.counts({name: table[name] for name in table})


def _grid(districts: tuple[str, ...], years: range) -> ChainGrid:
    return ChainGrid(Field("district", districts), (Field("year", tuple(years)), Field("month", tuple(range(1, 13)))))


HONG_KONG = EventLog(
    "Hong Kong",
    "road collisions",
    _grid(HK_DISTRICTS, range(2014, 2020)),
    (
        Field("severity", ("slight", "serious"), other="serious"),  # fatal ones, under one in a hundred, are serious
        Field("light", ("daylight", "dark", "dawn/dusk"), other="daylight"),
        Field("rain", ("not-raining", "light-rain", "heavy-rain"), other="not-raining"),
        Field("road_type", ("one-way", "two-way", "dual-carriageway", "multi-carriageway"), other="two-way"),
        Field("collision_with", ("vehicle", "nothing", "pedestrian", "object")),
        Field("cycle", ("none", "motorcycle", "pedal-cycle")),
    ),
    hk_collisions,
)

PORTUGAL = EventLog(
    "Portugal",
    "forest fires",
    _grid(PT_DISTRICTS, range(1994, 2001)),
    (
        Field("veg_class", ("shrub", "forest", "both", "none")),
        Field("size_class", ("zero", "0-0.1ha", "0.1-1ha", "1-10ha", "10-100ha"), other="10-100ha"),  # or more
        Field("hour_class", ("00-05", "06-11", "12-14", "15-17", "18-20", "21-23"), other="15-17"),
        Field("duration_class", ("0-30min", "30-60min", "1-2h", "2-4h", "4-12h", "12h+"), other="1-2h"),
    ),
    pt_fires,
)
