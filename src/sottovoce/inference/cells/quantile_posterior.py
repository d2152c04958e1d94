"""The posterior of quantiles that were searched for: all rounds of noisy counts in one likelihood; free."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sottovoce.inference.cells.bin_quantiles import whole_values
from sottovoce.inference.cells.cumulative_counts import CumulativeCounts, RoundCounts
from sottovoce.inference.cells.questions import Question
from sottovoce.inference.cells.row_draws import RowDraws
from sottovoce.mechanisms.integer_noise import IntegerNoise, NoiseKind
from sottovoce.mechanisms.intervals import checked_level
from sottovoce.privacy.errors import InvalidData
from sottovoce.privacy.json_values import mapping, restoring
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.readings import GroupMoments

_DRAWS = 4000
_FEWEST, _MOST = 500, 4_000_000
"""A large answer has fewer draws, as long as all of them together are of so many cells."""
_SEED = 20170913
"""Draws are a function of the noisy counts alone: one release, one answer, wherever it is read."""


@dataclass(frozen=True, eq=False)
class SearchRound:
    """One round as it was released: edges and noisy counts of every group, those in no group, and the noise's scale."""

    edges: tuple[Floats, ...]
    counts: tuple[Floats, ...]
    outside: int
    scale: float

    def __post_init__(self) -> None:
        for name, kind in (("edges", np.float64), ("counts", np.int64)):
            object.__setattr__(self, name, tuple(np.asarray(part, dtype=kind) for part in getattr(self, name)))
        if any(cut.size != counts.size + 1 for cut, counts in zip(self.edges, self.counts, strict=True)):
            raise InvalidData("a round has one noisy count between two edges")
        if not all(np.all(np.isfinite(cut)) and np.all(np.diff(cut) > 0) for cut in self.edges):
            raise InvalidData("edges rise")

    def of_group(self, group: int, noise: NoiseKind) -> RoundCounts:
        """Return what was released of one group."""
        return RoundCounts(self.edges[group], self.counts[group].astype(np.float64), IntegerNoise(noise, self.scale))

    def to_dict(self) -> dict[str, object]:
        """Return the round as plain values."""
        groups = {"edges": [cut.tolist() for cut in self.edges], "counts": [part.tolist() for part in self.counts]}
        return groups | {"outside": self.outside, "scale": self.scale}

    @staticmethod
    def from_dict(state: Mapping[str, object]) -> SearchRound:
        """Read a round from `to_dict`'s form."""
        state = mapping("round", state)
        return SearchRound(tuple(state["edges"]), tuple(state["counts"]), int(state["outside"]), float(state["scale"]))


@dataclass(frozen=True, eq=False)
class QuantilePosterior(RowDraws):
    """Noisy histograms of adaptive cells, and what they tell of the quantiles of every group.

    Attributes
    ----------
    question, n
        What was asked, of how many records; None where that is a secret.
    noise
        The kind of noise.
    rounds
        What was released, in order.
    """

    question: Question
    n: int | None
    noise: NoiseKind
    rounds: tuple[SearchRound, ...]

    def __post_init__(self) -> None:
        if not self.rounds or any(len(released.edges) != self.question.groups.size for released in self.rounds):
            raise InvalidData(f"this question has {self.question.groups.size} groups")

    @property
    def reading(self) -> GroupMoments:
        """How the first round was laid out."""
        return self.question.cut_at(self.rounds[0].edges[0])

    @cached_property
    def groups(self) -> tuple[CumulativeCounts, ...]:
        """What is known of the distribution of each group."""
        return tuple(map(self._of_group, range(self.question.groups.size)))

    def _of_group(self, group: int) -> CumulativeCounts:
        rounds = [released.of_group(group, self.noise) for released in self.rounds]
        if self.question.groups.size > 1 or self.n is None:
            return CumulativeCounts.of(rounds)
        return CumulativeCounts.of(rounds, self.n, [released.outside for released in self.rounds])

    def interval(self, level: float = 0.95) -> Floats:
        """Return the interval of every row, (low, high) last: the values that a test of the level does not reject."""
        level, at = checked_level(level), self.question.at
        ends = np.array([known.interval(p, level) for known in self.groups for p in at]).reshape(-1, 2)
        if self.question.whole:
            ends = np.stack([np.ceil(ends[:, 0]), np.floor(ends[:, 1])], axis=-1) + 0.0  # no minus before a zero
        return ends

    @cached_property
    def draws(self) -> Floats:
        """Joint draws of every row of the answer, (draws, rows)."""
        rng, at = seeded_rng(_SEED), self.question.at
        cells = sum(known.edges.size for known in self.groups)
        count = max(_FEWEST, min(_DRAWS, _MOST // cells))
        return np.concatenate([self._quantiles(known, at, count, rng) for known in self.groups], axis=1)

    def _quantiles(
        self, known: CumulativeCounts, at: tuple[float, ...], count: int, rng: np.random.Generator
    ) -> Floats:
        heights = known.population(count, self.question.prior, rng)
        values = np.empty((count, len(at)))
        for place, p in enumerate(at):
            cell = np.minimum((heights <= p).sum(axis=1) - 1, known.edges.size - 2)
            below, above = heights[np.arange(count), cell], heights[np.arange(count), cell + 1]
            inside = np.clip((p - below) / np.maximum(above - below, 1e-300), 0.0, 1.0)
            if self.question.whole:
                values[:, place] = whole_values(known.edges, cell, np.minimum(inside, 1 - 1e-9))
            else:
                values[:, place] = known.edges[cell] + inside * np.diff(known.edges)[cell]
        return values

    @property
    def plain_sd(self) -> Floats:
        """About how uncertain each row would be without noise: by the part that sampling has of its variance."""
        parts = [known.sampling_part(p) for known in self.groups for p in self.question.at]
        return np.asarray(np.sqrt(parts) * self.sd)

    @property
    def public_range(self) -> tuple[float, float]:
        """The public ends of what every row may be."""
        axis = self.question.value_axis
        return (math.ceil(axis.low), math.floor(axis.high)) if self.question.whole else (axis.low, axis.high)

    def noisy_counts(self) -> tuple[Floats, IntegerNoise, int | None]:
        """Return the first round's noisy counts of all groups, those in none last, their noise, and what they sum to.

        Its cells are as wide as each other, and the same in every group.
        """
        first = self.rounds[0]
        noisy = np.concatenate([*first.counts, [first.outside]]).astype(np.float64)
        return noisy, IntegerNoise(self.noise, first.scale), self.n

    def summary(self) -> str:
        """Return the posterior in one line."""
        rows = len(self.question.at) * len(self.groups)
        return f"{self.question.describe()}: {rows} rows, {len(self.rounds)} rounds with {self.noise} noise"

    def to_dict(self) -> dict[str, object]:
        """Return all rounds as plain values; `from_dict` reads them back."""
        state = {"posterior": "quantile search", "question": self.question.to_dict(), "n": self.n}
        return state | {"noise": self.noise, "rounds": [released.to_dict() for released in self.rounds]}

    @staticmethod
    def from_dict(state: Mapping[str, Any]) -> QuantilePosterior:
        """Read a posterior from `to_dict`'s form."""
        with restoring("a quantile search"):
            n = None if state["n"] is None else int(state["n"])
            rounds = tuple(map(SearchRound.from_dict, state["rounds"]))
            return QuantilePosterior(Question.from_dict(state["question"]), n, state["noise"], rounds)
