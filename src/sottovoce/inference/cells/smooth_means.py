"""The mechanism of means with ``tails="smooth"``: looks at where the tail lies, then sums within a closer window."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.inference.cells.questions import Question
from sottovoce.inference.cells.smooth_mean_posterior import SmoothMeanPosterior, TailCounts, WindowSums
from sottovoce.inference.cells.smooth_tail import SmoothTail
from sottovoce.inference.cells.tail_windows import CELLS, FAR, FREE, POSITION
from sottovoce.mechanisms.integer_noise import IntegerNoise, noise_log_ratio
from sottovoce.privacy.concentrated import ZeroConcentratedProfile
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.lattice import lattice_mu
from sottovoce.privacy.numbers import Floats, ceil_float
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.relation import Relation
from sottovoce.records.facts import Facts, Number
from sottovoce.records.readings import GroupMoments, HeldRecords
from sottovoce.records.readings.group_moments import STEPS

GATE, EVEN, OCTAVE_COUNTS = 0.03, 0.06, 0.15
"""What parts of ρ count the records far from where the tail would begin, search for the bulk, and count octaves.

They choose windows, and whatever these are the last look holds; what they take widens it by at most 1/√(1 - .24) =
1.15, and by 1/√.82 = 1.10 where nothing is searched for. A gate of .03 sees a quarter of all records (`MANY`) at
√(.03ρ)n/4 deviations of a count: at three, of n = 1,000 at a fifth of (1, 10⁻⁶).
"""
FEW_OCTAVES, FEW_EVEN = 6.0, 8.0
"""Of fewer records than so many deviations of a count, octaves are not counted, and nothing is searched for."""
_FAR, MANY = 8, 0.25
"""Far is beyond an eighth of the way to a bound; where more than so many are, they are no tail."""
_PARTS = 32
"""A record's position within an octave is told by which of so many even parts it is in."""
_ATOM = 2.0**-30
"""Records so near to a bound, as a part of the last octave, are at it."""
ROUNDED = 1 + 1e-12
"""More than the rounding of a root of a few squares."""
SLACK = 1 + 2.0**-14
"""More than what rounding t² to whole steps, and the few operations that make up a sensitivity, add to its square."""


