"""A regression goes through the one door: charged, retried, read back from the ledger."""

import json

import duckdb
import numpy as np
import pandas as pd
import pytest

from sottovoce.faces.estimators import LinearRegression, LogisticRegression, NaiveBayes
from sottovoce.faces.estimators.sgd import SGDLogisticRegression
from sottovoce.inference.regression import Design, Logistic, NoisyMoments
from sottovoce.mechanisms.mechanism import MECHANISMS, Mechanism
from sottovoce.mechanisms.posterior import Posterior
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.errors import InvalidData, InvalidValue, PromiseUnreachable
from sottovoce.privacy.promises import ApproxDP, GaussianDP, PureDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Facts, Flag, Number
from sottovoce.records.readings import Moments, Reading
from sottovoce.service.curator import Curator
from sottovoce.service.ledger import Ledger

FACTS = Facts(age=Number(0, 100), ward=Category(["A", "B", "C"]), smoker=Flag(), ill=Flag(), sbp=Number(80, 200))
FEATURES, N = ["age", "ward", "smoker"], 400
BUDGET, PART = ApproxDP(2.0, 1e-5), ApproxDP(0.5, 1e-6)


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """The patients, in a database that nobody writes to afterwards."""
    path, rng = tmp_path_factory.mktemp("hospital") / "patients.duckdb", seeded_rng(1)
    age, smoker = rng.uniform(20, 90, N), rng.random(N) < 0.4
    ill = rng.random(N) < np.where(smoker, 0.8, 0.1)
    wards = rng.choice(["A", "B", "C"], N)
    patients = pd.DataFrame({"age": age, "ward": wards, "smoker": smoker, "ill": ill, "sbp": 100 + age / 2})
    with duckdb.connect(str(path)) as connection:
        connection.register("frame", patients)
        connection.execute("create table patients as select * from frame")
    return f"duckdb:///{path}?table=patients"


def opened(database, tmp_path, budget=BUDGET):
    import ibis

    place, _, table = database.removeprefix("duckdb:///").partition("?table=")
    return Curator(ibis.duckdb.connect(place).table(table), tmp_path / "a.ledger", budget, dataset="patients")


def logistic(**more):
    return LogisticRegression(n_steps=10, **more)


def test_a_logistic_regression_is_charged_retried_and_read_back(database, tmp_path):
    model = logistic(mechanism="diffused", draws=3)
    mechanism = model.mechanism_for(N, PART, FACTS, FEATURES, "ill")
    assert mechanism.columns == [*FEATURES, "ill"]
    with opened(database, tmp_path) as curator:
        first, again = (curator.release(mechanism, idempotency_key="one") for _ in range(2))
        assert np.array_equal(first.value, again.value)
        assert len(curator.history()) == 1
        assert first.value.shape == (3, 5)
    with Ledger(tmp_path / "a.ledger") as ledger:
        (entry,) = ledger.entries("patients")
    kept = Release.from_json(entry.release)
    assert np.array_equal(kept.value, first.value)
    line = Mechanism.from_dict(kept.mechanism).describe()
    assert line.startswith("diffused regression of regression, n=400")
    fitted = model.keep(first)
    assert fitted.terms_ == ["age", "ward[B]", "ward[C]", "smoker", "intercept"]
    assert fitted.classes_.tolist() == [False, True]


