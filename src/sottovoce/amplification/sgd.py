r"""Noisy projected SGD: one pass over the records, each hidden by the noise of its own step and of all later ones.

w ← Π(w − η(∇ℓ(w; x_i, y_i) + ρw + σξ)), one record a step in a fixed order, from w = 0. Only the last iterate is
shown. For losses that are B-Lipschitz in the predictor and rows of norm ≤ c, replacing record i pushes two runs at
most 2ηBc apart at step i; the later steps are (1−ηρ)-contractions for η ≤ 2/(β+ρ), where β = ρ + c²·sup ℓ''.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from sottovoce.amplification.iteration import cyclic_mu, iteration_profile, thesis_mu
from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.grid import to_grid
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.numbers import Floats, whole
from sottovoce.privacy.promises import Promise
from sottovoce.readings import Rows
from sottovoce.regression.design import Design, check_design
from sottovoce.regression.losses import Logistic, Loss, held, positive
from sottovoce.regression.posterior import RegressionMechanism
from sottovoce.systems.naming import system_from

__all__ = ["NoisyProjectedSGD"]

_BLOCK = 1 << 20
"""Normal draws made on the host at a time."""

_LEAST_NOISE = 1e-6
"""Calibration never goes below this share of the sensitivity: nearer to rounding errors floats are no real numbers."""


@dataclass(frozen=True, eq=False)
class NoisyProjectedSGD(RegressionMechanism):
    r"""Noisy projected SGD with a guarantee for each record by its place (Geumlek 2020, Algorithm 5 and Theorem 22).

    A record with J steps after its own costs, in one pass and with L = 1 − ηρ,

    .. math:: \mu^2 = (2Bc/\sigma)^2\,\frac{L^{2J}(1-L^2)}{1-L^{2(J+1)}}

    Attributes
    ----------
    system, n
        Loss, dimension, bound on the rows, and the radius of the ball the parameters stay in, infinite for none; the
        number of records. They are taken in the order in which they are read, which must not depend on what is secret.
    noise
        σ, the standard deviation added to each gradient.
    learning_rate
        η ≤ 2/(β+ρ); 1/β where None.
    regularisation
        ρ ≥ 0, the strong convexity. With ρ = 0 the steps do not contract, and only the noise amplifies.
    epochs
        How many times the records are passed over, always in the same order.
    public_steps
        Steps on public records after the private ones; they hide the last private records too.
    box
        Project onto |w_j| ≤ box instead of a ball; the design's radius must cover it: radius ≥ box·√dimension.
    public
        The records of the public steps, taken in turn. They are shown with the mechanism: public is public.

    Examples
    --------
    >>> from sottovoce.regression.losses import Logistic
    >>> design = Design(Logistic(), dimension=2, data_norm=1.0)
    >>> sgd = NoisyProjectedSGD(design, 1000, noise=4.0, learning_rate=0.5, regularisation=0.1)
    >>> [round(float(mu), 4) for mu in sgd.mu_at([1000, 999, 990, 900])]
    [0.5, 0.3444, 0.1137, 0.0009]
    """

    word: ClassVar[str] = "noisy projected SGD"
    choices: ClassVar[Mapping[str, Mapping[str, Any]]] = {"sgd": {}}
    noise: float
    learning_rate: float | None = None
    regularisation: float = 0.1
    epochs: int = 1
    public_steps: int = 0
    box: float | None = None
    public: Rows | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("noise", self.noise)
        if not (self.regularisation >= 0 and math.isfinite(self.regularisation)):
            raise InvalidValue(f"regularisation must be finite and >= 0. Got {self.regularisation}")
        for name, least in (("epochs", 1), ("public_steps", 0)):
            value = getattr(self, name)
            whole(name, value, least)
        longest = 2 / (self.smoothness + self.regularisation)
        if not 0 < self.step <= longest:
            raise InvalidValue(
                f"learning_rate must lie in (0, 2/(β+ρ)] = (0, {longest:.6g}]: beyond it a step may push two runs "
                f"apart and later steps hide nothing. Got {self.learning_rate}"
            )
        if self.box is not None:
            positive("box", self.box)
            if self.design.radius < self.box * math.sqrt(self.design.dimension) * (1 - 1e-12):
                raise InvalidValue(
                    f"the box |w_j| <= {self.box} leaves the ball of radius {self.design.radius} on which the loss is "
                    "bounded: give the design a radius >= box·√dimension"
                )
        if self.public is not None:
            if not self.public_steps:
                raise InvalidValue("public records are used by public steps only; set public_steps")
            if self.public.n < 1:
                raise InvalidData("the public records are none")

    @property
    def smoothness(self) -> float:
        """β = ρ + c²·sup ℓ'', of any one record's regularised loss."""
        return self.regularisation + self.design.data_norm**2 * self.design.constants.curvature

    @property
    def step(self) -> float:
        """η."""
        return 1 / self.smoothness if self.learning_rate is None else float(self.learning_rate)

    @property
    def contraction(self) -> float:
        """L = 1 − ηρ, by which any step brings two runs closer.

        The thesis' sqrt(1 − 2ηβρ/(β+ρ)) is never smaller.
        """
        # Rounded up, for it is raised to large powers.
        return min(1.0, max(0.0, 1 - self.step * self.regularisation) + 4e-16) if self.regularisation else 1.0

    @property
    def _thesis_contraction(self) -> float:
        beta, rho = self.smoothness, self.regularisation
        return math.sqrt(max(0.0, 1 - 2 * self.step * beta * rho / (beta + rho)))

    @property
    def n_steps(self) -> int:
        """How many steps a release takes."""
        return int(self.epochs * self.n + self.public_steps)

    def _later(self, index: ArrayLike) -> Floats:
        places = np.asarray(index)
        if not np.issubdtype(places.dtype, np.integer) or np.any((places < 1) | (places > self.n)):
            raise InvalidValue(f"the index of a record is a whole number from 1 to n = {self.n}. Got {index!r}")
        return np.asarray(self.n - places + self.public_steps, dtype=np.float64)

    def mu_at(self, index: ArrayLike) -> Floats:
        """Return μ of the record at each index from 1 to n."""
        shift = self.design.sensitivity(1.0)
        return cyclic_mu(
            shift,
            self.contraction,
            self.noise,
            period=self.n,
            epochs=self.epochs,
            later=self._later(index),
        )

    def thesis_mu_at(self, index: ArrayLike) -> Floats:
        """Return the thesis' looser μ at each index, for one pass (Theorem 22)."""
        if self.epochs > 1:
            raise InvalidValue("the thesis covers one pass only; set epochs=1")
        return thesis_mu(self.design.sensitivity(1.0), self._thesis_contraction, self.noise, self._later(index))

    def profile_at(self, index: int) -> GaussianProfile:
        """Return what the release costs the record at `index`."""
        return iteration_profile(float(self.mu_at(index)))

    @property
    def profile(self) -> GaussianProfile:
        """What the release costs anyone: the profile of the last record, which has the fewest steps after it."""
        return self.profile_at(self.n)

    @classmethod
    def calibrate(
        cls,
        design: Design,
        n: int,
        target: Promise,
        *,
        learning_rate: float | None = None,
        regularisation: float = 0.1,
        epochs: int = 1,
        public_steps: int = 0,
        box: float | None = None,
        public: Rows | None = None,
    ) -> Self:
        """Return the mechanism with the least noise that keeps `target` for every record.

        Examples
        --------
        >>> from sottovoce.regression.losses import Logistic
        >>> from sottovoce.privacy.promises import GaussianDP
        >>> design = Design(Logistic(), dimension=2, data_norm=1.0)
        >>> [round(NoisyProjectedSGD.calibrate(design, 100, GaussianDP(1.0), public_steps=k).noise, 2) for k in (0, 10)]
        [2.0, 0.05]
        """
        check_design(design)
        mu = largest_keeping(GaussianProfile, target, high=1e6, name="mu")
        unit = cls(design, n, 1.0, learning_rate, regularisation, epochs, public_steps, box, public)
        noise = unit.profile.mu / mu * (1 + 1e-12)
        return replace(unit, noise=max(noise, _LEAST_NOISE * design.sensitivity(1.0)))

    @classmethod
    def example(cls) -> Self:
        """Return one pass over four records."""
        return cls(Design(Logistic(), dimension=2, data_norm=1.0), 4, noise=1.5, learning_rate=0.5, regularisation=0.4)

    def _value(self, seen: Rows, rng: np.random.Generator, draws: int) -> Floats:
        """Return the last iterates of `draws` independent runs, one row each.

        They are rounded to a public grid, fine beside the noise ησ of the last step.
        """
        reading = self.design.reading
        seen = reading.check(seen)
        rows, labels = seen.X, seen.y
        order = np.tile(np.arange(self.n), self.epochs)
        if self.public_steps:
            if self.public is None:
                raise InvalidData(f"{self.public_steps} public steps need public records")
            known = reading.check(self.public)
            order = np.append(order, self.n + np.arange(self.public_steps) % known.n)
            rows, labels = np.concatenate([rows, known.X]), np.append(labels, known.y)
        with jax.enable_x64(True):
            return self._iterate(rows, labels, order, rng, draws)

    def run(self, X: Any, y: Any, rng: np.random.Generator, *, chains: int = 1) -> Floats:
        """Return the last iterates of several independent runs, one row each, on rows of `dimension` entries.

        Showing k of them costs √k·μ.
        """
        labels = self.design.responses(y)
        return self._value(Rows(len(labels), self.design.rows(X), labels), rng, chains)

    def _iterate(self, X: Floats, y: Floats, order: Any, rng: np.random.Generator, chains: int) -> Floats:
        d = self.design.dimension
        numbers = {
            "step": self.step,
            "noise": self.noise,
            "pull": self.regularisation,
            "steepest": self.design.constants.lipschitz,
            "radius": self.design.radius,
            "box": math.inf if self.box is None else self.box,
        }
        W, device_X, device_y = jnp.zeros((chains, d)), jnp.asarray(X), jnp.asarray(y)
        # A power of two: runs of many lengths share a few compiled programs.
        block = max(1, min(1 << (order.size - 1).bit_length(), _BLOCK // (chains * d)))
        for first in range(0, order.size, block):
            here = np.resize(order[first : first + block], block)
            count = min(block, order.size - first)
            noise = jnp.asarray(rng.standard_normal((block, chains, d)))
            W = _run_block(self.design.loss, device_X, device_y, numbers, jnp.asarray(here), noise, count, W)
        return to_grid(W, self.step * self.noise)

    def _parameters(self) -> dict[str, Any]:
        known = self.public
        return {
            "noise": float(self.noise),
            "learning_rate": self.step,
            "regularisation": float(self.regularisation),
            "epochs": int(self.epochs),
            "public_steps": int(self.public_steps),
            "box": self.box,
            "public": None if known is None else {"X": np.asarray(known.X).tolist(), "y": np.asarray(known.y).tolist()},
        }

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        known = state.pop("public", None)
        if known is not None:
            X, y = np.asarray(known["X"], dtype=np.float64), np.asarray(known["y"], dtype=np.float64)
            known = Rows(len(y), X, y)
        return cls(system_from(state.pop("system")), state.pop("n"), **state, public=known)

    def describe(self) -> str:
        """Return the mechanism in one line, without the public records."""
        return replace(self, public=None).describe() if self.public is not None else super().describe()


@partial(jax.jit, static_argnames=("loss",))
def _run_block(
    loss: Loss,
    X: jax.Array,
    y: jax.Array,
    n: dict[str, jax.Array],
    order: jax.Array,
    noise: jax.Array,
    count: jax.Array,
    W: jax.Array,
) -> jax.Array:
    """Take the first `count` steps, on the records named by `order`."""

    def body(k: jax.Array, W: jax.Array) -> jax.Array:
        x, label = X[order[k]], y[order[k]]
        # Slopes are held to the Lipschitz constant so that the sensitivity is a fact. A clipped rising slope
        # still rises and is no steeper, so that the loss stays convex and as smooth.
        slope = held(loss.slope(W @ x, label), n["steepest"])
        W = W - n["step"] * (slope[:, None] * x + n["pull"] * W + n["noise"] * noise[k])
        W = jnp.clip(W, -n["box"], n["box"])
        norm = jnp.sqrt(jnp.sum(W * W, axis=1, keepdims=True))
        return jnp.where(norm > n["radius"], W * (n["radius"] / norm), W)

    moved: jax.Array = jax.lax.fori_loop(0, count, body, W)
    return moved
