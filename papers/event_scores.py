"""Held-out log-likelihood of private hidden Markov models and naive Bayes on an event log."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from papers.event_logs import EventLog
from sottovoce.inference.latent import (
    HiddenMarkovModel,
    HiddenMarkovPosterior,
    NoisyTables,
    TemperedHiddenMarkov,
    TemperedUpdates,
)
from sottovoce.inference.latent.diagnostics import NotConverged
from sottovoce.inference.latent.gibbs_sampler import draw_dirichlet
from sottovoce.inference.latent.tempered import draw_tempered, log_ratio_bound
from sottovoce.inference.latent.tempered_hidden_markov import log_ranges
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.mechanisms.noisy_statistics import NoisyStatistics
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.promises import ApproxDP, Promise, PureDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.readings import Statistics

__all__ = [
    "DELTA",
    "FLOOR",
    "Study",
    "converged_temperature",
    "noisy_scales",
    "noisy_tables",
    "short_fit",
    "tempered_temperature",
]

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]

DELTA = 1e-6
FLOOR = 0.1
"""The least probability of a tempered table, as a share of 1/K: M = 10 in the thesis."""
_DRAWS = 100


def target(noise: str, epsilon: float) -> Promise:
    """Return what is promised: pure with Laplace noise, (ε, 1e-6) otherwise."""
    return PureDP(epsilon) if noise == "laplace" else ApproxDP(epsilon, DELTA)


@cache
def noisy_scales(log: EventLog, noise: Any, epsilon: float) -> tuple[float, ...]:
    """Return the scale of the noise on each field's table; it depends on the number of fields alone."""
    mech = NoisyStatistics.calibrate(log.corpus, 1, target(noise, epsilon), noise)
    return tuple(mech.scales)


def noisy_tables(log: EventLog, counts: Sequence[Integers], noise: Any, epsilon: float, rng: Any) -> NoisyTables:
    """Return the tables (district, month, category) with noise from a seeded generator: for experiments only."""
    noises = tuple(IntegerNoise(noise, scale) for scale in noisy_scales(log, noise, epsilon))
    noisy = tuple(table + _draw(law, table.shape, rng) for table, law in zip(counts, noises, strict=True))
    tables = log.model(1).tables
    shaped = tuple(table.reshape(shape) for table, shape in zip(noisy, tables.shapes, strict=True))
    return NoisyTables(tables, int(counts[0].sum()), shaped, noises)


def _draw(noise: IntegerNoise, shape: tuple[int, ...], rng: np.random.Generator) -> Integers:
    """Draw noise by inverting its distribution function: a thousand times quicker than exact draws from a seed."""
    k = np.arange(-int(45 * noise.scale) - 20, int(45 * noise.scale) + 21)
    steps = np.cumsum(np.exp(noise.log_weight(k)))
    return np.asarray(k[np.searchsorted(steps, rng.random(shape) * steps[-1], side="right")])


