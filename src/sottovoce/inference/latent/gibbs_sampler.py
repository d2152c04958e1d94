"""One Gibbs sweep of the hidden Markov model: states, then probabilities, for several runs at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.inference.latent.array_backend import ArrayBackend
from sottovoce.inference.latent.cell_likelihood import CellLikelihood
from sottovoce.inference.latent.collapsed import collapsed_states
from sottovoce.inference.latent.forward_backward import paths, sample_paths
from sottovoce.inference.latent.latent_cell_moves import by_state, moved_probabilities, moved_sizes
from sottovoce.inference.latent.latent_counts import CellSizes, LatentCounts
from sottovoce.privacy.numbers import Floats, Integers, Mask

__all__ = ["ChainState", "Prior", "draw_dirichlet", "gibbs_sweep", "noisy_sweep", "stack_draws"]


_TINY = 1e-300


def draw_dirichlet(alpha: Floats, rng: np.random.Generator) -> Floats:
    """Draw probabilities along the last axis, none exactly zero (their logarithms are needed).

    Examples
    --------
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> theta = draw_dirichlet(np.array([[1.0, 2.0], [1e-9, 5.0]]), seeded_rng(1))
    >>> theta.sum(axis=1).tolist(), bool(theta.min() > 0)
    ([1.0, 1.0], True)
    """
    gammas = np.maximum(rng.standard_gamma(alpha), _TINY)
    return np.asarray(gammas / gammas.sum(axis=-1, keepdims=True))


@dataclass(frozen=True)
class Prior:
    """Dirichlet priors of a hidden Markov model with `states` states and fields of these `sizes`.

    `emission` is what a category of each field is worth.
    """

    states: int
    sizes: tuple[int, ...]
    emission: tuple[float, ...]
    transition: float

    def draw_chain(self, states: Integers, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw the probabilities of the first state and of the next one given states (run, chain, step)."""
        first, moves = transition_counts(states, self.states)
        return draw_dirichlet(self.transition + first, rng), draw_dirichlet(self.transition + moves, rng)

    def draw_emissions(self, tables: Sequence[Floats], rng: np.random.Generator) -> tuple[Floats, ...]:
        """Draw each field's probabilities given its counts by state (run, state, category)."""
        return tuple(draw_dirichlet(a + table, rng) for a, table in zip(self.emission, tables, strict=True))

    def start(self, runs: int, shape: tuple[int, int], rng: np.random.Generator) -> ChainState:
        """Return a state drawn from the prior, chains and all: nothing of the data enters."""
        nobody = np.zeros((runs, 0, 0), dtype=np.int64)
        initial, transition = self.draw_chain(nobody, rng)
        emissions = self.draw_emissions([np.zeros((runs, self.states, size)) for size in self.sizes], rng)
        silent = np.zeros((runs, *shape, self.states))
        states, _ = sample_paths(silent, initial, transition, rng, often=False)
        return ChainState(initial, transition, emissions, states)


@dataclass(frozen=True)
class ChainState:
    """Where the sampler stands, several runs side by side.

    Attributes
    ----------
    initial, transition
        (run, state) and (run, from, to).
    emissions
        (run, state, category) for each field.
    states
        (run, chain, step).
    """

    initial: Floats
    transition: Floats
    emissions: tuple[Floats, ...]
    states: Integers

    def log_emission(self, counts: Sequence[Floats]) -> Floats:
        """Return Σ_f Σ_k N log θ for counts (chain, step, category) or (run, chain, step, category) a field."""
        total = None
        for table, theta in zip(counts, self.emissions, strict=True):
            flat = table.reshape(*table.shape[:-3], -1, table.shape[-1])
            part = flat @ np.swapaxes(np.log(theta), -1, -2)
            total = part if total is None else total + part
        chains, steps = counts[0].shape[-3:-1]
        return np.asarray(total).reshape(-1, chains, steps, self.initial.shape[-1])

    def counts_by_state(self, counts: Sequence[Floats]) -> list[Floats]:
        """Return the counts of each field summed over the cells of each state: (run, state, category)."""
        runs, size = self.states.shape[0], self.initial.shape[-1]
        member = (self.states.reshape(runs, 1, -1) == np.arange(size)[:, None]).astype(np.float64)
        return [np.asarray(member @ table.reshape(*table.shape[:-3], -1, table.shape[-1])) for table in counts]

    def runs(self, i: Integers) -> ChainState:
        """Return some of the runs."""
        return ChainState(self.initial[i], self.transition[i], tuple(e[i] for e in self.emissions), self.states[i])

    def draw_states(
        self, counts: Sequence[Floats], rng: np.random.Generator, weight: float = 1.0, *, often: bool = True
    ) -> tuple[Integers, Floats]:
        """Draw all states given the probabilities, the data counted `weight` times, and return log p(x) a chain."""
        logs = self.log_emission(counts)
        return sample_paths(logs if weight == 1 else weight * logs, self.initial, self.transition, rng, often=often)


