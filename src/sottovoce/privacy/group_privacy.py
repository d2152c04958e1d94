r"""A group of two: what a claim about neighbours says of data sets two steps apart.

One record replaced is one removed and one added, so a claim about adding and removing says something of replacing,
with the data set between the two as the only link. It is not composition: there is one release, seen from further off.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from sottovoce.privacy.derived_profile import DerivedProfile
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.profile import Basis
from sottovoce.privacy.root_finding import least_place
from sottovoce.privacy.rounding import lifted, log_lifted

_SPLITS = np.linspace(0.0, 1.0, 17)
"""How ε may be shared between the two steps; every share gives a true bound."""
_SHARES = np.geomspace(1 / 32, 32.0, 41)
"""g of the weak triangle inequality; every g gives a true bound, and 1 is the best for Gaussian noise."""
_UP = 1 + 1e-14
_FAR, _NO_FLOOR = 700.0, -700.0
"""Where log δ is looked up to see whether it has a floor, and below which it has none that matters."""


@dataclass(frozen=True)
class GroupOfTwo(DerivedProfile):
    r"""What holds at two steps, where `one` holds at each; made by `Profile.replacing`.

    Pure ε becomes 2ε, μ becomes 2μ, ρ becomes 4ρ (Bun and Steinke 2016, Proposition 1.9), and for every 0 ≤ t ≤ ε

    .. math:: \delta_2(\varepsilon) \le \delta(t) + e^t \delta(\varepsilon - t), \qquad
              R_2(\lambda) \le \frac{1+g}{1+g(\lambda-1)/\lambda}\, R(\lambda + (\lambda-1) g) + R(\lambda + \lambda/g),

    the first by the definition twice (at t = ε/2 it is (2ε, (1 + e^ε)δ)), the second, for every g > 0, by the weak
    triangle inequality (Mironov 2017, Proposition 11, with p = 1 + g(λ-1)/λ); at g = 1 it gives 4 times a Gaussian's.

    >>> from sottovoce.privacy.pure import PureProfile
    >>> GroupOfTwo(PureProfile(0.5)).pure()
    1.0
    """

    word: ClassVar[str] = "group-of-two"
    source: ClassVar[str] = "one step"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "basis", Basis.weakest([self.basis, Basis.BOUND]))

    @property
    def pole(self) -> float:
        """P²/(2P - 1): where the weak triangle inequality can no longer keep both orders below the pole P."""
        pole = self.one.pole
        return pole if np.isinf(pole) else pole * (pole / (2 * pole - 1))

    def pure(self) -> float:
        """Return 2ε."""
        return 2 * self.one.pure()

    def zcdp(self) -> float:
        """Return 4ρ."""
        return 4 * self.one.zcdp()

    def gdp(self) -> float:
        """Return 2μ."""
        return 2 * self.one.gdp()

    @cached_property
    def _shared(self) -> float:
        """The ε up to which both steps get more of it: where δ has a floor, e^t times which is added for the first."""
        floor = float(self.one._log_delta(np.array([_FAR]))[0])
        if floor < _NO_FLOOR:
            return np.inf
        top = min(self.one.pure(), _FAR)
        return 2 * least_place(lambda t: np.logaddexp(self.one._log_delta(t), t + floor), top)

    def _log_delta(self, epsilon: Floats) -> Floats:
        full = epsilon[..., None]
        first = np.minimum(full, self._shared) * _SPLITS
        second = np.maximum(np.nextafter(full - first, 0.0), 0.0)  # the two are never more than ε
        shape = first.shape
        near, far = (self.one._log_delta(part.ravel()).reshape(shape) for part in (first, second))
        with np.errstate(invalid="ignore"):
            lost = 1e-15 * (4 + first + np.abs(far))
            best = log_lifted(np.nanmin(np.logaddexp(near, first + far + np.where(np.isinf(far), 0.0, lost)), axis=-1))
        if np.isfinite(mu := self.gdp()):
            best = np.minimum(best, GaussianProfile(mu)._log_delta(epsilon))
        return np.where(epsilon >= self.pure(), -np.inf, best)

    def _renyi(self, order: Floats) -> Floats:
        rate = order[..., None]
        with np.errstate(divide="ignore"):
            even = np.clip(np.sqrt(rate / (rate - 1)), None, 1e9)  # both orders alike: near a pole no other g will do
        g = np.concatenate([np.broadcast_to(_SHARES, (*order.shape, _SHARES.size)), even], axis=-1)
        first, second = lifted(rate + (rate - 1) * g), lifted(rate + rate / g)  # a curve never falls
        item, other = (self.one._renyi(part.ravel()).reshape(g.shape) for part in (first, second))
        factor = (1 + g) / (1 + g * (rate - 1) / rate)
        with np.errstate(invalid="ignore"):
            result = np.min(np.where(np.isfinite(item + other), factor * item + other, np.inf), axis=-1) * _UP
        return np.asarray(np.minimum(result, self.pure()))
