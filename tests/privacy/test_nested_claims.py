"""A claim made of others is no stronger than they are, and about the same neighbours."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sottovoce.privacy.best_of import BestOfProfile, Tries
from sottovoce.privacy.errors import IncompatibleNotions
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.least import LeastProfile
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.pure import PureProfile
from sottovoce.privacy.relation import ADD_REMOVE
from sottovoce.privacy.slack import SlackProfile
from sottovoce.privacy.subsampled import SubsampledProfile

MADE = [
    lambda p: SlackProfile(p, 1e-6),
    lambda p: SubsampledProfile(p, 0.5),
    lambda p: LeastProfile((p,)),
    lambda p: BestOfProfile(p, Tries(3.0)),
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
