"""The public side of a regression: its loss, the number of records, the bounds each record is held to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce.glm.losses import Constants, Loss
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats, whole

__all__ = ["Design", "scale_down"]


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
    >>> from sottovoce.glm.losses import Logistic, Probit
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
            value = getattr(self, name)
            whole(name, value, 1)
        if not (self.data_norm > 0 and math.isfinite(self.data_norm)):
            raise InvalidValue(f"data_norm must be finite and > 0. Got {self.data_norm}")
        if not self.radius > 0:
            raise InvalidValue(f"radius must be > 0. Got {self.radius}")
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

    def rows(self, X: Any) -> Floats:
        """Return X as floats of the right shape, or say what is wrong with it."""
        rows = np.asarray(X)
        if rows.dtype not in (np.float32, np.float64):
            rows = _floats("X", rows)
        if rows.shape != (self.n, self.dimension):
            raise InvalidData(f"X must have n = {self.n} rows of {self.dimension} columns. Got shape {rows.shape}")
        if not np.all(np.isfinite(rows)):
            raise InvalidData("X holds a missing or infinite value; impute or drop such records first")
        return rows

    def clipped(self, X: Any) -> Floats:
        """Return the checked rows in double precision, scaled down to `data_norm` where they are longer."""
        return scale_down(np.asarray(self.rows(X), dtype=np.float64), self.data_norm)

    def responses(self, y: Any) -> Floats:
        """Return the labels: checked to be ±1 for a binary loss, clipped to the loss's range for others."""
        labels = _floats("y", np.asarray(y))
        if labels.shape != (self.n,):
            raise InvalidData(f"y must hold n = {self.n} labels. Got shape {labels.shape}")
        if not np.all(np.isfinite(labels)):
            raise InvalidData("y holds a missing or infinite value; impute or drop such records first")
        low, high = self.loss.labels
        if self.loss.binary and not np.all((labels == low) | (labels == high)):
            raise InvalidData(f"the labels of {self.loss.name} are {low:g} and {high:g}; y holds another")
        return np.clip(labels, low, high)


def scale_down(rows: Floats, norm: float) -> Floats:
    """Return the rows, those longer than `norm` scaled to a few units in the last place inside it."""
    if math.isinf(norm):
        return rows
    limit = norm * (1 - 16 * float(np.finfo(rows.dtype).eps))
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return np.asarray(rows * (limit / np.maximum(lengths, limit))[:, None])


def _floats(name: str, values: Any) -> Floats:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidData(f"{name} must hold numbers. Got dtype {np.asarray(values).dtype}") from None
