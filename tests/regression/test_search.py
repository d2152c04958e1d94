"""A search for one promise: charged once, in memory and by a curator; it finds the good and refuses the rest."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier

from sottovoce.faces.estimators import EveryFitSpends, LinearRegression, LogisticRegression, NaiveBayes, PrivateSearchCV
from sottovoce.inference.regression import BestRegression, Design, FilteredRegression, Logistic
from sottovoce.inference.regression.best_of import Chosen, held_out, scores_of
from sottovoce.mechanisms.mechanism import Mechanism
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.best_of import BestOfProfile, RandomStopping
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import ApproxDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Facts, Flag, Number
from sottovoce.service.curator import Curator

GRID = {"prior_scale": [0.01, 10.0]}
MODEL = LogisticRegression(data_norm=1.0, classes=[0, 1])


@pytest.fixture(scope="module")
def people():
    rng = seeded_rng(1)
    X = rng.uniform(-0.5, 0.5, (3000, 2))
    return X, (X[:, 0] + 0.2 * rng.standard_normal(3000) > X[:, 1]).astype(int)


def test_it_is_charged_once_whatever_the_number_of_tries(people):
    X, y = people
    search = PrivateSearchCV(MODEL, GRID, epsilon=1.0, delta=1e-6, random_state=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search.fit(X, y)
    assert isinstance(search.profile_, BestOfProfile)
    assert search.profile_.satisfies(ApproxDP(1.0, 1e-6))
    assert search.profile_.epsilon(1e-6) == pytest.approx(1.0, rel=1e-6)
    assert search.best_params_ == {"prior_scale": 10.0}
    assert search.score(X, y) > 0.85
    assert search.predict_proba(X).shape == (3000, 2)
    assert is_classifier(search)
    with pytest.warns(EveryFitSpends, match="again"):
        search.fit(X, y)


def test_a_candidate_without_hope_is_seldom_chosen(people):
    X, y = people
    found = [
        PrivateSearchCV(MODEL, GRID, epsilon=2.0, delta=1e-6, tries=8, random_state=seed).fit(X, y).best_index_
        for seed in range(8)
    ]
    assert np.mean(found) > 0.7


def test_through_a_curator_it_spends_what_it_is_given(people, tmp_path):
    X, y = people
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "ill": y.astype(bool)})
    facts = Facts(a=Number(-0.5, 0.5), b=Number(-0.5, 0.5), ill=Flag())
    search = PrivateSearchCV(LogisticRegression(), {"prior_scale": [1.0, 10.0], "mechanism": ["filtered"]}, tries=3)
    budget = ApproxDP(2.0, 1e-5)
    with Curator(frame, tmp_path / "a.ledger", budget, facts=facts, dataset="people") as curator:
        fitted = curator.fit(search, features=["a", "b"], label="ill", spend=0.5)
        entries = curator.history()
    assert len(entries) == 1
    assert entries[0].profile.to_dict() == fitted.profile_.to_dict()
    assert fitted.score(frame[["a", "b"]], frame["ill"]) > 0.8
    assert fitted.best_estimator_.terms_ == ["a", "b", "intercept"]
    again = Release.from_json(fitted.release_.to_json())
    assert isinstance(again.value, Chosen)
    kept = clone(search).keep(again)
    assert np.array_equal(kept.best_estimator_.coef_, fitted.best_estimator_.coef_)


def test_lines_are_searched_too():
    rng = seeded_rng(5)
    X = rng.uniform(-0.5, 0.5, (4000, 2))
    y = X @ [0.8, -0.4] + 0.1 * rng.standard_normal(4000)
    model = LinearRegression(data_norm=1.0, response_bound=1.0)
    search = PrivateSearchCV(model, {"prior_scale": [1e-3, 1.5]}, epsilon=1.0, delta=1e-6, tries=20, random_state=1)
    assert search.set_params(law="geometric").fit(X, y).score(X, y) > 0.5
    with pytest.raises(InvalidValue, match="square"):
        PrivateSearchCV(**search.get_params(deep=False)).set_params(scoring="accuracy").fit(X, y)


def test_the_mechanism_reads_back_and_says_what_it_does():
    mechanism = BestRegression.example()
    assert Mechanism.from_dict(mechanism.to_dict()).to_dict() == mechanism.to_dict()
    assert "best of 2 tries on average" in mechanism.describe()
    assert held_out(10, 0.2) == 2
    assert held_out(2, 0.01) == held_out(2, 0.9) == 1


def test_a_chain_is_a_candidate_too(people):
    X, y = people
    grid = [{"mechanism": ["diffused"], "n_steps": [5]}, {"mechanism": ["filtered"]}]
    search = PrivateSearchCV(MODEL, grid, epsilon=1.0, delta=1e-6, random_state=2).fit(X[:400], y[:400])
    assert search.best_params_["mechanism"] in {"diffused", "filtered"}
    assert search.best_estimator_.coef_.shape == (1, 2)


def test_scores_lie_between_0_and_1_and_reward_the_truth():
    design, rng = Design(Logistic(), 2, 1.0), seeded_rng(6)
    X, y = rng.uniform(-0.7, 0.7, (200, 2)), rng.choice([-1.0, 1.0], 200)
    for w in (np.zeros((1, 2)), 1e9 * rng.standard_normal((3, 2))):
        for score in ("square", "accuracy"):
            found = scores_of(design, w, X, y, score)
            assert np.all((found >= 0) & (found <= 1))
    truth = np.array([[30.0, 0.0]])
    assert scores_of(design, truth, X, np.sign(X[:, 0]), "square").mean() > 0.9


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"estimator": NaiveBayes()}, "regression of ours"),
        ({"estimator": LogisticRegression(1.0, 1e-6, data_norm=1.0, classes=[0, 1])}, "once"),
        ({"param_grid": {"colour": [1]}}, "colour"),
        ({"param_grid": {"random_state": [1]}}, "random_state"),
        ({"param_grid": 3}, "param_grid"),
        ({"param_grid": {"data_norm": [1.0, 2.0]}}, "same rows"),
        ({"param_grid": {"mechanism": ["noisy-moments"]}}, "same rows"),
        ({"tries": 0}, "tries must be"),
        ({"tries": 0.5}, "tries must be"),
        ({"tries": 1e7}, "tries must lie"),
        ({"law": "fixed"}, "law"),
        ({"held_out": 1.0}, "share"),
        ({"scoring": "f1"}, "score"),
        ({"epsilon": None, "delta": None}, "promise"),
    ],
)
def test_wrong_questions_are_refused_before_a_record_is_read(change, word, people):
    X, y = people
    with pytest.raises(InvalidValue, match=word):
        PrivateSearchCV(MODEL, GRID, epsilon=1.0, delta=1e-6).set_params(**change).fit(X, y)


def test_parts_put_together_by_hand_must_fit():
    design = Design(Logistic(), 2, 1.0)
    dear, other = FilteredRegression(design, 8, 2.0), FilteredRegression(design, 9, 0.5)
    for candidate in (dear, other):
        with pytest.raises(InvalidValue, match="candidate"):
            BestRegression(design, 10, (candidate,), 1.0, RandomStopping(2.0))
    build = [lambda n, promise: FilteredRegression.calibrate(design, n, promise)]
    assert BestRegression.calibrate(design, 10, ApproxDP(1.0, 1e-5), candidates=build).candidates[0].n == 8
