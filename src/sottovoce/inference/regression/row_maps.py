r"""Linear maps of the rows, learnt privately, that leave less for noise to hide.

The cost of a sample grows with the norm of the rows, but only their differences carry information. Rows that
share one large direction (an intercept, pixels that are black almost everywhere) waste most of their norm on it.
`Flattening` spends a little privacy to find that direction and shrink it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce.inference.regression.design import Design, check_design
from sottovoce.inference.regression.losses import positive
from sottovoce.inference.regression.sums import Sum, steps_in_one
from sottovoce.inference.regression.unit_rows import mean_row
from sottovoce.mechanisms.exact_normals import exact_normals
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.profile import Basis
from sottovoce.records.readings import Rows
from sottovoce.records.readings.design_rows import scale_down

_ROOM = 1.1
"""Rows up to this multiple of their private root-mean-square norm are left unclipped."""


@dataclass(frozen=True, eq=False)
class RowMap:
    """z = clip(T'x, limit)/limit: rows of norm at most 1; a parameter u of z is w = Tu/limit of x.

    It is made of public numbers and private releases only, and touches each row alone: neighbours stay neighbours.
    Several maps lie along axes that come first; each maps a table of its own, or all the same one.
    """

    matrix: Floats
    limit: Floats

    @property
    def _each(self) -> Floats:
        return self.limit[..., None, None]

    def rows(self, X: Floats) -> Floats:
        """Return the mapped rows."""
        return scale_down(X @ (self.matrix / self._each), 1.0)

    def parameters(self, U: Floats) -> Floats:
        """Return the parameters of the rows before the map, one row each."""
        return np.asarray(U @ self.matrix.mT / self._each)

    def inverse(self, W: Floats) -> Floats:
        """Return the parameters of the mapped rows that do as W does, one row each."""
        turned = np.linalg.solve(self.matrix, W.mT)
        return np.asarray(turned.mT * self._each)


@dataclass(frozen=True)
class Flattening:
    """Find the mean direction of the rows with Gaussian noise and shrink it: the mean row of `mean_row`."""

    design: Design
    mu: float
    keep: float = 0.3
    """How long the mean is to be afterwards, beside the root-mean-square distance of the rows from it."""

    def __post_init__(self) -> None:
        check_design(self.design)
        positive("mu", self.mu)
        positive("keep", self.keep)

    @property
    def profile(self) -> GaussianProfile:
        """What the map costs."""
        return GaussianProfile(self.mu, basis=Basis.BOUND)

    def asked(self, n: int) -> Sum:
        """Return the sum that is asked of n rows, in units of `data_norm`."""
        return mean_row(self.design.dimension, steps_in_one(n), self.mu)

    def noise(self, n: int) -> float:
        """Return the standard deviation of the noise: 2c/μ, and what rounding each record may add to 2c."""
        return float(self.asked(n).reach[0]) / steps_in_one(n) ** 2 * self.design.data_norm / self.mu

    def learn(self, X: Any, rng: np.random.Generator, shape: tuple[int, ...] = ()) -> RowMap:
        """Return the map, or maps of this shape, for rows that will be clipped to the design's `data_norm` first."""
        rows = self.design.clip(self.design.rows(X)) / self.design.data_norm
        c, (n, d) = self.design.data_norm, rows.shape
        question = self.asked(n)
        exact, noise = question.of(Rows(n, rows, np.zeros(n))), question.reach[0] / self.mu
        mean = exact_normals(np.broadcast_to(exact, (*shape, d + 1)), noise, rng) / (steps_in_one(n) ** 2 * n) * c
        matrix, size, _ = flat_by(mean[..., :d], mean[..., d] * c, d * (self.noise(n) / n) ** 2, c, self.keep)
        return RowMap(matrix, _ROOM * size)


def flat_by(mean: Floats, mean_square: Any, blur: float, c: float, keep: float) -> tuple[Floats, Any, Any]:
    """Return the matrix that shrinks a noisy mean of rows, the length of a row after it, and what of it is no noise.

    `mean_square` is that of the rows' norms, c their bound, and `blur` the expected square of the noise in `mean`. Of
    several means, a row each, there are as many of all three.
    """
    length = np.maximum(np.sum(mean * mean, axis=-1), 1e-300)
    true_length = np.maximum(length - blur, 0.0)
    # Noise tilts the direction: a part blur/length of the mean escapes the shrinking and stays in the rows.
    spread = np.maximum(mean_square - true_length, 0.01 * c * c) + true_length * blur / length
    shrink = np.minimum(1.0, keep * np.sqrt(spread / np.maximum(true_length, 1e-12 * c * c)))
    direction = mean / np.sqrt(length)[..., None]
    shrunk = (1 - shrink)[..., None, None] * (direction[..., :, None] * direction[..., None, :])
    return np.eye(mean.shape[-1]) - shrunk, np.sqrt(spread + shrink**2 * true_length), true_length / length


def shape_by(covariance: Floats, gram: Floats, n: int) -> RowMap:
    """Return the map under which N(mean, covariance) is round: wide where the statistics know little.

    The norm of the mapped rows is judged from the noisy X'X, `gram`, which has been paid for.
    """
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, 1e-12 * values[..., -1:])
    known = np.maximum(np.linalg.eigvalsh(gram), 0.0)
    # Both share their eigenvectors; the covariance falls as the eigenvalue of X'X rises.
    mean_square = np.maximum(np.sum(known * values[..., ::-1], axis=-1) / n, 1e-9 * values[..., -1])
    return RowMap(vectors * np.sqrt(values)[..., None, :], _ROOM * np.sqrt(mean_square))
