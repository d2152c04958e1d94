"""The chains follow the law they should, wherever the rows are held."""

import math
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.device_placement import Placement, placed
from sottovoce.inference.regression.losses import Logistic, Probit, Squared
from sottovoce.inference.regression.posterior import DiffusedRegression
from sottovoce.mechanisms.grid import to_grid
from sottovoce.privacy.errors import InvalidData, InvalidValue, UnprovenPrivacy
from sottovoce.privacy.profile import Basis
from sottovoce.privacy.randomness import secure_rng, seeded_rng
from sottovoce.records.readings import Rows


def clip(X, c):
    return X * np.minimum(1, c / np.linalg.norm(X, axis=1, keepdims=True))


def test_chain_is_the_recursion_written_out_in_numpy(records):
    X, y = records
    design = Design(Logistic(), dimension=4, data_norm=0.8, radius=0.5)
    mechanism = DiffusedRegression(design, 600, prior_precision=2.0, data_weight=0.3, draws=3, n_steps=7)
    got = mechanism.release((X, y), seeded_rng(11)).value
    rows, noise = clip(X, 0.8), seeded_rng(11).standard_normal((7, 3, 4))
    h, W = mechanism.chain.step, np.zeros((3, 4))
    for k in range(7):
        slopes = -y[:, None] / (1 + np.exp(y[:, None] * (rows @ W.T)))
        W = W - h * (0.3 * slopes.T @ rows + 2.0 * W) + math.sqrt(2 * h) * noise[k]
        W *= np.minimum(1, 0.5 / np.linalg.norm(W, axis=1, keepdims=True))
    np.testing.assert_allclose(got, to_grid(W, math.sqrt(2 * h)), atol=1e-12)


def test_chains_of_several_tables_are_those_of_each_alone():
    rng, design = seeded_rng(3), Design(Logistic(), dimension=2, data_norm=1.0)
    mechanism = DiffusedRegression(design, 8, prior_precision=2.0, data_weight=0.9, draws=3, n_steps=4)
    tables = [Rows(8, rng.standard_normal((8, 2)), rng.choice([-1.0, 1.0], 8)) for _ in range(70)]
    found = mechanism.each(tables, seeded_rng(11))
    source = seeded_rng(11)
    noise = np.concatenate([source.standard_normal((4, 64, 3, 2)) for _ in range(2)], axis=1)

    class Given(np.random.Generator):
        def standard_normal(self, size):
            return noise[:, place].reshape(size)

    for place in (0, 1, 63, 64, 69):
        alone = mechanism._value(tables[place], Given(np.random.Philox(1)), 1)
        np.testing.assert_allclose(found[place], alone, atol=1e-12)


def test_gaussian_target_has_the_right_mean_and_covariance():
    rng = seeded_rng(5)
    X, y = clip(rng.standard_normal((40, 2)), 1.0), np.clip(rng.standard_normal(40), -1, 1)
    design = Design(Squared(largest=1.0), dimension=2, data_norm=1.0, radius=50.0)
    mechanism = DiffusedRegression(design, 40, 2.0, 0.5, draws=4000, step=0.002, n_steps=600)
    draws = mechanism.release((X, y), seeded_rng(6)).value
    H = 0.5 * X.T @ X + 2.0 * np.eye(2)
    assert np.linalg.norm(np.linalg.matrix_power(np.eye(2) - 0.002 * H, 600)) < 1e-4  # the start is forgotten
    # The chain's own stationary covariance, exact for a quadratic: 2h(I - (I - hH)²)⁻¹.
    A = np.eye(2) - 0.002 * H
    covariance = 2 * 0.002 * np.linalg.inv(np.eye(2) - A @ A)
    mean = np.linalg.solve(H, 0.5 * X.T @ y)
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 4 * np.sqrt(np.diag(covariance) / 4000))
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=4 * covariance.max() * math.sqrt(2 / 4000))
    np.testing.assert_allclose(covariance, np.linalg.inv(H), rtol=0.02)


