"""What scikit-learn puts in front of a private fit: one record is changed, and every other row is looked at.

The meta-estimators and transformers are those that scikit-learn itself lists, so that a new release brings new cases.
"""

import inspect
import math
import warnings

import numpy as np
import pytest
import sklearn.experimental.enable_halving_search_cv  # noqa: F401
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import NMF
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler, minmax_scale, scale
from sklearn.utils.discovery import all_estimators
from sklearn.utils.parallel import delayed

from sottovoce.faces.estimators import (
    EveryFitSpends,
    LinearRegression,
    LogisticRegression,
    PublicEncoder,
    PublicFunction,
    PublicScaler,
    private_pipeline,
)
from sottovoce.faces.estimators.base import PrivateGLM
from sottovoce.faces.estimators.pipeline_guard import _ROW_BY_ROW, learns_nothing
from sottovoce.privacy.errors import InvalidValue, UnprovenPrivacy
from sottovoce.privacy.randomness import seeded_rng

N, CHANGED = 40, 17
X = np.round(seeded_rng(1).uniform(0.5, 9.5, (N, 3)), 3)
Y = (X[:, 0] > 5).astype(int)
Y_OTHER = np.where(np.arange(N) == CHANGED, 1 - Y, Y)
PUBLIC = {"epsilon": 2.0, "delta": 1e-6, "data_norm": 2.0, "random_state": 1, "mechanism": "noisy-moments"}


def changed(rows):
    """Return the table with another record in one place."""
    other = rows.copy()
    other[CHANGED, :2] = 90.0, 0.0
    return other


def classifier():
    return LogisticRegression(**PUBLIC, classes=[0, 1])


def regressor():
    return LinearRegression(**PUBLIC, response_bound=1.0)


class Spy(BaseEstimator):
    """Notes what it is fitted to; the decimals of every cell name the record."""

    log = []  # noqa: RUF012

    def fit(self, X, y=None, sample_weight=None):
        extra = np.zeros(len(X)) if sample_weight is None else np.asarray(sample_weight)
        rows = np.column_stack([np.asarray(X, dtype=float), np.asarray(y, dtype=float), extra])
        self.log.append(sorted(map(tuple, rows[np.round(rows[:, 0] % 1 * 100) != CHANGED])))
        self.coef_ = np.arange(1.0, np.shape(X)[1] + 1)
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class SpyRegressor(RegressorMixin, Spy):
    def __init__(self, note=0):
        self.note = note

    def predict(self, X):
        return np.asarray(X)[:, 0] / 10


class SpyClassifier(ClassifierMixin, Spy):
    def __init__(self, note=0):
        self.note = note

    def fit(self, X, y=None, sample_weight=None):
        self.classes_ = np.array([0, 1])
        return super().fit(X, y, sample_weight)

    def predict_proba(self, X):
        p = np.clip(np.asarray(X)[:, 0] / 10, 0, 1)
        return np.column_stack([1 - p, p])

    def decision_function(self, X):
        return self.predict_proba(X)[:, 1] - 0.5

    def predict(self, X):
        return (self.predict_proba(X)[:, 1] > 0.5).astype(int)


MODEL_PARAMETERS = ("estimator", "regressor", "estimators", "steps")
SETTINGS = {"cv": 2, "random_state": 1, "n_features_to_select": 2, "min_samples": 5, "transformer": StandardScaler()}
META = {
    name: kind
    for name, kind in all_estimators()
    if name != "FrozenEstimator" and any(word in MODEL_PARAMETERS for word in inspect.signature(kind).parameters)
}
"""Every meta-estimator of the installed scikit-learn; a frozen one fits nothing."""


def around(name, model, setting):
    """Return the meta-estimator around a model that has such a setting."""
    known = inspect.signature(META[name]).parameters
    given = {word: value for word, value in SETTINGS.items() if word in known}
    given |= {word: setting for word in ("param_grid", "param_distributions") if word in known}
    place = next(word for word in MODEL_PARAMETERS if word in known)
    if place == "steps":
        model = [("scaler", StandardScaler()), ("model", model)]
    elif place == "estimators":
        model = [("model", model)]
    return META[name](**{place: model}, **given)


def is_for_classes(name):
    return any(word in name for word in ("Classifier", "OneVs", "CV"))


def targets(name, labels):
    return np.column_stack([labels, labels]) if "MultiOutput" in name or "Chain" in name else labels


