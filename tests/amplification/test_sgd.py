"""Noisy projected SGD: the algorithm against a plain loop, the guarantee against exact laws and an attack."""

from dataclasses import replace
from functools import cache

import jax
import numpy as np
import pytest
from scipy import special, stats

from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.losses import (
    ComplementaryLogLog,
    Huber,
    Logistic,
    Poisson,
    Probit,
    SmoothedHinge,
    Squared,
)
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.promises import ApproxDP, GaussianDP, RenyiDP
from sottovoce.privacy.randomness import secure_rng, seeded_rng
from sottovoce.theory.amplification import NoisyProjectedSGD


def data(n, d, seed=0):
    rng = seeded_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.where(X[:, 0] + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0)


def plain_loop(sgd, X, y, noise, public=None):
    """Return the last iterate of the algorithm written down step by step."""
    c, d = sgd.design.data_norm, sgd.design.dimension
    records = [(X[i], y[i]) for _ in range(sgd.epochs) for i in range(len(y))]
    if public is not None:
        records += [(public[0][k % len(public[1])], public[1][k % len(public[1])]) for k in range(sgd.public_steps)]
    w = np.zeros(d)
    for (x, label), xi in zip(records, noise, strict=True):
        row = x * min(1.0, c / np.linalg.norm(x))
        slope = -label / (1 + np.exp(label * (w @ row)))
        w = w - sgd.step * (slope * row + sgd.regularisation * w + sgd.noise * xi)
        if sgd.box is not None:
            w = np.clip(w, -sgd.box, sgd.box)
        elif np.linalg.norm(w) > sgd.design.radius:
            w = w * sgd.design.radius / np.linalg.norm(w)
    return w


def all_noise(sgd, padded, d):
    """Return the noise of every step of a seeded run: of a whole number of blocks, then, added, of the last one."""
    rng = seeded_rng(4)
    early = rng.standard_normal((padded, 1, d))[: sgd.n_steps - 1, 0]
    return np.vstack([early, -rng.standard_normal(d)])


@pytest.mark.parametrize(
    ("radius", "more"),
    [
        (np.inf, {}),
        (0.4, {"epochs": 3}),
        (1.0, {"box": 0.3, "public_steps": 7}),
        (np.inf, {"learning_rate": 0.1, "regularisation": 0.0}),
    ],
)
def test_the_algorithm_is_the_plain_loop(radius, more):
    X, y = data(20, 3)
    public = data(5, 3, seed=9) if more.get("public_steps") else None
    design = Design(Logistic(), 3, 1.5, radius)
    known = None if public is None else design.reading.read(public)
    sgd = NoisyProjectedSGD(design, 20, noise=0.5, **more, public=known)
    release = sgd.release((X, y), seeded_rng(4))
    padded = 1 << (sgd.n_steps - 2).bit_length()
    expected = plain_loop(sgd, X, y, all_noise(sgd, padded, 3), public)
    assert release.value[0] == pytest.approx(expected, abs=2.0**-16 * sgd.step * sgd.noise)
    assert release.reproducible
    assert release.profile == sgd.profile
    assert release.mechanism["epochs"] == sgd.epochs


@pytest.mark.parametrize(
    "loss",
    [Probit(), ComplementaryLogLog(), Poisson(5.0), SmoothedHinge(), Squared(), Huber()],
    ids=lambda loss: loss.name,
)
def test_every_loss_takes_its_own_slope(loss):
    """One step without regularisation undoes to the gradient: w₁ = −η(ℓ'(0, y)·x + σξ)."""
    sgd = NoisyProjectedSGD(Design(loss, 2, 1.0, 2.0), 1, noise=0.1, regularisation=0.0, learning_rate=0.05)
    x, y = np.array([[0.6, -0.5]]), np.array([1.0])
    w = sgd.run(x, y, seeded_rng(3))[0]
    noise = seeded_rng(3).standard_normal(2)
    with jax.enable_x64(True):
        h = 1e-6
        up, down = np.asarray(jax.jit(loss.value)(np.array([h, -h]), np.ones(2)))
        slope = float(up - down) / (2 * h)
    assert w == pytest.approx(-0.05 * (slope * x[0] - 0.1 * noise), abs=1e-8 + 2.0**-17 * 0.05 * 0.1)


