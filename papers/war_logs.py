"""Event logs of the size and shape of the thesis' two, made up: how many events, regions, months and fields.

The war logs are not ours to ship. What the thesis says of them (§4.5): 2004 to 2009, one step a month, one chain a
region; about 390,000 events with a median of 972 a cell in Iraq, about 75,000 with a median of 58 in Afghanistan,
where they grow over time; five fields, types, categories and three kinds of casualties, yes or no. Five regions of 72
months agree with these numbers (390,000/360 = 1,083). The rest is ours: 12 types, 100 categories; two or three
regimes that change once or twice in each region; and every cell's probabilities are drawn about those of its regime
(as of 400 events), for no real log has but two kinds of months.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papers.event_logs import EventLog
from sottovoce.inference.latent import ChainGrid, Field
from sottovoce.privacy.randomness import seeded_rng

__all__ = ["AFGHANISTAN", "IRAQ", "WarLog"]

Integers = NDArray[np.int64]

_REGIONS, _YEARS = 5, range(2004, 2010)
_ALIKE = 400.0
"""How many events about the regime a cell's own probabilities are worth."""


@dataclass(frozen=True)
class WarLog(EventLog):
    """A made-up log.

    Attributes
    ----------
    regimes
        How many kinds of months there are.
    median, total
        Events of a usual cell, and of the whole log, about.
    """

    regimes: int = 2
    median: int = 100
    total: int = 100_000

    def counts(self) -> tuple[Integers, ...]:
        """Return the counts (region, month, category) of each field."""
        return _made(self)[1]

    @property
    def truth(self) -> Integers:
        """The regime of each cell, (region, month)."""
        return _made(self)[0]


@cache
def _made(log: WarLog) -> tuple[Integers, tuple[Integers, ...]]:
    rng = seeded_rng(2010 + log.regimes)
    regions, months = log.grid.shape
    states = np.zeros((regions, months), dtype=np.int64)
    for region in range(regions):
        # After the surge of 2007 in Iraq; an earlier and a later change in Afghanistan.
        turns = np.sort(rng.integers(20, 62, log.regimes - 1)) if log.regimes > 2 else rng.integers(44, 50, 1)
        states[region] = np.searchsorted(turns, np.arange(months), side="right")
    # Lognormal sizes have the mean e^(σ²/2) times the median. In Afghanistan they grow.
    spread = np.sqrt(2 * np.log(log.total / (regions * months * log.median)))
    time = np.linspace(-1, 1, months) * np.sqrt(3.0)
    place = rng.permutation(np.linspace(-1, 1, regions))[:, None] * np.sqrt(2.0)
    shape = 0.8 * time + 0.6 * place if log.regimes > 2 else 0.3 * time + 0.95 * place
    sizes = np.rint(log.median * np.exp(spread * shape)).astype(np.int64)
    counts = []
    for field in log.fields:
        common = rng.dirichlet(np.full(field.size, 0.5))
        usual = [rng.dirichlet(4 * field.size * (0.6 * common + 0.4 * rng.dirichlet(np.full(field.size, 0.5))))
                 for _ in range(log.regimes)]  # fmt: skip
        own = rng.standard_gamma(_ALIKE * np.array(usual)[states])
        counts.append(rng.multinomial(sizes, own / own.sum(axis=-1, keepdims=True)))
    return states, tuple(counts)


def _log(name: str, **settings: Any) -> WarLog:
    grid = ChainGrid(
        Field("district", tuple(f"region {i + 1}" for i in range(_REGIONS))),
        (Field("year", tuple(_YEARS)), Field("month", tuple(range(1, 13)))),
    )
    fields = (
        Field("type", tuple(range(12))),
        Field("category", tuple(range(100))),
        *(Field(name, ("none", "some")) for name in ("friendly or host", "civilian", "enemy")),
    )
    return WarLog(name, "made-up events", grid, fields, lambda: None, **settings)


IRAQ = _log("a log of Iraq's size", regimes=2, median=972, total=390_000)
AFGHANISTAN = _log("a log of Afghanistan's size", regimes=3, median=58, total=75_000)
