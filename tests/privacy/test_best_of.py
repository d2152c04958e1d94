"""The best of several tries: Google's accountant, brute force over K, and both ends as oracles."""

import math

import numpy as np
import pytest

from sottovoce.privacy.best_of import TRIES, BestOfProfile, RandomStopping
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.laplace import LaplaceProfile
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.pure import PureProfile
from sottovoce.privacy.randomness import seeded_rng

ORDERS = np.array([1.5, 2.0, 4.0, 16.0, 64.0])
LAWS = sorted(TRIES)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("mean", "sigma"), [(1.5, 0.5), (50.0, 20.0), (1e4, 300.0)])
def test_no_worse_than_repeat_and_select_and_equal_to_it_on_its_own_orders(law, mean, sigma):
    import dp_accounting
    from dp_accounting import rdp

    event = dp_accounting.dp_event.RepeatAndSelectDpEvent(
        dp_accounting.GaussianDpEvent(sigma), mean=mean, shape=TRIES[law]
    )
    orders = list(1 + np.exp(np.linspace(-5, 9.3, 500)))
    accountant = rdp.RdpAccountant(orders)
    accountant.compose(event)
    profile = BestOfProfile(GaussianProfile(1 / sigma), RandomStopping(mean, law))
    theirs, ours, orders = np.array(accountant._rdp), profile.renyi(np.array(orders)), np.array(orders)
    assert np.all(ours <= theirs * (1 + 1e-4))
    assert profile.epsilon(1e-5) <= accountant.get_epsilon(1e-5) * (1 + 1e-4)
    # They do not look for a later order that says more: the curves agree where there is none.
    late = orders > 1 + 2 * sigma * math.sqrt(2 * math.log(mean))
    assert ours[late] == pytest.approx(theirs[late], rel=0.01)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("above", [2.0**-52, 1e-13, 1e-12, 1e-11, 1e-9])
def test_a_mean_hardly_above_one_has_a_law(law, above):
    tries = RandomStopping(1 + above, law)
    assert 0 < 1 - tries.gamma <= 3 * above
    assert tries.log_mean == pytest.approx(above, rel=0.3)


def outcomes(one, tries, most=2000):
    """Return the law of the best of K draws from a law over ranked outcomes, by brute force over K."""
    below = np.concatenate([[0.0], np.cumsum(one)])
    k = np.arange(1, most)
    weight = tries.probability(k)
    heights = np.array([weight @ np.minimum(b, 1.0) ** k for b in below])
    return np.diff(heights)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("mean", [1.0, 3.0, 30.0])
def test_brute_force_over_finite_outcomes_stays_within_the_profile(law, mean):
    rng, tries = seeded_rng(3), RandomStopping(mean, law)
    for _ in range(8):
        p = rng.dirichlet(np.ones(4))
        q = p * np.exp(rng.uniform(-0.4, 0.4, 4))
        q /= q.sum()
        loss = np.abs(np.log(p / q)).max()
        profile = BestOfProfile(PureProfile(loss), tries)
        P, Q = outcomes(p, tries), outcomes(q, tries)
        assert np.abs(np.log(P / Q)).max() <= profile.pure() * (1 + 1e-6)
        renyi = [math.log(np.sum(P**a * Q ** (1 - a))) / (a - 1) for a in ORDERS]
        assert np.all(renyi <= profile.renyi(ORDERS) * (1 + 1e-6))


def test_one_try_is_that_try_and_more_never_cost_less():
    one = GaussianProfile(0.3)
    assert BestOfProfile(one, RandomStopping(1.0)).epsilon(1e-6) == one.epsilon(1e-6)
    assert BestOfProfile(one, RandomStopping(1.0)).delta(0.5) == one.delta(0.5)
    means = (1.0, 1.001, 2.0, 10.0, 1e6)
    costs = [BestOfProfile(one, RandomStopping(mean, law)).epsilon(1e-6) for mean in means for law in LAWS]
    assert costs[::2] == sorted(costs[::2])
    assert costs[1::2] == sorted(costs[1::2])
    near = BestOfProfile(one, RandomStopping(1 + 1e-9)).renyi(4.0)
    assert near == pytest.approx(one.renyi(4.0), rel=1e-2)


@pytest.mark.parametrize("one", [GaussianProfile(1e-6), GaussianProfile(1e3), PureProfile(2.0), LaplaceProfile(0.5)])
@pytest.mark.parametrize("law", LAWS)
def test_it_is_a_profile_at_the_extremes_and_reads_back(one, law):
    profile = BestOfProfile(one, RandomStopping(10.0, law))
    epsilons, orders = np.array([0.0, 1e-6, 0.1, 1.0, 20.0, 1e9]), np.array([1.0, 1.01, 2.0, 64.0, 1e6])
    deltas, curve = profile.delta(epsilons), profile.renyi(orders)
    assert np.all((deltas >= 0) & (deltas <= 1) & (np.diff(deltas, append=0.0) <= 0))
    assert np.all(curve >= one.renyi(orders))
    assert np.all(np.diff(curve[np.isfinite(curve)]) >= 0)
    again = Profile.from_json(profile.to_json())
    assert np.array_equal(again.delta(epsilons), deltas)


@pytest.mark.parametrize("law", LAWS)
def test_the_number_of_tries_has_its_law(law):
    tries, k = RandomStopping(5.0, law), np.arange(1, 5000)
    assert tries.probability(k).sum() == pytest.approx(1.0, abs=1e-9)
    assert tries.probability(k) @ k == pytest.approx(5.0, rel=1e-9)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("mean", [1.0, 1 + 1e-12, 1 + 1e-9, 1 + 1e-7, 1 + 4.9e-6, 1 + 5.1e-6, 1.001, 1.5, 10.0, 1e6])
def test_the_mean_that_is_charged_is_that_of_the_law_with_this_very_gamma(law, mean):
    """Close to 1 the digits of γ leave of mean − 1 too few: log E[K] is taken from γ, here once more with 60 digits."""
    mpmath = pytest.importorskip("mpmath")
    tries = RandomStopping(mean, law)
    with mpmath.workdps(60):
        gamma = mpmath.mpf(tries.gamma)
        exact = 1 / gamma if law == "geometric" or gamma == 1 else (1 / gamma - 1) / -mpmath.log(gamma)
        true = mpmath.log(exact)
        assert true <= mpmath.mpf(tries.log_mean) <= true * (1 + mpmath.mpf("2e-9")), "never below, hardly above"


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: RandomStopping(0.5), "mean"),
        (lambda: RandomStopping(math.nan), "mean"),
        (lambda: RandomStopping(1e9), "1e6"),
        (lambda: RandomStopping(3.0, "uniform"), "law"),
        (lambda: BestOfProfile("x", RandomStopping(2.0)), "profile"),
    ],
)
def test_wrong_numbers_are_refused(make, word):
    with pytest.raises(InvalidValue, match=word):
        make()
