"""Calibration keeps the promise to the last digit, from public numbers only; records are clipped to their bounds."""

import math

import numpy as np
import pytest

from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.localised import LocalisedRegression
from sottovoce.inference.regression.losses import Huber, Logistic, Probit
from sottovoce.inference.regression.posterior import ConcentratedRegression, DiffusedRegression
from sottovoce.inference.regression.refined import RefinedRegression
from sottovoce.inference.regression.row_maps import Flattening
from sottovoce.inference.regression.tempered import TemperedRegression
from sottovoce.privacy.errors import InvalidValue, PromiseUnreachable, UnprovenPrivacy
from sottovoce.privacy.profile import Basis
from sottovoce.privacy.promises import ApproxDP, GaussianDP, PureDP, RenyiDP, ZeroConcentratedDP
from sottovoce.privacy.randomness import seeded_rng

DESIGN = Design(Logistic(), dimension=4, data_norm=1.0)
PROMISES = [ApproxDP(1.0, 1e-5), RenyiDP(10, 0.5), ZeroConcentratedDP(0.1), GaussianDP(0.4)]


@pytest.mark.parametrize("target", PROMISES, ids=str)
@pytest.mark.parametrize("samples", [1, 3])
def test_every_mechanism_keeps_its_promise_and_hardly_more(target, samples):
    mechanisms = [
        DiffusedRegression.calibrate(DESIGN, 600, target, prior_scale=8.0, draws=samples),
        ConcentratedRegression.calibrate(DESIGN, 600, target, prior_scale=8.0, draws=samples),
        LocalisedRegression.calibrate(DESIGN, 600, target, draws=samples),
        RefinedRegression.calibrate(DESIGN, 600, target, draws=samples),
    ]
    for mechanism in mechanisms:
        assert mechanism.profile.satisfies(target)
        assert mechanism.profile.basis is Basis.BOUND
    allowed = max(m.profile.mu for m in mechanisms)
    for mechanism in mechanisms[2:] + mechanisms[:1]:
        assert mechanism.profile.mu > 0.98 * allowed  # n_steps is whole, so the last digits may be left over


def test_long_chains_agree_with_the_papers_closed_forms():
    # Algorithm 5: ρ = min(1, √(ε n β/(2c²B²λ))); Algorithm 4: nβ = max(nβ₀, 2c²B²λ/ε).
    order, epsilon, nbeta = 10.0, 0.5, 0.6
    design = Design(Logistic(), dimension=4, data_norm=0.7)
    diffuse = DiffusedRegression.calibrate(design, 600, RenyiDP(order, epsilon), prior_precision=nbeta, n_steps=10**7)
    paper = math.sqrt(epsilon * nbeta / (2 * 0.7**2 * order))
    assert paper <= diffuse.data_weight <= paper * 1.04  # discretisation alone makes the chain a little cheaper
    assert diffuse.exact_profile.renyi(order) >= epsilon
    narrow = ConcentratedRegression.calibrate(
        design, 600, RenyiDP(order, epsilon), prior_precision=nbeta, n_steps=10**7
    )
    assert narrow.prior_precision == pytest.approx(2 * 0.7**2 * order / epsilon, rel=0.1)
    loose = RenyiDP(1.0, 1e3)
    assert DiffusedRegression.calibrate(design, 600, loose, prior_precision=nbeta).data_weight == 1.0
    assert ConcentratedRegression.calibrate(design, 600, loose, prior_precision=nbeta).prior_precision == nbeta


@pytest.mark.parametrize(
    "mechanism",
    [
        DiffusedRegression.calibrate(DESIGN, 600, GaussianDP(0.5), prior_scale=8.0, n_steps=20),
        LocalisedRegression.calibrate(DESIGN, 600, GaussianDP(0.5), scales=(8, 4), n_steps=20),
        RefinedRegression.calibrate(DESIGN, 600, GaussianDP(0.5), n_steps=20),
        RefinedRegression.calibrate(DESIGN, 600, GaussianDP(0.5), statistics=0.0, n_steps=20),
    ],
    ids=lambda m: type(m).__name__,
)
def test_a_row_beyond_its_bound_counts_as_one_on_it(mechanism, records):
    X, y = records
    clipped = X * np.minimum(1, 1 / np.linalg.norm(X, axis=1, keepdims=True))
    wild = np.where(np.linalg.norm(X, axis=1, keepdims=True) > 1, 50 * X, X)
    assert (wild != X).any()
    a, b = (mechanism.release((rows, y), seeded_rng(1)).value for rows in (clipped, wild))
    np.testing.assert_allclose(a, b, atol=1e-7)


def test_samples_come_from_chains_of_their_own(records):
    draws = RefinedRegression.calibrate(DESIGN, 600, GaussianDP(1.0), draws=5).release(records, seeded_rng(3)).value
    assert draws.shape == (5, 4)
    assert np.linalg.matrix_rank(draws - draws.mean(axis=0)) == 4


def test_refined_learns(records):
    X, y = records
    mechanism = RefinedRegression.calibrate(DESIGN, 600, GaussianDP(3.0), draws=1)
    w = np.mean([mechanism.release((X, y), seeded_rng(s)).value[0] for s in range(6)], axis=0)
    clipped = X * np.minimum(1, 1 / np.linalg.norm(X, axis=1, keepdims=True))
    assert np.mean(np.sign(clipped @ w) == y) > np.mean(np.sign(clipped @ [3.0, -2.0, 1.0, 0.0]) == y) - 0.03


