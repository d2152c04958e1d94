"""Audited cases: tiny shapes, bounds far from zero, far apart or close together, and counts of a billion."""

from __future__ import annotations

from functools import partial

from sottovoce.audit.cases import case
from sottovoce.audit.subject import Subject, subject_of
from sottovoce.mechanisms import DiffusedPosterior, DirectPosterior, Mechanism, NoisyStatistics, TemperedPosterior
from sottovoce.mechanisms.conjugate import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NormalMean,
)
from sottovoce.privacy.promises import ApproxDP, PureDP

__all__: list[str] = []

_N = 20
_CENTRAL = ApproxDP(1.0, 1e-3)
_BOUNDS = ((1e9, 1e9 + 1), (-1e13, -1e13 + 0.5), (-1e100, 1e100), (0.0, 1e-100))


def _shapes(kind: str) -> Mechanism:
    match kind:
        case "beta-bernoulli":
            return DirectPosterior(BetaBernoulli(1e-4, 1e-4), 5)
        case "dirichlet-categorical":
            return DiffusedPosterior(DirichletCategorical([1e-4, 1e-4, 1e-4]), 5, 0.3)
        case _:
            return DirectPosterior(GammaPoisson(1e-3, 1e-3, high=1), _N)


def _mean(kind: str, low: float, high: float) -> Mechanism:
    spread = (high - low) ** 2
    system = NormalMean(variance=spread, prior_variance=spread, prior_mean=low, bounds=(low, high))
    match kind:
        case "direct":
            return DirectPosterior(system, _N)
        case "tempered":
            return TemperedPosterior(system, _N, 6.0)
        case "laplace":
            return NoisyStatistics.calibrate(system, _N, PureDP(1.0), "laplace")
        case _:
            return NoisyStatistics.calibrate(system, _N, _CENTRAL, "gaussian")


def _wide(kind: str) -> Mechanism:
    match kind:
        case "waiting times of a picosecond":
            return DiffusedPosterior.calibrate(GammaExponential(8, 24e-12, high=2e-12), _N, _CENTRAL)
        case "a ball of a picometre":
            return NoisyStatistics.calibrate(NormalMean(1e-24, 1e-24, radius=1e-12, dimension=2), _N, _CENTRAL)
        case _:
            return NoisyStatistics.calibrate(GammaPoisson(2, 1, high=10**9), _N, PureDP(1.0))


def _register(name: str, build: partial[Mechanism], *, slow: bool = False) -> None:
    @case(name, slow=slow)
    def subject() -> Subject:
        return subject_of(build(), name=name)


for _kind in ("beta-bernoulli", "dirichlet-categorical", "gamma-poisson"):
    _register(f"tiny shapes, {_kind}", partial(_shapes, _kind))
for _low, _high in _BOUNDS:
    for _kind in ("direct", "tempered", "laplace", "gaussian"):
        _name = f"{_kind}, mean between {_low:.14g} and {_high:.14g}"
        _register(_name, partial(_mean, _kind, _low, _high), slow=_kind in ("laplace", "gaussian"))
for _kind in ("waiting times of a picosecond", "a ball of a picometre", "counts up to a billion"):
    _register(f"extreme units, {_kind}", partial(_wide, _kind), slow=True)
