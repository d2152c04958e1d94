r"""Noisy SGD and Langevin dynamics on random minibatches, charged step by step.

w ← Π(w − η((1/m)Σ_{i∈B} ∇ℓ(w; x_i, y_i) + ρw + σξ)), where B is a fresh, secret part of m of the n records. One record
replaced moves the mean gradient of a part that holds it by at most 2Bc/m, so a step is Gaussian noise of
μ = 2Bc/(mσ) after subsampling at the rate m/n, and T steps are T of those, composed exactly. No step waits for
convergence, and nothing is hoped for from later steps: the whole path may be published.

The noise goes onto the mean gradient, exactly rounded, before anything else is done with it: the step is then a
function of what is told, in floating point as in real numbers. That the gradients of all other records are the same
doubles in both data sets is what a device must keep to: a row's products do not depend on the other rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Self

import jax
import numpy as np

from sottovoce.inference.regression.design import Design, check_design
from sottovoce.inference.regression.losses import Logistic, Loss, positive
from sottovoce.inference.regression.posterior import RegressionMechanism
from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.exact_normals import exact_normals, noise_cells
from sottovoce.mechanisms.grid import to_grid
from sottovoce.mechanisms.jax_compilation import compiled
from sottovoce.mechanisms.mechanism import Choices
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.numbers import Floats, ceil_float, real, whole
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.subsampled import SubsampledProfile
from sottovoce.records.readings import Rows

_MOST_STEPS = 10**6
_TOGETHER = 1 << 20
"""How many numbers the parts of runs that are made side by side may hold."""
_FARTHEST = 1e100
"""Without a ball a run may go as far as this in every coordinate: no product with a row leaves the range of doubles."""


@dataclass(frozen=True, eq=False)
class MinibatchSGD(RegressionMechanism):
    r"""Release the last iterate of noisy SGD on minibatches drawn without replacement.

    .. math:: \text{cost} = T \times \mathrm{subsampled}\Big(\mu = \frac{2Bc}{m\sigma},\; q = \frac{m}{n}\Big)

    Attributes
    ----------
    system, n
        Loss, dimension, bound on the rows and the radius of the ball the parameters stay in; the number of records.
    noise
        σ, the standard deviation added to each mean gradient.
    batch
        m, how many records a step sees.
    steps
        T.
    learning_rate, regularisation
        η > 0 and ρ ≥ 0; privacy does not depend on them.

    Examples
    --------
    >>> design = Design(Logistic(), dimension=2, data_norm=1.0)
    >>> sgd = MinibatchSGD(design, 10_000, noise=0.05, batch=100, steps=500)
    >>> round(sgd.profile.epsilon(1e-6), 2)
    0.43
    """

    word: ClassVar[str] = "minibatch SGD"
    any_loss: ClassVar[bool] = True
    choices: ClassVar[Choices] = {}
    noise: float
    batch: int
    steps: int
    learning_rate: float = 0.5
    regularisation: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("noise", self.noise)
        positive("learning_rate", self.learning_rate)
        object.__setattr__(self, "regularisation", real("regularisation", self.regularisation))
        whole("batch", self.batch, 1, self.n)
        whole("steps", self.steps, 1, _MOST_STEPS)
        noise_cells(self.noise)  # noise that cannot be drawn exactly is refused here

    @property
    def mu(self) -> float:
        """μ of a step whose part holds the record, with what adding up m gradients in doubles may lose in either data
        set, and holding one to its length.
        """
        lost = (self.batch + self.design.dimension + 8) * 2.0**-53
        rounding = self.batch * lost / (1 - lost)
        return self.design.sensitivity(1.0) / (self.batch * self.noise) * (1 + rounding) * (1 + 1e-15)

    @cached_property
    def profile(self) -> Profile:
        """What all the steps cost, whether the path is shown or its end alone."""
        return _composed(self.mu, self.batch, self.n, self.steps)

    @classmethod
    def calibrate(
        cls,
        design: Design,
        n: int,
        target: Promise,
        *,
        batch: int | None = None,
        steps: int = 200,
        learning_rate: float = 0.5,
        regularisation: float = 0.0,
    ) -> Self:
        """Return the mechanism with the least noise that keeps `target`; minibatches of √n records unless given."""
        check_design(design)
        size = max(1, math.isqrt(n)) if batch is None else batch
        unit = cls(design, n, 1.0, size, steps, learning_rate, regularisation)
        mu = largest_keeping(lambda x: _composed(x, size, n, steps), target, high=50.0, low=1e-9, name="mu")
        return replace(unit, noise=unit.mu / mu * (1 + 1e-12))

    @classmethod
    def langevin(cls, design: Design, n: int, *, step: float, precision: float, batch: int, steps: int) -> Self:
        r"""Return stochastic gradient Langevin dynamics of the potential Σℓ + (precision/2)‖w‖² (Welling and Teh 2011).

        w − h((n/m)Σ_{i∈B}∇ℓ + precision·w) + √(2h)ξ is this mechanism with η = hn, ρ = precision/n and σ = √(2/h)/n.

        >>> design = Design(Logistic(), dimension=2, data_norm=1.0)
        >>> MinibatchSGD.langevin(design, 1000, step=1e-4, precision=1.0, batch=50, steps=100).noise.__round__(4)
        0.1414
        """
        h = real("step", step, above=0.0)
        return cls(design, n, math.sqrt(2 / h) / n, batch, steps, h * n, real("precision", precision) / n)

    @classmethod
    def example(cls) -> Self:
        """Return six steps on two of four records each."""
        return cls(Design(Logistic(), dimension=2, data_norm=1.0), 4, noise=1.0, batch=2, steps=6)

    def _value(self, seen: Rows, rng: np.random.Generator, draws: int) -> Floats:
        """Return the last iterates of independent runs, one row each, rounded to a grid fine beside the last noise."""
        seen = self.design.reading.check(seen)
        lot = max(1, _TOGETHER // (self.batch * self.design.dimension))
        with jax.enable_x64(True):
            X, y = jax.device_put((seen.X, seen.y))
            ends = [self._run(X, y, min(lot, draws - first), rng) for first in range(0, draws, lot)]
        return to_grid(np.concatenate(ends), self.learning_rate * self.noise)

    def _outputs(self, seen: Rows, rng: np.random.Generator, draws: int) -> Floats:
        """Return what so many independent releases let out, a row each."""
        return self._value(seen, rng, draws)

    def _run(self, X: jax.Array, y: jax.Array, runs: int, rng: np.random.Generator) -> Floats:
        """Return the ends of so many runs, side by side.

        A mean gradient meets the records, and leaves with noise that is exactly rounded: whatever floating point does
        to the step that is then taken, it does to what may be known.
        """
        mean = compiled(_means, runs * self.batch * self.design.dimension)
        w = np.zeros((runs, self.design.dimension))
        for _ in range(self.steps):
            # Bounded whole numbers are drawn by rejection: every part is as likely, and which one was drawn stays here.
            parts = np.array([rng.choice(self.n, self.batch, replace=False) for _ in range(runs)], dtype=np.int64)
            shown = mean(self.design.loss, X, y, parts, w, self.design.constants.lipschitz)
            w = self._moved(w, exact_normals(np.asarray(shown), self.noise, rng))
        return w

    def _moved(self, w: Floats, gradient: Floats) -> Floats:
        """Take a step, and stay within the ball; where there is none, within what a double can hold the squares of."""
        with np.errstate(over="ignore", invalid="ignore"):
            w = np.clip(w - self.learning_rate * (gradient + self.regularisation * w), -_FARTHEST, _FARTHEST)
            norm = np.sqrt((w * w).sum(axis=1, keepdims=True))
            return np.where(norm > self.design.radius, w * (self.design.radius / norm), w)


def _composed(mu: float, batch: int, n: int, steps: int) -> Profile:
    item = GaussianProfile(mu)
    rate = ceil_float(Fraction(batch, n))
    return steps * (item if rate >= 1 else SubsampledProfile(item, rate))


def _means(loss: Loss, X: jax.Array, y: jax.Array, parts: jax.Array, w: jax.Array, steepest: jax.Array) -> jax.Array:
    """Return the mean gradient of each run's part at where the run is."""

    def mean(part: jax.Array, here: jax.Array) -> jax.Array:
        return loss.gradients(X[part], y[part], here[None], steepest)[0] / part.shape[0]

    return jax.vmap(mean)(parts, w)