def test_refined_takes_statistics_only_where_they_rise_above_their_noise():
    big = RefinedRegression.calibrate(Design(Logistic(), 784, 1.0), 8000, ApproxDP(1.0, 1e-5))
    small = RefinedRegression.calibrate(Design(Logistic(), 9, 1.0), 3000, ApproxDP(1.0, 1e-5))
    assert big.statistics is None
    assert small.statistics is not None


@pytest.mark.parametrize(
    "design", [Design(Probit(), 4, 2.0, radius=1.5), Design(Huber(), 4, 1.0)], ids=lambda d: d.loss.name
)
def test_refined_works_on_balls_and_other_losses(design, records):
    X, y = records
    release = RefinedRegression.calibrate(design, 600, GaussianDP(2.0), draws=2).release((X, y), seeded_rng(1))
    assert np.mean(np.sign(X @ release.value[0]) == y) > 0.6
    assert release.to_dict()["mechanism"]["mechanism"] == "refined regression"


def test_tempered_is_pure_but_refused_until_accepted(records):
    design = Design(Logistic(), 4, 1.0, radius=3.0)
    mechanism = TemperedRegression.calibrate(design, 600, PureDP(2.0), prior_precision=1.0)
    assert mechanism.profile.satisfies(PureDP(2.0))
    assert mechanism.profile.basis is Basis.CONVERGENCE
    with pytest.raises(UnprovenPrivacy):
        mechanism.release(records)
    value = mechanism.release(records, seeded_rng(1), accept_unproven=True).value
    assert value.shape == (1, 4)
    assert np.linalg.norm(value) <= 3.0 + 1e-12
    with pytest.raises(InvalidValue, match="radius"):
        TemperedRegression(DESIGN, 600, 1.0, 0.1)


def test_tempered_claim_against_exact_normalised_posteriors():
    # One dimension, two records: every posterior on a grid of the ball, every neighbouring pair.
    design = Design(Logistic(), 1, 1.0, radius=3.0)
    mechanism = TemperedRegression(design, 2, prior_precision=0.5, data_weight=0.4)
    w = np.linspace(-3, 3, 2001)
    records = [(1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (0.3, 1.0)]

    def law(data):
        log = -0.25 * w**2 - 0.4 * sum(np.logaddexp(0, -y * x * w) for x, y in data)
        return log - np.log(np.exp(log).sum())

    worst = max(np.abs(law([kept, a]) - law([kept, b])).max() for kept in records for a in records for b in records)
    assert 0.5 * mechanism.profile.pure() < worst <= mechanism.profile.pure()


@pytest.mark.parametrize("arguments", [{"prior_precision": 1.0, "prior_scale": 2.0}, {"prior_precision": -1.0}])
def test_a_prior_is_given_once_and_makes_sense(arguments):
    with pytest.raises(InvalidValue):
        DiffusedRegression.calibrate(DESIGN, 600, GaussianDP(1.0), **arguments)


def test_flattening_measures_two_things_for_the_price_of_one():
    # Σx and Σ‖x‖²/c of two rows of lengths p and q, pointing apart: the move is largest at p = q = c, where it is 2c.
    p, q = np.meshgrid(np.linspace(0, 1, 501), np.linspace(0, 1, 501))
    move = np.sqrt((p + q) ** 2 + (p**2 - q**2) ** 2)
    assert move.max() == pytest.approx(2.0, abs=1e-12)
    # And the noise is that move over μ: with all rows at zero the map is made of noise alone.
    design = Design(Logistic(), 3, 0.5)
    rng, flattening = seeded_rng(9), Flattening(design, mu=0.8)
    twin = seeded_rng(9)
    got = flattening.learn(np.zeros((40, 3)), rng)
    noise = twin.standard_normal(3) * (2 * 0.5 / 0.8) / 40
    direction = noise / np.linalg.norm(noise)
    shrunk = got.matrix @ direction
    np.testing.assert_allclose(shrunk / np.linalg.norm(shrunk), direction, atol=1e-12)


def test_flattening_shrinks_what_rows_share_and_nothing_else():
    rng = seeded_rng(2)
    X = 0.1 * rng.standard_normal((5000, 4)) + [0.8, 0.0, 0.0, 0.0]
    got = Flattening(Design(Logistic(), 4, 1.0), mu=5.0).learn(X, rng)
    rows = got.rows(X)
    assert np.linalg.norm(rows.mean(axis=0)) < 0.5 * np.sqrt((rows**2).sum(axis=1).mean())
    assert np.linalg.norm(rows, axis=1).max() <= 1.0
    W = rng.standard_normal((2, 4))
    np.testing.assert_allclose(got.parameters(got.inverse(W)), W, atol=1e-10)
    short = np.linalg.norm(X @ got.matrix, axis=1) < got.limit
    np.testing.assert_allclose(rows[short] @ got.inverse(W).T, X[short] @ W.T, atol=1e-10)


def test_a_centre_outside_the_ball_is_brought_inside(records):
    design = Design(Probit(), 4, 1.0, radius=1.0)
    mechanism = DiffusedRegression(design, 600, 1.0, 0.01, n_steps=1)
    inside, outside = (mechanism.draw(*records, np.full((1, 4), v), seeded_rng(1)) for v in (0.5, 50.0))
    np.testing.assert_allclose(inside, outside, atol=1e-9)


def test_a_promise_out_of_reach_says_so():
    with pytest.raises(PromiseUnreachable, match="never gives that kind"):
        RefinedRegression.calibrate(DESIGN, 600, PureDP(1.0))
