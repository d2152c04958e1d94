"""Noisy counts with the true ones summed out: their likelihoods, and a whole model by enumeration."""

import itertools

import numpy as np
import pytest
from scipy import special

from sottovoce.inference.latent import ChainGrid, Field, HiddenMarkovModel, LatentCounts
from sottovoce.inference.latent.cell_likelihood import CellLikelihood
from sottovoce.inference.latent.gibbs_sampler import noisy_sweep
from sottovoce.inference.latent.noised_poisson import NoisedPoisson, log_noised_poisson
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.randomness import seeded_rng


def exact_log(seen: int, mean: float, kind: str, scale: float) -> float:
    """The sum over true counts; all terms are positive, so that doubles keep ten digits of it."""
    x = np.arange(int(max(seen, mean, 0) + 30 * max(mean, seen, 1) ** 0.5 + 60))
    gap = np.abs(seen - x) / scale
    logs = x * np.log(mean) - mean - special.gammaln(x + 1) - (gap if kind == "laplace" else gap * gap / 2)
    return float(special.logsumexp(logs))


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.05, 0.6, 4.0, 50.0])
def test_the_table_holds_the_sum_over_true_counts(kind: str, scale: float) -> None:
    noise, seen = IntegerNoise(kind, scale), np.array([[-int(3 * scale), 0, 1, 7, 260]])
    table = NoisedPoisson.of((seen,), (noise,))
    for mean in (1e-12, 0.004, 0.7, 6.0, 30.0, 240.0, 300.0):
        exact = np.array([exact_log(int(y), mean, kind, scale) for y in seen[0]])
        best = np.array([exact_log(int(y), max(float(y), 0.01), kind, scale) for y in seen[0]])
        near = exact > best - 15  # what is less likely than that need only be unlikely
        means = np.full(seen.shape, np.log(mean))
        np.testing.assert_allclose(table(means)[0][near], exact[near], atol=0.05)
        assert np.all(table(means)[0][~near] < best[~near] - 8)


def test_the_slope_is_the_expected_count_less_its_mean() -> None:
    noise, seen, logs = IntegerNoise("laplace", 3.0), np.array([-4, 2, 30]), np.log([1.5, 9.0, 18.0])
    rise = [log_noised_poisson(seen, logs + step, noise)[0] for step in (1e-4, -1e-4)]
    np.testing.assert_allclose(log_noised_poisson(seen, logs, noise)[1], (rise[0] - rise[1]) / 2e-4, atol=1e-3)


def test_tables_with_noise_of_their_own_keep_their_places() -> None:
    tables = (np.array([[3, 1]]), np.array([[0, 5]]), np.array([[2, 2]]))
    noises = (IntegerNoise("laplace", 1.0), IntegerNoise("gaussian", 4.0), IntegerNoise("laplace", 1.0))
    logs = np.log([[2.0, 3.0, 1.0, 4.0, 2.5, 0.5]])
    found = NoisedPoisson.of(tables, noises)(logs)
    for i, (table, noise) in enumerate(zip(tables, noises, strict=True)):
        mine = slice(2 * i, 2 * i + 2)
        np.testing.assert_allclose(found[:, mine], log_noised_poisson(table, logs[:, mine], noise)[0], atol=0.01)


