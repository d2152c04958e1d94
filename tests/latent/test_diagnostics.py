"""R-hat and effective draws: against ArviZ, and against chains whose autocorrelation is known."""

import warnings

import numpy as np
import pytest
from scipy import signal

from sottovoce.inference.latent.diagnostics import Convergence, NotConverged, effective_draws, split_r_hat
from sottovoce.inference.latent.draws import ends_of
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.randomness import seeded_rng


def autoregressive(phi: float, chains: int, count: int, seed: int) -> np.ndarray:
    steps = seeded_rng(seed).normal(size=(chains, count))
    steps[:, 0] /= np.sqrt(1 - phi**2)
    return signal.lfilter([1.0], [1.0, -phi], steps, axis=1)  # x_t = φ x_(t-1) + step_t


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
def test_an_autoregression_is_worth_what_theory_says(phi: float) -> None:
    x = autoregressive(phi, 4, 20_000, seed=1)
    assert effective_draws(x) == pytest.approx(80_000 * (1 - phi) / (1 + phi), rel=0.15)
    assert split_r_hat(x) == pytest.approx(1.0, abs=0.005)


def test_figures_are_those_of_arviz() -> None:
    import arviz  # loads Matplotlib and much more, which other tests of a worker may not need

    x = autoregressive(0.8, 4, 500, seed=2) + np.array([0.0, 0.0, 0.0, 2.0])[:, None]
    assert split_r_hat(x) == pytest.approx(float(arviz.rhat(x, method="split")), rel=1e-6)
    assert effective_draws(x) == pytest.approx(float(arviz.ess(x, method="mean")), rel=0.35)


def test_frozen_chains_are_found_out() -> None:
    stuck = np.broadcast_to(np.array([0.0, 1.0])[:, None], (2, 10))
    assert split_r_hat(stuck) == np.inf
    assert split_r_hat(np.ones((2, 10))) == 1.0
    assert not Convergence.of({"stuck": stuck}).reached
    with pytest.raises(InvalidValue, match="4 draws"):
        split_r_hat(np.ones((2, 3)))


def test_a_warning_names_the_worst() -> None:
    good, bad = autoregressive(0.0, 4, 400, 3), autoregressive(0.999, 4, 400, 4)
    with pytest.warns(NotConverged, match="of bad"):
        Convergence.of({"good": good, "bad": bad}).warn("wait")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Convergence.of({"good": good}).warn("wait")


def test_intervals_of_few_draws_hold_their_level() -> None:
    # Quantiles that begin at the first draw and end at the last hold 94.2 % of a law on average, of 256 draws.
    low, high = ends_of(np.random.default_rng(1).random((256, 4000)), 0.95).T
    assert np.mean(high - low) == pytest.approx(0.95, abs=0.002)
