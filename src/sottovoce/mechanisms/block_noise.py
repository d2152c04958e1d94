"""Noise on blocks of statistics: what it costs, and the least of it that keeps a promise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.integer_noise import IntegerNoise, NoiseKind
from sottovoce.privacy.composition import compose
from sottovoce.privacy.concentrated import ZeroConcentratedProfile
from sottovoce.privacy.discrete_gaussian import DiscreteGaussianProfile
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.laplace import DiscreteLaplaceProfile
from sottovoce.privacy.numbers import Floats, as_floats, ceil_float
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import ApproxDP, Promise
from sottovoce.privacy.pure import PureProfile
from sottovoce.privacy.relation import REPLACE_ONE, Relation
from sottovoce.records.readings import Block
from sottovoce.records.readings.base import Sensitivity

KINDS: tuple[NoiseKind, ...] = ("laplace", "gaussian")


def noise_profile(noises: Sequence[IntegerNoise], blocks: Sequence[Block], relation: Relation = REPLACE_ONE) -> Profile:
    """Return the profile of noise on blocks of statistics, all of which one record may move: exact on counts."""
    parts = [_one_noise(noise, block.movement) for noise, block in zip(noises, blocks, strict=True)]
    profiles, counts = zip(*parts, strict=True)
    return compose([profile.about(relation) for profile in profiles], list(counts))


def _one_noise(noise: IntegerNoise, movement: Sensitivity) -> tuple[Profile, int]:
    """Return the profile of a noise on so many coordinates that move alike, and how many those are."""
    if noise.kind == "laplace":
        if movement.cells:
            return DiscreteLaplaceProfile(noise.scale, movement.width), movement.cells
        return PureProfile(ceil_float(Fraction(movement.total or 0) / Fraction(noise.scale))), 1
    if movement.cells in (1, 2) and noise.scale <= DiscreteGaussianProfile.most:
        return DiscreteGaussianProfile(noise.scale, movement.width, movement.cells), 1
    return ZeroConcentratedProfile(ceil_float(Fraction(movement.squares) / (2 * Fraction(noise.scale) ** 2))), 1


def adds_up(movement: Sensitivity) -> bool:
    """Say whether the sum of all moves is bounded, which Laplace noise needs."""
    return bool(movement.cells) or movement.total is not None


def check_kind(noise: NoiseKind, movement: Sensitivity) -> None:
    """Refuse Laplace noise where another is less."""
    if noise == "laplace" and not adds_up(movement):
        raise InvalidValue("Laplace noise on vectors costs √d more than need be; use noise='gaussian'")


def _moved(noise: NoiseKind, movement: Sensitivity) -> float:
    """Return how far one record moves a block, in its own unit: half of L1, or L2 over √2; for a table, one."""
    if noise == "gaussian":
        return float(movement.grid * np.sqrt(movement.squares / 2))
    return movement.grid * (movement.cells * movement.width if movement.cells else float(movement.total or 0)) / 2


def shares_of(count: int, names: Sequence[str], shares: Mapping[str, float] | Sequence[float] | None) -> Floats:
    """Return the share of each block, of a sum of one."""
    if shares is None:
        return np.full(count, 1 / count)
    if isinstance(shares, Mapping):
        if set(shares) != set(names) or len(set(names)) < count:
            raise InvalidValue(f"shares must name each of {', '.join(names)} once. Got {', '.join(map(str, shares))}")
        shares = [shares[name] for name in names]
    parts = np.atleast_1d(as_floats("shares", list(shares), 0.0))
    if parts.shape != (count,) or not np.all((parts > 0) & np.isfinite(parts)):
        raise InvalidValue(f"shares must be {count} positive numbers. Got {list(shares)}")
    return np.asarray(parts / parts.sum())


def least_scales(noise: NoiseKind, blocks: Sequence[Block], shares: Floats, target: Promise) -> list[float]:
    """Return the least scales in the proportion of the shares that keep the promise, looking at 1/scale."""
    if noise not in KINDS:
        raise InvalidValue(f"noise must be 'laplace' or 'gaussian'. Got {noise!r}")
    for block in blocks:
        check_kind(noise, block.movement)
    weights = shares if noise == "laplace" else np.sqrt(shares)
    sizes = [_moved(noise, block.movement) for block in blocks]

    def scales(inverse: float) -> list[float]:
        return [float(size / (inverse * w)) for size, w in zip(sizes, weights, strict=True)]

    def profile(inverse: float) -> Profile:
        pairs = zip(scales(inverse), blocks, strict=True)
        return noise_profile([IntegerNoise(noise, scale / b.movement.grid) for scale, b in pairs], blocks)

    high = most = 100.0
    composed = len(blocks) > 1 or blocks[0].movement.cells > 1
    if (composed or noise == "gaussian") and isinstance(target, ApproxDP) and target.delta > 0:
        # A quick bound says where to look: to sum or compose noises far from the answer's would take long.
        def quick(inverse: float) -> Profile:
            return ZeroConcentratedProfile(profile(inverse).zcdp())

        high = min(high, 4 * largest_keeping(quick, target, high=high, name="1/scale"))
        if noise == "laplace":
            high = max(high, largest_keeping(lambda c: PureProfile(2 * c), target, high=most, name="1/scale"))
    result = largest_keeping(profile, target, high=high, name="1/scale")
    return scales(
        result if result < high or high == most else largest_keeping(profile, target, high=most, name="1/scale")
    )
