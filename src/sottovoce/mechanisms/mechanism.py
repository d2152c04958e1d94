"""What every mechanism is: public numbers, a profile, and one step that meets the data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.mechanisms.conjugate.named_systems import system_from
from sottovoce.mechanisms.conjugate.system import System
from sottovoce.mechanisms.forecast import Forecast
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.errors import InvalidData, InvalidValue, UnprovenPrivacy
from sottovoce.privacy.json_values import mapping, restoring
from sottovoce.privacy.numbers import Floats, whole
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.randomness import is_secure, secure_rng
from sottovoce.privacy.registry import Registry
from sottovoce.privacy.relation import ADD_REMOVE, REPLACE_ONE, Relation
from sottovoce.records.readings import Aggregate, ReadableRecords, Reading, Statistics
from sottovoce.records.readings.base import MOST_RECORDS, checked_size

MECHANISMS = Registry(
    "mechanism",
    {
        "direct posterior": "sottovoce.mechanisms.direct:DirectPosterior",
        "diffused posterior": "sottovoce.mechanisms.diffused:DiffusedPosterior",
        "concentrated posterior": "sottovoce.mechanisms.concentrated:ConcentratedPosterior",
        "tempered posterior": "sottovoce.mechanisms.tempered:TemperedPosterior",
        "noisy statistics": "sottovoce.mechanisms.noisy_statistics:NoisyStatistics",
        "statistical query": "sottovoce.mechanisms.statistical_query:StatisticalQuery",
        "noisy counts": "sottovoce.mechanisms.noisy_statistics:NoisyStatistics",
        "tempered hidden Markov chain": "sottovoce.inference.latent.tempered_hidden_markov:TemperedHiddenMarkov",
        "tempered network": "sottovoce.inference.latent.tempered_tables:TemperedNetwork",
        "noisy cells": "sottovoce.inference.cells.noisy_cells:NoisyCells",
        "quantile search": "sottovoce.inference.cells.searched_quantiles:SearchedQuantiles",
        "smooth means": "sottovoce.inference.cells.smooth_means:SmoothMeans",
        "smooth group means": "sottovoce.inference.cells.smooth_group_means:SmoothGroupMeans",
        "marginal choice": "sottovoce.inference.synthesis.marginal_choice:MarginalChoice",
        "tempered naive Bayes": "sottovoce.inference.latent.tempered_tables:TemperedNaiveBayes",
        "filtered regression": "sottovoce.inference.regression.filtered:FilteredRegression",
        "best regression": "sottovoce.inference.regression.best_of:BestRegression",
        "refined regression": "sottovoce.inference.regression.refined:RefinedRegression",
        "localised regression": "sottovoce.inference.regression.localised:LocalisedRegression",
        "diffused regression": "sottovoce.inference.regression.posterior:DiffusedRegression",
        "concentrated regression": "sottovoce.inference.regression.posterior:ConcentratedRegression",
        "noisy moments": "sottovoce.inference.regression.noisy_moments:NoisyMoments",
        "tempered regression": "sottovoce.inference.regression.tempered:TemperedRegression",
        "adaptive looks": "sottovoce.inference.regression.adaptive_looks:AdaptiveLooks",
        "hazard looks": "sottovoce.inference.regression.hazard_looks:HazardLooks",
        "noisy projected SGD": "sottovoce.theory.amplification.sgd:NoisyProjectedSGD",
        "Ornstein-Uhlenbeck diffusion": "sottovoce.theory.amplification.diffusion:OrnsteinUhlenbeck",
        "minibatch SGD": "sottovoce.theory.amplification.minibatch:MinibatchSGD",
        "exponential choice": "sottovoce.mechanisms.exponential_choice:ExponentialChoice",
        "chain of choices": "sottovoce.mechanisms.choice_chain:ChoiceChain",
        "approximate sample": "sottovoce.mechanisms.approximate:ApproximateSample",
        # What regressions were called before they were mechanisms.
        "refined posterior": "sottovoce.inference.regression.refined:RefinedRegression",
        "localised posterior": "sottovoce.inference.regression.localised:LocalisedRegression",
        "diffuse posterior": "sottovoce.inference.regression.posterior:DiffusedRegression",
        "concentrated Gaussian prior": "sottovoce.inference.regression.posterior:ConcentratedRegression",
        "noisy quadratic statistics": "sottovoce.inference.regression.noisy_moments:NoisyMoments",
    },
    "sottovoce.mechanisms",
)
"""Every kind of mechanism by its word."""


Choices = Mapping[str, Mapping[str, Any]]
"""The short names under which a mechanism is chosen, each with what it sets."""


_NOTED = ("periods",)
"""What is noted beside a mechanism where its release was charged to periods."""


@dataclass(frozen=True, eq=False)
class Mechanism(ABC):
    """A mechanism for n records of a system. Built without data; `release` meets data once and keeps nothing of it.

    Where n is None the number of records is a secret: the profile is then about one record added or removed, and the
    mechanism takes any number of them.

    A kind is a frozen dataclass with a `word` of its own, listed in `MECHANISMS`: the curator, the ledger, the command
    line, the server and the audit then know it.
    """

    word: ClassVar[str]
    choices: ClassVar[Choices] = {}
    """The short names under which it is asked for, each with what `calibrate` takes beside system, n and target."""
    forecasts: ClassVar[bool] = True
    """Whether `forecast` has an answer; a chain of updates has none in closed form."""
    derived: ClassVar[tuple[str, ...]] = ()
    """Numbers that `to_dict` shows and that follow from the others."""
    hides_n: ClassVar[bool] = False
    """Whether it does without knowing how many records there are."""
    free_samples: ClassVar[bool] = False
    """Whether a release holds a posterior of which any number of samples is free."""
    one_moment: ClassVar[bool] = False
    """Whether what it claims supposes that no record is corrected between one look and the next."""
    system: Any
    n: Any
    """A whole number, or None where the number of records is a secret."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", self.checked_n(self.n))
        if isinstance(reading := getattr(self.system, "reading", None), Reading):
            reading.check_sums(MOST_RECORDS if self.n is None else self.n)

    @classmethod
    def checked_n(cls, n: Any) -> int | None:
        """Return the number of records, or None where it is a secret that such a mechanism can keep, or raise."""
        if n is None and not cls.hides_n:
            raise InvalidValue(
                f"the {cls.word} mechanism must know how many records there are; where that is a secret, ask for a "
                "proportion, mean, total, rate, counts, quantiles or a regression, or for posterior samples of shares"
            )
        return checked_size(n)

    @property
    def relation(self) -> Relation:
        """Which data sets are neighbours: one record replaced, or where n is a secret added or removed.

        Where the facts of what is asked say whose a row is, a record is a person.
        """
        result = ADD_REMOVE if self.n is None else REPLACE_ONE
        facts = getattr(self.system, "facts", None)
        return result if getattr(facts, "person", None) is None else result.of_person()

    @property
    def together(self) -> bool:
        """Whether many releases at once take hardly longer than one: a server then makes them together."""
        return False

    @property
    def known_n(self) -> int:
        """The number of records, for what cannot do without it."""
        if self.n is None:
            raise InvalidValue("how many records there are is a secret here; give a mechanism for a public n")
        return int(self.n)

    @property
    def reading(self) -> Reading:
        """What a release is shown of the records."""
        reading: Reading = self.system.reading
        return reading

    @property
    def parameter(self) -> str:
        """What the released value is about."""
        return str(self.system.parameter)

    @property
    def columns(self) -> list[str] | None:
        """The columns to read, in order, where the system names them itself."""
        named = getattr(self.system, "columns", None)
        return None if named is None else list(named)

    @property
    @abstractmethod
    def profile(self) -> Profile:
        """What one release provably does."""

    @abstractmethod
    def _value(self, seen: Any, rng: np.random.Generator, draws: int) -> Any:
        """Return the value to let out. The only step that meets the data."""

    def forecast(self, mean: Any, level: float = 0.95) -> Forecast:
        """Return what to expect of a release if the records had this mean; reads no private data."""
        raise InvalidValue(f"a {self.word} has no forecast in closed form; release from simulated records instead")

    def expected_width(self, mean: Any, level: float = 0.95) -> float:
        """Return the width of the interval that `forecast` tells."""
        return self.forecast(mean, level).interval_width

    def told(self, mean: Any) -> tuple[Any, Any] | None:
        """Return where a release would lie if the records had this mean, and how far it varies about that (variance).

        None where that has no closed form. Reads no private data.
        """
        del mean
        return None

    @classmethod
    def example(cls) -> Mechanism:
        """Return a small one of public numbers, for checks and audits; every registered kind has one."""
        raise InvalidValue(f"{cls.__name__} has no example; a registered kind of mechanism needs one")

    @classmethod
    def serves(cls, system: Any) -> bool:
        """Say whether a mechanism of someone else's serves a system that does not name it."""
        del system
        return False

    def _parameters(self) -> dict[str, object]:
        """Return the mechanism's own public numbers: its fields, each as the number that it says it is."""
        shown = [f for f in fields(self) if f.name not in ("system", "n")]
        return {f.name: _NUMBERS.get(str(f.type), _as_it_is)(getattr(self, f.name)) for f in shown}

    def cost(self, draws: int = 1) -> Profile:
        """Return what a release of `draws` samples provably costs."""
        return self.profile if self.free_samples or check_draws(draws) == 1 else draws * self.profile

    def release(
        self,
        records: Any,
        rng: np.random.Generator | None = None,
        *,
        draws: int = 1,
        accept_unproven: bool = False,
    ) -> Release:
        """Show the mechanism its records, or what its reading made of them, and return what may leave the house.

        Parameters
        ----------
        records
            Exactly n records in memory (any number where n is None), what `reading` made of them, or records that can
            be looked at (`ReadableRecords`).
        rng
            Secure randomness by default. A seeded generator marks the release as reproducible: never
            publish it.
        draws
            How many samples; each one costs as much as the first.
        accept_unproven
            Release even if the profile holds only when a Markov chain has converged.
        """
        cost = self.cost(check_draws(draws))
        if cost.basis is Basis.CONVERGENCE and not accept_unproven:
            raise UnprovenPrivacy(
                "the profile holds only if a Markov chain has converged, which nobody can check; "
                "pass accept_unproven=True to release all the same"
            )
        seen = self.see(records)
        rng = secure_rng() if rng is None else rng
        value = self._value(seen, rng, draws)
        return Release(value, cost, self.to_dict(), self.parameter, reproducible=not is_secure(rng))

    def releases(
        self, records: Any, count: int, rng: np.random.Generator | None = None, **options: Any
    ) -> list[Release]:
        """Return so many independent releases, each as `release` makes it and each at full cost.

        >>> from sottovoce.mechanisms import NoisyStatistics
        >>> three = NoisyStatistics.example().releases([0, 0, 1, 2, 2], 3)
        >>> len(three), three[0].profile == three[2].profile
        (3, True)
        """
        return [self.release(records, rng, **options) for _ in range(count)]

    def see(self, records: Any) -> Any:
        """Return what the reading makes of the records, of the right n, or raise `InvalidData`."""
        if isinstance(records, ReadableRecords):
            records = records.look(self.reading)
        seen = records if isinstance(records, Aggregate) else self._statistics(records)
        if self.n is not None and seen.n != self.n:
            raise InvalidData(f"this mechanism is for n={self.n} records; build one for your n. Got {seen.n}")
        return self.reading.check_whole(seen) if isinstance(seen, Statistics) else seen

    def _statistics(self, records: Any) -> Any:
        return self.system.statistics(records)

    def worst_pair(self) -> tuple[Any, Any]:
        """Return what is seen of two neighbouring data sets that a release tells apart as easily as any, n >= 1."""
        return self.reading.pairs(self.n)[0]

    def log_ratio(self, pair: tuple[Any, Any]) -> Callable[[Any], Any] | None:
        """Return log of the density of an output under the first of a pair over that under the second, if known."""
        del pair
        return None

    def outputs(self, seen: Any, rng: np.random.Generator, draws: int) -> Floats:
        """Return the numbers that `draws` independent releases let out, draws first; what an attack looks at."""
        result: Floats = self._outputs(seen, rng, max(whole("draws", draws, 0), 1))  # of none, one says what they are
        return result[:draws]

    def _outputs(self, seen: Any, rng: np.random.Generator, draws: int) -> Any:
        """Return the outputs of one release or more."""
        value = self._value(seen, rng, draws)
        return np.reshape(value, (draws, *np.shape(value)[1:]))

    def each(self, tables: Sequence[Any], rng: np.random.Generator) -> list[Any]:
        """Return what a release of each of several tables lets out, given what is seen of them."""
        return [self._value(table, rng, 1) for table in tables]

    def to_dict(self) -> dict[str, object]:
        """Return the mechanism in public numbers."""
        return {"mechanism": self.word, "n": self.n} | self._parameters() | {"system": self.system.to_dict()}

    @staticmethod
    def from_dict(state: Mapping[str, object]) -> Mechanism:
        """Read a mechanism from `to_dict`'s form; what a curator noted beside it in a release is left aside."""
        remainder = {name: value for name, value in mapping("mechanism", state).items() if name not in _NOTED}
        word = remainder.pop("mechanism", None)
        kind = MECHANISMS[word]
        with restoring(f"a {word}"):
            known = kind._renewed(remainder)
            mechanism: Mechanism = kind._from_state({k: v for k, v in known.items() if k not in kind.derived})
        return mechanism

    @classmethod
    def _renewed(cls, state: dict[str, object]) -> dict[str, object]:
        """Return numbers that an earlier version wrote as they are written today."""
        return state

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        return cls(system_from(state.pop("system")), state.pop("n"), **state)

    def describe(self) -> str:
        """Return the mechanism in one line."""
        numbers = ", ".join(
            f"{k}={v:.6g}" if isinstance(v, float) else f"{k}={v}" for k, v in self._parameters().items()
        )
        n = "private" if self.n is None else self.n
        return f"{self.word} of {self.system.to_dict()['system']}, n={n}" + (f", {numbers}" if numbers else "")


def _as_it_is(value: Any) -> Any:
    return value


_NUMBERS: dict[str, Callable[[Any], Any]] = {"float": float, "int": int, "bool": bool}


def check_system(system: Any) -> None:
    """Raise `InvalidValue` unless this is a system."""
    if not isinstance(system, System):
        raise InvalidValue(f"a mechanism takes a system such as BetaBernoulli(1, 1). Got a {type(system).__name__}")


def check_draws(draws: int) -> int:
    """Return a whole number of draws >= 1, or raise `InvalidValue`."""
    return whole("draws", draws, 1)
