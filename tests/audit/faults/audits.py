"""Audits that catch faults by the answers alone: they draw, and know nothing of how the mechanism works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from audit.checks import CheckResult, run_check
from audit.faults import relations, served
from audit.faults.served import SURE
from sottovoce.audit import AuditReport, Verdict, audit
from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.losses import Logistic
from sottovoce.inference.regression.posterior import DiffusedRegression
from sottovoce.mechanisms import DirectPosterior, NoisyStatistics
from sottovoce.mechanisms.conjugate import BetaBernoulli, DirichletCategorical, NormalMean
from sottovoce.records.readings import Rows

__all__ = ["AUDITS", "run"]


def _sample() -> AuditReport:
    return audit(DirectPosterior(BetaBernoulli(1, 1), 3), ([0, 0, 0], [0, 0, 9]), draws=20_000)


def _vector() -> AuditReport:
    mechanism = DirectPosterior(NormalMean(1.0, 1.0, radius=1.0, dimension=2), 2)
    return audit(mechanism, ([[0.0, 0.0], [-9.0, 0.0]], [[0.0, 0.0], [9.0, 0.0]]), draws=20_000)


def _histogram() -> AuditReport:
    mechanism = NoisyStatistics(DirichletCategorical([1.0, 1.0, 1.0]), 2, "laplace", 2.0)
    return audit(mechanism, ([0, 1], [0, 2]), draws=5000, seed=None, confidence=SURE)


def _chain() -> AuditReport:
    posterior = DiffusedRegression(Design(Logistic(), dimension=1, data_norm=1.0), 2, 1.0, 1.0, n_steps=3)

    def release(data: Any, rng: np.random.Generator, draws: int) -> Any:
        return posterior.outputs(Rows(2, np.reshape(data, (2, 1)), np.ones(2)), rng, draws)[:, 0]

    return audit(release, ([0.0, 30.0], [0.0, -30.0]), posterior.profile, draws=20_000, test="scan")


AUDITS: dict[str, Callable[[], AuditReport | CheckResult]] = {
    "audit of a posterior sample": _sample,
    "audit of a sampled vector": _vector,
    "audit of a noisy histogram": _histogram,
    "audit of a Langevin chain": _chain,
    served.ANSWERS: served.answers,
    served.REFUSALS: served.refusals,
    relations.SERVED: relations.served,
}


def run(name: str) -> CheckResult:
    """Run an audit or a check by its name; an audit passes unless the claim is clearly violated."""
    if name not in AUDITS:
        return run_check(name)
    try:
        report = AUDITS[name]()
    except Exception as error:
        return CheckResult(name, False, f"{type(error).__name__}: {error}")
    if isinstance(report, CheckResult):
        return report
    bounds = {"ε": report.epsilon, "μ": report.mu, f"δ({report.accused_at:.3g})": report.accusation}
    what, worst = max(bounds.items(), key=lambda item: item[1].ratio or 0.0)
    evidence = f"{what} ≥ {worst.lower:.3g} by {report.draws} draws, and {worst.claimed:.3g} is claimed"
    return CheckResult(name, report.verdict is not Verdict.VIOLATED, evidence)
