"""Gaussian noise on the integers: the exact curve δ(ε)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy import special

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, as_floats
from sottovoce.privacy.profile import Basis, Profile

__all__ = ["DiscreteGaussianProfile"]


@dataclass(frozen=True)
class DiscreteGaussianProfile(Profile):
    r"""Noise k on the integers with Pr[k] ∝ e^{-k²/(2 scale²)}, on one count or two that each move by `sensitivity`.

    The privacy loss rises with the (sum of the) noise S, so with T(y) = Pr[S > y], shift s = cells·sensitivity and
    variance parameter v = cells·scale²

    .. math:: \delta(\varepsilon) = T(x - s) - e^\varepsilon T(x), \qquad x = \varepsilon v/s + s/2

    (Canonne, Kamath and Steinke 2020, Theorem 7, for one count). The sum of two such noises has
    Pr[S] ∝ e^{-S²/(4 scale²)} times a constant for even and another for odd S. The Rényi curve touches the line
    λ·s²/(2v) wherever (λ-1)·sensitivity is whole, and dips below it in between.

    >>> profile = DiscreteGaussianProfile(scale=2.0)
    >>> round(profile.delta(0.5), 6), profile.zcdp()
    (0.054007, 0.125)
    """

    word: ClassVar[str] = "discrete-gaussian"
    scale: float
    sensitivity: int = 1
    cells: int = 1
    basis: Basis = field(default=Basis.EXACT, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", float(as_floats("scale", self.scale, 0.0)))
        if not 0 < self.scale <= self.most:
            raise InvalidValue(f"scale must be > 0 and at most {self.most:g}. Got {self.scale}")
        whole = float(as_floats("sensitivity", self.sensitivity, 1.0))
        if whole != int(whole):
            raise InvalidValue(f"sensitivity must be a whole number; put the value on a grid first. Got {whole}")
        object.__setattr__(self, "sensitivity", int(whole))
        if self.cells not in (1, 2):
            raise InvalidValue(f"cells must be 1 or 2. Got {self.cells!r}")

    most: ClassVar[float] = 2e5
    """The largest scale whose probabilities are summed one by one."""

    @cached_property
    def _tails(self) -> Floats:
        """T(k) = Pr[S > k] for k = -reach-1 .. reach, summed from the far end."""
        k = np.arange(-self._reach, self._reach + 1.0)
        weights = np.exp(-(k * k) / (2 * self.cells * self.scale**2))
        if self.cells == 2:
            near = np.arange(-np.ceil(30 * self.scale), np.ceil(30 * self.scale) + 1)
            even = np.exp(-((near / self.scale) ** 2)).sum()
            odd = np.exp(-(((near - 0.5) / self.scale) ** 2)).sum()
            weights = weights * np.where(k % 2 == 0, even, odd)
        tails = np.cumsum(weights[::-1])[::-1]
        return np.asarray(np.append(tails / tails[0], 0.0))

    @cached_property
    def _reach(self) -> int:
        return int(np.ceil(38.6 * self.scale * np.sqrt(self.cells))) + self.cells * self.sensitivity + 1

    def _above(self, y: Floats) -> Floats:
        """Return T(y) for real y."""
        index = np.clip(np.floor(y) + self._reach + 1, 0, len(self._tails) - 1)
        return np.asarray(self._tails[index.astype(np.int64)])

    def _log_delta(self, epsilon: Floats) -> Floats:
        shift, spread = self.cells * self.sensitivity, self.cells * self.scale**2
        x = epsilon * (spread / shift) + shift / 2
        top = self._above(x - shift)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            # The digits that the subtraction can lose are added back, and the threshold's own rounding is harmless:
            # at the threshold a term of the sum is zero.
            value = top - np.exp(epsilon + np.log(self._above(x))) + 4e-16 * top
            return np.log(np.clip(value, 0.0, 1.0))

    def _renyi(self, order: Floats) -> Floats:
        line = order * self.zcdp()
        if self.scale > 3:  # the dip between whole numbers is below e^(-2π²·9)
            return line
        offset = ((order - 1) * self.sensitivity) % 1
        k = np.arange(-np.ceil(40 * self.scale) - 1, np.ceil(40 * self.scale) + 2)
        # In logarithms: below a scale of 0.02 every term away from a whole number underflows.
        shifted = special.logsumexp(-((k - offset[..., None]) ** 2) / (2 * self.scale**2), axis=-1)
        dip = np.minimum(shifted - special.logsumexp(-(k**2) / (2 * self.scale**2)), 0.0)
        return np.asarray(line + self.cells * dip / np.maximum(order - 1, 1e-300))

    def zcdp(self) -> float:
        """Return ρ = cells·sensitivity²/(2 scale²)."""
        return self.cells * self.sensitivity**2 / (2 * self.scale**2)
