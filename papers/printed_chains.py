"""The hidden Markov case study as the thesis ran it: one chain, states one by one, the transitions summed out.

Laplace noise once on each field's table (L1 sensitivity 2 a field, ε shared by the fields), counts below zero as 0; or
posterior sampling by (4.18): everything, priors and transitions too, to the power 1/T, no probability of a field with K
categories below 1/(MK), T = 2ΣB/ε for one sample of a chain that is *supposed* to have converged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from papers.event_logs import EventLog
from papers.event_scores import noisy_tables
from sottovoce.inference.latent import HiddenMarkovPosterior
from sottovoce.inference.latent.collapsed import collapsed_states
from sottovoce.inference.latent.gibbs_sampler import ChainState, draw_dirichlet
from sottovoce.inference.latent.tempered_hidden_markov import log_ranges
from sottovoce.mechanisms.conjugate.distributions.truncated_dirichlet import TruncatedDirichlet
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import seeded_rng

__all__ = ["FLOORS", "PrintedChains", "naive_bayes_scores", "temperature"]

Integers = NDArray[np.int64]
FLOORS = {"M = 10": 0.1, "M = 100": 0.01}
"""K times the least probability, by the thesis' M."""


def temperature(log: EventLog, floor: float, epsilon: float) -> float:
    """Return T of one sample, were it exact."""
    return max(1.0, 2 * float(log_ranges(log.model(1), floor).sum()) / epsilon)


@dataclass(frozen=True, eq=False)
class PrintedChains:
    """Chains of several routes on the same cells, side by side.

    Attributes
    ----------
    log, states
        What is fitted, with how many states.
    routes
        One chain each, by (name, ε).
    held
        The cells that are not seen, (chain, step).
    """

    log: EventLog
    states: int
    routes: tuple[tuple[str, float], ...]
    held: Any

    def run(self, sweeps: int, seed: int) -> list[HiddenMarkovPosterior]:
        """Return the second half of every chain."""
        rng, prior = seeded_rng(seed), self.log.model(self.states).prior
        shape = self.log.grid.shape
        counts = self._tables(rng)
        heat = np.array([temperature(self.log, FLOORS[n], e) if n in FLOORS else 1.0 for n, e in self.routes])
        state = ChainState(
            np.full((len(heat), self.states), 1 / self.states),
            np.full((len(heat), self.states, self.states), 1 / self.states),
            (),
            rng.integers(self.states, size=(len(heat), *shape)),
        )
        kept: list[ChainState] = []
        for sweep in range(sweeps):
            emissions = self._emissions(state.counts_by_state(counts), prior.emission, heat, rng)
            state = ChainState(state.initial, state.transition, emissions, state.states)
            logs = state.log_emission(counts)
            states = collapsed_states(logs, state.states, prior.transition, rng, 1 / heat)
            initial, transition = prior.draw_chain(states, rng)
            state = ChainState(initial, transition, emissions, states)
            if sweep >= sweeps // 2:
                kept.append(state)
        return [self._posterior([s.runs(np.array([run])) for s in kept]) for run in range(len(heat))]

    def _posterior(self, kept: Sequence[ChainState]) -> HiddenMarkovPosterior:
        return HiddenMarkovPosterior(
            self.log.fields,
            np.concatenate([s.initial for s in kept]),
            np.concatenate([s.transition for s in kept]),
            tuple(np.concatenate(parts) for parts in zip(*(s.emissions for s in kept), strict=True)),
            np.concatenate([s.states for s in kept]),
        )

    def _tables(self, rng: np.random.Generator) -> list[Floats]:
        """Return what each chain sees, (run, chain, step, category) a field."""
        true = [np.where(self.held[..., None], 0, table) for table in self.log.counts()]
        runs = []
        for name, epsilon in self.routes:
            seen: Sequence[Any] = true
            if name == "laplace":
                noisy = noisy_tables(self.log, true, "laplace", epsilon, rng).counts
                shaped = [t.reshape(u.shape) for t, u in zip(noisy, true, strict=True)]
                seen = [np.where(self.held[..., None], 0, np.maximum(table, 0)) for table in shaped]
            runs.append(seen)
        return [np.stack(parts).astype(np.float64) for parts in zip(*runs, strict=True)]

    def _emissions(
        self, tables: Sequence[Floats], prior: Sequence[float], heat: Floats, rng: np.random.Generator
    ) -> tuple[Floats, ...]:
        found = []
        for table, alpha in zip(tables, prior, strict=True):
            theta = draw_dirichlet(alpha + table, rng)
            for name, floor in FLOORS.items():
                some = np.array([i for i, (route, _) in enumerate(self.routes) if route == name], dtype=np.int64)
                if some.size:
                    power = (table[some] + alpha - 1) / heat[some, None, None] + 1
                    theta[some] = TruncatedDirichlet(power, floor / table.shape[-1]).sample(1, rng)[0]
            found.append(theta)
        return tuple(found)

    def scores(self, posteriors: Sequence[HiddenMarkovPosterior]) -> list[float]:
        """Return the log-likelihood of a held-out event: over the kept draws, or of the last where that is released."""
        counts = self.log.counts()
        events = int(counts[0][self.held].sum())
        found = []
        for (name, _), posterior in zip(self.routes, posteriors, strict=True):
            shown = posterior.after(len(posterior) - 1) if name in FLOORS else posterior
            found.append(shown.held_out_log_likelihood(counts, self.held) / events)
        return found


def naive_bayes_scores(log: EventLog, routes: Sequence[tuple[str, float]], held: Any, seed: int) -> list[float]:
    """Return the log-likelihood of a held-out event under one table a field: a model of one state."""
    rng = seeded_rng(seed)
    true = [np.where(held[..., None], 0, table).sum(axis=(0, 1)) for table in log.counts()]
    events, found = int(log.counts()[0][held].sum()), []
    for name, epsilon in routes:
        thetas = []
        for table in true:
            if name in FLOORS:
                power = (table + 1 / table.size - 1) / temperature(log, FLOORS[name], epsilon) + 1
                thetas.append(TruncatedDirichlet(power, FLOORS[name] / table.size).sample(1, rng))
                continue
            if name == "laplace":
                noise = IntegerNoise("laplace", 2 * len(true) / epsilon)
                seen = np.maximum(noise.add(table.astype(np.int64), rng), 0)
            else:
                seen = table
            thetas.append(draw_dirichlet(np.broadcast_to(seen + 1 / seen.size, (100, seen.size)), rng))
        logs = sum(table[held] @ np.log(theta).T for table, theta in zip(log.counts(), thetas, strict=True))
        found.append(float(np.sum(special.logsumexp(logs, axis=1) - np.log(len(thetas[0])))) / events)
    return found
