"""What all the scikit-learn regressions share: a promise, public bounds, one release a fit."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from sottovoce.faces.estimators.estimator_protocol import EveryFitSpends, PrivateEstimator, random_source, warn_of_refit
from sottovoce.inference.regression.choosing import choose
from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.device_placement import placed
from sottovoce.inference.regression.gaussian_posterior import GaussianPosterior
from sottovoce.inference.regression.losses import Loss
from sottovoce.inference.regression.softmax import SoftmaxPosterior
from sottovoce.mechanisms.mechanism import Mechanism
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.randomness import secure_rng
from sottovoce.records.facts import Facts
from sottovoce.records.facts.columns import Column
from sottovoce.records.readings.cells import cells_of, fill, finite, missing_values, table_of
from sottovoce.records.readings.design_rows import width_of

__all__ = ["POSTERIOR_DRAWS", "EveryFitSpends", "PrivateGLM"]

POSTERIOR_DRAWS = 256
"""How many free draws of a released whole posterior go into `samples_`."""


class PrivateGLM(PrivateEstimator):
    """A generalized linear model whose fit is one private release.

    No record can make a fit fail or warn: what a cell or a label holds is read by a total map (`missing`, `classes`,
    bounds), and only the numbers of rows and columns, which are public, are checked.

    Parameters
    ----------
    epsilon, delta
        The promise: ε alone is pure, which few regressions can keep, with δ it is (ε, δ); or give any promise as
        `target`.
    target
        A promise such as ``RenyiDP(10, 1.0)``, instead of `epsilon` and `delta`.
    data_norm
        Every row is scaled down to this Euclidean norm, the intercept's entry included. Read off the data it would
        leak; it follows from the facts of the columns where a curator has them, and must be given otherwise.
    mechanism
        ``"auto"``, ``"filtered"``, ``"refined"``, ``"localised"``, ``"diffused"``, ``"concentrated"`` or
        ``"noisy-moments"``. ``auto`` is the first that serves the loss: for classes and lines a whole posterior to
        average predictions over, for others one sample. It looks at n, d and the promise only.
    prior_scale
        A public guess of ‖w‖; the mechanism's own where None, of chains 30/data_norm.
    radius
        Parameters stay in the ball ‖w‖ ≤ radius, for losses that need one; 3/data_norm where None.
    draws
        How many posterior samples a chain's release holds; they share the promise. A whole posterior needs none.
    n_steps
        The length of each chain; a mixing rule where None. The promise is kept at any length.
    fit_intercept, intercept_scaling
        Whether each row gets one more entry, and how large it is beside `data_norm`.
    precision, accept_unproven
        ``"float64"``, or ``"float32"`` for speed: then the claim is unproven, and you must accept that.
    missing
        What a cell of X that holds no finite number counts as: a public number, or one a column.
    random_state
        None for secure randomness; a whole number, a Generator or a RandomState for experiments, and the release then
        says that it is reproducible.
    verbose
        1 shows a progress bar.
    """

    epsilon: float | None
    delta: float | None
    target: Promise | None
    data_norm: float | None
    mechanism: str
    prior_scale: float | None
    radius: float | None
    draws: int
    n_steps: int | None
    fit_intercept: bool
    intercept_scaling: float
    precision: str
    accept_unproven: bool
    missing: Any
    random_state: object
    verbose: int

    def _take(self, parameters: Mapping[str, object]) -> None:
        """Keep the parameters of a constructor as they are: scikit-learn reads them off the signature and back."""
        for name in self._get_param_names():
            setattr(self, name, parameters[name])

    @abstractmethod
    def _loss(self) -> Loss:
        """Return the loss, from parameters alone."""

    @abstractmethod
    def _label(self) -> Column:
        """Return what is public of the label, from parameters alone."""

    @abstractmethod
    def _with_label(self, label: str, fact: Column) -> Self:
        """Return an estimator that knows of its label what the facts say, where it was not given."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _norm(self) -> float:
        if self.data_norm is None:
            raise InvalidValue("data_norm is missing: a public bound on ‖x‖; it is never read off the data")
        return float(self.data_norm)

    def _design(
        self, columns: int, names: Sequence[str] = (), features: Sequence[Column] = (), fact: Any = None
    ) -> Design:
        """Return the design of so many entries, the intercept's not counted; `fact` is what is known of the label."""
        label: Any = self._label()
        if getattr(fact, "missing", None) is not None:
            label = replace(label, missing=fact.missing)
        loss, norm = self._loss(), self._norm()
        radius = math.inf if self.radius is None else float(self.radius)
        if self.radius is None and not math.isfinite(loss.constants(math.inf).lipschitz):
            radius = 3 / norm
        return Design(
            loss,
            columns + bool(self.fit_intercept),
            norm,
            radius,
            intercept=self.intercept_scaling * norm if self.fit_intercept else 0.0,
            features=tuple(features),
            label=label,
            missing=0.0 if features else tuple(np.broadcast_to(missing_values(self.missing, columns), columns)),
            names=tuple(names),
        )

    def _mechanism(self, design: Design, n: int, promise: Promise) -> Mechanism:
        """Return the mechanism, from public things alone."""
        return choose(
            self.mechanism,
            design,
            n,
            promise,
            prior_scale=self._prior_scale(design),
            draws=self.draws,
            n_steps=self.n_steps,
            precision=self.precision,
        )

    def mechanism_for(
        self,
        n: int,
        promise: Promise | None = None,
        facts: Facts | None = None,
        features: Sequence[str] | None = None,
        label: str | None = None,
    ) -> Mechanism:
        """Return the mechanism for n records of these columns, by facts and parameters alone; see `PrivateEstimator`.

        With facts, numbers and counts are scaled by their bounds, a category has one entry for each value but the
        first, and `data_norm` is what no such row exceeds. Without, columns are numbers, taken as they are.
        """
        given = self._promise(promise)
        if not features or label is None:
            raise InvalidValue("name the features, at least one, and the label")
        names = [*features, label]
        if len(set(names)) < len(names):
            raise InvalidValue(f"a column is read once. Got {', '.join(names)}")
        if facts is None:
            return self._mechanism(self._design(len(features), names), n, given)
        model, design = self._with_facts(facts, names)
        return model._mechanism(design, n, given)

    def _with_facts(self, facts: Facts, names: Sequence[str]) -> tuple[Self, Design]:
        """Return an estimator that knows what the facts say of these columns, the label last, and its design."""
        columns, fact = [facts[name] for name in names[:-1]], facts[names[-1]]
        model = self._with_label(names[-1], fact)
        if model.data_norm is None:
            room = 1 - model.intercept_scaling**2 if model.fit_intercept else 1.0
            model = model._copy(data_norm=math.sqrt(len(columns) / room))
        return model, model._design(sum(map(width_of, columns)), names, columns, fact)

    def _copy(self, **changed: object) -> Self:
        """Return the estimator with other parameters."""
        return type(self)(**(self.get_params(deep=False) | changed))

    def fit(self, X: object, y: object) -> Self:
        """Release a posterior sample of these records. Each call spends the promise."""
        promise = self._promise()  # public matters first: nothing is read if they fail
        self._check_public()
        warn_of_refit(self)
        X, y = self._records(X, y)
        mechanism = self._mechanism(self._design(X.shape[1], self._names()), len(X), promise)
        rng = random_source(self.random_state)
        with _progress(self.verbose):
            release = mechanism.release(self._given(mechanism, X, y), rng, accept_unproven=self.accept_unproven)
        return self._kept(release, mechanism, rng)

    def _given(self, mechanism: Mechanism, X: Floats, y: object) -> Any:
        """Return records as the mechanism takes them."""
        del mechanism
        return X, y

    def _check_public(self) -> None:
        """Raise unless all that must be public has been given; called before any record is read."""
        self._norm()
        self._loss()
        self._label()

    def _names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return [] if names is None else [*map(str, names), "label"]

    def _prior_scale(self, design: Design) -> float | None:
        """Return the public guess of ‖w‖; None for the mechanism's own."""
        return self.prior_scale

    def _records(self, X: object, y: object) -> tuple[Floats, Any]:
        """Return the table and the labels as they are, or say what is wrong with their shapes."""
        rows, labels = self._table(X, reset=True), cells_of(y)
        if getattr(y, "ndim", 1) == 2:  # scikit-learn's manners; a shape is public
            text = "A column-vector y was passed when a 1d array was expected. Please change the shape of y"
            warnings.warn(text, DataConversionWarning, stacklevel=3)
        if len(rows) < 2:
            raise InvalidData(f"a fit needs at least 2 records. Got n_samples = {len(rows)}")
        if len(labels) != len(rows):
            raise InvalidData(f"Found input variables with inconsistent numbers of samples: {[len(rows), len(labels)]}")
        return rows, labels

    def _table(self, X: object, *, reset: bool) -> Floats:
        """Return X as numbers, a public one in place of each that is missing."""
        if not reset and isinstance(X, list | tuple) and X and not any(hasattr(row, "__len__") for row in X):
            raise InvalidData("X must be a table: one record is [[...]]. Expected 2D array, got 1D array instead")
        table = table_of(X, None if reset else self.n_features_in_)
        # Names and the number of columns only: a check of values would tell of a record.
        validate_data(self, X if hasattr(X, "columns") else table, reset=reset, skip_check_array=True)
        if 0 in table.shape:
            raise InvalidData(
                f"Found array with {table.shape[0]} sample(s) and {table.shape[1]} feature(s) (shape={table.shape}) "
                "while a minimum of 1 is required."
            )
        return fill(finite(table), missing_values(self.missing, table.shape[1]))

    def keep(self, release: Release) -> Self:
        """Take a release of this estimator's mechanism and be fitted by it."""
        built = Mechanism.from_dict(release.mechanism)
        design = self._design_of(built)
        self.n_features_in_ = design.reading.inputs
        if design.names:
            self.feature_names_in_ = np.array(design.names[:-1], dtype=object)
        return self._kept(release, built, secure_rng())

    def _design_of(self, mechanism: Mechanism) -> Design:
        """Return what rows are to a mechanism, or raise `InvalidValue` where it is none of a regression."""
        if not isinstance(mechanism.system, Design):
            raise InvalidValue(f"this release is of a {mechanism.word}, not of such a regression")
        return mechanism.system

    def _kept(self, release: Release, mechanism: Mechanism, rng: np.random.Generator) -> Self:
        """Keep the release in the units of X and y: what is public turns one into the other for free."""
        design = self._design_of(mechanism)
        self.mechanism_, self.terms_, self.profile_ = mechanism, design.terms, release.profile
        value, mean, self.samples_ = self._in_units(release.value, design, rng)
        self.release_ = replace(release, value=value)
        self._keep_label(design)
        entries = mean.shape[-1] - bool(design.intercept)
        self.coef_, self.intercept_ = self._shape(mean[..., :entries], mean[..., entries:].sum(axis=-1))
        return self

    def _in_units(self, value: object, design: Design, rng: np.random.Generator) -> tuple[object, Floats, Floats]:
        """Return what was released in the units of X and y, its mean and its samples, the intercept last in each."""
        matrix, shift = design.units()
        if isinstance(value, GaussianPosterior | SoftmaxPosterior):
            value = value.mapped(matrix, shift)
            return value, value.mean, value.sample(POSTERIOR_DRAWS, rng)
        value = np.asarray(value) @ matrix.T + shift
        return value, value.mean(axis=0), value

    def _keep_label(self, design: Design) -> None:
        """Keep what the label's facts say."""

    def _shape(self, coefficients: Floats, intercept: Any) -> tuple[Any, Any]:
        return coefficients, float(intercept)

    def _predictors(self, X: object) -> Floats:
        """Return the linear predictor of each row under each sample; of several classes, one for each."""
        X = self._entries(X)
        columns = X.shape[1]
        coefficients, intercepts = self.samples_[..., :columns], self.samples_[..., columns:].sum(axis=-1)
        return np.asarray(np.tensordot(X, coefficients, axes=(1, coefficients.ndim - 1)) + intercepts)

    def _entries(self, X: Any) -> Floats:
        """Return a table like that of the fit as the entries that coefficients are of: a category is several."""
        check_is_fitted(self)
        design = self._design_of(self.mechanism_)
        if not design.features:
            return self._table(X, reset=False)
        if hasattr(X, "columns"):
            names = [str(name) for name in design.names[:-1]]
            if missing := [name for name in names if name not in X.columns]:
                raise InvalidData(f"X has no column {missing[0]!r}; it needs {', '.join(names)}")
            X = X[names]
        return design.reading.entries(X)

    def _spread(self, X: object) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of the linear predictor of each row under a whole posterior.

        Of several classes the mean is one for each, the standard deviation that of their contrasts.
        """
        rows, value = self._entries(X), self.release_.value
        if value.covariance.shape[0] > rows.shape[1]:
            rows = np.hstack([rows, np.ones((len(rows), 1))])
        variance = np.einsum("ij,ij->i", rows @ value.covariance, rows)
        return np.asarray(rows @ np.asarray(value.mean).T), np.sqrt(np.maximum(variance, 0.0))

    def _mean_predictor(self, X: object) -> Floats:
        """Return the linear predictor of each row under the mean parameter."""
        return np.asarray(self._entries(X) @ np.ravel(self.coef_) + np.ravel(self.intercept_))

    def to_arviz(self) -> Any:
        """Return the samples as an ArviZ `InferenceData`, each entry under its term's name."""
        check_is_fitted(self)
        samples, terms = self.samples_, self.terms_
        if samples.ndim == 3:
            terms = [f"{label}: {term}" for label in self.classes_ for term in terms]
            samples = samples.reshape(len(samples), -1)
        return replace(self.release_, value=samples).to_arviz(terms=terms)


@contextmanager
def _progress(verbose: int) -> Iterator[None]:
    """Show a progress bar, or nothing."""
    if not verbose:
        yield
        return
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(transient=True) as bar:
        task = bar.add_task("sampling", total=1.0)
        with placed(progress=lambda fraction: bar.update(task, completed=fraction)):
            yield
