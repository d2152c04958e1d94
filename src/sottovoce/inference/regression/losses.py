r"""Losses ℓ(t, y) of a linear predictor t = w·x, each with the constants its privacy rests on.

On |t| ≤ r a loss says how steep (|∂ℓ/∂t| ≤ `lipschitz`) and how curved (0 ≤ ∂²ℓ/∂t² ≤ `curvature`) it can be
for any label it accepts. Where these grow without end the parameters need a ball: ‖w‖ ≤ R gives r = R·c for
rows of norm ≤ c.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr
from scipy import special

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import restoring
from sottovoce.privacy.registry import Registry

_BINARY = (-1.0, 1.0)
_HUGE = sys.float_info.max
_HERE = "sottovoce.inference.regression"
_ULPS = 32.0
"""Units in the last place by which the slope of a loss may be off: of exp, log and what is made of them."""
_matmul = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)  # else GPUs round float32 products to 10 bits
LOSSES = Registry(
    "loss",
    {
        name: f"{_HERE}.losses:{name}"
        for name in ("Logistic", "Probit", "ComplementaryLogLog", "Poisson", "SmoothedHinge", "Squared", "Huber")
    }
    | {"CustomLoss": f"{_HERE}.custom_loss:CustomLoss", "Softmax": f"{_HERE}.softmax:Softmax"}
    | {"Potential": f"{_HERE}.potential:Potential"},
    "sottovoce.losses",
)
"""Every kind of loss by its word."""


@dataclass(frozen=True)
class Constants:
    """On |t| ≤ reach: |ℓ'| ≤ `lipschitz`, `convexity` ≤ ℓ'' ≤ `curvature`, max ℓ − min ℓ ≤ `spread`."""

    lipschitz: float
    curvature: float
    spread: float
    convexity: float = 0.0


@dataclass(frozen=True)
class Loss(ABC):
    """A convex loss of a linear predictor; use one of its kinds, or `CustomLoss` of custom_loss.py.

    A kind gives `value` (in JAX), `slope` where autodiff would lose digits, and `constants`. Labels are
    numbers in `labels` = (low, high); `binary` losses know the two labels −1 and +1 only.
    """

    word: ClassVar[str]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.word = cls.__name__

    def to_dict(self) -> dict[str, Any]:
        """Return the loss as plain values; `from_dict` reads it back."""
        return {"loss": self.word} | {f.name: getattr(self, f.name) for f in fields(self)}

    @staticmethod
    def from_dict(state: Mapping[str, Any]) -> Loss:
        """Read a loss from `to_dict`'s form."""
        given = dict(state)
        word = given.pop("loss", None)
        with restoring(f"a loss {word!r}"):
            loss: Loss = LOSSES[word](**given)
        return loss

    @property
    def labels(self) -> tuple[float, float]:
        """The smallest and the largest label."""
        return _BINARY

    @property
    def binary(self) -> bool:
        """Whether the labels are −1 and +1 and nothing between."""
        return True

    @property
    def name(self) -> str:
        """What the loss is called."""
        return type(self).__name__

    @property
    def gap(self) -> float:
        """How far, at most, the loss lies below the one that it stands for; 0 where it stands for itself."""
        return 0.0

    @abstractmethod
    def value(self, t: jax.Array, y: jax.Array) -> jax.Array:
        """Return ℓ(t, y), element by element."""

    def slope(self, t: jax.Array, y: jax.Array) -> jax.Array:
        """Return ∂ℓ/∂t, element by element."""
        slope: jax.Array = jax.grad(lambda u: self.value(u, y).sum())(t)
        return slope

    def check(self, dimension: int, data_norm: float) -> None:
        """Raise `InvalidValue` where the loss does not suit rows of so many entries and such a norm."""
        del dimension, data_norm

    def gradients(self, X: jax.Array, y: jax.Array, W: jax.Array, steepest: Any) -> jax.Array:
        """Return Σ∇ℓ over the rows of X at every row of W, slopes held so that the sensitivity is a fact.

        Clipping a rising slope leaves it rising and no steeper, so the loss stays convex and as smooth.
        """
        if len(W) < X.shape[1]:
            return _matmul(held(self.slope(_matmul(X, W.T), y[:, None]), steepest).T, X)
        # Many chains: the records of each lie in a row, and products and slopes take as little as a third of the time.
        return _matmul(held(self.slope(_matmul(W, X.T), y), steepest), X)

    def gradient_error(self, dimension: int, norm: float, constants: Constants, radius: float, u: float) -> float:
        """Return by how much the computed gradient of one row may be off, within a ball, in arithmetic of unit u."""
        predictor = dimension * u / (1 - dimension * u) * norm * radius if dimension * u < 0.5 else math.inf
        return norm * min(constants.curvature * predictor + _ULPS * u * constants.lipschitz, 2 * constants.lipschitz)

    @abstractmethod
    def constants(self, reach: float) -> Constants:
        """Return the constants on |t| ≤ `reach`; infinite where there is none."""


