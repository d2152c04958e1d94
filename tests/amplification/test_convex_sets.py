"""SGD on any convex set, of any smooth loss, from any start: projections by brute force, claims by exact laws."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

from sottovoce.inference.regression import Design, DiffusedRegression, FilteredRegression, Logistic
from sottovoce.inference.regression.potential import Potential
from sottovoce.mechanisms.mechanism import Mechanism
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import GaussianDP
from sottovoce.privacy.randomness import secure_rng, seeded_rng
from sottovoce.theory.amplification import NoisyProjectedSGD
from sottovoce.theory.amplification.convex_sets import Box, ConvexSet, OwnSet, Simplex
from sottovoce.theory.amplification.minibatch import MinibatchSGD

HALF = OwnSet(lambda w: w - jnp.maximum(w @ jnp.array([0.6, 0.8]) - 0.5, 0.0) * jnp.array([0.6, 0.8]), dimension=2)


def _centre(w, x, y):
    del y
    return jnp.sqrt(1 + jnp.sum((w - x) ** 2))


ROBUST = Potential(_centre, lipschitz=1.0, smoothness=1.0)


def test_projections_are_the_nearest_points():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((6, 4)) * np.array([[0.1], [1.0], [1.0], [3.0], [10.0], [1e6]])
    with jax.enable_x64(True):
        onto, inside = (np.asarray(jax.jit(held.project)(points)) for held in (Simplex(2.0), Box(0.7)))
    for x, p in zip(points, onto, strict=True):
        scale = 1 + np.abs(x).max()
        assert p.min() >= 0
        assert p.sum() == pytest.approx(2.0, abs=1e-14 * scale)
        best = optimize.brentq(lambda t, x=x: np.maximum(x - t, 0).sum() - 2.0, x.min() - 2, x.max(), xtol=1e-12)
        assert p == pytest.approx(np.maximum(x - best, 0.0), abs=1e-9 * scale)
        error = np.linalg.norm(p - np.maximum(x - best, 0.0))
        assert error <= Simplex().error(4) * np.linalg.norm(x) + 1e-11
    assert np.array_equal(inside, np.clip(points, -0.7, 0.7))
    assert Simplex(2.0).reach(4) == 2.0
    assert Box(0.5).reach(4) == 1.0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda w: 2 * w, "no projection"),
        (lambda w: w / jnp.maximum(jnp.max(jnp.abs(w)), 1.0), "no projection"),  # onto a box, but not the nearest point
        (lambda w: jnp.where(w @ w > 1, w / jnp.sqrt(w @ w), w) + 0.5, "no projection"),
        (lambda w: w[:1], "same length"),
        (lambda w: w / jnp.sum(w) * 0 + jnp.nan, None),
        (lambda w: jnp.where(jnp.abs(w) < 1, jnp.sign(w), w), "no projection"),  # the outside of a box is not convex
    ],
)
def test_maps_that_are_no_projections_are_refused(wrong, said):
    if said is None:  # a map to nothing is one onto the origin
        assert OwnSet(wrong, dimension=2).project(jnp.ones((1, 2))).tolist() == [[0.0, 0.0]]
        return
    with pytest.raises(InvalidValue, match=said):
        OwnSet(wrong, dimension=2)


def test_sets_that_do_not_fit_are_refused():
    ball = OwnSet(lambda w: jnp.where(w @ w > 1, w / jnp.sqrt(w @ w), w), dimension=2, longest=1.0)
    design = Design(Logistic(), 2, 1.0)
    assert NoisyProjectedSGD(design, 5, 1.0, within=ball).held_in is ball
    with pytest.raises(InvalidValue, match="beyond the longest"):
        OwnSet(ball.projection, dimension=2, longest=0.5)
    with pytest.raises(InvalidValue, match="entries"):
        NoisyProjectedSGD(Design(Logistic(), 3, 1.0), 5, 1.0, within=ball)
    with pytest.raises(InvalidValue, match="leaves the ball"):
        NoisyProjectedSGD(Design(Logistic(), 2, 1.0, radius=0.5), 5, 1.0, within=ball)
    with pytest.raises(InvalidValue, match="either a box"):
        NoisyProjectedSGD(design, 5, 1.0, box=1.0, within=ball)
    for start in ((1.0,), (math.nan, 0.0), (3.0, 4.0)):
        with pytest.raises(InvalidValue):
            NoisyProjectedSGD(Design(Logistic(), 2, 1.0, radius=4.0), 5, 1.0, start=start)
    with pytest.raises(InvalidValue, match="build it again"):
        ConvexSet.from_dict(ball.to_dict())
    with pytest.raises(InvalidValue, match="convex set"):
        ConvexSet.from_dict({"set": "Sphere"})


def test_a_run_on_a_half_space_from_a_start_is_the_plain_loop():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((12, 2)) * 0.5, np.where(rng.random(12) < 0.5, 1.0, -1.0)
    sgd = NoisyProjectedSGD(Design(ROBUST, 2, 1.0), 12, noise=0.4, regularisation=0.1, within=HALF, start=(-0.5, 0.25))
    source = seeded_rng(4)
    noise = np.vstack([source.standard_normal((16, 1, 2))[:11, 0], -source.standard_normal(2)])
    w = np.array([-0.5, 0.25])
    for x, xi in zip(X, noise, strict=True):
        row = x * min(1.0, 1 / np.linalg.norm(x))
        gradient = (w - row) / math.sqrt(1 + np.sum((w - row) ** 2))
        w = w - sgd.step * (gradient + 0.1 * w + 0.4 * xi)
        w = w - max(w @ [0.6, 0.8] - 0.5, 0.0) * np.array([0.6, 0.8])
    found = sgd.release((X, y), seeded_rng(4)).value[0]
    assert found == pytest.approx(w, abs=2.0**-15 * sgd.step * sgd.noise)
    assert found @ [0.6, 0.8] <= 0.5 + 1e-12
    secure = sgd.release((X, y), secure_rng()).value[0]
    assert secure @ [0.6, 0.8] <= 0.5 + 1e-12
    with pytest.raises(InvalidValue, match="build it again"):
        Mechanism.from_dict(sgd.to_dict())


def test_a_set_far_from_the_origin_is_within_reach_and_its_rounding_counted():
    """Runs on {w₁ ≥ 1000}: they stay there, and every state is shorter than the reach that rounding is counted for."""
    far = OwnSet(lambda w: w.at[0].set(jnp.maximum(w[0], 1000.0)), dimension=2)
    sgd = NoisyProjectedSGD(Design(ROBUST, 2, 1.0), 6, noise=0.5, regularisation=0.3, within=far)
    near = NoisyProjectedSGD(Design(ROBUST, 2, 1.0), 6, noise=0.5, regularisation=0.3)
    drawn = sgd.run(np.zeros((6, 2)), np.ones(6), seeded_rng(1), chains=200)
    assert drawn[:, 0].min() >= 1000.0
    assert np.linalg.norm(drawn, axis=1).max() <= sgd.reach
    assert sgd.rounding > near.rounding


def test_a_run_on_a_simplex_reads_back_and_stays_there():
    sgd = NoisyProjectedSGD.calibrate(
        Design(Logistic(), 3, 1.0), 8, GaussianDP(1.0), within=Simplex(), start=(0.2, 0.3, 0.5)
    )
    again = Mechanism.from_dict(sgd.to_dict())
    assert again.to_dict() == sgd.to_dict()
    assert again.within == Simplex()
    assert again.profile.mu == sgd.profile.mu <= 1.0
    X, y = np.eye(3)[[0, 1, 2, 0, 1, 2, 0, 1]], np.ones(8)
    drawn = sgd.release((X, y), seeded_rng(2), draws=50).value
    assert drawn.min() >= 0
    assert drawn.sum(axis=1) == pytest.approx(np.ones(50))
    plain = NoisyProjectedSGD(Design(Logistic(), 3, 1.0), 8, 1.0)
    assert not {"within", "start"} & set(plain.to_dict())


W = np.linspace(-6.0, 6.0, 361)


def _law(records, step, start, edges):
    """The law of the last iterate on a line, from its start, through steps onto [edges]: exact but for the grid."""
    low, high = edges
    law = None
    for x in records:
        law = step(x, start)[0] if law is None else law @ step(x, None)
        # All that lies beyond an edge is put on it.
        inner = law * ((low <= W) & (high >= W))
        inner[np.searchsorted(W, low)] += law[low > W].sum()
        inner[np.searchsorted(W, high, side="right") - 1] += law[high < W].sum()
        law = inner
    return law


@pytest.mark.parametrize("edges", [(-1.0, 0.5), (-6.0, 6.0)])
def test_no_law_on_a_set_of_one_s_own_is_farther_apart_than_is_claimed(edges):
    """A robust centre on a line, five records, every place and both far neighbours: δ against the claim."""
    own = OwnSet(lambda w: jnp.clip(w, edges[0], edges[1]), dimension=1, longest=max(map(abs, edges)))
    sgd = NoisyProjectedSGD(Design(ROBUST, 1, 1.0), 5, noise=1.0, regularisation=0.2, within=own, start=(0.3,))

    @functools.cache
    def step(x, start):
        """Return where a step of one record leads, a row for each place it may start from."""
        at = W if start is None else np.array([start])
        moved = at * (1 - sgd.step * sgd.regularisation) - sgd.step * (at - x) / np.sqrt(1 + (at - x) ** 2)
        kernel = np.exp(-(((W - moved[:, None]) / (sgd.step * sgd.noise)) ** 2) / 2)
        return kernel / kernel.sum(axis=1, keepdims=True)

    for index in range(1, 6):
        for rest in ((0.0,) * 5, (1.0,) * 5, (0.4, -1.0, 1.0, -0.3, 0.8)):
            pair = []
            for x in (1.0, -1.0):
                records = list(rest)
                records[index - 1] = x
                pair.append(_law(records, step, sgd.start[0], edges))
            claim = sgd.profile_at(index)
            for epsilon in (0.0, 0.3, 1.0):
                truth = np.maximum(pair[0] - math.exp(epsilon) * pair[1], 0).sum()
                assert truth <= claim.delta(epsilon) * (1 + 1e-6) + 1e-12


def _bowl(w, x, y):
    del y
    return 0.4 * jnp.sum((w - x) ** 2) / 2


def test_a_strongly_convex_loss_contracts_by_itself():
    """ℓ = m‖w−x‖²/2 on a ball: linear steps, whose law is Gaussian and known."""
    bowl = Potential(_bowl, lipschitz=0.8, smoothness=0.4, convexity=0.4, valid_radius=1.0)
    sgd = NoisyProjectedSGD(Design(bowl, 1, 1.0, radius=1.0), 30, noise=0.01, learning_rate=0.5, regularisation=0.0)
    assert sgd.contraction == pytest.approx(0.8)
    weaker = NoisyProjectedSGD(
        Design(Potential(_bowl, lipschitz=0.8, smoothness=0.4, valid_radius=1.0), 1, 1.0, radius=1.0),
        30,
        noise=0.01,
        learning_rate=0.5,
        regularisation=0.0,
    )
    assert sgd.mu_at(1) < weaker.mu_at(1)
    L = 1 - 0.5 * 0.4
    for index in (1, 20, 30):
        later = 30 - index
        gap = 0.5 * 0.4 * 2 * L**later
        sd = 0.5 * 0.01 * math.sqrt(sum(L ** (2 * k) for k in range(30)))
        assert gap / sd <= sgd.mu_at(index)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"lipschitz": 0.5, "smoothness": 1.0}, "lipschitz = 0.5 is too small"),
        ({"lipschitz": 1.0, "smoothness": 0.3}, "smoothness = 0.3 is too small"),
        ({"lipschitz": 1.0, "smoothness": 1.0, "convexity": 0.1}, "convexity = 0.1 is too large"),
        ({"lipschitz": 1.0, "smoothness": 1.0, "data_norm": 2.0}, "rows of norm"),
    ],
)
def test_constants_that_are_visibly_wrong_are_refused(more, said):
    with pytest.raises(InvalidValue, match=said):
        Design(Potential(_centre, **more), 2, 1.0)


def test_a_loss_of_the_parameters_goes_where_it_can():
    design = Design(ROBUST, 2, 1.0)
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((40, 2)) * 0.2 + [0.5, -0.2], np.ones(40)
    centre = DiffusedRegression(design, 40, 1.0, 1.0)
    drawn = centre.release((X, y), seeded_rng(1), draws=400).value.reshape(-1, 2)
    truth = optimize.minimize(lambda w: np.sqrt(1 + ((w - X) ** 2).sum(axis=1)).sum() + w @ w / 2, np.zeros(2)).x
    assert drawn.mean(axis=0) == pytest.approx(truth, abs=0.05)
    sgd = MinibatchSGD(design, 40, noise=0.01, batch=20, steps=200, regularisation=1 / 40)
    assert sgd.release((X, y), seeded_rng(1)).value[0] == pytest.approx(truth, abs=0.1)
    with pytest.raises(InvalidValue, match="linear predictor"):
        FilteredRegression.calibrate(design, 40, GaussianDP(1.0))
    with pytest.raises(InvalidValue, match="no loss of a linear predictor"):
        ROBUST.value(jnp.zeros(1), jnp.zeros(1))
    with pytest.raises(InvalidValue, match="build it again"):
        Design.from_dict(design.to_dict())
    for wrong in ({"smoothness": -1.0}, {"convexity": 2.0}, {"low": 1.0}, {"valid_radius": 0.0}, {"function": None}):
        with pytest.raises(InvalidValue):
            Potential(**({"function": _centre, "lipschitz": 1.0, "smoothness": 1.0} | wrong))
    with pytest.raises(InvalidValue, match="differentiate"):
        Design(Potential(lambda w, x, y: w, lipschitz=1.0, smoothness=1.0), 2, 1.0)


def test_no_record_pushes_a_step_farther_than_its_gradient_may():
    """A function that breaks its word somewhere else than on spots: gradients are shortened all the same."""
    spike = Potential(
        lambda w, x, y: jnp.where(x[0] == 0.123, 1e6, 0.1) * jnp.sum(w * x), lipschitz=1.0, smoothness=1.0
    )
    with jax.enable_x64(True):
        found = spike.gradients(jnp.array([[0.123, 0.0]]), jnp.ones(1), jnp.ones((1, 2)), 1.0)
    assert np.linalg.norm(np.asarray(found)) <= 1.0 + 1e-12
