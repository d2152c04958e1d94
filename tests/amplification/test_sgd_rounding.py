"""What floating point does to SGD is bounded, and the bound is part of what every record is promised."""

import itertools
from dataclasses import replace

import mpmath
import numpy as np
import pytest

from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.losses import Logistic
from sottovoce.mechanisms.exact_normals import noise_cells
from sottovoce.privacy.errors import PromiseUnreachable
from sottovoce.privacy.promises import GaussianDP
from sottovoce.privacy.randomness import secure_rng
from sottovoce.theory.amplification import NoisyProjectedSGD
from sottovoce.theory.amplification.iteration import path_mu, path_of_equal_shifts

DESIGN = Design(Logistic(), dimension=3, data_norm=1.0, radius=4.0)


@pytest.mark.parametrize(("epochs", "rho"), [(1, 0.4), (3, 0.4), (1, 0.0)])
def test_a_thousandfold_error_stays_below_the_corrected_claim_and_above_the_other(monkeypatch, epochs, rho):
    """A linear run in one dimension, every step pushed the worst way: its law is Gaussian, and known."""
    sgd = NoisyProjectedSGD(DESIGN, 8, noise=1.5, learning_rate=0.5, regularisation=rho, epochs=epochs)
    error = 1e12 * sgd.rounding  # a thousandfold that of single precision
    monkeypatch.setattr(NoisyProjectedSGD, "rounding", property(lambda self: error))
    L, s = 1 - sgd.step * rho, sgd.step * sgd.noise
    for index in (1, 5, 8):
        gap, plain, variance, shifts = 0.0, 0.0, 0.0, []
        for step in range(sgd.n_steps):
            own = sgd.step * DESIGN.sensitivity(1.0) if step % sgd.n == index - 1 else 0.0  # 2ηBc
            gap, plain = L * gap + own + 2 * error, L * plain + own
            variance = L * L * variance + s * s
            shifts.append((own + 2 * error) / s)
        claim = float(sgd.mu_at(index))
        assert gap / np.sqrt(variance) <= claim
        assert path_mu(shifts, L, 1.0) <= claim * (1 + 1e-9)  # the best that this proof allows
        assert gap / np.sqrt(variance) > plain / np.sqrt(variance) * 1.01
        if index == 8 and epochs == 1:
            monkeypatch.undo()
            assert path_mu(shifts, L, 1.0) > float(sgd.mu_at(index)) * 1.0001
            monkeypatch.setattr(NoisyProjectedSGD, "rounding", property(lambda self: error))


def test_equal_shifts_cost_what_the_taut_string_says():
    for L, steps in itertools.product((0.3, 0.9, 0.9999, 1.0), (1, 2, 7, 400)):
        assert path_of_equal_shifts(L, steps) == pytest.approx(path_mu(np.ones(steps), L, 1.0), rel=1e-9)


def test_the_error_of_a_run_is_below_its_bound():
    """Ten steps against the same steps in forty digits, noise and all."""
    mpmath.mp.dps = 40
    rng = np.random.default_rng(2)
    X = rng.standard_normal((10, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True) * 1.001
    y = np.where(rng.random(10) < 0.5, 1.0, -1.0)
    sgd = NoisyProjectedSGD(DESIGN, 10, noise=6.0, learning_rate=0.9, regularisation=0.3)
    noise = rng.standard_normal((16, 1, 3))

    class Script:
        """The noise of the steps, and none in the last."""

        def __init__(self):
            self.parts = [noise, np.zeros((1, 3))]

        def standard_normal(self, shape):
            return np.reshape(self.parts.pop(0), shape)

    got = sgd.run(X, y, Script())[0]
    w = [mpmath.mpf(0)] * 3
    for k, (x, label) in enumerate(zip(X, y, strict=True)):
        t = sum(a * mpmath.mpf(b) for a, b in zip(w, x, strict=True))
        slope = -label / (1 + mpmath.exp(label * t))
        xi = noise[k, 0] if k < 9 else np.zeros(3)
        w = [
            a - mpmath.mpf(sgd.step) * (slope * mpmath.mpf(b) + mpmath.mpf(0.3) * a + 6 * mpmath.mpf(c))
            for a, b, c in zip(w, x, xi, strict=True)
        ]
        norm = mpmath.sqrt(sum(a * a for a in w))
        w = [a * min(1, 4 / norm) for a in w]
    off = float(mpmath.sqrt(sum((a - mpmath.mpf(b)) ** 2 for a, b in zip(w, got, strict=True))))
    width = 2.0 ** noise_cells(sgd.step * sgd.noise).exponent
    assert off <= 10 * sgd.rounding + 2 * width  # the last is rounded to its cells
    assert 0 < sgd.rounding < 1e-12


def test_runs_without_a_ball_are_kept_in_one_they_never_leave():
    free = NoisyProjectedSGD(Design(Logistic(), 2, 1.0), 50, noise=2.0)
    assert np.isfinite(free.reach)
    X, y = np.tile([1.0, 0.0], (50, 1)), np.ones(50)
    far = np.linalg.norm(free.run(X, y, secure_rng(), chains=500), axis=1)
    assert far.max() < free.reach / 10
    still = replace(free, regularisation=0.0)
    assert free.reach < still.reach < np.inf


def test_what_doubles_cannot_keep_is_refused():
    wide = Design(Logistic(), 2, 1.0)
    with pytest.raises(PromiseUnreachable, match="doubles are too coarse"):
        NoisyProjectedSGD.calibrate(wide, 100_000, GaussianDP(2e-9), regularisation=0.0)
    made = NoisyProjectedSGD.calibrate(wide, 100, GaussianDP(0.5))
    assert made.profile.mu <= 0.5
    assert made.rounding_mu > 0
