"""What a look at the score needs of a family: residuals of a public bound, and how curved the loss is there."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy import special

from sottovoce.inference.regression.losses import Logistic, Loss, Probit, Squared
from sottovoce.inference.regression.softmax import Softmax, contrasts, softmax
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import seeded_rng

_POINTS = 256
_WIDE = 1.2
"""Residuals are held to this many of their standard deviations."""


def turned(matrix: Floats) -> Floats:
    """Return a matrix, or each of several, with rows for columns."""
    return np.swapaxes(matrix, -1, -2)


class ScoreFamily(ABC):
    """A residual for each record, of `width` numbers, and what it says of the parameters.

    Numbers of several releases come first in every array, before records and contrasts.
    """

    width: int
    curvature: float
    """How much of x·x′ the information at 0 is."""
    square: float
    """How much a residual's square weighs beside it in a look, at most 1; 0 for none."""

    @property
    @abstractmethod
    def bound(self) -> float:
        """The largest norm of a residual at 0."""

    @abstractmethod
    def residuals(self, predictors: Floats, y: Floats, bound: Any, *, consistent: bool) -> Floats:
        """Return residuals of norm at most `bound`, n × width."""

    @abstractmethod
    def factor(self, centre: Floats, variance: Any, *, consistent: bool) -> Any:
        """Return the curvature, beside that at 0, where predictors are N(centre, variance) over the records."""


@dataclass(frozen=True)
class Classes(ScoreFamily):
    """K classes in orthonormal contrasts Q of their predictors: the residual is Q′(e_y − p), the curvature at 0 I/K."""

    classes: int = 2
    square = 0.0

    @property
    def width(self) -> int:  # type: ignore[override]
        """K − 1 contrasts."""
        return self.classes - 1

    @property
    def curvature(self) -> float:  # type: ignore[override]
        """1/K."""
        return 1 / self.classes

    @property
    def bound(self) -> float:
        """√(1 − 1/K): every ‖e_y − p‖ at p = 1/K."""
        return math.sqrt(1 - 1 / self.classes)

    def residuals(self, predictors: Floats, y: Floats, bound: Any, *, consistent: bool) -> Floats:
        """Return residuals shortened to the bound; or weighed by what the predictors say alone, which leaves no bias.

        The largest ‖e_y − p‖ of a record is that of its least likely class, so that weighing by it needs no label.
        """
        Q = contrasts(self.classes)
        # A row a class: there are few of them, and sums of whole rows are quicker than rows of short sums.
        p = softmax(Q @ turned(predictors), axis=-2)
        remaining = -p
        remaining[..., y.astype(np.intp), np.arange(y.size)] += 1.0
        longest = np.sqrt(1 - 2 * p.min(axis=-2) + _squares(p) if consistent else _squares(remaining))
        return np.asarray(turned(remaining * np.minimum(1.0, bound / np.maximum(longest, 1e-12)[..., None, :])) @ Q)

    def factor(self, centre: Floats, variance: Any, *, consistent: bool) -> Any:
        """Return E[K·tr(Q′(diag p − pp′)Q)/(K−1)] of what is left of the residuals."""
        Q = contrasts(self.classes)
        p = softmax(Q @ _spread(centre, variance), axis=-2)
        squares = _squares(p)
        curved = self.classes / self.width * (1 - squares)
        if consistent:
            kept = np.minimum(1.0, self.bound / np.sqrt(1 - 2 * p.min(axis=-2) + squares))
        else:
            # A shortened residual does not move: only those of likely classes do.
            lengths = np.sqrt(np.maximum(1 - 2 * p + squares[..., None, :], 0.0))
            kept = np.sum(p * (lengths <= self.bound * (1 + 1e-9)), axis=-2)
        return np.maximum(np.mean(curved * kept, axis=-1), 1e-3)


@dataclass(frozen=True)
class Probits(ScoreFamily):
    """Two classes by the normal law: the residual is y − Φ(t), whose mean is zero at the truth as the score's is."""

    width = 1
    curvature = 1 / math.sqrt(2 * math.pi)
    square = 0.0

    @property
    def bound(self) -> float:
        """One half: |y − ½|."""
        return 0.5

    def residuals(self, predictors: Floats, y: Floats, bound: Any, *, consistent: bool) -> Floats:
        """Return residuals shortened to the bound; or weighed by that of the less likely class: no label is needed."""
        p = special.ndtr(predictors)
        remaining = y[:, None] - p
        longest = np.maximum(p, 1 - p) if consistent else np.abs(remaining)
        return np.asarray(remaining * np.minimum(1.0, bound / np.maximum(longest, 1e-12)))

    def factor(self, centre: Floats, variance: Any, *, consistent: bool) -> Any:
        """Return E[φ(t)/φ(0)] of what is left of the residuals; shortened ones do not move."""
        t = _spread(centre, variance)
        likely = special.ndtr(np.abs(t))
        kept = self.bound / likely if consistent else likely
        return np.maximum(np.mean(np.exp(-t * t / 2) * kept, axis=(-2, -1)), 1e-3)


@dataclass(frozen=True)
class Line(ScoreFamily):
    """A bounded response: the residual is y − t, and its square tells how wide the rest may be held."""

    largest: float = 1.0
    width = 1
    curvature = 1.0
    square = 1.0

    @property
    def bound(self) -> float:
        """What the first residuals are held to: `_WIDE` times their guessed standard deviation."""
        return float(self.held(self.guess))

    @property
    def guess(self) -> float:
        """The residuals' variance as long as nothing is known: an sd of a quarter of the largest response."""
        return (0.25 * self.largest) ** 2

    def held(self, variance: Any) -> Any:
        """Return what residuals of this variance are held to."""
        return np.minimum(self.largest, _WIDE * np.sqrt(variance))

    def residuals(self, predictors: Floats, y: Floats, bound: Any, *, consistent: bool) -> Floats:
        """Return y − t held to the bound."""
        del consistent
        return np.clip(y[:, None] - predictors, -bound, bound)

    def factor(self, centre: Floats, variance: Any, *, consistent: bool) -> Any:
        """Return the part of the residuals that is not held, about .8."""
        del centre, variance, consistent
        return 0.8


def _squares(columns: Floats) -> Floats:
    """Return the sum of the squares of each column."""
    return np.asarray(np.einsum("...kn,...kn->...n", columns, columns))


def _spread(centre: Floats, variance: Any) -> Floats:
    """Return points of N(centre, variance), a column each."""
    return np.asarray(
        centre[..., None] + np.sqrt(np.maximum(variance, 0.0))[..., None, None] * _normals(centre.shape[-1])
    )


@cache
def _normals(width: int) -> Floats:
    """Return the points, a column each, by which expectations over the records are taken: always the same."""
    points = seeded_rng(16).standard_normal((_POINTS // 2, width))
    points = np.concatenate([points, -points])
    return np.ascontiguousarray((points / np.sqrt(np.mean(points * points, axis=0))).T)


def family_of(loss: Loss) -> ScoreFamily | None:
    """Return the family of a loss, or None where there is none."""
    if isinstance(loss, Logistic):
        return Classes(2)
    if isinstance(loss, Softmax):
        return Classes(loss.classes)
    if isinstance(loss, Probit):
        return Probits()
    return Line(loss.largest) if isinstance(loss, Squared) else None
