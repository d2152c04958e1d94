"""What the curves of worst pairs share: numbers that doubles can hold, and what rounding may take away."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import special

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, Mask, real

PLAIN = 1e3
"""The largest shape for which the incomplete functions are fast, and right to what `log_tail` is told."""
_LIFT = 1e-12  # more than the relative error of a quadrature
_UP = 1 + 1e-12  # more than the relative error of a Rényi divergence
_MOST = 1e100  # a larger ε is answered with the δ of this one


@dataclass(frozen=True)
class ThresholdPairs(ABC):
    """Ordered neighbouring pairs, closed under swapping, whose best test is a threshold: a `Pairs`."""

    family: ClassVar[str]

    @property
    @abstractmethod
    def _extent(self) -> tuple[float, ...]:
        """The step and the shapes."""

    @abstractmethod
    def _renyi(self, order: Floats) -> Floats:
        """Return the larger divergence of the two directions."""

    @abstractmethod
    def _log_delta(self, epsilon: Floats) -> Floats:
        """Return the larger log δ of the two directions, for a row of ε."""

    def _check_positive(self, *names: str) -> None:
        for name in names:
            value = real(name, getattr(self, name))
            if value == 0:
                raise InvalidValue(f"{name} must be > 0. Got {value}")
            object.__setattr__(self, name, value)

    @property
    def sharp(self) -> bool:
        """Whether the rounding that is allowed for stays small beside the log-ratio itself."""
        return min(self._extent) >= 1e-12 and max(self._extent) <= 1e12

    @property
    def _hopeless(self) -> bool:
        """Whether a number lies where a double's range ends: then nothing is claimed, δ = 1 and an infinite curve."""
        return min(self._extent) < 1e-100 or max(self._extent) > 1e100

    def to_dict(self) -> dict[str, object]:
        """Return the pairs as a plain dictionary."""
        return {"family": self.family} | asdict(self)

    def renyi(self, order: Floats) -> Floats:
        """Return the Rényi divergence at each order >= 1, the supremum over the pairs."""
        return np.full(order.shape, np.inf) if self._hopeless else self._renyi(order) * _UP

    def log_delta(self, epsilon: Floats) -> Floats:
        """Return log δ(ε), the supremum over the pairs."""
        if self._hopeless:
            return np.zeros(epsilon.shape)
        return self._log_delta(np.minimum(epsilon.ravel(), _MOST)).reshape(epsilon.shape)


def slack(x: Floats, step: float, value: Floats) -> Floats:
    """Return a bound on the error of `log_gamma_step`: the log-ratio is lifted by it, which only adds to δ."""
    parts = np.abs(special.gammaln(x)) + np.abs(special.gammaln(x + step))
    return np.asarray(1e-15 * (np.abs(value) + np.where(step > 0.1 * x, parts, 0.0)))


def log_tail(
    log_p: Floats,
    log_q: Floats,
    epsilon: Floats,
    trusted: Mask,
    error: Floats,
    integral: Callable[[Any], Floats],
) -> Floats:
    """Return log(P - e^ε Q), by `integral` where digits are gone, lifted by what rounding can take away.

    Where P and Q are each right to a relative `error`, and their logarithms to an ulp, so is the difference to
    (P + e^ε Q) / (P - e^ε Q) of it, which is at most 2P / (P - e^ε Q).
    """
    with np.errstate(all="ignore"):
        error = error + 2.0**-52 * (epsilon - log_p)
        out = log_p + np.log(-np.expm1(np.minimum(epsilon + log_q - log_p, 0.0)))
        lost = ~(trusted & (out > log_p - 5.0))
        lift = 2 * np.where(lost, 0.0, error) * np.exp(np.where(lost, 0.0, log_p - out))
    if lost.any():
        out[lost] = integral(lost)
    out = np.maximum(out, -1e307)
    return np.minimum(out + (_LIFT + lift + 4e-15 * np.abs(out)), 0.0)