@dataclass(frozen=True, eq=False)
class SmoothMeans(SmoothTail):
    r"""Count octaves of a column, choose a window by what was counted, add up within it and beyond.

    With y ∈ [0, 1] the place of a record in the window the last look releases

    .. math:: \Bigl(\sum y,\; \sqrt{w}\sum 4(y-\tfrac12)^2,\; \sqrt{\tfrac12}\sum p_k,\; \sqrt{\tfrac12}\,n_0\Bigr)

    with noise of one scale, w = .69 and n₀ the number of records of no value. A record beyond the window adds its
    middle to the first sum, .66 to the second, and to that of its octave k its position p ∈ [0, 1] there. One record
    replaced moves all of it by at most 1: within the window by d²(1 + 16w(1 - d)²) ≤ 1, squared; from it to an octave,
    or to no value, by at most ¼ + .34²w + ½ < 1; from one octave to another by ½ + ½. The looks before count: the
    records far out (moved by 1), even cells and octaves (by √2). Each is chosen by what the looks before released,
    whatever is chosen next keeps to what is left, and all is charged once, before the first: 1/2s²-zCDP together.

    Parameters
    ----------
    system, n
        The question for a mean with ``tails="smooth"``, and how many records there are.
    scale
        s: the noise that one look of sensitivity 1 would have for all of it.

    Examples
    --------
    >>> from sottovoce.privacy.promises import ApproxDP
    >>> question = Question("mean", ("cost",), Facts(cost=Number(0, 1e6)), tails="smooth")
    >>> SmoothMeans.calibrate(question, 5000, ApproxDP(0.3, 1e-6)).profile.satisfies(ApproxDP(0.3, 1e-6))
    True
    """

    word: ClassVar[str] = "smooth means"
    system: Question
    scale: float

    @cached_property
    def reading(self) -> GroupMoments:
        """What the last look adds up where its window is the bounds."""
        return self.system.measured_between(*self.system.value_bounds)

    @property
    def _counts_octaves(self) -> bool:
        return (self.n or 0) >= FEW_OCTAVES * self.scale * math.sqrt(2 / OCTAVE_COUNTS)

    @property
    def _searches(self) -> bool:
        return (self.n or 0) > FEW_EVEN * self.scale * math.sqrt(2 / EVEN)

    def _left(self, *spent: float) -> float:
        """Return the scale of a look of sensitivity 1 that is paid with what these parts of ρ leave."""
        return self.scale / math.sqrt(1 - sum(spent))

    @staticmethod
    def looks_profile(scale: float, relation: Relation) -> Profile:
        """Return what all looks do together, in noise of a scale."""
        return _profile(scale, relation)

    @classmethod
    def example(cls) -> Self:
        """Return the mean of a number in wide bounds, of five records."""
        return cls(Question("mean", ("stay",), Facts(stay=Number(0, 1000)), tails="smooth"), 5, 4.0)

    # The release.

    def _value(self, seen: Any, rng: np.random.Generator, draws: int) -> SmoothMeanPosterior:
        del draws
        return self.search(seen, rng)

    def search(self, seen: object, rng: np.random.Generator) -> SmoothMeanPosterior:
        """Look, and choose by what was released where to look next; then add up."""
        known = SmoothMeanPosterior(self.system, int(self.n or 0), self._finals(()))
        spent: tuple[float, ...] = ()
        if self._counts_octaves:
            spent = (GATE,)
            known = self._gated(known, seen, rng)
            far = known.looks[-1].counts[0] > MANY * known.n
            if far and self._searches:
                spent = (*spent, EVEN)
                even = np.linspace(*known.bounds, CELLS + 1)
                known = self._counted(known, "even", even, math.sqrt(2 / EVEN), seen, rng)
            known = replace(known, final=self._finals(spent))
            if not far or known.bulk:
                known = self._counted(known, "octaves", known.octaves, math.sqrt(2 / OCTAVE_COUNTS), seen, rng)
        with_octaves = bool(known.looks) and known.looks[-1].kind == "octaves"
        scale = known.final[0 if with_octaves else 1]
        exact, scales = self.sums(known, seen), self.sum_scales(known, scale)
        noisy = [
            int(IntegerNoise("gaussian", s).add(np.array([x]), rng)[0]) for x, s in zip(exact, scales, strict=True)
        ]
        return replace(known, sums=WindowSums(noisy[0], noisy[1], tuple(noisy[2:-1]), noisy[-1], scale))

    def _finals(self, spent: tuple[float, ...]) -> tuple[float, float]:
        return self._left(*spent, OCTAVE_COUNTS), self._left(*spent)

    def _gated(self, known: SmoothMeanPosterior, seen: object, rng: np.random.Generator) -> SmoothMeanPosterior:
        """Return what is known once the records far from the anchor are counted."""
        ends, (low, _), anchor = far_edges(known), known.bounds, known.asked_after
        counts = self._count(seen, ends)[:-1]
        far = counts.sum() - counts[1 if anchor > low else 0]
        noise = IntegerNoise("gaussian", self.scale / math.sqrt(GATE))
        look = TailCounts("far", (int(noise.add(np.array([far]), rng)[0]),), noise.scale)
        return replace(known, looks=(*known.looks, look))

    def _counted(
        self, known: SmoothMeanPosterior, kind: str, edges: Floats, times: float, seen: object, rng: np.random.Generator
    ) -> SmoothMeanPosterior:
        noise = IntegerNoise("gaussian", self.scale * times)
        noisy = noise.add(self._count(seen, edges), rng)
        return replace(known, looks=(*known.looks, TailCounts(kind, tuple(map(int, noisy)), noise.scale)))

    def _count(self, seen: object, edges: Floats) -> Any:
        """Return the counts of cells, and of the records of no value, last."""
        return self._look(seen, self.system.cut_at(edges.tolist()))

    def _look(self, seen: Any, reading: GroupMoments) -> Any:
        return reading.steps(reading.check(seen.look(reading)))

    def sums(self, known: SmoothMeanPosterior, seen: object) -> list[int]:
        """Return the last look's sums, in whole steps: of t, of t², of positions by octave, and n₀."""
        low, high = known.window.ends
        edges, cells = fine_edges(known)
        counts = self._count(seen, edges).astype(np.int64)
        outside, total, square = map(int, self._look(seen, self.system.measured_between(low, high))[1:])
        middles = (edges[1:] + edges[:-1]) / 2
        below, above = int(counts[:-1][middles < low].sum()), int(counts[:-1][middles > high].sum())
        beyond = below + above
        result = [total - STEPS * (above - below), square - STEPS * beyond + round(FAR * STEPS) * (beyond + outside)]
        for position, place in cells:
            result.append(int((counts[:-1][place] * position).sum()))
        return [*result, outside]

    def sum_scales(self, known: SmoothMeanPosterior, scale: float) -> list[float]:
        """Return the scale of the noise on each of them: Σy is half of Σt."""
        positions = sum(side.tail.octaves - first for side, first in known.beyond())
        by_position = scale / math.sqrt(POSITION)
        return [2 * scale * STEPS, scale / math.sqrt(FREE) * STEPS, *[by_position * STEPS] * positions, by_position]

    # The attack.

    def worst_pair(self) -> tuple[Any, Any]:
        """Return two data sets whose first records are at either bound."""
        low, high = self.system.value_bounds
        others = [low] * (max(self.n or 1, 1) - 1)
        return HeldRecords(([high, *others],)), HeldRecords(([low, *others],))

    @cached_property
    def path(self) -> SmoothMeanPosterior:
        """What is known before any look: the last look is then told at the public bounds."""
        return SmoothMeanPosterior(self.system, int(self.n or 0), self._finals(()))

    def _outputs(self, seen: Any, rng: np.random.Generator, draws: int) -> Floats:
        """Return the noisy sums of so many last looks at the public bounds, a row each."""
        exact = self.sums(self.path, self.see(seen))
        scales = self.sum_scales(self.path, self.scale)
        parts = [
            IntegerNoise("gaussian", s).rows(np.array([x]), rng, draws) for x, s in zip(exact, scales, strict=True)
        ]
        return np.concatenate(parts, axis=1).astype(np.float64)

    def log_ratio(self, pair: tuple[object, object]) -> Callable[[Any], Floats]:
        """Return log of the probability of noisy sums under the first of a pair over the second."""
        moved = [self.sums(self.path, self.see(side)) for side in pair]
        noises = [IntegerNoise("gaussian", s) for s in self.sum_scales(self.path, self.scale)]

        return noise_log_ratio(noises, moved[0], moved[1])