@pytest.mark.parametrize(
    ("model", "label"),
    [
        (LogisticRegression(mechanism="noisy-moments"), "ill"),
        (SGDLogisticRegression(regularisation=0.1), "ill"),
        (LinearRegression(), "sbp"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_estimator_is_fitted_by_a_release_of_the_curator(database, tmp_path, model, label):
    features = [name for name in FEATURES if name != label]
    mechanism = model.mechanism_for(N, PART, FACTS, features, label)
    with opened(database, tmp_path) as curator:
        release = curator.release(mechanism, where="age > 10")
    fitted = model.keep(Release.from_json(release.to_json()))
    assert fitted.coef_.size == 4
    assert fitted.profile_.satisfies(PART)
    assert list(fitted.to_arviz().posterior["w"].coords["term"].values) == fitted.terms_


def test_a_model_of_a_category_predicts_on_the_frame_it_was_fitted_to(database, tmp_path):
    """By hand, in the units of the columns: the intercept, age, and the coefficient of the ward, A having none."""
    model = LinearRegression(target=GaussianDP(50.0))
    mechanism = model.mechanism_for(N, None, FACTS, ["age", "ward"], "sbp")
    with opened(database, tmp_path, GaussianDP(100.0)) as curator:
        model.keep(curator.release(mechanism))
    frame = pd.DataFrame({"sbp": [1.0] * 4, "ward": ["A", "B", "C", "?"], "age": [30.0, 40.0, 500.0, None]})
    age, b, c = model.coef_
    by_hand = model.intercept_ + np.array([30 * age, 40 * age + b, 100 * age + c, 50 * age])
    assert model.predict(frame) == pytest.approx(by_hand)
    assert model.predict(frame[["age", "ward"]].to_numpy(dtype=object)) == pytest.approx(by_hand)
    assert model.feature_names_in_.tolist() == ["age", "ward"]
    with pytest.raises(InvalidData, match="no column 'ward'"):
        model.predict(frame[["age"]])


@pytest.mark.parametrize("kind", [LogisticRegression, SGDLogisticRegression, NaiveBayes])
@pytest.mark.parametrize(
    ("label", "classes"),
    [("ill", ["no", "yes"]), ("ward", ["A", "Z"]), ("ward", ["A", "B"]), ("ward", ["a", "b"])],
)
def test_classes_that_are_not_those_of_the_facts_cost_nothing(tmp_path, kind, label, classes):
    """Every such label would count as the first class, and no record may say so: the two public lists do."""
    frame = pd.DataFrame({"age": [40.0, 50.0], "ward": ["A", "B"], "smoker": [True, False], "ill": [False, True]})
    frame["sbp"] = 120.0
    with Curator(frame, tmp_path / "a.ledger", BUDGET, facts=FACTS, dataset="patients") as curator:
        with pytest.raises(InvalidValue, match=f"classes and the facts disagree about '{label}'"):
            curator.fit(kind(classes=classes), features=["age", "smoker"], label=label, spend=PART)
        assert not curator.history()


@pytest.mark.parametrize("classes", [[False, True], [0, 1], [True, False], ["False", "True"]])
def test_classes_may_be_written_as_the_facts_may(classes):
    assert logistic(classes=classes).mechanism_for(N, PART, FACTS, ["age"], "ill").n == N


def test_bounds_that_are_measured_from_their_middle_need_an_intercept():
    with pytest.raises(InvalidValue, match="needs an intercept"):
        logistic(fit_intercept=False).mechanism_for(N, PART, FACTS, ["age"], "ill")
    even = Facts(balance=Number(-5, 5), ill=Flag())
    assert logistic(fit_intercept=False).mechanism_for(N, PART, even, ["balance"], "ill").system.dimension == 1


def test_coefficients_come_back_in_the_units_of_the_columns():
    rng = seeded_rng(3)
    age, smoker = rng.uniform(0, 100, 5000), rng.random(5000) < 0.5
    sbp = 100 + 0.5 * age + 20 * smoker
    model = LinearRegression(target=GaussianDP(1e4), prior_scale=50.0)
    mechanism = model.mechanism_for(5000, None, FACTS, ["age", "smoker"], "sbp")
    release = mechanism.release((np.column_stack([age, smoker]), sbp), rng)
    model.keep(release)
    assert model.coef_ == pytest.approx([0.5, 20.0], rel=0.02)
    assert model.intercept_ == pytest.approx(100.0, rel=0.02)


def test_a_promise_is_given_once_and_pure_ones_are_out_of_reach():
    with pytest.raises(InvalidValue, match="once"):
        logistic(epsilon=1.0).mechanism_for(N, PART, FACTS, FEATURES, "ill")
    with pytest.raises(PromiseUnreachable, match="another kind of promise"):
        logistic(epsilon=1.0).mechanism_for(N, None, FACTS, FEATURES, "ill")
    with pytest.raises(InvalidValue, match="data_norm is missing"):
        logistic(classes=[0, 1]).mechanism_for(N, PART, None, FEATURES, "ill")


@pytest.mark.parametrize("state", [np.random.default_rng(1), np.random.RandomState(1), 1], ids=["rng", "state", "int"])
def test_any_seed_will_do(state):
    X = np.linspace(-1, 1, 40).reshape(20, 2)
    model = LogisticRegression(1.0, 1e-6, data_norm=2.0, classes=[0, 1], mechanism="noisy-moments", random_state=state)
    assert model.fit(X, np.arange(20) % 2).release_.reproducible


@pytest.mark.parametrize("word", [*Design.mechanisms])
def test_every_mechanism_reads_back_to_the_same_profile(word):
    kind = MECHANISMS[word]
    design = Design(Logistic(), 3, 1.0, radius=4.0, intercept=0.3, names=("a", "b", "y"))
    target = PureDP(1.0) if word == "tempered regression" else ApproxDP(1.0, 1e-6)
    made = kind.calibrate(design, 50, target)
    again = Mechanism.from_dict(json.loads(json.dumps(made.to_dict())))
    assert type(again) is kind
    assert again.to_dict() == made.to_dict()
    assert again.profile == made.profile
    assert "\n" not in made.describe()
    first, second = made.worst_pair()
    assert first.n == second.n == 50


def test_a_gaussian_posterior_reads_back_and_keeps_the_protocol():
    X, y = np.full((20, 2), 0.5), np.resize([1.0, -1.0], 20)
    release = NoisyMoments(Design(Logistic(), 2, 1.0), 20, 1.0, 1.0).release((X, y), seeded_rng(1))
    again = Release.from_json(release.to_json()).value
    assert isinstance(again, Posterior)
    assert again.to_dict() == release.value.to_dict()
    assert again.sample(5, seeded_rng(1)).shape == (5, 2)


@pytest.mark.parametrize(
    ("norm", "labels", "binary"), [(1.0, (-1, 1), True), (0.5, (0, 3), False), (2.0, (-1, 2), False)]
)
def test_the_sensitivity_of_moments_is_the_largest_move_of_one_record(norm, labels, binary):
    """Every pair of a fine set of records in the plane, by brute force on what the reading itself says of them."""
    reading = Moments(2, norm, labels, binary=binary)
    angle = np.linspace(0, 2 * np.pi, 25)[:-1]
    round_ = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    rows = np.concatenate([norm * round_, norm / 2 * round_, [[0.0, 0.0]]])
    points = []
    for row in rows:
        for label in labels if binary else np.linspace(*labels, 4):
            gram, moment, ones, square = reading.split(reading.read(([row.tolist()], [label])).total)
            points.append(np.concatenate([gram.ravel(), moment, ones, [square]]))
    found = max(np.linalg.norm(np.array(points) - point, axis=1).max() for point in points)
    assert 0.85 * reading.sensitivity() < found <= reading.sensitivity()
    first, second = reading.pairs(4)[0]
    assert reading.apart(first.total - second.total)
    assert not reading.apart(4 * (first.total - second.total))
    assert Reading.from_dict(reading.to_dict()) == reading