@dataclass(frozen=True)
class Logistic(Loss):
    r"""ℓ = log(1 + e^{−yt}): logistic regression of labels ±1. Slope < 1, curvature ≤ ¼, no ball needed.

    >>> Logistic().constants(math.inf).curvature
    0.25
    """

    def value(self, t: jax.Array, y: jax.Array) -> jax.Array:
        """Return log(1 + e^{−yt})."""
        return jax.nn.softplus(-y * t)

    def slope(self, t: jax.Array, y: jax.Array) -> jax.Array:
        """Return −y/(1 + e^{yt})."""
        return -y * jax.nn.sigmoid(-y * t)

    def constants(self, reach: float) -> Constants:
        """Return σ(r), ¼ and r."""
        return Constants(float(special.expit(reach)), 0.25, reach)


@dataclass(frozen=True)
class Probit(Loss):
    r"""ℓ = −log Φ(yt). The score φ/Φ grows like |t|, so a ball is needed (the papers' B = 1 is a slip)."""

    def value(self, t: jax.Array, y: jax.Array) -> jax.Array:
        """Return −log Φ(yt)."""
        return -log_ndtr(y * t)

    def slope(self, t: jax.Array, y: jax.Array) -> jax.Array:
        """Return −y·φ(yt)/Φ(yt), in log space so that the far tail keeps its digits."""
        z = y * t
        return -y * jnp.exp(-z * z / 2 - math.log(2 * math.pi) / 2 - log_ndtr(z))

    def constants(self, reach: float) -> Constants:
        """Return the Mills ratio B = φ(r)/Φ(−r), B(B−r) < 1, and the spread, all attained at yt = −r."""
        if math.isinf(reach):
            return Constants(math.inf, 1.0, math.inf)
        inverse_mills = math.sqrt(2 / math.pi) / float(special.erfcx(reach / math.sqrt(2)))
        curvature = min(1.0, inverse_mills * (inverse_mills - reach) * (1 + 1e-9))
        spread = float(special.log_ndtr(reach) - special.log_ndtr(-reach))
        return Constants(inverse_mills, curvature, spread)


@dataclass(frozen=True)
class ComplementaryLogLog(Loss):
    r"""P(y = 1) = 1 − exp(−e^t). Slope and curvature reach e^r at label −1, so a ball is needed."""

    def value(self, t: jax.Array, y: jax.Array) -> jax.Array:
        """Return e^t for label −1 and −log(1 − exp(−e^t)) for label +1."""
        u = jnp.exp(t)
        return jnp.where(y > 0, -jnp.log(-jnp.expm1(-u)), u)

    def slope(self, t: jax.Array, y: jax.Array) -> jax.Array:
        """Return e^t for label −1 and −e^t/(exp(e^t) − 1) for label +1."""
        u = jnp.exp(t)
        return jnp.where(y > 0, -u * jnp.exp(-u) / -jnp.expm1(-u), u)

    def constants(self, reach: float) -> Constants:
        """Return e^r twice (label +1 stays below 1 in both), and the larger of the two labels' spreads."""
        top = _exp(reach)
        if math.isinf(top):
            return Constants(math.inf, math.inf, math.inf)
        highest = max(top, -math.log(-math.expm1(-math.exp(-reach))))
        lowest = min(math.exp(-reach), -math.log(-math.expm1(-top)) if top < 36 else 0.0)
        return Constants(top, top, highest - lowest)


@dataclass(frozen=True)
class Poisson(Loss):
    r"""ℓ = e^t − yt: counts from 0 to `largest` (clipped). Its constants grow like e^r: a ball is needed."""

    largest: float = 20.0

    def __post_init__(self) -> None:
        positive("largest", self.largest)

    @property
    def labels(self) -> tuple[float, float]:
        """Counts from 0 to `largest`."""
        return (0.0, float(self.largest))

    @property
    def binary(self) -> bool:
        """False: labels are counts."""
        return False

    def value(self, t: jax.Array, y: jax.Array) -> jax.Array:
        """Return e^t − yt."""
        return jnp.exp(t) - y * t

    def slope(self, t: jax.Array, y: jax.Array) -> jax.Array:
        """Return e^t − y."""
        return jnp.exp(t) - y

    def constants(self, reach: float) -> Constants:
        """Return max(e^r, Y − e^{−r}), e^r and the spread of a function convex in t, linear in y."""
        top = _exp(reach)
        if math.isinf(top):
            return Constants(math.inf, math.inf, math.inf)
        big, least = self.largest, math.exp(-reach)
        turn = min(max(math.log(big), -reach), reach)
        highest, lowest = max(top, least + big * reach), min(least, math.exp(turn) - big * turn)
        return Constants(max(top, big - least), top, highest - lowest)


