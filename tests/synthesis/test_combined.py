"""Analyses of synthetic tables combined, beside the closed form and repeated sampling."""

import types

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sottovoce as sv
from sottovoce.inference.synthesis.fitted_coefficients import coefficients
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
    with pytest.raises(InvalidValue, match="give the estimator itself"):
        sv.combine([object(), object()])


class Drawn:
    """Tables as a synthesis has them, of which every two columns are kept and no three."""

    columns, size, n = ("x", "w", "y"), 3000, 3000

    def __init__(self):
        self.tables = []
        for seed in range(3):
            rng = np.random.default_rng(seed)
            x, w = rng.normal(size=3000), rng.normal(size=3000)
            y = rng.random(3000) < 1 / (1 + np.exp(-(0.5 + x - w)))
            self.tables.append(pd.DataFrame({"x": x, "w": w, "y": pd.array(y, dtype="boolean")}))
            self.tables[-1].loc[:9, "x"] = np.nan

    def check_relation(self, names):
        if "z" in names:
            raise InvalidValue("there is no column 'z' here")

    def kept_together(self, names):
        return len(names) < 3

    def hidden_parts(self, name):
        return 0, 2


def test_an_estimator_is_fitted_to_every_table_with_the_variance_of_its_information():
    """A jackknife beside the inverse Fisher information of a logistic regression."""
    model = make_pipeline(StandardScaler(with_std=False), LogisticRegression(C=1e9))
    drawn = Drawn()
    result = sv.combine(model, drawn, label="y")
    assert result.names == ("intercept", "x", "w")
    assert result.estimate == pytest.approx([0.5, 1, -1], abs=0.1)
    assert "not released together" in result.summary()
    ratios = []
    for table in drawn.tables:
        known, variance = coefficients(LogisticRegression(C=1e9), table, "y")
        rows = table.dropna()
        X = np.column_stack([np.ones(len(rows)), rows["x"], rows["w"]])
        p = 1 / (1 + np.exp(-X @ np.array(list(known.values()))))
        information = np.linalg.inv((X * (p * (1 - p))[:, None]).T @ X)
        ratios.append(np.array(list(variance.values())) / np.diag(information))
    assert np.mean(ratios) == pytest.approx(1, abs=0.35)  # nine variances of 19 degrees of freedom, near each other
    with pytest.raises(InvalidValue, match="no column 'z'"):
        sv.combine(model, drawn, uses=["x", "z"], label="y")
    with pytest.raises(InvalidValue, match="tables and a label"):
        sv.combine(model, drawn)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(InvalidValue, match="two tables or more"):
        sv.combine([(1.0, 0.1)])
    with pytest.raises(InvalidValue, match="needs tables"):
        sv.combine(len)
    with pytest.raises(InvalidValue, match="no less than 0"):
        sv.combine([(1.0, -0.1), (1.0, 0.1)])
    with pytest.raises(InvalidValue, match="same things"):
        sv.combine([({"a": 1.0}, {"a": 1.0}), ({"b": 1.0}, {"b": 1.0})])
