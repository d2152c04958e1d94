"""Getting it right (Geweke 2004): start many runs at an exact draw of the joint law of everything, let each sampler
and the redrawing of its data take turns, and see whether the law is still the same."""

import numpy as np
import pytest

from sottovoce.inference.latent import ChainGrid, Field, HiddenMarkovModel, LatentCounts, TemperedHiddenMarkov
from sottovoce.inference.latent.gibbs_sampler import ChainState, gibbs_sweep, noisy_sweep
from sottovoce.inference.latent.latent_counts import CellSizes
from sottovoce.mechanisms.conjugate.distributions.truncated_dirichlet import TruncatedDirichlet
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.randomness import seeded_rng

CHAINS, STEPS = 2, 3
GRID = ChainGrid(Field("region", tuple(range(CHAINS))), Field("month", tuple(range(STEPS))))
MODEL = HiddenMarkovModel(
    GRID,
    (Field("a", (0, 1)), Field("b", (0, 1, 2))),
    states=2,
    emission_prior=1.3,
    transition_prior=0.8,
)
FAR = 4.5


def features(state: ChainState, *more: np.ndarray) -> np.ndarray:
    """Functions of everything that is unknown; some tell the states apart, some do not."""
    z = state.states
    columns = [
        state.initial[:, 0],
        state.transition[:, 0, 1],
        state.transition[:, 1, 1] ** 2,
        *(theta[:, 0, 0] for theta in state.emissions),
        *((theta**2).sum(axis=(1, 2)) for theta in state.emissions),
        *((theta[:, 0] * theta[:, 1]).sum(axis=1) for theta in state.emissions),
        z.mean(axis=(1, 2)),
        (z[:, :, 1:] == z[:, :, :-1]).mean(axis=(1, 2)),
        *more,
    ]
    return np.stack(columns, axis=1)


def assert_same_law(one: np.ndarray, two: np.ndarray) -> None:
    for power in (1, 2):
        gap = (one**power).mean(axis=0) - (two**power).mean(axis=0)
        spread = np.sqrt((one**power).var(axis=0) / len(one) + (two**power).var(axis=0) / len(two))
        assert np.all(np.abs(gap) < FAR * np.maximum(spread, 1e-12)), (power, gap / spread)


def log_density(state: ChainState, tables: list[np.ndarray]) -> np.ndarray:
    """log p(records | states, θ) of each run: what ties the data to everything else."""
    run = np.arange(len(state.states))[:, None, None]
    parts = [
        (t * np.log(theta[run, state.states])).sum(axis=(1, 2, 3))
        for t, theta in zip(tables, state.emissions, strict=True)
    ]
    return np.sum(parts, axis=0)


