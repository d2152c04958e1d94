"""Noisy statistics: the sensitivity against brute force, the noise as stated, intervals that tell the truth."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.losses import Logistic, Poisson, Squared
from sottovoce.inference.regression.noisy_moments import NoisyMoments, quadratic_fit
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.promises import ApproxDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.readings import Statistics
from sottovoce.records.readings.moments import joint_sensitivity


@pytest.mark.parametrize("balance", [0.05, 0.4, 1.0, 1.4, 1.5, 4.0])
@pytest.mark.parametrize(("norm", "response"), [(1.0, 1.0), (0.6, 2.0), (3.0, 0.5)])
def test_joint_sensitivity_is_the_largest_move_of_one_record(norm, response, balance):
    # Any two rows lie in a plane: p and q are their lengths, the angle between them turns, labels take both ends.
    p, q, angle, sign = np.meshgrid(
        norm * np.linspace(0, 1, 21), norm * np.linspace(0, 1, 21), np.linspace(0, np.pi, 361), [-1.0, 0.0, 1.0]
    )
    x, z = np.stack([p, 0 * p]), np.stack([q * np.cos(angle), q * np.sin(angle)])
    grams = np.einsum("i...,j...->ij...", x, x) - np.einsum("i...,j...->ij...", z, z)
    square = (grams**2).sum(axis=(0, 1)) + (balance * response) ** 2 * ((x - sign * z) ** 2).sum(axis=0)
    stated = joint_sensitivity(norm, response, balance)
    assert math.sqrt(square.max()) <= stated * (1 + 1e-12)
    assert math.sqrt(square.max()) > stated * 0.9999


def test_squared_loss_is_its_own_quadratic():
    fit = quadratic_fit(Squared(largest=2.0), 3.0)
    assert (fit.offset, fit.slope, fit.curvature) == pytest.approx((0.0, 1.0, 1.0), abs=1e-10)


def test_quadratics_stay_near_their_loss():
    t = np.linspace(-2, 2, 101)
    fit = quadratic_fit(Logistic(), 2.0)
    gap = np.logaddexp(0, -t) - (-fit.slope * t + fit.curvature * t**2 / 2)
    assert np.ptp(gap) < 0.02
    count = quadratic_fit(Poisson(largest=5.0), 1.0)
    gap = np.exp(t / 2) - 3 * t / 2 - (-(count.offset + 3 * count.slope) * t / 2 + count.curvature * t**2 / 8)
    assert np.ptp(gap) < 0.15


def test_noise_is_as_strong_as_stated_and_symmetric():
    design = Design(Logistic(), 3, 1.0)
    mechanism = NoisyMoments(design, 50, mu=0.5, prior_precision=0.1)
    rng = seeded_rng(2)
    draws = [mechanism.perturbed(np.zeros((3, 3)), np.zeros(3), None, rng) for _ in range(4000)]
    grams, moments = np.array([d.gram for d in draws]), np.array([d.moment for d in draws])
    noise = joint_sensitivity(1.0, mechanism.fit.largest(Logistic()), mechanism.balance) / 0.5
    assert np.array_equal(grams, grams.transpose(0, 2, 1))
    want = {"diagonal": noise, "corner": noise / math.sqrt(2), "moment": noise / mechanism.balance}
    got = {"diagonal": grams[:, 1, 1], "corner": grams[:, 0, 2], "moment": moments[:, 1]}
    for name, values in got.items():
        assert stats.kstest(values / want[name], "norm").pvalue > 1e-3, name


def test_without_noise_it_is_ridge_regression():
    rng = seeded_rng(3)
    X = rng.uniform(-0.5, 0.5, (300, 3))
    y = np.clip(X @ [1.0, -1.0, 0.5] + 0.1 * rng.standard_normal(300), -1, 1)
    design = Design(Squared(largest=1.0), 3, 1.0, radius=10.0)
    value = NoisyMoments(design, 300, mu=1e9, prior_precision=2.0).release((X, y), rng).value
    precision = X.T @ X + 2 * np.eye(3)
    np.testing.assert_allclose(value.mean, np.linalg.solve(precision, X.T @ y), rtol=1e-5)
    np.testing.assert_allclose(value.covariance, np.linalg.inv(precision), rtol=1e-5)


def test_intervals_that_know_of_the_noise_cover_and_plain_ones_do_not():
    rng = seeded_rng(5)
    n, m, hits, plain = 400, 3.0, [], []
    design = Design(Squared(largest=6.0), 3, 1.0, radius=20.0)
    mechanism = NoisyMoments(design, n, mu=1.0, prior_precision=m, within_bounds=True)
    for _ in range(300):
        w = rng.standard_normal(3) / math.sqrt(m)
        X = rng.standard_normal((n, 3))
        X /= np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
        y = np.clip(X @ w + rng.standard_normal(n), -6, 6)
        moments = mechanism.perturbed(X.T @ X, X.T @ y, None, rng)
        low, high = mechanism.posterior(moments).interval(0.9).T
        hits.append((low <= w) & (w <= high))
        # Even with X'X known, intervals that ignore the noise in X'y are too short.
        mean = np.linalg.solve(X.T @ X + m * np.eye(3), moments.moment)
        half = 1.645 * np.sqrt(np.diag(np.linalg.inv(X.T @ X + m * np.eye(3))))
        plain.append(np.abs(mean - w) <= half)
    assert 0.86 < np.mean(hits) < 0.96
    assert np.mean(plain) < 0.8


@pytest.mark.parametrize(
    ("loss", "reason"), [(Logistic(), "stands in"), (Poisson(5.0), "stands in"), (Squared(), "clipped")]
)
def test_intervals_that_would_not_cover_are_refused_and_say_why(loss, reason):
    design = Design(loss, 2, 1.0, radius=1.0)
    posterior = NoisyMoments(design, 50, 1.0, 1.0).release((np.zeros((50, 2)), np.ones(50)), seeded_rng(1)).value
    with pytest.raises(InvalidValue, match=reason):
        posterior.interval()
    with pytest.raises(InvalidValue, match=reason):
        posterior.mapped(np.eye(2)).interval()
    assert reason in posterior.to_dict()["no_intervals"]


def test_a_quadratic_in_place_of_a_logistic_loss_misses_the_more_records_there_are():
    """Why it is refused: the interval is of the quadratic's own minimum."""
    rng, hits = seeded_rng(6), []
    design = Design(Logistic(), 2, 1.0)
    mechanism = NoisyMoments(design, 40_000, mu=1.0, prior_precision=0.1)
    for _ in range(5):  # of 95 % intervals 5 of 10 or fewer would hold in one run of ten thousand; of these none do
        X = rng.uniform(-0.7, 0.7, (40_000, 2))
        y = np.where(X @ [4.0, -2.0] + rng.logistic(size=40_000) > 0, 1.0, -1.0)
        posterior = replace(mechanism.release((X, y), rng).value, no_intervals=None)
        low, high = posterior.interval().T
        hits.append((low <= [4.0, -2.0]) & (np.array([4.0, -2.0]) <= high))
    assert np.mean(hits) < 0.6


