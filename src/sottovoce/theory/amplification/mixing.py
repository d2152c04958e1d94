r"""Amplification by mixing: what a profile becomes when the release is passed through a kernel.

Geumlek 2020, Theorem 15 (Balle, Barthe, Gaboardi and Geumlek 2019): if a mechanism is (ε, δ)-private,
then after a kernel it is

1. (ε, γδ)-private for a γ-Dobrushin kernel;
2. (ε, γδ)-private for a (γ, ε̃)-Dobrushin kernel with ε̃ = log(1 + (e^ε − 1)/δ);
3. (ε', γ(1 − e^{ε'−ε}(1−δ)))-private for a γ-Doeblin kernel, ε' = log(1 + γ(e^ε − 1));
4. (ε', γδe^{ε'−ε})-private for a γ-ultra-mixing kernel, with the same ε'.

With the whole curve δ(·) of the mechanism and the whole curve of the kernel's (γ, ε)-Dobrushin coefficients at hand,
(2) implies the other three, so that it alone decides. Write h(u) for δ at e^ε = u, and u' = 1 + γ(u−1).

* (2) is below (1), for γ falls in ε.
* (1) is below (3): every mechanism has h(u') ≤ 1 − u'/u + (u'/u)·h(u), and Dobrushin's γ is never above Doeblin's.
* (2) is below (4): ultra-mixing is local privacy at r = 1/(1−γ), so that the kernel's coefficient at v is at most
  (r−v)₊/(r+1) and (2) at u' at most γ·(h(u') − (1−γ)(u−1))₊/(2−γ), which by the line above is below γ·h(u)·u'/u.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, as_floats
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.pure import PureProfile
from sottovoce.privacy.root_finding import decreasing_root
from sottovoce.privacy.rounding import log_lifted
from sottovoce.privacy.subsampling import mixed_divergence
from sottovoce.theory.amplification.kernel_chains import KernelChain, tilted
from sottovoce.theory.amplification.kernels import Kernel

_ROUND_UP = 1e-12
"""Claims are rounded towards less privacy by more than the arithmetic here can be off."""

_ROUNDING = 1e-14
"""What a difference of probabilities may have lost, for each unit of the ε by whose power one was multiplied."""


def amplify(profile: Profile, kernel: Kernel | Sequence[Kernel]) -> AmplifiedProfile:
    """Return what is provably left of `profile` after the release passes through one kernel, or several in turn.

    >>> from sottovoce.theory.amplification.kernels import randomized_response
    >>> round(amplify(PureProfile(1.0), randomized_response(2, 1.0)).pure(), 4)
    0.4338
    """
    if not isinstance(profile, Profile):
        raise InvalidValue(f"expected a profile to amplify. Got {profile!r}")
    item = kernel if isinstance(kernel, Kernel) else KernelChain(tuple(kernel))
    return AmplifiedProfile(profile, item, basis=Basis.weakest([profile.basis, Basis.BOUND]))


def mixing_bounds(profile: Profile, kernel: Kernel, epsilon: ArrayLike) -> dict[str, Floats]:
    """Return each of the four bounds of Theorem 15 on δ at each ε, by name."""
    points = np.atleast_1d(as_floats("epsilon", epsilon, 0.0))
    return {name: np.exp(value) for name, value in _log_bounds(profile, kernel, points).items()}


def _log_bounds(profile: Profile, kernel: Kernel, epsilon: Floats) -> dict[str, Floats]:
    before = profile._log_delta(epsilon)
    out = {}
    with np.errstate(divide="ignore"):
        out["dobrushin"] = before + np.log(kernel.dobrushin)
        out["epsilon-dobrushin"] = before + np.log(kernel.spread(tilted(epsilon, before)))
        gamma = kernel.doeblin
        wide = _source(epsilon, gamma)
        out["doeblin"] = np.log(gamma) + np.log(
            -np.expm1(epsilon - wide) + np.exp(epsilon - wide + profile._log_delta(wide))
        )
        gamma = kernel.ultra_mixing
        wide = _source(epsilon, gamma)
        out["ultra-mixing"] = np.log(gamma) + profile._log_delta(wide) + epsilon - wide
    return out


def _source(epsilon: Floats, gamma: float) -> Floats:
    """Return the ε that shrinks to the given ε' = log(1 + γ(e^ε − 1))."""
    ratio = 1 / max(gamma, 1e-300)
    near = np.expm1(np.minimum(epsilon, 500.0))
    with np.errstate(over="ignore"):
        product = near * ratio
    # Beyond what a double holds, the 1 is nothing beside it.
    far = np.where(epsilon > 500, epsilon, np.log(np.maximum(near, 1e-300))) + math.log(ratio)
    return np.where((epsilon > 500) | np.isinf(product), far, np.log1p(product))


