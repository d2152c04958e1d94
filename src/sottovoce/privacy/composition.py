"""Composition: what several releases cost together, for a sequence fixed in advance.

A sequence chosen as the answers come in needs a `PrivacyFilter` instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from scipy import special

from sottovoce.privacy.concentrated import ZeroConcentratedProfile
from sottovoce.privacy.convert import renyi_epsilon, renyi_log_delta
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.pure import PureProfile

__all__ = ["ComposedProfile", "compose"]

_TAIL = 1e-15
"""Mass of the privacy loss that each convolution may move to infinity; it is added to δ."""
_FAR = 1e-18
"""The same for each part by itself."""


def compose(profiles: Sequence[Profile], counts: Sequence[int] | None = None) -> Profile:
    """Return the profile of all the releases together, `counts[i]` of the i-th.

    Gaussian and zero-concentrated parts merge in closed form, as do repetitions of one pure profile; mixed parts
    that have a δ(ε) of their own compose as privacy-loss distributions; otherwise the Rényi curves add.

    >>> compose([GaussianProfile(3.0), GaussianProfile(4.0)]).gdp()
    5.0
    """
    if not profiles:
        raise InvalidValue("there is nothing to compose; give at least one profile")
    parts: dict[Profile, int] = {}
    for profile, count in zip(profiles, counts or [1] * len(profiles), strict=True):
        inner = (
            zip(profile.parts, profile.counts, strict=True) if isinstance(profile, ComposedProfile) else [(profile, 1)]
        )
        for part, times in inner:
            parts[part] = parts.get(part, 0) + times * count
    basis = Basis.weakest(part.basis for part in parts)
    gaussians = {p: k for p, k in parts.items() if isinstance(p, GaussianProfile)}
    zcdps = {p: k for p, k in parts.items() if isinstance(p, ZeroConcentratedProfile)}
    rest = {p: k for p, k in parts.items() if p not in gaussians and p not in zcdps}
    if gaussians:
        mu = math.sqrt(math.fsum(k * p.mu**2 for p, k in gaussians.items()))
        rest[GaussianProfile(mu, basis=Basis.weakest(p.basis for p in gaussians))] = 1
    if zcdps:
        rho = math.fsum(k * p.rho for p, k in zcdps.items())
        rest[ZeroConcentratedProfile(rho, basis=Basis.weakest(p.basis for p in zcdps))] = 1
    if len(rest) == 1 and next(iter(rest.values())) == 1:
        return next(iter(rest))
    return ComposedProfile(tuple(rest), tuple(rest.values()), basis=basis)


@dataclass(frozen=True)
class ComposedProfile(Profile):
    """Several releases together; made by `+`, `*` and `compose`."""

    word: ClassVar[str] = "composed"
    parts: tuple[Profile, ...]
    counts: tuple[int, ...]

    def _each(self) -> zip[tuple[Profile, int]]:
        return zip(self.parts, self.counts, strict=True)

    @property
    def pole(self) -> float:
        """The smallest pole of the parts."""
        return min(p.pole for p in self.parts)

    def pure(self) -> float:
        """Return the sum of the parts' pure levels."""
        return math.fsum(k * p.pure() for p, k in self._each())

    def zcdp(self) -> float:
        """Return the sum of the parts' ρ."""
        return math.fsum(k * p.zcdp() for p, k in self._each())

    def gdp(self) -> float:
        """Return the root of the sum of the parts' μ²."""
        return math.sqrt(math.fsum(k * p.gdp() ** 2 for p, k in self._each()))

    def _renyi(self, order: Floats) -> Floats:
        return np.asarray(np.sum([k * p._renyi(order) for p, k in self._each()], axis=0))

    def _log_delta(self, epsilon: Floats) -> Floats:
        out = np.where(epsilon >= self.pure(), -np.inf, renyi_log_delta(self._renyi, epsilon, self.pole))
        with np.errstate(divide="ignore"):
            if self._binomial is not None:
                losses, probabilities = self._binomial
                excess = -np.expm1(np.minimum(epsilon[..., None] - losses, 0.0))
                out = np.minimum(out, np.log(excess @ probabilities))
            elif self._losses is not None:
                mass = np.array([self._losses.get_delta_for_epsilon(e) for e in epsilon.ravel().tolist()])
                out = np.minimum(out, np.log(mass).reshape(epsilon.shape))
        return out

    def _epsilon(self, log_delta: Floats) -> Floats:
        if self._binomial is not None:
            return super()._epsilon(log_delta)
        out = np.minimum(renyi_epsilon(self._renyi, log_delta, self.pole), self.pure())
        if self._losses is not None:
            least = [self._losses.get_epsilon_for_delta(math.exp(d)) for d in log_delta.ravel().tolist()]
            out = np.minimum(out, np.array(least).reshape(log_delta.shape))
        return np.asarray(out)

    @cached_property
    def _binomial(self) -> tuple[Floats, Floats] | None:
        """The privacy loss of k equal pure parts: k-fold randomized response (Kairouz et al. 2015)."""
        part, count = self.parts[0], self.counts[0]
        if len(self.parts) > 1 or not isinstance(part, PureProfile):
            return None
        hits = np.arange(count + 1)
        log_choose = special.gammaln(count + 1) - special.gammaln(hits + 1) - special.gammaln(count - hits + 1)
        logs = log_choose + hits * special.log_expit(part.level) + (count - hits) * special.log_expit(-part.level)
        return np.asarray(part.level * (2.0 * hits - count)), np.asarray(np.exp(logs))

    @cached_property
    def _losses(self) -> Any:
        """The composed privacy-loss distribution; None where a part has no δ(ε) of its own."""
        from dp_accounting.pld import pld_pmf  # noqa: PLC0415 - half of the import time of the whole package

        if not all(p.has_own_delta for p in self.parts):
            return None
        reach = [_reach(p) for p in self.parts]
        if not all(map(math.isfinite, reach)):
            return None
        step = min(1e-4, *(math.sqrt(float(p.renyi(min(2.0, (1 + p.pole) / 2)))) / 50 for p in self.parts))
        step = max(step, max(reach) / 5e5)
        total = None
        for (part, count), far in zip(self._each(), reach, strict=True):
            pmf = _discretise(part, far, step)
            pmf = pmf.self_compose(count, _TAIL) if count > 1 else pmf
            total = pmf if total is None else pld_pmf.compose_pmfs(total, pmf, _TAIL)
        return total

    def _state(self) -> dict[str, Any]:
        return {"parts": [p.to_dict() for p in self.parts], "counts": list(self.counts)}

    @classmethod
    def _from_state(cls, state: dict[str, Any], basis: Basis) -> Self:
        return cls(tuple(Profile.from_dict(p) for p in state["parts"]), tuple(state["counts"]), basis=basis)


def _reach(profile: Profile) -> float:
    """Return an ε beyond which the profile's δ is negligible."""
    return min(profile.pure(), float(profile.epsilon(_FAR)))


def _discretise(profile: Profile, reach: float, step: float) -> Any:
    """Return a pessimistic privacy-loss distribution of δ(ε) (Doroshenko et al. 2022, connect the dots)."""
    top = max(math.ceil(reach / step), 1)
    grid = np.arange(-top, top + 1)
    positive = np.exp(profile._log_delta(step * np.arange(top + 1.0)))
    # The set of neighbouring pairs is closed under swapping, which fixes the curve left of zero.
    decay = np.exp(-step * np.arange(top, 0, -1))
    negative = 1 - decay + decay * positive[:0:-1]
    deltas = np.clip(np.concatenate([negative, positive]), 0.0, 1.0)
    deltas = np.maximum.accumulate(deltas[::-1])[::-1]  # rounding must not make the curve rise: lift it
    from dp_accounting.pld import pld_pmf  # noqa: PLC0415

    return pld_pmf.create_pmf_pessimistic_connect_dots(step, grid, deltas)