def seen_behind(name, rows, labels):
    """Return what each fit of a model behind a meta-estimator was given of the records that stay the same."""
    model = SpyClassifier() if is_for_classes(name) else SpyRegressor()
    Spy.log = []
    try:
        around(name, model, {"note": [0, 1]}).fit(rows, targets(name, labels))
    except (ValueError, AttributeError):
        assert name in {"AdaBoostClassifier", "SequentialFeatureSelector"} or Spy.log  # fails after the fits
    return Spy.log


@pytest.mark.filterwarnings("ignore")
def test_meta_estimators_move_other_rows_when_one_record_changes():
    numbered = np.floor(X) + np.arange(N)[:, None] / 100
    other = numbered.copy()
    other[CHANGED] += [80.0, -9.0, 0.0]
    moving = set()
    for name in META:
        before = seen_behind(name, numbered, Y)
        if before != seen_behind(name, other, Y) or before != seen_behind(name, numbered, Y_OTHER):
            moving.add(name)
    assert moving >= {"Pipeline", "TransformedTargetRegressor", "AdaBoostRegressor", "StackingClassifier"}
    assert moving >= {"GridSearchCV", "CalibratedClassifierCV", "TunedThresholdClassifierCV"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", META)
def test_no_meta_estimator_reaches_the_records(name, monkeypatch):
    reads = []
    monkeypatch.setattr(PrivateGLM, "_records", lambda self, X, y: reads.append(1) or (X, y))
    model = classifier() if is_for_classes(name) else regressor()
    with pytest.raises((UnprovenPrivacy, ValueError, AttributeError)) as refusal:
        around(name, model, {"draws": [1, 2]}).fit(X, targets(name, Y))
    assert not reads
    said = str(refusal.value)
    assert "pays nothing for it" in said or name in {"AdaBoostClassifier", "SequentialFeatureSelector"}, said


def test_what_to_write_instead_is_said():
    for wrapper, instead in (
        (TransformedTargetRegressor(regressor(), transformer=StandardScaler()), "response_bound"),
        (TransformedTargetRegressor(regressor(), func=np.log1p, inverse_func=np.expm1), "response_bound"),
        (GridSearchCV(classifier(), {"draws": [1]}, cv=2, error_score="raise"), "PrivateSearchCV"),
        (make_pipeline(FunctionTransformer(scale), classifier()), "PublicFunction"),
        (make_pipeline(StandardScaler(), classifier()), "PublicScaler"),
    ):
        with pytest.raises(UnprovenPrivacy, match=instead) as refusal:
            wrapper.fit(X, Y)
        assert "\n" not in str(refusal.value)


def test_around_public_records_a_search_may_say_so():
    search = GridSearchCV(classifier(), {"draws": [1]}, cv=2)
    search.learns_nothing = True
    with pytest.warns(EveryFitSpends, match="PrivateSearchCV"):
        assert search.fit(X, Y).best_params_ == {"draws": 1}


@pytest.mark.filterwarnings("ignore:`sklearn.utils.parallel.delayed`:UserWarning")
def test_a_fit_in_a_worker_is_refused_since_what_came_before_is_out_of_sight():
    task, given, _ = delayed(classifier().fit)(X, Y)  # what a worker is sent
    with pytest.raises(UnprovenPrivacy, match="n_jobs=1"):
        task(*given)
    with pytest.warns(EveryFitSpends):
        cross_val_score(classifier(), X, Y, cv=2, n_jobs=1, error_score="raise")


class Centred(TransformerMixin, BaseEstimator):
    """A step that keeps no state, needs no fit, and mixes the rows."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X - X.mean(axis=0)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


def widest(X):
    """Choose a column by what stands in it."""
    return [int(np.ptp(np.asarray(X), axis=0).argmax())]


def mixing():
    """Return steps that would mix the rows, in everything that may hold a step."""
    functions = (scale, minmax_scale, lambda rows: rows - rows.max(axis=0))
    for k, step in enumerate([*map(FunctionTransformer, functions), Centred()]):
        yield f"bare {k}", step
        yield f"frozen {k}", FrozenEstimator(step)
        yield f"union {k}", FeatureUnion([("a", PublicFunction([np.log1p] * 3)), ("b", step)])
        yield f"columns {k}", ColumnTransformer([("a", PublicScaler([(0, 1)]), [0]), ("b", step, [0])])
        yield f"remainder {k}", ColumnTransformer([("a", PublicScaler([(0, 1)]), [1])], remainder=step)
        yield f"pipeline {k}", Pipeline([("a", "passthrough"), ("b", step)])
        yield f"frozen pipeline {k}", FrozenEstimator(Pipeline([("a", StandardScaler()), ("b", step)]))
    yield "columns by content", ColumnTransformer([("a", PublicScaler([(0, 1)]), widest)])
    yield "frozen NMF", FrozenEstimator(NMF(2, tol=0.01))


def passing():
    """Return what passes: ours, what is made of ours, and of scikit-learn's steps those that are frozen and known."""
    for name, kind in all_estimators(type_filter="transformer"):
        if all(p.default is not p.empty for p in inspect.signature(kind).parameters.values()):
            for step in (kind(), FrozenEstimator(kind())):
                if learns_nothing(step):
                    yield name, step
    for k, step in enumerate(OURS):
        yield f"ours {k}", step


OURS = [
    PublicScaler([(0, 10)] * 3),
    PublicEncoder([[1, 2]] * 3),
    PublicFunction([np.log1p, None, np.tanh]),
    FeatureUnion([("a", PublicFunction([np.log1p] * 3)), ("b", PublicScaler([(0, 10)] * 3))]),
    ColumnTransformer([("a", PublicScaler([(0, 10)]), [0])], remainder="passthrough"),
    make_pipeline(PublicFunction([np.log1p] * 3), PublicScaler([(0, 3)] * 3)),
]


def moves_another_row(step):
    if isinstance(step, FrozenEstimator):
        step.estimator.fit(X[::-1] + 1, Y)  # other records
    tables = [step.fit(rows, Y).transform(rows) for rows in (X, changed(X))]
    before, after = (np.delete(_dense(rows), CHANGED, axis=0) for rows in tables)
    return not np.array_equal(before, after)


@pytest.mark.filterwarnings("ignore:n_quantiles")
def test_a_step_that_passes_moves_no_other_row():
    moving = {name: step for name, step in mixing() if moves_another_row(step)}
    assert moving.keys() == {name for name, _ in mixing()}
    assert [name for name, step in moving.items() if learns_nothing(step)] == []

    public = dict(passing())
    assert public.keys() == _ROW_BY_ROW | {f"ours {k}" for k in range(len(OURS))}
    assert [name for name, step in public.items() if not learns_nothing(step) or moves_another_row(step)] == []


def _dense(rows):
    return rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows)


