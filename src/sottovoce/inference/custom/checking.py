"""Posterior predictive checks that know of the noise: whether the model would make noisy counts like these."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sottovoce.inference.custom.observation import Observed
from sottovoce.privacy.numbers import Floats


@dataclass(frozen=True, eq=False)
class PredictiveCheck:
    """How the noisy counts compare with those that the model predicts.

    Attributes
    ----------
    p
        How often predicted counts are at least as far from what the model expects as the noisy ones: all cells
        together. Small values speak against the model.
    worst
        The same of the one cell that is farthest off, beside the farthest of each prediction.
    cells
        For each cell the share of predictions below its noisy count (half of those at it).
    """

    p: float
    worst: float
    cells: Floats = field(repr=False)

    @property
    def passed(self) -> bool:
        """Whether neither is below 1 %."""
        return min(self.p, self.worst) >= 0.01

    def __repr__(self) -> str:
        word = "as the model predicts" if self.passed else "NOT as the model predicts"
        return f"the noisy counts are {word}: p = {self.p:.3f} over all cells, {self.worst:.3f} at the worst"


def predictive_check(shares: Floats, seen: Observed, rng: np.random.Generator) -> PredictiveCheck:
    """Return the check of draws of all probabilities, (draws, cells), against what was observed.

    The discrepancy of a table is Σ (ñ - nπ)²/(nπ(1 - π) + σ²); that of the noisy counts and that of a prediction are
    compared under the same draw of π (Gelman, Meng and Stern 1996). One cell's is its root.
    """
    pi = np.clip(shares, 0.0, 1.0)
    pi = pi / pi.sum(axis=1, keepdims=True)
    built = rng.multinomial(seen.n, pi)
    built = built + seen.law.add(np.zeros(built.size, dtype=np.int64), rng).reshape(built.shape)
    spread = seen.n * pi * (1 - pi) + seen.law.variance
    ours, theirs = (seen.all - seen.n * pi) ** 2 / spread, (built - seen.n * pi) ** 2 / spread
    below = (built < seen.all).mean(axis=0) + 0.5 * (built == seen.all).mean(axis=0)
    together = float(np.mean(theirs.sum(axis=1) >= ours.sum(axis=1)))
    return PredictiveCheck(together, float(np.mean(theirs.max(axis=1) >= ours.max(axis=1))), below[: seen.size])
