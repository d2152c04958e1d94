"""The mechanism of means with ``tails="smooth"`` of groups, or where n is a secret: a search for each group's tail."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from sottovoce.inference.cells.quantile_search import merged, union_of
from sottovoce.inference.cells.questions import Question
from sottovoce.inference.cells.smooth_groups_posterior import SmoothGroupsPosterior
from sottovoce.inference.cells.smooth_mean_posterior import SmoothMeanPosterior, TailCounts, WindowSums
from sottovoce.inference.cells.smooth_means import (
    EVEN,
    FEW_EVEN,
    FEW_OCTAVES,
    GATE,
    MANY,
    OCTAVE_COUNTS,
    ROUNDED,
    SLACK,
    far_edges,
    fine_edges,
)
from sottovoce.inference.cells.smooth_tail import SmoothTail
from sottovoce.inference.cells.tail_windows import CELLS, FAR, FREE, POSITION_APART
from sottovoce.mechanisms.integer_noise import IntegerNoise, noise_log_ratio
from sottovoce.privacy.concentrated import ZeroConcentratedProfile
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.lattice import lattice_mu
from sottovoce.privacy.numbers import Floats, ceil_float
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.relation import Relation
from sottovoce.records.facts import Category, Facts, Number
from sottovoce.records.readings import GroupMoments, HeldRecords
from sottovoce.records.readings.group_moments import STEPS
from sottovoce.records.readings.in_memory_records import RecordsOfN

_NUMBERS = 8
"""At most so many numbers of a look move: the sum, the squares, a position and the count of two groups."""


class _Seen(Protocol):
    """Exact numbers of all groups, to which noise is then added."""

    def counts(self, edges: Sequence[Floats]) -> list[Any]:
        """Return the counts of every group between its own edges."""

    def sums(self, window: tuple[float, float]) -> list[tuple[int, int, int]]:
        """Return every group's records, Σt and Σt² within a window, in steps."""


