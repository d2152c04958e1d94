"""Getting it right (Geweke 2004): start many runs at an exact draw of the joint law of everything, let each sampler
and the redrawing of its data take turns, and see whether the law is still the same."""

import numpy as np
import pytest

from sottovoce.gibbs import ChainGrid, Field, HiddenMarkovModel, LatentCounts, TemperedHiddenMarkov
from sottovoce.gibbs.floored import draw_floored_dirichlet
from sottovoce.gibbs.sweeps import ChainState, draw_latent, gibbs_sweep
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


def draw_tables(state: ChainState, totals: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    run = np.arange(len(state.states))[:, None, None]
    return [rng.multinomial(totals, theta[run, state.states]) for theta in state.emissions]


def test_the_plain_sampler_keeps_the_joint_law() -> None:
    rng, runs = seeded_rng(11), 6000
    totals = np.broadcast_to([[4, 0, 7], [1, 3, 5]], (runs, CHAINS, STEPS))
    fresh = MODEL.prior.start(runs, GRID.shape, rng)
    state = MODEL.prior.start(runs, GRID.shape, rng)
    for _ in range(12):
        tables = draw_tables(state, totals, rng)
        state, _ = gibbs_sweep(MODEL.prior, state, [t.astype(float) for t in tables], rng)
    seen = draw_tables(state, totals, rng)[0][..., 0].mean(axis=(1, 2))
    expected = draw_tables(fresh, totals, rng)[0][..., 0].mean(axis=(1, 2))
    assert_same_law(features(state, seen), features(fresh, expected))


def draw_noise(noise: IntegerNoise, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    k = np.arange(-60, 61)
    law = np.exp(noise.log_weight(k))
    return rng.choice(k, shape, p=law / law.sum())


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_the_noise_aware_sampler_keeps_the_joint_law(kind: str) -> None:
    rng, runs, most = seeded_rng(12), 2500, 6
    noises = (IntegerNoise(kind, 1.2), IntegerNoise(kind, 0.7))
    seen = np.array([[True, True, True], [True, False, True]])

    def draw(count: int) -> tuple[ChainState, list[np.ndarray]]:
        state = MODEL.prior.start(count, GRID.shape, rng)
        return state, draw_tables(state, rng.integers(0, most + 1, (count, CHAINS, STEPS)), rng)

    fresh, fresh_tables = draw(runs)
    state, tables = draw(runs)
    true = tuple(t[:, seen].reshape(-1, t.shape[-1]) for t in tables)
    for _ in range(8):
        noisy = tuple(t + draw_noise(noise, t.shape, rng) for t, noise in zip(true, noises, strict=True))
        latent = LatentCounts(noisy, noises, most=most)
        true, tables = draw_latent(state, latent, true, seen, rng)
        state, _ = gibbs_sweep(MODEL.prior, state, tables, rng)

    def totals(ts: list[np.ndarray]) -> list[np.ndarray]:
        return [ts[0][:, seen].sum(axis=-1).mean(axis=1), ts[1][:, seen][..., 2].mean(axis=1)]

    assert_same_law(features(state, *totals(tables)), features(fresh, *totals(fresh_tables)))


def test_the_tempered_sampler_keeps_its_joint_law() -> None:
    # At temperature T the joint law of everything is prior x likelihood^(1/T), multinomial coefficients as they are:
    # records given the rest have probabilities θ^w / Σθ^w, and (θ, z) has weight Π_cells (Σθ^w)^m beside its prior.
    rng, runs, w, floor = seeded_rng(13), 3000, 0.5, 0.2
    model = HiddenMarkovModel(GRID, (Field("a", (0, 1)),), states=2, emission_prior=0.9)
    mech = TemperedHiddenMarkov(model, n=18, temperature=1 / w, sweeps=1, floor=floor)
    totals = np.array([[3, 0, 6], [2, 2, 5]])

    def heat(state: ChainState) -> np.ndarray:
        theta = state.emissions[0] ** w
        return theta[np.arange(len(theta))[:, None, None], state.states]

    def draw(count: int) -> ChainState:
        kept: list[ChainState] = []
        while sum(len(k.states) for k in kept) < count:
            state = model.prior.start(20_000, GRID.shape, rng)
            theta = draw_floored_dirichlet(np.full((20_000, 2, 2), 0.9), floor / 2, rng)
            state = ChainState(state.initial, state.transition, (theta,), state.states)
            log_weight = (totals * np.log(heat(state).sum(axis=-1) / 2 ** (1 - w))).sum(axis=(1, 2))
            ok = np.log(rng.random(20_000)) < log_weight
            kept.append(ChainState(state.initial[ok], state.transition[ok], (theta[ok],), state.states[ok]))
        some = slice(0, count)
        parts = [
            np.concatenate(p)[some]
            for p in zip(*((k.initial, k.transition, k.emissions[0], k.states) for k in kept), strict=True)
        ]
        return ChainState(parts[0], parts[1], (parts[2],), parts[3])

    fresh, state = draw(runs), draw(runs)
    for _ in range(8):
        hot = heat(state)
        tables = [rng.multinomial(totals, hot / hot.sum(axis=-1, keepdims=True)).astype(float)]
        state = mech.sweep(state, tables, rng)
    assert state.emissions[0].min() >= floor / 2
    assert_same_law(features(state), features(fresh))
