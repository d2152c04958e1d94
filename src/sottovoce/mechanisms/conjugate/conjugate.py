"""What the conjugate systems share: reading records, public data, breaches, checks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from sottovoce.mechanisms.conjugate.distributions import Distribution
from sottovoce.mechanisms.conjugate.exact_posteriors import law_of
from sottovoce.mechanisms.conjugate.prior_parameters import Setting, checked_settings
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.json_values import mapping
from sottovoce.privacy.numbers import real
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.pure import PureProfile
from sottovoce.records.facts import Column, Facts
from sottovoce.records.readings import Reading, Statistics
from sottovoce.records.readings.base import checked_n, plain

FAR = 10_000
"""Where n is a secret the supremum is reached as the other records go on for ever: so many are nearly that."""


def check_weights(data_weight: float, prior_weight: float) -> tuple[float, float]:
    """Return both weights as floats above zero, or raise `InvalidValue` naming the one that is not."""
    data_weight = real("data_weight", data_weight)
    prior_weight = real("prior_weight", prior_weight)
    if data_weight == 0 or prior_weight == 0:
        raise InvalidValue(f"weights must be > 0. Got data_weight={data_weight:g}, prior_weight={prior_weight:g}")
    return data_weight, prior_weight


@dataclass(frozen=True, eq=False)
class Conjugate(ABC):
    """A conjugate system from a reading, a posterior, a profile and the worst pairs.

    A subclass is a frozen dataclass of public numbers. It says how records are read (`reading`), what the posterior is
    (`posterior`), how a posterior becomes a prior again (`_with_prior`), which neighbouring posteriors are worst
    (`worst_pairs`) and what follows for privacy (`_profile`, for n >= 1).
    """

    word: ClassVar[str]
    parameter: ClassVar[str] = "theta"
    mechanisms: ClassVar[tuple[str, ...]] = (
        "direct posterior",
        "diffused posterior",
        "concentrated posterior",
        "tempered posterior",
        "noisy statistics",
    )
    """The mechanisms that serve such a system, by their words."""
    default_mechanism: ClassVar[str] = "diffused"
    """The mechanism to take where nobody names one."""
    whole_posterior: ClassVar[str] = "laplace"
    """What releases a whole posterior: what a person at the command line gets who names no mechanism."""
    title: ClassVar[str] = ""
    """What the unknown is, in a few words for a form."""
    settings: ClassVar[Mapping[str, Setting]] = {}
    """The numbers that a question may set, by the names of their fields; the other fields come from the facts."""

    @property
    @abstractmethod
    def reading(self) -> Reading:
        """How a record becomes S(x)."""

    @abstractmethod
    def posterior(self, statistics: Statistics, data_weight: float = 1.0, prior_weight: float = 1.0) -> Distribution:
        """Return the posterior with the data counted `data_weight` times, the prior `prior_weight` times."""

    def law(self, statistics: Statistics, data_weight: float = 1.0, prior_weight: float = 1.0) -> Any:
        """Return the posterior in exact numbers, from which a release is drawn: the doubles of `posterior` as they are.

        A system of ours says it in fractions, so that no rounding comes between the statistics and the law.
        """
        return law_of(self.posterior(statistics, data_weight, prior_weight))

    def tempered_law(self, statistics: Statistics, temperature: float, truncation: object) -> Any:
        """Return the truncated posterior at a temperature in exact numbers."""
        return law_of(self.tempered(statistics, temperature, truncation))  # type: ignore[attr-defined]

    @abstractmethod
    def worst_pairs(
        self, n: int, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> tuple[tuple[Distribution, Distribution], ...]:
        """Return ordered pairs of neighbouring posteriors among which the Rényi divergence is largest."""

    @abstractmethod
    def _profile(self, n: int, data_weight: float, prior_weight: float) -> Profile:
        """Return what one sample provably does, for n >= 1."""

    def _open_profile(self, data_weight: float, prior_weight: float) -> Profile:
        """Return what one sample provably does where n is a secret, or say why nothing is known."""
        raise InvalidValue(
            f"with n private nothing is proven of a sample of {self.word}: one record more moves two of its parameters "
            "at once; ask for the mean or the rate, whose count and sums are noised together"
        )

    @abstractmethod
    def _with_prior(self, prior: Any) -> Self:
        """Return the system with another prior of the same family."""

    @classmethod
    def usual(cls, column: Column | None) -> dict[str, Any] | None:
        """Return the arguments for a column with these facts: its bounds, and a prior that says little.

        None where such a column is not of this kind; without a column, a record is whether a condition holds.
        """
        del column
        return None

    @classmethod
    def from_facts(cls, settings: Mapping[str, object], facts: Facts, column: str | None = None) -> Self:
        """Return the system of a question: what it sets, and the rest by the facts of the column it is about."""
        known = cls.usual(None if column is None else facts[column])
        if known is None:
            about = "a condition alone" if column is None else f"a {facts[column].word}"
            raise InvalidValue(f"{cls.word} does not read {about}")
        return cls(**(known | checked_settings(cls.word, cls.settings, settings)))

    @property
    def coordinates(self) -> tuple[object, ...] | None:
        """The names of the parameter's coordinates; None where it is one number."""
        return None

    def new_record(self) -> Any:
        """Return what a new record is, given the parameter: a `sottovoce.mechanisms.conjugate.predictive.NewRecord`."""
        raise InvalidValue(f"nobody has said what a new record of {self.word} is")

    def profile(self, n: int | None, data_weight: float = 1.0, prior_weight: float = 1.0) -> Profile:
        """Return what one sample from the posterior of n records provably does; n is None where it is a secret."""
        weights = check_weights(data_weight, prior_weight)
        if n is None:
            return self._open_profile(*weights)
        # With no record there are no neighbours: μ = 0 says so.
        return self._profile(n, *weights) if checked_n(n) else GaussianProfile(0.0)

    def profile_within(self, n: int, distance: float, data_weight: float = 1.0, prior_weight: float = 1.0) -> Profile:
        """Return what one sample does to data sets that differ in one record, by at most `distance` there.

        The step is shorter and the other records are as before, so that the supremum sits where it does for all
        neighbours; of shares and families of one's own the differing record's own place joins the others.
        """
        step, weights = real("distance", distance), check_weights(data_weight, prior_weight)
        return self._near_profile(n, step, *weights) if step and checked_n(n) else PureProfile(0.0)

    def _near_profile(self, n: int, step: float, data_weight: float, prior_weight: float) -> Profile:
        """Return `profile_within`, for n >= 1 and a step above 0."""
        raise InvalidValue(f"nobody has worked out near neighbours of {self.word}; use its own profile")

    def lambda_star(self, n: int, data_weight: float = 1.0, prior_weight: float = 1.0) -> float:
        """Return the order from which the Rényi divergence is infinite (Geumlek et al. 2017, Cor. 1)."""
        return self.profile(n, data_weight, prior_weight).pole

    def statistics(self, records: object, missing: object = None) -> Statistics:
        """Return n and ΣS(x) in one pass. Records outside the bounds are clipped, and nobody counts how many.

        Takes NumPy arrays, pandas and polars columns, Arrow arrays and plain lists. Every record counts: what is no
        number counts as 0 cut to the bounds, what is of no category as the first, unless `missing` says otherwise.
        """
        return self.reading.read(records, missing)

    def _read_public(self, records: object) -> Statistics:
        return records if isinstance(records, Statistics) else self.reading.read(records, public=True)

    def check(self, statistics: Statistics) -> Statistics:
        """Return the statistics if records within the bounds can have them, else raise `InvalidData`."""
        return self.reading.check(statistics)

    def with_public(self, records: object) -> Self:
        """Return the system after public records have been added to the prior; calibrate with that one."""
        return self._with_prior(self.posterior(self._read_public(records)))

    def with_known_records(self, records: object, data_weight: float = 1.0, prior_weight: float = 1.0) -> Self:
        """Return the system an attacker faces who knows these records of the table already.

        The known records move into the prior with the weight that the mechanism gave them, beside the prior's own; the
        new profile, at n less the known ones, is what still protects the others.
        """
        data_weight, prior_weight = check_weights(data_weight, prior_weight)
        return self._with_prior(self.posterior(self._read_public(records), data_weight / prior_weight))

    def worst_data(self, n: int | None) -> list[tuple[Statistics, Statistics]]:
        """Return the statistics of neighbouring data sets among which the worst posteriors are, n >= 1 or None."""
        return self.reading.pairs(n)

    @classmethod
    def from_dict(cls, state: Mapping[str, object]) -> Self:
        """Read a system from `to_dict`'s form, its word left out or not."""
        numbers = {name: value for name, value in mapping("system", state).items() if name not in ("system", "kind")}
        for name in ("bounds", "categories"):
            if isinstance(numbers.get(name), list):
                numbers[name] = tuple(numbers[name])
        try:
            return cls(**numbers)
        except TypeError as error:
            reason = str(error).replace(f"{cls.__name__}.__init__()", cls.word)
            raise InvalidValue(f"cannot build the system: {reason}") from None

    def to_dict(self) -> dict[str, object]:
        """Return the public description: the system's word and its numbers."""
        return {"system": self.word} | {f.name: plain(getattr(self, f.name)) for f in fields(self)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Conjugate) and type(other) is type(self) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]
