"""Audited cases where the number of records is a secret: one record there, or not there at all."""

from __future__ import annotations

from functools import partial

from sottovoce.audit.cases import case
from sottovoce.audit.subject import Subject, subject_of
from sottovoce.inference.cells.noisy_cells import NoisyCells
from sottovoce.inference.cells.questions import Question
from sottovoce.inference.regression import AdaptiveLooks, Formula
from sottovoce.mechanisms import DiffusedPosterior, DirectPosterior, Mechanism
from sottovoce.mechanisms.conjugate import BetaBernoulli, DirichletCategorical
from sottovoce.mechanisms.integer_noise import NoiseKind
from sottovoce.records.facts import Category, Count, Facts, Flag, Number

__all__ = ["secret_cells", "secret_looks"]

_FACTS = Facts(smoker=Flag(), ward=Category(("A", "B", "C")), stay=Number(0, 10), visits=Count(6))
_RESPONSES = {"logistic": "smoker", "probit": "smoker", "linear": "stay", "poisson": "visits", "multinomial": "ward"}


def secret_cells(verb: str, column: str, noise: NoiseKind, scale: float) -> NoisyCells:
    """Return noisy cells that any number of records may be behind."""
    return NoisyCells(Question(verb, (column,), _FACTS), None, noise, scale)


def secret_looks(family: str = "logistic") -> AdaptiveLooks:
    """Return the looks of a regression that any number of records may be behind."""
    response = _RESPONSES[family]
    others = "smoker" if response == "ward" else "ward"
    return AdaptiveLooks(Formula(f"{response} ~ 0 + {others}", _FACTS, family=family), None, 0.5)


def _subject(name: str, mechanism: Mechanism) -> Subject:
    return subject_of(mechanism, name=name)


_CASES: dict[str, tuple[Mechanism, bool, bool]] = {
    "direct posterior of a share, n private": (DirectPosterior(BetaBernoulli(6, 12), None), True, False),
    "diffused posterior of a share, n private": (DiffusedPosterior(BetaBernoulli(3, 2), None, 0.6), True, False),
    "direct posterior of three shares, n private": (
        DirectPosterior(DirichletCategorical([4.0, 3.0, 5.0]), None),
        True,
        False,
    ),
    "counts with Laplace noise, n private": (secret_cells("counts", "ward", "laplace", 1.5), True, False),
    "counts with Gaussian noise, n private": (secret_cells("counts", "ward", "gaussian", 2.0), True, False),
    "mean with Laplace noise, n private": (secret_cells("mean", "stay", "laplace", 3.0), False, False),
    "mean with Gaussian noise, n private": (secret_cells("mean", "stay", "gaussian", 3.0), False, False),
    "adaptive looks, n private": (secret_looks(), False, True),
}

for _name, (_mechanism, _tight, _slow) in _CASES.items():
    case(_name, tight=_tight, slow=_slow)(partial(_subject, _name, _mechanism))
