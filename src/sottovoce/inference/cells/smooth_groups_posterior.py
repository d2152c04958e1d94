"""The posterior of means of groups with ``tails="smooth"``: each group's looks for its tail, told beside each other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sottovoce.inference.cells.hidden_tails import assumption_of
from sottovoce.inference.cells.questions import Question
from sottovoce.inference.cells.row_draws import RowDraws
from sottovoce.inference.cells.smooth_mean_posterior import SmoothMeanPosterior
from sottovoce.inference.cells.tail_windows import POSITION_APART
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.errors import InvalidData
from sottovoce.privacy.json_values import mapping, restoring
from sottovoce.privacy.numbers import Floats
from sottovoce.records.readings import GroupMoments

_PARTS = ("final", "looks", "sums")
"""What a group has of its own."""


@dataclass(frozen=True, eq=False)
class SmoothGroupsPosterior(RowDraws):
    """What was released of means of groups, none of whose sizes is known, and what it tells.

    Attributes
    ----------
    question, n
        What was asked, of how many records; None where that is a secret.
    parts
        What was released of each group.
    """

    question: Question
    n: int | None
    parts: tuple[SmoothMeanPosterior, ...]

    def __post_init__(self) -> None:
        if len(self.parts) != self.question.groups.size:
            raise InvalidData(f"this question has {self.question.groups.size} groups")

    @property
    def reading(self) -> GroupMoments:
        """How the sums of the last look are laid out, without their windows."""
        return self.question.measured_between(*self.public_range)

    @property
    def public_range(self) -> tuple[float, float]:
        """The public ends of what every mean may be."""
        return self.question.value_bounds

    @property
    def looks(self) -> tuple[str, ...]:
        """The rounds of counts that were taken of any group."""
        kinds = {look.kind for part in self.parts for look in part.looks}
        return tuple(kind for kind in ("far", "even", "octaves") if kind in kinds)

    def interval(self, level: float = 0.95) -> Floats:
        """Return the interval of every mean, (low, high) last."""
        return np.concatenate([part.interval(level) for part in self.parts])

    @cached_property
    def draws(self) -> Floats:
        """Draws of every mean, (draws, groups)."""
        return np.concatenate([part.draws for part in self.parts], axis=1)

    @property
    def plain_sd(self) -> Floats:
        """About how uncertain each mean would be without noise."""
        return np.concatenate([part.plain_sd for part in self.parts])

    @property
    def assumption(self) -> str | None:
        """What was assumed of records that nobody saw, and what it may cost, in words; None where nothing was."""
        kept = [self.parts[place].hidden for place in self.question.kept]
        return assumption_of(kept)

    def noisy_counts(self) -> tuple[Floats, IntegerNoise, int | None]:
        """Return how many records each group has, and how many are in none, noisy; their noise; None, for n adds up."""
        inside = np.array([-part.sums.outside for part in self.parts if part.sums is not None], dtype=np.float64)
        scale = max((part.sums.scale for part in self.parts if part.sums is not None), default=1.0)
        noise = IntegerNoise("gaussian", scale / math.sqrt(POSITION_APART[1]))
        outside = 0.0 if self.n is None else self.n - float(inside.sum())
        return np.append(inside, outside), noise, None

    def summary(self) -> str:
        """Return the posterior in one line."""
        return f"{self.question.describe()}: {len(self.parts)} rows, {len(self.looks)} looks, then sums within windows"

    def to_dict(self) -> dict[str, object]:
        """Return all that was released as plain values; `from_dict` reads it back."""
        parts = [{name: value for name, value in part.to_dict().items() if name in _PARTS} for part in self.parts]
        return {"posterior": "smooth groups", "question": self.question.to_dict(), "n": self.n, "parts": parts}

    @staticmethod
    def from_dict(state: Mapping[str, Any]) -> SmoothGroupsPosterior:
        """Read what was released from `to_dict`'s form."""
        with restoring("means with smooth tails"):
            question = Question.from_dict(state["question"])
            n = None if state["n"] is None else int(state["n"])
            given = [mapping("group", part) for part in state["parts"]]
            parts = tuple(SmoothMeanPosterior.of_group(question, place, part) for place, part in enumerate(given))
            return SmoothGroupsPosterior(question, n, parts)
