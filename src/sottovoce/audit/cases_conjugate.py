"""Every mechanism on every conjugate system: cases to audit, and small ones whose neighbours can all be tried."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from sottovoce.audit.cases import case
from sottovoce.audit.subject import Subject, subject_of
from sottovoce.mechanisms import (
    ConcentratedPosterior,
    DiffusedPosterior,
    DirectPosterior,
    Mechanism,
    NoisyStatistics,
    StatisticalQuery,
    TemperedPosterior,
)
from sottovoce.mechanisms.conjugate import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NormalMean,
)
from sottovoce.privacy.promises import ApproxDP, PureDP

__all__ = ["Small", "small_cases", "stated"]

N = 20
CENTRAL = ApproxDP(1.0, 1e-3)

SYSTEMS: dict[str, tuple[object, object]] = {
    "beta-bernoulli": (BetaBernoulli(6, 12), 0.1),
    "dirichlet-categorical": (DirichletCategorical([8.0, 12.0, 20.0]), 0.05),
    "gamma-poisson": (GammaPoisson(12, 4, high=2), (0.5, 5.0)),
    "gamma-exponential": (GammaExponential(8, 24, high=2.0), (0.1, 1.0)),
    "normal-mean": (NormalMean(variance=1, prior_variance=1, bounds=(0, 2)), None),
}
"""A system, and where its parameter is truncated for the tempered posterior."""

MECHANISMS: dict[str, tuple[Callable[[Any, Any], Mechanism], bool]] = {
    "direct": (lambda system, _: DirectPosterior(system, N), True),
    "diffused": (lambda system, _: DiffusedPosterior.calibrate(system, N, CENTRAL), True),
    "concentrated": (lambda system, _: ConcentratedPosterior.calibrate(system, N, CENTRAL), True),
    "tempered": (lambda system, cut: TemperedPosterior.calibrate(system, N, PureDP(1.0), cut), False),
    "laplace": (lambda system, _: NoisyStatistics.calibrate(system, N, PureDP(1.0), "laplace"), True),
    "gaussian": (lambda system, _: NoisyStatistics.calibrate(system, N, CENTRAL, "gaussian"), True),
}
"""How a mechanism is built from a system and a truncation, and whether its claim is the supremum itself."""


def _subject(name: str, build: Callable[[Any, Any], Mechanism], system: object, cut: object) -> Subject:
    return subject_of(build(system, cut), name=name)


for _word, (_system, _cut) in SYSTEMS.items():
    for _kind, (_build, _exact) in MECHANISMS.items():
        # Gaussian noise on finely gridded sums is claimed by its ρ alone, which says less than its curve.
        _tight = _exact and not (_kind == "gaussian" and _word in ("gamma-exponential", "normal-mean"))
        _name, _slow = f"{_kind}, {_word}", _kind in ("laplace", "gaussian")
        case(_name, tight=_tight, slow=_slow)(partial(_subject, _name, _build, _system, _cut))


@case("direct, normal-mean in a ball", tight=True)
def ball() -> Subject:
    """Return the posterior of a mean of vectors."""
    system = NormalMean(variance=1, prior_variance=1, radius=1.0, dimension=3)
    return subject_of(DirectPosterior(system, N), name="direct, normal-mean in a ball")


@case("gaussian, normal-mean in a ball", slow=True)
def noisy_ball() -> Subject:
    """Return the noisy sum of vectors."""
    system = NormalMean(variance=1, prior_variance=1, radius=1.0, dimension=3)
    mechanism = NoisyStatistics.calibrate(system, N, CENTRAL, "gaussian")
    return subject_of(mechanism, name="gaussian, normal-mean in a ball")


@case("statistical query", tight=True)
def query() -> Subject:
    """Return a query, its predicate applied to records of both data sets."""
    mechanism = StatisticalQuery.calibrate(BetaBernoulli(6, 12), N, CENTRAL, predicate=float)
    return subject_of(mechanism, ([0.0] * N, [0.0] * (N - 1) + [1.0]), name="statistical query")


@dataclass(frozen=True)
class Small:
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


def small_cases(n: int) -> list[Small]:
    """Return one case for each mechanism and each family, for n records."""
    beta, full = BetaBernoulli(6, 12), (-7, 0.6, 1, 9)
    poisson, counts = GammaPoisson(6, 2, high=3), (-4, 2, 55)
    waiting, times = GammaExponential(5, 12, high=2.0), (-1.0, 0.7, 90.0)
    mean, numbers = NormalMean(variance=2.0, prior_variance=1.5, prior_mean=0.2, bounds=(-1.0, 2.0)), (-40.0, 0.5, 60.0)
    ball = NormalMean(variance=2.0, prior_variance=1.5, radius=1.0, dimension=2)
    points = ((-30.0, 0.0), (0.3, 0.4), (9.0, 0.0))
    three = DirichletCategorical([2.0, 3.0, 4.0])
    return [
        Small("direct Beta", DirectPosterior(beta, n), full),
        Small("diffused Beta", DiffusedPosterior(beta, n, 0.4), full),
        Small("concentrated Beta", ConcentratedPosterior(beta, n, 2.5), full),
        Small("query", StatisticalQuery(beta, n, _double, 0.7), (-3.0, 0.2, 4.0)),
        Small("diffused Dirichlet", DiffusedPosterior(three, n, 0.6), (0, 1, 2)),
        Small("diffused Gamma–Poisson", DiffusedPosterior(poisson, n, 0.5), counts),
        Small("concentrated Gamma–Poisson", ConcentratedPosterior(poisson, n, 3.0), counts),
        Small("diffused Gamma–exponential", DiffusedPosterior(waiting, n, 0.5), times),
        Small("diffused mean", DiffusedPosterior(mean, n, 0.5), numbers),
        Small("direct mean in a ball", DirectPosterior(ball, n), points),
        Small("tempered Beta", TemperedPosterior(BetaBernoulli(1, 1), n, 4.0, 0.1), full),
        Small("tempered Gamma–Poisson", TemperedPosterior(poisson, n, 6.0, (0.5, 4.0)), counts),
        Small("tempered mean", TemperedPosterior(mean, n, 3.0), numbers),
    ]


def stated(mechanism: Mechanism, records: object) -> Any:
    """Return the distribution that a mechanism says it samples, from its public numbers and the records."""
    statistics, numbers = mechanism.see(records), mechanism.to_dict()
    if "temperature" in numbers:
        return mechanism.system.tempered(statistics, numbers["temperature"], numbers["truncation"])
    weights = numbers.get("data_weight", 1.0), numbers.get("prior_weight", 1.0)
    return mechanism.system.posterior(statistics, *weights)
