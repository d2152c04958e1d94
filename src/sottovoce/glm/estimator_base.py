"""What all the scikit-learn estimators share: a promise, public bounds, one release a fit."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, _clone_parametrized
from sklearn.utils.validation import check_is_fitted, validate_data

from sottovoce.glm.choose import choose
from sottovoce.glm.design import Design
from sottovoce.glm.gaussian_posterior import GaussianPosterior
from sottovoce.glm.losses import Loss
from sottovoce.glm.noisy_quadratic import NoisyQuadratic
from sottovoce.glm.rows import Placement
from sottovoce.mechanisms.refits import EveryFitSpends, warn_of_refit
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.promises import ApproxDP, Promise
from sottovoce.privacy.randomness import secure_rng, seeded_rng

__all__ = ["EveryFitSpends", "PrivateGLM"]

_POSTERIOR_DRAWS = 256
"""How many free draws of a released whole posterior go into `samples_`."""


class PrivateGLM(BaseEstimator):  # type: ignore[misc]
    """A generalized linear model whose fit is one private release.

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
        A public guess of ‖w‖; 30/data_norm where None.
    radius
        Parameters stay in the ball ‖w‖ ≤ radius, for losses that need one; 3/data_norm where None.
    samples
        How many posterior samples to release; they share the promise.
    n_steps
        The length of each chain; a mixing rule where None. The promise is kept at any length.
    fit_intercept, intercept_scaling
        Whether each row gets one more entry, and how large it is beside `data_norm`.
    precision
        ``"float64"`` or ``"float32"``.
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
        warn_of_refit(self)
        kinds = [np.float64, np.float32]
        X, y = validate_data(self, X, y, dtype=kinds, ensure_min_samples=2, y_numeric=not loss.binary)
        labels = self._responses(y)
        design = self._design(loss, *X.shape)
        mechanism = choose(
            self.mechanism, design, promise, prior_scale=self.prior_scale, samples=self.samples, n_steps=self.n_steps
        )
        rng = secure_rng() if self.random_state is None else seeded_rng(_seed(self.random_state))
        if isinstance(mechanism, NoisyQuadratic):
            release = mechanism.release(self._rows(X), labels, rng)
        else:
            with _progress(self.verbose) as advance:
                place = Placement(precision=self.precision)
                release = mechanism.release(self._rows(X), labels, rng, placement=place, progress=advance)
        self._keep(release, rng)
        return self

    def _keep(self, release: Release, rng: np.random.Generator) -> None:
        self.release_, self.profile_ = release, release.profile
        if isinstance(release.value, GaussianPosterior):
            mean, draws = release.value.mean, release.value.sample(_POSTERIOR_DRAWS, rng)
        else:
            mean, draws = release.value.mean(axis=0), release.value
        self.samples_ = self._unscaled(draws)
        mean = self._unscaled(mean[None, :])[0]
        self.coef_, self.intercept_ = self._shape(mean[: self.n_features_in_], mean[self.n_features_in_ :].sum())

    def _shape(self, coefficients: Floats, intercept: float) -> tuple[Any, Any]:
        return coefficients, float(intercept)

    def _rows(self, X: Floats) -> Floats:
        if not self.fit_intercept:
            return X
        return np.hstack([X, np.full((X.shape[0], 1), self.intercept_scaling * self._norm(), X.dtype)])

    def _unscaled(self, draws: Floats) -> Floats:
        """Return parameters whose last entry, if any, is the intercept itself."""
        out = np.array(draws)
        if self.fit_intercept:
            out[:, -1] *= self.intercept_scaling * self._norm()
        return out

    def _predictors(self, X: Any) -> Floats:
        """Return the linear predictor of each row under each sample."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        columns = self.n_features_in_
        return np.asarray(X @ self.samples_[:, :columns].T + self.samples_[:, columns:].sum(axis=1))

    def _mean_predictor(self, X: Any) -> Floats:
        """Return the linear predictor of each row under the mean parameter."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        return np.asarray(X @ np.ravel(self.coef_) + np.ravel(self.intercept_))

    def to_arviz(self) -> Any:
        """Return the samples as an ArviZ `InferenceData`; the last entry is the intercept where there is one."""
        check_is_fitted(self)
        return Release(
            self.samples_, self.profile_, self.release_.mechanism, "w", self.release_.reproducible
        ).to_arviz()


def _seed(random_state: Any) -> int:
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