def test_cells_last_and_in_place_is_the_same_table() -> None:
    rng = seeded_rng(3)
    tables = tuple(rng.integers(-9, 60, (7, size)) for size in (2, 3))
    noises = (IntegerNoise("laplace", 1.0), IntegerNoise("gaussian", 4.0))
    table, cells = NoisedPoisson.of(tables, noises), CellLikelihood.of(tables, noises)
    for spread in (0.1, 5.0, 300.0):  # within the nodes, and far beyond both ends
        logs, theta = rng.normal(3.0, 1.0, (4, 7)), rng.normal(-1.0, spread, (4, 5))
        direct = np.swapaxes(table(logs[..., None] + theta[:, None]), 1, 2)
        by_size = cells(theta[..., None], cells.fixed(logs[:, None])).copy()
        by_theta = cells(logs[:, None], cells.fixed(theta[..., None]))
        np.testing.assert_allclose(by_size, direct, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(by_theta, direct, rtol=1e-9, atol=1e-9)
    none = CellLikelihood.of((np.zeros((0, 2), dtype=np.int64),), noises[:1])
    assert none(np.zeros((1, 2, 1)), none.fixed(np.zeros((1, 1, 0)))).shape == (1, 2, 0)


def test_compiled_moves_are_the_plain_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same random numbers give the same moves, with cells that were not seen, an empty state and a third column."""
    pytest.importorskip("jax")
    rng = seeded_rng(4)
    tables = tuple(rng.integers(-5, 90, (40, size)) for size in (2, 3))
    latent = LatentCounts(tables, (IntegerNoise("laplace", 2.0), IntegerNoise("gaussian", 4.0)))
    grid = ChainGrid(Field("region", tuple(range(5))), Field("month", tuple(range(9))))
    model = HiddenMarkovModel(grid, (Field("a", (0, 1)), Field("b", (0, 1, 2))), states=4)
    seen = np.arange(45).reshape(5, 9) % 9 != 4
    begin, found = (model.prior.start(3, grid.shape, rng), latent.start(3)), []
    for many in (10**9, 1):
        monkeypatch.setattr("sottovoce.inference.latent.latent_counts._MANY", many)
        (state, sizes), same = begin, seeded_rng(9)
        empty = 0
        for _ in range(3):
            state, sizes = noisy_sweep(model.prior, state, sizes, latent, seen, same)
            empty += sum(len(np.unique(states[seen])) < 4 for states in state.states)
        assert empty
        found.append((state, sizes))
    (plain, plain_sizes), (fast, fast_sizes) = found
    np.testing.assert_array_equal(fast.states, plain.states)
    np.testing.assert_allclose(fast_sizes.logs, plain_sizes.logs, rtol=1e-9)
    for theta, other in zip(fast.emissions, plain.emissions, strict=True):
        np.testing.assert_allclose(theta, other, rtol=1e-9)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_a_tiny_model_agrees_with_every_state_and_count_enumerated(kind: str) -> None:
    """Two steps, two states, two categories: probabilities and sizes summed out in closed form, the rest enumerated."""
    noise, noisy, alpha, shape, prior = IntegerNoise(kind, 1.5), np.array([[6, -1], [2, 4]]), 0.6, 2.0, (3.0, 2.0)
    counts = np.array(list(itertools.product(range(11), repeat=4))).reshape(-1, 2, 2)
    totals = counts.sum(axis=2)
    base = noise.log_weight(noisy - counts).sum(axis=(1, 2)) - special.gammaln(counts + 1.0).sum(axis=(1, 2))
    # Sizes given the law's rate b: ∫ λ^(m+a-1) e^(-(b+1)λ) b^a dλ, and b from its gamma prior on a fine grid.
    b = np.linspace(0.005, 12, 1500)[:, None]
    over_b = (prior[0] - 1) * np.log(b) - prior[1] * b + 2 * shape * np.log(b)
    m = np.arange(41)
    size = special.logsumexp(over_b - (m + 2 * shape) * np.log1p(b), axis=0)
    base += special.gammaln(totals + shape).sum(axis=1) + size[totals.sum(axis=1)]
    log_beta = special.betaln(counts[..., 0] + alpha, counts[..., 1] + alpha)
    apart, pooled = log_beta.sum(axis=1), special.betaln(*(counts.sum(axis=1) + alpha).T)
    apart, pooled = np.exp(base + apart - base.max()), np.exp(base + pooled + special.betaln(alpha, alpha) - base.max())
    # Both steps in one state, or not: two labellings each, all four equally likely beforehand.
    total = apart.sum() + pooled.sum()
    stay = pooled.sum() / total
    own = (counts[:, 0, 0] + alpha) / (totals[:, 0] + 2 * alpha)
    joint = (counts[:, :, 0].sum(axis=1) + alpha) / (totals.sum(axis=1) + 2 * alpha)
    first = ((apart * own).sum() + (pooled * joint).sum()) / total

    grid = ChainGrid(Field("region", (0,)), Field("month", (0, 1)))
    model = HiddenMarkovModel(grid, (Field("a", (0, 1)),), states=2, emission_prior=alpha)
    latent = LatentCounts((noisy,), (noise,), shapes=(shape,), prior=prior)
    rng, runs, seen = seeded_rng(5), 1200, np.ones((1, 2), dtype=bool)
    state, sizes = model.prior.start(runs, grid.shape, rng), latent.start(runs)
    kept = []
    for sweep in range(60):
        state, sizes = noisy_sweep(model.prior, state, sizes, latent, seen, rng)
        if sweep >= 20:
            z = state.states[:, 0]
            kept.append([(z[:, 0] == z[:, 1]).mean(), state.emissions[0][np.arange(runs), z[:, 0], 0].mean()])
    np.testing.assert_allclose(np.mean(kept, axis=0), [stay, first], atol=0.01)


def test_the_law_of_cell_sizes_is_learned_group_by_group() -> None:
    rng, groups, means = seeded_rng(8), np.repeat([0, 2], 1500), np.array([30.0, 0.5])  # nobody is in the second
    sizes = rng.gamma(4.0, np.repeat(means, 1500) / 4)[None]
    latent = LatentCounts((np.zeros((3000, 2)),), (IntegerNoise("laplace", 0.1),), groups=groups)
    drawn = [latent._draw_law(np.log(sizes), rng) for _ in range(50)]
    shape, rate = np.array([s[0] for s, _ in drawn]), np.array([r[0] for _, r in drawn])
    assert np.mean(shape) == pytest.approx(4.0, rel=0.15)
    np.testing.assert_allclose(np.mean(shape[:, None] / rate[:, [0, 2]], axis=0), means, rtol=0.05)


def test_without_noise_probabilities_follow_their_dirichlet() -> None:
    counts, rng = np.array([[50, 3, 0, 11]]), seeded_rng(1)
    latent = LatentCounts((counts,), (IntegerNoise("laplace", 0.02),))
    runs = 1000
    theta, states = np.full((runs, 1, 4), np.log(0.25)), np.zeros((runs, 1), dtype=np.int64)
    sizes = latent.start(runs)
    for _ in range(60):
        theta = latent.move_probabilities(theta, states, sizes, np.full(4, 0.25), rng)
    draws, alpha = np.exp(theta[:, 0]), counts[0] + 0.25
    np.testing.assert_allclose(draws.mean(axis=0), alpha / alpha.sum(), atol=0.006)
    assert np.quantile(draws[:, 2], 0.3) < 1e-3  # a category without records is likely next to nothing


def test_tables_that_do_not_belong_together_are_refused() -> None:
    noise = IntegerNoise("laplace", 1.0)
    for noisy, noises in [((np.zeros((2, 2)), np.zeros((3, 2))), (noise, noise)), ((np.zeros((2, 2)),), ()), ((), ())]:
        with pytest.raises(InvalidValue):
            LatentCounts(noisy, noises)
    for wrong in ({"shapes": (0.0,)}, {"shapes": ()}, {"prior": (0.0, 1.0)}):
        with pytest.raises(InvalidValue):
            LatentCounts((np.zeros((3, 2)),), (noise,), **wrong)
