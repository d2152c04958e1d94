import itertools

import numpy as np
import pytest
from scipy import special, stats

from sottovoce.gibbs import LatentCounts
from sottovoce.gibbs.log_concave import draw_log_concave
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.randomness import seeded_rng


@pytest.mark.parametrize("start", [0, 3, 40])
@pytest.mark.parametrize(
    ("name", "high", "weight"),
    [
        ("poisson", 60, lambda x: x * np.log(7.5) - special.gammaln(x + 1)),
        ("binomial", 12, lambda x: x - special.gammaln(x + 1.0) - special.gammaln(13.0 - x)),
        ("laplace", 60, lambda x: -np.abs(x - 20.3) / 4),
        ("steep", 60, lambda x: -5.0 * x),
        ("rising", 25, lambda x: 0.3 * x),
        ("flat", 9, lambda x: 0.0 * x),
        ("point", 0, lambda x: 0.0 * x),
    ],
)
def test_draws_follow_a_log_concave_law_exactly(name: str, high: int, weight, start: int) -> None:
    count = 40_000
    zeros = np.zeros(count, dtype=np.int64)
    draws = draw_log_concave(
        lambda x, i: weight(x.astype(float)), zeros, zeros + high, zeros + min(start, high), seeded_rng(start)
    )
    x = np.arange(high + 1)
    law = np.exp(weight(x.astype(float)) - special.logsumexp(weight(x.astype(float))))
    seen = np.bincount(draws, minlength=high + 1)
    assert seen.size == high + 1
    big = law * count > 5
    if big.sum() > 1:
        observed = np.append(seen[big], seen[~big].sum())
        expected = np.append(law[big], law[~big].sum()) * count
        if expected[-1] < 5:
            observed, expected = observed[:-1], expected[:-1] * observed[:-1].sum() / expected[:-1].sum()
        assert stats.chisquare(observed, expected).pvalue > 1e-4


def test_laws_side_by_side_do_not_mix() -> None:
    means = np.array([0.01, 3.0, 5000.0])
    i = np.repeat(np.arange(3), 20_000)

    def weight(x: np.ndarray, index: np.ndarray) -> np.ndarray:
        return x * np.log(means[i[index]]) - special.gammaln(x + 1.0)

    zeros = np.zeros(i.size, dtype=np.int64)
    draws = draw_log_concave(weight, zeros, zeros + 2**40, zeros, seeded_rng(3))
    for k, mean in enumerate(means):
        mine = draws[i == k]
        assert abs(mine.mean() - mean) < 5 * np.sqrt(mean / mine.size)
        assert mine.var() == pytest.approx(mean, rel=0.2)


SHAPE, ODDS = 1.5, (2.0, 1.0)


def exact_posterior(noisy: list[np.ndarray], theta: list[np.ndarray], noises: list[IntegerNoise], most: int) -> dict:
    """The law of all true counts of one cell, by enumeration: m's prior, multinomial tables, known noise."""
    law = {}
    for m in range(most):
        options = []
        for seen, probabilities, noise in zip(noisy, theta, noises, strict=True):
            rows = [c for c in itertools.product(range(m + 1), repeat=len(seen)) if sum(c) == m]
            weights = [
                stats.multinomial.logpmf(c, m, probabilities) + noise.log_weight(seen - np.array(c)).sum() for c in rows
            ]
            options.append(list(zip(rows, weights, strict=True)))
        for combined in itertools.product(*options):
            size = special.gammaln(m + SHAPE) - special.gammaln(m + 1) + special.betaln(ODDS[0] + m, ODDS[1] + SHAPE)
            law[tuple(c for c, _ in combined)] = size + sum(w for _, w in combined)
    top = special.logsumexp(list(law.values()))
    return {key: np.exp(weight - top) for key, weight in law.items()}


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_latent_counts_reach_their_exact_law(kind: str) -> None:
    noises = (IntegerNoise(kind, 1.5), IntegerNoise(kind, 0.8))
    noisy = [np.array([3, -1, 2]), np.array([1, 4])]
    theta = [np.array([0.5, 0.3, 0.2]), np.array([0.4, 0.6])]
    law = exact_posterior(noisy, theta, list(noises), most=16)
    cells, rng = 4000, seeded_rng(7)
    latent = LatentCounts(tuple(np.tile(t, (cells, 1)) for t in noisy), noises, runs=cells, shapes=(SHAPE,), odds=ODDS)
    logs = tuple(np.tile(np.log(t), (cells, 1)) for t in theta)
    counts = latent.start()
    for _ in range(40):
        counts = latent.resample(counts, logs, rng)
    assert (counts[0].sum(axis=1) == counts[1].sum(axis=1)).all()
    seen: dict = {}
    for a, b in zip(counts[0].tolist(), counts[1].tolist(), strict=True):
        key = (tuple(a), tuple(b))
        seen[key] = seen.get(key, 0) + 1
    keys = [key for key, p in law.items() if p * cells >= 8]
    observed = np.array([seen.get(key, 0) for key in keys])
    expected = np.array([law[key] for key in keys]) * cells
    rest, rest_expected = cells - observed.sum(), cells - expected.sum()
    assert stats.chisquare([*observed, rest], [*expected, rest_expected]).pvalue > 1e-4