def gibbs_sweep(
    prior: Prior,
    state: ChainState,
    counts: Sequence[Floats],
    rng: np.random.Generator,
    collapsed: bool = False,
    *,
    often: bool = True,
) -> tuple[ChainState, Floats]:
    """Return the state after one sweep given counts, and log p(counts) of each run before it.

    With `collapsed`, states are drawn one by one, the transitions summed out, and log p(counts) given the states.
    """
    if collapsed:
        emission = state.log_emission(counts)
        states = collapsed_states(emission, state.states, prior.transition, rng)
        logs = np.take_along_axis(emission, states[..., None], axis=-1)[..., 0].sum(axis=2)
    else:
        states, logs = state.draw_states(counts, rng, often=often)
    moved = ChainState(state.initial, state.transition, state.emissions, states)
    initial, transition = prior.draw_chain(states, rng)
    emissions = prior.draw_emissions(moved.counts_by_state(counts), rng)
    return ChainState(initial, transition, emissions, states), logs.sum(axis=1)


def noisy_sweep(
    prior: Prior,
    state: ChainState,
    sizes: CellSizes,
    latent: LatentCounts,
    seen: Mask,
    rng: np.random.Generator,
    collapsed: bool = False,
) -> tuple[ChainState, CellSizes]:
    """Return the state and the cells' sizes after one sweep given noisy counts, the true ones summed out throughout.

    `latent` holds the cells that were seen (chain, step).
    """
    runs, count = len(state.states), prior.states
    log_theta, alpha = np.log(np.concatenate(state.emissions, axis=-1)), np.repeat(prior.emission, prior.sizes)
    if collapsed:
        logs = np.zeros((runs, *seen.shape, count))
        logs[:, seen] = latent.by_state(sizes.logs, log_theta)
        states = collapsed_states(logs, state.states, prior.transition, rng)
        mine = states[:, seen]
        sizes = latent.move_sizes(sizes, log_theta, mine, rng)
        log_theta = latent.move_probabilities(log_theta, mine, sizes, alpha, rng)
    else:
        cells = np.flatnonzero(seen)
        place = np.full(seen.shape, len(cells))
        place[seen] = np.arange(len(cells))
        chain = state.initial, state.transition, rng.random((seen.shape[1], runs, seen.shape[0], 1)), place, cells
        tries = latent.size_tries(sizes, rng), latent.probability_tries(alpha, runs, count, rng)
        states, logs, log_theta = latent.run(_noisy_moves, sizes.logs, log_theta, chain, *tries)
        sizes = latent.sizes_of(logs, rng)
    initial, transition = prior.draw_chain(states, rng)
    parts = np.split(np.exp(log_theta), np.cumsum(prior.sizes)[:-1], axis=-1)
    emissions = tuple(part / part.sum(axis=-1, keepdims=True) for part in parts)
    return ChainState(initial, transition, emissions, states), sizes


def _noisy_moves(
    engine: ArrayBackend,
    likelihood: CellLikelihood,
    logs: Any,
    log_theta: Any,
    chain: tuple[Any, ...],
    size_tries: tuple[Any, ...],
    probability_tries: tuple[Any, ...],
) -> tuple[Any, Any, Any]:
    """Return states, sizes and probabilities after one sweep: one program, asked for once."""
    xp = engine.xp
    initial, transition, uniform, place, cells = chain
    known = by_state(engine, likelihood, logs, log_theta)
    nothing = xp.zeros((len(known), 1, known.shape[-1]))  # what is known of a cell that was not seen
    states, _ = paths(engine, xp.concatenate([known, nothing], axis=1)[:, place], initial, transition, uniform)
    mine = states.reshape(len(states), -1)[:, cells]
    now = xp.take_along_axis(known, mine[..., None], axis=-1)[..., 0]
    logs = moved_sizes(engine, likelihood, logs, log_theta, mine, now, *size_tries)
    return states, logs, moved_probabilities(engine, likelihood, log_theta, mine, logs, *probability_tries)


def stack_draws(draws: Sequence[ChainState]) -> ChainState:
    """Return the draws of all runs side by side, as if they were runs: those of the first run first."""

    def stacked(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return np.stack(parts, axis=1).reshape(-1, *parts[0].shape[1:])

    return ChainState(
        stacked([d.initial for d in draws]),
        stacked([d.transition for d in draws]),
        tuple(stacked(parts) for parts in zip(*(d.emissions for d in draws), strict=True)),
        stacked([d.states for d in draws]),
    )


def transition_counts(states: Integers, size: int) -> tuple[Floats, Floats]:
    """Return how often each state is the first of a chain, and how often one follows another, by run."""
    runs = len(states)
    run = np.arange(runs)[:, None]
    first = np.bincount((run * size + states[:, :, :1].reshape(runs, -1)).ravel(), minlength=runs * size)
    pairs = (states[:, :, :-1] * size + states[:, :, 1:]).reshape(runs, -1)
    moves = np.bincount((run * size * size + pairs).ravel(), minlength=runs * size * size)
    return first.reshape(runs, size).astype(np.float64), moves.reshape(runs, size, size).astype(np.float64)
