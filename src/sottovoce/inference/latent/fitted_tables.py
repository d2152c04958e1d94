"""Models fitted to count tables, noisy or true: what a network and a random field have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from sottovoce.inference.latent.count_tables import NoisyTables, OverTables
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.mechanisms.mechanism import check_draws
from sottovoce.privacy.errors import InvalidData
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import secure_rng
from sottovoce.records.readings import Statistics

__all__ = ["FittedTables"]

P = TypeVar("P")


class FittedTables(OverTables, Generic[P]):
    """A model whose posterior P follows from one set of count tables."""

    structure: ClassVar[str]
    """What its tables are made of beside fields, in words."""

    def through_blocks(self, n: int, total: Floats, noises: Sequence[IntegerNoise], rng: np.random.Generator) -> P:
        """Return the fit to noisy tables."""
        return self.fit(self.tables.through_blocks(n, total, noises, rng), rng=rng)

    def fit(
        self, data: object, *, noise_aware: bool = True, draws: int = 256, rng: np.random.Generator | None = None
    ) -> P:
        """Return posterior draws.

        Given noisy tables this is post-processing, free of cost. Given records or their `Statistics` it is **not
        private**: keep the result to yourself, or compare with it.

        Parameters
        ----------
        data
            Noisy tables, records in memory, or statistics.
        noise_aware
            Count the true tables behind noisy ones as unknown, so that intervals are honest. Otherwise noisy counts are
            taken at their word, those below zero as 0.
        draws
            How many draws.
        rng
            Secure randomness by default.
        """
        draws, rng = check_draws(draws), secure_rng() if rng is None else rng
        if not isinstance(data, NoisyTables):
            return self._from_counts(self.counts(data), None, draws, rng)
        if data.tables != self.tables:
            raise InvalidData(f"these tables were counted over other fields or {self.structure}")
        return self._aware(data, draws, rng) if noise_aware else self._from_counts(data.clipped, data.n, draws, rng)

    def counts(self, records: object) -> tuple[Any, ...]:
        """Return the true counts of each table: of records in memory, or of `Statistics`."""
        return self.tables.arrays(records if isinstance(records, Statistics) else self.tables.statistics(records))

    @abstractmethod
    def _aware(self, data: NoisyTables, draws: int, rng: np.random.Generator) -> P:
        """Return draws that count the true tables as unknown."""

    @abstractmethod
    def _from_counts(self, counts: Sequence[object], n: int | None, draws: int, rng: np.random.Generator) -> P:
        """Return draws that take counts at their word, of n records if that is known."""