def draw_tables(state: ChainState, totals: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    run = np.arange(len(state.states))[:, None, None]
    return [rng.multinomial(totals, theta[run, state.states]) for theta in state.emissions]


def test_the_plain_sampler_keeps_the_joint_law() -> None:
    rng, runs = seeded_rng(11), 8000
    totals = np.broadcast_to([[4, 0, 17], [1, 9, 5]], (runs, CHAINS, STEPS))
    fresh = MODEL.prior.start(runs, GRID.shape, rng)
    state = MODEL.prior.start(runs, GRID.shape, rng)
    for _ in range(10):
        tables = draw_tables(state, totals, rng)
        state, _ = gibbs_sweep(MODEL.prior, state, [t.astype(float) for t in tables], rng)
    expected = log_density(fresh, draw_tables(fresh, totals, rng))
    assert_same_law(features(state, log_density(state, tables)), features(fresh, expected))


def draw_noise(noise: IntegerNoise, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    k = np.arange(-60, 61)
    law = np.exp(noise.log_weight(k))
    return rng.choice(k, shape, p=law / law.sum())


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_the_noise_aware_sampler_keeps_the_joint_law(kind: str) -> None:
    rng, runs, shapes, prior = seeded_rng(12), 3000, (1.0, 3.0), (6.0, 18.0)
    noises = (IntegerNoise(kind, 1.2), IntegerNoise(kind, 0.7))
    seen = np.array([[True, True, True], [True, False, True]])
    groups = np.nonzero(seen)[0]

    def draw(count: int) -> tuple[ChainState, CellSizes]:
        shape, rate = rng.choice(shapes, count), rng.gamma(prior[0], 1 / prior[1], (count, CHAINS))
        sizes = rng.gamma(shape[:, None], 1 / rate[:, groups])
        return MODEL.prior.start(count, GRID.shape, rng), CellSizes(np.log(sizes), shape, rate)

    def noised(state: ChainState, sizes: CellSizes) -> tuple[np.ndarray, ...]:
        run = np.arange(len(state.states))[:, None]
        means = [np.exp(sizes.logs)[..., None] * theta[run, state.states[:, seen]] for theta in state.emissions]
        true = [rng.poisson(mean) for mean in means]
        return tuple(t + draw_noise(noise, t.shape, rng) for t, noise in zip(true, noises, strict=True))

    def data(state: ChainState, sizes: CellSizes) -> list[np.ndarray]:
        run = np.arange(len(state.states))[:, None]
        means = np.exp(sizes.logs)[..., None] * state.emissions[1][run, state.states[:, seen]]
        return [sizes.logs.mean(axis=1), sizes.logs.std(axis=1), np.log(sizes.shape), *np.log(sizes.rate.T),
                np.sqrt(means).mean(axis=(1, 2))]  # fmt: skip

    fresh, fresh_sizes = draw(4 * runs)
    state, sizes = draw(runs)
    for _ in range(8):
        latent = LatentCounts(noised(state, sizes), noises, shapes=shapes, prior=prior, groups=groups, often=False)
        state, sizes = noisy_sweep(MODEL.prior, state, sizes, latent, seen, rng)
    assert_same_law(features(state, *data(state, sizes)), features(fresh, *data(fresh, fresh_sizes)))


def test_the_tempered_sampler_keeps_its_joint_law() -> None:
    # At temperature T the joint law of everything is prior x likelihood^(1/T), multinomial coefficients as they are:
    # records given the rest have probabilities θ^w / Σθ^w, and (θ, z) has weight Π_cells (Σθ^w)^m beside its prior.
    rng, runs, w, floor, pool = seeded_rng(13), 3000, 0.4, 0.1, 72_000
    model = HiddenMarkovModel(GRID, (Field("a", (0, 1)),), states=2, emission_prior=0.9)
    mech = TemperedHiddenMarkov(model, n=41, temperature=1 / w, sweeps=1, floor=floor)
    totals = np.array([[6, 0, 12], [4, 8, 11]])

    def heat(state: ChainState) -> np.ndarray:
        theta = state.emissions[0] ** w
        return theta[np.arange(len(theta))[:, None, None], state.states]

    def draw_hot(state: ChainState) -> list[np.ndarray]:
        hot = heat(state)
        return [rng.multinomial(totals, hot / hot.sum(axis=-1, keepdims=True)).astype(float)]

    start = model.prior.start(pool, GRID.shape, rng)
    theta = TruncatedDirichlet(np.array([0.9, 0.9]), floor / 2).sample((pool, 2), rng)
    start = ChainState(start.initial, start.transition, (theta,), start.states)
    log_weight = (totals * np.log(heat(start).sum(axis=-1))).sum(axis=(1, 2))
    weight = np.exp(log_weight - log_weight.max())

    def draw() -> ChainState:
        pick = rng.choice(pool, runs, p=weight / weight.sum())
        return ChainState(start.initial[pick], start.transition[pick], (theta[pick],), start.states[pick])

    fresh, state = draw(), draw()
    for _ in range(7):
        tables = draw_hot(state)
        state = mech.sweep(state, tables, rng)
    assert state.emissions[0].min() >= floor / 2
    assert weight.sum() ** 2 / (weight**2).sum() > 2 * runs  # the pool is wide enough to draw from
    expected = log_density(fresh, draw_hot(fresh))
    assert_same_law(features(state, log_density(state, tables)), features(fresh, expected))
