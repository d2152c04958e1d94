"""What noisy cells tell, against enumeration and against what is known without noise."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from papers.verb_coverage import Cell, cover
from papers.verb_worlds import SHARED, question_of, world
from scipy import special, stats

import sottovoce as sv
from sottovoce.inference.cells import crossed_centres as crossed
from sottovoce.inference.cells.crossed_centres import crossed_centres
from sottovoce.inference.cells.intervals import central
from sottovoce.inference.cells.latent_cells import cell_draws, lone_counts
from sottovoce.inference.cells.moments import log_density, mean_draws
from sottovoce.inference.cells.noisy_cells import NoisyCells
from sottovoce.inference.cells.pooled_counts import (
    _MEANS,
    _STRAY,
    _beyond_normal,
    _log_normal,
    _nodes,
    pooled_counts,
)
from sottovoce.inference.cells.pooling import pooled_means, pooled_shares
from sottovoce.inference.cells.questions import Question
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.randomness import seeded_rng


def enumerated(
    noisy: list[int], noise: IntegerNoise, n: int, alpha: list[float], outside: tuple[float, float] | None = None
) -> np.ndarray:
    """The posterior means of latent counts that sum to n, by adding up every possibility."""
    total, means = 0.0, np.zeros(len(noisy))
    for counts in itertools.product(range(n + 1), repeat=len(noisy)):
        if sum(counts) != n:
            continue
        if outside is None:
            prior = stats.dirichlet_multinomial.pmf(counts, alpha, n)
        else:  # first who is outside, then where the others are
            inside = n - counts[-1]
            prior = stats.betabinom.pmf(counts[-1], n, *outside)
            prior *= stats.dirichlet_multinomial.pmf(counts[:-1], alpha[:-1], inside)
        weight = prior * math.exp(sum(float(noise.log_weight(y - k)) for k, y in zip(counts, noisy, strict=True)))
        total, means = total + weight, means + weight * np.array(counts)
    return np.asarray(means / total)


@pytest.mark.parametrize("noise", [IntegerNoise("laplace", 4.0), IntegerNoise("gaussian", 30.0)])
def test_counts_are_conditioned_on_their_sum_exactly(noise: IntegerNoise) -> None:
    noisy, alpha = [9, -3, 40], [0.5, 1.0, 0.25]
    draws = cell_draws(np.array(noisy), noise, 8, np.array(alpha), 40_000, seeded_rng(1))
    assert np.all(draws.sum(axis=1) == 8)
    assert draws.mean(axis=0) == pytest.approx(enumerated(noisy, noise, 8, alpha), abs=0.06)


@pytest.mark.parametrize("outside", [(0.1, 1.0), (0.5, 0.5), (3.0, 0.2)])
def test_records_in_no_cell_have_a_prior_of_their_own(outside: tuple[float, float]) -> None:
    noisy, alpha, noise = [5, 1, 3], [0.75, 1.5, 1.0], IntegerNoise("gaussian", 5.0)
    draws = cell_draws(np.array(noisy), noise, 8, np.array(alpha), 40_000, seeded_rng(1), outside)
    assert draws.mean(axis=0) == pytest.approx(enumerated(noisy, noise, 8, alpha, outside), abs=0.06)


def test_few_records_weigh_as_much_on_a_coarse_lattice_as_one_by_one() -> None:
    """A prior with most of its weight near zero, where a step of the lattice is many records."""
    n, noise, outside = 3000, IntegerNoise("gaussian", 300.0), (0.1, 1.0)
    noisy = np.array([2900.0, 100.0])
    draws = cell_draws(noisy, noise, n, np.array([1.0, 1.0]), 40_000, seeded_rng(1), outside)[:, 1]
    k = np.arange(n + 1)
    weight = stats.betabinom.pmf(k, n, *outside)
    weight = weight * np.exp(noise.log_weight(noisy[0] - (n - k)) + noise.log_weight(noisy[1] - k))
    exact = np.cumsum(weight) / weight.sum()
    for at in (20, 100, 300):
        assert np.mean(draws <= at) == pytest.approx(exact[at], abs=0.02)


@pytest.mark.parametrize("scale", [4.0, 400.0, 40_000.0])
def test_counts_of_many_records_keep_their_sum(scale: float) -> None:
    truth = np.array([60_000.0, 30_000.0, 10_000.0])
    draws = cell_draws(truth, IntegerNoise("gaussian", scale), 100_000, np.full(3, 0.5), 2000, seeded_rng(1))
    assert np.all(draws >= 0)
    assert draws.sum(axis=1) == pytest.approx(np.full(2000, 100_000), abs=1)
    spread = scale * math.sqrt(2 / 3)
    assert scale > 10_000 or draws.std(axis=0) == pytest.approx(np.full(3, spread), rel=0.1)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("cells", [2, 3, 6])
def test_a_count_alone_is_told_as_beside_the_others_where_none_is_small(kind: str, cells: int) -> None:
    noise, truth = IntegerNoise(kind, 6.0), np.full(cells, 100.0)  # type: ignore[arg-type]
    noisy = truth + np.resize([5.0, -4.0, 9.0], cells)
    n = int(truth.sum())
    joint = cell_draws(noisy, noise, n, np.full(cells, 0.75), 20_000, seeded_rng(1))
    alone = lone_counts(noisy, noise, n, 0.75, (float(n), 0.0), 4000)
    for rank in (0.025, 0.5, 0.975):
        assert np.quantile(alone, rank, axis=0) == pytest.approx(np.quantile(joint, rank, axis=0), abs=1.5)


@pytest.mark.parametrize(("values", "n"), [(3, 10), (5, 30), (20, 30), (20, 3000)])
def test_a_share_of_which_no_record_was_seen_may_be_one_that_often_goes_unseen(values: int, n: int) -> None:
    """However many categories there are: of a share s no record is seen (1 - s)ⁿ of the time, by no law of ours."""
    question = Question("proportion", ("k",), sv.Facts(k=sv.Category(range(values))))
    release = NoisyCells(question, n, "laplace", 0.05).release({"k": np.arange(n) % (values - 1)}, seeded_rng(1))
    ends = release.value.interval()
    assert ends[-1, 0] == 0
    assert (1 - ends[-1, 1]) ** n < 0.1
    assert np.all((ends >= 0) & (ends <= 1))


def test_a_mean_without_noise_has_the_interval_of_a_normal_mean() -> None:
    t = 0.2 + 0.1 * stats.norm.ppf((np.arange(400) + 0.5) / 400)
    draws, spreads, _ = mean_draws(np.full(4000, 400.0), t.sum(), (t**2).sum(), (1e-6, 1e-6), 4000, seeded_rng(1))
    assert draws.mean() == pytest.approx(0.2, abs=1e-3)
    assert draws.std() == pytest.approx(0.1 / 20, rel=0.08)
    assert np.median(spreads) == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize(("size", "total"), [(25, 0.0), (25, 19.0), (50, 20.0)])
def test_records_at_both_bounds_are_told_to_vary_as_much_as_they_can(size: int, total: float) -> None:
    """Parts of the largest spread are told apart up to all of it, where noise leaves small ones possible too."""
    yes, noise = (size + total) / 2, (0.05, 1.3) if size == 25 else (5.0, 60.0)
    draws, _, _ = mean_draws(np.full(9, float(size)), total, float(size), noise, 20_000, seeded_rng(1), "laplace")
    exact = math.hypot(2 * stats.beta(yes + 1, size - yes + 1).std(), math.sqrt(noise[0]) / size)
    assert draws.std() == pytest.approx(exact, rel=0.07)


@pytest.mark.parametrize("variance", [1e-12, 0.25, 9.0, 1e6, 7e15, 5e17, 1e30])
@pytest.mark.parametrize("noise", [1e-6, 0.5, 18.0, 1e6])
def test_a_sum_with_laplace_noise_has_the_density_of_both_laws(variance: float, noise: float) -> None:
    """Against the convolution in closed form, with sixty digits."""
    x = np.array([-9.0, 0.0, 0.5, 1e3, -1e8, 3 * math.sqrt(variance)])
    with mpmath.workdps(60):
        s, b = mpmath.sqrt(variance), mpmath.sqrt(mpmath.mpf(noise) / 2)
        sides = [
            [mpmath.erfc((t / s + s / b) / mpmath.sqrt(2)) * mpmath.exp(t / b) for t in (at, -at)]
            for at in map(mpmath.mpf, x)
        ]
        exact = [float(mpmath.log((one + other) / 2) + s**2 / (2 * b**2)) for one, other in sides]
    assert log_density(x, np.array(variance), noise, "laplace") == pytest.approx(exact, rel=1e-12, abs=1e-12)
    across = np.asfortranarray(x.reshape(2, 3))  # however its numbers lie in memory
    assert log_density(across, np.full_like(across, variance), noise, "laplace").ravel() == pytest.approx(
        exact, rel=1e-12, abs=1e-12
    )


def test_means_that_noise_drowns_are_as_the_prior_says() -> None:
    """Any mean is as likely as another; a rate has a density of rate^-1/4."""
    for lean, exact in ((0.0, 0.5), (-0.25, 0.5**0.75)):
        draws, spreads, _ = mean_draws(np.full(100, 9.0), 0.0, 0.0, (1e9, 1e9), 20_000, seeded_rng(1), "gaussian", lean)
        assert np.mean(draws <= 0) == pytest.approx(exact, abs=0.02)
        part = spreads**2 / (1 - draws**2)
        assert np.mean(part <= 0.5) == pytest.approx(stats.beta(0.5, 0.5).cdf(0.5), abs=0.04)


@pytest.mark.weekly
def test_intervals_of_means_hold_at_every_level_where_noise_hides_the_spread() -> None:
    """Fifty records of 0 to 100 at ε = 5: with spreads taken for smaller, 50 % intervals held 40 % of these."""
    rng, question = seeded_rng(2), Question("mean", ("x",), sv.Facts(x=sv.Number(0, 100)))
    mech, places, held = NoisyCells.calibrate(question, 50, sv.PureDP(5.0)), (np.arange(4000) + 0.5) / 4000, []
    laws = [stats.norm(30, 10), stats.uniform(20, 30), stats.expon(scale=15), stats.lognorm(0.8, scale=10)]
    for law in [*laws, stats.t(3, loc=50, scale=5), stats.uniform(0, 100)]:
        values = np.clip(law.ppf(places), 0, 100)
        for _ in range(60):
            value = mech._value(question.statistics({"x": rng.choice(values, 50)}), rng, 1)
            ends = np.array([value.interval(level)[0] for level in (0.5, 0.95)])
            held.append((ends[:, 0] <= values.mean()) & (values.mean() <= ends[:, 1]))
    half, most = np.mean(held, axis=0)
    assert 0.45 < half < 0.56
    assert 0.935 < most < 0.99


def test_stated_probabilities_come_true_as_often_as_they_say() -> None:
    """Of shares from the prior: claims that one group lies above another, where it is not plain which."""
    rng, cell, stated, true = seeded_rng(9), Cell("proportion", 200, 0.5, 4), [], []
    mech = NoisyCells.calibrate(question_of(cell), cell.n, cell.promise)
    for _ in range(100):
        records, truth = world(cell, rng)
        draws = mech.release(records, rng).value.draws
        for a, b in itertools.permutations(range(4), 2):
            stated.append(np.mean(draws[:, a] > draws[:, b]))
            true.append(truth[a] > truth[b])
    for low, high in ((0.55, 0.8), (0.8, 0.97)):
        inside = (low < np.array(stated)) & (np.array(stated) < high)
        assert inside.sum() > 80
        assert np.mean(np.array(true)[inside]) == pytest.approx(np.mean(np.array(stated)[inside]), abs=0.08)


@pytest.mark.parametrize(("size", "total", "square"), [(0.0, 5.0, -7.0), (1.0, -900.0, 1e6), (3.0, 1e9, -1e9)])
def test_a_mean_of_next_to_nothing_stays_within_bounds(size: float, total: float, square: float) -> None:
    draws, _, _ = mean_draws(np.full(100, size), total, square, (4.0, 4.0), 500, seeded_rng(1))
    assert np.all(np.abs(draws) <= 1)


def test_pooling_draws_equal_groups_together_and_leaves_unequal_ones() -> None:
    rng = seeded_rng(1)
    alike = rng.binomial(40, rng.beta(15, 25, (2000, 12)))
    counts = np.stack([40 - alike, alike], axis=2).astype(float)
    shares = pooled_shares(counts, 1.0, rng)[:, :, 1]
    assert shares.std(axis=0).mean() < 0.8 * (alike / 40).std(axis=0).mean()
    apart = np.linspace(-0.8, 0.8, 8) + 0.01 * rng.normal(size=(2000, 8))
    assert pooled_means(apart, rng).mean(axis=0) == pytest.approx(np.linspace(-0.8, 0.8, 8), abs=0.02)


def test_pooling_takes_nothing_rare_for_absent_where_noise_hides_it() -> None:
    """A hundred groups of 900 with six of a kind in each, under noise of 20: all intervals once ended below 1e-3."""
    rng = seeded_rng(5)
    seen = 6 + 20 * rng.normal(size=100)
    rare = np.clip(np.round(seen + 20 * rng.normal(size=(600, 100))), 0, 900)
    shares = pooled_shares(np.stack([900 - rare, rare], axis=2), 0.75, rng)[:, :, 1]
    low, high = central(shares).T
    assert np.mean((low <= 6 / 900) & (high >= 6 / 900)) > 0.8
    assert np.median(shares) == pytest.approx(6 / 900, rel=0.9)


def test_pooled_counts_beat_the_noisy_cells() -> None:
    rng, noise = seeded_rng(1), IntegerNoise("laplace", 20.0)
    truth = rng.negative_binomial(1, 1 / 16, 300).astype(float)
    noisy = noise.add(truth.astype(np.int64), rng).astype(float)
    pooled = pooled_counts(noisy, noise, int(truth.sum()), (300,), 1000, rng)
    error, raw = (float(np.sqrt(np.mean((x - truth) ** 2))) for x in (pooled.mean(axis=0), noisy))
    assert error < 0.6 * raw
    low, high = central(pooled).T
    assert 0.88 < np.mean((low <= truth) & (truth <= high)) <= 1


@pytest.mark.parametrize("scale", [0.7, 7.3, 90.0])
def test_pooled_counts_are_whole_and_no_more_than_there_are_records(scale: float) -> None:
    noise = IntegerNoise("gaussian", scale)
    pooled = pooled_counts(np.array([498.0, 505.0, 3.0]), noise, 500, (3,), 1000, seeded_rng(1))
    assert np.array_equal(pooled, np.round(pooled))
    assert pooled.min() >= 0 and pooled.max() <= 500


def test_pooled_tables_learn_from_their_margins() -> None:
    rng, noise = seeded_rng(1), IntegerNoise("laplace", 20.0)
    truth = rng.poisson(np.outer(rng.gamma(2, 30, 9), rng.gamma(20, 0.05, 40))).ravel().astype(float)
    noisy = noise.add(truth.astype(np.int64), rng).astype(float)
    pooled = pooled_counts(noisy, noise, int(truth.sum()), (9, 40), 1000, rng)
    error, raw = (float(np.sqrt(np.mean((x - truth) ** 2))) for x in (pooled.mean(axis=0), noisy))
    assert error < 0.5 * raw
    low, high = central(pooled).T
    assert 0.9 < np.mean((low <= truth) & (truth <= high)) <= 1


def test_pooled_counts_cover_where_one_category_strays_and_another_does_not() -> None:
    """Eighteen places, three years, three kinds: the first kind as everywhere, the second not, the third rare.

    Told to stray alike, cells of the second would be drawn to where the first has them, and be held 79 % of the time.
    """
    rng, noise = seeded_rng(3), IntegerNoise("gaussian", 64.0)
    held = []
    for _ in range(3):
        stray = np.stack([np.ones(18), rng.gamma(3, 1 / 3, 18), np.ones(18)], axis=1)[:, None, :]
        mean = rng.gamma(8, 1 / 8, 18)[:, None, None] * np.ones((18, 3, 1)) * np.array([760, 150, 6]) * stray
        truth = rng.poisson(mean).ravel()
        noisy = noise.add(truth, rng).astype(float)
        low, high = central(pooled_counts(noisy, noise, int(truth.sum()), (18, 3, 3), 1000, rng)).T
        held.append(((low <= truth) & (truth <= high)).reshape(-1, 3).mean(axis=0))
    assert np.all(np.mean(held, axis=0) > [0.91, 0.88, 0.95])


@pytest.mark.parametrize("noise", [IntegerNoise("laplace", 2.0), IntegerNoise("gaussian", 48.0)])
def test_pooled_counts_weigh_long_tails_as_a_negative_binomial_law_does(noise: IntegerNoise) -> None:
    noisy, n = np.array([-3.0, 0.0, 7.0, 250.0]), 1000
    first, widths = _nodes(noisy, math.sqrt(noise.variance), n)
    inside = widths >= 1
    for cell in range(noisy.size):  # every count once, few of them together
        assert np.array_equal(
            first[cell, 1:][inside[cell, 1:]], np.cumsum(widths[cell, inside[cell]])[:-1] + first[cell, 0]
        )
        assert np.all(widths[cell, :4] == 1)
    nodes = first + (np.maximum(widths, 1.0) - 1) / 2
    likelihood = noise.log_weight(noisy[:, None] - nodes) - special.gammaln(nodes + 1) + np.log(widths)
    beyond = _beyond_normal(noisy, noise.variance, n, nodes, likelihood)
    counts = np.arange(n + 1)
    for i, j in itertools.product((0, 14, 24), (0, 5, 9)):
        mean, stray = math.exp(np.linspace(-7.0, math.log(n + 1.0), _MEANS)[i]), _STRAY[j]
        law = stats.nbinom.pmf(counts, stray, stray / (stray + mean))
        whole = np.log(np.exp(noise.log_weight(noisy[:, None] - counts)) @ law)
        found = beyond[i, j] + _log_normal(noisy, mean, stray, noise.variance)
        near = whole > whole.max() - 20
        assert found[near] == pytest.approx(whole[near], abs=0.02)


def test_pooled_counts_cover_where_a_few_categories_have_most() -> None:
    """Of 300 categories the k-th has a share as 1/k: 290 are small, and none is empty."""
    rng, noise = seeded_rng(6), IntegerNoise("laplace", 2.0)
    shares, held = 1 / np.arange(1, 301), []
    for _ in range(2):
        truth = rng.multinomial(6000, shares / shares.sum())
        noisy = noise.add(truth, rng).astype(float)
        low, high = central(pooled_counts(noisy, noise, 6000, (300,), 1000, rng)).T
        held.append(np.mean((low <= truth) & (truth <= high)))
    assert np.mean(held) > 0.945  # 0.92 where cells are told to stray as a normal law has it


def test_centres_of_crossed_groups_are_as_sure_as_they_are_right() -> None:
    """Effects, spreads and strays from their priors: draws lie around the true centres as these lie among them."""
    rng, shape, held = seeded_rng(4), (3, 5), []
    levels = np.geomspace(0.05, 1.0, 6)
    strays = np.repeat(levels[:, None] ** 2, 15, axis=1)
    for _ in range(60):
        first, second = (rng.uniform(0.01, 2.0) * rng.normal(size=size) for size in shape)
        truth, precision = np.add.outer(first, second).ravel(), rng.uniform(1, 30, 15)
        away = rng.choice(levels, p=levels / levels.sum()) * rng.normal(size=15)
        seen = truth + away + rng.normal(size=15) / np.sqrt(precision)
        found, _ = crossed_centres(seen[:, None], precision, strays, np.log(levels), np.eye(1), shape, rng)
        low, high = central(found[:, :, 0], 0.8).T
        held.append(np.mean((low <= truth) & (truth <= high)))
    assert np.mean(held) == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize("shape", [(2, 4), (4, 1, 2), (3, 2, 2)])
def test_centres_of_crossed_groups_are_those_of_all_cells_taken_together(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oracle knows no effects: seen cells are normal, two of them the more alike the more categories they share."""
    monkeypatch.setattr(crossed, "_DRAWS", 4000)
    rng, cells, sizes = seeded_rng(5), math.prod(shape), [size for size in shape if size > 1]
    seen, precision, strays = (
        2 * rng.normal(size=cells),
        rng.uniform(1, 9, cells),
        np.array([[0.02] * cells, [0.5] * cells]),
    )
    places = np.array(np.unravel_index(np.arange(cells), shape))
    alike = [same for row, size in zip(places, shape, strict=True) if size > 1 for same in [row[:, None] == row]]
    levels = np.geomspace(0.01, 2.0, round(64 ** (1 / len(sizes))))
    logs, means, squares = [], [], []
    for which, spreads in itertools.product(range(2), itertools.product(levels, repeat=len(sizes))):
        prior = 1e4 + sum(spread**2 * same for spread, same in zip(spreads, alike, strict=True))
        whole = prior + np.diag(1 / precision + strays[which])
        logs.append(stats.multivariate_normal.logpdf(seen, np.zeros(cells), whole) + np.log(spreads).sum() - which)
        gain = np.linalg.solve(whole, prior).T
        means.append(gain @ seen)
        squares.append(np.diag(prior - gain @ prior) + means[-1] ** 2)
    weights = np.exp(np.array(logs) - max(logs)) / np.exp(np.array(logs) - max(logs)).sum()
    mean = weights @ np.array(means)
    sd = np.sqrt(weights @ np.array(squares) - mean**2)
    found, which = crossed_centres(seen[:, None], precision, strays, np.array([0.0, -1.0]), np.eye(1), shape, rng)
    assert np.abs((found[:, :, 0].mean(axis=0) - mean) / sd).max() < 0.07
    assert np.abs(found[:, :, 0].std(axis=0) / sd - 1).max() < 0.06
    assert np.mean(which) == pytest.approx(weights[len(weights) // 2 :].sum(), abs=0.03)


def test_pooled_shares_cover_where_a_small_region_differs_in_every_month() -> None:
    """Of four regions by twelve months the smallest has a share of its own: one common centre never held it."""
    rng, held = seeded_rng(8), []
    sizes, truth = np.repeat([200, 100, 50, 12], 12), np.repeat([0.3, 0.3, 0.3, 0.6], 12)
    for _ in range(2):
        yes = rng.binomial(sizes, truth)
        noisy = np.stack([sizes - yes, yes], axis=1) + 2 * rng.normal(size=(48, 2))
        counts = np.maximum(np.round(noisy + 2 * rng.normal(size=(1000, 48, 2))), 0)
        low, high = central(pooled_shares(counts, 0.75, rng, (4, 12), (noisy, 4.0))[:, :, 1]).T
        held.append((low <= truth) & (truth <= high))
    assert np.mean(np.array(held)[:, -12:]) > 0.85
    assert np.mean(held) > 0.92


def test_pooled_means_cover_where_a_small_region_differs_in_every_month() -> None:
    rng, held = seeded_rng(9), []
    truth, noise = np.repeat([-0.4, -0.4, -0.4, 0.2], 12), np.repeat([0.05, 0.08, 0.1, 0.2], 12)
    for _ in range(2):
        noisy = truth + noise * rng.normal(size=48)
        own = np.clip(noisy + noise * rng.normal(size=(1000, 48)), -1, 1)
        low, high = central(pooled_means(own, rng, (4, 12), (noisy, noise**2))).T
        held.append((low <= truth) & (truth <= high))
    assert np.mean(np.array(held)[:, -12:]) > 0.85
    assert np.mean(held) > 0.92


def test_a_column_of_one_category_crosses_nothing() -> None:
    counts, means = seeded_rng(1).integers(1, 30, (600, 5, 2)).astype(float), seeded_rng(2).uniform(-1, 1, (600, 5))
    noisy = (counts[0], 4.0), (means[0], np.full(5, 0.3))
    assert np.array_equal(
        pooled_shares(counts, 1.0, seeded_rng(3), (1, 5), noisy[0]), pooled_shares(counts, 1.0, seeded_rng(3))
    )
    assert np.array_equal(pooled_means(means, seeded_rng(3), (5, 1), noisy[1]), pooled_means(means, seeded_rng(3)))


@pytest.mark.parametrize("yes", [5, 7, 12])
def test_records_at_the_two_bounds_alone_are_told_to_spread_as_far_as_they_can(yes: int) -> None:
    """Of 25 records at the bounds, seen without noise to speak of, Σt² = N leaves no other spread."""
    means, spreads, _ = mean_draws(np.full(100, 25.0), 2.0 * yes - 25, 25.0, (1e-4, 1e-4), 4000, seeded_rng(1))
    assert np.median(spreads / np.sqrt(1 - means**2)) > 0.98  # 0.93 to 0.95 where t² may vary beyond its bounds


def test_pooled_means_cover_where_the_groups_that_noise_hides_differ() -> None:
    rng, held = seeded_rng(3), []
    for _ in range(3):
        noise = np.geomspace(0.02, 0.08, 100)
        truth = 0.14 - 0.5 * noise + (0.01 + 0.3 * noise) * rng.normal(size=100)
        own = truth + noise * rng.normal(size=100) + noise * rng.normal(size=(4000, 100))
        low, high = central(pooled_means(own, rng)).T
        held.append(np.mean((low <= truth) & (truth <= high)))
    assert np.mean(held) > 0.91


@pytest.mark.parametrize(
    "cell",
    [
        Cell("proportion", 500, 0.5, 4, missing=0.2),
        Cell("mean", 500, 2.0, 1),
        Cell("mean", 5000, 0.5, 4, selected=0.4),
        Cell("rate", 5000, 2.0, 4, "skewed"),
        Cell("counts", 500, 0.5, 4),
        Cell("quantiles", 5000, 2.0, 1),
        Cell("difference", 5000, 0.5, 4),
        Cell("mean ratio", 5000, 2.0, 4, "heavy"),
        Cell("exposure", 5000, 0.5, 4),
        Cell("mean", 500, 0.5, 1, pure=True),
    ],
    ids=lambda cell: f"{cell.verb} {cell.n}",
)
def test_intervals_hold_the_truth(cell: Cell) -> None:
    # Of intervals that hold seven in ten, one row a table, 15 of 18 would in one run of six; of 95 % in 99 of 100.
    # Of four rows a table 30 of 36 would in one run of twenty; of 95 % in 998 of 1,000.
    alone = cell.groups == 1 or cell.verb in SHARED
    assert cover(cell, repeats=18 if alone else 9, seed=5)["covered"] >= 0.83


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("scale", [1e-6, 0.05, 1.0, 1e3, 1e9])
def test_counts_told_alone_are_whole_and_within_their_range_whatever_the_noise(kind, scale):
    wild = ([0.0, 0.0], [-1e9, 1e9], [1e12, -1e12, 3.0], [0.0] * 40)
    for most, noisy in itertools.product((0, 1, 5, 10**9), wild):
        for total in (None, (float(most), 0.0), (most / 2, 1.0)):
            found = lone_counts(np.array(noisy), IntegerNoise(kind, scale), most, 0.75, total, 64)
            assert ((found >= 0) & (found <= most) & (found == np.rint(found))).all()
