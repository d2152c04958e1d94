import itertools
import tracemalloc

import numpy as np
import pytest
from hmmlearn import hmm
from scipy import stats

from sottovoce.inference.latent import ChainGrid, Field, HiddenMarkovModel, HiddenMarkovPosterior
from sottovoce.inference.latent.forward_backward import forward_filter, sample_paths
from sottovoce.inference.latent.gibbs_sampler import ChainState, transition_counts
from sottovoce.inference.latent.label_switching import common_labels
from sottovoce.privacy.randomness import seeded_rng


def by_enumeration(logs: np.ndarray, initial: np.ndarray, transition: np.ndarray) -> dict[tuple[int, ...], float]:
    """The joint probability of every path with the data of one chain."""
    steps, size = logs.shape
    law = {}
    for path in itertools.product(range(size), repeat=steps):
        p = initial[path[0]] * np.prod([transition[a, b] for a, b in itertools.pairwise(path)])
        law[path] = float(p * np.exp(sum(logs[t, s] for t, s in enumerate(path))))
    return law


@pytest.mark.parametrize("steps", [1, 4])
def test_paths_have_their_joint_law_and_the_filter_their_likelihood(steps: int) -> None:
    rng = seeded_rng(3)
    runs, chains = 2, 3000
    logs = np.repeat(rng.normal(0, 1.5, (runs, 1, steps, 3)), chains, axis=1)
    initial, transition = rng.dirichlet(np.ones(3), runs), rng.dirichlet(np.ones(3), (runs, 3))
    paths, log_likelihood = sample_paths(logs, initial, transition, rng)
    for run in range(runs):
        law = by_enumeration(logs[run, 0], initial[run], transition[run])
        total = sum(law.values())
        np.testing.assert_allclose(log_likelihood[run], np.log(total), rtol=1e-12)
        seen = {}
        for path in map(tuple, paths[run].tolist()):
            seen[path] = seen.get(path, 0) + 1
        keys = [path for path, p in law.items() if p / total * chains > 6]
        observed = np.array([seen.get(path, 0) for path in keys])
        expected = np.array([law[path] for path in keys]) * chains / total
        rest = chains - expected.sum()
        if rest > 5:
            observed, expected = np.append(observed, chains - observed.sum()), np.append(expected, rest)
        else:
            expected *= observed.sum() / expected.sum()
        assert stats.chisquare(observed, expected).pvalue > 1e-4


def test_hopeless_states_do_not_break_the_filter() -> None:
    logs = np.array([[[[-1e5, -2e5], [-3e5, -1e5], [0.0, 0.0]]]])
    filtered, log_likelihood = forward_filter(logs, np.array([[0.5, 0.5]]), np.array([[[1.0, 0.0], [0.0, 1.0]]]))
    assert np.isfinite(filtered).all()
    assert np.isfinite(log_likelihood).all()


def test_moves_are_counted_as_a_loop_counts_them() -> None:
    states = seeded_rng(4).integers(0, 3, (2, 5, 7))
    first, moves = transition_counts(states, 3)
    for run in range(2):
        expected = np.zeros((3, 3))
        for chain in states[run]:
            for a, b in itertools.pairwise(chain):
                expected[a, b] += 1
        np.testing.assert_array_equal(moves[run], expected)
        np.testing.assert_array_equal(first[run], np.bincount(states[run][:, 0], minlength=3))


def posterior_of(fields: tuple[Field, ...], chains: int, steps: int, states: int, draws: int) -> HiddenMarkovPosterior:
    rng = seeded_rng(5)
    grid = ChainGrid(Field("c", tuple(range(chains))), Field("t", tuple(range(steps))))
    state = HiddenMarkovModel(grid, fields, states).prior.start(draws, (chains, steps), rng)
    return HiddenMarkovPosterior(fields, state.initial, state.transition, state.emissions, state.states)


def test_the_likelihood_is_hmmlearns() -> None:
    rng = seeded_rng(6)
    posterior = posterior_of((Field("kind", ("a", "b", "c")),), 4, 9, 2, 3)
    counts = rng.multinomial(12, [0.2, 0.3, 0.5], (4, 9))
    coefficients = stats.multinomial(12, [1 / 3] * 3).logpmf(counts) - counts.sum(axis=-1) * np.log(1 / 3)
    for draw in range(3):
        peer = hmm.MultinomialHMM(n_components=2, n_trials=12)
        peer.startprob_, peer.transmat_ = posterior.initial[draw], posterior.transition[draw]
        peer.emissionprob_ = posterior.emissions[0][draw]
        expected = peer.score(counts.reshape(-1, 3), [9] * 4) - coefficients.sum()
        assert posterior.log_likelihood([counts])[draw] == pytest.approx(expected, rel=1e-10)


