"""Naive Bayes with a promise: categories and bounded numbers, scikit-learn's manners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from scipy import special
from sklearn.base import BaseEstimator, ClassifierMixin, _clone_parametrized
from sklearn.utils.validation import check_is_fitted

from sottovoce.estimators.manners import promise_of, random_source, warn_of_refit
from sottovoce.latent.bounded import _ONE, Bounded, moment_draws
from sottovoce.latent.class_columns import categories_by_name, class_tables, columns_of, complete, tails
from sottovoce.latent.class_model import ClassModel
from sottovoce.latent.class_plan import ClassPlan
from sottovoce.latent.count_tables import CountTables
from sottovoce.latent.fields import Field
from sottovoce.latent.latent_classes import LatentClasses
from sottovoce.latent.moment_posterior import moment_posterior
from sottovoce.latent.sweeps import draw_dirichlet
from sottovoce.latent.tempered import TemperedUpdates, check_floor, draw_tempered, log_ratio_bound
from sottovoce.mechanisms.mechanism import check_draws, coarsen
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.randomness import is_secure

__all__ = ["NaiveBayes"]

_DRAWS = 256
"""Draws of a released model's parameters that are kept: they are free."""
_MECHANISMS = ("auto", "laplace", "gaussian", "tempered", "none")


class NaiveBayes(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
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
        Every class, public: a list, or a `Field` that names the column.
    features
        One `Field` (categories) or `Bounded` (numbers) a column of X, in order. Public; nothing is read off the data.
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
        None for secure randomness; a whole number for experiments, and the release then says that it is reproducible.

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

    def __sklearn_clone__(self) -> Self:
        twin: Self = _clone_parametrized(self)
        twin._is_clone = True
        return twin

    def fit(self, X: Any, y: Any) -> Self:
        """Release a model of these records. Each call spends the promise."""
        label, fields = self._public()  # public matters first: nothing is read if they fail
        promise = promise_of(self.target, self.epsilon, self.delta, private=self.mechanism != "none")
        if promise is not None:
            warn_of_refit(self)
        columns, n = columns_of(X, fields)
        codes = label.codes(y)
        if codes.size != n:
            raise InvalidData(f"y must hold one class a row of X. Got {codes.size} for {n} rows")
        if n == 0:
            raise InvalidData("there is no record; a model needs at least one")
        tables = class_tables(label, fields)
        numeric = [field for field in fields if isinstance(field, Bounded)]
        plan: Any = self._plan(tables, numeric, n, promise)
        rng = random_source(self.random_state)
        statistics = tables.statistics({label.name: y, **categories_by_name(fields, columns)})
        sums = [
            field.sums(column, codes, label.size)
            for field, column in zip(fields, columns, strict=True)
            if isinstance(field, Bounded)
        ]
        self.classes_, self.n_features_in_, self.fields_ = np.array(label.categories), len(fields), fields
        self.profile_ = None if plan is None else plan.profile
        if isinstance(plan, TemperedUpdates):
            self._keep_tempered(tables.arrays(statistics), plan, rng)
            return self
        noises: Sequence[Any] = [None] * len(sums)
        counts = tables.arrays(statistics)
        if plan is not None:
            noises = plan.moments
            counts = plan.counts.release(statistics, rng).value.counts
            sums = [noise.add(s.ravel(), rng).reshape(s.shape) for s, noise in zip(sums, noises, strict=True)]
            value = {"counts": [t.tolist() for t in counts], "moments": [s.tolist() for s in sums]}
            numbers = plan.counts.to_dict() | {"moment scales": [noise.scale for noise in noises]}
            self.release_ = Release(value, plan.profile, numbers, "counts", reproducible=not is_secure(rng))
        # From here on nothing but released numbers is used.
        rows = [t.reshape(label.size, -1) for t in counts]
        if plan is not None and self.noise_aware:
            self._keep_aware(rows, plan, sums, n, rng)
        else:
            self._keep_plain([np.maximum(t, 0) for t in rows], sums, rng)
        return self

    def _public(self) -> tuple[Field, tuple[Field | Bounded, ...]]:
        """Return the class field and the feature fields, or say what is missing."""
        if self.mechanism not in _MECHANISMS:
            raise InvalidValue(f"mechanism must be one of {', '.join(_MECHANISMS)}. Got {self.mechanism!r}")
        if self.classes is None or self.features is None:
            raise InvalidValue("classes and features are missing: public lists, never read off the data")
        label = self.classes if isinstance(self.classes, Field) else Field("class", tuple(self.classes))
        fields = tuple(self.features)
        if not fields or not all(isinstance(field, Field | Bounded) for field in fields):
            raise InvalidValue("features must be a list of Field (categories) or Bounded (numbers), one a column of X")
        names = [label.name, *(field.name for field in fields)]
        if len(set(names)) < len(names):
            raise InvalidValue(f"class and features must have different names. Got {', '.join(names)}")
        if label.size < 2 or any(isinstance(f, Field) and f.size < 2 for f in fields):
            raise InvalidValue("classes and every Field need at least 2 categories")
        if not (all(a is None or a > 0 for a in (self.alpha, self.class_alpha)) and 0 < self.floor < 1):
            raise InvalidValue("alpha and class_alpha must be > 0, and floor between 0 and 1")
        if self.draws is not None:
            check_draws(self.draws)
        return complete(label), tuple(map(complete, fields))

    def _plan(self, tables: CountTables, numeric: Sequence[Bounded], n: int, promise: Promise | None) -> Any:
        """Return what will keep the promise, from public numbers alone; None without a promise."""
        if promise is None:
            return None
        if self.mechanism != "tempered":
            noise: Any = None if self.mechanism == "auto" else self.mechanism
            return ClassPlan.calibrate(tables, tuple(f.name for f in numeric), n, promise, noise, self.shares)
        if numeric:
            raise InvalidValue(
                "tempered sampling takes categories only; use noise, or cut the numbers into public bins"
            )
        if self.shares is not None:
            raise InvalidValue("tempered tables share one temperature; leave shares out")
        sizes = [tables.shapes[0][0], *(shape[-1] for shape in tables.shapes)]
        bounds = [log_ratio_bound(size, self._least(size)) for size in sizes]
        return TemperedUpdates.calibrate(bounds, 1 if self.draws is None else int(self.draws), promise)

    def _least(self, size: int) -> float:
        return check_floor(self.floor / size, size)

    def _keep_tempered(self, counts: Sequence[Any], plan: TemperedUpdates, rng: np.random.Generator) -> None:
        def draw(table: Any, prior: float) -> Floats:
            repeated = np.broadcast_to(table, (plan.sweeps, *table.shape))
            theta = draw_tempered(repeated, prior, plan.temperature, self._least(table.shape[-1]), rng)
            return np.asarray(coarsen(theta) / coarsen(theta).sum(axis=-1, keepdims=True))

        classes = draw(counts[0].sum(axis=1), self._class_alpha)
        features = tuple(draw(table, self._alpha(table.shape[-1])) for table in counts)
        self.model_ = self.draws_ = ClassModel(self.fields_, classes, features)
        value = {"classes": classes, "features": list(features)}
        numbers = {"mechanism": "tempered naive Bayes", "temperature": plan.temperature, "draws": plan.sweeps}
        self.release_ = Release(value, plan.profile, numbers, "theta", reproducible=not is_secure(rng))

    def _keep_aware(
        self, tables: Sequence[Any], plan: ClassPlan, sums: Sequence[Any], n: int, rng: np.random.Generator
    ) -> None:
        """Keep draws that count the true tables and sums as unknown."""
        priors = [self._alpha(table.shape[1]) for table in tables]
        latent = LatentClasses.chains(tables, plan.counts.noises, n, self._class_alpha, priors)
        found = latent.posterior(self._draws, rng)
        moments = [
            moment_posterior(s, noise, _ONE, found.sizes, rng) for s, noise in zip(sums, plan.moments, strict=True)
        ]
        self.convergence_ = max((found.convergence, *(m.convergence for m in moments)), key=lambda c: c.r_hat)
        self.convergence_.warn("leave out some features, or ask for a larger ε")
        self.model_ = self.draws_ = self._model(found.classes, found.features, [m.values for m in moments])

    def _keep_plain(self, tables: Sequence[Any], sums: Sequence[Any], rng: np.random.Generator) -> None:
        """Keep the posterior means, and draws, that take the tables and sums at their word."""
        total = np.mean([t.sum(axis=1) for t in tables], axis=0)
        moments = [np.stack(Bounded("t", -1, 1).moments(s, total), axis=-1)[None] for s in sums]
        full = [t + self._alpha(t.shape[1]) for t in tables]
        means = [(t / t.sum(axis=1, keepdims=True))[None] for t in full]
        prior = (total + self._class_alpha) / (total + self._class_alpha).sum()
        self.model_ = self._model(prior[None], means, moments)
        many = np.broadcast_to(total, (self._draws, total.size))
        classes = draw_dirichlet(many + self._class_alpha, rng)
        thetas = [draw_dirichlet(np.broadcast_to(t, (self._draws, *t.shape)), rng) for t in full]
        self.draws_ = self._model(classes, thetas, [moment_draws(s, None, many, rng) for s in sums])

    def _alpha(self, size: int) -> float:
        return 1 / size if self.alpha is None else float(self.alpha)

    @property
    def _class_alpha(self) -> float:
        return 1 / len(self.classes_) if self.class_alpha is None else float(self.class_alpha)

    @property
    def _draws(self) -> int:
        return _DRAWS if self.draws is None else int(self.draws)

    def _model(self, classes: Floats, thetas: Sequence[Floats], moments: Sequence[Floats]) -> ClassModel:
        of_fields, of_numbers = iter(thetas), iter(moments)
        features = tuple(next(of_fields if isinstance(field, Field) else of_numbers) for field in self.fields_)
        return ClassModel(self.fields_, np.asarray(classes), features)

    def _coded(self, X: Any) -> list[Any]:
        check_is_fitted(self)
        return self.model_.coded(columns_of(X, self.fields_)[0])

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

    def score_records(self, X: Any) -> Floats:
        """Return log Pr[record] of each row, whatever its class: the log-likelihood of held-out records."""
        coded = self._coded(X)
        return np.asarray(special.logsumexp(self.model_.predictive(coded), axis=1))

    def predict_interval(self, X: Any, level: float = 0.95) -> tuple[Floats, Floats]:
        """Return the ends between which Pr[class | record] lies with probability `level`, by class."""
        coded = self._coded(X)
        low, high = self.draws_.quantiles(coded, tails(level))
        return low, high

    def table(self, name: str) -> Floats:
        """Return Pr[category | class] of a column, (classes, categories); for numbers the mean and variance."""
        return np.asarray(self._own_unit(name, self.model_).mean(axis=0))

    def interval(self, name: str, level: float = 0.95) -> tuple[Floats, Floats]:
        """Return the ends between which each entry of `table` lies with probability `level`."""
        low, high = np.quantile(self._own_unit(name, self.draws_), tails(level), axis=0)
        return low, high

    def _own_unit(self, name: str, model: ClassModel) -> Floats:
        check_is_fitted(self)
        for field, draws in zip(self.fields_, model.features, strict=True):
            if field.name == name:
                if isinstance(field, Field):
                    return draws
                return draws * [field.half, field.half**2] + [(field.low + field.high) / 2, 0.0]
        raise InvalidValue(f"no column is called {name!r}; there are {', '.join(f.name for f in self.fields_)}")