@dataclass(frozen=True, eq=False)
class SmoothGroupMeans(SmoothTail):
    r"""Search every group for its tail as `SmoothMeans` does, and add up within a window of its own.

    A group's size is no public number, so a record that is not in it adds nothing to any look. With a = y - ½ the place
    of a record in the window of its group the last look of a group releases

    .. math:: \Bigl(\sum a,\; \sqrt{w}\sum (4a^2-f),\; \sqrt{.33}\sum p_k,\; \sqrt{.17}\,n\Bigr)

    w = .69, f = .66; one beyond the window adds its position p ∈ [0, 1] and to n. One record more or fewer moves all of
    it by at most ½, squared, one that is replaced within a group by at most 1 and one that moves to another group by
    ½ + ½. Every look of counts is a histogram of groups and cells: a record more moves it by 1, one replaced by 2. So
    whatever each group's looks are, its cost for one record more is at most 1/4s²-zCDP, that of one replaced within it
    1/2s², and groups are apart: 1/2s²-zCDP together, and 1/4s² where n is a secret.

    Parameters
    ----------
    system, n
        The question for a mean with ``tails="smooth"``, and how many records there are; None where that is a secret.
    scale
        s: the noise that one look of sensitivity 1 would have for all of it.

    Examples
    --------
    >>> from sottovoce.privacy.promises import ApproxDP
    >>> facts = Facts(cost=Number(0, 1e6), ward=Category(("A", "B")))
    >>> question = Question("mean", ("cost",), facts, by=("ward",), tails="smooth")
    >>> SmoothGroupMeans.calibrate(question, 5000, ApproxDP(0.3, 1e-6)).profile.satisfies(ApproxDP(0.3, 1e-6))
    True
    """

    word: ClassVar[str] = "smooth group means"
    hides_n: ClassVar[bool] = True
    system: Question
    scale: float

    @cached_property
    def reading(self) -> GroupMoments:
        """What the last look adds up where windows are the bounds."""
        return self.system.measured_between(*self.system.value_bounds).for_size(self.n)

    @staticmethod
    def looks_profile(scale: float, relation: Relation) -> Profile:
        """Return what all looks do together, in noise of a scale."""
        return _profile(scale, relation)

    @classmethod
    def example(cls) -> Self:
        """Return the mean of a number in wide bounds in two wards, of five records."""
        facts = Facts(stay=Number(0, 1000), ward=Category(("A", "B")))
        return cls(Question("mean", ("stay",), facts, by=("ward",), tails="smooth"), 5, 4.0)

    # The release.

    def _value(self, seen: Any, rng: np.random.Generator, draws: int) -> SmoothGroupsPosterior:
        del draws
        return SmoothGroupsPosterior(self.system, self.n, self.search(_Table(self, seen), rng))

    def _blank(self) -> tuple[SmoothMeanPosterior, ...]:
        finals = self._finals(())
        return tuple(SmoothMeanPosterior(self.system, 0, finals, apart=True, seed=g) for g in range(self._groups))

    @property
    def _groups(self) -> int:
        return self.system.groups.size

    def _finals(self, spent: tuple[float, ...]) -> tuple[float, float]:
        """Return the last look's scale where octaves are counted before it, and where they are not."""
        before, after = (self.scale / math.sqrt(1 - sum(part)) for part in ((*spent, OCTAVE_COUNTS), spent))
        return before, after

    def search(self, seen: _Seen, rng: np.random.Generator) -> tuple[SmoothMeanPosterior, ...]:
        """Look, and choose by what was released of a group where to look next in it; then add up."""
        parts = list(self._blank())
        octaves = self.scale * math.sqrt(2 / OCTAVE_COUNTS)
        if self.n is None or self.n >= FEW_OCTAVES * octaves:
            edges = far_edges(parts[0])
            parts = self._counted("far", [(part, edges) for part in parts], GATE, seen, rng)
            parts = [replace(part, final=self._finals((GATE,))) for part in parts]
            sizes = [float(sum(part.looks[0].counts)) for part in parts]
            near = 1 if parts[0].asked_after > parts[0].bounds[0] else 0
            far = [s - part.looks[0].counts[near] > MANY * s for s, part in zip(sizes, parts, strict=True)]
            even = np.linspace(*self.system.value_bounds, CELLS + 1)
            fewest = FEW_EVEN * self.scale * math.sqrt(2 / EVEN)
            sought = [f and s > fewest for f, s in zip(far, sizes, strict=True)]
            parts = self._counted("even", _of(sought, parts, lambda part: even), EVEN, seen, rng)
            spent = [(GATE, EVEN) if s else (GATE,) for s in sought]
            parts = [replace(part, final=self._finals(s)) for part, s in zip(parts, spent, strict=True)]
            large = [s >= FEW_OCTAVES * octaves for s in sizes]
            looked = [enough and (part.bulk or not f) for enough, f, part in zip(large, far, parts, strict=True)]
            parts = self._counted("octaves", _of(looked, parts, lambda part: part.octaves), OCTAVE_COUNTS, seen, rng)
        return tuple(self._added(parts, seen, rng))

    def _counted(
        self,
        kind: str,
        asked: Sequence[tuple[SmoothMeanPosterior, Floats | None]],
        share: float,
        seen: _Seen,
        rng: np.random.Generator,
    ) -> list[SmoothMeanPosterior]:
        """Return the groups, with noisy counts of those that have edges."""
        if all(edges is None for _, edges in asked):
            return [part for part, _ in asked]
        bounds = np.array(self.system.value_bounds)
        counts = seen.counts([bounds if edges is None else edges for _, edges in asked])
        noise, result = IntegerNoise("gaussian", self.scale * math.sqrt(2 / share)), []
        for (part, edges), exact in zip(asked, counts, strict=True):
            if edges is not None:
                look = TailCounts(kind, tuple(map(int, noise.add(exact, rng))), noise.scale)
                part = replace(part, looks=(*part.looks, look))  # noqa: PLW2901 - the group, a look later
            result.append(part)
        return result

    def _added(
        self, parts: Sequence[SmoothMeanPosterior], seen: _Seen, rng: np.random.Generator
    ) -> list[SmoothMeanPosterior]:
        result = []
        for part, exact in zip(parts, self.sums(parts, seen), strict=True):
            with_octaves = bool(part.looks) and part.looks[-1].kind == "octaves"
            scale = part.final[0 if with_octaves else 1]
            scales = self.sum_scales(part, scale)
            noisy = [
                int(IntegerNoise("gaussian", s).add(np.array([x]), rng)[0]) for x, s in zip(exact, scales, strict=True)
            ]
            sums = WindowSums(noisy[0], noisy[1], tuple(noisy[2:-1]), noisy[-1], scale)
            result.append(replace(part, sums=sums))
        return result

    @staticmethod
    def sums(parts: Sequence[SmoothMeanPosterior], seen: _Seen) -> list[list[int]]:
        """Return the last look's sums of every group, in steps: of t, of t² - f, of positions by octave, and -n."""
        fine = [fine_edges(part) for part in parts]
        counts = seen.counts([edges for edges, _ in fine])
        windows = {part.window.ends: seen.sums(part.window.ends) for part in parts}
        result = []
        for place, (part, (edges, cells)) in enumerate(zip(parts, fine, strict=True)):
            low, high = part.window.ends
            held, middles = counts[place].astype(np.int64), (edges[1:] + edges[:-1]) / 2
            below, above = int(held[middles < low].sum()), int(held[middles > high].sum())
            n, total, square = windows[part.window.ends][place]
            within = n - below - above
            squares = square - STEPS * (below + above) - round(FAR * STEPS) * within
            positions = [int((held[where] * position).sum()) for position, where in cells]
            result.append([total - STEPS * (above - below), squares, *positions, -n])
        return result

    @staticmethod
    def sum_scales(part: SmoothMeanPosterior, scale: float) -> list[float]:
        """Return the scale of the noise on each of a group's sums: Σa is half of Σt."""
        positions = sum(side.tail.octaves - first for side, first in part.beyond())
        by_position, by_count = (scale / math.sqrt(weight) for weight in POSITION_APART)
        return [2 * scale * STEPS, scale / math.sqrt(FREE) * STEPS, *[by_position * STEPS] * positions, by_count]

    # The attack.

    @cached_property
    def _pair(self) -> tuple[HeldRecords, HeldRecords]:
        low, high = self.system.value_bounds
        labels = [values[0] for values in self.reading.typical()[: len(self.system.groups.names)]]
        return self._with_and_without((*labels, high), (*labels, low))

    def worst_pair(self) -> tuple[Any, Any]:
        """Return two data sets whose first records are at either bound of one group."""
        return self._pair

    def _outputs(self, seen: Any, rng: np.random.Generator, draws: int) -> Floats:
        """Return the noisy sums of so many last looks at the public bounds, a row each."""
        parts = self._blank()
        exact = self.sums(parts, _Table(self, self.see(seen)))
        rows = [
            IntegerNoise("gaussian", s).rows(np.array([x]), rng, draws)
            for part, numbers in zip(parts, exact, strict=True)
            for x, s in zip(numbers, self.sum_scales(part, self.scale), strict=True)
        ]
        return np.concatenate(rows, axis=1).astype(np.float64)

    def log_ratio(self, pair: tuple[Any, Any]) -> Callable[[Any], Floats]:
        """Return log of the probability of noisy sums under the first of a pair over the second."""
        parts = self._blank()
        moved = [list(itertools.chain(*self.sums(parts, _Table(self, self.see(side))))) for side in pair]
        noises = [IntegerNoise("gaussian", s) for part in parts for s in self.sum_scales(part, self.scale)]

        return noise_log_ratio(noises, moved[0], moved[1])


