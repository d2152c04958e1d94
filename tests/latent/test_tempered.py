"""What tempered updates cost, against quadrature over every pair of neighbours of a small n."""

import itertools

import numpy as np
import pytest
from scipy import integrate, stats

from sottovoce.inference.latent.tempered import TemperedUpdates, check_floor, draw_tempered, log_ratio_bound
from sottovoce.privacy.composition import compose
from sottovoce.privacy.errors import InvalidValue, PromiseUnreachable
from sottovoce.privacy.promises import ApproxDP, PureDP, ZeroConcentratedDP
from sottovoce.privacy.pure import BoundedRangeProfile
from sottovoce.privacy.randomness import seeded_rng


def log_density(counts, temperature, floor, grid, prior=1.0):
    """The tempered, truncated Beta density of θ on a grid, normalised by quadrature."""
    a, b = ((c + prior - 1) / temperature for c in counts)
    height = a * np.log(grid) + b * np.log1p(-grid)
    return height - np.log(integrate.simpson(np.exp(height), x=grid))


@pytest.mark.parametrize(("temperature", "floor"), [(1.0, 0.1), (3.0, 0.02), (10.0, 0.3)])
def test_one_update_keeps_its_claim_for_every_pair_of_neighbours(temperature, floor):
    grid = np.linspace(floor, 1 - floor, 20_001)
    profile = TemperedUpdates((log_ratio_bound(2, floor),), 1, temperature).profile
    worst = 0.0
    for n in (1, 2, 5):
        for ones, other in itertools.permutations(range(n + 1), 2):
            if abs(ones - other) != 1:
                continue
            p = log_density((ones, n - ones), temperature, floor, grid)
            q = log_density((other, n - other), temperature, floor, grid)
            worst = max(worst, float(np.max(np.abs(p - q))))
            for order in (1.5, 2.0, 8.0):
                moment = integrate.simpson(np.exp(order * p + (1 - order) * q), x=grid)
                assert np.log(moment) / (order - 1) <= profile.renyi(order) + 1e-9
            for epsilon in (0.05, 0.3):
                hockey = integrate.simpson(np.maximum(np.exp(p) - np.exp(epsilon + q), 0), x=grid)
                assert hockey <= profile.delta(epsilon) + 1e-6
    assert worst <= profile.pure() + 1e-9
    assert worst > 0.4 * profile.pure()  # the claim is not empty


def test_the_total_is_the_composition_stated():
    updates = TemperedUpdates((2.0, 0.5), sweeps=7, temperature=4.0)
    by_hand = compose([BoundedRangeProfile(1.0), BoundedRangeProfile(0.25)], [7, 7])
    assert updates.profile.zcdp() == pytest.approx(by_hand.zcdp())
    assert updates.profile.zcdp() == pytest.approx(7 * (2.0**2 + 0.5**2) / (2 * 4.0**2))
    assert updates.profile.pure() == pytest.approx(updates.additive_epsilon) == pytest.approx(7 * 1.25)
    np.testing.assert_allclose(updates.profile.renyi([1.5, 4.0]), by_hand.renyi([1.5, 4.0]))


@pytest.mark.parametrize("target", [PureDP(1.0), ZeroConcentratedDP(0.05), ApproxDP(1.0, 1e-6)], ids=str)
@pytest.mark.parametrize("sweeps", [1, 100])
def test_calibration_keeps_the_promise_and_little_more(target, sweeps):
    updates = TemperedUpdates.calibrate((3.0, 1.0), sweeps, target)
    assert updates.profile.satisfies(target)
    if not isinstance(target, ApproxDP):  # through ρ an (ε, δ) promise is kept with something to spare
        warmer = TemperedUpdates((3.0, 1.0), sweeps, updates.temperature * 0.999)
        assert not warmer.profile.satisfies(target)


def test_hundreds_of_sweeps_cost_far_less_than_their_sum():
    updates = TemperedUpdates.calibrate((1.0, 1.0), 200, ApproxDP(1.0, 1e-6))
    assert updates.additive_epsilon > 8.0


def test_a_promise_that_costs_nothing_is_met_at_temperature_one():
    assert TemperedUpdates.calibrate((0.5,), 1, PureDP(1.0)).temperature == 1.0


def test_draws_follow_the_tempered_truncated_law():
    rng = seeded_rng(4)
    draws = draw_tempered(np.tile([7, 1], (20_000, 1)), 0.5, 3.0, 0.05, rng)[:, 0]
    low, high = 0.05, 0.95
    base = stats.beta((7 + 0.5 - 1) / 3 + 1, (1 + 0.5 - 1) / 3 + 1)
    law = lambda x: (base.cdf(x) - base.cdf(low)) / (base.cdf(high) - base.cdf(low))  # noqa: E731
    assert stats.kstest(draws, law).pvalue > 1e-3


@pytest.mark.parametrize(
    "make",
    [
        lambda: TemperedUpdates(()),
        lambda: TemperedUpdates((-1.0,)),
        lambda: TemperedUpdates((np.nan,)),
        lambda: TemperedUpdates((1.0,), sweeps=0),
        lambda: TemperedUpdates((1.0,), sweeps=True),
        lambda: TemperedUpdates((1.0,), temperature=0.5),
        lambda: TemperedUpdates((1.0,), temperature=np.inf),
        lambda: check_floor(0.5, 2),
        lambda: check_floor(0.0, 3),
        lambda: check_floor(None, 1),
        lambda: log_ratio_bound(4, 0.3),
    ],
)
def test_bad_values_raise(make):
    with pytest.raises(InvalidValue):
        make()


def test_no_temperature_keeps_a_promise_of_nothing():
    with pytest.raises(PromiseUnreachable):
        TemperedUpdates.calibrate((1.0,), 1, PureDP(0.0))
