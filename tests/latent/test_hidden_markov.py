import numpy as np
import pytest
from hmmlearn import hmm

from sottovoce.inference.latent import ChainGrid, Field, HiddenMarkovModel, HiddenMarkovPosterior, NoisyTables
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.promises import ApproxDP, PureDP
from sottovoce.privacy.randomness import seeded_rng

# Short chains suffice for most of what is tested here; those that need long ones say so.
pytestmark = pytest.mark.filterwarnings("ignore::sottovoce.inference.latent.diagnostics.NotConverged")

FIELDS = (Field("kind", ("a", "b", "c")), Field("hurt", (0, 1)))
TRANSITION = np.array([[0.92, 0.08], [0.15, 0.85]])
EMISSIONS = (np.array([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5]]), np.array([[0.9, 0.1], [0.6, 0.4]]))


def grid(chains: int, steps: int) -> ChainGrid:
    return ChainGrid(Field("region", tuple(range(chains))), Field("month", tuple(range(steps))))


def simulate(
    chains: int, steps: int, per_cell: int, seed: int
) -> tuple[HiddenMarkovModel, list[np.ndarray], np.ndarray]:
    rng = seeded_rng(seed)
    z = np.empty((chains, steps), dtype=int)
    z[:, 0] = rng.integers(0, 2, chains)
    for t in range(1, steps):
        z[:, t] = np.where(rng.random(chains) < TRANSITION[z[:, t - 1], 0], 0, 1)
    counts = [rng.multinomial(per_cell, theta[z]) for theta in EMISSIONS]
    return HiddenMarkovModel(grid(chains, steps), FIELDS, states=2), counts, z


def noised(model: HiddenMarkovModel, counts: list[np.ndarray], noise: IntegerNoise, seed: int) -> NoisyTables:
    rng = seeded_rng(seed)
    n = int(counts[0].sum())
    noisy = tuple(noise.add(c.ravel(), rng).reshape(c.shape) for c in counts)
    return NoisyTables(model.tables, n, noisy, (noise,) * len(counts))


@pytest.fixture(scope="module")
def large() -> tuple[HiddenMarkovModel, list[np.ndarray], np.ndarray]:
    return simulate(12, 40, 80, seed=1)


def assert_recovers(posterior: HiddenMarkovPosterior, z: np.ndarray, slack: float) -> None:
    common = 0 if (z == 0).mean() > 0.5 else 1  # labels run from the commonest state
    order = [common, 1 - common]
    assert (posterior.most_frequent_states == np.argsort(order)[z]).mean() > 0.97
    for theta, truth in zip(posterior.emissions, EMISSIONS, strict=True):
        np.testing.assert_allclose(theta.mean(axis=0), truth[order], atol=slack)
    np.testing.assert_allclose(posterior.transition.mean(axis=0), TRANSITION[order][:, order], atol=0.08)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_private_posterior_recovers_what_made_the_data(noise: str) -> None:
    """Twelve records a cell tell its state too seldom by themselves: its neighbours and the noise must be known."""
    model, counts, z = simulate(12, 40, 12, seed=1)
    mech = model.noisy_counts(int(counts[0].sum()), ApproxDP(2.0, 1e-6), noise)
    tables = noised(model, counts, mech.noises[0], seed=2)
    seen = [np.maximum(table, 0).reshape(true.shape) for table, true in zip(tables.counts, counts, strict=True)]
    alone = sum(table @ np.log(theta.T) for table, theta in zip(seen, EMISSIONS, strict=True)).argmax(axis=-1)
    order = [0, 1] if (z == 0).mean() > 0.5 else [1, 0]  # labels run from the commonest state
    for aware in (True, False):
        posterior = model.fit(tables, sweeps=50, burn_in=20, noise_aware=aware, rng=seeded_rng(3))
        drawn = zip(posterior.emissions, EMISSIONS, strict=True)
        off = [np.abs(theta.mean(axis=0) - truth[order]) / theta.std(axis=0) for theta, truth in drawn]
        moves = np.abs(posterior.transition.mean(axis=0) - TRANSITION[order][:, order]).max()
        right = (posterior.most_frequent_states == np.argsort(order)[z]).mean()
        if aware:
            assert max(map(np.max, off)) < 3 and moves < 0.05
            assert right > (alone == z).mean() + 0.04
        else:  # counts below zero were cut off, and noise looks like moves
            assert max(map(np.max, off)) > 3.5 and moves > 0.05


def test_without_a_limit_on_epsilon_it_is_the_plain_sampler(large) -> None:
    model, counts, z = large
    mech = model.noisy_counts(int(counts[0].sum()), PureDP(1e6), "laplace")
    quiet = noised(model, counts, mech.noises[0], seed=4)
    for noisy, true in zip(quiet.counts, counts, strict=True):
        np.testing.assert_array_equal(noisy.reshape(true.shape), true)
    plain = model.fit(counts, sweeps=40, burn_in=15, rng=seeded_rng(5))
    same = model.fit(quiet, sweeps=40, burn_in=15, noise_aware=False, rng=seeded_rng(5))
    assert same == plain  # draw by draw
    aware = model.fit(quiet, sweeps=40, burn_in=15, rng=seeded_rng(6))
    np.testing.assert_allclose(aware.emissions[0].mean(axis=0), plain.emissions[0].mean(axis=0), atol=5e-3)
    assert_recovers(plain, z, slack=0.02)