@pytest.mark.parametrize(
    "step",
    [
        *(FunctionTransformer(scale), FunctionTransformer(np.log1p), FunctionTransformer(None), Centred()),
        FrozenEstimator(FunctionTransformer(scale)),
        ColumnTransformer([("a", PublicScaler([(0, 1)]), widest)]),
    ],
    ids=["scale", "log1p", "identity", "Centred", "frozen scale", "function in columns"],
)
def test_steps_that_might_mix_the_rows_are_refused(step):
    with pytest.raises(UnprovenPrivacy, match="learns from the same records"):
        make_pipeline(step, classifier()).fit(X, Y)
    with pytest.raises(InvalidValue, match="learns from the private records"):
        private_pipeline(step, classifier())


@pytest.mark.parametrize("function", [np.sort, np.frompyfunc(abs, 1, 1), np.add, np.isnat, abs, "log", np.matmul, 3])
def test_a_public_function_is_one_of_numpy_that_maps_each_number(function):
    with pytest.raises(InvalidValue, match=r"np\.log1p"):
        PublicFunction([function]).fit_transform([[1.0]])


def test_a_public_function_meets_odd_cells_with_the_missing_value():
    cells = [0.0, -1.0, 5e-324, 1e308, math.nan, math.inf, -math.inf, "x", None, 10**400, "2"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mapped = PublicFunction([np.exp], missing=-1.0).fit_transform([[cell] for cell in cells])[:, 0]
    assert mapped.tolist() == [1.0, math.exp(-1), 1.0, *[-1.0] * 7, pytest.approx(math.exp(2))]


def test_a_public_function_names_columns_of_a_frame():
    pandas = pytest.importorskip("pandas", reason="needs the data extra")
    frame = pandas.DataFrame({"days": [0.0, math.e - 1], "age": [1.0, 2.0]})
    step = PublicFunction({"age": None, "days": np.log1p})
    np.testing.assert_allclose(step.fit_transform(frame), [[1.0, 0.0], [2.0, 1.0]])
    assert step.get_feature_names_out().tolist() == ["age", "days"]
