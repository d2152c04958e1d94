"""More than two classes: the loss of a softmax, and the posterior of its coefficients."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jax
import numpy as np

from sottovoce.inference.regression.losses import Constants, Loss
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import restoring
from sottovoce.privacy.numbers import Floats, whole
from sottovoce.privacy.randomness import secure_rng


@dataclass(frozen=True)
class Softmax(Loss):
    """ℓ = −log softmax(t)_y of K predictors t, one a class; labels are the places 0 to K − 1 of the classes.

    >>> Softmax(3).labels
    (0.0, 2.0)
    """

    classes: int = 3

    def __post_init__(self) -> None:
        whole("classes", self.classes, 2)

    @property
    def labels(self) -> tuple[float, float]:
        """From the first place to the last."""
        return (0.0, float(self.classes - 1))

    @property
    def binary(self) -> bool:
        """False: labels are places."""
        return False

    def value(self, t: jax.Array, y: jax.Array) -> jax.Array:
        """Refuse: this loss is of K predictors, not of one."""
        raise InvalidValue("a softmax has one predictor for each class; only 'filtered' regressions serve it")

    def constants(self, reach: float) -> Constants:
        """Return √2, which no ‖e_y − p‖ exceeds, ½, and the spread for predictors within ±`reach`."""
        return Constants(math.sqrt(2), 0.5, 2 * reach + math.log(self.classes))


@cache
def contrasts(classes: int) -> Floats:
    """Return a K × (K − 1) matrix whose columns are orthonormal and sum to 0; of two classes it is (−1, 1)/√2.

    >>> contrasts(2).round(3).tolist()
    [[-0.707], [0.707]]
    """
    # Helmert's: the j-th column sets class j + 1 against those before it.
    result = np.zeros((classes, classes - 1))
    for j in range(classes - 1):
        result[: j + 1, j] = -1.0
        result[j + 1, j] = j + 1.0
        result[:, j] /= math.sqrt((j + 1.0) * (j + 2.0))
    result.flags.writeable = False
    return result


def softmax(predictors: Floats, axis: int = -1) -> Floats:
    """Return the probabilities of the classes, along the last axis unless another is given."""
    shifted = np.exp(predictors - predictors.max(axis=axis, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=axis, keepdims=True))


@dataclass(frozen=True, eq=False)
class SoftmaxPosterior:
    """Gaussian coefficients of K classes: `mean` is K × d, and all contrasts of classes share one d × d `covariance`.

    A draw is mean + Q·G·L′ with QQ′ = I − 11′/K, LL′ = covariance and G standard normal: the coefficients of a class
    mean something beside those of the others only.

    >>> posterior = SoftmaxPosterior(np.zeros((3, 2)), np.eye(2))
    >>> posterior.sample(5).shape, posterior.sd.round(3).tolist()[0]
    ((5, 3, 2), [0.816, 0.816])
    """

    mean: Floats
    covariance: Floats
    no_intervals: str | None = None
    """Why `interval` is refused."""

    @property
    def sd(self) -> Floats:
        """The standard deviation of each coefficient."""
        classes = len(self.mean)
        item = np.sqrt(np.diag(self.covariance) * (1 - 1 / classes))
        return np.broadcast_to(item, self.mean.shape).copy()

    def interval(self, level: float = 0.95) -> Floats:
        """Refuse: the spread is for predictions."""
        del level
        raise InvalidValue(f"no interval is offered: {self.no_intervals}")

    def sample(self, draws: int, rng: np.random.Generator | None = None) -> Floats:
        """Return `draws` tables of coefficients, draws × K × d."""
        generator = secure_rng() if rng is None else rng
        classes, d = self.mean.shape
        values, vectors = np.linalg.eigh(self.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        normal = generator.standard_normal((draws, classes - 1, d))
        return np.asarray(self.mean + contrasts(classes) @ normal @ root.T)

    def summary(self) -> str:
        """Return the posterior in one line."""
        return f"Gaussian posterior of {len(self.mean)} classes' coefficients of {self.mean.shape[1]} terms"

    def mapped(self, matrix: Floats, shift: Floats | float = 0.0) -> SoftmaxPosterior:
        """Return the posterior of Aw for a public matrix A; a shift common to all classes changes nothing."""
        del shift
        return replace(self, mean=self.mean @ matrix.T, covariance=matrix @ self.covariance @ matrix.T)

    def to_dict(self) -> dict[str, Any]:
        """Return the posterior as plain values."""
        plain = {"posterior": "softmax", "mean": self.mean.tolist(), "covariance": self.covariance.tolist()}
        return plain | {"no_intervals": self.no_intervals}

    @staticmethod
    def from_dict(state: Mapping[str, Any]) -> SoftmaxPosterior:
        """Read a posterior from `to_dict`'s form."""
        with restoring("a softmax posterior"):
            mean, covariance = (np.asarray(state[name], dtype=np.float64) for name in ("mean", "covariance"))
            d = mean.shape[1]
            return SoftmaxPosterior(mean, covariance.reshape(d, d), state.get("no_intervals"))
