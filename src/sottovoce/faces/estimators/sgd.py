"""Private logistic regression by one pass of noisy projected SGD, with scikit-learn's manners."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from sottovoce.faces.estimators.estimator_protocol import random_source, warn_of_refit
from sottovoce.faces.estimators.linear import LogisticRegression
from sottovoce.inference.regression.design import Design
from sottovoce.mechanisms.mechanism import Mechanism
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import Promise
from sottovoce.records.readings import Rows
from sottovoce.theory.amplification.sgd import NoisyProjectedSGD


class SGDLogisticRegression(LogisticRegression):
    """Logistic regression of two classes by `NoisyProjectedSGD`.

    The promise is kept for every record; `mu_` says how much less the earlier ones paid. Records are taken in the order
    they come: that order must not depend on the labels or on anything else that is secret.

    Parameters
    ----------
    epsilon, delta, target
        The promise, as (ε, δ) or as any promise.
    classes
        The two classes; never read off the labels, and a label that is neither counts as ``classes_[0]``.
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
        None for secure randomness; a whole number, a Generator or a RandomState for experiments.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
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
        classes: object = None,
        data_norm: float | None = None,
        regularisation: float = 0.01,
        learning_rate: float | None = None,
        epochs: int = 1,
        radius: float | None = None,
        fit_intercept: bool = True,
        intercept_scaling: float = 0.3,
        missing: object = 0.0,
        random_state: object = None,
    ) -> None:
        self._take(locals())

    def fit(self, X: object, y: object, public: tuple[object, object] | None = None) -> Self:
        """Release the last iterate on these records. Each call spends the promise.

        `public` = (X, y) are public records of the same kind: one step each after the private ones. They
        hide the last private records, so that less noise is needed.
        """
        promise = self._promise()
        self._check_public()
        warn_of_refit(self)
        X, y = self._records(X, y)
        design = self._design(X.shape[1], self._names())
        mechanism = self._with_public(design, len(X), promise, public)
        rng = random_source(self.random_state)
        return self._kept(mechanism.release((X, y), rng), mechanism, rng)

    def _mechanism(self, design: Design, n: int, promise: Promise) -> Mechanism:
        return self._with_public(design, n, promise, None)

    def _with_public(self, design: Design, n: int, promise: Promise, public: Any) -> NoisyProjectedSGD:
        known = None if public is None else self._known(design, public)
        steepest = self.regularisation + design.data_norm**2 * design.constants.curvature
        rate = min(1 / math.sqrt(n), 1 / steepest) if self.learning_rate is None else self.learning_rate
        return NoisyProjectedSGD.calibrate(
            design,
            n,
            promise,
            learning_rate=rate,
            regularisation=self.regularisation,
            epochs=self.epochs,
            public_steps=0 if known is None else known.n,
            public=known,
        )

    def _kept(self, release: Release, mechanism: Mechanism, rng: np.random.Generator) -> Self:
        super()._kept(release, mechanism, rng)
        assert isinstance(mechanism, NoisyProjectedSGD)
        self.mu_ = mechanism.mu_at(np.arange(1, mechanism.n + 1))
        return self

    def _known(self, design: Design, public: tuple[Any, Any]) -> Rows:
        if len(public[1]) == 0:
            raise InvalidValue("public holds no record; leave it out")
        return design.reading.read((self._table(public[0], reset=False), public[1]))