def test_any_engine_may_bring_the_statistics(records):
    X, y = records
    rows = X * np.minimum(1, 1 / np.linalg.norm(X, axis=1, keepdims=True))
    mechanism = NoisyMoments.calibrate(Design(Logistic(), 4, 1.0), 600, ApproxDP(1.0, 1e-6), prior_precision=0.1)
    assert mechanism.profile.satisfies(ApproxDP(1.0, 1e-6))
    ours = mechanism.release((X, y), seeded_rng(1)).value
    seen = Statistics(600, mechanism.reading.join(rows, y))
    theirs = mechanism.release(seen, seeded_rng(1)).value
    np.testing.assert_allclose(ours.mean, theirs.mean, atol=1e-9)
    assert theirs.sample(7, seeded_rng(1)).shape == (7, 4)


def test_statistics_of_the_wrong_shape_are_refused():
    mechanism = NoisyMoments(Design(Poisson(5.0), 3, 1.0, radius=1.0), 50, 1.0, 1.0)
    with pytest.raises(InvalidData, match="13 coordinate"):
        mechanism.release(Statistics(50, np.ones(12)))
    with pytest.raises(InvalidData, match="no records within the bounds"):
        mechanism.release(Statistics(50, np.full(13, 1e6)))


def test_the_table_reader_brings_the_same_statistics(records):
    tables = pytest.importorskip("sottovoce.records.tables", reason="needs the data extra")
    pandas = pytest.importorskip("pandas", reason="needs the data extra")
    X, y = records
    frame = pandas.DataFrame(X, columns=list("abcd")).assign(y=y)
    mechanism = NoisyMoments.calibrate(Design(Logistic(), 4, 1.0), 600, ApproxDP(1.0, 1e-6), prior_precision=0.1)
    with tables.open_table(frame) as table:
        seen = table.read(mechanism, list("abcdy"))
    assert seen == mechanism.reading.read((X, y))  # to the last bit
    assert np.array_equal(
        mechanism.release(seen, seeded_rng(1)).value.mean, mechanism.release((X, y), seeded_rng(1)).value.mean
    )