def _of(
    chosen: Sequence[bool], parts: Sequence[SmoothMeanPosterior], edges: Callable[[SmoothMeanPosterior], Floats]
) -> list[tuple[SmoothMeanPosterior, Floats | None]]:
    """Return every group, with the edges of those that are chosen."""
    return [(part, edges(part) if yes else None) for yes, part in zip(chosen, parts, strict=True)]


@dataclass(frozen=True, eq=False)
class _Table:
    """All groups of a table: every look is one query."""

    mechanism: SmoothGroupMeans
    records: RecordsOfN

    def _look(self, reading: GroupMoments) -> Any:
        reading = reading.for_size(self.mechanism.n)
        return reading.steps(reading.check(self.records.look(reading)))

    def counts(self, edges: Sequence[Floats]) -> list[Any]:
        every = union_of(edges)
        table = self._look(self.mechanism.system.cut_at(every.tolist()))[:-1].reshape(len(edges), -1)
        return [merged(row, every, cut) for row, cut in zip(table, edges, strict=True)]

    def sums(self, window: tuple[float, float]) -> list[tuple[int, int, int]]:
        reading = self.mechanism.system.measured_between(*window)
        counts, totals, squares = reading.split(self._look(reading))
        each = zip(counts[:-1], totals, squares, strict=True)
        return [(int(n), int(total), int(square)) for n, total, square in each]


def _profile(scale: float, relation: Relation) -> Profile:
    """Return what all looks do together: of what may be chosen after a look, that which tells most.

    In squares beside s: one record more moves counts by half of their share of ρ, and the last look by half of its; one
    that is replaced, within a group or to another, by all of it.
    """
    moved = 0.5 if relation.hides_n else 1.0
    rho = ceil_float(Fraction(SLACK) * Fraction(moved) / (2 * Fraction(scale) ** 2))

    def counted(share: float) -> float:
        s = scale * math.sqrt(2 / share)
        return lattice_mu([(2 * moved / s**2 * SLACK, s)], 2)

    def added(share: float) -> float:
        s = scale / math.sqrt(share)
        # Counts have the coarsest noise; the other sums have that of many steps.
        return lattice_mu([(moved / s**2 * SLACK, s / math.sqrt(POSITION_APART[1]))], _NUMBERS)

    looks = ((), (GATE,), (GATE, EVEN), (GATE, OCTAVE_COUNTS), (GATE, EVEN, OCTAVE_COUNTS))
    paths = [[*map(counted, taken), added(1 - sum(taken))] for taken in looks]
    # A record that moves to another group is one fewer on one path and one more on another: half of each, squared.
    mu = max(math.sqrt(math.fsum(part * part for part in path)) for path in paths) * ROUNDED
    if math.isfinite(mu):
        return GaussianProfile(mu, basis=Basis.BOUND, relation=relation)
    return ZeroConcentratedProfile(rho, relation=relation)
