"""Claims made of others, to the last digit: subsampled, amplified and of groups of two, against many digits."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from sottovoce.privacy.group_privacy import GroupOfTwo
from sottovoce.privacy.pure import ApproxProfile, PureProfile
from sottovoce.privacy.subsampled import SubsampledProfile
from sottovoce.privacy.subsampling import mixed_divergence
from sottovoce.theory.amplification import amplify, randomized_response

ULP = 2.0**-52
LEVELS = [1e-200, 1e-20, 1e-6, 0.18, 1.1, 14.0, 90.0]
PARTS = [1e-12, 0.01, 0.3, 0.9, 1 - 1e-9]


@pytest.fixture(autouse=True)
def digits(request):
    """A hundred beside the square of the level over a billion, the least that is told from one."""
    level = request.node.callspec.params.get("level", LEVELS[0])
    with mp.workdps(100 + 3 * max(0, -math.frexp(level)[1] * 3 // 10)):
        yield


def curve(level, slack=0.0):
    """δ at e^ε = u of the worst pair that keeps (level, slack)."""
    top, part = mp.exp(mp.mpf(level)), mp.mpf(slack)
    return lambda u: part + (1 - part) * max(mp.mpf(0), (top - u) / (1 + top))


def holds(claim, truth):
    """Assert that log δ is not below, and above by last digits of itself alone."""
    assert mp.log(truth) <= claim <= mp.log(truth) + 400 * ULP * (1 - mp.log(truth))


@pytest.mark.parametrize("level", LEVELS)
def test_subsampled_curves_round_up(level):
    for rate in (1e-300, 1e-9, 0.1, 0.7):
        claim, before = SubsampledProfile(PureProfile(level), rate), curve(level)
        pure = mp.log1p(mp.mpf(rate) * mp.expm1(mp.mpf(level)))
        assert pure <= claim.pure() <= pure * (1 + 40 * ULP) + 1e-323
        for part in PARTS:
            epsilon = claim.pure() * part
            if epsilon > 1e-300 and (truth := rate * before(1 + mp.expm1(mp.mpf(epsilon)) / mp.mpf(rate))) > 0:
                assert mp.log(truth) <= claim.log_delta(epsilon)
                if part < 0.99:
                    holds(claim.log_delta(epsilon), truth)


@pytest.mark.parametrize("before", [5e-324, 1e-308, 1e-154, 1e-20, 0.3, 1.0, 40.0, 900.0])
def test_what_is_left_of_a_divergence_rounds_up(before):
    for share in (1e-300, 1e-121, 1e-9, 0.3, 1.0):
        orders = np.array([1.0, 1 + ULP, 1 + 1e-9, 1.3, 2.0, 17.0, 1e6])
        for order, found in zip(orders, mixed_divergence(np.full(orders.shape, before), orders, share), strict=True):
            gap, one, q = mp.mpf(float(order)) - 1, mp.mpf(before), mp.mpf(share)
            truth = mp.log1p(q * mp.expm1(gap * one)) / gap if gap else q * one
            assert min(truth, one) <= found <= one
            assert found <= truth * (1 + mp.mpf(3e-9)) + 2e-323 or share < 1e-290


@pytest.mark.parametrize("level", LEVELS)
def test_groups_of_two_round_up(level):
    for part in PARTS:
        e = mp.mpf(2 * level * part)
        powers = [mp.exp(e * k / 16) for k in range(17)]
        splits = list(zip(powers, powers[::-1], strict=True))
        for slack in (1e-300, 1e-25, 1e-6):
            claim, one = GroupOfTwo(ApproxProfile(level, slack)), curve(level, slack)
            truth = min(one(first) + first * one(second) for first, second in splits)
            if truth < 1:
                assert mp.log(truth) <= claim.log_delta(2 * level * part)
                assert claim.log_delta(2 * level * part) <= mp.log(truth) + 1e-9 or part > 0.99


@pytest.mark.parametrize("level", LEVELS)
def test_divergences_of_groups_of_two_round_up(level):
    pure = GroupOfTwo(PureProfile(level))
    for order in (1.0, 1 + 1e-9, 1.3, 17.0):
        rate, least = mp.mpf(order), mp.inf
        for g in map(mp.mpf, np.geomspace(1 / 32, 32.0, 41).tolist()):
            factor = (1 + g) / (1 + g * (rate - 1) / rate)
            least = min(least, factor * coin(level, rate + (rate - 1) * g) + coin(level, rate + rate / g))
        even = mp.sqrt(rate / (rate - 1)) if order > 1 else mp.mpf(1e9)
        factor = (1 + even) / (1 + even * (rate - 1) / rate)
        least = min(least, factor * coin(level, rate + (rate - 1) * even) + coin(level, rate + rate / even))
        found = pure.renyi(order)
        assert min(least, 2 * level) <= found <= least * (1 + mp.mpf(1e-12)) + 1e-310


def coin(level, order):
    """The Rényi divergence of randomized response."""
    top = mp.mpf(level)
    if order == 1:
        return top * mp.tanh(top / 2)
    heads, up = 1 / (1 + mp.exp(-top)), mp.exp((order - 1) * top)
    return mp.log(heads * up + (1 - heads) / up) / (order - 1)


@pytest.mark.parametrize("level", LEVELS)
def test_amplified_curves_round_up(level):
    for local in (1e-12, 0.3, 2.0, 40.0):
        kernel = randomized_response(3, local)
        claim, before = amplify(PureProfile(level), kernel), curve(level)
        rows = [[mp.mpf(x) / sum(map(mp.mpf, row)) for x in row] for row in kernel.rows]
        pairs = list(itertools.permutations(rows, 2))
        private = max(mp.log(a / b) for p, q in pairs for a, b in zip(p, q, strict=True))
        # Where ε̃ has reached the kernel's own level nothing is left.
        end = mp.mpf(claim.pure()) * (1 + mp.mpf(2) ** -60)
        assert before(mp.exp(end)) == 0 or mp.log1p(mp.expm1(end) / before(mp.exp(end))) >= private
        gamma = max(mp.fsum(max(mp.mpf(0), a - b) for a, b in zip(p, q, strict=True)) for p, q in pairs)
        for part in PARTS:
            epsilon = claim.pure() * part
            delta = before(mp.exp(mp.mpf(epsilon)))
            tilt = 1 + mp.expm1(mp.mpf(epsilon)) / delta
            spread = max(mp.fsum(max(mp.mpf(0), a - tilt * b) for a, b in zip(p, q, strict=True)) for p, q in pairs)
            if spread > 0:
                assert mp.log(delta * spread) <= claim.log_delta(epsilon) <= mp.log(delta * (spread + 1e-11))
        for order in (1.0, 1 + 1e-9, 1.3, 17.0):
            rate, one = mp.mpf(order), coin(level, mp.mpf(order))
            left = mp.log1p(gamma * mp.expm1((rate - 1) * one)) / (rate - 1) if order > 1 else gamma * one
            assert min(left, coin(claim.pure(), rate)) <= claim.renyi(order)
        assert Fraction(claim.pure()) <= Fraction(math.nextafter(min(level, kernel.level * (1 + 1e-11)), math.inf))
