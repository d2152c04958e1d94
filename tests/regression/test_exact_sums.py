"""Sums that one record moves by no more than itself, on a real computer."""

import numpy as np

from sottovoce.readings import Rows
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
