"""The estimators have scikit-learn's manners and refuse to read a bound off the data."""

import warnings

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import (
    check_dict_unchanged,
    check_fit_idempotent,
    check_methods_subset_invariance,
    estimator_checks_generator,
)

from sottovoce.faces.estimators import (
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    PoissonRegression,
    ProbitRegression,
    PublicFunction,
)
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import ApproxDP, GaussianDP
from sottovoce.privacy.randomness import seeded_rng


class Declares:
    """The checks bring labels of their own choosing, so the harness declares those; users must do it themselves."""

    def fit(self, X, y):
        found = np.unique(np.asarray(y)) if y is not None else np.empty(0)
        # A missing or continuous target has no classes to declare: the estimator must refuse it by itself.
        given, self.classes = self.classes, found if 0 < found.size < 10 else [0, 1]
        try:
            return super().fit(X, y)
        finally:
            self.classes = given


class DeclaredLogistic(Declares, LogisticRegression):
    pass


class DeclaredProbit(Declares, ProbitRegression):
    pass


class DeclaredSVC(Declares, LinearSVC):
    pass


class GaussianResponses(PoissonRegression):
    """The checks ask a good score on responses that are no counts and reach hundreds."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


GENEROUS = {"target": GaussianDP(400.0), "data_norm": 12.0, "mechanism": "noisy-moments"}
CHECKED = [
    DeclaredLogistic(**GENEROUS),
    DeclaredProbit(**GENEROUS),
    DeclaredSVC(**GENEROUS),
    GaussianResponses(**GENEROUS, response_bound=20.0),
    LinearRegression(**GENEROUS, response_bound=20.0, prior_scale=2.5),  # the checks ask for a good fit of 200 records
]


DEPENDS_ON_RECORDS = {
    "check_complex_data",
    "check_dtype_object",
    "check_classifiers_regression_target",
    "check_supervised_y_no_nan",
}
"""Checks that demand an error because of what stands in a cell: a record would then be seen in whether a fit fails."""


@pytest.mark.filterwarnings("ignore::sottovoce.faces.estimators.estimator_protocol.EveryFitSpends")
@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        pytest.param(estimator, check, id=f"{type(model).__name__}-{check.func.__name__}-{number}")
        for model in CHECKED
        for number, (estimator, check) in enumerate(estimator_checks_generator(model))
        # scikit-learn skips array_api unless asked to speak other arrays
        if "array_api" not in check.func.__name__ and check.func.__name__ not in DEPENDS_ON_RECORDS
    ],
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore::sottovoce.faces.estimators.estimator_protocol.EveryFitSpends")
@pytest.mark.parametrize("check", [check_fit_idempotent, check_methods_subset_invariance, check_dict_unchanged])
def test_scikit_learn_checks_of_a_chain(check):
    # One compilation a shape makes chains slow to check; the checks that concern the randomness are run on them too.
    model = DeclaredLogistic(target=GaussianDP(400.0), data_norm=12.0, n_steps=60, mechanism="diffused")
    check("DeclaredLogistic", model)


@pytest.fixture(scope="module")
def people():
    rng = seeded_rng(8)
    X = rng.uniform(-0.5, 0.5, (1500, 3))
    return X, X @ [6.0, -4.0, 0.0] + 1.0


PUBLIC = {"epsilon": 2.0, "delta": 1e-6, "data_norm": 1.0, "random_state": 1}


@pytest.mark.parametrize("kind", [LogisticRegression, ProbitRegression, LinearSVC])
@pytest.mark.parametrize("mechanism", ["auto", "noisy-moments"])
def test_classifiers_learn_and_keep_the_promise(kind, mechanism, people):
    X, t = people
    y = np.where(t > 0, "yes", "no")
    model = kind(**PUBLIC, classes=["no", "yes"], mechanism=mechanism, draws=2).fit(X, y)
    assert model.score(X, y) > 0.85
    assert model.profile_.satisfies(ApproxDP(2.0, 1e-6))
    assert model.release_.reproducible
    assert model.coef_.shape == (1, 3)
    if hasattr(model, "predict_proba"):
        probabilities = model.predict_proba(X)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
        assert np.array_equal(model.classes_[probabilities.argmax(axis=1)], model.predict(X))


@pytest.mark.filterwarnings("ignore:\\nArviZ is undergoing:FutureWarning")
def test_samples_go_to_arviz(people):
    X, t = people
    model = LogisticRegression(**PUBLIC, classes=[0, 1], mechanism="noisy-moments").fit(X, (t > 0).astype(int))
    exported = model.to_arviz()
    assert exported.posterior["w"].shape == (1, *model.samples_.shape)
    assert exported.attrs["reproducible"] == 1


def test_probabilities_average_the_samples(people):
    X, t = people
    for mechanism, near in (("refined", 1e-7), ("auto", 0.02)):  # of a whole posterior, samples only come near
        model = LogisticRegression(**PUBLIC, classes=[0, 1], draws=3, mechanism=mechanism).fit(X, (t > 0).astype(int))
        linear = X[:5] @ model.samples_[:, :3].T + model.samples_[:, 3]
        expected = (1 / (1 + np.exp(-linear))).mean(axis=1)
        np.testing.assert_allclose(model.predict_proba(X[:5])[:, 1], expected, atol=near)


def test_regressions_learn(people):
    X, t = people
    rng = seeded_rng(10)
    linear = LinearRegression(**PUBLIC, response_bound=8.0).fit(X, t + 0.1 * rng.standard_normal(1500))
    np.testing.assert_allclose(linear.coef_, [6.0, -4.0, 0.0], atol=1.5)
    assert linear.score(X, t) > 0.8
    counts = rng.poisson(np.exp(t / 2))
    # A Poisson slope reaches e^{radius}: a loose promise, so that the test is of the model and not of the noise.
    loose = PUBLIC | {"epsilon": 20.0}
    poisson = PoissonRegression(**loose, response_bound=10.0, radius=3.0).fit(X, counts)
    assert poisson.score(X, counts) > 0.3
    assert np.all(poisson.predict(X) > 0)


@pytest.mark.parametrize(
    ("model", "word"),
    [
        (LogisticRegression(1.0, 1e-6, classes=[0, 1]), "data_norm"),
        (LogisticRegression(1.0, 1e-6, data_norm=1.0), "classes"),
        (LogisticRegression(delta=1e-6, data_norm=1.0, classes=[0, 1]), "promise is missing"),
        (LogisticRegression(1.0, 1e-6, target=GaussianDP(1.0), data_norm=1.0, classes=[0, 1]), "once"),
        (LogisticRegression(1.0, 1e-6, data_norm=1.0, classes=[0, 1, 2], mechanism="diffused"), "binary"),
        (LogisticRegression(1.0, 1e-6, data_norm=1.0, classes=[0, 1], mechanism="magic"), "magic"),
        (LinearRegression(1.0, 1e-6, data_norm=1.0), "response_bound"),
        (PoissonRegression(1.0, 1e-6, data_norm=1.0), "response_bound"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_missing_public_knowledge_is_an_error_never_a_guess(model, word):
    X = np.linspace(-1, 1, 40).reshape(20, 2)
    with pytest.raises(InvalidValue, match=word):
        model.fit(X, np.arange(20) % 2)


def test_pipelines_work_without_a_warning(people):
    X, t = people
    y = (t > 0).astype(int)
    model = LogisticRegression(**PUBLIC, classes=[0, 1], mechanism="noisy-moments")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert make_pipeline(PublicFunction([np.tanh] * 3), model).fit(X, y).score(X, y) > 0.8


def test_secure_randomness_is_the_default(people):
    X, t = people
    model = LogisticRegression(1.0, 1e-6, data_norm=1.0, classes=[0, 1], mechanism="noisy-moments")
    assert not model.fit(X, (t > 0).astype(int)).release_.reproducible


def test_public_knowledge_is_checked_before_any_record_is_read():
    class Untouchable:
        def __array__(self, *_, **__):
            raise AssertionError("a record was read")

    for model in (LogisticRegression(1.0, 1e-6, data_norm=1.0), LinearRegression(1.0, 1e-6, response_bound=1.0)):
        with pytest.raises(InvalidValue, match="missing"):
            model.fit(Untouchable(), Untouchable())
