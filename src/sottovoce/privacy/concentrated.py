"""Profiles known by their Rényi curve alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, as_floats, real
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.renyi_conversion import renyi_epsilon, renyi_log_delta
from sottovoce.privacy.rounding import LEAST, lifted, product_up

_UP = 1 + 2.0**-48
"""What a chord between two orders may have lost, and more."""


@dataclass(frozen=True)
class ZeroConcentratedProfile(Profile):
    """ρ-zero-concentrated privacy: R(λ) = ρλ (Bun and Steinke 2016); δ(ε) by the best conversion.

    >>> round(ZeroConcentratedProfile(0.1).epsilon(1e-6), 4)
    2.1419
    """

    word: ClassVar[str] = "zcdp"
    has_own_delta: ClassVar[bool] = False
    rho: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", real("rho", self.rho))

    def _log_delta(self, epsilon: Floats) -> Floats:
        return renyi_log_delta(self._renyi, epsilon)

    def _epsilon(self, log_delta: Floats) -> Floats:
        return renyi_epsilon(self._renyi, log_delta) if self.rho else np.zeros(log_delta.shape)

    def _renyi(self, order: Floats) -> Floats:
        return product_up(order, self.rho)

    def pure(self) -> float:
        """Return infinity, or zero for ρ = 0."""
        return 0.0 if self.rho == 0 else np.inf

    def zcdp(self) -> float:
        """Return ρ."""
        return self.rho

    def _twice(self) -> Profile:
        return ZeroConcentratedProfile(4 * self.rho, basis=Basis.weakest([self.basis, Basis.BOUND]))


@dataclass(frozen=True)
class RenyiProfile(Profile):
    """A Rényi curve known at some orders.

    Between two of them the curve follows the chord of (λ-1)R(λ), which is convex, so the chord lies above it; below the
    first it is R at the first, since R never falls; above the last it is infinite.

    >>> RenyiProfile((2.0, 15.0), (0.05, 0.1)).renyi([1.5, 2.0, 16.0])
    array([0.05, 0.05,  inf])
    """

    word: ClassVar[str] = "renyi"
    has_own_delta: ClassVar[bool] = False
    orders: tuple[float, ...]
    epsilons: tuple[float, ...]

    def __post_init__(self) -> None:
        orders = np.atleast_1d(as_floats("orders", self.orders, 1.0))
        epsilons = np.atleast_1d(as_floats("epsilons", self.epsilons, 0.0))
        if orders.ndim != 1 or orders.shape != epsilons.shape or not orders.size:
            raise InvalidValue(
                f"orders and epsilons must be as many, and at least one. Got {orders.size}, {epsilons.size}"
            )
        if np.any(np.diff(orders) <= 0):
            raise InvalidValue("orders must increase")
        object.__setattr__(self, "orders", tuple(orders.tolist()))
        object.__setattr__(self, "epsilons", tuple(epsilons.tolist()))

    @property
    def pole(self) -> float:
        """The last order known; above it nothing is promised."""
        return self.orders[-1]

    def _log_delta(self, epsilon: Floats) -> Floats:
        return renyi_log_delta(self._renyi, epsilon, self.pole)

    def _epsilon(self, log_delta: Floats) -> Floats:
        return renyi_epsilon(self._renyi, log_delta, self.pole)

    def _renyi(self, order: Floats) -> Floats:
        orders, values = np.array(self.orders), np.array(self.epsilons)
        places, unit = orders - 1, np.frexp(values.max())[1]  # in units of its own no product is too small for a double
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            chord = lifted(np.interp(order - 1, places, places * np.ldexp(values, -unit)) / (order - 1), _UP)
            chord = np.ldexp(chord, unit) + np.where(chord > 0, LEAST, 0.0)
        out = np.where(order <= orders[0], values[0], chord)
        out = np.minimum(out, values[np.minimum(np.searchsorted(orders, order), orders.size - 1)])
        return np.where(order > orders[-1], np.inf, out)