def test_held_out_cells_are_scored_as_enumeration_scores_them() -> None:
    rng = seeded_rng(7)
    posterior = posterior_of((Field("a", (0, 1)), Field("b", (0, 1, 2))), 2, 3, 2, 4)
    counts = [rng.multinomial(5, np.full(k, 1 / k), (2, 3)) for k in (2, 3)]
    missing = np.array([[True, False, False], [False, True, True]])
    total = 0.0
    for c, t in np.argwhere(missing):
        per_draw = []
        for d in range(4):
            weights = []
            for s in range(2):
                z = posterior.states[d, c].copy()
                z[t] = s
                p = posterior.initial[d, z[0]] * np.prod(
                    [posterior.transition[d, a, b] for a, b in itertools.pairwise(z)]
                )
                likelihood = np.prod(
                    [
                        np.prod(theta[d, s] ** table[c, t])
                        for theta, table in zip(posterior.emissions, counts, strict=True)
                    ]
                )
                weights.append((p, likelihood))
            prior = np.array([p for p, _ in weights])
            per_draw.append(prior / prior.sum() @ np.array([likelihood for _, likelihood in weights]))
        total += np.log(np.mean(per_draw))
    assert posterior.held_out_log_likelihood(counts, missing) == pytest.approx(total, rel=1e-10)
    assert posterior.held_out_log_likelihood(counts, np.zeros((2, 3), dtype=bool)) == 0.0


def test_states_keep_one_name_whatever_the_sampler_calls_them() -> None:
    rng = seeded_rng(8)
    truth = rng.choice(4, 300, p=[0.4, 0.3, 0.2, 0.1])
    renamings = np.array([rng.permutation(4) for _ in range(20)])
    noisy = np.where(rng.random((20, 300)) < 0.1, rng.integers(0, 4, (20, 300)), truth)
    draws = np.take_along_axis(renamings, noisy, axis=1)
    labels = common_labels(draws, 4)
    common = np.take_along_axis(np.argsort(labels, axis=1), draws, axis=1)
    np.testing.assert_array_equal(common, noisy)


def test_relabelling_renames_everything_alike() -> None:
    grid = ChainGrid(Field("c", (0, 1)), Field("t", tuple(range(30))))
    state = HiddenMarkovModel(grid, (Field("a", (0, 1, 2)),), 3).prior.start(1, (2, 30), seeded_rng(9))
    flip = np.array([2, 0, 1])  # the second draw calls state s flip[s]
    back = np.argsort(flip)
    twice = ChainState(
        np.concatenate([state.initial, state.initial[:, back]]),
        np.concatenate([state.transition, state.transition[:, back][:, :, back]]),
        (np.concatenate([state.emissions[0], state.emissions[0][:, back]]),),
        np.concatenate([state.states, flip[state.states]]),
    )
    posterior = HiddenMarkovPosterior.relabelled((Field("a", (0, 1, 2)),), twice)
    for array in (posterior.initial, posterior.transition, posterior.emissions[0], posterior.states):
        np.testing.assert_array_equal(array[0], array[1])
    share = np.bincount(posterior.states[0].ravel(), minlength=3)
    assert (np.diff(share) <= 0).all()
    counts = [seeded_rng(1).integers(0, 5, (2, 30, 3))]
    before = HiddenMarkovPosterior(
        (Field("a", (0, 1, 2)),), twice.initial, twice.transition, twice.emissions, twice.states
    )
    np.testing.assert_allclose(posterior.log_likelihood(counts), before.log_likelihood(counts))


def test_the_compiled_filter_draws_what_the_plain_one_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same uniform numbers give the same paths, with impossible states and with states that cannot be left."""
    pytest.importorskip("jax")
    rng = np.random.default_rng(2)
    logs = 5 * rng.normal(size=(2, 9, 60, 5))
    logs[:, 3, 10:20, :4] = -1e5
    initial, transition = rng.dirichlet(np.ones(5), 2), rng.dirichlet(np.full(5, 0.1), (2, 5))
    transition[1, 0] = [1, 0, 0, 0, 0]
    compiled = sample_paths(logs, initial, transition, seeded_rng(3))
    monkeypatch.setattr("sottovoce.inference.latent.forward_backward._MANY", 10**9)
    plain = sample_paths(logs, initial, transition, seeded_rng(3))
    np.testing.assert_array_equal(compiled[0], plain[0])
    np.testing.assert_allclose(compiled[1], plain[1], rtol=1e-12)


def test_paths_take_memory_by_their_states_not_by_pairs_of_them() -> None:
    logs, pair = np.zeros((1, 100, 24, 30)), np.full((1, 30, 30), 1 / 30)
    tracemalloc.start()
    sample_paths(logs, pair[:, 0], pair, seeded_rng(1), often=False)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 10 * logs.nbytes
