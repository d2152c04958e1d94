"""Naive Bayes with a promise: categories and bounded numbers, scikit-learn's manners."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from scipy import special
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sottovoce.faces.estimators.estimator_protocol import (
    PrivateEstimator,
    check_classes,
    promise_of,
    random_source,
    warn_of_refit,
)
from sottovoce.inference.latent.class_posterior import ClassPosterior
from sottovoce.inference.latent.fields import Bounded, Field, field_of, fields_of
from sottovoce.inference.latent.naive_bayes import NaiveBayesModel
from sottovoce.inference.latent.tempered_tables import TemperedNaiveBayes
from sottovoce.mechanisms.mechanism import Mechanism
from sottovoce.mechanisms.noisy_statistics import NoisyStatistics
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import Promise
from sottovoce.records.facts import Facts

_DRAWS = 256
"""Draws of a released model's parameters that are kept: they are free."""
_MECHANISMS = ("auto", "laplace", "gaussian", "tempered", "none")


class NaiveBayes(ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """Classes whose features are independent given the class; one release a fit (Geumlek 2020, §4.4-4.5).

    With noise, every (class, category) table and the first two moments of every number are released once, and
    everything after that is free. Tempered, the parameters themselves are sampled, every probability above a floor.

    Parameters
    ----------
    epsilon, delta
        The promise: ε alone is pure, with δ it is (ε, δ); or give any promise as `target`.
    target
        A promise such as ``ZeroConcentratedDP(0.1)``, instead of `epsilon` and `delta`.
    classes
        Every class, public: a list, or a `Field` that names the column. A curator takes them from its facts. A label
        that is none of them counts as the first, or as the `other` of the `Field`.
    features
        One `Field` (categories) or `Bounded` (numbers) a column of X, in order. Public; nothing is read off the data. A
        curator takes them from its facts.
    mechanism
        ``"laplace"``, ``"gaussian"``, ``"tempered"``; ``"auto"`` takes the noise that is smaller. ``"none"`` is the
        model without a promise, to compare with; its `profile_` is None.
    shares
        How noise splits the budget: positive numbers by the name of the column; equal where None.
    alpha, class_alpha
        What each category, and each class, is worth in the Dirichlet prior, in records; one over their number where
        None.
    noise_aware
        Average over what the true counts may have been, so that probabilities and intervals know of the noise.
    floor
        For tempered tables of K categories every probability is kept above floor/K.
    draws
        How many draws of the parameters are kept; tempered ones share the promise, so there it is best 1.
    random_state
        None for secure randomness; a whole number, a Generator or a RandomState for experiments, and the release then
        says that it is reproducible.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.choice(["ill", "well"], 2000)
    >>> X = np.column_stack([np.where(rng.random(2000) < 0.8, y == "ill", y == "well"), rng.random(2000) < 0.5])
    >>> features = [Field("cough", (False, True)), Field("left-handed", (False, True))]
    >>> model = NaiveBayes(epsilon=1.0, classes=["ill", "well"], features=features, random_state=1).fit(X, y)
    >>> model.predict([[True, False], [False, False]])
    array(['ill', 'well'], dtype='<U4')
    >>> round(model.profile_.pure(), 9), bool(model.score(X, y) > 0.75)
    (1.0, True)
    """

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        target: Promise | None = None,
        classes: Any = None,
        features: Any = None,
        mechanism: str = "auto",
        shares: Mapping[str, float] | None = None,
        alpha: float | None = None,
        class_alpha: float | None = None,
        noise_aware: bool = True,
        floor: float = 0.02,
        draws: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.target = target
        self.classes = classes
        self.features = features
        self.mechanism = mechanism
        self.shares = shares
        self.alpha = alpha
        self.class_alpha = class_alpha
        self.noise_aware = noise_aware
        self.floor = floor
        self.draws = draws
        self.random_state = random_state

    def mechanism_for(
        self,
        n: int,
        promise: Promise | None = None,
        facts: Facts | None = None,
        features: Sequence[str] | None = None,
        label: str | None = None,
    ) -> Mechanism:
        """Return the mechanism for n records, from public things alone; it names the columns to read itself."""
        model = self._model(facts, features, label)
        if self.mechanism == "none":
            raise InvalidValue("mechanism 'none' keeps no promise, so no mechanism releases it")
        target = self._promise(promise)
        if self.mechanism != "tempered":
            noise: Any = None if self.mechanism == "auto" else self.mechanism
            return NoisyStatistics.calibrate(model, n, target, noise, self.shares)
        if self.shares is not None:
            raise InvalidValue("tempered tables share one temperature; leave shares out")
        draws = 1 if self.draws is None else self.draws
        return TemperedNaiveBayes.calibrate(model, n, target, floor=self.floor, draws=draws)

    def keep(self, release: Release) -> Self:
        """Be fitted by a release of the mechanism; nothing but released numbers is used."""
        value: ClassPosterior = release.value
        self._known(value.label, value.fields)
        self.release_ = release
        self.profile_: Profile | None = release.profile
        self.convergence_ = value.convergence
        self.model_ = self.draws_ = value
        if value.total is not None and not self.noise_aware:
            self.model_ = self._system(value.label, value.fields).point(value.total)
        return self

    def fit(self, X: Any, y: Any) -> Self:
        """Release a model of these records. Each call spends the promise."""
        model = self._model()  # public matters first: nothing is read if they fail
        private = promise_of(self.target, self.epsilon, self.delta, private=self.mechanism != "none") is not None
        if private:
            warn_of_refit(self)
        columns, n = _columns_of(X, model.fields)
        if model.label.codes(y).size != n:
            raise InvalidData(f"y must hold one class a row of X. Got {len(y)} for {n} rows")
        if n == 0:
            raise InvalidData("there is no record; a model needs at least one")
        mechanism = self.mechanism_for(n) if private else None
        rng = random_source(self.random_state)
        named = {model.label.name: y} | {f.name: c for f, c in zip(model.fields, columns, strict=True)}
        statistics = model.statistics(named)
        if mechanism is not None:
            return self.keep(mechanism.release(statistics, rng))
        self._known(model.label, model.fields)
        self.profile_ = None
        self.model_, self.draws_ = model.point(statistics.total), model.plain(statistics.total, rng)
        return self

    def _known(self, label: Field, fields: Sequence[Field | Bounded]) -> None:
        self.classes_, self.fields_ = np.array(label.categories), tuple(fields)
        self.n_features_in_ = len(self.fields_)
        self.feature_names_in_ = np.array([field.name for field in fields], dtype=object)

    def _model(
        self, facts: Facts | None = None, features: Sequence[str] | None = None, label: str | None = None
    ) -> NaiveBayesModel:
        """Return the system, or say what is missing."""
        if self.mechanism not in _MECHANISMS:
            raise InvalidValue(f"mechanism must be one of {', '.join(_MECHANISMS)}. Got {self.mechanism!r}")
        classes, fields = self.classes, self.features
        if facts is not None and label is not None and classes is None:
            classes = field_of(label, facts[label])
        if facts is not None and features is not None and fields is None:
            fields = fields_of(facts, *features)
        if classes is None or fields is None:
            raise InvalidValue("classes and features are missing: public lists, never read off the data")
        if isinstance(classes, Bounded):
            raise InvalidValue(f"the class {classes.name!r} needs categories. Got numbers")
        named = classes if isinstance(classes, Field) else Field(label or "class", tuple(classes))
        if facts is not None and label is not None:
            check_classes(named.categories, label, facts[label])
        if not isinstance(self.floor, int | float) or not 0 < self.floor < 1:
            raise InvalidValue(f"floor must lie between 0 and 1. Got {self.floor!r}")
        return self._system(named, fields)

    def _system(self, label: Field, fields: Sequence[Any]) -> NaiveBayesModel:
        draws = _DRAWS if self.draws is None else self.draws
        return NaiveBayesModel(label, tuple(fields), self.alpha, self.class_alpha, bool(self.noise_aware), draws)

    def _coded(self, X: Any) -> list[object]:
        check_is_fitted(self)
        return self.model_.coded(_columns_of(X, self.fields_)[0])

    def predict_log_proba(self, X: Any) -> Floats:
        """Return log Pr[class | record] of each row."""
        coded = self._coded(X)
        joint = self.model_.predictive(coded)
        return np.asarray(joint - special.logsumexp(joint, axis=1, keepdims=True))

    def predict_proba(self, X: Any) -> Floats:
        """Return Pr[class | record] of each row; averaged over what the parameters may be."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> Any:
        """Return the likeliest class of each row."""
        best = np.argmax(self.predict_log_proba(X), axis=1)
        return self.classes_[best]

    def predict_interval(self, X: Any, level: float = 0.95) -> Floats:
        """Return the ends (low, high), last, between which Pr[class | record] lies with probability `level`.

        It warns of classes of which so few records tell that intervals hold less often.
        """
        coded = self._coded(X)
        for note in self.draws_.notes:
            warnings.warn(note, stacklevel=2)
        return self.draws_.ends(coded, level)

    def table(self, name: str) -> Floats:
        """Return Pr[category | class] of a column, (classes, categories); for numbers the mean and variance."""
        check_is_fitted(self)
        return np.asarray(self.model_.part(name).mean(axis=0))

    def interval(self, name: str, level: float = 0.95) -> Floats:
        """Return the ends between which each entry of `table` lies with probability `level`, (low, high) last."""
        check_is_fitted(self)
        return self.draws_.interval(level, name)


def _columns_of(X: Any, fields: Sequence[Field | Bounded]) -> tuple[list[object], int]:
    """Return the columns of X: by name where it has names, else by position; and how many rows there are."""
    names = getattr(X, "column_names", None)
    names = list(getattr(X, "columns", ())) if names is None else names
    if isinstance(X, Mapping) or len(names):
        missing = [f.name for f in fields if f.name not in (X if isinstance(X, Mapping) else names)]
        if missing:
            raise InvalidData(f"X has no column {missing[0]!r}; it needs {', '.join(f.name for f in fields)}")
        columns = [X[f.name] for f in fields]
        if len({len(column) for column in columns}) != 1:
            raise InvalidData("every column of X must have one value a record; these have different lengths")
        return columns, len(columns[0])
    if isinstance(X, list | tuple):
        return _from_rows(X, len(fields)), len(X)
    rows = np.asarray(X) if not isinstance(X, np.ma.MaskedArray) else X
    if rows.ndim != 2 or rows.shape[1] != len(fields):
        raise InvalidData(f"X must be a table with {len(fields)} columns, one a feature. Got shape {rows.shape}")
    return [rows[:, k] for k in range(rows.shape[1])], len(rows)


def _from_rows(rows: Sequence[object], width: int) -> list[object]:
    """Return the columns of a list of rows, each cell as it is: an array would make one type of them all.

    A row of another length has all its values missing, unless every row has another length.
    """
    cells = [_cells(row, width) for row in rows]
    if rows and not any(cells):
        raise InvalidData(f"X must be a table with {width} columns, one a feature")
    nothing = (None,) * width
    return [[(row or nothing)[k] for row in cells] for k in range(width)]


def _cells(row: Any, width: int) -> list[Any]:
    """Return the cells of a row, or none where it is no row of this width."""
    try:
        cells = [] if isinstance(row, str | bytes | Mapping) else list(row)
    except Exception:
        return []
    return cells if len(cells) == width else []
