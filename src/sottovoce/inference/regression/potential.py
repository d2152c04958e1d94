"""Any smooth convex loss of the parameters: no linear predictor, and the constants that its privacy rests on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sottovoce.inference.regression.losses import Constants, Loss, positive
from sottovoce.mechanisms.jax_compilation import compiler_options
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import real


@dataclass(frozen=True)
class Potential(Loss):
    r"""A loss ℓ(w; x, y) of your own: a JAX function, convex and smooth in w for every record there may be.

    For chains and SGD (`DiffusedRegression`, `ConcentratedRegression`, `NoisyProjectedSGD`, `MinibatchSGD`), in a
    `Design` with the same `data_norm`; rows and parameters have as many entries.

    Parameters
    ----------
    function
        ℓ(w, x, y) of one vector w, one row x of norm ≤ `data_norm` and one label y; its gradient is taken by JAX.
    lipschitz
        L: ‖∇ℓ‖ ≤ L. Longer gradients are shortened, so that what one record can do in one step is a fact.
    smoothness, convexity
        M and m with m‖u−w‖² ≤ ⟨∇ℓ(u) − ∇ℓ(w), u−w⟩ ≤ M‖u−w‖²; SGD alone makes use of m. They are *your* claim, and
        privacy rests on them; the loss is tried on records and parameters of many sizes and refused where they are
        visibly wrong.
    data_norm, low, high, two_labels
        The rows and labels these hold for.
    valid_radius
        The ball ‖w‖ ≤ R they hold in.
    precision
        By how much a computed gradient may be off beside L, in doubles; part of the claim.

    Examples
    --------
    The distance from a record, rounded at the bottom: a robust centre of vectors.

    >>> from sottovoce.inference.regression.design import Design
    >>> centre = Potential(
    ...     lambda w, x, y: jnp.sqrt(1 + jnp.sum((w - x) ** 2)), lipschitz=1.0, smoothness=1.0
    ... )
    >>> Design(centre, dimension=3, data_norm=2.0)
    Traceback (most recent call last):
    ...
    sottovoce.privacy.errors.InvalidValue: the loss holds for rows of norm <= 1, the design has 2
    >>> Design(centre, dimension=3, data_norm=1.0).sensitivity(1.0)
    2.0
    """

    function: Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
    lipschitz: float
    smoothness: float
    convexity: float = 0.0
    data_norm: float = 1.0
    low: float = -1.0
    high: float = 1.0
    two_labels: bool = True
    valid_radius: float = math.inf
    precision: float = 2.0**-40

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InvalidValue("a loss of your own needs its function, which no file holds; build it again")
        for name in ("lipschitz", "smoothness", "data_norm"):
            positive(name, getattr(self, name))
        positive("valid_radius", self.valid_radius, high=math.inf)
        positive("precision", self.precision, high=2.0**-20)
        if not real("convexity", self.convexity) <= self.smoothness:
            raise InvalidValue(f"convexity must be <= smoothness. Got {self.convexity} and {self.smoothness}")
        if not -math.inf < self.low < self.high < math.inf:
            raise InvalidValue(f"low must be < high, both finite. Got {self.low} and {self.high}")
        if self.two_labels and (self.low, self.high) != (-1.0, 1.0):
            raise InvalidValue(f"two labels are -1 and +1. Got {self.low} and {self.high}")

    @property
    def labels(self) -> tuple[float, float]:
        """The labels given."""
        return (self.low, self.high)

    @property
    def binary(self) -> bool:
        """Whether only the two ends are labels."""
        return self.two_labels

    def to_dict(self) -> dict[str, Any]:
        """Return the loss in public numbers. Its function is none: a process that has it must build the loss again."""
        known = self.valid_radius if math.isfinite(self.valid_radius) else None
        return super().to_dict() | {"function": None, "valid_radius": known}

    def value(self, t: jax.Array, y: jax.Array) -> jax.Array:
        """Refuse: there is no predictor."""
        raise InvalidValue("a Potential is no loss of a linear predictor; chains and SGD alone take it")

    def gradients(self, X: jax.Array, y: jax.Array, W: jax.Array, steepest: Any) -> jax.Array:
        """Return Σ∇ℓ over the records at every row of W, each gradient shortened to L, and 0 where it is no number."""
        del steepest
        each = jax.vmap(jax.grad(self.function), in_axes=(None, 0, 0))

        def total(w: jax.Array) -> jax.Array:
            result = jnp.nan_to_num(each(w, X, y), nan=0.0, posinf=0.0, neginf=0.0)
            norm = jnp.sqrt(jnp.sum(result * result, axis=1, keepdims=True))
            return jnp.sum(jnp.where(norm > self.lipschitz, result * (self.lipschitz / norm), result), axis=0)

        every: jax.Array = jax.lax.map(total, W)
        return every

    def gradient_error(self, dimension: int, norm: float, constants: Constants, radius: float, u: float) -> float:
        """Return precision·L, and what shortening adds, in units of u."""
        del norm, constants, radius
        return self.lipschitz * (self.precision * (u / 2.0**-53) + 2 * (dimension + 8) * u)

    def constants(self, reach: float) -> Constants:
        """Return L/c, M/c² and m/c², which a design multiplies by its c and c²; infinite beyond `valid_radius`."""
        if reach > self.valid_radius * self.data_norm * (1 + 1e-12):
            return Constants(math.inf, math.inf, math.inf)
        c = self.data_norm
        return Constants(self.lipschitz / c, self.smoothness / c / c, math.inf, self.convexity / c / c * (1 - 1e-15))

    def check(self, dimension: int, data_norm: float) -> None:
        """Raise `InvalidValue` unless the constants hold on spots, for rows and parameters of this dimension."""
        if data_norm != self.data_norm:
            raise InvalidValue(f"the loss holds for rows of norm <= {self.data_norm:g}, the design has {data_norm:g}")
        _spot_check(self, dimension)


def _spot_check(loss: Potential, dimension: int) -> None:
    rng = np.random.default_rng(0)
    most = min(loss.valid_radius, 1e3)
    count = 400
    ways = rng.standard_normal((3, count, dimension))
    ways /= np.linalg.norm(ways, axis=2, keepdims=True)
    lengths = most * 4.0 ** -rng.uniform(0, 8, (2, count, 1))
    first, step = ways[0] * lengths[0], ways[1] * np.minimum(lengths[1], most - lengths[0])
    x = ways[2] * loss.data_norm * np.where(rng.random((count, 1)) < 0.7, 1.0, rng.random((count, 1)))
    ends = rng.choice([loss.low, loss.high], count)
    y = ends if loss.two_labels else np.where(rng.random(count) < 0.5, ends, rng.uniform(loss.low, loss.high, count))
    with jax.enable_x64(True):
        gradient = jax.jit(jax.vmap(jax.grad(loss.function)), compiler_options=compiler_options(seldom=True))
        try:
            near, far = (np.asarray(gradient(w, x, y)) for w in (first, first + step))
        except (TypeError, ValueError) as error:
            raise InvalidValue(
                f"the loss is a scalar function of (w, x, y) that JAX can differentiate: {error}"
            ) from None
    if not np.all(np.isfinite(near)):
        raise InvalidValue(f"the gradient of the loss is not finite everywhere on ‖w‖ <= {most:g}")
    size = np.sum(step**2, axis=1)
    bend = np.sum((far - near) * step, axis=1) / size
    slack = 1e-6 * (1 + loss.smoothness)
    steep, curved = float(np.linalg.norm(near, axis=1).max()), float(bend.max())
    # A gradient may also turn: what smooth means is ‖∇ℓ(u) − ∇ℓ(w)‖ ≤ M‖u − w‖.
    curved = max(curved, float((np.linalg.norm(far - near, axis=1) / np.sqrt(size)).max()))
    for name, given, seen, wrong in (
        ("lipschitz", loss.lipschitz, steep, steep > loss.lipschitz * (1 + 1e-9)),
        ("smoothness", loss.smoothness, curved, curved > loss.smoothness + slack),
        ("convexity", loss.convexity, float(bend.min()), bend.min() < loss.convexity - slack),
    ):
        if wrong:
            side = "too large" if name == "convexity" else "too small"
            raise InvalidValue(f"{name} = {given:g} is {side}: a record was found with {seen:g}")
