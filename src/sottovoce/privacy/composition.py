"""Composition: what several releases cost together, for a sequence fixed in advance.

A sequence chosen as the answers come in needs a `PrivacyFilter` instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy import special

from sottovoce.privacy.concentrated import ZeroConcentratedProfile
from sottovoce.privacy.convert import renyi_epsilon, renyi_log_delta
from sottovoce.privacy.errors import IncompatibleNotions, InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.laplace import DiscreteLaplaceProfile
from sottovoce.privacy.losses import Tilted, discretise, tilted_sums
from sottovoce.privacy.numbers import Floats, shown, sum_up, whole
from sottovoce.privacy.profile import Basis, Profile, shared_relation
from sottovoce.privacy.pure import PureProfile
from sottovoce.privacy.roots import decreasing_root
from sottovoce.privacy.rounding import lifted, log_lifted, root_of_squares
from sottovoce.privacy.slack import SlackProfile

__all__ = ["ComposedProfile", "compose"]

_FAR = 1e-22
"""Mass of the privacy loss of all parts together that may move to infinity; it is added to δ."""
_NODES = 2**18
"""How many nodes a part, and the standard deviation of the sum, may have on the grid."""
_COARSEST = 100.0
"""The widest step of a grid; beyond, its exponentials are no doubles."""
_STRETCH = 8.0
"""How many times the largest loss of any part a step may be; beyond, the grid adds so much that it says nothing."""
_MOST = 10**12
"""The largest number of repetitions."""
_MOST_KINDS = 100
"""How many different parts are convolved; beyond, pure levels are pooled and the Rényi curves add."""
_MOST_BINOMIAL = 10**6
"""The largest number of equal responses that is summed term by term."""


def compose(profiles: Sequence[Profile], counts: Sequence[int] | None = None) -> Profile:
    """Return the profile of all the releases together, `counts[i]` of the i-th.

    Gaussian and zero-concentrated parts merge in closed form, as do repetitions of one pure profile; mixed parts
    that have a δ(ε) of their own compose as privacy-loss distributions; otherwise the Rényi curves add.

    >>> compose([GaussianProfile(3.0), GaussianProfile(4.0)]).gdp()
    5.0
    """
    parts: dict[Profile, int] = {}
    given = _pairs(profiles, [1] * _length(profiles) if counts is None else counts)
    if any(isinstance(profile, SlackProfile) for profile, _ in given):
        return _slackened(given)
    for profile, count in given:
        inner = profile._each() if isinstance(profile, ComposedProfile) else [(profile, 1)]
        for part, times in inner:
            parts[part] = parts.get(part, 0) + times * count
    basis, relation = Basis.weakest(part.basis for part in parts), shared_relation(parts)
    loud = {p: k for p, k in parts.items() if p.pure() != 0} or dict([next(iter(parts.items()))])
    gaussians = {p: k for p, k in loud.items() if isinstance(p, GaussianProfile)}
    zcdps = {p: k for p, k in loud.items() if isinstance(p, ZeroConcentratedProfile)}
    rest = {p: k for p, k in loud.items() if p not in gaussians and p not in zcdps}
    if gaussians:
        mu = root_of_squares((k, p.mu) for p, k in gaussians.items())
        weakest = Basis.weakest(p.basis for p in gaussians)
        rest[GaussianProfile(mu, basis=weakest, relation=relation)] = 1
    if zcdps:
        rho = sum_up((k, p.rho) for p, k in zcdps.items())
        weakest = Basis.weakest(p.basis for p in zcdps)
        rest[ZeroConcentratedProfile(rho, basis=weakest, relation=relation)] = 1
    if len(rest) == 1 and (next(iter(rest.values())) == 1 or (len(loud) == 1 and not next(iter(loud)).pure())):
        only = next(iter(rest))
        return only if only.basis is basis else replace(only, basis=basis)
    return ComposedProfile(tuple(rest), tuple(rest.values()), basis=basis)


def _slackened(given: Sequence[tuple[Profile, int]]) -> Profile:
    """Return the composition of what has slacks: joint laws lie no farther apart than their steps do together."""
    slack = sum_up((count, p.slack) for p, count in given if isinstance(p, SlackProfile))
    inner = compose([p.one if isinstance(p, SlackProfile) else p for p, _ in given], [count for _, count in given])
    return SlackProfile(inner, min(slack, 1.0), basis=Basis.weakest([*(p.basis for p, _ in given), inner.basis]))


def _length(profiles: Any) -> int:
    if not isinstance(profiles, Sequence) or isinstance(profiles, str | bytes):
        raise IncompatibleNotions(f"a list of profiles composes. Got {shown(profiles)}")
    return len(profiles)


def _pairs(profiles: Any, counts: Any) -> list[tuple[Profile, int]]:
    """Return the profiles with their counts, checked."""
    if not _length(profiles):
        raise InvalidValue("there is nothing to compose; give at least one profile")
    given = counts.tolist() if isinstance(counts, np.ndarray) else counts
    if not isinstance(given, Sequence) or isinstance(given, str | bytes) or len(given) != len(profiles):
        raise InvalidValue(f"give one count for each of the {len(profiles)} profiles. Got {shown(counts)}")
    for profile in profiles:
        if not isinstance(profile, Profile):
            raise IncompatibleNotions(f"only profiles compose. Got {shown(profile)}")
    return [(profile, whole("a count", count, 1, _MOST)) for profile, count in zip(profiles, given, strict=True)]


@dataclass(frozen=True)
class ComposedProfile(Profile):
    """Several releases together; made by `+`, `*` and `compose`."""

    word: ClassVar[str] = "composed"
    parts: tuple[Profile, ...]
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        pairs = _pairs(self.parts, self.counts)
        object.__setattr__(self, "parts", tuple(part for part, _ in pairs))
        object.__setattr__(self, "counts", tuple(count for _, count in pairs))
        object.__setattr__(self, "relation", shared_relation(self.parts))

    def _each(self) -> Iterator[tuple[Profile, int]]:
        return zip(self.parts, self.counts, strict=True)

    @property
    def pole(self) -> float:
        """The smallest pole of the parts."""
        return min(p.pole for p in self.parts)

    def pure(self) -> float:
        """Return the sum of the parts' pure levels, rounded up."""
        return sum_up((k, p.pure()) for p, k in self._each())

    def zcdp(self) -> float:
        """Return the sum of the parts' ρ, rounded up."""
        return sum_up((k, p.zcdp()) for p, k in self._each())

    def gdp(self) -> float:
        """Return the root of the sum of the parts' μ², rounded up."""
        return root_of_squares((k, p.gdp()) for p, k in self._each())

    @cached_property
    def _pooled(self) -> list[tuple[Profile, int]]:
        """The parts, in one order however they were named; of many, pure levels are rounded up, which adds loss."""
        each = sorted(self._each(), key=lambda pair: pair[0].text)
        levels = np.array([p.level for p in self.parts if isinstance(p, PureProfile) and p.level > 0])
        if len(self.parts) <= _MOST_KINDS or levels.size < 2:
            return each
        low, high = float(levels.min()), float(levels.max())
        ratio = max(0.03, math.log(high / low) / (_MOST_KINDS - 10))
        pool: dict[Profile, int] = {}
        for part, count in each:
            stands: Profile = part
            if isinstance(part, PureProfile) and part.level > 0:
                up = low * math.exp(ratio * math.ceil(math.log(part.level / low) / ratio)) * (1 + 1e-12)
                stands = PureProfile(min(max(up, part.level), high))
            pool[stands] = pool.get(stands, 0) + count
        return list(pool.items())

    def _renyi(self, order: Floats) -> Floats:
        total = np.zeros(np.shape(order))
        for part, count in self._pooled:
            total = total + count * part._renyi(order)
        return lifted(total, 1 + 2.0**-52 * (len(self._pooled) + 3))

    def _log_delta(self, epsilon: Floats) -> Floats:
        out = np.minimum(renyi_log_delta(self._renyi, epsilon, self.pole), self._convolved(epsilon))
        return np.where(epsilon >= self.pure(), -np.inf, out)

    def _epsilon(self, log_delta: Floats) -> Floats:
        out = np.minimum(renyi_epsilon(self._renyi, log_delta, self.pole), self.pure())
        out = np.where(log_delta == -np.inf, self.pure(), out)
        finite = np.isfinite(log_delta) & np.isfinite(out)
        if finite.any():
            high = out[finite]
            least = decreasing_root(self._convolved, log_delta[finite], np.zeros(high.shape), high)
            out[finite] = np.where(self._convolved(np.zeros(1)) <= log_delta[finite], 0.0, least)
        return np.asarray(out)

    def _convolved(self, epsilon: Floats) -> Floats:
        """Return log δ(ε) of the law of the summed loss; zero where that is not known."""
        if self._binomial is None:
            bounds = [tilted.log_delta(epsilon) for tilted in self._tilted]
            return np.asarray(np.min([np.zeros(epsilon.shape), *bounds], axis=0))
        losses, probabilities = self._binomial
        places = zip(epsilon.ravel().tolist(), np.searchsorted(losses, epsilon.ravel()).tolist(), strict=True)
        flat = [float(-np.expm1(e - losses[k:]) @ probabilities[k:]) for e, k in places]  # lower losses add nothing
        with np.errstate(divide="ignore"):
            return log_lifted(np.log(flat)).reshape(epsilon.shape)

    @cached_property
    def _binomial(self) -> tuple[Floats, Floats] | None:
        """The privacy loss of k equal responses, which dominate pure parts (Kairouz et al. 2015), rounded up."""
        part, count = self.parts[0], self.counts[0]
        response = isinstance(part, PureProfile) or (isinstance(part, DiscreteLaplaceProfile) and part.sensitivity == 1)
        if len(self.parts) > 1 or count > _MOST_BINOMIAL or not response:
            return None
        level, hits = part.pure(), np.arange(count + 1.0)
        terms = [
            np.full(hits.shape, special.gammaln(count + 1.0)),
            -special.gammaln(hits + 1),
            -special.gammaln(count - hits + 1),
            hits * special.log_expit(level),
            (count - hits) * special.log_expit(-level),
        ]
        rounding = 1e-15 * (1 + np.sum(np.abs(terms), axis=0))
        losses, chances = level * (2 * hits - count), np.exp(np.sum(terms, axis=0) + rounding)
        losses, chances = losses[some := chances > 0], chances[some]  # of a million a few ten thousand are no zeros
        return losses + 4e-16 * np.abs(losses), chances

    @cached_property
    def _tilted(self) -> list[Tilted]:
        """Bounds by the composed privacy-loss distribution; none where a part has no δ(ε) of its own."""
        parts = [(part, count) for part, count in self._pooled if part.pure() > 0]
        if not parts or len(parts) > _MOST_KINDS or not all(part.has_own_delta for part, _ in parts):
            return []
        counts = [count for _, count in parts]
        far = math.log(_FAR) - math.log(sum(counts))
        reach = [min(part.pure(), float(part._epsilon(np.array([far]))[0])) for part, _ in parts]
        if not all(map(math.isfinite, reach)):
            return []
        sizes = [math.sqrt(float(part.renyi(min(2.0, (1 + part.pole) / 2)))) for part, _ in parts]
        step = _step(sizes, counts, reach)
        if step > min(_COARSEST, _STRETCH * max(reach)):
            return []
        losses = [discretise(part, step, most) for (part, _), most in zip(parts, reach, strict=True)]
        return tilted_sums(losses, counts, step)


def _step(sizes: Sequence[float], counts: Sequence[int], reach: Sequence[float]) -> float:
    """Return the width of the grid: fine beside every part and beside the sum, coarse enough to transform.

    Chords add about h²/8 to the loss of each part.
    """
    total = math.sqrt(math.fsum(k * size**2 for size, k in zip(sizes, counts, strict=True)))
    fine = min(5e-4 * max(total, 1.0), math.sqrt(1e-4 * total / sum(counts)), min(sizes) / 30)
    return max(fine, max(reach) / _NODES, 8 * total / _NODES, 1e-12)
