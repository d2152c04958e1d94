"""States drawn one by one with the transitions summed out, against every path of two short chains."""

import itertools

import numpy as np
import pytest
from scipy import special, stats

from sottovoce.inference.latent import ChainGrid, Field, HiddenMarkovModel
from sottovoce.inference.latent.collapsed import collapsed_states
from sottovoce.privacy.randomness import seeded_rng

PRIOR = 0.7
EMISSION = np.log(np.random.default_rng(3).dirichlet([1, 1], (2, 3)))


def log_weight(states, weight):
    """The law of (chain, step) states: emissions times Dirichlet-multinomial first states and moves, to a power."""
    logs = EMISSION[np.arange(2)[:, None], np.arange(3), states].sum()
    first = np.bincount(states[:, 0], minlength=2)
    moves = np.zeros((2, 2))
    np.add.at(moves, (states[:, :-1], states[:, 1:]), 1)
    for row in (first, *moves):
        logs += special.gammaln(PRIOR + row).sum() - special.gammaln(2 * PRIOR + row.sum())
    return weight * logs


@pytest.mark.parametrize("weight", [1.0, 0.3])
def test_a_sweep_leaves_the_law_of_all_paths_as_it_is(weight):
    paths = np.array(list(itertools.product((0, 1), repeat=6))).reshape(-1, 2, 3)
    logs = np.array([log_weight(path, weight) for path in paths])
    law = np.exp(logs - special.logsumexp(logs))
    rng, runs = seeded_rng(1), 40_000
    states = paths[rng.choice(64, runs, p=law)]
    emission = np.broadcast_to(EMISSION, (runs, 2, 3, 2))
    for _ in range(3):
        states = collapsed_states(emission, states, PRIOR, rng, np.full(runs, weight))
    found = np.bincount(states.reshape(runs, -1) @ (2 ** np.arange(5, -1, -1)), minlength=64)
    assert stats.chisquare(found, runs * law).pvalue > 1e-3


@pytest.mark.parametrize("aware", [False, True])
def test_a_collapsed_fit_finds_what_paths_find(aware):
    grid = ChainGrid(Field("place", (0, 1)), (Field("time", tuple(range(12))),))
    model = HiddenMarkovModel(grid, (Field("kind", (0, 1, 2)),), states=2)
    z = np.repeat([[0, 1], [1, 0]], 6, axis=1)
    counts = [np.random.default_rng(1).multinomial(60, np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])[z])]
    data = counts
    if aware:
        from sottovoce.inference.latent import NoisyTables
        from sottovoce.mechanisms.integer_noise import IntegerNoise

        noise = IntegerNoise("laplace", 4.0)
        noisy = noise.add(counts[0].ravel(), seeded_rng(2)).reshape(counts[0].shape)
        data = NoisyTables(model.tables, 60 * 24, (noisy,), (noise,))
    means = []
    for collapsed in (False, True):
        posterior = model.fit(data, sweeps=120, chains=4, collapsed=collapsed, rng=seeded_rng(4))
        assert np.array_equal(posterior.most_frequent_states == posterior.most_frequent_states[0, 0], z == z[0, 0])
        means.append(posterior.cell_emission("kind").mean(axis=(0, 1, 2)))
    np.testing.assert_allclose(*means, atol=0.01)
