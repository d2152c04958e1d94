"""Answers by group: what one record moves, by trying every kind of record, and records that belong to nobody."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from sottovoce.audit.checks.result import check, verdict
from sottovoce.inference.cells.noisy_cells import NoisyCells
from sottovoce.inference.cells.questions import Question
from sottovoce.privacy.numbers import Floats
from sottovoce.records.facts import Category, Count, Facts, Flag, Number

__all__ = ["cells", "outside"]

_FACTS = Facts(ward=Category(("A", "B")), smoker=Flag(), x=Number(-3, 1e9), k=Count(7), e=Number(0, 2, missing=1.0))
_QUESTIONS = (
    Question("proportion", ("smoker",), _FACTS, ("ward",)),
    Question("mean", ("x",), _FACTS),
    Question("mean", ("x",), _FACTS, ("ward",)),
    Question("mean", ("e",), _FACTS),
    Question("rate", ("k",), _FACTS, ("ward",), exposure="e"),
)
_VALUES: dict[str, list[Any]] = {
    "ward": ["A", "B", None],
    "smoker": [True, False, None],
    "x": [*np.linspace(-3, 1e9, 13), np.nan, np.inf],
    "k": [0, 3, 7, 99, None],
    "e": [0.0, 1.0, 2.0, np.nan],
}


@check("cells of an answer move no more than is claimed")
def cells() -> tuple[bool, str]:
    """Every pair of records, in units of the noise, against the claim of either noise."""
    problems, pairs = [], 0
    for question in _QUESTIONS:
        for noise, power in (("laplace", 1), ("gaussian", 2)):
            mechanism = NoisyCells(question, 1, noise, 40.0)  # type: ignore[arg-type]
            scales = np.repeat([part.scale for part in mechanism.noises], mechanism.reading.sizes)
            rows = _read(question) / scales
            moved = max(float((np.abs(rows - row) ** power).sum(axis=1).max()) for row in rows) / power
            pairs += len(rows) ** 2
            claimed = mechanism.profile.pure() if power == 1 else mechanism.profile.zcdp()
            if moved > claimed * (1 + 1e-12):
                problems.append(
                    f"{question.describe()}: {noise} noise claims {claimed:.4g}, a record moves {moved:.4g}"
                )
    return verdict(problems, f"{pairs} pairs of records, none moved a table of cells by more than is claimed")


def _read(question: Question) -> Floats:
    chosen = itertools.product(*(_VALUES[name] for name in question.columns))
    return np.array([question.reading.read([[value] for value in record]).total for record in chosen])


@check("a record of no group adds nothing to any group")
def outside() -> tuple[bool, str]:
    """Records with a missing value or an unknown group, beside some that are well."""
    problems, tried = [], 0
    for question in _QUESTIONS[:3]:
        well: dict[str, Any] = {"ward": "A", "smoker": True, "x": 5.0}
        names, reading = question.columns, question.reading
        alone = reading.read([[well[name]] for name in names]).total[: reading.cells]
        for name in names:
            both = reading.read([[well[n], None if n == name else well[n]] for n in names])
            tried += 1
            if both.n != 2 or not np.array_equal(both.total[: reading.cells], alone) or both.total[reading.cells] != 1:
                problems.append(f"{question.describe()}: a record without {name} changes a group, or n")
    return verdict(problems, f"{tried} records of no group, all counted apart")
