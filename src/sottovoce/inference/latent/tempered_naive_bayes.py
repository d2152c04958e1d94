"""The tables of naive Bayes as posterior samples: pure privacy from a floor on every probability."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.inference.latent.class_posterior import ClassPosterior
from sottovoce.inference.latent.fields import Field
from sottovoce.inference.latent.naive_bayes import NaiveBayesModel
from sottovoce.inference.latent.tempered import TemperedUpdates, log_ratio_bound, released_tables
from sottovoce.mechanisms.mechanism import Choices, Mechanism, check_draws
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import Promise
from sottovoce.records.readings import Statistics


@dataclass(frozen=True, eq=False)
class TemperedNaiveBayes(Mechanism):
    r"""Release samples of the classes' and all categories' probabilities from the posterior to the power 1/T.

    Every probability of K is at least floor/K, so one record replaced moves the log-posterior of the classes, and of
    each column, by at most its B = log((1-(K-1)e₀)/e₀), e₀ = floor/K. Given the counts all rows are independent
    truncated Dirichlets, drawn exactly, so nothing rests on convergence:

    .. math:: \varepsilon = \frac{2\,\mathrm{draws}}{T}\sum_u B_u, \qquad
              \rho = \frac{\mathrm{draws}}{2T^2}\sum_u B_u^2 .

    Parameters
    ----------
    system
        The model, of categories alone.
    n
        How many records there are.
    temperature
        T >= 1.
    floor
        The least probability, as a share of 1/K.
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
    choices: ClassVar[Choices] = {"tempered": {}}
    forecasts: ClassVar[bool] = False
    system: Any
    temperature: float
    floor: float = 0.02
    draws: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.system, NaiveBayesModel):
            raise InvalidValue(f"tempered tables are of a NaiveBayesModel. Got a {type(self.system).__name__}")
        if self.n == 0:
            raise InvalidValue("n must be >= 1: a model needs at least one record")
        object.__setattr__(self, "draws", check_draws(self.draws))
        object.__setattr__(self, "temperature", self._updates.temperature)

    @property
    def _updates(self) -> TemperedUpdates:
        return TemperedUpdates(_bounds(self.system, self.floor), self.draws, self.temperature)

    @cached_property
    def profile(self) -> Profile:
        """What all the samples of a release together provably do."""
        return self._updates.profile

    @classmethod
    def calibrate(
        cls, system: NaiveBayesModel, n: int, target: Promise, *, floor: float = 0.02, draws: int = 1
    ) -> Self:
        """Return the samples at the lowest temperature that keeps the promise."""
        checked = cls(system, n, 1.0, floor, draws)
        updates = TemperedUpdates.calibrate(_bounds(system, floor), checked.draws, target)
        return cls(system, n, updates.temperature, floor, checked.draws)

    def cost(self, draws: int = 1) -> Profile:
        """Return the profile: a release holds the samples it was calibrated for."""
        if draws != 1:
            raise InvalidValue(f"calibrate the mechanism for more draws instead. Got {draws}")
        return self.profile

    @classmethod
    def example(cls) -> Self:
        """Return two classes and one column of three categories, of five records."""
        return cls(NaiveBayesModel(Field("class", ("p", "q")), (Field("a", ("x", "y", "z")),)), 5, 6.0, 0.2)

    def _value(self, statistics: Statistics, rng: np.random.Generator, draws: int) -> ClassPosterior:
        del draws
        return self._sample(statistics, rng, self.draws)

    def _sample(self, statistics: Statistics, rng: np.random.Generator, draws: int) -> ClassPosterior:
        model: NaiveBayesModel = self.system

        def draw(table: Floats, prior: float) -> Floats:
            repeated = np.broadcast_to(table, (draws, *table.shape))
            return np.asarray(released_tables(repeated, prior, self.temperature, self.floor, rng))

        counts, _ = model.reading.split(model.reading.check(statistics).total)
        classes = draw(counts[0].sum(axis=1), model.class_prior)
        features = tuple(draw(table, model.alpha_of(table.shape[-1])) for table in counts)
        return ClassPosterior(model.label, model.fields, classes, features)

    def _outputs(self, seen: Statistics, rng: np.random.Generator, draws: int) -> Floats:
        """Return the probabilities of all samples of `draws` releases: classes first, table after table."""
        value = self._sample(seen, rng, draws * self.draws)
        return value._all.reshape(draws, -1)

    def log_ratio(self, pair: tuple[Statistics, Statistics]) -> Callable[[Any], Floats]:
        """Return log of the density of a release, ∏ θ^(count/T), up to a constant."""
        powers = []
        for seen in pair:
            counts, _ = self.system.reading.split(seen.total)
            powers.append(np.concatenate([counts[0].sum(axis=1), *(table.ravel() for table in counts)]))
        gap = np.tile((powers[0] - powers[1]) / self.temperature, self.draws)
        return lambda outputs: np.asarray(np.log(outputs) @ gap)


def _bounds(model: NaiveBayesModel, floor: float) -> tuple[float, ...]:
    """Return the bound of each update: the classes', and one a column."""
    if model.numbers:
        raise InvalidValue("tempered sampling takes categories only; use noise, or cut the numbers into public bins")
    if not isinstance(floor, int | float) or not 0 < floor < 1:
        raise InvalidValue(f"floor must lie between 0 and 1. Got {floor!r}")
    sizes = [model.label.size, *(field.size for field in model.kinds)]
    return tuple(log_ratio_bound(size, floor / size) for size in sizes)
