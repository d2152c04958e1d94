"""The SGD estimator has scikit-learn's manners and keeps its promise."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import estimator_checks_generator

from sottovoce.faces.estimators.linear import EveryFitSpends
from sottovoce.faces.estimators.sgd import SGDLogisticRegression
from sottovoce.privacy.errors import InvalidValue, PromiseUnreachable
from sottovoce.privacy.promises import ApproxDP, GaussianDP
from sottovoce.privacy.randomness import seeded_rng


class Declared(SGDLogisticRegression):
    """The checks bring labels of their own choosing, so the harness declares those; users must do it themselves."""

    def fit(self, X, y, public=None):
        given, self.classes = self.classes, [0, 1] if y is None else np.unique(np.asarray(y))
        try:
            return super().fit(X, y, public)
        finally:
            self.classes = given


DEPENDS_ON_RECORDS = {"check_complex_data", "check_dtype_object", "check_classifiers_regression_target"}
"""Checks that demand an error because of what stands in a cell: a record would then be seen in whether a fit fails."""
GENEROUS = Declared(target=GaussianDP(1e5), data_norm=12.0, learning_rate=0.02, epochs=20)


@pytest.mark.filterwarnings("ignore::sottovoce.faces.estimators.estimator_protocol.EveryFitSpends")
@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        pytest.param(estimator, check, id=f"{check.func.__name__}-{number}")
        for number, (estimator, check) in enumerate(estimator_checks_generator(GENEROUS))
        # scikit-learn skips array_api unless asked to speak other arrays
        if "array_api" not in check.func.__name__ and check.func.__name__ not in DEPENDS_ON_RECORDS
    ],
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def records(n=4000, seed=0):
    rng = seeded_rng(seed)
    X = rng.uniform(-0.5, 0.5, (n, 3))
    return X, np.where(X[:, 0] > X[:, 1], "ill", "well")


def test_it_learns_keeps_the_promise_and_says_what_each_record_paid():
    X, y = records()
    model = SGDLogisticRegression(1.0, 1e-6, data_norm=1.0, classes=["ill", "well"], random_state=3)
    model.fit(X[200:], y[200:], public=(X[:200], y[:200]))
    assert model.score(X, y) > 0.85
    assert model.profile_.satisfies(ApproxDP(1.0, 1e-6))
    assert model.mu_.shape == (3800,)
    assert model.mu_[-1] == model.profile_.mu
    assert np.all(np.diff(model.mu_) > 0)
    assert model.release_.reproducible
    assert model.coef_.shape == (1, 3)
    assert model.predict_proba(X[:5]).sum(axis=1) == pytest.approx(1)
    alone = SGDLogisticRegression(1.0, 1e-6, data_norm=1.0, classes=["ill", "well"], random_state=3).fit(X, y)
    assert alone.mechanism_.noise > 5 * model.mechanism_.noise


def test_same_seed_same_model_and_secure_by_default():
    X, y = records(200)
    a, b = (SGDLogisticRegression(1.0, 1e-6, data_norm=1.0, classes=["ill", "well"], random_state=5) for _ in "ab")
    assert np.array_equal(a.fit(X, y).coef_, b.fit(X, y).coef_)
    assert not SGDLogisticRegression(1.0, 1e-6, data_norm=1.0, classes=["ill", "well"]).fit(X, y).release_.reproducible


def test_a_clone_warns_that_every_fit_spends():
    X, y = records(100)
    twin = clone(SGDLogisticRegression(1.0, 1e-6, data_norm=1.0, classes=["ill", "well"]))
    with pytest.warns(EveryFitSpends):
        twin.fit(X, y)


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"delta": 1e-6}, InvalidValue, "a promise is missing"),
        ({"epsilon": 1.0, "data_norm": 1.0, "classes": ["ill", "well"]}, PromiseUnreachable, "another kind of promise"),
        ({"epsilon": 1.0, "delta": 1e-6}, InvalidValue, "data_norm is missing"),
        ({"epsilon": 1.0, "delta": 1e-6, "data_norm": 1.0}, InvalidValue, "classes is missing"),
        (
            {"target": GaussianDP(1.0), "data_norm": 1.0, "classes": ["ill", "well"], "learning_rate": 9.0},
            InvalidValue,
            "learning_rate must lie in",
        ),
    ],
)
def test_bad_input_is_refused(given, error, says):
    X, y = records(50)
    with pytest.raises(error, match=says):
        SGDLogisticRegression(**given).fit(X, y)
