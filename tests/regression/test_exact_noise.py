"""Noisy moments, flattening and scores of tries: whole-step sums, exactly rounded noise, rounding in the claim."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from sottovoce.inference.regression import Design, Logistic, NoisyMoments, RefinedRegression, Squared
from sottovoce.inference.regression.exact_sums import exact_moments
from sottovoce.inference.regression.row_maps import Flattening
from sottovoce.mechanisms.exact_normals import noise_cells
from sottovoce.privacy.promises import GaussianDP
from sottovoce.privacy.randomness import secure_rng
from sottovoce.records.readings import ClippedSum
from sottovoce.theory.amplification import BoundedMean, OrnsteinUhlenbeck


def rows(n, d, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0), np.where(rng.random(n) < 0.5, 1.0, -1.0)


def test_sums_of_mapped_rows_are_exact_in_any_order_and_rows_stay_in_the_ball():
    X, y = rows(3000, 6)
    one, other = exact_moments(X, y, 1.0), exact_moments(X[::-1], y[::-1], 1.0)
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    for row, label in zip(X[:200], y[:200], strict=True):
        gram, moment, ones = exact_moments(np.vstack([row[None], np.zeros((2999, 6))]), np.append(label, y[1:]), 1.0)
        parts = [Fraction(v) for v in ones.tolist()]
        assert sum(p * p for p in parts) <= 1  # in fractions, not in doubles
        assert all(Fraction(float(gram[i, j])) == parts[i] * parts[j] for i in range(6) for j in range(6))
        assert [Fraction(v) for v in moment.tolist()] == [p * int(label) for p in parts]
    assert np.allclose(one[0], X.T @ X, atol=1e-2)


def test_a_replaced_row_moves_the_moments_as_doubles_by_no_more_than_the_noise_covers():
    """Real sums through the reading, in doubles, where the others are many and odd."""
    design = Design(Squared(1.0), dimension=2, data_norm=1.0, radius=5.0)
    n = 4000
    mechanism = NoisyMoments(design, n, 0.7, 1.0)
    rng = np.random.default_rng(5)
    X, y = rows(n, 2)
    covered = mechanism.noise * mechanism.mu
    for _ in range(20):
        first, second = X.copy(), X.copy()
        turn = rng.uniform(0, 2 * math.pi)
        first[0], second[0] = (math.cos(turn), math.sin(turn)), (math.sin(turn), -math.cos(turn))
        totals = [mechanism._moments(mechanism.reading.read((part, y))) for part in (first, second)]
        response = [mechanism.fit.offset * t[2] + mechanism.fit.slope * t[1] for t in totals]
        moved = math.hypot(
            np.linalg.norm(totals[0][0] - totals[1][0]), mechanism.balance * np.linalg.norm(response[0] - response[1])
        )
        assert moved <= covered
    assert mechanism.rounding >= float(np.spacing(float(n))) * 2  # half a unit of four entries, in either data set
    big = NoisyMoments(design, 10**12, 0.7, 1.0)
    assert big.noise > mechanism.noise * (1 + 1e-4)


@pytest.mark.parametrize("entry", ["diagonal", "off it", "response"])
def test_moments_carry_their_noise_on_public_cells(entry):
    mechanism = NoisyMoments(Design(Logistic(), dimension=3, data_norm=1.0), 10, 0.5, 1.0)
    seen = mechanism.reading.read(rows(10, 3))
    out = mechanism.outputs(seen, secure_rng(), 3000)
    gram, moment, ones = mechanism._moments(seen)
    if entry == "response":
        values, scale = out[:, 9:], mechanism.noise / mechanism.balance
        means = mechanism.fit.offset * ones + mechanism.fit.slope * moment
    else:
        place = [0, 4, 8] if entry == "diagonal" else [1, 2, 5]
        values, means = out[:, place], gram.ravel()[place]
        scale = mechanism.noise / (1 if entry == "diagonal" else math.sqrt(2))
    assert np.array_equal(out[:, 1], out[:, 3])
    assert stats.kstest(((values - means) / scale).ravel(), "norm").pvalue > 1e-6
    steps = values / 2.0 ** noise_cells(scale * (1 + 1e-12)).exponent
    assert np.array_equal(steps % 1, np.full(steps.shape, 0.5))


def test_flattening_adds_exactly_and_covers_its_rounding():
    X, _ = rows(2000, 4)
    flattening = Flattening(Design(Logistic(), dimension=4, data_norm=1.0), mu=0.5)

    class Silent:
        """No noise: what is left is the sums."""

        def standard_normal(self, size):
            return np.zeros(size)

    one, other = flattening.learn(X, Silent()), flattening.learn(X[::-1], Silent())
    assert np.array_equal(one.matrix, other.matrix)
    assert flattening.noise(2000) > 2 / 0.5
    assert flattening.noise(2000) < 2 / 0.5 * (1 + 2e-9)
    assert flattening.noise(10**12) > 2 / 0.5 * (1 + 1e-4)


def test_a_refined_release_keeps_its_law_with_secure_noise():
    X, y = rows(600, 2)
    design = Design(Logistic(), dimension=2, data_norm=1.0)
    mechanism = RefinedRegression.calibrate(design, 600, GaussianDP(3.0), n_steps=4)
    found = mechanism.release((X, y)).value
    assert found.shape == (1, 2)
    assert np.isfinite(found).all()


def test_a_diffusion_is_exactly_rounded_at_its_first_look():
    mechanism = OrnsteinUhlenbeck.calibrate(BoundedMean(ClippedSum(0.0, 1.0)), 50, GaussianDP(1.0))
    seen = mechanism.reading.read(np.linspace(0, 1, 50))
    start = mechanism.system.value(seen)
    looks = mechanism.path(np.tile(start, (4000, 1)), [1.0, 2.0], secure_rng())
    assert stats.kstest(((looks[0] - mechanism.shrinkage * start) / mechanism.noise).ravel(), "norm").pvalue > 1e-6
    steps = looks[0] / 2.0 ** noise_cells(mechanism.noise).exponent
    assert np.array_equal(steps % 1, np.full(steps.shape, 0.5))
    # A mean far from zero is known to fewer digits, and the claim says so.
    near, far = (OrnsteinUhlenbeck(BoundedMean(ClippedSum(a, a + 1.0)), 50, 1.0, 0.0).profile.mu for a in (0.0, 1e12))
    assert far > near * (1 + 1e-3)
