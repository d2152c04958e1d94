"""Private logistic regression by one pass of noisy projected SGD, with scikit-learn's manners."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from sottovoce.amplification.sgd import NoisyProjectedSGD
from sottovoce.estimators.base import seed_of
from sottovoce.estimators.linear import LogisticRegression
from sottovoce.estimators.manners import warn_of_refit
from sottovoce.estimators.manners import warn_of_refit
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.randomness import secure_rng, seeded_rng
from sottovoce.regression.design import Design

__all__ = ["SGDLogisticRegression"]


class SGDLogisticRegression(LogisticRegression):
    """Logistic regression of two classes by `NoisyProjectedSGD`.

    The promise is kept for every record; `mu_` says how much less the earlier ones paid. Records are taken in the order
    they come: that order must not depend on the labels or on anything else that is secret.

    Parameters
    ----------
    epsilon, delta, target
        The promise, as (ε, δ) or as any promise.
    classes
        The two classes; never read off the labels.
    data_norm
        Every row is scaled down to this Euclidean norm, the intercept's entry included.
    regularisation, learning_rate, epochs
        ρ, η and the number of passes of `NoisyProjectedSGD`. Where None, η is the smaller of 1/√n and 1/β.
    radius
        Parameters stay in the ball ‖w‖ ≤ radius; no projection where None.
    fit_intercept, intercept_scaling
        Whether each row gets one more entry, and how large it is beside `data_norm`.
    missing
        What a cell of X that holds no finite number counts as: a public number, or one a column.
    random_state
        None for secure randomness; a whole number for experiments.

    Examples
    --------
    >>> rng = seeded_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, (5000, 2))
    >>> y = np.where(X[:, 0] > X[:, 1], "ill", "well")
    >>> model = SGDLogisticRegression(
    ...     epsilon=1.0, delta=1e-6, data_norm=1.0, classes=["ill", "well"], random_state=1
    ... )
    >>> model.fit(X[100:], y[100:], public=(X[:100], y[:100])).score(X, y) > 0.9
    True
    >>> model.profile_.delta(1.0) <= 1e-6
    True
    """

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        target: Promise | None = None,
        classes: Any = None,
        data_norm: float | None = None,
        regularisation: float = 0.01,
        learning_rate: float | None = None,
        epochs: int = 1,
        radius: float | None = None,
        fit_intercept: bool = True,
        intercept_scaling: float = 0.3,
        missing: Any = 0.0,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.target = target
        self.classes = classes
        self.data_norm = data_norm
        self.regularisation = regularisation
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.radius = radius
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.missing = missing
        self.random_state = random_state

    def fit(self, X: Any, y: Any, public: tuple[Any, Any] | None = None) -> Self:
        """Release the last iterate on these records. Each call spends the promise.

        `public` = (X, y) are public records of the same kind: one step each after the private ones. They
        hide the last private records, so that less noise is needed.
        """
        promise, loss, norm = self._promise(), self._loss(), self._norm()
        self._check_public()
        warn_of_refit(self)
        X, labels = self._records(X, y)
        known = None if public is None else self._known(public)
        radius = math.inf if self.radius is None else float(self.radius)
        design = Design(loss, X.shape[0], X.shape[1] + self.fit_intercept, norm, radius)
        steepest = self.regularisation + norm**2 * design.constants.curvature
        rate = min(1 / math.sqrt(design.n), 1 / steepest) if self.learning_rate is None else self.learning_rate
        mechanism = NoisyProjectedSGD.calibrate(
            design,
            promise,
            learning_rate=rate,
            regularisation=self.regularisation,
            epochs=self.epochs,
            public_steps=0 if known is None else len(known[1]),
        )
        rng = secure_rng() if self.random_state is None else seeded_rng(seed_of(self.random_state))
        release = mechanism.release(self._rows(X), labels, rng, public=known)
        parts = Release(release.value[None, :], release.profile, release.mechanism, "w", release.reproducible)
        self._keep(parts, rng)
        self.mechanism_ = mechanism
        self.mu_ = mechanism.mu_at(np.arange(1, X.shape[0] + 1))
        return self

    def _known(self, public: tuple[Any, Any]) -> tuple[Any, Any]:
        if len(public[1]) == 0:
            raise InvalidValue("public holds no record; leave it out")
        return self._rows(self._table(public[0], reset=False)), self._responses(public[1])
