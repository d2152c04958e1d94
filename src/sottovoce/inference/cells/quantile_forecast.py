"""A forecast of how precise quantiles by search will be: the search itself, on the counts that are expected."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sottovoce.inference.cells.cumulative_counts import CumulativeCounts, RoundCounts
from sottovoce.inference.cells.quantile_search import first_edges, next_edges
from sottovoce.inference.cells.searched_quantiles import SearchedQuantiles
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.numbers import Floats


def expected_intervals(
    mechanism: SearchedQuantiles, sizes: Floats, law: Callable[[Floats], Floats], level: float
) -> Floats:
    """Return the interval of every row where groups have these sizes and counts are what they are expected to be.

    Parameters
    ----------
    mechanism, level
        The search, and how often its intervals hold.
    sizes
        How many records each group is imagined to have.
    law
        From edges to the part of the records in each cell between them.
    """
    alike = {float(size): _group(mechanism, float(size), law, level) for size in np.unique(sizes)}
    ends = np.concatenate([alike[float(size)] for size in sizes])
    if mechanism.system.whole:
        ends = np.stack([np.ceil(ends[:, 0]), np.floor(ends[:, 1])], axis=-1)
    return ends


def _group(mechanism: SearchedQuantiles, size: float, law: Callable[[Floats], Floats], level: float) -> Floats:
    axis, at, rounds = mechanism.system.value_axis, mechanism.system.at, []
    alone = mechanism.system.groups.size == 1 and mechanism.n is not None
    edges = first_edges(axis, len(at))
    for scale in mechanism.scales:
        rounds.append(RoundCounts(edges, size * law(edges), IntegerNoise(mechanism.noise, scale)))
        outside = [float(mechanism.n or 0) - size] * len(rounds)
        known = CumulativeCounts.of(rounds, mechanism.n, outside) if alone else CumulativeCounts.of(rounds)
        edges = next_edges(axis, known, at)
    return np.array([known.interval(p, level) for p in at])