@pytest.mark.parametrize(
    "placement", [Placement(chunk_rows=97), Placement(stream=True, chunk_rows=250), Placement(stream=True)], ids=str
)
def test_chunks_and_streams_change_nothing(records, placement):
    X, y = records
    design = Design(Logistic(), dimension=4, data_norm=1.0)
    mechanism = DiffusedRegression(design, 600, prior_precision=1.0, data_weight=0.2, draws=2, n_steps=25)
    plain = mechanism.release((X, y), seeded_rng(1)).value
    with placed(placement):
        np.testing.assert_allclose(mechanism.release((X, y), seeded_rng(1)).value, plain, atol=1e-11)


def test_single_precision_is_close_and_says_so(records):
    X, y = records
    mechanism = DiffusedRegression(Design(Logistic(), 4, 1.0), 600, 1.0, 0.2, n_steps=25)
    plain = mechanism.release((X, y), seeded_rng(1))
    single = replace(mechanism, precision="float32")
    with pytest.raises(UnprovenPrivacy):
        single.release((X, y))
    rough = single.release((X, y), seeded_rng(1), accept_unproven=True)
    assert (plain.profile.basis, rough.profile.basis) == (Basis.BOUND, Basis.CONVERGENCE)
    assert 0 < np.abs(plain.value - rough.value).max() < 1e-4
    assert (plain.mechanism["precision"], rough.mechanism["precision"]) == ("float64", "float32")


_SHARDED = """
import sys, numpy as np, jax
from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.losses import Logistic
from sottovoce.inference.regression.posterior import DiffusedRegression
from sottovoce.inference.regression.device_placement import Placement, placed
from sottovoce.privacy.randomness import seeded_rng
assert len(jax.devices()) == 4, jax.devices()
rng = seeded_rng(2)
X = rng.standard_normal((601, 5))
y = np.where(X[:, 0] > 0, 1.0, -1.0)
mechanism = DiffusedRegression(Design(Logistic(), 5, 1.0), 601, 1.0, 0.3, draws=3, n_steps=40)
one = mechanism.release((X, y), seeded_rng(3)).value
with placed(Placement(devices=tuple(jax.devices()), chunk_rows=300)):
    four = mechanism.release((X, y), seeded_rng(3)).value
print(np.abs(one - four).max())
"""


def test_four_devices_give_the_numbers_of_one():
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-c", _SHARDED], env=os.environ | flags, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert float(run.stdout) < 1e-11


def test_progress_runs_to_one_and_releases_know_their_randomness(records):
    X, y = records
    mechanism = DiffusedRegression(Design(Logistic(), 4, 1.0), 600, 1.0, 0.2, n_steps=5)
    seen = []
    with placed(progress=seen.append):
        assert mechanism.release((X, y), seeded_rng(1)).reproducible
    assert seen[-1] == 1.0
    secure = mechanism.release((X, y))
    assert not secure.reproducible
    assert not np.array_equal(secure.value, mechanism.release((X, y), secure_rng()).value)


def test_tables_of_another_shape_are_refused(records):
    X, y = records
    mechanism = DiffusedRegression(Design(Logistic(), 4, 1.0), 600, 1.0, 0.2, n_steps=2)
    for bad_X, bad_y in [(X[:-1], y), (X[:, :3], y), (X, y[:-1]), (X[0], y), (X, X)]:
        with pytest.raises(InvalidData):
            mechanism.release((bad_X, bad_y))


def test_unbounded_loss_without_ball_and_long_step_are_refused():
    with pytest.raises(InvalidValue, match="radius"):
        Design(Probit(), 2, 1.0)
    with pytest.raises(InvalidValue, match="step"):
        DiffusedRegression(Design(Logistic(), 4, 1.0), 600, 1.0, 0.2, step=0.1, n_steps=5)
