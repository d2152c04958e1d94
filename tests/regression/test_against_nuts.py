"""Run long, the chains reach the posterior that NumPyro's NUTS finds on Abalone."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from papers.regression_data import load_regression

from sottovoce.mechanisms.compiling import compiler_options
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.regression.design import Design
from sottovoce.regression.losses import Logistic
from sottovoce.regression.posterior import DiffusedRegression

numpyro = pytest.importorskip("numpyro", reason="NumPyro is a development dependency")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_mean_and_covariance_on_abalone():
    data = load_regression("abalone")
    records = data.X[::6], data.y[::6]
    n, d = records[0].shape
    weight, m, chains = 0.1, 1e-3 * n, 300
    plain = DiffusedRegression(Design(Logistic(), d, 1.0), n, m, weight)
    short = plain.chain.step / 4  # a shorter step than privacy needs, for a smaller discretisation bias
    chain = DiffusedRegression(
        Design(Logistic(), d, 1.0), n, m, weight, chains, n_steps=plain.chain.n_steps * 5, step=short
    )
    draws = chain.release(records, seeded_rng(1)).value

    def potential(w):
        return m / 2 * jnp.sum(w**2) + weight * jnp.sum(jax.nn.softplus(-y * (X @ w)))

    X, y = (np.asarray(part, dtype=np.float32) for part in records)
    begin, step = numpyro.infer.hmc.hmc(potential, algo="NUTS")

    def sampled():  # in one program: NumPyro's own driver compiles a hundred small ones first
        state = begin(jnp.zeros(d), 200, rng_key=jax.random.PRNGKey(0))
        return jax.lax.scan(lambda state, _: (step(state), state.z), state, length=900)[1][200:]

    theirs = np.asarray(jax.jit(sampled, compiler_options=compiler_options())())
    sd = theirs.std(axis=0)
    error = sd * math.sqrt(1 / chains + 1 / 350)  # NUTS draws are correlated: count about half of them
    assert np.all(np.abs(draws.mean(axis=0) - theirs.mean(axis=0)) < 4 * error)
    gap = (np.cov(draws.T) - np.cov(theirs.T)) / np.outer(sd, sd)
    assert np.abs(gap).max() < 4 * math.sqrt(2 / chains + 2 / 350)