def test_long_runs_go_block_by_block(monkeypatch):
    X, y = data(300, 2)
    sgd = NoisyProjectedSGD(Design(Logistic(), 2, 1.0), 300, noise=0.5)
    monkeypatch.setattr("sottovoce.theory.amplification.sgd._BLOCK", 128)
    expected = plain_loop(sgd, X, y, all_noise(sgd, 320, 2))
    assert sgd.run(X, y, seeded_rng(4))[0] == pytest.approx(expected, abs=2.0**-16 * sgd.step * sgd.noise)


def linear(n, epochs=1):
    """Return SGD that is linear with Gaussian law: rows of zeros, but for one far record with a constant slope."""
    design = Design(Huber(largest=1e4, threshold=1.0), 1, 1.0)
    return NoisyProjectedSGD(design, n, noise=0.8, learning_rate=0.5, regularisation=0.3, epochs=epochs)


def exact_law(sgd, index):
    """Return gap and standard deviation of the last iterate on the two neighbours, from the recursion."""
    L, gap, variance = 1 - sgd.step * sgd.regularisation, 0.0, 0.0
    for step in range(sgd.epochs * sgd.n):
        gap = L * gap + (2 * sgd.step if step % sgd.n == index - 1 else 0.0)
        variance = L**2 * variance + (sgd.step * sgd.noise) ** 2
    return gap, np.sqrt(variance)


@pytest.mark.parametrize("epochs", [1, 3])
def test_linear_sgd_has_the_law_we_say_and_bounds_hold(epochs):
    sgd, n = linear(6, epochs), 6
    for index in range(1, n + 1):
        gap, deviation = exact_law(sgd, index)
        assert float(sgd.mu_at(index)) >= gap / deviation * (1 - 1e-12)
    if epochs == 1:
        gap, deviation = exact_law(sgd, 1)
        assert float(sgd.mu_at(1)) == pytest.approx(gap / deviation, rel=1e-10)  # tight: nothing random before it
    X, y = np.zeros((n, 1)), np.zeros(n)
    X[3], y[3] = 1.0, 1e4
    high = sgd.run(X, y, seeded_rng(1), chains=40_000)
    y[3] = -1e4
    low = sgd.run(X, y, seeded_rng(2), chains=40_000)
    gap, deviation = exact_law(sgd, 4)
    assert high.std() == pytest.approx(deviation, rel=0.015)
    assert high.mean() - low.mean() == pytest.approx(gap, abs=0.025 * deviation)


