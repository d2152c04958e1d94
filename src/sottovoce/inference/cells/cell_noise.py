"""The noise on the cells of a question: how it is shared out, and what one record can move beside it."""

from __future__ import annotations

import math

from sottovoce.mechanisms.block_noise import noise_profile
from sottovoce.mechanisms.integer_noise import IntegerNoise, NoiseKind
from sottovoce.privacy.concentrated import ZeroConcentratedProfile
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.lattice import lattice_mu
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.pure import PureProfile
from sottovoce.privacy.relation import REPLACE_ONE, Relation
from sottovoce.records.readings import CellCounts, GroupMoments
from sottovoce.records.readings.group_moments import STEPS

KINDS: tuple[NoiseKind, ...] = ("laplace", "gaussian")
_SLACK = 1 + 1e-9
"""More than the rounding of the few operations that make up a sensitivity."""


def cell_noises(reading: GroupMoments | CellCounts, noise: NoiseKind, scale: float) -> tuple[IntegerNoise, ...]:
    """Return the noise on the counts and on each sum, in whole steps."""
    units = [reading.fine] * reading.counted + [STEPS] * reading.moments
    weights = cell_weights(reading, noise)
    return tuple(IntegerNoise(noise, scale * unit / weight) for unit, weight in zip(units, weights, strict=True))


def cell_weights(reading: GroupMoments | CellCounts, noise: NoiseKind) -> list[float]:
    """Return a, b (for each measure) and c, as far as the reading has them: public numbers, tuned once."""
    if not reading.measures:
        return [1.0]
    if reading.crossed:
        count, square = _crossed_weights(reading, noise)
        return [count] * reading.counted + [1.0, 1.0] + [square] * 3
    measures = len(reading.measures)
    if noise == "laplace":
        count, square = (0.4, 0.2) if reading.counted else (0.0, 0.5)
    elif not reading.counted:
        count, square = 0.0, math.sqrt(1.9 * measures)
    elif reading.cells == 1:
        count, square = math.sqrt(0.8 * measures), math.sqrt(1.3 * measures)
    else:
        count, square = math.sqrt(0.6 * measures), math.sqrt(0.4 * measures)
    return [count] * reading.counted + [1.0] * measures + [square] * reading.squared


def _crossed_weights(reading: GroupMoments | CellCounts, noise: NoiseKind) -> tuple[float, float]:
    """Return a and c beside the sums of two measures (b = 1): what moves no farther than these do, is free.

    Squares are free within a cell up to c = 1, or 1/3 under Laplace noise (`_turned_both`). A record that leaves its
    cell moves 2a² + m(2 + 3c²) where one that stays moves 8: of m = 1 both are as far with c = 1, of m = 2 with
    a² + 3c² = 2, of which three fifths are the counts'. Under Laplace noise nothing is free where there are groups.
    """
    if noise == "laplace":
        return (0.4, 0.1) if reading.counted else (0.0, 1 / 3)
    if not reading.counted:
        return 0.0, 1.0
    return (math.sqrt(1.5), 1.0) if reading.cells == 1 else (math.sqrt(1.2), math.sqrt(0.8 / 3))


def cell_profile(
    reading: GroupMoments | CellCounts, noise: NoiseKind, scale: float, relation: Relation = REPLACE_ONE
) -> Profile:
    """Return what a release provably does: exact where only counts are released."""
    if not reading.measures:
        return _counts_profile(reading, IntegerNoise(noise, scale * reading.fine), relation)
    if noise == "laplace":
        return PureProfile(max(map(sum, _moves(reading, noise, 1, relation))) / scale * _SLACK, relation=relation)
    unit = _SLACK / scale**2
    noises = cell_noises(reading, noise, scale)
    finest, count = min(item.scale for item in noises[reading.counted :]), noises[0].scale
    cases = [[(sums * unit, finest), (counts * unit, count)] for counts, sums in _moves(reading, noise, 2, relation)]
    mu = max(lattice_mu(case, 2 * (1 + reading.moments)) for case in cases)
    if math.isfinite(mu):
        return GaussianProfile(mu, basis=Basis.BOUND, relation=relation)
    return ZeroConcentratedProfile(max(map(sum, _moves(reading, noise, 2, relation))) * unit / 2, relation=relation)


def _counts_profile(reading: GroupMoments | CellCounts, noise: IntegerNoise, relation: Relation) -> Profile:
    """Return what noise on counts provably does, exact where so many counts move by one."""
    blocks = reading.blocks(None if relation.hides_n else 1)
    move = blocks[0].movement
    if noise.kind == "gaussian" and not move.cells:  # of a person with several rows, any counts may move
        mu = lattice_mu([(move.squares / noise.scale**2 * _SLACK, noise.scale)], reading.size)
        if math.isfinite(mu):
            return GaussianProfile(mu, basis=Basis.BOUND, relation=relation)
    return noise_profile([noise], blocks, relation)


def _moves(
    reading: GroupMoments | CellCounts, noise: NoiseKind, power: int, relation: Relation
) -> list[tuple[float, float]]:
    """Return how far one record moves counts, and sums, beside their weights: added up, or squared and added up.

    First where it stays in its cell, then where it leaves it. One that is added or removed does neither: it moves one
    count by one, and each sum of that cell by at most one.
    """
    weights = cell_weights(reading, noise)
    if relation.hides_n:
        return [(weights[0] ** power, sum(b**power for b in weights[1:]))]
    a = weights.pop(0) if reading.counted else 0.0
    if reading.crossed:
        places = 2 if reading.cells > 1 else 1
        return [(0.0, _turned_both(weights[-1], power)), (2 * a**power, places * sum(b**power for b in weights))]
    c = weights.pop() if reading.squared else 0.0
    others = weights[1:]
    far = sum((2 * b) ** power for b in others) + _turned(weights[0], c, power)
    places = 2 if reading.cells > 1 else 1
    return [(0.0, far), (2 * a**power, places * (sum(b**power for b in weights) + c**power))]


def _turned_both(c: float, power: int) -> float:
    """Return how far (t, u, t², u², ((t - u)/2)²) moves in one cell, the squares of weight c.

    Let t move by d = 2 - x and u by e = 2 - y. Their squares move by at most x(2 - x) and y(2 - y), and that of
    p = (t - u)/2 by |p - p'||p + p'| ≤ 2·(x + y)/2, each by no more than 1. So all three add no more than
    c²(x(3 - x) + y(3 - y)), or c(3x + 3y), which what d² + e², or d + e, lacks of 8, or 4, makes up for where c ≤ 1, or
    c ≤ 1/3: x(4 - x) + y(4 - y), or x + y.
    """
    free = 1.0 if power == 2 else 1 / 3
    if c > free:
        raise InvalidValue("squares of this weight are not free")
    slack = 3 * c / STEPS
    return 4.0 + slack if power == 1 else (math.sqrt(8.0) + slack) ** 2


def _turned(b: float, c: float, power: int) -> float:
    """Return how far (t, t²) moves in one cell: t by d, t² by at most d(2 - d) and what rounding adds."""
    slack = c / STEPS
    if power == 1:
        inner = 1 + b / (2 * c) if c else 2.0
        at = [2.0, *([inner] if inner < 2 else [])]
        return max(d * b + d * (2 - d) * c for d in at) + slack
    ratio = (b / c) ** 2 if c else math.inf
    at = [2.0, *([(3 - math.sqrt(1 - 2 * ratio)) / 2] if ratio < 0.5 else [])]
    widest = max(d * math.sqrt(b**2 + c**2 * (2 - d) ** 2) for d in at)
    return float((widest + slack) ** 2)
