"""Poisson regression by the looks of a regression table: a whole posterior in the units of X."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import PoissonRegressor

from sottovoce.faces.estimators import LogisticRegression, PoissonRegression
from sottovoce.inference.regression.coefficients import Coefficients
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.errors import InvalidData, InvalidValue, PromiseUnreachable
from sottovoce.privacy.promises import ApproxDP, GaussianDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Count, Facts, Number
from sottovoce.service.curator import Curator

PUBLIC = {"epsilon": 1.0, "delta": 1e-6, "response_bound": 20, "random_state": 1}


@pytest.fixture(scope="module")
def counts() -> tuple[np.ndarray, np.ndarray]:
    rng = seeded_rng(5)
    X = rng.uniform(-1, 1, (6000, 3))
    return X, rng.poisson(np.exp(0.4 + X @ [1.0, -0.7, 0.0]))


def test_it_comes_near_the_fit_without_privacy_and_knows_how_near(counts):
    X, y = counts
    plain = PoissonRegressor(alpha=0).fit(X, y)
    model = PoissonRegression(**PUBLIC, data_norm=1.8).fit(X, y)
    assert isinstance(model.release_.value, Coefficients)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=0.25)
    assert model.samples_.shape == (256, 4)
    np.testing.assert_allclose(model.samples_.mean(axis=0), [*model.coef_, model.intercept_], atol=0.05)
    low, high = np.roll(model.release_.value.interval(), -1, axis=0).T
    assert np.all((low < [1.0, -0.7, 0.0, 0.4]) & (high > [1.0, -0.7, 0.0, 0.4]))
    assert model.score(X, y) > plain.score(X, y) - 0.03
    assert model.profile_.satisfies(ApproxDP(1.0, 1e-6))
    assert list(model.to_arviz().posterior["term"].values) == ["x0", "x1", "x2", "intercept"]


def test_a_flat_list_is_no_table_to_predict_for(counts):
    X, y = counts
    model = PoissonRegression(**PUBLIC, data_norm=1.8).fit(X, y)
    with pytest.raises(InvalidData, match="one record is"):
        model.predict([0.1, 0.2, 0.3])
    assert model.predict([[0.1, 0.2, 0.3], [0.1, None]]).shape == (2,)


def test_wider_bounds_leave_the_estimate_where_it_is(counts):
    """Rows are weighed and not shortened: data_norm is no part of the model."""
    X, y = counts
    for norm in (1.0, 10.0):
        model = PoissonRegression(**PUBLIC | {"epsilon": 5.0}, data_norm=norm).fit(X, y)
        np.testing.assert_allclose(model.coef_, [1.0, -0.7, 0.0], atol=0.3)


def test_without_an_intercept_there_is_none(counts):
    X, y = counts
    model = PoissonRegression(**PUBLIC, data_norm=1.8, fit_intercept=False).fit(X, y)
    assert (model.intercept_, model.samples_.shape, model.terms_) == (0.0, (256, 3), ["x0", "x1", "x2"])


def test_noise_that_hides_everything_expects_no_count_above_the_bound(counts):
    X, y = counts
    model = PoissonRegression(**PUBLIC | {"epsilon": 1e-3}, data_norm=1.8).fit(X[:50], y[:50])
    assert np.all((model.predict(X) >= 0) & (model.predict(X) <= 20))


def test_through_a_curator_it_is_the_regression_of_its_facts(counts, tmp_path: Path):
    X, y = counts
    frame = pd.DataFrame({"blood pressure": 100 + 50 * X[:, 0], "ward": np.where(X[:, 1] > 0, "B", "A"), "visits": y})
    facts = Facts({"blood pressure": Number(0, 250), "ward": Category(["A", "B"]), "visits": Count(20)})
    with Curator(frame, tmp_path / "l", ApproxDP(6.0, 1e-6), facts=facts, dataset="d") as curator:
        model = curator.fit(PoissonRegression(), features=["blood pressure", "ward"], label="visits", spend=0.5)
    np.testing.assert_allclose(model.coef_, [0.02, -0.7], atol=0.3)
    assert model.terms_ == ["blood pressure", "ward[B]", "intercept"]
    assert model.score(frame[["blood pressure", "ward"]], y) > 0.2
    again = PoissonRegression().keep(Release.from_dict(model.release_.to_dict()))
    np.testing.assert_allclose(again.coef_, model.coef_)
    np.testing.assert_allclose(again.predict(frame[:20]), model.predict(frame[:20]), rtol=0.2)
    with pytest.raises(InvalidValue, match="adaptive looks"):
        LogisticRegression().keep(model.release_)


def test_a_promise_that_looks_cannot_keep_is_kept_by_a_chain(counts):
    X, y = counts
    asked = {"target": GaussianDP(1.0), "data_norm": 1.8, "response_bound": 20, "random_state": 1, "n_steps": 3}
    assert PoissonRegression(**asked).fit(X, y).mechanism_.word == "refined regression"
    with pytest.raises(PromiseUnreachable):
        PoissonRegression(**asked, mechanism="looks").fit(X, y)


def test_what_is_no_count_is_refused_by_what_was_asked(counts):
    X, y = counts
    with pytest.raises(InvalidValue, match="counts go to 1 or more"):
        PoissonRegression(1.0, 1e-6, data_norm=1.0, response_bound=0.5).fit(X, y)
    with pytest.raises(InvalidValue, match="magic"):
        PoissonRegression(**PUBLIC, data_norm=1.0, mechanism="magic").fit(X, y)


def test_how_much_a_formula_may_miss_is_told_as_to_a_table(counts):
    X, y = counts
    usual, right = (PoissonRegression(**PUBLIC, data_norm=1.8, misses=misses).fit(X, y) for misses in (None, 0))
    assert usual.mechanism_.system.misses == 0.15 and right.mechanism_.system.misses == 0
    assert clone(right).get_params()["misses"] == 0
    with pytest.raises(InvalidValue, match="misses"):
        PoissonRegression(**PUBLIC, data_norm=1.8, misses=-1).fit(X, y)
    with pytest.raises(InvalidValue, match="goes with mechanism='looks'"):
        PoissonRegression(**PUBLIC, data_norm=1.8, misses=0, mechanism="noisy-moments").fit(X, y)
    with pytest.raises(PromiseUnreachable):  # rather than by a chain, which allows for nothing
        PoissonRegression(target=GaussianDP(1.0), data_norm=1.8, response_bound=20, misses=0.1).fit(X, y)
