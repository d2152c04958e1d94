"""Sums that one record moves by no more than itself, on a real computer."""

import numpy as np
import pytest
from scipy import stats

from sottovoce.inference.regression import Design, FilteredRegression, Logistic, Softmax, Squared
from sottovoce.inference.regression.sums import Sum, ask, steps_in_one
from sottovoce.inference.regression.unit_rows import mean_row
from sottovoce.mechanisms.exact_normals import noise_cells
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.randomness import secure_rng, seeded_rng
from sottovoce.records.readings import Rows


def test_a_sum_that_crosses_a_power_of_two_moves_by_one_record_alone() -> None:
    n = 2**17
    X = np.zeros((n, 2))
    X[1 : n // 2, 0] = 1.0
    X[n // 2 :, 0] = np.spacing(2.0**16 - 1) * 1.0000001  # rounded up above 2^16, and down below it
    first, second = X.copy(), X.copy()
    first[0, 0], second[0, 0] = -1.0, 1.0
    assert abs(np.linalg.norm(first.sum(axis=0) - second.sum(axis=0)) - 2) > 1e-7
    asked = mean_row(2, steps_in_one(n), 1.0)
    moved = asked.of(Rows(n, second, np.ones(n))) - asked.of(Rows(n, first, np.ones(n)))
    assert np.array_equal(moved, [2 * steps_in_one(n) ** 2, 0.0, 0.0])
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
def test_any_noise_on_any_number_of_records_costs_what_is_claimed(n, mu) -> None:
    mechanism = FilteredRegression(Design(Logistic(), 3, 1.0), n, mu)
    question = next(mechanism.steps())
    assert question.reach.max() * n < 2.0**53 * 4
    assert mu <= mechanism.profile.mu <= mu * (1 + 1e-11)


def test_secure_noise_lies_in_public_cells_and_is_as_wide_as_asked() -> None:
    """The cells are those of the noise's width alone, wherever the sum lies; the law is normal around it."""
    for sum_of in (7.0, 3.0 * 2.0**40 + 1):
        asked = Sum(lambda seen, at=sum_of: np.full(4000, at), ((4000, 2.0**33),), 0.3)

        def once(question=asked):
            return (yield question)

        told = ask(once(), None, secure_rng()) * 2.0**33
        places = told / 2.0 ** noise_cells(2.0**33 / 0.3).exponent
        assert np.array_equal(places % 1, np.full(4000, 0.5))
        assert stats.kstest((told - sum_of) * 0.3 / 2.0**33, "norm").pvalue > 1e-6
        assert len(np.unique(places)) > 3500  # 2⁻¹⁶ of its width, not coarser


def test_what_does_not_fit_is_refused_before_anything_is_read() -> None:
    with pytest.raises(InvalidValue, match="μ"):
        FilteredRegression(Design(Logistic(), 3, 1.0), 10, 1e-15)
    with pytest.raises(InvalidValue, match="whole numbers"):
        FilteredRegression(Design(Logistic(), 3, 1.0), 2**50, 1.0)
