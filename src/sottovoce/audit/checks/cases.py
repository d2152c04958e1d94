"""The mechanisms under check: each with small data sets, all their neighbours, and what it says it samples."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sottovoce.mechanisms import (
    ConcentratedPosterior,
    DiffusedPosterior,
    DirectPosterior,
    Mechanism,
    StatisticalQuery,
    TemperedPosterior,
)
from sottovoce.systems import BetaBernoulli, DirichletCategorical, GammaExponential, GammaPoisson, NormalMean

__all__ = ["Case", "cases", "neighbours", "stated"]


@dataclass(frozen=True)
class Case:
    """A mechanism and the values that a record may take, some of them far outside the bounds."""

    name: str
    mechanism: Mechanism
    values: tuple[Any, ...]

    @property
    def large(self) -> list[Any]:
        """As many records as the mechanism takes, most of them at one end."""
        n = self.mechanism.n
        return [self.values[-1] if i % 4 else self.values[0] for i in range(n)]


def _double(record: float) -> float:
    return 2.0 * record


def cases(n: int) -> list[Case]:
    """Return one case for each mechanism and each family, for n records."""
    beta, whole = BetaBernoulli(6, 12), (-7, 0.6, 1, 9)
    poisson, counts = GammaPoisson(6, 2, high=3), (-4, 2, 55)
    waiting, times = GammaExponential(5, 12, high=2.0), (-1.0, 0.7, 90.0)
    mean, numbers = NormalMean(variance=2.0, prior_variance=1.5, prior_mean=0.2, bounds=(-1.0, 2.0)), (-40.0, 0.5, 60.0)
    ball = NormalMean(variance=2.0, prior_variance=1.5, radius=1.0, dimension=2)
    points = ((-30.0, 0.0), (0.3, 0.4), (9.0, 0.0))
    three = DirichletCategorical([2.0, 3.0, 4.0])
    return [
        Case("direct Beta", DirectPosterior(beta, n), whole),
        Case("diffused Beta", DiffusedPosterior(beta, n, 0.4), whole),
        Case("concentrated Beta", ConcentratedPosterior(beta, n, 2.5), whole),
        Case("query", StatisticalQuery(beta, n, _double, 0.7), (-3.0, 0.2, 4.0)),
        Case("diffused Dirichlet", DiffusedPosterior(three, n, 0.6), (0, 1, 2)),
        Case("diffused Gamma–Poisson", DiffusedPosterior(poisson, n, 0.5), counts),
        Case("concentrated Gamma–Poisson", ConcentratedPosterior(poisson, n, 3.0), counts),
        Case("diffused Gamma–exponential", DiffusedPosterior(waiting, n, 0.5), times),
        Case("diffused mean", DiffusedPosterior(mean, n, 0.5), numbers),
        Case("direct mean in a ball", DirectPosterior(ball, n), points),
        Case("tempered Beta", TemperedPosterior(BetaBernoulli(1, 1), n, 4.0, 0.1), whole),
        Case("tempered Gamma–Poisson", TemperedPosterior(poisson, n, 6.0, (0.5, 4.0)), counts),
        Case("tempered mean", TemperedPosterior(mean, n, 3.0), numbers),
    ]


def neighbours(case: Case) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield every ordered pair of neighbouring data sets over the values of the case, up to equal statistics."""
    seen = set()
    for rest in itertools.combinations_with_replacement(case.values, case.mechanism.n - 1):
        for x, y in itertools.permutations(case.values, 2):
            pair = [*rest, x], [*rest, y]
            key = tuple(case.mechanism.see(records).total.tobytes() for records in pair)
            if key not in seen:
                seen.add(key)
                yield pair


def stated(mechanism: Mechanism, records: Any) -> Any:
    """Return the distribution that a mechanism says it samples, from its public numbers and the records."""
    statistics, numbers = mechanism.see(records), mechanism.to_dict()
    if isinstance(mechanism, TemperedPosterior):
        return mechanism.system.tempered(statistics, numbers["temperature"], numbers["truncation"])
    weights = numbers.get("data_weight", 1.0), numbers.get("prior_weight", 1.0)
    return mechanism.system.posterior(statistics, *weights)
