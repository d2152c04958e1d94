"""A forecast of how precise means with smooth tails will be: the search itself, on imagined records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce.inference.cells.questions import Question
from sottovoce.inference.cells.smooth_group_means import SmoothGroupMeans
from sottovoce.inference.cells.smooth_means import SmoothMeans
from sottovoce.inference.cells.tail_windows import octave_edges
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.readings import GroupMoments, HeldRecords

_IMAGINED = 2**12
"""Records are imagined to lie evenly within so many even cells, and within octaves."""


def expected_smooth_interval(mechanism: SmoothMeans, law: Callable[[Floats], Floats], level: float) -> Floats:
    """Return the interval that is expected where records lie as a law says, from edges to the parts between them.

    They are imagined, looked at and added up once, with noise of a fixed seed.
    """
    values = imagined_values(mechanism.system, mechanism.n or 0, law)
    return mechanism.search(HeldRecords((values,)), seeded_rng(0)).interval(level)


@dataclass(frozen=True, eq=False)
class _Values:
    """One group of imagined values, in place of all."""

    system: Question
    values: Floats

    def counts(self, edges: Sequence[Floats]) -> list[Any]:
        return [np.histogram(self.values, cut)[0] for cut in edges]

    def sums(self, window: tuple[float, float]) -> list[tuple[int, int, int]]:
        reading = GroupMoments((), (), measures=(window,), fillers=(None,), squared=True)
        counts, totals, squares = reading.split(reading.read([self.values]).total)
        return [(int(counts[0]), int(totals[0]), int(squares[0]))]


def expected_group_intervals(
    mechanism: SmoothGroupMeans, sizes: Floats, law: Callable[[Floats], Floats], level: float
) -> Floats:
    """Return the interval that is expected of every group of these sizes, where records lie as a law says."""
    alike = {}
    facts = mechanism.system.facts.about(mechanism.system.columns_asked)
    alone = SmoothGroupMeans(
        Question("mean", mechanism.system.columns_asked, facts, tails="smooth"), mechanism.n, mechanism.scale
    )
    for size in np.unique(np.rint(sizes)):
        values = imagined_values(mechanism.system, int(size), law)
        alike[float(size)] = alone.search(_Values(alone.system, values), seeded_rng(0))[0].interval(level)
    return np.concatenate([alike[float(size)] for size in np.rint(sizes)])


def imagined_values(system: Question, n: int, law: Callable[[Floats], Floats]) -> Floats:
    """Return n values that lie as a law says, from edges to the parts between them."""
    low, high = system.value_bounds
    edges = np.unique(np.concatenate([np.linspace(low, high, _IMAGINED + 1), octave_edges(low, low, high)]))
    ranks = (np.arange(n) + 0.5) / max(n, 1)
    return np.asarray(np.interp(ranks, np.r_[0.0, np.cumsum(law(edges))], edges))
