"""Private Poisson regression with scikit-learn's manners: the looks of a regression table, or one draw of a chain."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.metrics import d2_tweedie_score

from sottovoce.faces.estimators.base import POSTERIOR_DRAWS
from sottovoce.faces.estimators.linear import PrivateRegressor
from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks
from sottovoce.inference.regression.coefficients import Coefficients
from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.formula import Formula
from sottovoce.inference.regression.losses import Loss, Poisson
from sottovoce.mechanisms.mechanism import Mechanism
from sottovoce.privacy.errors import InvalidValue, PromiseUnreachable
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.promises import Promise
from sottovoce.records.facts import Facts
from sottovoce.records.facts.columns import Column, Count, Number


class PoissonRegression(PrivateRegressor):
    """Private Poisson regression of counts from 0 to `response_bound`.

    ``auto`` takes the three looks of a regression table (`AdaptiveLooks`): `coef_` has posterior medians, `samples_`
    are many, and ``release_.value`` has intervals that know of the noise. Every column of X lies within ±`data_norm`,
    or within the bounds of its facts; rows are weighed, never shortened, and no ball is needed. A `prior_scale`, a
    guess of ‖w‖, makes prior_scale·data_norm the prior standard deviation of the linear predictor, 5 where None. Where
    noise hides the counts the posterior is very wide, and predictions averaged over it say little: look at intervals.
    `misses` says how much the formula may miss beside how far responses vary, as in a regression table: 0.15 where
    None, and at 0 it is taken to be right.
    Other mechanisms, and ``auto`` under a `GaussianDP` promise, which discrete noise cannot keep, are chains of one
    draw or noisy statistics on the ball ‖w‖ ≤ `radius`: the slope of their loss grows like e^{radius·data_norm}, so
    keep the radius small.

    Examples
    --------
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> rng = seeded_rng(0)
    >>> X = rng.uniform(-1, 1, (5000, 2))
    >>> y = rng.poisson(np.exp(0.5 + X[:, 0]))
    >>> model = PoissonRegression(epsilon=1.0, delta=1e-6, data_norm=1.5, response_bound=20, random_state=1).fit(X, y)
    >>> model.coef_.round(), model.samples_.shape, model.release_.value.interval().shape
    (array([1., 0.]), (256, 3), (3, 2))
    """

    misses: float | None

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
        misses: float | None = None,
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

    def _loss(self) -> Loss:
        return Poisson(self._bound())

    def _label(self) -> Column:
        return Number(0.0, self._bound(), missing=0.0)

    def _mechanism(self, design: Design, n: int, promise: Promise) -> Mechanism:
        if self.mechanism not in ("auto", "looks"):
            if self.misses is not None:
                raise InvalidValue(f"misses= goes with mechanism='looks', and {self.mechanism!r} allows for none")
            return super()._mechanism(design, n, promise)
        try:
            return AdaptiveLooks.calibrate(self._formula(design), n, promise)
        except PromiseUnreachable:
            if self.mechanism == "looks" or self.misses is not None:  # no other mechanism allows for what is missed
                raise
            return super()._mechanism(design, n, promise)

    def _formula(self, design: Design) -> Formula:
        """Return the regression of the label on every column."""
        if self._bound() < 1:
            raise InvalidValue(f"counts go to 1 or more. Got response_bound={self.response_bound}")
        inputs, norm = design.reading.inputs, design.data_norm
        names = list(design.names) or [*(f"x{k}" for k in range(inputs)), "y"]
        fillers = np.clip(np.broadcast_to(design.missing, inputs), -norm, norm)
        features = design.features or [Number(-norm, norm, missing=float(filler)) for filler in fillers]
        facts = Facts(dict(zip(names, [*features, Count(math.floor(self._bound()), missing=0)], strict=True)))
        *terms, label = (f"`{name}`" for name in names)
        if not self.fit_intercept:
            terms.insert(0, "0")
        prior = None if self.prior_scale is None else float(self.prior_scale) * norm
        return Formula(f"{label} ~ {' + '.join(terms)}", facts, "poisson", prior, misses=self.misses)

    def _given(self, mechanism: Mechanism, X: Floats, y: object) -> Any:
        if not isinstance(mechanism, AdaptiveLooks):
            return X, y
        *names, label = mechanism.system.columns
        return dict(zip(names, X.T, strict=True)) | {label: y}

    def _design_of(self, mechanism: Mechanism) -> Design:
        if not isinstance(mechanism, AdaptiveLooks):
            return super()._design_of(mechanism)
        facts, names = mechanism.system.facts, mechanism.system.columns
        if mechanism.system.family != "poisson":
            raise InvalidValue(f"this release is of a {mechanism.system.family} regression, not of counts")
        norm = self.data_norm
        if norm is not None and all((facts[name].low, facts[name].high) == (-norm, norm) for name in names[:-1]):  # type: ignore[attr-defined]
            return self._design(len(names) - 1, names)
        return self._with_facts(facts, names)[1]

    def _in_units(self, value: object, design: Design, rng: np.random.Generator) -> tuple[object, Floats, Floats]:
        if not isinstance(value, Coefficients):
            return super()._in_units(value, design, rng)
        first = int(bool(design.intercept))  # the intercept comes first in a table, and last here
        return value, np.roll(value.median, -first), np.roll(value.sample(POSTERIOR_DRAWS, rng), -first, axis=1)

    def predict(self, X: object) -> Floats:
        """Return the expected count of each row, averaged over the samples; none expects more than `response_bound`."""
        most = self._design_of(self.mechanism_).label.high if hasattr(self, "mechanism_") else math.inf  # type: ignore[union-attr]
        return np.asarray(np.exp(np.minimum(self._predictors(X), math.log(most))).mean(axis=1))

    def score(self, X: object, y: object, sample_weight: object = None) -> float:
        """Return D², the share of Poisson deviance explained."""
        return float(d2_tweedie_score(y, self.predict(X), power=1, sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags
