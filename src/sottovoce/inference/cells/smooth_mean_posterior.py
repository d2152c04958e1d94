"""The posterior of a mean whose tail is taken to be smooth: what all looks for it released, told together; free."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from sottovoce.inference.cells.hidden_tails import Hidden, assumption_of
from sottovoce.inference.cells.intervals import around, central, checked_level, to_the_ends
from sottovoce.inference.cells.mean_limits import mean_limits
from sottovoce.inference.cells.moments import mean_draws
from sottovoce.inference.cells.questions import Question
from sottovoce.inference.cells.row_draws import RowDraws
from sottovoce.inference.cells.tail_windows import (
    FAR,
    FREE,
    POSITION,
    POSITION_APART,
    TailSide,
    Window,
    anchor_of,
    chosen_window,
    octave_edges,
    sides_of,
)
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.errors import InvalidData
from sottovoce.privacy.json_values import mapping, restoring
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.readings import GroupMoments
from sottovoce.records.readings.group_moments import STEPS

_DRAWS = 4000
_SEED = 20170913
"""Draws are a function of what was released alone: one release, one answer, wherever it is read."""
_SQUARES = 2.5
"""The squares are taken to leave out means so many standard errors from what they say."""
_NARROWEST = 0.3
"""However much they leave out, an interval is no narrower than so much of what the noise of the sum makes it."""
_HIDDEN = 1.645
"""Noise hides so many of its standard deviations, in 95 of 100 cases."""
_ALL_OCTAVES = 2 / math.sqrt(3)
"""Records hidden in several octaves at once raise the mean by so many times as much: octaves shrink by halves, and
1 + 1/4 + 1/16 + … is 4/3."""


@dataclass(frozen=True, eq=False)
class TailCounts:
    """Noisy counts between edges, those of no value last, and the scale of their noise.

    `kind` is ``far`` (the records in the outer parts alone, one number), ``even`` or ``octaves``.
    """

    kind: str
    counts: tuple[int, ...]
    scale: float

    def to_dict(self) -> dict[str, object]:
        """Return the counts as plain values."""
        return {"kind": self.kind, "counts": list(self.counts), "scale": self.scale}

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise."""
        return math.sqrt(IntegerNoise("gaussian", self.scale).variance)


@dataclass(frozen=True, eq=False)
class WindowSums:
    """The noisy sums within a window, of positions beyond it, and the count of records of no value; in whole steps."""

    total: int
    squares: int
    positions: tuple[int, ...]
    outside: int
    scale: float

    def to_dict(self) -> dict[str, object]:
        """Return the sums as plain values."""
        plain = {"total": self.total, "squares": self.squares, "positions": list(self.positions)}
        return plain | {"outside": self.outside, "scale": self.scale}


