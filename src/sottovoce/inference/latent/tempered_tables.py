"""Tables of probabilities as posterior samples: pure privacy from a floor on every probability."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.inference.latent.class_posterior import ClassPosterior
from sottovoce.inference.latent.fields import Field
from sottovoce.inference.latent.naive_bayes import NaiveBayesModel
from sottovoce.inference.latent.network import BayesianNetwork
from sottovoce.inference.latent.network_posterior import NetworkPosterior
from sottovoce.inference.latent.tempered import TemperedUpdates, floored_bounds, released_tables
from sottovoce.mechanisms.mechanism import Choices, Mechanism, check_draws
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import Promise
from sottovoce.records.readings import Statistics

__all__ = ["TemperedNaiveBayes", "TemperedNetwork", "TemperedTables"]


@dataclass(frozen=True, eq=False)
class TemperedTables(Mechanism):
    r"""Release samples of all tables from the posterior to the power 1/T, every probability of K at least e₀ = floor/K.

    One record replaced changes one count of every table, and so moves its log-posterior by at most
    B = log((1-(K-1)e₀)/e₀). Given the counts the rows are independent truncated Dirichlets, drawn exactly, so nothing
    rests on convergence:

    .. math:: \varepsilon = \frac{2\,\mathrm{draws}}{T}\sum_u B_u, \qquad
              \rho = \frac{\mathrm{draws}}{2T^2}\sum_u B_u^2 .

    Parameters
    ----------
    system
        The model.
    n
        How many records there are.
    temperature
        T >= 1.
    floor
        The least probability, as a share of 1/K.
    """

    choices: ClassVar[Choices] = {"tempered": {}}
    forecasts: ClassVar[bool] = False
    takes: ClassVar[type]
    """The kind of model."""
    system: Any
    temperature: float
    floor: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.system, self.takes):
            raise InvalidValue(f"tempered tables are of a {self.takes.__name__}. Got a {type(self.system).__name__}")
        if self.n == 0:
            raise InvalidValue("n must be >= 1: a model needs at least one record")
        object.__setattr__(self, "temperature", self._updates.temperature)

    @property
    def samples(self) -> int:
        """How many samples one release holds."""
        return 1

    @property
    @abstractmethod
    def _sizes(self) -> list[int]:
        """The number of categories of each table that is drawn."""

    @abstractmethod
    def _tables(self, seen: Statistics) -> list[tuple[Floats, float]]:
        """Return the counts of each table, categories last, and what an entry of its prior is worth."""

    @property
    def _updates(self) -> TemperedUpdates:
        return TemperedUpdates(floored_bounds(self._sizes, self.floor), self.samples, self.temperature)

    @cached_property
    def profile(self) -> Profile:
        """What all the samples of a release together provably do."""
        return self._updates.profile

    def _at_lowest_temperature(self, target: Promise) -> Self:
        updates = TemperedUpdates.calibrate(self._updates.bounds, self.samples, target)
        return replace(self, temperature=updates.temperature)

    def _drawn(self, seen: Statistics, rng: np.random.Generator, draws: int) -> list[Floats]:
        """Return so many samples of each table."""
        return [
            released_tables(np.broadcast_to(table, (draws, *table.shape)), prior, self.temperature, self.floor, rng)
            for table, prior in self._tables(seen)
        ]

    def _outputs(self, seen: Statistics, rng: np.random.Generator, draws: int) -> Floats:
        """Return the probabilities of all samples of `draws` releases, table after table."""
        count = draws * self.samples
        tables = [table.reshape(count, -1) for table in self._drawn(seen, rng, count)]
        return np.concatenate(tables, axis=1).reshape(draws, -1)

    def log_ratio(self, pair: tuple[Statistics, Statistics]) -> Callable[[Any], Floats]:
        """Return log of the density of a release, ∏ θ^(count/T), up to a constant."""
        first, second = (np.concatenate([table.ravel() for table, _ in self._tables(seen)]) for seen in pair)
        powers = np.tile((first - second) / self.temperature, self.samples)
        return lambda outputs: np.asarray(np.log(outputs) @ powers)


@dataclass(frozen=True, eq=False)
class TemperedNetwork(TemperedTables):
    """Release a sample of all tables of a Bayesian network; see `TemperedTables`.

    The bound of a node lies below the log(1/e₀) of Dimitrakakis et al. 2014, Lemma 7.

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
    takes: ClassVar[type] = BayesianNetwork

    @classmethod
    def calibrate(cls, network: BayesianNetwork, n: int, target: Promise, *, floor: float = 0.1) -> Self:
        """Return the sample at the lowest temperature that keeps the promise."""
        return cls(network, n, 1.0, floor)._at_lowest_temperature(target)

    @property
    def _sizes(self) -> list[int]:
        return [field.size for field in self.system.fields]

    @property
    def lemma_epsilon(self) -> float:
        """What Lemma 7 of Dimitrakakis et al. 2014 promises of the same sample: 2Σlog(1/e₀)/T."""
        return 2 * math.fsum(math.log(size / self.floor) for size in self._sizes) / self.temperature

    @classmethod
    def example(cls) -> Self:
        """Return two nodes of five records."""
        network = BayesianNetwork((Field("a", ("x", "y")), Field("b", ("u", "v"))), {"b": ["a"]})
        return cls(network, 5, 6.0)

    def _tables(self, seen: Statistics) -> list[tuple[Floats, float]]:
        return [(table, self.system.prior_of(table.shape[-1])) for table in self.system.counts(seen)]

    def _value(self, statistics: Statistics, rng: np.random.Generator, draws: int) -> NetworkPosterior:
        return NetworkPosterior(self.system.fields, self.system.parents, tuple(self._drawn(statistics, rng, draws)))


