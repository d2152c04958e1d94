"""Posteriors that are draws of the rows of an answer: what all of them have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from sottovoce.privacy.numbers import Floats, whole


class RowDraws(ABC):
    """A posterior of rows, known by joint draws of them; two are equal where the same was released."""

    @property
    @abstractmethod
    def draws(self) -> Floats:
        """Joint draws of every row of the answer, (draws, rows)."""

    @property
    def mean(self) -> Floats:
        """The posterior mean of every row."""
        return np.asarray(self.draws.mean(axis=0))

    @property
    def sd(self) -> Floats:
        """The posterior standard deviation of every row."""
        return np.asarray(self.draws.std(axis=0))

    def sample(self, draws: int = 1, rng: np.random.Generator | None = None) -> Floats:
        """Return draws of every row, (draws, rows)."""
        rng = np.random.default_rng() if rng is None else rng
        return self.draws[rng.integers(0, len(self.draws), whole("draws", draws))]

    @abstractmethod
    def to_dict(self) -> dict[str, object]:
        """Return all that was released as plain values."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowDraws) and type(other) is type(self) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]
