"""Where a column is looked at for its tail: octaves from an anchor, and the window in which its records are added up.

All of it is a function of public bounds and of noisy counts that were released, never of records.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from sottovoce.inference.cells.tail_model import TailModel
from sottovoce.privacy.numbers import Floats

__all__ = [
    "FAR",
    "FREE",
    "POSITION",
    "POSITION_APART",
    "TailSide",
    "Window",
    "anchor_of",
    "chosen_window",
    "octave_edges",
    "sides_of",
]

FREE = 0.69
"""The weight, squared, at which sums of 4(y - ½)² are free beside Σy, y ∈ [0, 1]: d²(1 + 16·FREE(1 - d)²) ≤ 1 for any
move d, for it is less than (11 + 5√5)/32."""
FAR = 0.66
"""What a record outside of the window adds to the squares; to the sum it adds the middle. So it differs from any record
inside by at most a third of what two of these may, and there is room for its position at half the weight, squared."""
POSITION = 0.5
"""That weight, squared: of positions within octaves, and of the count of records that have no value."""
POSITION_APART = 0.33, 0.17
"""Of a group whose size is not known: the weights, squared, of positions and of the count of its records. A record that
is not in the group adds nothing, one within the window a² + FREE(4a² - FAR)² ≤ .33, a = y - ½, and .17, one beyond it
at most .33 and .17; so one that moves to another group moves both groups by no more than ½ + ½, squared."""
OCTAVES = 14
_SURE, _PART, _MOST = 12.0, 0.01, 0.5
"""The tail begins where no more records lie than so many deviations of a count, or a hundredth of all; or half."""
_BEYOND = 3
"""The window reaches so many octaves further than the last that holds records for sure: eight times as far."""
_COST = 0.93
"""Where no assumption on the tail makes intervals narrower than so much of what they are without, none is made."""
CELLS, _RUN, _BULK = 32, 4, 0.85
"""Even cells that search a column whose records lie far from both bounds, and in how many of them most must lie."""


def anchor_of(counts: Floats, noise: float, n: float, low: float, high: float) -> float | None:
    """Return the middle of the few even cells that hold most records, from their noisy counts; None where none do."""
    edges = np.linspace(low, high, CELLS + 1)
    sums = [counts[k : k + _RUN].sum() for k in range(CELLS - _RUN + 1)]
    place = int(np.argmax(sums))
    if sums[place] - 2 * noise <= _BULK * n:
        return None
    held = counts[place : place + _RUN]
    weight = np.where(held > 2 * noise, held, 0.0)
    middles = (edges[place : place + _RUN] + edges[place + 1 : place + _RUN + 1]) / 2
    return float((weight * middles).sum() / weight.sum()) if weight.sum() > 0 else None


def _reach(length: float) -> Floats:
    return np.asarray(length * 2.0 ** -np.arange(OCTAVES, -1, -1.0))


def octave_edges(anchor: float, low: float, high: float) -> Floats:
    """Return the edges of octaves from the anchor to both bounds, or to the one that it is not.

    >>> octave_edges(0.0, 0.0, 16384.0)[:4].tolist(), octave_edges(0.0, 0.0, 16384.0).size
    ([0.0, 1.0, 2.0, 4.0], 16)
    """
    below = anchor - _reach(anchor - low)[::-1] if anchor > low else np.zeros(0)
    above = anchor + _reach(high - anchor) if anchor < high else np.zeros(0)
    return np.unique(np.concatenate([below, [anchor], above]))


@dataclass(frozen=True, eq=False)
class TailSide:
    """One side of the anchor: +1 above it, -1 below, the distances at which octaves end, and their noisy counts."""

    sign: int
    ends: Floats
    counts: Floats
    start: int
    tail: TailModel

    def middle(self, window: Window) -> float:
        """Return the middle of the window, as a distance from where the tail begins."""
        return self.sign * (window.above - window.below) / 2 - float(self.ends[self.start])


@dataclass(frozen=True)
class Window:
    """From how far below the anchor to how far above it records are added up; and which octaves lie beyond on a side.

    `first` has the first octave of each side's tail that lies beyond; as many as there are where none does.
    """

    anchor: float
    below: float
    above: float
    first: tuple[int, ...]

    @property
    def ends(self) -> tuple[float, float]:
        """The values between which records are added up."""
        return self.anchor - self.below, self.anchor + self.above


def sides_of(
    counts: Floats, noise: float, n: float, anchor: float, low: float, high: float, finest: float
) -> list[TailSide]:
    """Return the sides of an anchor from the noisy counts of the octaves, in order of their values."""
    lower = OCTAVES + 1 if anchor > low else 0
    parts = [(1, high - anchor, counts[lower:])] if anchor < high else []
    parts += [(-1, anchor - low, counts[:lower][::-1])] if lower else []
    total = float(counts.sum())
    result = []
    for sign, length, held in parts:
        ends = _reach(length)
        start = _start(held, total, counts.size, noise, n)
        tail = TailModel(ends[start:] - ends[start], held[start + 1 :], noise, n, finest)
        result.append(TailSide(sign, ends, held, start, tail))
    return result


def _start(held: Floats, total: float, cells: int, noise: float, n: float) -> int:
    """Return the octave at whose end the tail begins: the first beyond which few records lie, told in two ways."""
    beyond = np.cumsum(held[::-1])[::-1] - held
    places = np.arange(held.size)
    by_tail = 1 / np.maximum(held.size - 1 - places, 0.5)
    by_body = 1 / np.maximum(cells - (held.size - 1 - places), 0.5)
    left_over = (by_tail * beyond + by_body * (n - (total - beyond))) / (by_tail + by_body)
    few = np.flatnonzero(left_over[:-1] <= min(max(_SURE * noise, _PART * n), _MOST * n))
    return int(few.min()) if few.size else held.size - 2


def chosen_window(sides: list[TailSide], n: float, anchor: float, noise: float) -> Window:
    """Return the window that is expected to leave the mean least uncertain: that of the bounds, or a closer one.

    `noise` is the standard deviation of the noise of a sum of y ∈ [0, 1].
    """
    unknown = all(side.tail.seen < 0 and side.start == 0 for side in sides)
    firsts = [
        list(
            range(
                side.tail.octaves if unknown else min(side.tail.seen + 1 + _BEYOND, side.tail.octaves),
                side.tail.octaves + 1,
            )
        )
        for side in sides
    ]
    shares = [_imagined(side) for side in sides]
    inner, outer = sum(part[: side.start + 1].sum() for side, part in zip(sides, shares, strict=True)), 0.0
    outer = sum(part[side.start + 1 :].sum() for side, part in zip(sides, shares, strict=True))
    for side, part in zip(sides, shares, strict=True):
        part[: side.start + 1] *= max(n - outer, 0.0) / max(inner, 1e-9)
    position = noise / math.sqrt(POSITION)
    tails = [
        {
            k: side.tail.variance_left(k, position, _half(side, k, sides) - float(side.ends[side.start]))
            if k < side.tail.octaves
            else 0.0
            for k in places
        }
        for side, places in zip(sides, firsts, strict=True)
    ]
    best: tuple[float, tuple[int, ...]] = (math.inf, ())
    for first in itertools.product(*firsts):
        cuts = [float(side.ends[side.start + k]) for side, k in zip(sides, first, strict=True)]
        variance = (sum(cuts) * noise) ** 2 + _spread(sides, shares, cuts, n)
        variance += sum(tail[k] for tail, k in zip(tails, first, strict=True))
        full = all(k == side.tail.octaves for side, k in zip(sides, first, strict=True))
        variance *= _COST**2 if full else 1.0
        if variance < best[0]:
            best = (variance, first)
    reach = {side.sign: float(side.ends[side.start + k]) for side, k in zip(sides, best[1], strict=True)}
    return Window(anchor, reach.get(-1, 0.0), reach.get(1, 0.0), best[1])


def _half(side: TailSide, first: int, sides: list[TailSide]) -> float:
    return float(side.ends[side.start + first]) / 2 if len(sides) == 1 else 0.0


def _imagined(side: TailSide) -> Floats:
    result = np.maximum(side.counts, 0.0)
    result[side.start + 1 :] = side.tail.counts_expected
    return result


def _spread(sides: list[TailSide], shares: list[Floats], cuts: list[float], n: float) -> float:
    """Return n times the variance of records that lie evenly in their octaves and are cut at the window."""
    first = second = 0.0
    for side, part, cut in zip(sides, shares, cuts, strict=True):
        ends = np.minimum(np.r_[0.0, side.ends], cut)
        low, high = ends[:-1], ends[1:]
        second += float((part * (low * low + low * high + high * high) / 3).sum())
        first += side.sign * float((part * (low + high) / 2).sum())
    return max(second - first * first / n, 0.0)
