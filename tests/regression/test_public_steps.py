"""Public steps read nothing off the records, and what does is refused in front of a private fit."""

import math
import warnings

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import sottovoce as sv
from sottovoce.faces.estimators import (
    LinearRegression,
    LogisticRegression,
    PublicEncoder,
    PublicFunction,
    PublicScaler,
    private_pipeline,
)
from sottovoce.faces.estimators.estimator_protocol import EveryFitSpends
from sottovoce.faces.estimators.pipeline_guard import learns_nothing
from sottovoce.privacy.errors import InvalidData, InvalidValue, UnprovenPrivacy
from sottovoce.privacy.randomness import seeded_rng

PUBLIC = {"epsilon": 2.0, "delta": 1e-6, "data_norm": 2.0, "random_state": 1, "mechanism": "noisy-moments"}
X = seeded_rng(1).uniform(0, 100, (60, 2))
Y = (X[:, 0] > 50).astype(int)


def model():
    return LogisticRegression(**PUBLIC, classes=[0, 1])


def test_a_scaler_is_the_same_whatever_records_it_was_fitted_to():
    scaler = PublicScaler([(0, 100), (0, 50)])
    want = np.column_stack([X[:, 0] / 50 - 1, np.clip(X[:, 1], 0, 50) / 25 - 1])
    np.testing.assert_allclose(scaler.fit(X[:3]).transform(X), want, atol=1e-12)
    np.testing.assert_array_equal(scaler.transform(X), PublicScaler([(0, 100), (0, 50)]).fit(1e9 * X).transform(X))
    assert scaler.data_norm == scaler.data_norm_ == math.sqrt(2)


@pytest.mark.parametrize("bounds", [(0, 5e-324), (-1.7e308, 1.7e308), (1e16, 1e16 + 2), (-1e-310, 1e-310)])
def test_scaled_numbers_never_leave_minus_one_to_one(bounds):
    cells = [0, *bounds, 5e-324, -1e308, 1e308, 1e16, 1e16 + 2, math.nan, math.inf, "x", None, 10**400]
    scaled = PublicScaler([bounds]).fit_transform([[cell] for cell in cells])
    assert np.all(np.abs(scaled) <= 1)
    assert scaled[1:3, 0].tolist() == [-1.0, 1.0]
    assert scaled[-5:, 0].tolist() == [0.0] * 5


