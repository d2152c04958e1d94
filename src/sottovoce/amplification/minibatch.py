r"""Noisy SGD and Langevin dynamics on random minibatches, charged step by step.

w ← Π(w − η((1/m)Σ_{i∈B} ∇ℓ(w; x_i, y_i) + ρw + σξ)), where B is a fresh, secret part of m of the n records. One record
replaced moves the mean gradient of a part that holds it by at most 2Bc/m, so a step is Gaussian noise of
μ = 2Bc/(mσ) after subsampling at the rate m/n, and T steps are T of those, composed exactly. No step waits for
convergence, and nothing is hoped for from later steps: the whole path may be published.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.compiling import compiled
from sottovoce.mechanisms.grid import to_grid
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.numbers import Floats, ceil_float, real, whole
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.subsampled import SubsampledProfile
from sottovoce.readings import Rows
from sottovoce.regression.design import Design, check_design
from sottovoce.regression.losses import Logistic, Loss, positive
from sottovoce.regression.posterior import RegressionMechanism

__all__ = ["MinibatchSGD"]

_MOST_STEPS = 10**6


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
    choices: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
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

    @property
    def mu(self) -> float:
        """μ of a step whose part holds the record."""
        return self.design.sensitivity(1.0) / (self.batch * self.noise) * (1 + 1e-15)

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
        numbers = {
            "step": float(self.learning_rate),
            "noise": float(self.noise),
            "pull": float(self.regularisation),
            "steepest": self.design.constants.lipschitz,
            "radius": self.design.radius,
        }
        with jax.enable_x64(True):
            X, y = jax.device_put((seen.X, seen.y))
            ends = [self._run(X, y, numbers, rng) for _ in range(draws)]
        return to_grid(np.array(ends), self.learning_rate * self.noise)

    def _outputs(self, seen: Rows, rng: np.random.Generator, draws: int) -> Floats:
        """Return what so many independent releases let out, a row each: runs one by one, so no more than are asked."""
        return self._value(seen, rng, draws)

    def _run(self, X: jax.Array, y: jax.Array, numbers: dict[str, float], rng: np.random.Generator) -> Floats:
        d = self.design.dimension
        # Bounded whole numbers are drawn by rejection: every part is as likely, and which one was drawn stays here.
        parts = np.array([rng.permutation(self.n)[: self.batch] for _ in range(self.steps)])
        noise = rng.standard_normal((self.steps, d))
        run = compiled(_steps, self.steps * self.batch * d)
        return np.asarray(run(self.design.loss, X, y, numbers, parts, noise))

    def _parameters(self) -> dict[str, Any]:
        return {
            "noise": float(self.noise),
            "batch": int(self.batch),
            "steps": int(self.steps),
            "learning_rate": float(self.learning_rate),
            "regularisation": float(self.regularisation),
        }


def _composed(mu: float, batch: int, n: int, steps: int) -> Profile:
    one = GaussianProfile(mu)
    rate = ceil_float(Fraction(batch, n))
    return steps * (one if rate >= 1 else SubsampledProfile(one, rate))


def _steps(
    loss: Loss, X: jax.Array, y: jax.Array, n: dict[str, jax.Array], parts: jax.Array, noise: jax.Array
) -> jax.Array:
    """Take one step for each part."""

    def body(w: jax.Array, now: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        part, kick = now
        rows = X[part]
        mean = loss.gradients(rows, y[part], w[None], n["steepest"])[0] / part.shape[0]
        w = w - n["step"] * (mean + n["pull"] * w + n["noise"] * kick)
        norm = jnp.sqrt(jnp.sum(w * w))
        return jnp.where(norm > n["radius"], w * (n["radius"] / norm), w), None

    end, _ = jax.lax.scan(body, jnp.zeros(X.shape[1]), (parts, noise))
    return end
