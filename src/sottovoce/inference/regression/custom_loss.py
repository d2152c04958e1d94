"""A loss of the user's own, and the spot check that refuses constants that are visibly wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from sottovoce.inference.regression.losses import Constants, Loss, positive
from sottovoce.mechanisms.jax_compilation import compiler_options
from sottovoce.privacy.errors import InvalidValue


@dataclass(frozen=True)
class CustomLoss(Loss):
    """A loss of your own: a convex JAX function ℓ(t, y) and constants that hold on |t| ≤ `valid_reach`.

    The curvature is *your* claim and the privacy rests on it; building the loss checks the constants on a
    grid and refuses those that are visibly wrong. The check can refute, never prove. (The slope is clipped
    to `lipschitz` by the sampler, whatever the function does.)

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> soft = CustomLoss(lambda t, y: jnp.log(jnp.cosh(t - y)), lipschitz=1.0, curvature=1.0)
    >>> soft.labels
    (-1.0, 1.0)
    >>> CustomLoss(lambda t, y: (t - y) ** 2, lipschitz=1.0, curvature=2.0)
    Traceback (most recent call last):
    ...
    sottovoce.privacy.errors.InvalidValue: lipschitz = 1 is too small: the slope is ... at t = ..., y = ...
    """

    function: Callable[[jax.Array, jax.Array], jax.Array]
    lipschitz: float
    curvature: float
    low: float = -1.0
    high: float = 1.0
    two_labels: bool = False
    valid_reach: float = math.inf
    title: str = "CustomLoss"

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InvalidValue("a loss of your own needs its function, which no file holds; build it again")
        for name in ("lipschitz", "curvature"):
            positive(name, getattr(self, name))
        positive("valid_reach", self.valid_reach, high=math.inf)
        if not -math.inf < self.low < self.high < math.inf:
            raise InvalidValue(f"low must be < high, both finite. Got {self.low} and {self.high}")
        if self.two_labels and (self.low, self.high) != (-1.0, 1.0):
            raise InvalidValue(f"two labels are -1 and +1. Got {self.low} and {self.high}")
        _spot_check(self)

    @property
    def labels(self) -> tuple[float, float]:
        """The labels given."""
        return (self.low, self.high)

    @property
    def binary(self) -> bool:
        """Whether only the two ends are labels."""
        return self.two_labels

    @property
    def name(self) -> str:
        """The title given."""
        return self.title

    def to_dict(self) -> dict[str, Any]:
        """Return the loss in public numbers. Its function is none: a process that has it must build the loss again."""
        return super().to_dict() | {"function": None, "valid_reach": _finite(self.valid_reach)}

    def value(self, t: jax.Array, y: jax.Array) -> jax.Array:
        """Return the function's value."""
        return self.function(t, y)

    def constants(self, reach: float) -> Constants:
        """Return the constants given, infinite beyond the reach they are claimed for."""
        if reach > self.valid_reach:
            return Constants(math.inf, math.inf, math.inf)
        # A label may shift the whole curve, which no slope bounds: no finite spread is claimed.
        return Constants(self.lipschitz, self.curvature, math.inf)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _spot_check(loss: CustomLoss) -> None:
    reach = min(loss.valid_reach, 50.0)
    grid = np.unique(
        np.concatenate([np.linspace(-reach, reach, 1001), np.sinh(np.linspace(-4, 4, 401)) / np.sinh(4) * reach])
    )
    ys = np.array([loss.low, loss.high]) if loss.two_labels else np.linspace(loss.low, loss.high, 9)
    with jax.enable_x64(True):
        t, y = (a.ravel() for a in np.meshgrid(grid, ys))
        slopes = jax.jit(loss.slope, compiler_options=compiler_options(seldom=True))
        slope = np.asarray(slopes(t, y)).reshape(ys.size, grid.size)
    bend = np.diff(slope, axis=1) / np.diff(grid)
    slack = 1e-6 * (1 + loss.curvature)
    result = (
        ("lipschitz", loss.lipschitz, np.abs(slope), "too small: the slope is", loss.lipschitz * (1 + 1e-9)),
        ("curvature", loss.curvature, bend, "too small: the curvature is", loss.curvature + slack),
        (
            "curvature",
            loss.curvature,
            -bend,
            "no help, the loss is not convex: its curvature is minus",
            slack,
        ),
    )
    if not np.all(np.isfinite(slope)):
        raise InvalidValue(f"the slope of {loss.name} is not finite everywhere on |t| <= {reach:g}")
    for name, given, seen, words, limit in result:
        row, column = np.unravel_index(int(np.argmax(seen)), seen.shape)
        if seen[row, column] > limit:
            where = f"at t = {grid[column]:g}, y = {ys[row]:g}"
            raise InvalidValue(f"{name} = {given:g} is {words} {seen[row, column]:g} {where}")
