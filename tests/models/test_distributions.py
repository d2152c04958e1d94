"""Releases as NumPyro distributions: draws and densities agree, and both agree with what the mechanisms do."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal

jax = pytest.importorskip("jax")
pytest.importorskip("numpyro")

from sottovoce.inference.custom.numpyro import NoisyCounts, NoisyLook, NoisySum, noise_draws  # noqa: E402
from sottovoce.mechanisms.integer_noise import IntegerNoise  # noqa: E402
from sottovoce.mechanisms.jax_compilation import compiler_options  # noqa: E402
from sottovoce.privacy.errors import InvalidValue  # noqa: E402

KEY = np.array([0, 1], dtype=np.uint32)


def made(function: Callable[[], Any]) -> Any:
    """Return what is made inside one program, as in a model, and not by many small ones."""
    return jax.tree.map(np.asarray, jax.jit(function, compiler_options=compiler_options(seldom=True))())


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_draws_of_noise_have_the_law_of_the_mechanism(noise: str) -> None:
    law = IntegerNoise(noise, 1.5)  # type: ignore[arg-type]
    drawn = made(lambda: noise_draws(law, KEY, (200_000,)))
    k = np.arange(-6, 7)
    weights = np.exp(law.log_weight(np.arange(-200, 201)))
    expected = np.exp(law.log_weight(k)) / weights.sum()
    found = np.array([(drawn == value).mean() for value in k])
    assert np.all(np.abs(found - expected) < 5 * np.sqrt(expected / 200_000) + 1e-6)


def test_noisy_counts_have_their_mean_and_variance() -> None:
    def both() -> Any:
        law = NoisyCounts(np.array([0.2, 0.3, 0.5]), 50, "laplace", 2.0)
        return law.sample(KEY, (40_000,)), law.mean, law.variance, law.log_prob(np.array([10, 15, 25]))

    drawn, mean, variance, height = made(both)
    assert np.allclose(drawn.mean(axis=0), mean, atol=0.12)
    assert np.allclose(drawn.var(axis=0), variance, rtol=0.05)
    assert height.shape == ()


def test_a_batch_of_tables_is_a_table_each() -> None:
    pi = np.array([[0.2, 0.8], [0.6, 0.4]])
    counts = np.array([[5, 15], [12, 8]])

    def height(p: Any, x: Any) -> Any:
        return NoisyCounts(p, 20, "gaussian", 2.0, form="exact").log_prob(x)

    both, *apart = made(lambda: [height(pi, counts), *map(height, pi, counts)])
    assert both.tolist() == pytest.approx([float(one) for one in apart], abs=1e-9)
    with pytest.raises(InvalidValue, match="form must be"):
        NoisyCounts(pi, 20, form="fast")  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="last axis"):
        NoisyCounts(np.array([1.0]), 20)
    with pytest.raises(InvalidValue, match="plan="):
        jax.jit(lambda x: NoisyCounts(pi, 20).log_prob(x))(counts)


def test_a_noisy_sum_is_that_of_clipped_records_with_noise() -> None:
    def parts() -> Any:
        law = NoisySum(0.3, 0.4, n=500, noise_sd=7.0)
        return law.mean, law.variance, law.sample(KEY, (50_000,))

    mean, variance, drawn = made(parts)
    assert (float(mean), float(variance)) == pytest.approx((150.0, 500 * 0.16 + 49))
    assert drawn.std() == pytest.approx(float(variance) ** 0.5, rel=0.02)


def test_a_noisy_look_is_normal_around_the_information_times_the_way() -> None:
    rng = np.random.default_rng(2)
    root = rng.normal(size=(3, 3))
    information, centre, theta = root @ root.T * 20, rng.normal(size=3), rng.normal(size=3)
    gap = theta - centre
    covariance = information + (16 + 4 * gap @ gap / 2) * np.eye(3)
    score = rng.normal(size=3) * 10

    def parts() -> Any:
        law = NoisyLook(theta, information, centre, score_sd=4.0, information_sd=2.0)
        return law.log_prob(score), law.sample(KEY, (50_000,)), law.variance

    height, drawn, variance = made(parts)
    assert float(height) == pytest.approx(multivariate_normal(information @ gap, covariance).logpdf(score))
    assert np.allclose(np.cov(drawn.T), covariance, atol=0.05 * covariance.max())
    assert np.allclose(variance, np.diag(covariance))
    with pytest.raises(InvalidValue, match="as many scores"):
        NoisyLook(theta, information, np.zeros(2), 1.0, 1.0)


def test_a_look_with_pure_noise_for_information_is_still_a_law() -> None:
    information, score = np.array([[-3.0, 1.0], [1.0, -2.0]]), np.array([1.0, 2.0])
    assert np.isfinite(made(lambda: NoisyLook(np.ones(2), information, np.zeros(2), 1.0, 1.0).log_prob(score)))
