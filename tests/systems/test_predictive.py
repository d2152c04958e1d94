"""Quantiles of a new count, at rates of any size."""

import numpy as np
import pytest
from scipy import stats

from sottovoce.mechanisms.conjugate.predictive import poisson


@pytest.mark.parametrize("level", [1e-9, 0.025, 0.5, 0.975, 1 - 1e-12])
def test_quantiles_of_a_count_are_those_of_scipy_at_any_rate(level: float) -> None:
    rates = np.concatenate([[0.0, 1.0, 2.0, 10.0], np.geomspace(1e-6, 1e9, 300)])
    np.testing.assert_array_equal(poisson().quantile(rates, level), stats.poisson.ppf(level, rates))
