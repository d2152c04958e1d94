"""Functions that lose nothing near zero, against fifty digits."""

import mpmath
import numpy as np
import pytest

from sottovoce.privacy.numbers import expm1mx, log1pmx, log_gamma_gap

NEAR = [
    s * x for s in (1, -1) for x in (5e-324, 1e-300, 1e-160, 1e-9, 1e-6, 1e-3, 0.0299999, 0.03, 0.0499999, 0.05, 0.7)
]


@pytest.mark.parametrize(
    ("found", "true", "far"),
    [
        (expm1mx, lambda x: mpmath.expm1(x) - x, [-1e9, -40.0, 3.0, 700.0]),
        (log1pmx, lambda x: mpmath.log1p(x) - x, [-1 + 1e-12, 3.0, 1e9, 1e300]),
    ],
)
def test_no_digit_is_lost(found, true, far):
    points = np.array(NEAR + far)
    with mpmath.workdps(700):  # of x = 1e-300 a square is left
        expected = np.array([float(true(mpmath.mpf(x))) for x in points])
    np.testing.assert_allclose(found(points), expected, rtol=4e-15)
    assert [float(found(x)) for x in points] == found(points).tolist()  # single numbers, and many


def test_what_is_no_number_passes():
    assert np.isnan(expm1mx(np.array([np.nan, 1e-3]))).tolist() == [True, False]
    assert np.isnan(log1pmx(np.array([np.nan, -2.0, 1e-3]))).tolist() == [True, True, False]
    assert expm1mx(np.array([1e9])).tolist() == [np.inf]
    assert log1pmx(np.array([-1.0])).tolist() == [-np.inf]
    assert expm1mx(np.array([])).size == log1pmx(np.array([])).size == 0


@pytest.mark.parametrize("x", [1e-6, 0.3, 7.0, 1e4, 1e9, 1e12])
def test_gaps_of_log_gamma_keep_their_digits(x):
    """Steps from next to nothing to the longest for which the integral is taken, either way."""
    orders = np.array([1.0, 1 + 1e-9, 1.5, 30.0, 1e9])[:, None]
    steps = np.array([s * part for s in (1, -1) for part in (1e-12, 1e-6, 0.03, 0.09)]) * x / orders

    def gap(h, order):
        start, h, excess = mpmath.mpf(x), mpmath.mpf(h), mpmath.mpf(order) - 1
        ahead = mpmath.loggamma(start + h) - mpmath.loggamma(start)
        if not excess:
            return ahead - h * mpmath.digamma(start)
        return (mpmath.loggamma(start - excess * h) - mpmath.loggamma(start)) / excess + ahead

    with mpmath.workdps(100):
        expected = [[float(gap(h, order)) for h in row] for row, (order,) in zip(steps, orders, strict=True)]
    np.testing.assert_allclose(log_gamma_gap(x, steps, orders), expected, rtol=3e-15)
