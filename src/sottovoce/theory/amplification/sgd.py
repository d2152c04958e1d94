r"""Noisy projected SGD: one pass over the records, each hidden by the noise of its own step and of all later ones.

w ← Π(w − η(∇ℓ(w; x_i, y_i) + ρw + σξ)), one record a step in a fixed order, from a public start. Only the last iterate
is shown. For losses that are B-Lipschitz in the predictor and rows of norm ≤ c, replacing record i pushes two runs at
most 2ηBc apart at step i; the later steps are (1−ηρ)-contractions for η ≤ 2/(β+ρ), where β = ρ + c²·sup ℓ''.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from sottovoce.inference.regression.design import Design, check_design
from sottovoce.inference.regression.losses import Logistic, Loss, positive
from sottovoce.inference.regression.posterior import RegressionMechanism
from sottovoce.inference.regression.rounding import FAR, arithmetic_error, gradient_error
from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.conjugate.named_systems import system_from
from sottovoce.mechanisms.exact_normals import CoupledNormals, exact_normals
from sottovoce.mechanisms.jax_compilation import compiled
from sottovoce.mechanisms.mechanism import Choices
from sottovoce.privacy.errors import InvalidData, InvalidValue, PromiseUnreachable
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.numbers import Floats, real, whole
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.randomness import is_secure
from sottovoce.records.readings import Rows
from sottovoce.theory.amplification.convex_sets import Box, ConvexSet
from sottovoce.theory.amplification.iteration import cyclic_mu, iteration_profile, path_of_equal_shifts, thesis_mu

_BLOCK = 1 << 20
"""Normal draws made on the host at a time."""

_LEAST_NOISE = 1e-6
"""Calibration never goes below this share of the sensitivity: nearer to rounding errors these are what is hidden."""


@dataclass(frozen=True, eq=False)
class NoisyProjectedSGD(RegressionMechanism):
    r"""Noisy projected SGD with a profile for each record by its place (Geumlek 2020, Algorithm 5 and Theorem 22).

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
    within
        Any other convex set, by its projection (convex_sets.py); the design's radius must cover it.
    start
        Where runs begin, a public vector; zero where None.

    Examples
    --------
    >>> from sottovoce.inference.regression.losses import Logistic
    >>> design = Design(Logistic(), dimension=2, data_norm=1.0)
    >>> sgd = NoisyProjectedSGD(design, 1000, noise=4.0, learning_rate=0.5, regularisation=0.1)
    >>> [round(float(mu), 4) for mu in sgd.mu_at([1000, 999, 990, 900])]
    [0.5, 0.3444, 0.1137, 0.0009]
    """

    word: ClassVar[str] = "noisy projected SGD"
    any_loss: ClassVar[bool] = True
    choices: ClassVar[Choices] = {"sgd": {}}
    noise: float
    learning_rate: float | None = None
    regularisation: float = 0.1
    epochs: int = 1
    public_steps: int = 0
    box: float | None = None
    public: Rows | None = None
    within: ConvexSet | None = None
    start: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("noise", self.noise)
        if not (self.regularisation >= 0 and math.isfinite(self.regularisation)):
            raise InvalidValue(f"regularisation must be finite and >= 0. Got {self.regularisation}")
        for name, least in (("epochs", 1), ("public_steps", 0)):
            value = getattr(self, name)
            whole(name, value, least)
        longest = 2 / (self.smoothness + self.strength)
        if not 0 < self.step <= longest:
            raise InvalidValue(
                f"learning_rate must lie in (0, 2/(β+ρ)] = (0, {longest:.6g}]: beyond it a step may push two runs "
                f"apart and later steps hide nothing. Got {self.learning_rate}"
            )
        if self.box is not None and self.within is not None:
            raise InvalidValue("give either a box or another set to stay within")
        held_in = self.held_in
        if held_in is not None and self.design.radius < held_in.reach(self.design.dimension) * (1 - 1e-12):
            raise InvalidValue(
                f"{held_in} leaves the ball of radius {self.design.radius} on which the loss is bounded: give the "
                f"design a radius >= {held_in.reach(self.design.dimension):.6g}"
            )
        if self.start is not None:
            start = tuple(real("start", value, -math.inf) for value in self.start)
            if len(start) != self.design.dimension or math.hypot(*start) > self.design.radius:
                raise InvalidValue(f"start has {self.design.dimension} entries, within the radius. Got {self.start!r}")
            object.__setattr__(self, "start", start)
        if self.public is not None:
            if not self.public_steps:
                raise InvalidValue("public records are used by public steps only; set public_steps")
            if self.public.n < 1:
                raise InvalidData("the public records are none")

    @property
    def held_in(self) -> ConvexSet | None:
        """The set that runs stay in beside the design's ball."""
        return self.within if self.box is None else Box(self.box)

    @property
    def smoothness(self) -> float:
        """β = ρ + c²·sup ℓ'', of any one record's regularised loss."""
        return self.regularisation + self.design.data_norm**2 * self.design.constants.curvature

    @property
    def strength(self) -> float:
        """The strong convexity of any one record's regularised loss: ρ, and the loss's own."""
        return self.regularisation + self.design.data_norm**2 * self.design.constants.convexity

    @property
    def step(self) -> float:
        """η."""
        return 1 / self.smoothness if self.learning_rate is None else float(self.learning_rate)

    @property
    def contraction(self) -> float:
        """L = 1 − ηρ, by which any step brings two runs closer; ρ is the `strength`.

        The thesis' sqrt(1 − 2ηβρ/(β+ρ)) is never smaller.
        """
        # Rounded up, for it is raised to large powers.
        return min(1.0, max(0.0, 1 - self.step * self.strength) + 4e-16) if self.strength else 1.0

    @property
    def _thesis_contraction(self) -> float:
        beta, rho = self.smoothness, self.strength
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
        """Return μ of the record at each index from 1 to n, with what rounding adds."""
        later, cycle = self._later(index), {"period": self.n, "epochs": self.epochs}
        written = cyclic_mu(self.design.sensitivity(1.0), self.contraction, self.noise, later=later, **cycle)
        return np.asarray(written + self.rounding_mu)

    @property
    def reach(self) -> float:
        """The radius of the ball in which runs are kept: the design's, or one that no run leaves but by a wonder."""
        steps, pull = self.n_steps, self.design.constants.lipschitz * self.design.data_norm
        drift = min(steps * self.step, 1 / self.regularisation if self.regularisation else math.inf) * pull
        length = min(steps, 1 / max(1 - self.contraction**2, 1 / steps))
        far = FAR * self.step * self.noise * math.sqrt(self.design.dimension * length)
        # Measured from the set's nearest point p to the origin, ρ pulls by ρ‖p‖ more: 3‖p‖ covers it all.
        away = 0.0 if self.held_in is None else 3 * self.held_in.offset(self.design.dimension)
        return min(self.design.radius, away + math.hypot(*(self.start or (0.0,))) + drift + far)

    @property
    def rounding(self) -> float:
        """The most by which one computed step lies from the step as written, in L2 norm."""
        design, u, step = self.design, 2.0**-53, self.step
        error = gradient_error(design, 1, self.reach, u)
        longest = self.reach + step * (design.constants.lipschitz * design.data_norm + self.regularisation * self.reach)
        onto = 0.0 if self.held_in is None else self.held_in.error(design.dimension) * self._far
        return (step * error + arithmetic_error(design.dimension, self._far, longest, u) + onto) * (1 + 2.0**-30)

    @property
    def rounding_mu(self) -> float:
        """What rounding adds to μ: two runs drift apart by 2·`rounding` at every step, before noise of ησ.

        Distances of two kinds add up along a run, and so do the parts of them that noise blurs: μ ≤ μ₁ + μ₂.
        """
        every = path_of_equal_shifts(self.contraction, self.n_steps)
        return 2 * self.rounding / (self.step * self.noise) * every * (1 + 1e-9)

    @property
    def _far(self) -> float:
        """How far out a run may lie before it is brought into its set, which takes no length away in proportion."""
        return self.reach if self.held_in is None else 8 * self.reach

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
        within: ConvexSet | None = None,
        start: tuple[float, ...] | None = None,
    ) -> Self:
        """Return the mechanism with the least noise that keeps `target` for every record.

        Examples
        --------
        >>> from sottovoce.inference.regression.losses import Logistic
        >>> from sottovoce.privacy.promises import GaussianDP
        >>> design = Design(Logistic(), dimension=2, data_norm=1.0)
        >>> [round(NoisyProjectedSGD.calibrate(design, 100, GaussianDP(1.0), public_steps=k).noise, 2) for k in (0, 10)]
        [2.0, 0.05]
        """
        check_design(design)
        mu = largest_keeping(GaussianProfile, target, high=1e6, name="mu")
        unit = cls(design, n, 1.0, learning_rate, regularisation, epochs, public_steps, box, public, within, start)
        noise = max(unit.profile.mu / mu * (1 + 1e-12), _LEAST_NOISE * design.sensitivity(1.0))
        for _ in range(60):  # rounding weighs otherwise at another noise
            built = replace(unit, noise=noise)
            if built.profile.mu <= mu:
                return built
            noise *= built.profile.mu / mu * (1 + 1e-12)
        raise PromiseUnreachable(
            f"doubles are too coarse for {target}: rounding alone costs μ = {built.rounding_mu:.3g}"
        )

    @classmethod
    def example(cls) -> Self:
        """Return one pass over four records."""
        return cls(Design(Logistic(), dimension=2, data_norm=1.0), 4, noise=1.5, learning_rate=0.5, regularisation=0.4)

    def _value(self, seen: Rows, rng: np.random.Generator, draws: int) -> Floats:
        """Return the last iterates of `draws` independent runs, one row each.

        The last step adds exactly rounded noise; what the steps before it round off is part of the claim.
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

    def run(self, X: object, y: object, rng: np.random.Generator, *, chains: int = 1) -> Floats:
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
            "radius": self._far,
        }
        begin = np.zeros(d) if self.start is None else np.array(self.start)
        W = jax.device_put(np.tile(begin, (chains, 1)))
        held_in = self.held_in
        source = CoupledNormals(rng) if is_secure(rng) else rng
        steps = order.size - 1
        block = max(1, min(1 << max(steps - 1, 0).bit_length(), _BLOCK // (chains * d)))
        # Room for 32, 1024, … steps, each with its record: runs of many lengths share a few compiled programs.
        room = max(block, min(32 ** -(-(block - 1).bit_length() // 5), _BLOCK // (chains * d)))
        run = compiled(_run_block, room * chains * d, static=(0, 1))
        for first in range(0, steps, block):
            here = np.resize(order[first : min(first + block, steps)], room)
            noise = np.zeros((room, chains, d))
            noise[:block] = source.standard_normal((block, chains, d))
            count = min(block, steps - first)
            W = run(self.design.loss, held_in, X[here], y[here], numbers, noise, count, W)
        last = compiled(drift, chains * d)(self.design.loss, X[order[-1]], y[order[-1]], numbers, W)
        wide = math.nextafter(self.step * self.noise, math.inf)
        moved = exact_normals(np.asarray(last), wide, rng)
        return np.asarray(compiled(_inside, chains * d)(held_in, moved, numbers))

    def _parameters(self) -> dict[str, object]:
        known = self.public
        more = {"within": self.within and self.within.to_dict(), "start": self.start and list(self.start)}
        return {name: value for name, value in more.items() if value is not None} | {
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
        if state.get("within") is not None:
            state["within"] = ConvexSet.from_dict(state["within"])
        return cls(system_from(state.pop("system")), state.pop("n"), **state, public=known)

    def describe(self) -> str:
        """Return the mechanism in one line, without the public records."""
        return replace(self, public=None).describe() if self.public is not None else super().describe()


def _run_block(
    loss: Loss,
    held_in: ConvexSet | None,
    X: jax.Array,
    y: jax.Array,
    n: dict[str, jax.Array],
    noise: jax.Array,
    count: jax.Array,
    W: jax.Array,
) -> jax.Array:
    """Take the first `count` steps, each on its own row and with its own noise."""

    def body(k: jax.Array, W: jax.Array) -> jax.Array:
        moved = drift(loss, X[k], y[k], n, W) - n["step"] * n["noise"] * noise[k]
        return _inside(held_in, moved, n)

    moved: jax.Array = jax.lax.fori_loop(0, count, body, W)
    return moved


def drift(loss: Loss, x: jax.Array, label: jax.Array, n: dict[str, jax.Array], W: jax.Array) -> jax.Array:
    """Return where a step leads before its noise.

    Slopes are held to the Lipschitz constant so that the sensitivity is a fact. A clipped rising slope still rises and
    is no steeper, so that the loss stays convex and as smooth.
    """
    return W - n["step"] * (loss.gradients(x[None], label[None], W, n["steepest"]) + n["pull"] * W)


def _inside(held_in: ConvexSet | None, W: jax.Array, n: dict[str, jax.Array]) -> jax.Array:
    norm = jnp.sqrt(jnp.sum(W * W, axis=1, keepdims=True))
    W = jnp.where(norm > n["radius"], W * (n["radius"] / norm), W)
    return W if held_in is None else held_in.project(W)
