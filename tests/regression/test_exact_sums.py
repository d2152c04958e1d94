"""Sums that one record moves by no more than itself, on a real computer."""

import numpy as np
import pytest

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.randomness import secure_rng, seeded_rng
from sottovoce.readings import Rows
from sottovoce.regression import Design, FilteredRegression, Logistic, Softmax, Squared
from sottovoce.regression.sums import noisy, steps_in_one, total_mu
from sottovoce.regression.unit_rows import mean_row


def test_a_sum_that_crosses_a_power_of_two_moves_by_one_record_alone() -> None:
    n = 2**17
    X = np.zeros((n, 2))
    X[1 : n // 2, 0] = 1.0
    X[n // 2 :, 0] = np.spacing(2.0**16 - 1) * 1.0000001  # rounded up above 2^16, and down below it
    first, second = X.copy(), X.copy()
    first[0, 0], second[0, 0] = -1.0, 1.0
    assert abs(np.linalg.norm(first.sum(axis=0) - second.sum(axis=0)) - 2) > 1e-7
    asked = mean_row(2, steps_in_one(n, 1.0), 1.0)
    moved = asked.of(Rows(n, second, np.ones(n))) - asked.of(Rows(n, first, np.ones(n)))
    assert np.array_equal(moved, [2 * steps_in_one(n, 1.0) ** 2, 0.0, 0.0])
    assert np.linalg.norm(moved) <= asked.reach[0]


@pytest.mark.parametrize(
    "design", [Design(Logistic(), 4, 1.0), Design(Softmax(4), 4, 1.0), Design(Squared(1.0), 4, 1.0, radius=3.0)]
)
def test_every_look_is_the_same_sum_in_any_order(design) -> None:
    """What is exact does not depend on the order; floating-point sums of so many rows do."""
    rng, n = seeded_rng(3), 3000
    X = rng.standard_normal((n, 4)) * rng.choice([1e-6, 0.3, 1e9], (n, 1))
    low, high = design.loss.labels
    y = rng.integers(0, round(high - low) + 1, n) + low
    mechanism = FilteredRegression(design, n, 1.0, looks=3, unbiased=1, shape_room=1.2)
    seen = mechanism._within(mechanism.see((X, y)))
    turned = Rows(n, seen.X[::-1].copy(), seen.y[::-1].copy())
    steps = mechanism.steps()
    question = next(steps)
    asked = 0
    try:
        while True:
            answer = question.of(seen)
            assert np.array_equal(answer, question.of(turned))
            assert np.array_equal(answer, np.rint(answer))
            assert np.abs(answer).max() < 2.0**53
            assert answer.size == question.reach.size
            asked += 1
            question = steps.send(answer / question.reach + rng.standard_normal(answer.shape))
    except StopIteration:
        assert asked == 5


@pytest.mark.parametrize("mu", [1e-9, 1e-3, 1.0, 19.0])
@pytest.mark.parametrize("n", [1, 1000, 10**9, 10**12])
def test_noise_fits_whole_numbers_and_costs_what_is_claimed(n, mu) -> None:
    mechanism = FilteredRegression(Design(Logistic(), 3, 1.0), n, mu)
    question = next(mechanism.steps())
    assert question.reach.max() / question.mu < 2.0**61
    assert mu <= mechanism.profile.mu <= mu * 1.01


def test_discrete_noise_is_within_its_gaussian_claim_where_steps_are_coarse() -> None:
    """By exact sums: 27 steps to a standard deviation, a shift by all of the reach, against the claimed curve."""
    reach, mu = 512.0, 19.0
    sigma, k = reach / mu, np.arange(-4000.0, 4000.0)
    first, second = -((k / sigma) ** 2) / 2, -(((k - reach) / sigma) ** 2) / 2
    p, q = (np.exp(one - np.logaddexp.reduce(one)) for one in (first, second))
    claim = GaussianProfile(total_mu([mu], reach, 1))
    for epsilon in (0.0, 10.0, 100.0, 180.0, 250.0):
        exact = float(np.sum(np.maximum(p - np.exp(np.minimum(epsilon + np.log(np.maximum(q, 1e-300)), 700)), 0.0)))
        assert exact <= claim.delta(epsilon) * (1 + 1e-9)


def test_secure_noise_is_whole_and_as_wide_as_asked() -> None:
    drawn = noisy(np.full(4000, 7.0), 2.0**33, secure_rng())
    assert np.array_equal(drawn, np.rint(drawn))
    assert drawn.std() == pytest.approx(2.0**33, rel=0.06)
    assert len(np.unique(np.mod(drawn, 1024))) > 900  # down to the last step


def test_what_no_whole_number_holds_is_refused() -> None:
    with pytest.raises(InvalidValue, match="whole numbers"):
        FilteredRegression(Design(Logistic(), 3, 1.0), 10, 1e-15)
    with pytest.raises(InvalidValue, match="whole numbers"):
        FilteredRegression(Design(Logistic(), 3, 1.0), 2**50, 1.0)