def test_named_columns_of_a_frame_in_the_order_of_the_facts():
    pandas = pytest.importorskip("pandas", reason="needs the data extra")
    frame = pandas.DataFrame({"sex": ["F", None, "x"], "age": [0.0, 50.0, None], "id": [1, 2, 3]})
    assert PublicScaler({"age": (0, 100)}).fit_transform(frame).tolist() == [[-1.0], [0.0], [0.0]]
    encoder = PublicEncoder({"sex": ["F", "M"]})
    assert encoder.fit_transform(frame).tolist() == [[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    assert encoder.get_feature_names_out().tolist() == ["sex_F", "sex_M"]
    with pytest.raises(InvalidData, match="no column 'height'"):
        PublicScaler({"height": (0, 3)}).fit_transform(frame)


@pytest.mark.parametrize(
    "step",
    [
        *(PublicScaler(), PublicScaler([]), PublicScaler([(1, 0)]), PublicScaler([(0, math.inf)]), PublicScaler([3])),
        *(PublicEncoder(), PublicEncoder([[]]), PublicEncoder(["AB"]), PublicEncoder("AB")),
    ],
    ids=str,
)
def test_facts_that_are_missing_or_senseless_are_refused(step):
    with pytest.raises(InvalidValue):
        step.fit_transform([[1.0]])


@pytest.mark.parametrize(
    "step",
    [
        *(
            StandardScaler(),
            MinMaxScaler(),
            FeatureUnion([("a", PublicFunction([np.tanh] * 2)), ("b", StandardScaler())]),
        ),
        ColumnTransformer([("a", "passthrough", [0])], remainder=StandardScaler()),
        Pipeline([("a", PublicScaler([(0, 1)] * 2)), ("b", StandardScaler())]),
    ],
    ids=lambda step: type(step).__name__,
)
def test_a_fit_behind_a_step_that_learns_is_refused(step):
    assert not learns_nothing(step)
    with pytest.raises(UnprovenPrivacy, match="learns from the same records"):
        make_pipeline(step, model()).fit(X, Y)
    with pytest.raises(InvalidValue, match="learns from the private records"):
        private_pipeline(step, model())


@pytest.mark.filterwarnings("ignore::sottovoce.faces.estimators.estimator_protocol.EveryFitSpends")
def test_searches_and_wrappers_do_not_hide_the_step():
    pipe = make_pipeline(StandardScaler(), model())
    with pytest.raises(UnprovenPrivacy):
        GridSearchCV(pipe, {"logisticregression__prior_scale": [1.0]}, cv=2, error_score="raise").fit(X, Y)
    with pytest.raises(UnprovenPrivacy):
        make_pipeline(StandardScaler(), CalibratedClassifierCV(model(), cv=2)).fit(X, Y)
    with pytest.raises(UnprovenPrivacy):
        make_pipeline(
            StandardScaler(), sv.NaiveBayes(1.0, classes=[0, 1], features=[sv.latent.Bounded("a", -3, 3)])
        ).fit(X[:, :1], Y)


@pytest.mark.parametrize(
    "step",
    [
        *(PublicScaler([(0, 100)] * 2), PublicFunction([np.tanh] * 2), "passthrough"),
        FrozenEstimator(StandardScaler().fit([[0.0, 0.0], [100.0, 100.0]])),
        ColumnTransformer([("a", PublicScaler([(0, 100)]), [0])], remainder="drop"),
    ],
    ids=lambda step: type(step).__name__,
)
def test_public_steps_pass(step):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert private_pipeline(step, model()).fit(X, Y).predict(X).shape == (60,)


@pytest.mark.parametrize("kind", [LogisticRegression, sv.estimators.SGDLogisticRegression])
def test_a_second_fit_of_the_same_estimator_warns(kind):
    once = kind(2.0, 1e-6, data_norm=1.0, classes=[0, 1])
    once.fit(X, Y)
    with pytest.warns(EveryFitSpends, match="fitted again"):
        once.fit(X, Y)


def test_a_linear_release_is_in_the_units_of_its_coefficients():
    t = 3 + 0.02 * X[:, 0]
    scaled = PublicScaler([(0, 100)] * 2).fit_transform(X)
    for mechanism in ("noisy-moments", "diffused"):
        made = LinearRegression(
            target=sv.GaussianDP(500.0), data_norm=2.0, response_bound=(0, 8), random_state=1, mechanism=mechanism
        ).fit(scaled, t)
        value = made.release_.value
        mean = value.mean if mechanism == "noisy-moments" else value.mean(axis=0)
        np.testing.assert_allclose(mean, [*made.coef_, made.intercept_])
        np.testing.assert_allclose(made.samples_.mean(axis=0), mean, atol=1.0)
        if mechanism == "noisy-moments":
            assert made.score(scaled, t) > 0.9
            np.testing.assert_allclose(mean, [1.0, 0.0, 4.0], atol=0.2)


def test_by_default_a_linear_regression_is_better_than_the_mean():
    """Twelve weak columns and a response in the middle of its range: a prior thirty wide drowned them."""
    rng = seeded_rng(2)
    Z = rng.uniform(-0.5, 0.5, (4000, 11))
    t = 5 + Z[:, 0] - Z[:, 1] + 0.7 * rng.standard_normal(4000)

    def error(**given):
        made = [LinearRegression(1.0, 1e-5, data_norm=2.0, random_state=s, **given).fit(Z, t) for s in range(3)]
        return np.mean([np.sqrt(np.mean((m.predict(Z) - t) ** 2)) for m in made])

    assert error(response_bound=(0, 10)) < 0.9 * t.std()
