"""Events: thresholds of a score, chosen on draws that are not used again."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from scipy import special

from sottovoce.audit.bounds import Counts, Excess, Measure, noise
from sottovoce.privacy.numbers import Floats, Integers
from sottovoce.privacy.profile import Profile

_CANDIDATES = 240
_EPSILONS = 33
_FARTHEST = 30.0


@dataclass(frozen=True)
class Event:
    """The score lies above the threshold, or below it; then P is the second data set and Q the first."""

    threshold: float
    above: bool = True

    def count(self, first: Floats, second: Floats) -> Counts:
        """Return how often it happened among the scores of the two data sets."""
        if self.above:
            hits, other = np.count_nonzero(first > self.threshold), np.count_nonzero(second > self.threshold)
            return Counts(int(hits), first.size, int(other), second.size)
        hits, other = np.count_nonzero(second < self.threshold), np.count_nonzero(first < self.threshold)
        return Counts(int(hits), second.size, int(other), first.size)


@dataclass(frozen=True)
class Trial:
    """An event, what it is to show, and how the noise of that is shared: all fixed before the draws that count."""

    event: Event
    measure: Measure
    weights: tuple[float, float]


@dataclass(frozen=True, eq=False)
class Pilot:
    """Scores of draws from both data sets, spent on choosing.

    Where the score is the log-likelihood ratio L (up to a constant), `exact` lets every draw stand for both data sets:
    an output comes from P with probability 1/(1 + e^-L), so that P(E) and Q(E) are known far better than by counting.
    """

    first: Floats
    second: Floats
    exact: bool = False

    @cached_property
    def _sides(self) -> tuple[Floats, Floats]:
        """The scores of either data set, in order."""
        return np.sort(self.first), np.sort(self.second)

    @cached_property
    def _scores(self) -> Floats:
        """All scores in order: two runs that are merged."""
        return np.sort(np.concatenate(self._sides), kind="stable")

    @cached_property
    def _candidates(self) -> Floats:
        return self.thresholds(_CANDIDATES)

    def thresholds(self, count: int) -> Floats:
        """Return thresholds over the whole range: half of them at even steps, half crowded into the tails."""
        return np.unique(self._scores[_places(self._scores.size, count)])

    @cached_property
    def _weighed(self) -> tuple[Floats, Floats]:
        """Running sums, over all scores in order, of how much of each comes from P and from Q."""
        scores = self._scores
        shift = 0.0
        for _ in range(50):  # the constant that makes both data sets equally likely beforehand
            part = special.expit(scores + shift)
            step = (0.5 - part.mean()) / max(float((part * (1 - part)).mean()), 1e-12)
            shift += min(max(step, -1.0), 1.0)
            if abs(step) < 1e-9:
                break
        part = special.expit(scores + shift)
        first, second = (np.append(0.0, np.cumsum(w)) / w.sum() for w in (part, 1 - part))
        return first, second

    def likely(self, above: bool) -> tuple[Floats, Floats, Floats]:
        """Return thresholds with the probabilities of passing them, by the likelihood ratio where it is known."""
        if not self.exact:
            return self.shares(above)
        t = self._candidates
        place = np.searchsorted(self._scores, t, side="right" if above else "left")
        below = [np.clip(run[place], 1e-12, 1 - 1e-12) for run in self._weighed]
        return (t, 1 - below[0], 1 - below[1]) if above else (t, below[1], below[0])

    def shares(self, above: bool) -> tuple[Floats, Floats, Floats]:
        """Return thresholds, and how often each is passed under P and under Q; never quite 0 or 1."""
        t = self._candidates
        first, second = (_passed(ordered, t, above) for ordered in self._sides)
        return (t, first, second) if above else (t, second, first)


@lru_cache
def _places(size: int, count: int) -> Integers:
    """Return which of so many scores in order are thresholds."""
    far = np.geomspace(1, size / 2, count // 4).astype(np.int64)
    even = np.linspace(0, size - 1, count // 2).astype(np.int64)
    return np.concatenate([far - 1, size - far, even])


def _passed(ordered: Floats, thresholds: Floats, above: bool) -> Floats:
    if above:
        hits = ordered.size - np.searchsorted(ordered, thresholds, side="right")
    else:
        hits = np.searchsorted(ordered, thresholds, side="left")
    return np.asarray((hits + 0.5) / (ordered.size + 1))


def choose(measure: Measure, pilot: Pilot, draws: int, error: float) -> Trial:
    """Return the event whose bound on the measure will be highest after `draws` more draws, as far as one can tell.

    The bound to expect is the measure less z standard deviations, of the draws to come and of a pilot that counts.
    """
    result = []
    z = -special.ndtri(error)
    for above in (True, False):
        t, p, q = pilot.likely(above)
        unsure = 0.0 if pilot.exact else 1 / pilot.first.size
        p_noise, q_noise = noise(measure, p, q, 1 / (1 / draws + unsure))
        with np.errstate(invalid="ignore"):
            expected = measure.value(p, q) - z * np.hypot(p_noise, q_noise)
        k = int(np.argmax(np.where(np.isnan(expected), -np.inf, expected)))
        trial = Trial(Event(float(t[k]), above), measure, _shared(p_noise[k], q_noise[k]))
        result.append((float(expected[k]), trial))
    return max(result, key=lambda pair: pair[0])[1]


@dataclass(frozen=True, eq=False)
class Claimed:
    """What a profile claims, looked up once however many plans are made against it."""

    profile: Profile
    _epsilons: dict[float, float] = field(default_factory=dict)

    def epsilon(self, delta: float) -> float:
        """Return the ε claimed at δ."""
        if delta not in self._epsilons:
            self._epsilons[delta] = float(self.profile.epsilon(delta))
        return self._epsilons[delta]

    @cached_property
    def mu(self) -> float:
        """The μ claimed."""
        return float(self.profile.gdp())

    @cached_property
    def points(self) -> tuple[Floats, Floats]:
        """ε over the range of the claim, and the δ claimed with each."""
        reach = min(self.epsilon(1e-6), float(self.profile.pure()), _FARTHEST)
        epsilons = np.linspace(0.0, reach, _EPSILONS)
        return epsilons, np.asarray(self.profile.delta(epsilons))


def accuse(points: tuple[Floats, Floats], pilot: Pilot, *, counting: bool) -> tuple[Trial, float]:
    """Return the event and the ε at which a claim of `points` looks most broken, in standard deviations, and its δ.

    A pilot that is `exact` takes the likelihood ratio's word for how likely events are. A likelihood ratio may be
    part of what is wrong, so an audit accuses once more by `counting`.
    """
    epsilons, deltas = (x[:, None] for x in points)
    result = []
    for above in (True, False):
        t, p, q = pilot.shares(above) if counting else pilot.likely(above)
        p_noise, q_noise = np.broadcast_arrays(*noise(Excess(epsilons), p, q, pilot.first.size))
        odds = (Excess(epsilons).value(p, q) - deltas) / np.hypot(p_noise, q_noise)
        i, k = np.unravel_index(int(np.argmax(odds)), odds.shape)
        measure = Excess(float(epsilons[i, 0]))
        trial = Trial(Event(float(t[k]), above), measure, _shared(p_noise[i, k], q_noise[i, k]))
        result.append((float(odds[i, k]), trial, float(deltas[i, 0])))
    _, trial, delta = max(result, key=lambda each: each[0])
    return trial, delta


def _shared(p_noise: float, q_noise: float) -> tuple[float, float]:
    first, second = (float(x) if math.isfinite(x) else 1.0 for x in (p_noise, q_noise))
    total = math.hypot(first, second)
    return (first / total, second / total) if total > 0 else (1.0, 1.0)
