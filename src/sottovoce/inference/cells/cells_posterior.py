"""The posterior of an answer: noisy cells, and what they tell of every row once the noise is taken into account."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sottovoce.inference.cells.cell_row_draws import SEED, CellRowDraws
from sottovoce.inference.cells.intervals import FAINT, FLAT, around, central, checked_level, to_the_ends
from sottovoce.inference.cells.latent_cells import lone_counts, most_records
from sottovoce.inference.cells.mean_limits import mean_limits
from sottovoce.inference.cells.question_checks import OF_RECORDS
from sottovoce.inference.cells.questions import Question
from sottovoce.inference.cells.record_sums import total_limits, variance_limits
from sottovoce.mechanisms.integer_noise import NoiseKind
from sottovoce.mechanisms.intervals import reaching
from sottovoce.privacy.json_values import restoring
from sottovoce.privacy.numbers import Floats, Integers
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.privacy.registry import Registry
from sottovoce.records.readings.group_moments import STEPS

__all__ = ["CellsPosterior", "cells_posterior"]

_OF_VERBS = Registry(
    "posterior", {"survival": "sottovoce.inference.cells.survival_posterior:SurvivalPosterior"}, "sottovoce.posteriors"
)
"""Posteriors that tell more than rows, by the verb of the question."""

_CLOPPER_PEARSON = 30
"""Shares of fewer records than so many, of yes or of no, reach as far as Clopper and Pearson's (1934) interval that
misses twice as often, too. Of k records its lower end is about k - 1.645√k and the posterior's k + ¾ - 1.96√k, which is
farther from k = 6 on: of more than 30, where laws are less skewed, they need not be computed."""
_SINGLE = 1.5
"""A group of a noisy count below this has one record, or none: halfway to two."""
_LIMITED_TRANSLATION = 3.0
"""A pooled interval that misses α reaches as far as the group's own that misses three times α (Efron and Morris 1972,
limited translation). Of a group that lies off the others only one of the two ends may miss the truth: so at least
1 - 3α/2 are held however far it lies, 92.5 % of 95 %."""


@dataclass(frozen=True, eq=False)
class CellsPosterior(CellRowDraws):
    """Noisy cells of a question, and the posterior of its rows that knows of the noise: free post-processing.

    Attributes
    ----------
    question, n
        What was asked, of how many records; None where that is a secret, and as uncertain as all else.
    noise, scale
        The kind of noise and its size beside one record.
    cells
        The noisy counts and sums, in whole steps.
    """

    def _of_records(self, level: float) -> Floats:
        """Return intervals of totals, by what noise alone can be, and of standard deviations, by draws of variances."""
        if self.question.verb == "sd":
            drawn = self._sums(len(self.draws), seeded_rng(SEED))
            return np.asarray(self.reading.scales[0].half * np.sqrt(variance_limits(*drawn, level)))
        scale, (sums, noise) = self.reading.scales[0], self._noisy_sums
        bounds, level = (scale.middle, scale.half), checked_level(level)
        limits = total_limits(self._noisy_sizes, sums, noise, bounds, level, self.noise)
        middle = np.median(self.draws, axis=0)
        return np.clip(around(limits, np.stack([middle, middle], axis=-1)), *self.public_range)

    # What every posterior has.

    def interval(self, level: float = 0.95) -> Floats:
        """Return the interval of every row that holds `level`, with as many draws below as above, (low, high) last.

        Where noise hides a row, it goes to the ends of what the row may be.
        """
        if self.question.verb in OF_RECORDS:
            return self._of_records(level)
        if self.reading.crossed and not self.question.pool:
            return np.clip(self._noisy_ratio.interval(checked_level(level)), *self.public_range)
        flat = FAINT if self.question.verb == "quantiles" else FLAT
        ends = to_the_ends(self.draws, level, *self.public_range, flat)
        asked = self.question
        if asked.verb == "quantiles":
            (_, least, most), _, _ = self._quantiles_in_bins(len(self.draws), seeded_rng(SEED))
            return around(ends, np.stack([central(least, level)[:, 0], central(most, level)[:, 1]], axis=-1))
        if asked.pool:
            apart = 1 - _LIMITED_TRANSLATION * (1 - checked_level(level))
            return around(ends, self._unpooled.interval(apart)) if apart > 0 else ends
        if asked.verb == "proportion" and not asked.shares_of_yes:
            ends = around(ends, self._cautious(ends, level))
        elif asked.verb != "counts" and asked.exposure is None:
            ends = around(ends, self._of_one(ends, level))
            if asked.verb != "proportion" and asked.tails:
                ends = self._to_the_limits(ends, level)
        lone = asked.verb == "counts" or (asked.verb == "proportion" and asked.values > 2)
        if not lone or self.reading.cells == 1:
            return ends
        alone = to_the_ends(self._alone, level, *self.public_range)
        # Truths lie at an end of the range: none, or all.
        return np.where(alone == self.public_range, alone, reaching(ends, alone, asked.verb == "counts"))

    @cached_property
    def _unpooled(self) -> CellsPosterior:
        """The same cells as if groups had nothing to do with each other."""
        return replace(self, question=replace(self.question, pool=False))

    def _cautious(self, ends: Floats, level: float) -> Floats:
        """Return intervals of shares that miss no truth more than twice as often as they say, where records are few.

        They are those of Clopper and Pearson, at each end with the share's records in place of the prior's: with one
        record, any prior leaves out a share by which that record is still likely enough. Of many records the given ends
        lie beyond them.
        """
        twice, asked = 1 - 2 * (1 - level), self.question
        if twice <= 0:
            return ends
        rng = seeded_rng(SEED)
        counts = self._counts_of(asked.prior / asked.values, len(self.draws), rng)[:, :-1]
        counts = counts.reshape(len(counts), -1, asked.values)
        others = counts.sum(axis=2, keepdims=True) - counts
        shown = slice(None) if asked.each_value else slice(1, None)
        yes, no = (part[:, :, shown].reshape(len(part), -1) for part in (counts, others))
        few = np.minimum(yes, no).mean(axis=0) < _CLOPPER_PEARSON
        yes, no, result = yes[:, few], no[:, few], ends.copy()
        least, most = (_beta(yes + more, no + 1 - more, rng) for more in (0, 1))
        result[few, 0], result[few, 1] = central(least, twice)[:, 0], central(most, twice)[:, 1]
        return result

    def _of_one(self, ends: Floats, level: float) -> Floats:
        """Return intervals of means of one record that miss no truth more than twice as often as they say.

        One record does not tell how much records vary. By Markov's inequality one as far from a bound as k times its
        mean is, or farther, comes no oftener than once in k, whatever the law.
        """
        parts, (low, high) = self.reading.split(self.cells), self.public_range
        sizes = self.noisy_counts()[0][:-1] if self.reading.counted else np.array([self.n or 0])
        seen = (low + high) / 2 + (high - low) / 2 * np.clip(parts[self.reading.counted] / STEPS, -1, 1)
        part = 1 - level
        free = np.stack([low + part * (seen - low), high - part * (high - seen)], axis=-1)
        return np.where(sizes[:, None] < _SINGLE, free, ends)

    def _to_the_limits(self, ends: Floats, level: float) -> Floats:
        """Return intervals of means drawn out to the limits that squares set, which assume no law of the records."""
        reading, scale = self.reading, self.reading.scales[0]
        parts, noises = reading.split(self.cells)[reading.counted :], self.noises[reading.counted :]
        sizes = self._counts_of(self.question.prior / 2, len(self.draws), seeded_rng(SEED))[:, : reading.cells]
        limits = mean_limits(
            (sizes.mean(axis=0), sizes.var(axis=0)),
            (parts[0] / STEPS, parts[-1] / STEPS),
            (noises[0].variance / STEPS**2, noises[-1].variance / STEPS**2),
            checked_level(level),
            self.noise,
        )
        return around(ends, np.where(np.isnan(limits), ends, scale.middle + scale.half * limits))

    @cached_property
    def _alone(self) -> Floats:
        """Every row as its noisy count alone tells it, a share as if it were asked as yes or no.

        A composition of all draws together those that noise hides; and of many categories it takes those of which it
        has seen no record, or a few, to be the rarer the more there are.
        """
        noisy, noise, room = self.noisy_counts()
        asked = self.question
        drawn = self._counts_of(asked.prior / asked.values, len(self.draws), seeded_rng(SEED))[:, :-1]
        inside = drawn.sum(axis=1)
        total = None if room is None else (float(inside.mean()), float(inside.var()))
        most = most_records(noisy, noise) if room is None else room
        result = lone_counts(noisy[:-1], noise, most, asked.prior / 2, total, len(self.draws))
        if asked.verb == "counts":
            return result
        rng = seeded_rng(SEED)
        result = rng.permuted(result, axis=0)
        sizes = drawn.reshape(len(drawn), -1, asked.values).sum(axis=2).repeat(asked.values, axis=1)
        return _beta(result + asked.prior / 2, np.maximum(sizes - result, 0.0) + asked.prior / 2, rng)

    def summary(self) -> str:
        """Return the posterior in one line."""
        return f"{self.question.describe()}: {self.draws.shape[1]} rows, {self.noise} noise of scale {self.scale:.4g}"

    def to_dict(self) -> dict[str, object]:
        """Return the noisy cells as plain values; `from_dict` reads them back."""
        state = {"posterior": "noisy cells", "question": self.question.to_dict(), "n": self.n}
        return state | {"noise": self.noise, "scale": self.scale, "cells": self.cells.tolist()}

    @staticmethod
    def from_dict(state: Mapping[str, Any]) -> CellsPosterior:
        """Read noisy cells from `to_dict`'s form."""
        with restoring("noisy cells"):
            question = Question.from_dict(state["question"])
            cells = np.asarray(state["cells"], dtype=np.int64)
            n = None if state["n"] is None else int(state["n"])
            return cells_posterior(question, n, state["noise"], float(state["scale"]), cells)


def cells_posterior(
    question: Question, n: int | None, noise: NoiseKind, scale: float, cells: Integers
) -> CellsPosterior:
    """Return the posterior of noisy cells, of the kind that goes with the question."""
    if question.verb not in _OF_VERBS:
        return CellsPosterior(question, n, noise, scale, cells)
    kind: type[CellsPosterior] = _OF_VERBS[question.verb]
    return kind(question, n, noise, scale, cells)


def _beta(yes: Floats, no: Floats, rng: np.random.Generator) -> Floats:
    part = rng.standard_gamma(yes)
    return np.asarray(part / (part + rng.standard_gamma(no)))
