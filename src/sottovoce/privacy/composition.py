"""Composition: what several releases cost together, for a sequence fixed in advance.

A sequence chosen as the answers come in needs a `PrivacyFilter` instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from sottovoce.privacy.approximate_sampling import SlackProfile
from sottovoce.privacy.binomial_loss import BinomialLoss
from sottovoce.privacy.concentrated import ZeroConcentratedProfile
from sottovoce.privacy.errors import IncompatibleNotions, InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.laplace import DiscreteLaplaceProfile
from sottovoce.privacy.numbers import Floats, shown, sum_up, whole
from sottovoce.privacy.privacy_loss_distribution import Losses, Tilted, discretise, tilted_sums
from sottovoce.privacy.profile import Basis, Profile, shared_relation
from sottovoce.privacy.pure import PureProfile
from sottovoce.privacy.renyi_conversion import renyi_epsilon, renyi_log_delta
from sottovoce.privacy.root_finding import decreasing_root
from sottovoce.privacy.rounding import lifted, root_of_squares

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
_DEEP, _DEEPEST, _FARTHER, _BAND = -45.0, -650.0, 1e-295, 40.0
"""Log δ below which the sum is looked at farther out, and below which no double holds it; the mass that may then move
to infinity; and how far apart, in log δ, the tilts lie."""


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
    remainder = {p: k for p, k in loud.items() if p not in gaussians and p not in zcdps}
    if gaussians:
        mu = root_of_squares((k, p.mu) for p, k in gaussians.items())
        weakest = Basis.weakest(p.basis for p in gaussians)
        remainder[GaussianProfile(mu, basis=weakest, relation=relation)] = 1
    if zcdps:
        rho = sum_up((k, p.rho) for p, k in zcdps.items())
        weakest = Basis.weakest(p.basis for p in zcdps)
        remainder[ZeroConcentratedProfile(rho, basis=weakest, relation=relation)] = 1
    if len(remainder) == 1 and (
        next(iter(remainder.values())) == 1 or (len(loud) == 1 and not next(iter(loud)).pure())
    ):
        only = next(iter(remainder))
        return only if only.basis is basis else replace(only, basis=basis)
    return ComposedProfile(tuple(remainder), tuple(remainder.values()), basis=basis)


def _slackened(given: Sequence[tuple[Profile, int]]) -> Profile:
    """Return the composition of what has slacks: joint laws lie no farther apart than their steps do together."""
    slack = sum_up((count, p.slack) for p, count in given if isinstance(p, SlackProfile))
    inner = compose([p.one if isinstance(p, SlackProfile) else p for p, _ in given], [count for _, count in given])
    return SlackProfile(inner, min(slack, 1.0), basis=Basis.weakest([*(p.basis for p, _ in given), inner.basis]))


def _length(profiles: object) -> int:
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
    of: ClassVar[Callable[..., Profile]] = staticmethod(compose)
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
        out = np.where(epsilon >= self.pure(), -np.inf, out)
        deep = (out < _DEEP) & (out > _DEEPEST)
        if deep.any() and self._responses is None:
            out[deep] = np.minimum(out[deep], self._convolved_deep(epsilon[deep], out[deep]))
        return out

    def _epsilon(self, log_delta: Floats) -> Floats:
        out = np.minimum(renyi_epsilon(self._renyi, log_delta, self.pole), self.pure())
        out = np.where(log_delta == -np.inf, self.pure(), out)
        finite = np.isfinite(log_delta) & np.isfinite(out)
        deep = log_delta < _DEEP
        for at, curve in ((finite & ~deep, self._convolved), (finite & deep, self._log_delta)):
            if at.any():
                high = out[at]
                least = decreasing_root(curve, log_delta[at], np.zeros(high.shape), high)
                out[at] = np.where(curve(np.zeros(1)) <= log_delta[at], 0.0, least)
        return np.asarray(out)

    def _convolved(self, epsilon: Floats) -> Floats:
        """Return log δ(ε) of the law of the summed loss; zero where that is not known."""
        if self._responses is not None:
            return self._responses.log_delta(epsilon)
        return self._largest([law.tilted for law in self._laws], epsilon)

    def _convolved_deep(self, epsilon: Floats, about: Floats) -> Floats:
        """Return log δ(ε) where it is about so small: tilts look there."""
        out = np.zeros(epsilon.shape)
        depths = np.round(-about / _BAND)
        for depth in np.unique(depths).tolist():
            at = depths == depth
            out[at] = self._largest([law.tilted_at(depth * _BAND) for law in self._laws_deep], epsilon[at])
        return out

    @staticmethod
    def _largest(tilted: Sequence[Sequence[Tilted]], epsilon: Floats) -> Floats:
        """Return the larger log δ of the two orders of a pair, each the least of its bounds; zero if there is none."""
        zero = np.zeros(epsilon.shape)
        orders = [np.min([zero, *(bound.log_delta(epsilon) for bound in bounds)], axis=0) for bounds in tilted]
        return np.asarray(np.max(orders, axis=0)) if orders else zero

    @cached_property
    def _responses(self) -> BinomialLoss | None:
        """The privacy loss of k equal responses, which dominate pure parts (Kairouz et al. 2015)."""
        part, count = self.parts[0], self.counts[0]
        response = isinstance(part, PureProfile) or (isinstance(part, DiscreteLaplaceProfile) and part.sensitivity == 1)
        return BinomialLoss(part.pure(), count) if len(self.parts) == 1 and response else None

    @cached_property
    def _laws(self) -> list[_Law]:
        """The laws of the loss of each part, for either order of a pair where they differ."""
        return self._laws_to(math.log(_FAR))

    @cached_property
    def _laws_deep(self) -> list[_Law]:
        """The same laws, farther out."""
        return self._laws_to(math.log(_FARTHER))

    def _laws_to(self, log_delta: float) -> list[_Law]:
        """Return the laws to where log δ of all parts is so small; none where a part has no δ(ε) of its own."""
        parts = [(part, count) for part, count in self._pooled if part.pure() > 0]
        if not parts or len(parts) > _MOST_KINDS or not all(part.has_own_delta for part, _ in parts):
            return []
        counts = [count for _, count in parts]
        far = log_delta - math.log(sum(counts))
        reach = [min(part.pure(), float(part._epsilon(np.array([far]))[0])) for part, _ in parts]
        if not all(map(math.isfinite, reach)):
            return []
        sizes = [math.sqrt(float(part.renyi(min(2.0, (1 + part.pole) / 2)))) for part, _ in parts]
        step = _step(sizes, counts, reach)
        if step > min(_COARSEST, _STRETCH * max(reach)):
            return []
        either = (False, True) if any(part.ordered for part, _ in parts) else (False,)
        return [
            _Law(
                [discretise(part, step, most, back=back) for (part, _), most in zip(parts, reach, strict=True)],
                counts,
                step,
            )
            for back in either
        ]


@dataclass(frozen=True)
class _Law:
    """The losses of the parts on a grid, for one order of the pair, and what follows for their sum."""

    losses: list[Losses]
    counts: list[int]
    step: float
    _at_depth: dict[float, list[Tilted]] = field(default_factory=dict)

    @cached_property
    def tilted(self) -> list[Tilted]:
        """Bounds where δ is not so small."""
        return tilted_sums(self.losses, self.counts, self.step)

    def tilted_at(self, depth: float) -> list[Tilted]:
        """Return bounds where δ is about e^-depth."""
        if depth not in self._at_depth:
            self._at_depth[depth] = tilted_sums(self.losses, self.counts, self.step, (depth,))
        return self._at_depth[depth]


def _step(sizes: Sequence[float], counts: Sequence[int], reach: Sequence[float]) -> float:
    """Return the width of the grid: fine beside every part and beside the sum, coarse enough to transform.

    Chords add about h²/8 to the loss of each part.
    """
    total = math.sqrt(math.fsum(k * size**2 for size, k in zip(sizes, counts, strict=True)))
    fine = min(5e-4 * max(total, 1.0), math.sqrt(1e-4 * total / sum(counts)), min(sizes) / 30)
    return max(fine, max(reach) / _NODES, 8 * total / _NODES, 1e-12)
