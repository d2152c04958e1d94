r"""Amplification by mixing: what a profile becomes when the release is passed through a kernel.

Geumlek 2020, Theorem 15 (Balle, Barthe, Gaboardi and Geumlek 2019): if a mechanism is (ε, δ)-private,
then after a kernel it is

1. (ε, γδ)-private for a γ-Dobrushin kernel;
2. (ε, γδ)-private for a (γ, ε̃)-Dobrushin kernel with ε̃ = log(1 + (e^ε − 1)/δ);
3. (ε', γ(1 − e^{ε'−ε}(1−δ)))-private for a γ-Doeblin kernel, ε' = log(1 + γ(e^ε − 1));
4. (ε', γδe^{ε'−ε})-private for a γ-ultra-mixing kernel, with the same ε'.

Since Dobrushin's γ is never above Doeblin's, (1) implies (3): for u' = e^{ε'} ≤ u = e^ε,
δ(ε') ≤ 1 − u'/u + (u'/u)·δ(ε) for every mechanism. And (2) implies (1). So (2) and (4) decide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.amplification.chains import KernelChain, tilted
from sottovoce.amplification.kernels import Kernel
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, as_floats, decreasing_root
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.pure import PureProfile

__all__ = ["AmplifiedProfile", "amplify", "mixing_bounds"]

_ROUND_UP = 1e-13
"""Claims are rounded towards less privacy by more than the arithmetic here can be off."""


def amplify(profile: Profile, kernel: Kernel | Sequence[Kernel]) -> AmplifiedProfile:
    """Return what is provably left of `profile` after the release passes through one kernel, or several in turn.

    >>> from sottovoce.amplification.kernels import randomized_response
    >>> round(amplify(PureProfile(1.0), randomized_response(2, 1.0)).pure(), 4)
    0.4338
    """
    one = kernel if isinstance(kernel, Kernel) else KernelChain(tuple(kernel))
    return AmplifiedProfile(profile, one, basis=Basis.weakest([profile.basis, Basis.BOUND]))


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
    return np.where(epsilon > 500, epsilon + math.log(ratio), np.log1p(np.expm1(np.minimum(epsilon, 500.0)) * ratio))


@dataclass(frozen=True)
class AmplifiedProfile(Profile):
    r"""A profile after a kernel: the best of Theorem 15 at every ε; made by `amplify`.

    Every Csiszár divergence shrinks by Dobrushin's γ (Cohen et al. 1993), which bounds the Rényi curve:

    .. math:: R'(\lambda) \le \frac{\log\big(1 + \gamma(e^{(\lambda-1)R(\lambda)} - 1)\big)}{\lambda-1}

    >>> from sottovoce.amplification.kernels import randomized_response
    >>> from sottovoce.privacy.gaussian import GaussianProfile
    >>> round(amplify(GaussianProfile(1.0), randomized_response(3, 0.5)).delta(0.1), 4)
    0.0338
    """

    word: ClassVar[str] = "amplified"
    # The least of several bounds need not be a convex curve, which a privacy-loss distribution asks for:
    # compositions go by the Rényi curve.
    has_own_delta: ClassVar[bool] = False
    profile: Profile
    kernel: Kernel

    def __post_init__(self) -> None:
        if not isinstance(self.profile, Profile) or not isinstance(self.kernel, Kernel):
            raise InvalidValue(f"expected a profile and a kernel. Got {self.profile!r} and {self.kernel!r}")

    @cached_property
    def _one_by_one(self) -> Profile | None:
        """The same chain amplified part by part, which may be tighter than all at once."""
        if not isinstance(self.kernel, KernelChain):
            return None
        profile = self.profile
        for part in self.kernel.parts:
            profile = amplify(profile, part)
        return profile

    def pure(self) -> float:
        """Return the least of what (2), (4) and the profile before say.

        The kernel is locally private at its own level ε_K = log 1/(1−γ), so that (2) gives δ' = 0 from where ε̃ = ε_K.
        """
        return self._level

    @cached_property
    def _level(self) -> float:
        gamma, before = self.kernel.ultra_mixing, self.profile.pure()
        best = before
        if gamma < 1:
            local = -math.log1p(-gamma) * (1 + _ROUND_UP)
            high = np.array([min(local, before)])
            best = float(decreasing_root(self._minus_tilted, np.array([-local]), np.zeros(1), high)[0])
            mixed = math.log1p(gamma * math.expm1(before)) if before < 700 else before
            best = min(best, before, mixed * (1 + _ROUND_UP))
        return best if self._one_by_one is None else min(best, self._one_by_one.pure())

    def _minus_tilted(self, epsilon: Floats) -> Floats:
        return -tilted(epsilon, self.profile._log_delta(epsilon))

    def _log_delta(self, epsilon: Floats) -> Floats:
        bounds = _log_bounds(self.profile, self.kernel, epsilon)
        best = np.minimum.reduce(list(bounds.values())) + _ROUND_UP
        best = np.minimum(best, self.profile._log_delta(epsilon))
        if self._one_by_one is not None:
            best = np.minimum(best, self._one_by_one._log_delta(epsilon))
        return np.where(epsilon >= self.pure(), -np.inf, best)

    def _renyi(self, order: Floats) -> Floats:
        before = self.profile._renyi(order)
        gap = order - 1
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            power, log_gamma = gap * before, np.log(self.kernel.dobrushin)
            large = np.logaddexp(np.log1p(-min(self.kernel.dobrushin, 1.0)), log_gamma + power)
            shrunk = np.where(power < 1, np.log1p(self.kernel.dobrushin * np.expm1(power)), large) / gap
        shrunk = np.where(gap > 0, shrunk, self.kernel.dobrushin * before) * (1 + _ROUND_UP)
        best = np.minimum(before, np.where(np.isnan(shrunk), np.inf, shrunk))
        level = self.pure()
        if math.isfinite(level):
            best = np.minimum(best, PureProfile(level)._renyi(order))
        return best if self._one_by_one is None else np.minimum(best, self._one_by_one._renyi(order))

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

    def _state(self) -> dict[str, Any]:
        return {"before": self.profile.to_dict(), "kernel": self.kernel.to_dict()}

    @classmethod
    def _from_state(cls, state: dict[str, Any], basis: Basis) -> Self:
        return cls(Profile.from_dict(state["before"]), Kernel.from_dict(state["kernel"]), basis=basis)
