"""Sums that one record moves by no more than itself, on a real computer."""

import numpy as np
import pytest

from sottovoce.privacy.randomness import seeded_rng
from sottovoce.readings import Rows
from sottovoce.regression import Design, FilteredRegression, Logistic, Softmax, Squared
from sottovoce.regression.filtered import _mean_row
from sottovoce.regression.sums import exact_sum


def test_a_sum_that_crosses_a_power_of_two_moves_by_one_record_alone() -> None:
    n = 2**17
    X = np.zeros((n, 2))
    X[1 : n // 2, 0] = 1.0
    X[n // 2 :, 0] = np.spacing(2.0**16 - 1) * 1.0000001  # rounded up above 2^16, and down below it
    first, second = X.copy(), X.copy()
    first[0, 0], second[0, 0] = -1.0, 1.0
    assert abs(np.linalg.norm(first.sum(axis=0) - second.sum(axis=0)) - 2) > 1e-7
    assert np.array_equal(exact_sum(second) - exact_sum(first), [2.0, 0.0])
    moved = _mean_row(Rows(n, first, np.ones(n))) - _mean_row(Rows(n, second, np.ones(n)))
    assert np.linalg.norm(moved) <= 1


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
            asked += 1
            question = steps.send(answer + rng.standard_normal(answer.shape))
    except StopIteration:
        assert asked == 5
