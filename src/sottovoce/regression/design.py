"""The public side of a regression: its loss, the number of records, the bounds each record is held to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats, whole
from sottovoce.regression.losses import Constants, Loss, positive
from sottovoce.regression.reading import column_of, fill, finite, table_of

__all__ = ["Design", "check_design", "scale_down"]

_INSIDE = 16
"""How far inside the bound a row that was too long is put, in units of the last place of the type it will have."""

_LARGEST = 1e100
"""Bounds beyond this, or below one over it, are not of this world, and their squares leave the range of doubles."""


@dataclass(frozen=True)
class Design:
    """What is known of a regression before any record is seen.

    Attributes
    ----------
    loss
        The loss of the linear predictor.
    n
        The number of records; public.
    dimension
        The number of columns, the intercept's among them.
    data_norm
        c: every row is scaled down to this Euclidean norm. The whole row counts, the intercept's column too.
    radius
        R: parameters stay in the ball ‖w‖ ≤ R. Infinite where the loss needs none.

    Examples
    --------
    >>> from sottovoce.regression.losses import Logistic, Probit
    >>> Design(Logistic(), n=1000, dimension=5, data_norm=1.0).sensitivity(data_weight=0.5)
    1.0
    >>> Design(Probit(), n=1000, dimension=5, data_norm=1.0)
    Traceback (most recent call last):
    ...
    sottovoce.privacy.errors.InvalidValue: the slope of Probit has no bound: give a finite radius for ‖w‖
    """

    loss: Loss
    n: int
    dimension: int
    data_norm: float
    radius: float = math.inf

    def __post_init__(self) -> None:
        for name in ("n", "dimension"):
            whole(name, getattr(self, name), 1)
        if not isinstance(self.loss, Loss):
            raise InvalidValue(f"loss must be a Loss. Got {self.loss!r}")
        positive("data_norm", self.data_norm, high=_LARGEST)
        positive("radius", self.radius, high=math.inf)
        if not self.data_norm >= 1 / _LARGEST:
            raise InvalidValue(f"data_norm must be >= {1 / _LARGEST:g}. Got {self.data_norm}")
        if not math.isfinite(self.constants.lipschitz * self.constants.curvature):
            raise InvalidValue(f"the slope of {self.loss.name} has no bound: give a finite radius for ‖w‖")

    @property
    def constants(self) -> Constants:
        """The constants of the loss on |w·x| ≤ R·c."""
        return self.loss.constants(self.radius * self.data_norm)

    def sensitivity(self, data_weight: float) -> float:
        """Return s = 2ρBc: how far one replaced record moves the gradient of ρΣℓ."""
        return 2 * data_weight * self.constants.lipschitz * self.data_norm

    def smoothness(self, data_weight: float, convexity: float) -> float:
        """Return M = m + ρ·n·c²·sup ℓ'', a bound over all data sets."""
        return convexity + data_weight * self.n * self.data_norm**2 * self.constants.curvature

    def rows(self, X: Any) -> Any:
        """Return X as a table of numbers of the right shape; a cell that holds none is NaN or infinite."""
        rows = table_of(X, self.dimension)
        if rows.shape != (self.n, self.dimension):
            raise InvalidData(f"X must have n = {self.n} rows of {self.dimension} columns. Got shape {rows.shape}")
        return rows

    def clipped(self, X: Any) -> Floats:
        """Return the rows in double precision, scaled down to `data_norm` where they are longer.

        A total map of each row by itself: a cell that holds no finite number counts as 0.
        """
        return self.clip(self.rows(X))

    def clip(self, rows: Any, dtype: Any = np.float64) -> Floats:
        """Return some of the rows that `rows` returned, as `clipped` does, in double precision.

        They may then be cast to `dtype`: a row is clipped where no number of it can overflow, and far enough inside
        the bound that the cast does not lead out of it.
        """
        return scale_down(fill(finite(rows), 0.0), self.data_norm, dtype)

    def responses(self, y: Any) -> Floats:
        """Return the labels in the loss's range, a total map of each label by itself.

        Of a binary loss what is not +1 counts as −1. Of the others labels are clipped, and what is no number counts as
        the label nearest to 0.
        """
        labels = column_of(y)
        if labels.shape != (self.n,):
            raise InvalidData(f"y must hold n = {self.n} labels. Got shape {labels.shape}")
        low, high = self.loss.labels
        if self.loss.binary:
            return np.where(labels == high, high, low)
        return np.clip(fill(labels, 0.0), low, high)


def check_design(design: Any) -> None:
    """Raise `InvalidValue` unless this is a design."""
    if not isinstance(design, Design):
        raise InvalidValue(f"design must be a Design. Got {type(design).__name__}")


def scale_down(rows: Floats, norm: float, dtype: Any = np.float64) -> Floats:
    """Return the rows, those longer than `norm` scaled to a few units in the last place inside it.

    The length is taken of a row whose largest entry is 1, so that no square overflows.
    """
    if math.isinf(norm):
        return rows
    limit = norm * (1 - _INSIDE * float(np.finfo(dtype).eps))
    largest = np.max(np.abs(rows), axis=1, keepdims=True, initial=0.0)
    shape = rows / np.where(largest > 0, largest, 1.0)
    length = np.sqrt(np.einsum("ij,ij->i", shape, shape))[:, None]
    scale = limit / np.where(length > 0, length, 1.0)
    return np.where((length > 0) & (largest > scale), shape * scale, rows)
