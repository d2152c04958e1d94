"""Minibatch SGD: what it draws against plain NumPy, and what it claims against dp-accounting and an attack."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from fractions import Fraction

import jax
import numpy as np
import pytest

from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.losses import Logistic
from sottovoce.mechanisms.exact_normals import noise_cells
from sottovoce.mechanisms.jax_compilation import compiled
from sottovoce.privacy.errors import InvalidValue, SottovoceError
from sottovoce.privacy.promises import ApproxDP, RenyiDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.theory.amplification.minibatch import MinibatchSGD, _means

DESIGN = Design(Logistic(), dimension=2, data_norm=1.0)


def test_it_steps_as_it_says():
    """The same parts and noise, by the formula, in NumPy."""
    sgd = MinibatchSGD(DESIGN, 6, noise=0.3, batch=3, steps=5, learning_rate=0.7, regularisation=0.1)
    data = np.random.default_rng(1)
    X = data.normal(size=(6, 2))
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1)
    y = np.where(data.random(6) < 0.5, -1.0, 1.0)
    rng = seeded_rng(3)
    w = np.zeros(2)
    for _ in range(5):
        part, kick = rng.choice(6, 3, replace=False), rng.standard_normal(2)
        slopes = -y[part] / (1 + np.exp(y[part] * (X[part] @ w)))
        w = w - 0.7 * (slopes @ X[part] / 3 + 0.1 * w + 0.3 * kick)
    found = sgd.release((X, y), seeded_rng(3)).value
    np.testing.assert_allclose(np.ravel(found), w, atol=1e-4)


def test_the_claim_against_dp_accounting():
    dp = pytest.importorskip("dp_accounting")
    from dp_accounting.rdp import rdp_privacy_accountant as rdp

    sgd = MinibatchSGD(DESIGN, 1000, noise=0.1, batch=20, steps=50)
    assert sgd.mu == pytest.approx(2 / (20 * 0.1))
    accountant = rdp.RdpAccountant(neighboring_relation=dp.NeighboringRelation.REPLACE_ONE)
    accountant.compose(dp.SampledWithoutReplacementDpEvent(1000, 20, dp.GaussianDpEvent(1 / sgd.mu)), 50)
    assert sgd.profile.epsilon(1e-5) <= accountant.get_epsilon(1e-5)
    every = MinibatchSGD(DESIGN, 20, noise=0.1, batch=20, steps=50)
    assert every.profile.gdp() == pytest.approx(every.mu * math.sqrt(50))


def test_calibration_keeps_the_promise_and_small_batches_help():
    promise = ApproxDP(1.0, 1e-5)
    small = MinibatchSGD.calibrate(DESIGN, 10_000, promise, batch=100, steps=50)
    assert small.profile.satisfies(promise)
    whole = MinibatchSGD.calibrate(DESIGN, 10_000, promise, batch=10_000, steps=50)
    assert small.noise * 100 < 0.2 * whole.noise * 10_000
    chain = MinibatchSGD.langevin(DESIGN, 1000, step=1e-4, precision=2.0, batch=50, steps=10)
    assert chain.learning_rate * chain.noise == pytest.approx(math.sqrt(2e-4))
    assert chain.learning_rate * chain.regularisation == pytest.approx(2e-4)
    assert math.isfinite(chain.profile.renyi(2.0))
    assert chain.profile.satisfies(RenyiDP(2.0, float(chain.profile.renyi(2.0))))


@pytest.mark.parametrize(
    "wrong",
    [
        {"noise": 0.0, "batch": 2, "steps": 3},
        {"noise": 1.0, "batch": 5, "steps": 3},
        {"noise": 1.0, "batch": 0, "steps": 3},
        {"noise": 1.0, "batch": 2, "steps": 0},
        {"noise": 1.0, "batch": 2, "steps": 2, "learning_rate": -1.0},
        {"noise": 1.0, "batch": 2, "steps": 2, "regularisation": math.nan},
    ],
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(SottovoceError):
        MinibatchSGD(DESIGN, 4, **wrong)
    with pytest.raises(InvalidValue):
        MinibatchSGD.langevin(DESIGN, 4, step=0.0, precision=1.0, batch=2, steps=2)


def test_an_attack_runs_no_more_often_than_it_asks(monkeypatch):
    mechanism, runs = MinibatchSGD.example(), []
    run = MinibatchSGD._run
    monkeypatch.setattr(MinibatchSGD, "_run", lambda *given: runs.append(given[3]) or run(*given))
    outputs = mechanism.outputs(mechanism.worst_pair()[0], seeded_rng(1), 3)
    assert outputs.shape == (3, mechanism.design.dimension) and sum(runs) == 3


def test_a_pull_that_throws_the_run_far_out_shows_no_low_bits():
    """The second step multiplies the first by 2²⁰⁰, beside which its own noise is nothing: all digits of it are seen.

    They are those of a public grid beside the noise, whatever the records are.
    """
    design = Design(Logistic(), dimension=1, data_norm=1.0)
    sgd = MinibatchSGD(design, 2, noise=5.0, batch=2, steps=2, learning_rate=1.0, regularisation=2.0**200)
    for rows in ([[1.0], [1.0]], [[1.0], [-1.0]], [[0.3], [0.7]]):
        seen = np.ravel(sgd.release((rows, [1.0, 1.0]), draws=40).value) / 2.0**200
        assert np.all(seen / 2.0 ** noise_cells(5.0).exponent % 0.5 == 0)


@pytest.mark.parametrize("records", [5, 33, 64])
def test_the_gradients_of_other_records_do_not_feel_one_that_is_replaced(records):
    """A row has a coordinate of its own, so the mean shows its slope to the last bit, wherever the run is."""
    rng, runs = np.random.default_rng(records), 3
    shared, y = rng.normal(size=(records, 7)) / 4, np.where(rng.random(records) < 0.5, 1.0, -1.0)
    X = np.hstack([shared, np.diag(rng.uniform(0.1, 0.9, records))])
    parts = np.array([rng.permutation(records) for _ in range(runs)])
    w = rng.normal(size=(runs, X.shape[1]))
    with jax.enable_x64(True):
        for place in (0, records // 2, records - 1):
            other, kept = X.copy(), np.arange(records) != place
            other[place, :7] = -8 * rng.normal(size=7)
            one, two = (
                np.asarray(compiled(_means, records)(Logistic(), rows, y, parts, w, 1.0)) for rows in (X, other)
            )
            assert np.array_equal(one[:, 7:][:, kept], two[:, 7:][:, kept])
            assert not np.array_equal(one[:, :7], two[:, :7])


def test_runs_side_by_side_remember_no_parts_of_steps_gone_by():
    n, runs, steps = 20_000, 20, 100
    sgd = MinibatchSGD(DESIGN, n, noise=0.3, batch=4, steps=steps)
    seen = sgd.design.statistics((np.zeros((n, 2)), np.ones(n)))
    tracemalloc.start()
    try:
        sgd._value(seen, seeded_rng(1), runs)
        assert tracemalloc.get_traced_memory()[1] < runs * steps * n
    finally:
        tracemalloc.stop()


def test_no_pull_and_no_row_ends_a_run():
    design = Design(Logistic(), dimension=2, data_norm=1.0)
    sgd = MinibatchSGD(design, 2, noise=1e-3, batch=1, steps=12, learning_rate=1.0, regularisation=1e300)
    for rows in ([[0.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1e-300, 1e-300]]):
        assert np.all(np.isfinite(sgd.release((rows, [1.0, -1.0])).value))


@pytest.mark.parametrize("length", [1e-9, 0.7, 3.3])
def test_mu_of_a_step_is_not_below_what_doubles_do(length):
    """In fractions: the gradients' sum and its rounding, over the noise."""
    design = Design(Logistic(), dimension=2, data_norm=length)
    for noise, batch in itertools.product([1e-120, 1e-9, 0.1, 0.3, 7.7, 1e200], [1, 3, 100, 4096]):
        sgd = MinibatchSGD(design, 5000, noise, batch, 3)
        unit = Fraction(1, 2**53) * (batch + 2 + 8)
        moved = 2 * Fraction(float(sgd.design.constants.lipschitz)) * Fraction(length) / batch
        exact = moved * (1 + batch * unit / (1 - unit)) / Fraction(noise)
        assert exact <= Fraction(sgd.mu) <= exact * (1 + Fraction(1, 10**14))
        one = sgd.profile.parts[0]  # each of the steps, on a part that holds a record no less often than it does
        assert Fraction(one.rate) >= Fraction(batch, 5000)
