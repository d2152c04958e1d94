"""A statistical query: how often a predicate holds, answered through the Beta system."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.conjugate.beta_bernoulli import BetaBernoulli
from sottovoce.mechanisms.conjugate.system import System
from sottovoce.mechanisms.posterior_sample import PosteriorSample
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import real
from sottovoce.privacy.promises import Promise

__all__ = ["StatisticalQuery"]

Predicate = Callable[[Any], float]


@dataclass(frozen=True, eq=False)
class StatisticalQuery(PosteriorSample):
    """Answer "what is the mean of φ(x)?" with a sample of the Beta posterior, φ any map into [0, 1].

    The data counts `data_weight` <= 1 times, or the prior `prior_weight` >= 1 times (Geumlek et al. 2017, §3.3, with
    Algorithm 2 or 3; Geumlek 2020, Algorithm 4).

    Parameters
    ----------
    system
        A `BetaBernoulli`; its records are fractions here.
    predicate
        φ, called on one record at a time, so that no record can touch another's answer; what it returns is clipped to
        [0, 1], and where it fails, or returns no number, the record counts as 0. None where the records are φ(x)
        already; so it is for a curator, whose table is asked by a column of numbers from 0 to 1 or by a condition.
        Of a query read back from its public numbers only φ's name is known: it says what it costs, and asks no records.
    data_weight, prior_weight
        How often data and prior count.

    Examples
    --------
    >>> from sottovoce.privacy.promises import ApproxDP
    >>> def over_forty(record):
    ...     return record["age"] > 40
    >>> query = StatisticalQuery.calibrate(
    ...     BetaBernoulli(2, 2), n=3, target=ApproxDP(1.0, 1e-3), predicate=over_forty
    ... )
    >>> answer = query.release([{"age": 31}, {"age": 58}, {"age": 44}]).value
    >>> 0 <= answer <= 1
    True
    """

    word: ClassVar[str] = "statistical query"
    predicate: Predicate | str | None = None
    data_weight: float = 1.0
    prior_weight: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "system", _fractional(self.system))
        if not (self.predicate is None or callable(self.predicate) or isinstance(self.predicate, str)):
            raise InvalidValue(f"predicate must be a function of one record. Got {self.predicate!r}")
        object.__setattr__(self, "data_weight", real("data_weight", self.data_weight))
        if not 0 < self.data_weight <= 1:
            raise InvalidValue(f"data_weight must be > 0 and <= 1. Got {self.data_weight!r}")
        object.__setattr__(self, "prior_weight", real("prior_weight", self.prior_weight))
        if not 1 <= self.prior_weight < float("inf"):
            raise InvalidValue(f"prior_weight must be >= 1 and finite. Got {self.prior_weight!r}")

    @property
    def _weights(self) -> tuple[float, float]:
        return float(self.data_weight), float(self.prior_weight)

    @classmethod
    def example(cls) -> Self:
        """Return a question about the mean of five numbers cut to [0, 1]."""
        return cls(BetaBernoulli(2, 2), 5, float, 0.7)

    @classmethod
    def calibrate(
        cls,
        system: System,
        n: int,
        target: Promise,
        *,
        predicate: Predicate | None = None,
        weigh: Literal["data", "prior"] = "data",
    ) -> Self:
        """Return the query with the largest data weight that keeps the promise, or with the smallest prior weight."""
        fractional = _fractional(system)
        if weigh == "prior":
            share = largest_keeping(lambda m: fractional.profile(n, 1.0, 1 / m), target, high=1.0, name="prior share")
            return cls(fractional, n, predicate, prior_weight=1 / share)
        if weigh != "data":
            raise InvalidValue(f"weigh must be 'data' or 'prior'. Got {weigh!r}")
        weight = largest_keeping(lambda w: fractional.profile(n, w, 1.0), target, high=1.0, name="data_weight")
        return cls(fractional, n, predicate, weight)

    def _statistics(self, records: Any) -> Any:
        if isinstance(self.predicate, str):
            raise InvalidValue(f"only the name of {self.predicate!r} is known here; build the query with the function")
        if self.predicate is None:
            return self.system.statistics(records)
        if isinstance(records, Mapping | str | bytes) or hasattr(records, "columns"):
            # Going through a frame or a mapping yields its names, not its records.
            raise InvalidData(
                f"a query goes through records one by one; give a list of them or one column. "
                f"Got a {type(records).__name__}"
            )
        try:
            each = list(records)
        except TypeError:
            raise InvalidData(f"a query goes through a list of records. Got a {type(records).__name__}") from None
        return self.system.statistics([self._answer(record) for record in each])

    def _answer(self, record: object) -> Any:
        try:
            return self.predicate(record)  # type: ignore[operator, misc]
        except Exception:  # a failure would tell that such a record exists; it counts as 0 instead
            return None

    def _parameters(self) -> dict[str, object]:
        weights: dict[str, object] = {"data_weight": float(self.data_weight), "prior_weight": float(self.prior_weight)}
        if self.predicate is None:
            return weights
        known = self.predicate if isinstance(self.predicate, str) else type(self.predicate).__name__
        return weights | {"predicate": getattr(self.predicate, "__name__", known)}


def _fractional(system: System) -> BetaBernoulli:
    if not isinstance(system, BetaBernoulli):
        raise InvalidValue(
            "a statistical query is answered through BetaBernoulli(alpha, beta); give that as the system"
        )
    return replace(system, whole=False)
