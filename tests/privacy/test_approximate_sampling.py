"""A slack in total variation: against laws that use all of it, in fractions, and through composition."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sottovoce.privacy import (
    GaussianProfile,
    PrivacyFilter,
    Profile,
    PureDP,
    PureProfile,
    SlackProfile,
    compose,
)
from sottovoce.privacy.errors import BudgetExceeded, InvalidValue


def _responses(epsilon, gamma):
    """Randomized response, of which each side moves γ to a place of its own: four outcomes."""
    lie = 1 / (1 + math.exp(epsilon))
    first, second = np.array([1 - lie, lie, 0.0, 0.0]), np.array([lie, 1 - lie, 0.0, 0.0])
    # The first gives γ from where it is least likely, so that the second has as much as possible there, and so on.
    first, second = first + gamma * np.array([0, -1, 1, 0]), second + gamma * np.array([-1, 0, 0, 1])
    return first, second


def _hockey(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


@pytest.mark.parametrize("gamma", [1e-12, 1e-6, 1e-3, 0.1])
@pytest.mark.parametrize("level", [0.5, 1.0, 2.0])
def test_both_gammas_are_needed_and_are_enough(level, gamma):
    """The worst law that lies within γ of an ε-private one costs exactly δ(ε') + (1 + e^ε')γ."""
    profile = SlackProfile(PureProfile(level), gamma)
    p, q = _responses(level, gamma)
    for epsilon in (0.0, level / 2, 0.9 * level):
        truth = _hockey(p, q, epsilon)
        assert profile.delta(epsilon) >= truth * (1 - 1e-12)
        # (D.8) with the γ it drops would say less than the truth.
        assert PureProfile(level).delta(epsilon) + math.exp(epsilon) * gamma < truth
    at_level = profile.delta(level)
    assert at_level == pytest.approx((1 + math.exp(level)) * gamma, rel=1e-6)
    assert profile.delta(100.0) == pytest.approx(at_level, rel=1e-9)


@pytest.mark.parametrize("gamma", [1e-9, 1e-4, 0.02])
def test_slacks_add_under_composition(gamma):
    """Two releases, each moved by γ: the law of the pair is enumerated."""
    one = SlackProfile(PureProfile(1.0), gamma)
    both = one + one
    p, q = _responses(1.0, gamma)
    joint_p, joint_q = np.outer(p, p).ravel(), np.outer(q, q).ravel()
    for epsilon in (0.0, 0.5, 1.0, 1.9, 2.5, 6.0):
        assert both.delta(epsilon) >= _hockey(joint_p, joint_q, epsilon) * (1 - 1e-12)
    assert isinstance(both, SlackProfile)
    assert both.slack == pytest.approx(2 * gamma)


def test_mixed_parts_compose_and_the_order_does_not_matter():
    parts = [SlackProfile(GaussianProfile(0.5), 1e-9), PureProfile(0.1), SlackProfile(PureProfile(0.2), 2e-9)]
    found = [compose(parts[first:] + parts[:first]).delta(1.5) for first in range(3)]
    assert max(found) == pytest.approx(min(found), rel=1e-9)
    plain = compose([GaussianProfile(0.5), PureProfile(0.1), PureProfile(0.2)]).delta(1.5)
    assert min(found) == pytest.approx(plain + (1 + math.exp(1.5)) * 3e-9, rel=1e-6)
    assert compose([SlackProfile(GaussianProfile(3.0), 1e-9), GaussianProfile(4.0)]).one.mu == pytest.approx(5.0)
    assert (1000 * SlackProfile(PureProfile(0.0), 1e-2)).delta(0.0) == 1.0


def test_no_divergence_is_finite_and_no_ledger_counts_it():
    profile = SlackProfile(GaussianProfile(1.0), 1e-9)
    assert np.all(np.isinf(profile.renyi(np.array([1.0, 2.0, 64.0]))))
    assert (profile.pure(), profile.zcdp(), profile.gdp(), profile.pole) == (math.inf, math.inf, math.inf, 1.0)
    with pytest.raises(BudgetExceeded, match="infinite"):
        PrivacyFilter(PureDP(1.0)).spend(profile)
    exact = SlackProfile(GaussianProfile(1.0), 0.0)
    assert exact.renyi(2.0) == GaussianProfile(1.0).renyi(2.0)
    assert exact.epsilon(1e-6) == GaussianProfile(1.0).epsilon(1e-6)


def test_epsilon_is_where_delta_is_reached_or_infinite():
    profile = SlackProfile(GaussianProfile(1.0), 1e-9)
    for delta in (1e-3, 1e-5, 1e-6):
        epsilon = profile.epsilon(delta)
        assert profile.delta(epsilon) <= delta * (1 + 1e-12)
        assert profile.delta(epsilon * (1 - 1e-6)) > delta
        assert epsilon >= GaussianProfile(1.0).epsilon(delta)
    assert profile.epsilon(1e-8) == math.inf
    assert Profile.from_json(profile.to_json()).delta(1.0) == profile.delta(1.0)


@pytest.mark.parametrize("slack", [-1e-9, 1.1, math.nan, math.inf])
def test_what_is_no_distance_is_refused(slack):
    with pytest.raises(InvalidValue, match="slack"):
        SlackProfile(PureProfile(1.0), slack)
    with pytest.raises(InvalidValue, match="profile"):
        SlackProfile("pure", 0.1)  # type: ignore[arg-type]