@dataclass(frozen=True, eq=False)
class TemperedNaiveBayes(TemperedTables):
    """Release samples of the classes' and all categories' probabilities; see `TemperedTables`.

    Parameters
    ----------
    system
        The model, of categories alone.
    draws
        How many samples one release holds; they share the promise.

    Examples
    --------
    >>> from sottovoce.privacy.promises import PureDP
    >>> model = NaiveBayesModel(Field("class", ("p", "q")), (Field("a", (0, 1)),))
    >>> mech = TemperedNaiveBayes.calibrate(model, 500, PureDP(2.0), floor=0.1)
    >>> round(mech.temperature, 4), round(mech.profile.pure(), 9)
    (5.8889, 2.0)
    """

    word: ClassVar[str] = "tempered naive Bayes"
    takes: ClassVar[type] = NaiveBayesModel
    floor: float = 0.02
    draws: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "draws", check_draws(self.draws))
        super().__post_init__()

    @classmethod
    def calibrate(
        cls, system: NaiveBayesModel, n: int, target: Promise, *, floor: float = 0.02, draws: int = 1
    ) -> Self:
        """Return the samples at the lowest temperature that keeps the promise."""
        return cls(system, n, 1.0, floor, draws)._at_lowest_temperature(target)

    @property
    def samples(self) -> int:
        """How many samples one release holds."""
        return self.draws

    @property
    def _sizes(self) -> list[int]:
        """The classes', and one a column."""
        if self.system.numbers:
            raise InvalidValue("tempered sampling takes categories only; use noise, or cut numbers into public bins")
        return [self.system.label.size, *(field.size for field in self.system.kinds)]

    def cost(self, draws: int = 1) -> Profile:
        """Return the profile: a release holds the samples it was calibrated for."""
        if draws != 1:
            raise InvalidValue(f"calibrate the mechanism for more draws instead. Got {draws}")
        return self.profile

    @classmethod
    def example(cls) -> Self:
        """Return two classes and one column of three categories, of five records."""
        return cls(NaiveBayesModel(Field("class", ("p", "q")), (Field("a", ("x", "y", "z")),)), 5, 6.0, 0.2)

    def _tables(self, seen: Statistics) -> list[tuple[Floats, float]]:
        model: NaiveBayesModel = self.system
        counts, _ = model.reading.split(model.reading.check(seen).total)
        features = [(table, model.alpha_of(table.shape[-1])) for table in counts]
        return [(counts[0].sum(axis=1), model.class_prior), *features]

    def _value(self, statistics: Statistics, rng: np.random.Generator, draws: int) -> ClassPosterior:
        del draws
        classes, *features = self._drawn(statistics, rng, self.draws)
        return ClassPosterior(self.system.label, self.system.fields, classes, tuple(features))
