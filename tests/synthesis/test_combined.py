"""Analyses of synthetic tables combined, beside the closed form and repeated sampling."""

import types

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.privacy.errors import InvalidValue


def test_the_rule_by_hand():
    pairs = [(1.0, 0.1), (2.0, 0.2), (4.0, 0.3)]
    result = sv.combine(pairs)
    b = np.var([1, 2, 4], ddof=1)
    total = (1 + 1 / 3) * b - 0.2
    assert result.estimate[0] == pytest.approx(7 / 3)
    assert result.variance[0] == pytest.approx(total)
    assert result.df[0] == pytest.approx(2 * (1 - 0.2 / (4 / 3 * b)) ** 2)


def test_no_variance_is_below_that_of_sampling():
    result = sv.combine([(1.0, 0.5), (1.01, 0.5), (0.99, 0.5)])
    assert result.floored.all()
    assert result.variance[0] == pytest.approx(0.5)


@pytest.mark.parametrize("noise", [0.0, 1.0, 9.0])
def test_intervals_hold_means_of_a_population_drawn_again_and_again(noise):
    """Sets drawn from a posterior whose variance is sampling's and noise's: t intervals hold 95 %."""
    rng, n, m, repeats = np.random.default_rng(7), 400, 20, 4000
    estimate = rng.normal(0, np.sqrt((1 + noise) / n), repeats)
    theta = estimate[:, None] + rng.normal(0, np.sqrt((1 + noise) / n), (repeats, m))
    q = theta + rng.normal(0, np.sqrt(1 / n), (repeats, m))
    result = sv.combine([(q[:, i], np.full(repeats, 1 / n)) for i in range(m)])
    low, high = result.interval
    held = np.mean((low <= 0) & (high >= 0))
    assert 0.935 < held < 0.985  # above .95 without noise, where the floor decides


def test_results_of_others_are_read_by_what_they_have():
    results = [
        types.SimpleNamespace(params={"x": x, "z": z}, bse={"x": 0.1, "z": 0.2}) for x, z in [(1.0, 2.0), (1.5, 2.5)]
    ]
    result = sv.combine(results)
    assert result.names == ("x", "z")
    assert [row["term"] for row in result.rows] == ["x", "z"]
    with pytest.raises(InvalidValue, match="scikit-learn tells no variance"):
        sv.combine([object(), object()])


def test_what_makes_no_sense_is_refused():
    with pytest.raises(InvalidValue, match="two tables or more"):
        sv.combine([(1.0, 0.1)])
    with pytest.raises(InvalidValue, match="needs tables"):
        sv.combine(len)
    with pytest.raises(InvalidValue, match="no less than 0"):
        sv.combine([(1.0, -0.1), (1.0, 0.1)])
    with pytest.raises(InvalidValue, match="same things"):
        sv.combine([({"a": 1.0}, {"a": 1.0}), ({"b": 1.0}, {"b": 1.0})])
