"""A claim made of others is no stronger than they are, and about the same neighbours."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sottovoce.privacy import (
    ApproxDP,
    BetaPairs,
    BoundedRangeProfile,
    DiscreteLaplaceProfile,
    LaplaceProfile,
    LikelihoodRatioProfile,
    RenyiProfile,
    ZeroConcentratedProfile,
)
from sottovoce.privacy.approximate_sampling import SlackProfile
from sottovoce.privacy.best_of import BestOfProfile, RandomStopping
from sottovoce.privacy.errors import IncompatibleNotions
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.group_privacy import GroupOfTwo
from sottovoce.privacy.minimum_profile import LeastProfile
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.pure import ApproxProfile, PureProfile
from sottovoce.privacy.relation import ADD_REMOVE
from sottovoce.privacy.subsampled import SubsampledProfile

MADE = [
    lambda p: SlackProfile(p, 1e-6),
    lambda p: SubsampledProfile(p, 0.5),
    lambda p: LeastProfile((p,)),
    lambda p: BestOfProfile(p, RandomStopping(3.0)),
]


@pytest.mark.parametrize("made", MADE)
def test_a_claim_about_a_chain_stays_one(made):
    one = GaussianProfile(1.0, basis=Basis.CONVERGENCE, relation=ADD_REMOVE)
    profile = made(one)
    assert (profile.basis, profile.relation) == (Basis.CONVERGENCE, ADD_REMOVE)
    assert Profile.from_dict(profile.to_dict()) == profile


def test_claims_about_different_neighbours_have_no_least():
    with pytest.raises(IncompatibleNotions):
        LeastProfile((GaussianProfile(1.0), PureProfile(1.0, relation=ADD_REMOVE)))


def test_a_tiny_rate_does_not_make_delta_vanish():
    one, rate = GaussianProfile(100.0), 1e-300
    before = 30 - math.log(rate)  # the source of ε = 30, but for e⁻³⁰
    assert SubsampledProfile(one, rate).log_delta(30.0) >= one.log_delta(before) + math.log(rate) - 1e-9
    assert np.isfinite(SubsampledProfile(one, rate).log_delta(30.0))


def of_every_kind(size):
    gaussian = GaussianProfile(size)
    return [
        gaussian,
        PureProfile(size),
        BoundedRangeProfile(size),
        ZeroConcentratedProfile(size),
        LaplaceProfile(1 / size),
        DiscreteLaplaceProfile(1 / size, 3),
        ApproxProfile(size, 1e-7),
        RenyiProfile((1.5, 2.0, 8.0, 30.0), (0.3 * size, 0.4 * size, size, 1.1 * size)),
        LikelihoodRatioProfile((BetaPairs(6, 12, step=1, others=99),)),
        BestOfProfile(gaussian, RandomStopping(10.0)),
        SlackProfile(gaussian, 1e-9),
        SubsampledProfile(gaussian, 0.01),
        GroupOfTwo(gaussian),
        GroupOfTwo(ApproxProfile(size, 1e-8)),
        gaussian + PureProfile(size),
        gaussian + ZeroConcentratedProfile(size),
        LeastProfile((gaussian, ZeroConcentratedProfile(size))),
    ]


@pytest.mark.parametrize("size", [1e-3, 0.03, 0.7, 5.0])
def test_a_profile_keeps_the_promise_of_its_own_epsilon(size):
    """δ(ε(δ)) <= δ, whichever conversions are behind the two."""
    for profile in of_every_kind(size):
        for delta in (3e-30, 2e-12, 1e-6, 7e-3, 0.2):
            epsilon = profile.epsilon(delta)
            assert math.isinf(epsilon) or profile.satisfies(ApproxDP(epsilon, delta)), (profile, delta)


@pytest.mark.parametrize(
    "one",
    [
        ApproxProfile(1.0, 1e-6),
        ApproxProfile(0.01, 1e-3),
        ApproxProfile(8.0, 1e-9),
        ApproxProfile(14.0, 1e-300),
        SlackProfile(GaussianProfile(1.0), 1e-9),
        SubsampledProfile(ApproxProfile(2.0, 1e-6), 0.01),
        ZeroConcentratedProfile(0.1),
        LaplaceProfile(1.0),
    ],
)
def test_a_group_of_two_never_loses_privacy_as_epsilon_grows(one):
    epsilons = np.sort(np.concatenate([np.linspace(0, 40, 800), np.geomspace(1e-5, 1e3, 300)]))
    curve = GroupOfTwo(one).log_delta(epsilons)
    assert np.all(curve[1:] <= curve[:-1] + 1e-12)
    if isinstance(one, ApproxProfile):  # (2ε, (1 + e^ε)δ)
        assert curve[-1] <= math.log1p(math.exp(one.level)) + math.log(one.slack) + 1e-6
