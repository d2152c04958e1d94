"""The family of several values, each set against the first."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sottovoce.privacy.numbers import Floats
from sottovoce.records.facts.columns import Category
from sottovoce.records.readings.family import FARTHEST, Family

_MOST_CLASSES = 1000
"""With more classes a residual is taken to be as long as any: below, B(s·u)/s is sure to fall."""


@dataclass(frozen=True)
class MultinomialFamily(Family):
    """y is class k with probability ∝ e^{tₖ}; the first class is the one the others are compared with, t₀ = 0."""

    word: ClassVar[str] = "multinomial"
    wants: ClassVar[str] = "a category of three values or more"
    ratio: ClassVar[str | None] = "odds ratio"

    def takes(self) -> bool:
        """Say whether it is a category."""
        return isinstance(self.response, Category) and len(self.response.categories) >= 3

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return len(self.response.categories)  # type: ignore[attr-defined]

    @property
    def outputs(self) -> int:
        """One predictor for each class but the first."""
        return self.classes - 1

    def mean(self, t: Floats) -> Floats:
        """Return the probabilities of the classes but the first, from t of shape (..., classes − 1)."""
        powers = np.exp(np.clip(t, -FARTHEST, FARTHEST))
        return np.asarray(powers / (1 + powers.sum(axis=-1, keepdims=True)))

    def slope(self, t: Floats) -> Floats:
        """Return diag(p) − pp'."""
        p = self.mean(t)
        return p[..., :, None] * (np.eye(self.outputs) - p[..., None, :])

    steepest = 0.5

    def reach(self, predictors: Floats, norm: float) -> Any:
        """Return how far the predictors of any two classes can lie apart, as a matrix; the first class' is zero."""
        full = np.concatenate([np.zeros((1, predictors.shape[1])), predictors])
        return norm * np.linalg.norm(full[:, None] - full[None], axis=2) * (1 + 1e-12)

    def bound(self, reach: Any) -> float:
        r"""Return the most that ‖e_y − p‖ can be; never above √2.

        A probability pₖ = 1/Σⱼ exp(tⱼ − tₖ) lies between 1/Σⱼ exp(Rₖⱼ) and 1/Σⱼ exp(−Rₖⱼ). Of the m classes other than
        y and the first, whose probabilities add up to S at most and of which none is above u, Σp² ≤ min(uS, S², mu²).
        """
        if self.classes > _MOST_CLASSES:
            return math.sqrt(2.0) * (1 + 1e-12)
        far = np.minimum(reach, 2 * FARTHEST)
        least, most = 1 / np.exp(far).sum(axis=1), 1 / np.exp(-far).sum(axis=1)
        order = np.argsort(most[1:]) + 1
        u = np.where(np.arange(self.classes) == order[-1], most[order[-2]], most[order[-1]])
        S = 1 - least[0] - np.where(np.arange(self.classes) > 0, least, 0.0)
        m = np.where(np.arange(self.classes) > 0, self.classes - 2, self.classes - 1)
        squares = np.where(np.arange(self.classes) > 0, (1 - least) ** 2, 0.0) + np.minimum(
            np.minimum(u * S, S * S), m * u * u
        )
        return min(math.sqrt(float(squares.max())), math.sqrt(2.0)) * (1 + 1e-12)
