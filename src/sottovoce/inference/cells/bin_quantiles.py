"""Where in a public bin a quantile lies, which counts of bins do not tell."""

from __future__ import annotations

import numpy as np

from sottovoce.privacy.numbers import Floats, Integers, Mask

_EVEN = (0.3, 40.0)
"""How evenly records are taken to lie within a bin: as many of them as this would say, at least and at most."""
_OUTERMOST = 3.0
"""So evenly at most where a bin has one neighbour: nobody knows whether a column rises or falls within it."""
_ALONE = 1.0
"""A bin less even stands out beside its neighbours."""
_JUMPS, _OFTEN = 3.0, 0.25
"""A column is heaped where bins differ from a smooth law by so many standard deviations, in this part of those with
records."""
_PARTS = 14
"""Into so many parts a bin is cut to say where its records lie; its two ends are more."""
_HALVES = (8, 4, 2, 1)
"""How the sixteen are halved."""
_ENDS = 12.0
"""An end of a bin has one part in so many of its records beforehand, in an even one fewer: records like round numbers,
and so do bounds."""


def in_bins(heights: Floats, p: float, rng: np.random.Generator) -> tuple[Integers, Floats, Floats, Mask]:
    """Return in which bin each cumulative curve reaches p, where in it (0 to 1), how far it climbs, if it stands out.

    Nobody knows how records lie within a bin: about evenly, where its neighbours are like it. How evenly is the
    concentration of a Dirichlet law of the shares of its parts. A bin unlike its neighbours may hold all of its
    records in one place, which is then every quantile within it.
    """
    last = heights.shape[-1] - 2
    index = np.clip((heights <= p).sum(axis=-1) - 1, 0, last)[..., None]
    before, here, after = _steps_at(heights, index)
    level = (p - np.take_along_axis(heights, index, -1)[..., 0]) / np.maximum(here, 1e-300)
    even = _evenness(index[..., 0], last, *(step + 1e-3 / (last + 2) for step in (before, here, after)))
    return index[..., 0], _inside_bin(_unevenly(level, even, rng), before, here, after), here, even < _ALONE


def are_heaped(noisy: Floats, variance: float) -> Mask:
    """Return of each group whether its noisy bins, a row each, tell of round values: many are far from smooth.

    A smooth law has next to no third differences; round numbers lie now in one bin, now in the next. A peak or two,
    such as at a bound, touches few bins.

    >>> rng = np.random.default_rng(0)
    >>> exact, round_ = rng.normal(60, 15, 9000), 5 * rng.normal(12, 3, 9000).round()
    >>> counts = [np.histogram(one, 32, (0, 190))[0] for one in (exact, round_)]
    >>> are_heaped(np.array(counts, dtype=float), 100.0)
    array([False,  True])
    """
    weights = np.array([1.0, -3.0, 3.0, -1.0])
    if noisy.shape[-1] < len(weights):  # so few bins tell nothing of it
        return np.zeros(noisy.shape[:-1], dtype=bool)
    windows = np.lib.stride_tricks.sliding_window_view(noisy, len(weights), axis=-1)
    records = np.maximum(windows, 0.0)
    by_chance = (weights**2).sum() * variance + records @ weights**2
    jumps = (windows @ weights) ** 2 > _JUMPS**2 * by_chance
    full = records.sum(axis=-1) > _JUMPS * np.sqrt(len(weights) * variance)
    return np.asarray((jumps & full).sum(axis=-1) > _OFTEN * np.maximum(full.sum(axis=-1), len(weights)))


def whole_values(edges: Floats, index: Integers, inside: Floats) -> Floats:
    """Return the whole number at a place of a bin, each of those in it being as long as another.

    >>> whole_values(np.array([0.0, 2.5, 5.0]), np.array([0, 0, 1, 1]), np.array([0.1, 0.9, 0.1, 0.99])).tolist()
    [0.0, 2.0, 3.0, 5.0]
    """
    ends = np.append(np.ceil(edges[:-1]), np.floor(edges[-1]) + 1)
    return np.asarray(np.minimum(ends[index] + np.floor(inside * np.diff(ends)[index]), ends[index + 1] - 1))


def _unevenly(level: Floats, even: Floats, rng: np.random.Generator) -> Floats:
    """Return draws of the place up to which a bin holds a share of its records, were it even but for chance.

    Which of its parts that is in is found by halves: of a Dirichlet law the share of the lower half is a Beta variable,
    and within either half the law is a Dirichlet one again.
    """
    end = 1 / (_ENDS + even)

    def before(part: Integers) -> Floats:
        inner = end + (part - 1) * (1 - 2 * end) / _PARTS
        return np.where(part == 0, 0.0, np.where(part == _PARTS + 2, 1.0, inner))

    part, remaining = np.zeros(level.shape, dtype=np.int64), np.clip(level, 0.0, 1.0)
    for half in _HALVES:
        low, middle, high = (before(part + k * half) for k in range(3))
        share = rng.beta(even * (middle - low), even * (high - middle))
        upper = remaining > share
        remaining = np.where(upper, remaining - share, remaining) / np.maximum(
            np.where(upper, 1 - share, share), 1e-300
        )
        part = part + half * upper
    return np.asarray(np.clip((part - 1 + rng.random(part.shape)) / _PARTS, 0.0, 1.0))


def _steps_at(heights: Floats, index: Integers) -> list[Floats]:
    """Return how far cumulative curves climb in a bin's neighbour below, in it, and above; at an end, in it twice."""
    last = heights.shape[-1] - 2
    places = [np.clip(index + k, 0, last) for k in (-1, 0, 1)]
    return [(np.take_along_axis(heights, k + 1, -1) - np.take_along_axis(heights, k, -1))[..., 0] for k in places]


def _evenness(index: Integers, last: int, before: Floats, here: Floats, after: Floats) -> Floats:
    """Return how evenly records lie in a bin: less so where it is a peak or a valley beside its two neighbours.

    Of an exponential law a bin is the geometric mean of its neighbours, of a smooth one nearly so. A hill that is
    narrow beside a bin stands out, and may stand anywhere in it; so may one in an outermost bin.
    """
    alike = before * after / here**2
    most = np.where((index == 0) | (index == last), _OUTERMOST, _EVEN[1])
    return np.asarray(np.clip(most * np.minimum(alike, 1 / alike), *_EVEN))


def _inside_bin(goal: Floats, before: Floats, here: Floats, after: Floats) -> Floats:
    """Return where in its bin a cumulative curve has climbed by a share of its step there, from 0 to 1.

    The curve is a monotone cubic: its slope at an edge is the harmonic mean of the two bins beside it (Fritsch and
    Carlson), which follows a density that rises or falls within the bin. Bins must be of one width.
    """
    first, last = (2 * here * (beside / np.maximum(here + beside, 1e-300)) for beside in (before, after))
    height = np.maximum(here, 1e-300)
    first, last = np.minimum(first / height, 3.0), np.minimum(last / height, 3.0)
    below, above = np.zeros(goal.shape), np.ones(goal.shape)
    for _ in range(14):
        x = (below + above) / 2
        reached = x * (first + x * (3 - 2 * first - last + x * (first + last - 2)))
        below, above = np.where(reached < goal, x, below), np.where(reached < goal, above, x)
    return np.where((goal > 0) & (goal < 1), (below + above) / 2, goal)