def far_edges(known: SmoothMeanPosterior) -> Floats:
    """Return the edges of what is near where octaves would begin, and of what is far from there."""
    (low, high), anchor = known.bounds, known.asked_after
    return np.unique([low, anchor - (anchor - low) / _FAR, anchor + (high - anchor) / _FAR, high])


def fine_edges(known: SmoothMeanPosterior) -> tuple[Floats, list[tuple[Any, Any]]]:
    """Return edges that cut each octave beyond the window evenly, and of each octave what positions its cells have."""
    window, (low, high) = known.window, known.bounds
    edges, octaves = [np.array([low, *window.ends, high])], []
    for side, first in known.beyond():
        ends = side.ends[side.start + first :]
        centre = side.sign * (window.above - window.below) / 2
        for place, (start, end) in enumerate(itertools.pairwise(ends.tolist())):
            cut = np.linspace(start, end, _PARTS + 1)
            if place == ends.size - 2:
                cut = np.insert(cut, -1, end - _ATOM * (end - start))
            edges.append(np.clip(window.anchor + side.sign * cut, low, high))
            octaves.append((window.anchor, side.sign, start, end, centre))
    every = np.unique(np.concatenate(edges))
    distance = (every[1:] + every[:-1]) / 2 - window.anchor
    cells = []
    for _, sign, start, end, centre in octaves:
        within = np.flatnonzero((sign * distance > start) & (sign * distance < end))
        position = (sign * distance[within] - centre) / (end - centre)
        cells.append((np.rint(STEPS * np.clip(position, 0.0, 1.0)).astype(np.int64), within))
    return every, cells


def _profile(scale: float, relation: Relation) -> Profile:
    """Return what all looks do together: of what may be chosen after a look, that which tells most."""
    exact = ZeroConcentratedProfile(ceil_float(Fraction(SLACK) / (2 * Fraction(scale) ** 2)), relation=relation)

    def counted(part: float, squares: float) -> float:
        s = scale * math.sqrt(squares / part)
        return lattice_mu([(squares / s**2 * SLACK, s)], int(squares))

    def added(part: float) -> float:
        s = scale / math.sqrt(part)
        counts = s / math.sqrt(POSITION)
        # A record of no value moves a count, which has the coarsest noise; the other sums have that of many steps.
        return lattice_mu([(POSITION / s**2 * SLACK, counts), ((1 - POSITION) / s**2 * SLACK, counts)], 5)

    searched = 1 - GATE - EVEN
    paths = [
        [added(1.0)],
        [counted(GATE, 1.0), added(1 - GATE)],
        [counted(GATE, 1.0), counted(OCTAVE_COUNTS, 2.0), added(1 - GATE - OCTAVE_COUNTS)],
        [counted(GATE, 1.0), counted(EVEN, 2.0), added(searched)],
        [counted(GATE, 1.0), counted(EVEN, 2.0), counted(OCTAVE_COUNTS, 2.0), added(searched - OCTAVE_COUNTS)],
    ]
    mu = max(math.sqrt(math.fsum(mu * mu for mu in path)) for path in paths) * ROUNDED
    return GaussianProfile(mu, basis=Basis.BOUND, relation=relation) if math.isfinite(mu) else exact
