"""A search over parameters that is charged once: the best of a random, secret number of tries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from sklearn.base import MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sottovoce.faces.estimators.base import PrivateGLM
from sottovoce.faces.estimators.estimator_protocol import PrivateEstimator, random_source, warn_of_refit
from sottovoce.inference.regression.best_of import BestRegression, Chosen
from sottovoce.mechanisms.mechanism import Mechanism
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.best_of import RandomStopping
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import real
from sottovoce.privacy.promises import GaussianDP, Promise
from sottovoce.records.facts import Facts

_MOST = 10_000
_PROBE = GaussianDP(1.0)
"""A promise to ask a candidate for its design with, which does not depend on it."""


def _has(name: str) -> Any:
    return available_if(lambda self: hasattr(self.estimator, name))


class PrivateSearchCV(MetaEstimatorMixin, PrivateEstimator):  # type: ignore[misc]
    """Choose the parameters of a regression privately, and fit it, for one promise in all.

    `GridSearchCV` chooses by scores without noise, and is refused around a private fit. This search draws how many
    tries there are from a public law, picks a candidate at random for each, fits it to a random part of the records,
    scores it with noise on the rest, and releases the best try alone (Papernot and Steinke 2022). The number of tries
    and the other tries stay secret, so that ten tries cost little more than two: for (1, 1e-5), noise 7.0 instead of
    3.7 for one fit and 11.8 for ten. How long a fit takes tells how many tries there were: let nobody time it whom the
    promise is to protect from.

    Parameters
    ----------
    estimator
        A regression of ours without a promise of its own: `LogisticRegression` or `LinearRegression`.
    param_grid
        Names of its parameters and the values to try, as for `GridSearchCV`; a dict or a list of dicts.
    epsilon, delta, target
        The promise of the whole search.
    tries
        How many tries there are on average.
    law
        ``"logarithmic"``, or ``"geometric"`` which says 1 less often and costs more.
    held_out
        The share of the records that scores a try.
    scoring
        ``"square"`` (Brier's score of classes, or the squared error), or ``"accuracy"``.
    random_state
        None for secure randomness; see `PrivateGLM`.

    Attributes
    ----------
    best_estimator_, best_params_, best_index_
        What was chosen: fitted by the very release that scored best, on the records that were not held out.
    best_score_
        Its noisy mean score. It is the best of several, and so better than it deserves.
    profile_, release_

    Examples
    --------
    >>> from sottovoce.faces.estimators import LogisticRegression
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> rng = seeded_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, (4000, 2))
    >>> y = X[:, 0] > X[:, 1]
    >>> model = LogisticRegression(data_norm=1.0, classes=[False, True])
    >>> search = PrivateSearchCV(model, {"prior_scale": [0.1, 10.0]}, epsilon=1.0, delta=1e-6, random_state=2)
    >>> search.fit(X, y).best_params_, search.score(X, y) > 0.9, search.profile_.delta(1.0) <= 1e-6
    ({'prior_scale': 10.0}, True, True)
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        target: Promise | None = None,
        tries: float = 10.0,
        law: str = "logarithmic",
        held_out: float = 0.2,
        scoring: str = "square",
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.epsilon = epsilon
        self.delta = delta
        self.target = target
        self.tries = tries
        self.law = law
        self.held_out = held_out
        self.scoring = scoring
        self.random_state = random_state

    def _candidates(self) -> list[dict[str, Any]]:
        """Return what to try, from parameters alone."""
        if not isinstance(self.estimator, PrivateGLM):
            raise InvalidValue(f"a search is over a regression of ours. Got a {type(self.estimator).__name__}")
        if any(getattr(self.estimator, name) is not None for name in ("epsilon", "delta", "target")):
            raise InvalidValue("give the promise once: to the search, not to the estimator it searches over")
        try:
            result = [dict(item) for item in ParameterGrid(self.param_grid)]
        except (TypeError, ValueError) as error:
            raise InvalidValue(f"param_grid is a dict of lists, or a list of such: {error}") from None
        if not 0 < len(result) <= _MOST:
            raise InvalidValue(f"param_grid names 1 to {_MOST} candidates. Got {len(result)}")
        known, fixed = self.estimator.get_params(deep=False), ("epsilon", "delta", "target", "random_state", "classes")
        for name in result[0]:
            if name not in known or name in fixed:
                raise InvalidValue(f"{name!r} is no parameter to search over")
        return result

    def _model(self, parameters: Mapping[str, object]) -> Any:
        return clone(self.estimator).set_params(**parameters)

    def _search(self, n: int, promise: Promise, build: Any) -> BestRegression:
        """Return the mechanism; `build(model, n, promise)` returns that of a candidate."""
        models = [self._model(item) for item in self._candidates()]
        tries = RandomStopping(real("tries", self.tries, 1.0), self.law)
        makers = [lambda left, share, model=model: build(model, left, share) for model in models]
        first = build(models[0], max(n, 2), _PROBE)
        return BestRegression.calibrate(
            first.system, n, promise, candidates=makers, tries=tries, share=self.held_out, score=self.scoring
        )

    def mechanism_for(
        self,
        n: int,
        promise: Promise | None = None,
        facts: Facts | None = None,
        features: Sequence[str] | None = None,
        label: str | None = None,
    ) -> Mechanism:
        """Return the search for n records of these columns, by facts and parameters alone; see `PrivateEstimator`."""
        given = self._promise(promise)
        return self._search(n, given, lambda model, left, one: model.mechanism_for(left, one, facts, features, label))

    def fit(self, X: Any, y: Any) -> Self:
        """Search and fit on these records. Each call spends the promise once, however many tries there are."""
        promise = self._promise()
        self._candidates()
        self.estimator._check_public()
        warn_of_refit(self)
        reader = clone(self.estimator)
        rows, labels = reader._records(X, y)

        def build(model: Any, left: int, one: Promise) -> Mechanism:
            return model._mechanism(model._design(rows.shape[1], reader._names()), left, one)  # type: ignore[no-any-return]

        mechanism = self._search(len(rows), promise, build)
        release = mechanism.release((rows, labels), random_source(self.random_state))
        self._kept(release)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(reader, name):
                setattr(self.best_estimator_, name, getattr(reader, name))
        return self

    def keep(self, release: Release) -> Self:
        """Take a release of the search's mechanism and be fitted by it."""
        return self._kept(release)

    def _kept(self, release: Release) -> Self:
        result, state = release.value, release.mechanism
        if not isinstance(result, Chosen) or state.get("mechanism") != BestRegression.word:
            raise InvalidValue("this release is not of a search")
        self.best_index_, self.best_score_ = result.which, result.score
        self.best_params_ = self._candidates()[result.which]
        inner = Release(
            result.value, release.profile, state["candidates"][result.which], release.parameter, release.reproducible
        )
        self.best_estimator_ = self._model(self.best_params_).keep(inner)
        self.release_, self.profile_ = release, release.profile
        if hasattr(self.best_estimator_, "classes_"):
            self.classes_ = self.best_estimator_.classes_
        return self

    @property
    def n_features_in_(self) -> int:
        """How many columns X has."""
        check_is_fitted(self, "best_estimator_")
        return int(self.best_estimator_.n_features_in_)

    def _best(self) -> Any:
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_

    def predict(self, X: Any) -> Any:
        """Return what the chosen regression predicts."""
        return self._best().predict(X)

    @_has("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Return the chosen regression's probabilities."""
        return self._best().predict_proba(X)

    @_has("decision_function")  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        """Return the chosen regression's decision function."""
        return self._best().decision_function(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the chosen regression's score on records that are public, or nobody's."""
        return float(self._best().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = self.estimator.__sklearn_tags__()
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.input_tags.allow_nan = True
        return tags
