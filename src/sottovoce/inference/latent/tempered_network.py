"""The tables of a Bayesian network as one posterior sample: pure privacy from a floor on every probability."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.inference.latent.fields import Field
from sottovoce.inference.latent.network import BayesianNetwork
from sottovoce.inference.latent.network_posterior import NetworkPosterior
from sottovoce.inference.latent.tempered import TemperedUpdates, log_ratio_bound, released_tables
from sottovoce.mechanisms.mechanism import Choices, Mechanism
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import Promise
from sottovoce.records.readings import Statistics


@dataclass(frozen=True, eq=False)
class TemperedNetwork(Mechanism):
    r"""Release a sample of all tables from the posterior to the power 1/T, every probability at least e₀ = floor/K.

    One record replaced changes one count of every node's table. With K categories it moves the log-posterior of a
    node by at most B = log((1-(K-1)e₀)/e₀), below the log(1/e₀) of Dimitrakakis et al. 2014, Lemma 7. Given the
    counts the rows are independent truncated Dirichlets, drawn exactly, so nothing rests on convergence:

    .. math:: \varepsilon = \frac{2}{T}\sum_v B_v, \qquad \rho = \frac{1}{2T^2}\sum_v B_v^2 .

    Parameters
    ----------
    system
        The network.
    n
        How many records there are.
    temperature
        T >= 1.
    floor
        The least probability, as a share of 1/K.

    Examples
    --------
    >>> from sottovoce.inference.latent.fields import Field
    >>> from sottovoce.privacy.promises import PureDP
    >>> network = BayesianNetwork((Field("a", (0, 1)), Field("b", (0, 1))), {"b": ["a"]})
    >>> mech = TemperedNetwork.calibrate(network, n=500, target=PureDP(2.0), floor=0.1)
    >>> round(mech.temperature, 4), round(mech.profile.pure(), 9), round(mech.lemma_epsilon, 3)
    (5.8889, 2.0, 2.035)
    """

    word: ClassVar[str] = "tempered network"
    choices: ClassVar[Choices] = {"tempered": {}}
    forecasts: ClassVar[bool] = False
    system: Any
    temperature: float
    floor: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.system, BayesianNetwork):
            raise InvalidValue(f"tempered tables are of a BayesianNetwork. Got a {type(self.system).__name__}")
        if self.n == 0:
            raise InvalidValue("n must be >= 1: a network needs at least one record")
        object.__setattr__(self, "temperature", self._updates(self.temperature).temperature)

    def _updates(self, temperature: float) -> TemperedUpdates:
        return TemperedUpdates(_bounds(self.system, self.floor), 1, temperature)

    @cached_property
    def profile(self) -> Profile:
        """What one sample of all tables provably does."""
        return self._updates(self.temperature).profile

    @property
    def lemma_epsilon(self) -> float:
        """What Lemma 7 of Dimitrakakis et al. 2014 promises of the same sample: 2Σlog(1/e₀)/T."""
        return 2 * math.fsum(math.log(f.size / self.floor) for f in self.system.fields) / self.temperature

    @classmethod
    def calibrate(cls, network: BayesianNetwork, n: int, target: Promise, *, floor: float = 0.1) -> Self:
        """Return the sample at the lowest temperature that keeps the promise."""
        checked = cls(network, n, 1.0, floor)
        return cls(network, n, TemperedUpdates.calibrate(_bounds(network, floor), 1, target).temperature, checked.floor)

    def _value(self, statistics: Statistics, rng: np.random.Generator, draws: int) -> NetworkPosterior:
        values = tuple(self._draw(table, rng, draws) for table in self.system.counts(statistics))
        return NetworkPosterior(self.system.fields, self.system.parents, values)

    @classmethod
    def example(cls) -> Self:
        """Return two nodes of five records."""
        network = BayesianNetwork((Field("a", ("x", "y")), Field("b", ("u", "v"))), {"b": ["a"]})
        return cls(network, 5, 6.0)

    def _outputs(self, seen: Statistics, rng: np.random.Generator, draws: int) -> Floats:
        """Return the probabilities of all tables, table after table."""
        tables = self._value(seen, rng, draws).values
        return np.concatenate([np.reshape(table, (draws, -1)) for table in tables], axis=1)

    def log_ratio(self, pair: tuple[Statistics, Statistics]) -> Callable[[Any], Floats]:
        """Return log of the density of all tables, ∏ θ^(count/T), up to a constant."""
        first, second = (np.concatenate([t.ravel() for t in self.system.counts(seen)]) for seen in pair)
        powers = (first - second) / self.temperature
        return lambda outputs: np.asarray(np.log(outputs) @ powers)

    def _draw(self, table: Any, rng: np.random.Generator, draws: int) -> Floats:
        repeated = np.broadcast_to(table, (draws, *table.shape))
        prior = self.system.prior_of(table.shape[-1])
        return np.asarray(released_tables(repeated, prior, self.temperature, self.floor, rng))


def _bounds(network: BayesianNetwork, floor: float) -> tuple[float, ...]:
    if not 0 < floor < 1:
        raise InvalidValue(f"floor must lie between 0 and 1. Got {floor!r}")
    return tuple(log_ratio_bound(field.size, floor / field.size) for field in network.fields)
