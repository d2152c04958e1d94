"""How near a chain is to its posterior: against the chain's exact law on a line, by a transition matrix."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from sottovoce.inference.regression import Design, DiffusedRegression, Logistic, Probit, SmoothedHinge
from sottovoce.inference.regression.certificate import Chain
from sottovoce.inference.regression.certified_distance import chain_distance, distance, near_posterior
from sottovoce.privacy.errors import InvalidValue, PromiseUnreachable
from sottovoce.privacy.promises import ApproxDP, GaussianDP

W = np.linspace(-8.0, 8.0, 401)  # a fifth of a step's noise apart, so that sums are integrals to many digits
CELL = W[1] - W[0]


def _after(slope, h: float, steps: int):
    """The law of w after so many steps from 0, each w − h·slope(w) + √(2h)·ξ, on a grid."""
    moved = W - h * slope(W)
    kernel = np.exp(-((W[None, :] - moved[:, None]) ** 2) / (4 * h))
    kernel /= kernel.sum(axis=1, keepdims=True)
    law = np.exp(-((W + h * slope(np.zeros(1))[0]) ** 2) / (4 * h))
    law /= law.sum()
    left = steps - 1
    while left:
        if left % 2:
            law = law @ kernel
        kernel, left = (kernel @ kernel if left > 1 else kernel), left // 2
    return law / law.sum()


def _law(potential):
    logs = -potential(W)
    law = np.exp(logs - logs.max())
    return law / law.sum()


def _wasserstein(p, q) -> float:
    """W₂ of two laws on the grid, by their quantiles."""
    u = (np.arange(20_000) + 0.5) / 20_000
    x, y = (np.interp(u, np.cumsum(law), W + CELL / 2) for law in (p, q))
    return math.sqrt(float(np.mean((x - y) ** 2)))


def _hinges(records, rho, m):
    return lambda w: rho * sum(np.maximum(0.0, 1 - r * w) for r in records) + m * w**2 / 2


def _smoothed_slope(records, rho, m, width):
    return lambda w: m * w - rho * sum(r * np.clip((1 - r * w) / width, 0, 1) for r in records)


TABLES = [(1.0,) * 6, (1.0, -1.0) * 3, (0.4, -1.0, 0.9, 1.0, 0.1, -0.3), (0.0,) * 6]


@pytest.mark.parametrize("records", TABLES)
@pytest.mark.parametrize(
    ("rho", "m", "width", "stride", "steps"),
    [(0.5, 1.0, 0.1, 1.0, 3000), (2.0, 1.0, 0.5, 0.5, 2000), (1.0, 0.5, 4.0, 0.2, 400), (0.3, 2.0, 0.2, 1.0, 3)],
)
def test_no_chain_is_farther_from_the_hinge_posterior_than_is_proven(records, rho, m, width, stride, steps):
    n = len(records)
    M = m + rho * n / width
    h = stride / M
    law, target = _after(_smoothed_slope(records, rho, m, width), h, steps), _law(_hinges(records, rho, m))
    truth = _wasserstein(law, target)
    chain = Chain(m, M, 2 * rho, step=h, n_steps=steps)
    bound = chain_distance(chain, 1, rho * n, gap=rho * n * width / 2)
    assert truth <= bound + CELL


def test_each_part_of_the_bound_is_needed():
    """Few steps, long steps, and a wide smoothing: without its own term each would pass for nearer than it is."""
    far = _wasserstein(_after(_smoothed_slope((1.0,) * 6, 1.0, 0.5, 6.0), 0.05, 400), _law(_hinges((1.0,) * 6, 1, 0.5)))
    chain = Chain(0.5, 0.5 + 1.0, 2.0, step=0.05, n_steps=400)
    assert chain_distance(chain, 1, 6.0) < 2 * far < 2 * chain_distance(chain, 1, 6.0, gap=18.0)
    early, late = (chain_distance(Chain(1.0, 2.0, 1.0, step=0.1, n_steps=t), 1, 6.0) for t in (1, 1000))
    start = _wasserstein(_after(_smoothed_slope((1.0,) * 6, 1.0, 1.0, 6.0), 0.1, 1), _law(_hinges((1.0,) * 6, 1, 1)))
    assert late < start < early
    # A quadratic: the chain's variance is 2/(2 − hλ), in closed form.
    for h in (1e-6, 0.1, 1.0):
        truth = math.sqrt(2 / (2 - h)) - 1
        assert truth <= chain_distance(Chain(1.0, 1.0, 0.0, step=h, n_steps=10**9), 1, 0.0)


def test_the_bound_holds_in_many_dimensions_for_a_quadratic():
    """Curvatures of every size at once; the longest gradient has no bound here and is not used."""
    h, curvatures = 0.02, np.geomspace(0.5, 60.0, 40)
    truth = math.sqrt(np.sum((np.sqrt(2 / (2 - h * curvatures)) - 1) ** 2 / curvatures))
    chain = Chain(0.5, 60.0, 0.0, step=h, n_steps=10**5)
    assert truth <= chain_distance(chain, 40, 1e9)


def test_a_near_posterior_keeps_its_promise_and_its_distance():
    svm = Design(SmoothedHinge(), dimension=3, data_norm=2.0)
    made = near_posterior(svm, 200, GaussianDP(0.3), prior_precision=4.0, within=0.25)
    assert made.profile.satisfies(GaussianDP(0.3))
    assert made.profile.mu > 0.3 * 0.99
    assert distance(made) <= 0.25 * math.sqrt(3 / 4.0)
    assert made.design.loss.gap * made.data_weight * 200 < 0.25
    smooth = near_posterior(Design(Logistic(), dimension=3, data_norm=1.0), 50, GaussianDP(0.1), prior_precision=1.0)
    assert distance(smooth) <= 0.1 * math.sqrt(3)
    assert distance(smooth) < distance(DiffusedRegression(smooth.design, 50, 1.0, smooth.data_weight))


def test_a_released_hinge_sample_follows_the_hinge_posterior():
    """Many releases on a line: their distance from the exact posterior is what is proven, and sampling error."""
    design = Design(SmoothedHinge(), dimension=1, data_norm=1.0)
    made = near_posterior(design, 8, GaussianDP(0.8), prior_precision=1.0, within=0.15)
    X, y = np.array([[1.0], [1.0], [0.5], [1.0], [-0.2], [1.0], [1.0], [0.7]]), np.array([1, 1, -1, 1, 1, 1, 1, 1.0])
    drawn = np.sort(np.ravel(made.release((X, y), np.random.default_rng(5), draws=2000).value))
    target = _law(_hinges(X[:, 0] * y, made.data_weight, 1.0))
    exact = np.interp((np.arange(2000) + 0.5) / 2000, np.cumsum(target), W + CELL / 2)
    assert math.sqrt(np.mean((drawn - exact) ** 2)) <= distance(made) + 0.05


def test_a_distance_out_of_reach_says_what_is_in_reach():
    design, target = Design(Logistic(), dimension=3, data_norm=1.0), ApproxDP(1.0, 1e-6)
    with pytest.raises(PromiseUnreachable) as refused:
        near_posterior(design, 2000, target, prior_precision=1.0, within=0.01)
    found = re.search(r"In reach: within=([\d.]+), or within=0.01 for ε = ([\d.]+) at δ = 1e-06", str(refused.value))
    within, epsilon = map(float, found.groups())
    near_posterior(design, 2000, target, prior_precision=1.0, within=within)
    near_posterior(design, 2000, ApproxDP(epsilon, 1e-6), prior_precision=1.0, within=0.01)
    for promise, nearer in ((target, 0.9 * within), (ApproxDP(1.1 * epsilon, 1e-6), 0.01)):
        with pytest.raises(PromiseUnreachable):
            near_posterior(design, 2000, promise, prior_precision=1.0, within=nearer)
    with pytest.raises(PromiseUnreachable, match=r"In reach: within=0.1 for ε"):  # farther off, ρn leaves doubles too
        near_posterior(design, 200_000, target, prior_precision=1.0, within=0.1)


def test_where_nothing_is_proven():
    ball = Design(Probit(), dimension=2, data_norm=1.0, radius=3.0)
    assert distance(DiffusedRegression(ball, 10, 1.0, 0.1)) == math.inf
    with pytest.raises(InvalidValue, match="on a ball"):
        near_posterior(ball, 10, GaussianDP(0.5), prior_precision=1.0)
    plain = Design(Logistic(), dimension=2, data_norm=1.0)
    assert distance(DiffusedRegression(plain, 10, 1.0, 0.1, precision="float32")) == math.inf
    with pytest.raises(PromiseUnreachable, match="steps"):
        near_posterior(Design(SmoothedHinge(), 2, 1.0), 10**5, GaussianDP(1.0), prior_precision=1.0)
    for wrong in (0.0, -1.0, math.nan):
        with pytest.raises(InvalidValue):
            near_posterior(plain, 10, GaussianDP(0.5), prior_precision=1.0, within=wrong)
    # Data that pull farther than the ball in which numbers are kept: nothing is said.
    strong = DiffusedRegression(plain, 10**6, 1e-3, 1.0)
    assert distance(strong) == math.inf