@pytest.mark.parametrize(("epochs", "radius"), [(1, np.inf), (2, np.inf), (1, 0.8)])
def test_bounds_hold_for_the_law_of_a_curved_loss(epochs, radius):
    """Logistic SGD in one dimension: both laws followed on a grid, for neighbours at every place."""
    n = 4
    sgd = NoisyProjectedSGD(Design(Logistic(), 1, 2.0, radius), n, 1.2, 0.9, 0.1, epochs)
    grid = np.linspace(-9, 9, 801)
    h = grid[1] - grid[0]
    edges = np.concatenate([[-np.inf], grid[:-1] + h / 2, [np.inf]])
    keep = np.clip(np.arange(grid.size), *np.searchsorted(grid, (-radius - 1e-9, radius + 1e-9)) - np.array([0, 1]))

    @cache
    def kernel(x, y):
        centre = grid - sgd.step * (-y * x * special.expit(-y * x * grid) + sgd.regularisation * grid)
        return np.diff(special.ndtr((edges - centre[:, None]) / (sgd.step * sgd.noise)), axis=1)

    def step(law, x, y):
        return np.bincount(keep, law @ kernel(x, y), minlength=grid.size)  # the projection

    others = [(2.0, 1.0), (-1.0, 1.0), (0.0, 1.0), (1.5, -1.0)]
    for index in range(1, n + 1):
        laws = []
        for record in ((2.0, 1.0), (2.0, -1.0)):
            law = (np.arange(grid.size) == grid.size // 2).astype(float)
            for k in range(n * epochs):
                law = step(law, *(record if k % n == index - 1 else others[k % n]))
            laws.append(law)
        claimed = sgd.profile_at(index)
        for epsilon in (0.0, 0.3, 1.0):
            for p, q in (laws, laws[::-1]):
                assert np.maximum(p - np.exp(epsilon) * q, 0).sum() <= claimed.delta(epsilon) + 1e-3 * h


def lower_bound(one, two, confidence=0.999):
    """Return a Clopper–Pearson lower bound on μ from a threshold chosen on half of the draws."""
    half = len(one) // 2
    cut = (np.mean(one[:half]) + np.mean(two[:half])) / 2
    hits, false = np.sum(one[half:] > cut), np.sum(two[half:] > cut)
    rest, risk = len(one) - half, (1 - confidence) / 2
    power = stats.beta.ppf(risk, hits, rest - hits + 1)
    error = stats.beta.ppf(1 - risk, false + 1, rest - false)
    return special.ndtri(power) - special.ndtri(error)


def test_an_attack_never_beats_the_claim():
    """Logistic loss, the record flips its label; the attacker knows all else and looks at the last iterate."""
    n, d = 24, 3
    X, y = data(n, d, seed=5)
    sgd = NoisyProjectedSGD(Design(Logistic(), d, 1.0), n, noise=1.0, learning_rate=0.5, regularisation=0.2)
    found = []
    for index in (n, n - 2, n // 2):
        X[index - 1] = np.eye(d)[0]
        draws = []
        for seed, label in enumerate((1.0, -1.0)):
            labels = y.copy()
            labels[index - 1] = label
            draws.append(sgd.run(X, labels, seeded_rng(10 * index + seed), chains=20_000)[:, 0])
        claimed, seen = float(sgd.mu_at(index)), lower_bound(*draws)
        assert seen <= claimed
        found.append(seen / claimed)
    assert found[0] > 0.2  # the attack does find something where there is something to find


def test_audit_would_catch_a_claim_too_small():
    """The same attack on the linear case, whose privacy is known: it comes near, and beats a claim of half of it."""
    sgd, X, y = linear(3), np.zeros((3, 1)), np.zeros(3)
    X[2] = 1.0
    draws = [
        sgd.run(X, np.where(X[:, 0] > 0, s * 1e4, y), seeded_rng(k), chains=20_000)[:, 0] for k, s in ((1, 1), (2, -1))
    ]
    assert float(sgd.mu_at(3)) / 2 < lower_bound(*draws) <= float(sgd.mu_at(3))


def test_per_record_curve_is_below_the_thesis_at_every_index():
    design = Design(Logistic(), 4, 1.0)
    index = np.arange(1, 501)
    for rate, rho in ((0.1, 0.05), (1.0, 0.5), (None, 0.1), (0.5, 0.0)):
        sgd = NoisyProjectedSGD(design, 500, 2.0, rate, rho)
        ours, theirs = sgd.mu_at(index), sgd.thesis_mu_at(index)
        assert np.all(ours <= theirs * (1 + 1e-12) + sgd.rounding_mu)
        assert np.all(np.diff(ours) >= 0)
        assert sgd.profile.mu == ours[-1] == pytest.approx(1.0)
        assert sgd.profile_at(7) == GaussianProfile(float(ours[6]), basis=sgd.profile.basis)


def test_contraction_holds_for_gradients_of_the_loss():
    """|ψ(w) − ψ(v)| ≤ L|w − v| for random parameters and records, at the longest step too."""
    rng = seeded_rng(8)
    design = Design(Logistic(), 3, 2.0)
    longest = 2 / (2 * 0.3 + 4 * 0.25)
    for rate in (0.2, longest):
        sgd = NoisyProjectedSGD(design, 10, 1.0, rate, 0.3)
        w, v, x = rng.standard_normal((3, 5000, 3)) * 3
        x *= np.minimum(1.0, 2 / np.linalg.norm(x, axis=1))[:, None]
        moved = [a - rate * (-special.expit(-np.sum(a * x, 1))[:, None] * x + 0.3 * a) for a in (w, v)]
        ratio = np.linalg.norm(moved[0] - moved[1], axis=1) / np.linalg.norm(w - v, axis=1)
        assert ratio.max() <= sgd.contraction + 1e-12
        assert sgd.contraction <= sgd._thesis_contraction + 1e-15


@pytest.mark.parametrize("target", [GaussianDP(0.5), ApproxDP(1.0, 1e-6), RenyiDP(8, 0.4)])
@pytest.mark.parametrize("more", [{}, {"public_steps": 20}, {"epochs": 4}])
def test_calibration_keeps_the_promise_with_little_to_spare(target, more):
    design = Design(Logistic(), 4, 1.0)
    sgd = NoisyProjectedSGD.calibrate(design, 200, target, regularisation=0.05, learning_rate=0.2, **more)
    assert sgd.profile.satisfies(target)
    quieter = NoisyProjectedSGD(design, 200, sgd.noise * 0.999, 0.2, 0.05, **more)
    assert not quieter.profile.satisfies(target)


def test_public_steps_cut_the_noise_and_the_error():
    n, d = 400, 5
    X, y = data(n, d, seed=6)
    public = data(64, d, seed=7)
    rows = X / np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]

    def risk(W):
        return np.mean(np.logaddexp(0, -y[:, None] * (rows @ W.T)), axis=0).mean()

    risks, noises = [], []
    for steps in (0, 4, 64):
        design = Design(Logistic(), d, 1.0)
        options = {"public_steps": steps, "public": None if steps == 0 else design.reading.read(public)}
        sgd = NoisyProjectedSGD.calibrate(
            design, n, GaussianDP(0.5), learning_rate=0.05, regularisation=0.05, **options
        )
        risks.append(risk(sgd.run(X, y, seeded_rng(steps), chains=100)))
        noises.append(sgd.noise)
    assert noises[0] > 2 * noises[1] > 4 * noises[2]
    assert risks[0] > risks[1] > risks[2]


def test_secure_by_default_and_floored_noise():
    X, y = data(10, 2)
    design = Design(Logistic(), 2, 1.0)
    known = design.reading.read((X, y))
    sgd = NoisyProjectedSGD.calibrate(design, 10, GaussianDP(1.0), public_steps=2000, public=known)
    assert sgd.noise == pytest.approx(2e-6)
    assert not sgd.release((X, y)).reproducible
    assert sgd.run(X, y, secure_rng(), chains=3).shape == (3, 2)


DESIGN = Design(Logistic(), 2, 1.0)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: NoisyProjectedSGD(DESIGN, 10, 0.0), "noise"),
        (lambda: NoisyProjectedSGD(DESIGN, 10, 1.0, learning_rate=6.0), r"2/\(β\+ρ\)"),
        (lambda: NoisyProjectedSGD(DESIGN, 10, 1.0, learning_rate=-0.1), "learning_rate"),
        (lambda: NoisyProjectedSGD(DESIGN, 10, 1.0, regularisation=-1.0), "regularisation"),
        (lambda: NoisyProjectedSGD(DESIGN, 10, 1.0, epochs=0), "epochs"),
        (lambda: NoisyProjectedSGD(DESIGN, 10, 1.0, public_steps=-1), "public_steps"),
        (lambda: NoisyProjectedSGD(Design(Squared(), 2, 1.0, 1.0), 10, 1.0, box=1.0), "leaves the ball"),
        (lambda: NoisyProjectedSGD(DESIGN, 10, 1.0, box=-1.0), "box"),
        (lambda: NoisyProjectedSGD(DESIGN, 10, 1.0).mu_at(0), "from 1 to n = 10"),
        (lambda: NoisyProjectedSGD(DESIGN, 10, 1.0).mu_at(1.5), "whole number"),
        (lambda: NoisyProjectedSGD(DESIGN, 10, 1.0, epochs=2).thesis_mu_at(1), "one pass only"),
        (lambda: NoisyProjectedSGD(DESIGN, 10, 1.0, public=DESIGN.reading.read(data(3, 2))), "public_steps"),
    ],
)
def test_bad_input_is_refused(make, says):
    with pytest.raises(InvalidValue, match=says):
        make()


def test_bad_records_are_refused():
    sgd = NoisyProjectedSGD(DESIGN, 10, 1.0, public_steps=3)
    with pytest.raises(InvalidData, match="need public records"):
        sgd.release(data(10, 2))
    with pytest.raises(InvalidData, match="none"):
        replace(sgd, public=DESIGN.reading.read((np.empty((0, 2)), np.empty(0))))
    with pytest.raises(InvalidData, match="n=10 records"):
        replace(sgd, public=DESIGN.reading.read(data(3, 2))).release(data(9, 2))
