"""scikit-learn estimators: private regressions with the manners users know.

scikit-learn reads the parameters off each signature, so that the two families spell theirs out.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from scipy import special
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from sottovoce.faces.estimators.base import EveryFitSpends, PrivateGLM
from sottovoce.faces.estimators.estimator_protocol import check_classes
from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.gaussian_posterior import GaussianPosterior
from sottovoce.inference.regression.losses import Logistic, Loss, Probit, SmoothedHinge, Squared, positive
from sottovoce.inference.regression.softmax import Softmax, softmax
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.promises import Promise
from sottovoce.records.facts.columns import Category, Column, Count, Flag, Number

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
"""Expectations over a normal predictor."""

__all__ = [
    "EveryFitSpends",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "PrivateRegressor",
    "ProbitRegression",
]


class _PrivateClassifier(ClassifierMixin, PrivateGLM):  # type: ignore[misc]
    """Two classes, given as `classes` and never read off the labels; a label that is neither counts as `classes_[0]`.

    To refuse such a label, or to warn of it, would tell of a record. Labels of another spelling (0 and 1 where the
    classes are "no" and "yes") are none of the classes, and a fit to them learns that all are of the first. A curator
    refuses classes that are not those of its facts, before anything is charged.
    """

    _most = 2

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        classes: object = None,
        target: Promise | None = None,
        data_norm: float | None = None,
        mechanism: str = "auto",
        prior_scale: float | None = None,
        radius: float | None = None,
        draws: int = 1,
        n_steps: int | None = None,
        fit_intercept: bool = True,
        intercept_scaling: float = 0.3,
        precision: str = "float64",
        accept_unproven: bool = False,
        missing: object = 0.0,
        random_state: object = None,
        verbose: int = 0,
    ) -> None:
        self._take(locals())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _declared(self) -> Any:
        if self.classes is None:
            raise InvalidValue("classes is missing: name the classes; they are never read off the labels")
        classes = np.unique(np.asarray(self.classes))
        if not 2 <= classes.size <= self._most:
            only = "Only binary classification is" if self._most == 2 else f"2 to {self._most} classes are"
            raise InvalidValue(f"{only} supported. classes names {classes.size} class(es)")
        return classes

    def _label(self) -> Column:
        return Category(self._declared().tolist())

    def _with_label(self, label: str, fact: Column) -> Self:
        if self.classes is not None:
            check_classes(self._declared().tolist(), label, fact)
            return self
        if isinstance(fact, Flag):
            return self._copy(classes=(False, True))
        if not isinstance(fact, Category):
            raise InvalidValue(f"a classifier's label is a flag or a category. Got a {fact.word}")
        return self._copy(classes=fact.categories)

    def _keep_label(self, design: Design) -> None:
        assert isinstance(design.label, Category)
        self.classes_ = np.array(design.label.categories)

    def _shape(self, coefficients: Floats, intercept: Any) -> tuple[Any, Any]:
        return np.atleast_2d(coefficients), np.atleast_1d(intercept)

    def decision_function(self, X: object) -> Floats:
        """Return how far each row is on the side of ``classes_[1]``: the mean linear predictor."""
        return self._mean_predictor(X)

    def predict(self, X: object) -> Any:
        """Return the class of each row."""
        side = self.decision_function(X) > 0
        return self.classes_[side.astype(int)]


class _ProbabilisticClassifier(_PrivateClassifier):
    """A classifier with probabilities: those of its samples, averaged."""

    _to_probability: Any
    _from_probability: Any

    def _averaged(self, X: object) -> tuple[Floats, Floats]:
        """Return the probabilities of the two classes, averaged over the posterior: by quadrature, or its samples."""
        check_is_fitted(self)
        if isinstance(self.release_.value, GaussianPosterior):
            mean, sd = self._spread(X)
            t, weights = mean[:, None] + sd[:, None] * _NODES, _WEIGHTS
        else:
            t = self._predictors(X)
            weights = np.full(t.shape[1], 1 / t.shape[1])
        lower, upper = (type(self)._to_probability(side * t) @ weights for side in (-1.0, 1.0))
        return np.asarray(lower), np.asarray(upper)

    def predict_proba(self, X: object) -> Floats:
        """Return the posterior-predictive probability of each class: the average over the posterior."""
        return np.stack(self._averaged(X), axis=1)

    def decision_function(self, X: object) -> Floats:
        """Return the predictor that has the averaged probability; with one sample that is its linear predictor."""
        check_is_fitted(self)
        if not isinstance(self.release_.value, GaussianPosterior) and len(self.samples_) == 1:
            return np.asarray(self._predictors(X)[:, 0])
        lower, upper = self._averaged(X)
        # The smaller of the two keeps its digits.
        sign = np.where(upper > lower, 1.0, -1.0)
        return np.asarray(-sign * type(self)._from_probability(np.minimum(upper, lower)))


class LogisticRegression(_ProbabilisticClassifier):
    """Private logistic regression of two classes, or of more (a softmax).

    Parameters are those of `PrivateGLM`, and `classes`, the classes; a label that is none of them counts as
    ``classes_[0]``, for to say so would tell of a record. Fitted: `coef_`, `intercept_` (the posterior's
    mean), `samples_` (one row a sample, the intercept last; of more than two classes one such row for each),
    `profile_`, `release_`, `classes_`. Probabilities are averaged over the samples.

    Examples
    --------
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> rng = seeded_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, (5000, 2))
    >>> y = np.where(X[:, 0] > X[:, 1], "ill", "well")
    >>> model = LogisticRegression(epsilon=1.0, delta=1e-6, data_norm=1.0, classes=["ill", "well"], random_state=1)
    >>> model.fit(X, y).score(X, y) > 0.95
    True
    >>> model.profile_.delta(1.0) <= 1e-6
    True
    """

    _to_probability = staticmethod(special.expit)
    _from_probability = staticmethod(special.logit)

    @property
    def _most(self) -> int:  # type: ignore[override]
        return 1000 if getattr(self, "mechanism", None) in ("auto", "filtered") else 2

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self._most > 2
        return tags

    def _loss(self) -> Loss:
        classes = len(self._declared())
        return Logistic() if classes == 2 else Softmax(classes)

    def predict_proba(self, X: object) -> Floats:
        """Return the posterior-predictive probability of each class: the average over the posterior.

        Of more than two classes it is MacKay's: the predictors divided by √(1 + πv/8), v the variance of a difference.
        """
        check_is_fitted(self)
        return super().predict_proba(X) if len(self.classes_) == 2 else softmax(self._tempered(X))

    def _tempered(self, X: object) -> Floats:
        mean, sd = self._spread(X)
        return np.asarray((mean - mean.mean(axis=1, keepdims=True)) / np.sqrt(1 + np.pi / 4 * sd**2)[:, None])

    def decision_function(self, X: object) -> Floats:
        """Return the predictor that has the averaged probability; of more than two classes, one for each."""
        check_is_fitted(self)
        if len(self.classes_) == 2:
            return super().decision_function(X)
        return self._tempered(X)

    def predict(self, X: object) -> Any:
        """Return the class of each row."""
        check_is_fitted(self)
        return super().predict(X) if len(self.classes_) == 2 else self.classes_[self._tempered(X).argmax(axis=1)]


class ProbitRegression(_ProbabilisticClassifier):
    """Private probit regression of two classes; mechanisms other than the filter need the ball ‖w‖ ≤ `radius`."""

    _to_probability = staticmethod(special.ndtr)
    _from_probability = staticmethod(special.ndtri)

    def _loss(self) -> Loss:
        return Probit()


class LinearSVC(_PrivateClassifier):
    """A private linear classifier with the smoothed hinge loss: one draw of its Gibbs posterior.

    It is not on the filter that the other classifiers are on, for a hinge gives that nothing to go by: at 0, where the
    first look is taken, it is a straight line and has no information; and it is the logarithm of no likelihood, so that
    how much its score varies does not follow from how curved it is, as a belief that knows its noise needs it. Where
    probabilities, a whole posterior or the fewest errors are wanted, take `LogisticRegression`.
    """

    def _loss(self) -> Loss:
        return SmoothedHinge(0.5)


class PrivateRegressor(RegressorMixin, PrivateGLM):  # type: ignore[misc]
    """Responses clipped to a bound that is given as `response_bound`; what is no number counts as 0, or the middle."""

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        response_bound: object = None,
        target: Promise | None = None,
        data_norm: float | None = None,
        mechanism: str = "auto",
        prior_scale: float | None = None,
        radius: float | None = None,
        draws: int = 1,
        n_steps: int | None = None,
        fit_intercept: bool = True,
        intercept_scaling: float = 0.3,
        precision: str = "float64",
        accept_unproven: bool = False,
        missing: object = 0.0,
        random_state: object = None,
        verbose: int = 0,
    ) -> None:
        self._take(locals())

    def _bound(self) -> float:
        if self.response_bound is None:
            raise InvalidValue("response_bound is missing: a public bound on |y|; it is never read off the data")
        positive("response_bound", self.response_bound)
        return float(self.response_bound)

    def _with_label(self, label: str, fact: Column) -> Self:
        if self.response_bound is not None:
            return self
        if not isinstance(fact, Number | Count):
            raise InvalidValue(f"a regression's label is a number or a count. Got a {fact.word}")
        return self._copy(response_bound=(fact.low, fact.high) if isinstance(fact, Number) else fact.high)


class LinearRegression(PrivateRegressor):
    """Private linear regression of responses in [−`response_bound`, `response_bound`], on a ball.

    `response_bound` may be a pair (low, high) too: responses are then measured from its middle, which saves the noise
    from hiding what is public. They are divided by their bound for the fit, and the model's unit noise is that of the
    divided ones; `release_`, `samples_` and `coef_` are in the units of X and y. ``auto`` looks at scores whose
    residuals are held ever closer, for prediction; ``mechanism="noisy-moments"`` takes X'X and X'y once, and has
    intervals where nothing is clipped: there `prior_scale` is √d/data_norm where None, so that each coefficient is
    N(0, 1/data_norm²). That takes public numbers alone.
    """

    def _loss(self) -> Loss:
        self._range()
        return Squared(1.0)

    def _range(self) -> tuple[float, float]:
        """Return the middle and the half width of the responses."""
        if not isinstance(self.response_bound, tuple | list):
            return 0.0, self._bound()
        try:
            low, high = (float(end) for end in self.response_bound)
        except (TypeError, ValueError):
            raise InvalidValue(f"response_bound must be a number or a pair. Got {self.response_bound!r}") from None
        positive("the width of response_bound", high - low)
        if not self.fit_intercept and low != -high:
            raise InvalidValue("responses are measured from the middle of response_bound, which needs an intercept")
        return low / 2 + high / 2, high / 2 - low / 2

    def _label(self) -> Column:
        middle, half = self._range()
        return Number(middle - half, middle + half)

    def _prior_scale(self, design: Design) -> float | None:
        if self.prior_scale is None and self.mechanism not in ("auto", "filtered"):
            return math.sqrt(design.dimension) / design.data_norm
        return self.prior_scale

    def predict(self, X: object) -> Floats:
        """Return the expected response of each row."""
        return self._mean_predictor(X)
