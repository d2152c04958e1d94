"""What all the scikit-learn estimators share: a promise, public bounds, one release a fit."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, _clone_parametrized
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from sottovoce.estimators.manners import EveryFitSpends, warn_of_refit
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.promises import ApproxDP, Promise
from sottovoce.privacy.randomness import secure_rng, seeded_rng
from sottovoce.regression.choose import choose
from sottovoce.regression.design import Design
from sottovoce.regression.gaussian_posterior import GaussianPosterior
from sottovoce.regression.losses import Loss
from sottovoce.regression.noisy_quadratic import NoisyQuadratic
from sottovoce.regression.reading import fill, finite, missing_values, table_of
from sottovoce.regression.rows import Placement

__all__ = ["EveryFitSpends", "PrivateGLM", "seed_of"]

_POSTERIOR_DRAWS = 256
"""How many free draws of a released whole posterior go into `samples_`."""


class PrivateGLM(BaseEstimator):  # type: ignore[misc]
    """A generalized linear model whose fit is one private release.

    No record can make a fit fail or warn: what a cell or a label holds is read by a total map (`missing`, `classes`,
    bounds), and only the numbers of rows and columns, which are public, are checked.

    Parameters
    ----------
    epsilon, delta
        The promise (ε, δ); or give any promise as `target`.
    target
        A promise such as ``RenyiDP(10, 1.0)``, instead of `epsilon` and `delta`.
    data_norm
        Every row is scaled down to this Euclidean norm, the intercept's entry included. Required: read off the data it
        would leak.
    mechanism
        ``"auto"``, ``"refined"``, ``"localised"``, ``"diffuse"``, ``"concentrated"`` or ``"noisy-statistics"``.
        ``auto`` looks at n, d and the promise only.
    prior_scale
        A public guess of ‖w‖; 30/data_norm where None (of `LinearRegression` 2/data_norm).
    radius
        Parameters stay in the ball ‖w‖ ≤ radius, for losses that need one; 3/data_norm where None.
    samples
        How many posterior samples to release; they share the promise.
    n_steps
        The length of each chain; a mixing rule where None. The promise is kept at any length.
    fit_intercept, intercept_scaling
        Whether each row gets one more entry, and how large it is beside `data_norm`.
    precision, accept_unproven
        ``"float64"``, or ``"float32"`` for speed: then the claim is unproven, and you must accept that.
    missing
        What a cell of X that holds no finite number counts as: a public number, or one a column.
    random_state
        None for secure randomness; a whole number for experiments, and the release then says that it is reproducible.
    verbose
        1 shows a progress bar.
    """

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        target: Promise | None = None,
        data_norm: float | None = None,
        mechanism: str = "auto",
        prior_scale: float | None = None,
        radius: float | None = None,
        samples: int = 1,
        n_steps: int | None = None,
        fit_intercept: bool = True,
        intercept_scaling: float = 0.3,
        precision: str = "float64",
        accept_unproven: bool = False,
        missing: Any = 0.0,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.target = target
        self.data_norm = data_norm
        self.mechanism = mechanism
        self.prior_scale = prior_scale
        self.radius = radius
        self.samples = samples
        self.n_steps = n_steps
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.precision = precision
        self.accept_unproven = accept_unproven
        self.missing = missing
        self.random_state = random_state
        self.verbose = verbose

    @abstractmethod
    def _loss(self) -> Loss:
        """Return the loss, from parameters alone."""

    @abstractmethod
    def _responses(self, y: Any) -> Floats:
        """Return y in the loss's own labels."""

    def __sklearn_clone__(self) -> Self:
        twin: Self = _clone_parametrized(self)
        twin._is_clone = True
        return twin

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _promise(self) -> Promise:
        if self.target is not None:
            if self.epsilon is not None or self.delta is not None:
                raise InvalidValue("give the promise once: either target, or epsilon and delta")
            return self.target
        if self.epsilon is None or self.delta is None:
            raise InvalidValue(
                "a promise is missing: give epsilon and delta, or target. "
                f"Got epsilon={self.epsilon} and delta={self.delta}"
            )
        return ApproxDP(self.epsilon, self.delta)

    def _check_public(self) -> None:
        """Raise unless all that must be public has been given; called before any record is read."""
        self._norm()

    def _norm(self) -> float:
        if self.data_norm is None:
            raise InvalidValue("data_norm is missing: a public bound on ‖x‖; it is never read off the data")
        return float(self.data_norm)

    def _design(self, loss: Loss, n: int, columns: int) -> Design:
        radius = np.inf if self.radius is None else float(self.radius)
        if self.radius is None and not np.isfinite(loss.constants(np.inf).lipschitz):
            radius = 3 / self._norm()
        return Design(loss, n, columns + self.fit_intercept, self._norm(), radius)

    def fit(self, X: Any, y: Any) -> Self:
        """Release a posterior sample of these records. Each call spends the promise."""
        promise, loss = self._promise(), self._loss()  # public matters first: nothing is read if they fail
        self._check_public()
        place = Placement(precision=self.precision)
        warn_of_refit(self)
        rows, labels = self._records(X, y)
        design = self._design(loss, *rows.shape)
        mechanism = choose(
            self.mechanism,
            design,
            promise,
            prior_scale=self._prior_scale(design),
            samples=self.samples,
            n_steps=self.n_steps,
        )
        rng = secure_rng() if self.random_state is None else seeded_rng(seed_of(self.random_state))
        if isinstance(mechanism, NoisyQuadratic):
            release = mechanism.release(self._rows(rows), labels, rng)
        else:
            accepted = self.accept_unproven
            with _progress(self.verbose) as advance:
                release = mechanism.release(
                    self._rows(rows), labels, rng, placement=place, progress=advance, accept_unproven=accepted
                )
        self._keep(release, rng)
        return self

    def _prior_scale(self, design: Design) -> float | None:
        """Return the public guess of ‖w‖; None for the mechanism's own."""
        return self.prior_scale

    def _records(self, X: Any, y: Any) -> tuple[Floats, Floats]:
        """Return the table and the loss's own labels, or say what is wrong with their shapes."""
        rows, labels = self._table(X, reset=True), self._responses(y)
        if getattr(y, "ndim", 1) == 2:  # scikit-learn's manners; a shape is public
            text = "A column-vector y was passed when a 1d array was expected. Please change the shape of y"
            warnings.warn(text, DataConversionWarning, stacklevel=3)
        if len(rows) < 2:
            raise InvalidData(f"a fit needs at least 2 records. Got n_samples = {len(rows)}")
        if len(labels) != len(rows):
            raise InvalidData(f"Found input variables with inconsistent numbers of samples: {[len(rows), len(labels)]}")
        return rows, labels

    def _table(self, X: Any, *, reset: bool) -> Floats:
        """Return X as numbers, a public one in place of each that is missing."""
        table = table_of(X, None if reset else self.n_features_in_)
        # Names and the number of columns only: a check of values would tell of a record.
        validate_data(self, X if hasattr(X, "columns") else table, reset=reset, skip_check_array=True)
        if 0 in table.shape:
            raise InvalidData(
                f"Found array with {table.shape[0]} sample(s) and {table.shape[1]} feature(s) (shape={table.shape}) "
                "while a minimum of 1 is required."
            )
        return fill(finite(table), missing_values(self.missing, table.shape[1]))

    def _keep(self, release: Release, rng: np.random.Generator) -> None:
        """Keep the release in the units of X and y: what is public turns one into the other for free."""
        units, shift = self._units(self.n_features_in_ + self.fit_intercept)
        whole = isinstance(release.value, GaussianPosterior)
        value = release.value.scaled(units, shift) if whole else release.value * units + shift
        self.release_, self.profile_ = replace(release, value=value), release.profile
        if isinstance(value, GaussianPosterior):
            mean, self.samples_ = value.mean, value.sample(_POSTERIOR_DRAWS, rng)
        else:
            mean, self.samples_ = value.mean(axis=0), value
        self.coef_, self.intercept_ = self._shape(mean[: self.n_features_in_], mean[self.n_features_in_ :].sum())

    def _shape(self, coefficients: Floats, intercept: float) -> tuple[Any, Any]:
        return coefficients, float(intercept)

    def _rows(self, X: Floats) -> Floats:
        if not self.fit_intercept:
            return X
        return np.hstack([X, np.full((X.shape[0], 1), self.intercept_scaling * self._norm(), X.dtype)])

    def _units(self, size: int) -> tuple[Floats, Floats]:
        """Return the public factors and shifts that turn the mechanism's parameters into coefficients and intercept."""
        units = np.ones(size)
        if self.fit_intercept:
            units[-1] = self.intercept_scaling * self._norm()
        return units, np.zeros(size)

    def _predictors(self, X: Any) -> Floats:
        """Return the linear predictor of each row under each sample."""
        check_is_fitted(self)
        X = self._table(X, reset=False)
        columns = self.n_features_in_
        return np.asarray(X @ self.samples_[:, :columns].T + self.samples_[:, columns:].sum(axis=1))

    def _mean_predictor(self, X: Any) -> Floats:
        """Return the linear predictor of each row under the mean parameter."""
        check_is_fitted(self)
        X = self._table(X, reset=False)
        return np.asarray(X @ np.ravel(self.coef_) + np.ravel(self.intercept_))

    def to_arviz(self) -> Any:
        """Return the samples as an ArviZ `InferenceData`; the last entry is the intercept where there is one."""
        check_is_fitted(self)
        return Release(
            self.samples_, self.profile_, self.release_.mechanism, "w", self.release_.reproducible
        ).to_arviz()


def seed_of(random_state: Any) -> int:
    """Return the whole number that scikit-learn's `random_state` stands for."""
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    return int(random_state)


class _progress:  # noqa: N801 - a context manager, used as a function
    """A progress bar, or nothing."""

    def __init__(self, verbose: int) -> None:
        self.verbose = verbose

    def __enter__(self) -> Any:
        if not self.verbose:
            return None
        from rich.progress import Progress  # noqa: PLC0415

        self.bar = Progress(transient=True)
        self.bar.start()
        task = self.bar.add_task("sampling", total=1.0)
        return lambda fraction: self.bar.update(task, completed=fraction)

    def __exit__(self, *_: object) -> None:
        if self.verbose:
            self.bar.stop()