@dataclass(frozen=True)
class AmplifiedProfile(Profile):
    r"""A profile after a kernel: the best of Theorem 15 at every ε, which is its (2); made by `amplify`.

    Every Csiszár divergence shrinks by Dobrushin's γ (Cohen et al. 1993), which bounds the Rényi curve:

    .. math:: R'(\lambda) \le \frac{\log\big(1 + \gamma(e^{(\lambda-1)R(\lambda)} - 1)\big)}{\lambda-1}

    >>> from sottovoce.theory.amplification.kernels import randomized_response
    >>> from sottovoce.privacy.gaussian import GaussianProfile
    >>> round(amplify(GaussianProfile(1.0), randomized_response(3, 0.5)).delta(0.1), 4)
    0.0338
    """

    word: ClassVar[str] = "amplified"
    profile: Profile
    kernel: Kernel

    def __post_init__(self) -> None:
        if not isinstance(self.profile, Profile) or not isinstance(self.kernel, Kernel):
            raise InvalidValue(f"expected a profile and a kernel. Got {self.profile!r} and {self.kernel!r}")
        object.__setattr__(self, "relation", self.profile.relation)
        object.__setattr__(self, "basis", Basis.weakest([self.profile.basis, self.basis]))

    @property
    def has_own_delta(self) -> bool:  # type: ignore[override]
        """Whether the profile before had one: (2) keeps a convex curve convex, as compositions need it."""
        return self.profile.has_own_delta

    def pure(self) -> float:
        """Return where (2) reaches δ = 0: where ε̃ is the kernel's own level of local privacy."""
        return self._level

    @cached_property
    def _level(self) -> float:
        local, before = self.kernel.level * (1 + _ROUND_UP), self.profile.pure()
        if math.isinf(local):
            return before
        high = np.array([min(local, before)])
        return float(decreasing_root(self._minus_tilted, np.array([-local]), np.zeros(1), high)[0])

    def _minus_tilted(self, epsilon: Floats) -> Floats:
        return -tilted(epsilon, self.profile._log_delta(epsilon))

    def _log_delta(self, epsilon: Floats) -> Floats:
        before = self.profile._log_delta(epsilon)
        local = tilted(epsilon, before)
        with np.errstate(divide="ignore"):
            after = before + np.log(self.kernel.spread(local) + _ROUNDING * np.clip(local, 1.0, 1e3))
        return np.where(epsilon >= self.pure(), -np.inf, np.minimum(before, log_lifted(after)))

    def _renyi(self, order: Floats) -> Floats:
        gamma = self.kernel.dobrushin
        best = mixed_divergence(self.profile._renyi(order), order, gamma) if gamma > 0 else np.zeros(order.shape)
        level = self.pure()
        return np.minimum(best, PureProfile(level)._renyi(order)) if math.isfinite(level) else best

    def zcdp(self) -> float:
        """Return the least known ρ: the profile's before, or that of the amplified pure level."""
        level = self.pure()
        return min(self.profile.zcdp(), PureProfile(level).zcdp() if math.isfinite(level) else math.inf)

    def gdp(self) -> float:
        """Return the least known μ: the profile's before, or that of the amplified pure level."""
        level = self.pure()
        return min(self.profile.gdp(), PureProfile(level).gdp() if math.isfinite(level) else math.inf)

    @property
    def pole(self) -> float:
        """The pole before, or none where the kernel makes the release purely private."""
        return math.inf if math.isfinite(self.pure()) else self.profile.pole

    def _state(self) -> dict[str, object]:
        return {"before": self.profile.to_dict(), "kernel": self.kernel.to_dict()}

    @classmethod
    def _from_state(cls, state: dict[str, Any], basis: Basis) -> Self:
        return cls(Profile.from_dict(state["before"]), Kernel.from_dict(state["kernel"]), basis=basis)
