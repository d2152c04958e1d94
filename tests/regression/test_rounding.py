"""What floating point does to a chain is bounded, and the bound is part of the claim."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from sottovoce.inference.regression.certificate import Chain
from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.losses import Logistic
from sottovoce.inference.regression.posterior import DiffusedRegression
from sottovoce.inference.regression.rounding import rounded_normals, step_error
from sottovoce.mechanisms.exact_normals import CoupledNormals
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.profile import Basis
from sottovoce.privacy.promises import ApproxDP
from sottovoce.privacy.randomness import secure_rng, seeded_rng

GRID = np.linspace(-9.0, 9.0, 1501)


def propagate(drift, steps, h, mean0=0.0):
    """The law of the chain after so many steps, on a fine grid, density after density."""
    width = GRID[1] - GRID[0]
    density = np.exp(-((GRID - drift(np.array([mean0]))) ** 2) / (4 * h)) / math.sqrt(4 * math.pi * h)
    if steps > 1:
        kernel = np.exp(-((GRID[:, None] - drift(GRID)) ** 2) / (4 * h)) * (width / math.sqrt(4 * math.pi * h))
    for _ in range(steps - 1):
        density = kernel @ density
    return density * width


@pytest.mark.parametrize(("steps", "push"), [(1, "apart"), (6, "apart"), (25, "apart"), (25, "by sign")])
def test_a_thousandfold_error_stays_below_the_corrected_claim_and_above_the_other(steps, push):
    """A 1-D chain whose every step is pushed by η the worst way, η a thousand times that of single precision."""
    m, h, s = 1.0, 0.2, 0.8
    eta = 1000 * 2.0**-24 * 900
    chain = Chain(m, 5.0, s, step=h, n_steps=steps, rounding=eta)
    plain = Chain(m, 5.0, s, step=h, n_steps=steps)

    def drift(side):
        def at(x):
            error = side * eta if push == "apart" else eta * np.where(x > 0, 1.0, -1.0)
            return (1 - h * m) * x + side * h * s / 2 + error

        return at

    p, q = propagate(drift(1.0), steps, h), propagate(drift(-1.0), steps, h)
    for epsilon in (0.0, 0.2, 0.6):
        delta = float(np.maximum(p - math.exp(epsilon) * q, 0).sum())
        assert delta <= chain.profile.delta(epsilon) * (1 + 1e-4) + 1e-9
        if push == "apart":
            assert delta > plain.profile.delta(epsilon) * 1.001


def test_the_error_of_a_step_is_below_its_bound():
    """Steps in single precision against steps in double, records added in many orders: all within η of single."""
    rng = np.random.default_rng(3)
    n, d, rho, m, R = 300, 4, 0.5, 1.0, 5.0
    design = Design(Logistic(), dimension=d, data_norm=1.0, radius=R)
    h = 1 / design.smoothness(n, rho, m)
    bound = step_error(design, n, rho, m, h, "float32")
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True) * 1.0001
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    worst = 0.0
    for order in (np.arange(n), rng.permutation(n), np.argsort(X[:, 0])):
        w = rng.standard_normal(d)
        w *= R / np.linalg.norm(w)
        exact = w - h * (rho * (-y / (1 + np.exp(y * (X @ w)))) @ X + m * w)
        single = np.float32
        x32, w32, total = X.astype(single), w.astype(single), np.zeros(d, single)
        for i in order:
            t = single(0)
            for j in range(d):
                t = single(t + x32[i, j] * w32[j])
            slope = single(-y[i]) / (single(1) + np.exp(single(y[i]) * t, dtype=single))
            total = total + slope * x32[i]
        got = w32 - single(h) * (single(rho) * total + single(m) * w32)
        worst = max(worst, float(np.linalg.norm(got.astype(float) - exact)))
    assert 0 < worst < bound
    assert step_error(design, n, rho, m, h, "float64") < bound * 2.0**-20


def test_computed_normals_are_normal_and_reach_far():
    normals = CoupledNormals(secure_rng()).standard_normal((100_001,))
    assert stats.kstest(normals, "norm").pvalue > 1e-6
    half = normals.size // 2
    assert abs(np.corrcoef(normals[:half] ** 2, normals[half + 1 :] ** 2)[0, 1]) < 0.02

    class Deep:
        """Coins that fall on tails 2000 times before the first head."""

        def __init__(self):
            self.zeros = 32

        def integers(self, low, high, size):
            if self.zeros and self.started:
                self.zeros -= 1
                return np.zeros(size, dtype=np.int64)
            self.started = True
            return np.ones(size, dtype=np.int64)

        started = False

    far = CoupledNormals(Deep()).standard_normal((2,))
    assert np.isfinite(far).all()
    assert np.linalg.norm(far) > math.sqrt(2 * 1900 * math.log(2))


def test_the_last_step_is_exactly_rounded_to_public_cells():
    means = np.array([[0.3, -2.0], [1e6, 0.0]])
    for _ in range(3):
        out = rounded_normals(means, 0.125, secure_rng())
        steps = out * 2.0**17 - 0.5
        assert np.array_equal(steps, np.rint(steps))
        assert np.abs(out - means).max() < 10


def test_secure_chains_follow_the_law_of_seeded_ones(records):
    X, y = records
    design = Design(Logistic(), dimension=4, data_norm=0.8, radius=2.0)
    mechanism = DiffusedRegression(design, 600, prior_precision=2.0, data_weight=0.3, draws=300, n_steps=6)
    exact, quick = mechanism.release((X, y)).value, mechanism.release((X, y), seeded_rng(4)).value
    for k in range(4):
        assert stats.ks_2samp(exact[:, k], quick[:, k]).pvalue > 1e-5


def test_the_correction_is_small_in_double_and_proven_in_single_where_it_is_small():
    rises = []
    for n in (10**3, 10**5, 10**7):
        chain = DiffusedRegression.calibrate(Design(Logistic(), 20, 1.0), n, ApproxDP(1.0, 1e-5)).chain
        rises.append(2 * chain.rounding / chain.step / chain.sensitivity)
    assert all(a < b for a, b in itertools.pairwise(rises))
    assert rises[0] < 1e-6
    assert rises[2] < 0.02
    small = DiffusedRegression(Design(Logistic(), 4, 1.0, 3.0), 300, 1.0, 0.5, n_steps=20, precision="float32")
    assert small.profile.basis is Basis.BOUND
    assert small.profile.mu > DiffusedRegression(Design(Logistic(), 4, 1.0, 3.0), 300, 1.0, 0.5, n_steps=20).profile.mu
    large = DiffusedRegression(Design(Logistic(), 4, 1.0, 3.0), 10**6, 1.0, 0.5, n_steps=20, precision="float32")
    assert large.profile.basis is Basis.CONVERGENCE


def test_a_claim_without_rounding_is_the_old_one():
    chain = Chain(1.0, 50.0, 0.2, step=0.02, n_steps=10)
    assert chain.mu == pytest.approx(0.0631, abs=1e-4)
    assert Chain(1.0, 50.0, 0.2, step=0.02, n_steps=10, rounding=0.0).mu == chain.mu
    assert isinstance(chain.profile, GaussianProfile)
    assert Fraction(Chain(1.0, 50.0, 0.2, step=0.02, n_steps=10, rounding=1e-3).mu) > Fraction(chain.mu)