@dataclass(frozen=True, eq=False)
class SmoothMeanPosterior(RowDraws):
    """What was released of a mean with ``tails="smooth"``, and what it tells.

    Attributes
    ----------
    question, n
        What was asked, of how many records.
    final
        The scale that the noise of the last sums has, where octaves are counted before them and where they are not.
    looks
        What was counted, in order.
    sums
        What was added up at last.
    apart, seed
        Whether it is of one group, the number of whose records is not known: n is 0, and a record that is not in the
        group adds nothing. The seed keeps the draws of groups apart.
    """

    question: Question
    n: int
    final: tuple[float, float]
    looks: tuple[TailCounts, ...] = ()
    sums: WindowSums | None = field(default=None)
    apart: bool = False
    seed: int = 0

    @property
    def _free(self) -> tuple[float, float]:
        """The weights, squared, of positions and of the count of records, beside Σy."""
        return POSITION_APART if self.apart else (POSITION, POSITION)

    def _rng(self) -> np.random.Generator:
        return seeded_rng(_SEED + self.seed)

    @cached_property
    def _outside(self) -> float:
        """About how many of the n records have no value."""
        outside = 0.0 if self.sums is None else float(self.sums.outside)
        return outside if self.apart else max(outside, 0.0)

    def _size_seen(self) -> float:
        """Return about how many records a group has, by all of its counts before the last look: at least one."""
        seen = [(sum(look.counts), len(look.counts) * look.deviation**2) for look in self.looks]
        precision = math.fsum(1 / variance for _, variance in seen)
        return max(math.fsum(total / variance for total, variance in seen) / precision, 1.0) if seen else 1.0

    @property
    def reading(self) -> GroupMoments:
        """How the sums of the last look are laid out, without its window."""
        return self.question.measured_between(*self.bounds)

    @property
    def bounds(self) -> tuple[float, float]:
        """The public bounds of the column."""
        return self.question.value_bounds

    def _of(self, kind: str) -> TailCounts | None:
        return next((look for look in self.looks if look.kind == kind), None)

    @property
    def asked_after(self) -> float:
        """From where octaves are counted before anything is known: zero where the bounds hold it, or the low one."""
        low, high = self.bounds
        return 0.0 if low < 0 < high else low

    @cached_property
    def anchor(self) -> float:
        """From where octaves are counted: the bulk of the records, where it was searched for."""
        return self.asked_after if self._bulk is None else self._bulk

    @property
    def bulk(self) -> bool:
        """Whether most records lie in a few even cells."""
        return self._bulk is not None

    @cached_property
    def _bulk(self) -> float | None:
        even = self._of("even")
        if even is None:
            return None
        counts = np.array(even.counts if self.apart else even.counts[:-1], dtype=np.float64)
        return anchor_of(counts, even.deviation, self._size_seen() if self.apart else self.n, *self.bounds)

    @cached_property
    def octaves(self) -> Floats:
        """The edges of the octaves."""
        return octave_edges(self.anchor, *self.bounds)

    @cached_property
    def known_size(self) -> float:
        """About how many records have a value, by the count of octaves."""
        look = self._of("octaves")
        if self.apart:
            return self._size_seen()
        return float(self.n if look is None else max(self.n - max(look.counts[-1], 0), 1))

    @cached_property
    def sides(self) -> list[TailSide]:
        """Both sides of the anchor, with the tails that may lie there; none where octaves were not counted."""
        look = self._of("octaves")
        if look is None:
            return []
        counts = np.array(look.counts if self.apart else look.counts[:-1], dtype=np.float64)
        return sides_of(counts, look.deviation, self.known_size, self.anchor, *self.bounds, self.final[0])

    @cached_property
    def window(self) -> Window:
        """The window in which records are added up."""
        low, high = self.bounds
        if not self.sides:
            return Window(low, 0.0, high - low, ())
        return chosen_window(self.sides, self.known_size, self.anchor, self.final[0])

    def beyond(self) -> list[tuple[TailSide, int]]:
        """Return the sides with octaves beyond the window, and the first of these."""
        pairs = zip(self.sides, self.window.first, strict=False)
        return [(side, first) for side, first in pairs if first < side.tail.octaves]

    @cached_property
    def _told(self) -> tuple[Floats, Floats, float, float]:
        """Draws of the mean, the limits that squares set it, its deviation without noise, and that of noise alone."""
        sums = self.sums
        if sums is None:
            raise InvalidData("this search has not been finished")
        if self._of_any is not None:
            sizes, (total, square), variances = self._of_any
            means, spreads, _ = mean_draws(sizes, total, square, variances, _DRAWS, self._rng())
            low, high = self.bounds
            half, size = (high - low) / 2, float(sizes.mean())
            plain, by_noise = half * float(spreads.mean()) / math.sqrt(size), half * math.sqrt(variances[0]) / size
            return (low + high) / 2 + half * means, np.array([low, high]), plain, by_noise
        low, high = self.window.ends
        width, middle, noise = high - low, (low + high) / 2, sums.scale
        position = noise / math.sqrt(self._free[0])
        outside, missing = self._missed(sums)
        size = max(self.n - outside, 1.0)
        total, square = sums.total / STEPS / 2 / size, (sums.squares / STEPS - FAR * outside) / size / 4
        centre = min(max(total, -0.5), 0.5)
        variance = min(max(square - centre**2, 0.0), 0.25 - centre**2)
        by_noise = width * noise / size
        # Far from the middle the squares tell how far better than the sum does: no mean is further off than they leave.
        unknown = abs(FAR - square * 4) * missing / 4 if self.apart else 0.0
        error = math.hypot(noise / math.sqrt(FREE) / 4, math.sqrt(variance * size) * abs(2 * centre), unknown) / size
        root = math.sqrt(min(max(square + _SQUARES * error, 0.0), 0.25))
        limits = np.array([middle - width * root, middle + width * root])
        rng = self._rng()
        spread = math.hypot(by_noise, width * math.sqrt(variance / size), width * total * missing / size)
        draws = middle + width * total + spread * rng.standard_normal(_DRAWS)
        place, plain = 0, width * math.sqrt(variance / size)
        for side, first in self.beyond():
            octaves = side.tail.octaves - first
            seen = np.array(sums.positions[place : place + octaves], dtype=np.float64) / STEPS
            place += octaves
            values, weights = side.tail.tail_sum(first, seen, position, side.middle(self.window))
            draws = draws + side.sign * rng.choice(values, _DRAWS, p=weights / weights.sum()) / size
            limits[1 if side.sign > 0 else 0] = side.sign * math.inf
        return draws, limits, plain, by_noise

    def _missed(self, sums: WindowSums) -> tuple[float, float]:
        """Return about how many of the n records have no value, and the noise of that count."""
        if not (self.apart or self.question.may_miss):
            return 0.0, 0.0
        return self._outside, sums.scale / math.sqrt(self._free[1])

    @cached_property
    def _of_any(self) -> tuple[Floats, tuple[float, float], tuple[float, float]] | None:
        """Where nothing lies beyond the window: draws of N, noisy Σt and Σt², and the noise on each. Else None.

        No tail is assumed then, and the mean is told as one of any tail is.
        """
        sums = self.sums
        if sums is None or self.beyond():
            return None
        outside, missing = self._missed(sums)
        away = outside + missing * self._rng().standard_normal(_DRAWS)
        away = away if self.apart else np.maximum(away, 0.0)
        noisy = sums.total / STEPS, sums.squares / STEPS - FAR * outside
        noise = (2 * sums.scale) ** 2, sums.scale**2 / FREE + (FAR * missing) ** 2
        return np.maximum(self.n - away, 1.0), noisy, noise

    def _limited(self, draws: Floats, level: float) -> Floats:
        """Return the interval of a mean of any tail, drawn out to the limits that squares set."""
        ends = to_the_ends(draws[:, None], level, *self.bounds)
        if self._of_any is None:
            return ends
        sizes, (total, square), noise = self._of_any
        known = np.array([sizes.mean()]), np.array([sizes.var()])
        limits = mean_limits(known, (np.array([total]), np.array([square])), noise, level, "gaussian")
        low, high = self.bounds
        return around(ends, np.where(np.isnan(limits), ends, (low + high) / 2 + (high - low) / 2 * limits))

    @cached_property
    def draws(self) -> Floats:
        """Draws of the mean, (draws, 1)."""
        draws, limits, _, _ = self._told
        return np.clip(np.clip(draws, *limits), *self.bounds)[:, None]

    def interval(self, level: float = 0.95) -> Floats:
        """Return the interval of the mean, (low, high) last."""
        level = checked_level(level)
        draws, limits, _, noise = self._told
        if self._of_any is not None:
            return self._limited(draws, level)
        low, high = central(draws[:, None], level)[0]
        low, high = max(low, limits[0]), min(high, limits[1])
        middle = float(np.clip(np.median(draws), *limits))
        least = -float(special.ndtri((1 - level) / 2)) * noise * _NARROWEST
        low, high = min(low, middle, high - least), max(high, middle, low + least)
        return np.asarray(np.clip([[low, high]], *self.bounds))

    @property
    def plain_sd(self) -> Floats:
        """About how uncertain the mean would be without noise."""
        return np.asarray(np.minimum(self._told[2], self.sd))

    @property
    def public_range(self) -> tuple[float, float]:
        """The public ends of what the mean may be."""
        return self.bounds

    @property
    def hidden(self) -> list[Hidden]:
        """What could hide beyond the window on each side where a tail was assumed."""
        sums, said, place, (low, high) = self.sums, list[Hidden](), 0, self.window.ends
        if sums is None:
            return said
        for side, first in self.beyond():
            place += side.tail.octaves - first
            records = _HIDDEN * sums.scale / math.sqrt(self._free[0]) + max(sums.positions[place - 1] / STEPS, 0.0)
            end, cut = (self.bounds[1], high) if side.sign > 0 else (self.bounds[0], low)
            size = max(self.n - self._outside if self.apart else self.n, 1)
            moved = _ALL_OCTAVES * records * abs(end - (low + high) / 2) / size
            said.append(Hidden(side.sign > 0, cut, end, math.ceil(records), moved))
        return said

    @property
    def assumption(self) -> str | None:
        """What was assumed of records that nobody saw, and what it may cost, in words; None where nothing was."""
        return assumption_of([self.hidden])

    def noisy_counts(self) -> tuple[Floats, IntegerNoise, int]:
        """Return how many records have a value and how many have none, noisy, the noise, and how many there are."""
        sums = self.sums
        outside = 0.0 if sums is None else float(sums.outside)
        noise = IntegerNoise("gaussian", 1.0 if sums is None else sums.scale / math.sqrt(self._free[1]))
        return np.array([self.n - outside, outside]), noise, self.n

    def summary(self) -> str:
        """Return the posterior in one line."""
        return f"{self.question.describe()}: {len(self.looks)} looks, then sums between {self.window.ends}"

    def to_dict(self) -> dict[str, object]:
        """Return all that was released as plain values; `from_dict` reads it back."""
        state = {"posterior": "smooth mean", "question": self.question.to_dict(), "n": self.n}
        sums = None if self.sums is None else self.sums.to_dict()
        return state | {"final": list(self.final), "looks": [look.to_dict() for look in self.looks], "sums": sums}

    @staticmethod
    def from_dict(state: Mapping[str, Any]) -> SmoothMeanPosterior:
        """Read what was released from `to_dict`'s form."""
        with restoring("a mean with a smooth tail"):
            question = Question.from_dict(state["question"])
            return SmoothMeanPosterior(question, int(state["n"]), *_released(state))

    @staticmethod
    def of_group(question: Question, place: int, state: Mapping[str, object]) -> SmoothMeanPosterior:
        """Read what was released of one group among several."""
        return SmoothMeanPosterior(question, 0, *_released(state), apart=True, seed=place)


def _released(state: Mapping[str, Any]) -> tuple[tuple[float, float], tuple[TailCounts, ...], WindowSums]:
    """Read scales, looks and sums from plain values."""
    looks = tuple(
        TailCounts(str(look["kind"]), tuple(map(int, look["counts"])), float(look["scale"]))
        for look in (mapping("look", item) for item in state["looks"])
    )
    given = mapping("sums", state["sums"])
    numbers = int(given["total"]), int(given["squares"]), tuple(map(int, given["positions"]))
    first, second = map(float, state["final"])
    return (first, second), looks, WindowSums(*numbers, int(given["outside"]), float(given["scale"]))
