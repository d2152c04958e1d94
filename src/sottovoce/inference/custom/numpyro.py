"""Releases as NumPyro distributions: one model, several releases and public data, each with its own noise.

`NoisyCounts`, `NoisySum` and `NoisyLook` are used like any other distribution,
``numpyro.sample("ward A", NoisyCounts(probabilities, n, noise="laplace", scale=2.0), obs=counts)``, inside a model for
NumPyro's own samplers or inside one for `fit_model`. They work in double precision: run them under
``jax.enable_x64(True)``, as `fit_model` does.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints

from sottovoce.inference.custom.likelihood import (
    Form,
    LikelihoodPlan,
    choose_form,
    exact,
    log_normaliser,
    normal,
    plan_for,
)
from sottovoce.mechanisms.integer_noise import IntegerNoise, NoiseKind
from sottovoce.privacy.errors import InvalidValue

__all__ = ["NoisyCounts", "NoisyLook", "NoisySum"]


class NoisyCounts(dist.Distribution):  # type: ignore[misc]
    r"""Counts of cells that share n records, each with discrete noise; the true counts are summed out.

    Parameters
    ----------
    probabilities
        Of the cells, on the last axis; they sum to one.
    n
        How many records the cells share.
    noise, scale
        ``"laplace"`` or ``"gaussian"``, and its scale.
    form
        ``"exact"`` or ``"normal"``; unless given, what the observed counts call for.
    plan
        How the exact form is computed; unless given, it follows from the observed counts.

    Examples
    --------
    >>> import jax
    >>> with jax.enable_x64(True):
    ...     round(float(NoisyCounts(jnp.array([0.5, 0.5]), 1, "laplace", 0.01).log_prob(jnp.array([1, 0]))), 4)
    -0.6931
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"probabilities": constraints.simplex}
    support = constraints.independent(constraints.integer_interval(-(2**62), 2**62), 1)

    def __init__(
        self,
        probabilities: object,
        n: int,
        noise: NoiseKind = "laplace",
        scale: float = 1.0,
        *,
        form: Form | None = None,
        plan: LikelihoodPlan | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.probabilities = jnp.asarray(probabilities)
        if self.probabilities.ndim < 1 or self.probabilities.shape[-1] < 2:
            raise InvalidValue("probabilities of two or more cells stand on the last axis")
        self.n, self.noise = int(n), IntegerNoise(noise, scale)
        if form not in (None, "exact", "normal"):
            raise InvalidValue(f"form must be 'exact' or 'normal'. Got {form!r}")
        self.form, self.plan = form, plan
        shape = self.probabilities.shape
        super().__init__(batch_shape=shape[:-1], event_shape=shape[-1:], validate_args=validate_args)

    def log_prob(self, value: Any, intermediates: Any = None) -> Any:
        """Return log p(ñ | π)."""
        del intermediates
        form, plan = self.form, self.plan
        if form is None or (form == "exact" and plan is None):
            if isinstance(value, jax.core.Tracer):
                raise InvalidValue("counts that a compiled program is given need form= and plan= (see plan_for)")
            rows = np.asarray(value).reshape(-1, value.shape[-1])
            forms = {choose_form(row, self.n, self.noise)[0] for row in rows}
            form = form or ("exact" if "exact" in forms else "normal")
            plans = [plan_for(row, self.n, self.noise) for row in rows]
            for other in plans:
                plan = other if plan is None else plan.wider(other)

        def one(p: object, x: object) -> Any:
            if form == "normal":
                return normal(p, x, self.n, self.noise.variance)
            assert plan is not None
            return exact(p, x, self.n, self.noise, plan)

        shape = jnp.broadcast_shapes(self.probabilities.shape, jnp.shape(value))
        pairs = [jnp.broadcast_to(part, shape).reshape(-1, shape[-1]) for part in (self.probabilities, value)]
        return jax.vmap(one)(*pairs).reshape(shape[:-1])

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        """Return noisy counts of n records."""
        first, second = jax.random.split(key)
        counts = dist.Multinomial(self.n, self.probabilities).sample(first, sample_shape)
        return counts + noise_draws(self.noise, second, counts.shape)

    @property
    def mean(self) -> jax.Array:
        """The expected counts."""
        return self.n * self.probabilities

    @property
    def variance(self) -> jax.Array:
        """The variance of every noisy count."""
        return self.n * self.probabilities * (1 - self.probabilities) + self.noise.variance


def noise_draws(noise: IntegerNoise, key: Any, shape: tuple[int, ...]) -> jax.Array:
    """Return discrete noise for predictions: no release is made of it."""
    if noise.kind == "laplace":
        first, second = jax.random.uniform(key, (2, *shape), minval=1e-300)
        rate = 1 / noise.scale
        return (jnp.floor(-jnp.log(first) / rate) - jnp.floor(-jnp.log(second) / rate)).astype(int)
    reach = math.ceil(9 * noise.scale) + 1
    if reach > 20_000:
        return jnp.rint(noise.scale * jax.random.normal(key, shape)).astype(int)
    heights = jnp.asarray(np.cumsum(np.exp(noise.log_weight(np.arange(-reach, reach + 1)) - log_normaliser(noise))))
    return jnp.searchsorted(heights, jax.random.uniform(key, shape)) - reach


class NoisySum(dist.Distribution):  # type: ignore[misc]
    r"""A sum of n independent records with noise on it, as normal: mean nμ, variance nσ² + the noise's.

    Parameters
    ----------
    mean, sd
        Of one record, as it was read (cut to its bounds).
    n
        How many records were added up; it may be unknown to the model and then is a parameter of it.
    noise_sd
        The standard deviation of the noise on the sum.

    Examples
    --------
    >>> float(NoisySum(2.0, 1.0, n=100, noise_sd=0.0).mean)
    200.0
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"centre": constraints.real, "sd": constraints.positive}
    support = constraints.real
    reparametrized_params: ClassVar[list[str]] = ["centre"]

    def __init__(
        self, mean: object, sd: object, n: object, noise_sd: object, *, validate_args: bool | None = None
    ) -> None:
        self.centre, self.sd, self.n, self.noise_sd = (jnp.asarray(part) for part in (mean, sd, n, noise_sd))
        shape = jnp.broadcast_shapes(*(jnp.shape(part) for part in (self.centre, self.sd, self.n, self.noise_sd)))
        super().__init__(batch_shape=shape, validate_args=validate_args)

    @property
    def mean(self) -> jax.Array:
        """The expected sum."""
        return jnp.broadcast_to(self.n * self.centre, self.batch_shape)

    @property
    def variance(self) -> jax.Array:
        """The variance of the noisy sum."""
        return jnp.broadcast_to(self.n * self.sd**2 + self.noise_sd**2, self.batch_shape)

    def log_prob(self, value: object, intermediates: object = None) -> Any:
        """Return the log density of a noisy sum."""
        del intermediates
        return dist.Normal(self.mean, jnp.sqrt(self.variance)).log_prob(value)

    def sample(self, key: object, sample_shape: tuple[int, ...] = ()) -> Any:
        """Return noisy sums."""
        return dist.Normal(self.mean, jnp.sqrt(self.variance)).sample(key, sample_shape)


class NoisyLook(dist.Distribution):  # type: ignore[misc]
    r"""A noisy score of a regression at a public centre, given the coefficients.

    .. math:: \hat s \sim \mathrm N\bigl(\hat H(\theta - \theta_0),\; \hat H_+ + (\sigma^2 +
        \tfrac{1}{2}\tau^2\lVert\theta - \theta_0\rVert^2) I\bigr),

    σ the noise on each coordinate of the score, τ that on the diagonal of the information Ĥ (off it τ/√2).

    Parameters
    ----------
    coefficients
        θ, the model's unknown.
    information
        Ĥ, as released: symmetric, not necessarily positive.
    centre
        θ₀, where the look was taken.
    score_sd, information_sd
        σ and τ.

    Examples
    --------
    >>> look = NoisyLook(jnp.ones(2), 50 * jnp.eye(2), jnp.zeros(2), score_sd=3.0, information_sd=1.0)
    >>> look.mean.tolist()
    [50.0, 50.0]
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"coefficients": constraints.real_vector}
    support = constraints.real_vector
    reparametrized_params: ClassVar[list[str]] = ["coefficients"]

    def __init__(
        self,
        coefficients: object,
        information: object,
        centre: object,
        score_sd: object,
        information_sd: object,
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.coefficients, self.centre = jnp.asarray(coefficients), jnp.asarray(centre)
        self.information = jnp.asarray(information)
        size = self.coefficients.shape[-1:] if self.coefficients.ndim else ()
        if len(size) != 1 or self.information.shape != size * 2 or self.centre.shape != size:
            raise InvalidValue(
                f"a look at {size[0] if size else 0} coefficients has as many scores and a square information. "
                f"Got {self.centre.shape} and {self.information.shape}"
            )
        values, self._vectors = jnp.linalg.eigh((self.information + self.information.T) / 2)
        self._values = values
        self.score_sd, self.information_sd = jnp.asarray(score_sd), jnp.asarray(information_sd)
        shape = self.coefficients.shape
        super().__init__(batch_shape=shape[:-1], event_shape=shape[-1:], validate_args=validate_args)

    @property
    def _gap(self) -> jax.Array:
        return self.coefficients - self.centre

    @property
    def mean(self) -> Any:
        """The expected score."""
        return self._gap @ self.information

    @property
    def _variances(self) -> jax.Array:
        """The variance of the score along each eigenvector of the information."""
        extra = self.score_sd**2 + self.information_sd**2 * jnp.sum(self._gap**2, axis=-1, keepdims=True) / 2
        return jnp.maximum(self._values, 0.0) + extra

    @property
    def variance(self) -> Any:
        """The variance of every coordinate of the score."""
        return self._variances @ (self._vectors**2).T

    def log_prob(self, value: object, intermediates: object = None) -> jax.Array:
        """Return the log density of a noisy score."""
        del intermediates
        turned = (jnp.asarray(value) - self.mean) @ self._vectors
        return jnp.sum(dist.Normal(0.0, jnp.sqrt(self._variances)).log_prob(turned), axis=-1)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        """Return noisy scores."""
        drawn = jax.random.normal(key, (*sample_shape, *self.batch_shape, *self.event_shape))
        return self.mean + (drawn * jnp.sqrt(self._variances)) @ self._vectors.T