@dataclass(frozen=True)
class SmoothedHinge(Loss):
    """The hinge max(0, 1 − yt) rounded over a width γ = `smoothing`: slope ≤ 1, curvature 1/γ."""

    smoothing: float = 0.5

    def __post_init__(self) -> None:
        positive("smoothing", self.smoothing)

    @property
    def gap(self) -> float:
        """γ/2: it is the hinge's Moreau envelope."""
        return self.smoothing / 2

    def value(self, t: jax.Array, y: jax.Array) -> jax.Array:
        """Return 0, (1−yt)²/(2γ) or 1 − yt − γ/2."""
        gap = 1 - y * t
        inside = jnp.clip(gap, 0.0, self.smoothing)
        return inside**2 / (2 * self.smoothing) + jnp.maximum(gap - self.smoothing, 0.0)

    def slope(self, t: jax.Array, y: jax.Array) -> jax.Array:
        """Return −y·clip((1−yt)/γ, 0, 1)."""
        return -y * jnp.clip((1 - y * t) / self.smoothing, 0.0, 1.0)

    def constants(self, reach: float) -> Constants:
        """Return min(1, (1+r)/γ), 1/γ and a bound on the spread."""
        steep = min(1.0, (1 + reach) / self.smoothing)
        return Constants(steep, 1 / self.smoothing, steep * (1 + reach))


@dataclass(frozen=True)
class _Residual(Loss):
    """A loss of the residual t − y with labels in [−largest, largest] (clipped)."""

    largest: float = 1.0

    def __post_init__(self) -> None:
        positive("largest", self.largest)

    @property
    def labels(self) -> tuple[float, float]:
        """Responses from −`largest` to `largest`."""
        return (-float(self.largest), float(self.largest))

    @property
    def binary(self) -> bool:
        """False: labels are real numbers."""
        return False


@dataclass(frozen=True)
class Squared(_Residual):
    """ℓ = (t − y)²/2: linear regression. The slope grows like r, so a ball is needed."""

    def value(self, t: jax.Array, y: jax.Array) -> jax.Array:
        """Return (t − y)²/2."""
        return (t - y) ** 2 / 2

    def slope(self, t: jax.Array, y: jax.Array) -> jax.Array:
        """Return t − y."""
        return t - y

    def constants(self, reach: float) -> Constants:
        """Return r + Y, 1 and (r + Y)²/2."""
        steep = reach + self.largest
        return Constants(steep, 1.0, steep**2 / 2)


@dataclass(frozen=True)
class Huber(_Residual):
    """ℓ = (t − y)²/2 inside `threshold`, a line outside: slope ≤ threshold, curvature 1, no ball needed."""

    threshold: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("threshold", self.threshold)

    def value(self, t: jax.Array, y: jax.Array) -> jax.Array:
        """Return the square inside the threshold, the line outside."""
        gap = jnp.abs(t - y)
        inside = jnp.minimum(gap, self.threshold)
        return inside**2 / 2 + self.threshold * (gap - inside)

    def slope(self, t: jax.Array, y: jax.Array) -> jax.Array:
        """Return t − y clipped to the threshold."""
        return jnp.clip(t - y, -self.threshold, self.threshold)

    def constants(self, reach: float) -> Constants:
        """Return min(κ, r + Y), 1 and a bound on the spread."""
        steep = min(self.threshold, reach + self.largest)
        return Constants(steep, 1.0, steep * (reach + self.largest))


def held(slopes: jax.Array, steepest: Any) -> jax.Array:
    """Return slopes held to ±steepest; one that is no number, where a tail lost its digits, counts as 0."""
    return jnp.clip(jnp.nan_to_num(slopes, nan=0.0, posinf=jnp.inf, neginf=-jnp.inf), -steepest, steepest)


def positive(name: str, value: Any, *, high: float = _HUGE) -> None:
    """Raise `InvalidValue` unless value is a real number with 0 < value ≤ high."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InvalidValue(f"{name} must be a number > 0. Got {value!r}")
    if not value > 0:
        raise InvalidValue(f"{name} must be > 0. Got {value}")
    if not value <= high:
        raise InvalidValue(f"{name} must be " + (f"<= {high:g}. Got {value:g}" if high < _HUGE else "finite"))


def _exp(reach: float) -> float:
    return math.exp(reach) if reach < 700 else math.inf
