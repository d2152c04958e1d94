"""Audited cases: every mechanism on every conjugate system."""

from __future__ import annotations

from collections.abc import Callable
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
from sottovoce.privacy.promises import ApproxDP, PureDP
from sottovoce.systems import BetaBernoulli, DirichletCategorical, GammaExponential, GammaPoisson, NormalMean

__all__: list[str] = []

N = 20
CENTRAL = ApproxDP(1.0, 1e-3)

SYSTEMS: dict[str, tuple[Any, Any]] = {
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


def _subject(name: str, build: Callable[[Any, Any], Mechanism], system: Any, cut: Any) -> Subject:
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
