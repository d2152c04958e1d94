"""Audited cases: count tables with noise, on which every latent model rests, and tempered networks and chains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce.audit.cases import case
from sottovoce.audit.subject import Subject
from sottovoce.latent import (
    BayesianNetwork,
    ChainGrid,
    Field,
    HiddenMarkovModel,
    TemperedHiddenMarkov,
    TemperedNetwork,
)
from sottovoce.mechanisms.integer_noise import NoiseKind
from sottovoce.mechanisms.noisy_statistics import NoisyStatistics
from sottovoce.privacy.promises import ApproxDP, Promise, PureDP
from sottovoce.readings import Statistics

__all__: list[str] = []

_N = 6


def _network() -> BayesianNetwork:
    return BayesianNetwork((Field("a", (0, 1)), Field("b", (0, 1))), {"b": ["a"]})


def _pair(network: BayesianNetwork) -> tuple[Statistics, Statistics]:
    """Return two data sets whose first record differs in every table; the others sit where they hide it least."""
    ends = ((0, 0), (1, 1))
    tables = [{"a": [a] + [1] * (_N - 1), "b": [b] + [0] * (_N - 1)} for a, b in ends]
    first, second = (network.statistics(table) for table in tables)
    return first, second


@dataclass(frozen=True, eq=False)
class _CountDraws:
    """All noisy counts of a release, table after table."""

    mechanism: NoisyStatistics
    pair: tuple[Statistics, Statistics]

    def __call__(self, side: int, count: int, rng: np.random.Generator) -> Any:
        releases = (self.mechanism.release(self.pair[side], rng).value.counts for _ in range(count))
        return np.array([np.concatenate([table.ravel() for table in tables]) for tables in releases], dtype=np.float64)


def _noisy_counts(name: str, target: Promise, noise: NoiseKind) -> Subject:
    network = _network()
    mechanism, pair = network.noisy_counts(_N, target, noise), _pair(network)
    sizes = [int(np.prod(shape)) for shape in mechanism.system.shapes]
    scales = np.repeat(mechanism.scales, sizes)
    first, second = (np.concatenate([t.ravel() for t in mechanism.system.arrays(data)]) for data in pair)

    def ratio(outputs: Any) -> Any:
        far, near = (np.abs(np.asarray(outputs) - centre) / scales for centre in (second, first))
        return (far - near).sum(axis=1) if noise == "laplace" else (far**2 - near**2).sum(axis=1) / 2

    return Subject(name, _CountDraws(mechanism, pair), mechanism.profile, ratio, block=1 << 11)


@case("noisy counts, laplace, two tables", tight=True, slow=True)
def laplace_counts() -> Subject:
    """Return the tables of a small network with discrete Laplace noise."""
    return _noisy_counts("noisy counts, laplace, two tables", PureDP(1.0), "laplace")


@case("noisy counts, gaussian, two tables", tight=True, slow=True)
def gaussian_counts() -> Subject:
    """Return the tables of a small network with discrete Gaussian noise."""
    return _noisy_counts("noisy counts, gaussian, two tables", ApproxDP(1.0, 1e-3), "gaussian")


@dataclass(frozen=True, eq=False)
class _NetworkDraws:
    """All probabilities of sampled tables, table after table."""

    mechanism: TemperedNetwork
    pair: tuple[Statistics, Statistics]

    def __call__(self, side: int, count: int, rng: np.random.Generator) -> Any:
        tables = self.mechanism.release(self.pair[side], rng, draws=count).value.values
        return np.concatenate([np.reshape(table, (count, -1)) for table in tables], axis=1)


@case("tempered network", slow=True)
def tempered_network() -> Subject:
    """Return the tempered tables of a small network; their density is ∏ θ^(count/T), up to a constant."""
    network = _network()
    mechanism, pair = TemperedNetwork.calibrate(network, _N, PureDP(1.0)), _pair(network)
    first, second = (np.concatenate([t.ravel() for t in network.counts(data)]) for data in pair)
    powers = (first - second) / mechanism.temperature
    draws = _NetworkDraws(mechanism, pair)
    return Subject("tempered network", draws, mechanism.profile, lambda outputs: np.log(outputs) @ powers)


@dataclass(frozen=True, eq=False)
class _SweepDraws:
    """The emissions and states of every sweep of a chain, sweep after sweep, by the names the sampler gave them."""

    mechanism: TemperedHiddenMarkov
    pair: tuple[Statistics, Statistics]

    def __call__(self, side: int, count: int, rng: np.random.Generator) -> Any:
        sweeps = self.mechanism.run(self.pair[side], rng, chains=count)
        parts = [part.reshape(count, -1) for s in sweeps for part in (*(e[..., :-1] for e in s.emissions), s.states)]
        return np.concatenate(parts, axis=1)


@case("tempered hidden Markov chain", slow=True)
def tempered_chain() -> Subject:
    """Return two tempered sweeps over a single record, which has no others to hide among."""
    grid = ChainGrid(Field("region", (0,)), (Field("month", (0, 1)),))
    model = HiddenMarkovModel(grid, (Field("kind", (0, 1)),), states=2)
    mechanism = TemperedHiddenMarkov.calibrate(model, 1, PureDP(4.0), sweeps=2)
    first, second = (model.statistics({"region": [0], "month": [0], "kind": [kind]}) for kind in (0, 1))
    return Subject("tempered hidden Markov chain", _SweepDraws(mechanism, (first, second)), mechanism.profile)