def test_the_plain_sampler_reaches_hmmlearns_likelihood() -> None:
    rng = seeded_rng(7)
    model, counts, _ = simulate(20, 30, 60, seed=8)
    one = HiddenMarkovModel(model.grid, FIELDS[:1], states=2)
    posterior = one.fit(counts[:1], sweeps=160, burn_in=60, rng=rng)
    peer = hmm.MultinomialHMM(n_components=2, n_trials=60, n_iter=200, tol=1e-6, random_state=1, init_params="ste")
    peer.fit(counts[0].reshape(-1, 3), [30] * 20)
    best = HiddenMarkovPosterior(
        FIELDS[:1], peer.startprob_[None], peer.transmat_[None], (peer.emissionprob_[None],), posterior.states[:1]
    ).log_likelihood(counts[:1])[0]
    # With much data the log-likelihood of a posterior draw lies χ²_p/2 below its maximum, p free probabilities:
    # two transitions, one start, twice two emissions.
    free = 2 + 1 + 4
    below = best - posterior.log_likelihood(counts[:1])
    assert below.min() > -0.05
    assert below.mean() == pytest.approx(free / 2, abs=0.6)


def test_intervals_that_know_of_the_noise_are_honest() -> None:
    errors = {True: [], False: []}
    inside = {True: [], False: []}
    for seed in range(2):
        model, counts, z = simulate(6, 20, 40, seed=100 + seed)
        model = HiddenMarkovModel(model.grid, FIELDS, states=2, emission_prior=1.0)
        common = 0 if (z == 0).mean() > 0.5 else 1
        order = [common, 1 - common]
        tables = noised(model, counts, IntegerNoise("gaussian", 6.0), seed=seed)
        for aware in (True, False):
            posterior = model.fit(tables, sweeps=110, burn_in=40, noise_aware=aware, rng=seeded_rng(seed))
            for field, truth in zip(FIELDS, EMISSIONS, strict=True):
                theta, ends = posterior.emission(field.name), posterior.interval(name=field.name)
                low, high = ends[..., 0], ends[..., 1]
                errors[aware].append(((theta.mean(axis=0) - truth[order]) / theta.std(axis=0)).ravel())
                inside[aware].append(((low <= truth[order]) & (truth[order] <= high)).ravel())
    aware, plug_in = (np.sqrt(np.mean(np.concatenate(errors[key]) ** 2)) for key in (True, False))
    assert aware < 1.7
    assert plug_in > 2.5  # counts below zero were cut off, which the plug-in posterior does not know
    assert np.mean(np.concatenate(inside[True])) > 0.8
    assert np.mean(np.concatenate(inside[False])) < 0.6


def test_missing_steps_are_bridged_and_say_nothing() -> None:
    model, counts, _ = simulate(6, 30, 60, seed=10)
    missing = seeded_rng(1).random((6, 30)) < 0.2
    garbage = [np.where(missing[..., None], 999, c) for c in counts]
    one = model.fit(counts, sweeps=8, missing=missing, starts=2, rng=seeded_rng(2))
    two = model.fit(garbage, sweeps=8, missing=missing, starts=2, rng=seeded_rng(2))
    assert one == two
    noise = IntegerNoise("laplace", 2.0)
    tables = noised(model, counts, noise, seed=3)
    spoiled = NoisyTables(
        model.tables,
        tables.n,
        tuple(np.where(missing[..., None], 999, t) for t in tables.counts),
        tables.noises,
    )
    one = model.fit(tables, sweeps=16, missing=missing, rng=seeded_rng(2))
    two = model.fit(spoiled, sweeps=16, missing=missing, rng=seeded_rng(2))
    assert one == two
    single = HiddenMarkovModel(model.grid, FIELDS, states=1)
    without = single.fit(tables, sweeps=16, missing=missing, rng=seeded_rng(2))
    better = one.held_out_log_likelihood(counts, missing) - without.held_out_log_likelihood(counts, missing)
    assert better > 20


def test_one_state_is_naive_bayes_without_classes() -> None:
    model, counts, _ = simulate(3, 4, 50, seed=11)
    one = HiddenMarkovModel(model.grid, FIELDS, states=1, emission_prior=2.0)
    posterior = one.fit(counts, sweeps=200, burn_in=0, rng=seeded_rng(1))
    assert not posterior.states.any()
    np.testing.assert_array_equal(posterior.transition, 1.0)
    for theta, table in zip(posterior.emissions, counts, strict=True):
        total = table.sum(axis=(0, 1)) + 2.0
        np.testing.assert_allclose(theta[:, 0].mean(axis=0), total / total.sum(), atol=3e-3)