def short_fit(model: HiddenMarkovModel, data: Any, **settings: Any) -> HiddenMarkovPosterior:
    """Return a fit of few sweeps: the figures score short chains on purpose, converged or not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        return model.fit(data, **settings)


@dataclass(frozen=True)
class Study:
    """One split of an event log: a tenth of its cells held out, every model scored on them.

    Attributes
    ----------
    log
        The events.
    states, sweeps, tempered_sweeps
        Of the hidden Markov models; half of the sweeps are burn-in.
    seed
        Of the split and of everything random.
    chains
        Of the fits that know of the noise.
    starts
        Of the others, which have one chain, as in the thesis.
    """

    log: EventLog
    states: int
    sweeps: int
    tempered_sweeps: int
    seed: int
    chains: int = 4
    starts: int = 8

    @property
    def held(self) -> Mask:
        """The cells held out (district, month)."""
        return np.asarray(seeded_rng(self.seed).random(self.log.grid.shape) < 0.1)

    def _training(self) -> tuple[Integers, ...]:
        return tuple(np.where(self.held[..., None], 0, table) for table in self.log.counts())

    def _events(self) -> int:
        return int(self.log.counts()[0][self.held].sum())

    def hidden_markov(self, route: str, epsilon: float) -> float:
        """Return the log-likelihood of an event held out, under the hidden Markov model of this route.

        Routes: ``none`` (no promise), ``laplace``, ``gaussian`` (counts taken at their word), ``aware`` (Laplace, the
        true counts unknown), ``tempered``, and ``converged`` (one sample at the thesis' temperature, unproven).
        """
        model, counts, held = self.log.model(self.states), self.log.counts(), self.held
        rng = seeded_rng(1000 + self.seed)
        settings: dict[str, Any] = {"sweeps": self.sweeps, "burn_in": self.sweeps // 2, "missing": held, "rng": rng}
        alone = {"chains": 1, "starts": self.starts}
        if route in ("laplace", "gaussian", "aware"):
            noise = "laplace" if route == "aware" else route
            noisy = noisy_tables(self.log, self._training(), noise, epsilon, rng)
            settings |= {"chains": self.chains} if route == "aware" else alone
            posterior = short_fit(model, noisy, noise_aware=route == "aware", **settings)
        elif route == "none":
            posterior = short_fit(model, counts, **settings, **alone)
        else:
            posterior = self._tempered(route, epsilon, rng)
        return posterior.held_out_log_likelihood(counts, held) / self._events()

    def _tempered(self, route: str, epsilon: float, rng: np.random.Generator) -> Any:
        model, training = self.log.model(self.states), self._training()
        n = int(training[0].sum())
        statistics = Statistics(n, np.concatenate([table.ravel() for table in training]).astype(np.float64))
        if route == "tempered":
            temperature = tempered_temperature(self.log, self.states, self.tempered_sweeps, epsilon)
            mech = TemperedHiddenMarkov(model, n, temperature, self.tempered_sweeps, FLOOR, self.held)
            return mech.release(statistics, rng).value.after(self.tempered_sweeps // 2)
        # One sample of a chain supposed to have converged: nobody can check that, so no promise is made for it.
        chain = TemperedHiddenMarkov(model, n, converged_temperature(self.log, epsilon), self.sweeps, FLOOR, self.held)
        return chain.release(statistics, rng).value.after(self.sweeps - 1)

    def naive_bayes(self, route: str, epsilon: float) -> float:
        """Return the log-likelihood of an event held out, under one table a field for the whole log."""
        rng = seeded_rng(2000 + self.seed)
        counts = [table.sum(axis=(0, 1)) for table in self._training()]
        if route == "tempered":
            bounds = [log_ratio_bound(t.size, FLOOR / t.size) for t in counts]
            warmth = TemperedUpdates.calibrate(bounds, 1, PureDP(epsilon)).temperature
            thetas = [draw_tempered(t[None], 1.0, warmth, FLOOR / t.size, rng) for t in counts]
        else:
            if route != "none":
                laws = [IntegerNoise(route, s) for s in noisy_scales(self.log, route, epsilon)]  # type: ignore[arg-type]
                counts = [np.maximum(t + _draw(law, t.shape, rng), 0) for t, law in zip(counts, laws, strict=True)]
            thetas = [draw_dirichlet(np.broadcast_to(t + 1.0, (_DRAWS, t.size)), rng) for t in counts]
        return _cell_scores(self.log.counts(), self.held, thetas) / self._events()


@cache
def tempered_temperature(log: EventLog, states: int, sweeps: int, epsilon: float) -> float:
    """Return the temperature at which so many sweeps keep (ε, 1e-6); it depends on public numbers alone."""
    found = TemperedHiddenMarkov.calibrate(
        log.model(states), 1, target("tempered", epsilon), sweeps=sweeps, floor=FLOOR
    )
    return found.temperature


def converged_temperature(log: EventLog, epsilon: float) -> float:
    """Return the temperature at which one exact sample of the joint posterior would be ε-private."""
    return max(1.0, 2 * float(log_ranges(log.model(1), FLOOR).sum()) / epsilon)


def _cell_scores(counts: Sequence[Integers], held: Mask, thetas: Sequence[Floats]) -> float:
    logs = sum(table[held] @ np.log(theta).T for table, theta in zip(counts, thetas, strict=True))
    return float(np.sum(special.logsumexp(logs, axis=1) - np.log(thetas[0].shape[0])))
