"""Audited cases: posteriors of regressions in several looks, and the tempered one that trusts its chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.cases.regression import Linear, chain_moments
from sottovoce.audit.cases import case
from sottovoce.audit.subject import Subject
from sottovoce.inference.regression import (
    Design,
    DiffusedRegression,
    LocalisedRegression,
    Logistic,
    RefinedRegression,
    TemperedRegression,
)
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.promises import GaussianDP, PureDP
from sottovoce.records.readings import Rows

__all__ = ["tempered_subject"]


@dataclass(frozen=True)
class _Pair:
    """Rows, and labels of which the last is turned."""

    rows: Floats
    labels: Floats

    def __call__(self, side: int) -> tuple[Floats, Floats]:
        return self.rows, np.append(self.labels[:-1], 1.0 - 2.0 * side)


_EQUAL = _Pair(np.array([[1.0, 0.0]] * 4), np.ones(4))


@dataclass(frozen=True, eq=False)
class _LocalisedDraws:
    """The last phase's samples, each at the end of its own line of phases."""

    mechanism: LocalisedRegression

    def __call__(self, side: int, count: int, rng: np.random.Generator) -> Any:
        rows, labels = _EQUAL(side)
        return self.mechanism.outputs(Rows(len(labels), rows, labels), rng, count)


@case("localised posterior, worst quadratic, 2 phases", tight=True)
def localised() -> Subject:
    """Return two phases that move and blur the sample alike: then the last one shows all that both cost."""
    design = Design(Linear(), dimension=2, data_norm=1.0)
    phase = DiffusedRegression(design, 4, prior_precision=4.0, data_weight=0.4, n_steps=12, step=0.02)
    mechanism = LocalisedRegression(design, 4, (phase, phase))
    gap, variance = chain_moments(phase)
    return Subject(
        "localised posterior, worst quadratic, 2 phases",
        _LocalisedDraws(mechanism),
        mechanism.profile,
        lambda outputs: gap / variance * np.asarray(outputs)[:, 0],
    )


@dataclass(frozen=True, eq=False)
class _RefinedDraws:
    """Whole releases, one by one: samples of one release share its first looks."""

    mechanism: RefinedRegression
    pair: _Pair

    def __call__(self, side: int, count: int, rng: np.random.Generator) -> Any:
        rows, labels = self.pair(side)
        return self.mechanism.outputs(Rows(len(labels), rows, labels), rng, count)


@case("refined posterior", slow=True, one_in=100)
def refined() -> Subject:
    """Return three looks at one long row among rows of zeros; most of the promise goes to the chain, which sees it."""
    n = 100
    mechanism = RefinedRegression.calibrate(
        Design(Linear(), dimension=2, data_norm=1.0),
        n,
        GaussianDP(2.0),
        prior_scale=2.0,
        scales=(2.0,),
        statistics=0.1,
        n_steps=4,
    )
    rows = np.zeros((n, 2))
    rows[-1, 0] = 1.0
    pair = _Pair(rows, np.resize([1.0, -1.0], n))
    return Subject("refined posterior", _RefinedDraws(mechanism, pair), mechanism.profile, block=500)


@dataclass(frozen=True, eq=False)
class _TemperedDraws:
    """The last iterates of independent chains."""

    mechanism: TemperedRegression

    def __call__(self, side: int, count: int, rng: np.random.Generator) -> Any:
        rows, labels = _EQUAL(side)
        return self.mechanism.outputs(Rows(len(labels), rows, labels), rng, count)


def tempered_subject(name: str, mechanism: TemperedRegression) -> Subject:
    """Return the audit of a tempered logistic regression; of an exact sample the log-ratio is ρ·w·x."""
    weight = mechanism.data_weight
    return Subject(
        name, _TemperedDraws(mechanism), mechanism.profile, lambda outputs: weight * np.asarray(outputs)[:, 0]
    )


@case("tempered regression, if converged")
def tempered() -> Subject:
    """Return a tempered posterior on a ball some steps wide; its claim is that of an exact sample."""
    design = Design(Logistic(), dimension=2, data_norm=1.0, radius=5.0)
    mechanism = TemperedRegression.calibrate(design, 4, PureDP(1.0), prior_precision=0.1, n_steps=40)
    return tempered_subject("tempered regression, if converged", mechanism)