def test_more_states_than_cells_leaves_some_to_the_prior() -> None:
    model = HiddenMarkovModel(grid(1, 3), FIELDS, states=12)
    counts = [np.array([[[9, 0, 0], [0, 9, 0], [0, 0, 9]]]), np.array([[[9, 0], [0, 9], [9, 0]]])]
    posterior = model.fit(counts, sweeps=50, burn_in=10, rng=seeded_rng(1))
    assert posterior.states.max() < 12
    assert all(np.isfinite(theta).all() for theta in posterior.emissions)


def test_no_events_give_the_prior_back() -> None:
    model = HiddenMarkovModel(grid(2, 3), FIELDS, states=2)
    counts = model.counts({name: [] for name in model.tables.columns})
    posterior = model.fit(counts, sweeps=400, burn_in=0, rng=seeded_rng(1))
    np.testing.assert_allclose(posterior.emissions[0].mean(axis=(0, 1)), 1 / 3, atol=0.02)
    everything = np.ones((2, 3), dtype=bool)
    silent = model.fit(counts, sweeps=20, burn_in=0, missing=everything, rng=seeded_rng(1))
    assert len(silent) == 4 * 20
    assert repr(silent).startswith("HiddenMarkovPosterior(80 draws of ") and "transition (2 × 2)" in repr(silent)


def test_empty_cells_are_steps_without_news() -> None:
    model, counts, _ = simulate(4, 10, 30, seed=12)
    empty = np.zeros((4, 10), dtype=bool)
    empty[:, 3] = True
    emptied = [np.where(empty[..., None], 0, c) for c in counts]
    one = model.fit(emptied, sweeps=20, burn_in=5, rng=seeded_rng(1))
    two = model.fit(emptied, sweeps=20, burn_in=5, missing=empty, rng=seeded_rng(1))
    assert one == two


def test_a_fit_draws_securely_unless_told_otherwise() -> None:
    model, counts, _ = simulate(2, 5, 20, seed=13)
    one, two = (model.fit(counts, sweeps=10, burn_in=5) for _ in range(2))
    assert one != two
    assert HiddenMarkovPosterior.from_dict(one.to_dict()) == one
    assert one.to_arviz().posterior["kind"].shape == (4, 5, 2, 3)
    assert len(one.after(3)) == 4 * 2


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m, c: HiddenMarkovModel(m.grid, FIELDS, states=0), InvalidValue, "states must be"),
        (lambda m, c: HiddenMarkovModel(m.grid, (), states=2), InvalidValue, "nothing to count"),
        (lambda m, c: HiddenMarkovModel(m.grid, (Field("x", (1,)),), states=2), InvalidValue, "single category"),
        (lambda m, c: HiddenMarkovModel(m.grid, FIELDS, 2, emission_prior=0.0), InvalidValue, "emission_prior"),
        (lambda m, c: HiddenMarkovModel(m.grid, FIELDS, 2, transition_prior=np.nan), InvalidValue, "transition_prior"),
        (lambda m, c: m.fit(c, sweeps=10, burn_in=10), InvalidValue, "burn_in must leave"),
        (lambda m, c: m.fit(c, sweeps=0), InvalidValue, "sweeps must be"),
        (lambda m, c: m.fit(c, starts=0), InvalidValue, "starts must be"),
        (lambda m, c: m.fit(c, chains=0), InvalidValue, "chains must be"),
        (lambda m, c: m.fit(c[:1]), InvalidData, "for each field"),
        (lambda m, c: m.fit({"region": ["a"], "month": [1]}), InvalidData, r"as counts\(records\) does"),
        (lambda m, c: m.fit([c[0], -c[1]]), InvalidData, ">= 0"),
        (lambda m, c: m.fit([c[0], c[1] * np.nan]), InvalidData, ">= 0"),
        (lambda m, c: m.fit(c, missing=np.zeros((3, 3), dtype=bool)), InvalidData, "missing must be"),
        (lambda m, c: m.fit(c, missing=np.zeros((2, 5))), InvalidData, "truth values"),
        (
            lambda m, c: HiddenMarkovModel(m.grid, FIELDS[:1], 2).fit(noised(m, c, IntegerNoise("laplace", 1.0), 1)),
            InvalidData,
            "other fields",
        ),
        (lambda m, c: m.counts({"region": [7], "month": [0], "kind": ["a"]}), InvalidData, "'hurt'"),
        (lambda m, c: m.fit(c, sweeps=6, burn_in=1).emission("x"), InvalidValue, "no field"),
        (lambda m, c: m.fit(c, sweeps=6, burn_in=1).interval(1.0, "kind"), InvalidValue, "level"),
        (lambda m, c: m.fit(c, sweeps=6, burn_in=1).after(7), InvalidValue, "burn_in"),
        (lambda m, c: m.fit(c, sweeps=6, burn_in=1).log_likelihood(c[:1]), InvalidData, "for each field"),
        (
            lambda m, c: m.fit(c, sweeps=6, burn_in=1).held_out_log_likelihood(c, np.ones((1, 5), dtype=bool)),
            InvalidData,
            "2 chains and 5 steps",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(call, error, message: str) -> None:
    model, counts, _ = simulate(2, 5, 20, seed=14)
    with pytest.raises(error, match=message):
        call(model, counts)