def test_without_noise_the_counts_stay() -> None:
    truth = np.array([[5, 0, 9], [0, 0, 0]])
    latent = LatentCounts((truth,), (IntegerNoise("laplace", 0.01),))
    counts = latent.start()
    for _ in range(5):
        counts = latent.resample(counts, (np.log(np.full((2, 3), 1 / 3)),), seeded_rng(1))
    np.testing.assert_array_equal(counts[0], truth)


def test_a_start_is_feasible_whatever_the_noise() -> None:
    rng = seeded_rng(2)
    noisy = tuple(rng.integers(-30, 40, (200, k)) for k in (2, 5, 1))
    start = LatentCounts(noisy, (IntegerNoise("laplace", 9.0),) * 3).start()
    sums = [table.sum(axis=1) for table in start]
    assert all((table >= 0).all() for table in start)
    assert (sums[0] == sums[1]).all()
    assert (sums[0] == sums[2]).all()


def test_tables_that_do_not_belong_together_are_refused() -> None:
    noise = IntegerNoise("laplace", 1.0)
    with pytest.raises(InvalidValue):
        LatentCounts((np.zeros((2, 2)), np.zeros((3, 2))), (noise, noise))
    with pytest.raises(InvalidValue):
        LatentCounts((np.zeros((2, 2)),), ())
    with pytest.raises(InvalidValue):
        LatentCounts((), ())
    with pytest.raises(InvalidValue, match="one kind"):
        LatentCounts((np.zeros((2, 2)), np.zeros((2, 2))), (noise, IntegerNoise("gaussian", 1.0)))
    for wrong in ({"runs": 2}, {"runs": 0}, {"shapes": (0.5,)}, {"shapes": ()}, {"odds": (0.0, 1.0)}):
        with pytest.raises(InvalidValue):
            LatentCounts((np.zeros((3, 2)),), (noise,), **wrong)


def test_no_cells_are_no_counts() -> None:
    latent = LatentCounts((np.zeros((0, 2)),), (IntegerNoise("laplace", 1.0),))
    assert latent.resample(latent.start(), [np.zeros((0, 2))], seeded_rng(1))[0].shape == (0, 2)


def test_the_law_of_cell_sizes_is_learned() -> None:
    rng = seeded_rng(8)
    sizes = rng.negative_binomial(4, 4 / (4 + 30), 3000)
    counts = rng.multinomial(sizes, [0.5, 0.5])
    latent = LatentCounts((counts,), (IntegerNoise("laplace", 0.1),))
    shapes, logs = zip(*(latent._draw_sizes(counts.sum(axis=1), rng) for _ in range(50)), strict=True)
    assert np.mean(shapes) == pytest.approx(4.0, rel=0.15)
    means = [a[0] / np.expm1(-q[0]) for a, q in zip(shapes, logs, strict=True)]
    assert np.mean(means) == pytest.approx(30, rel=0.05)
