"""Forecasts of hazard regressions: the looks at imagined subjects, who are all followed to the last cut."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from sottovoce.inference.regression.assumed_rows import evenly_spread
from sottovoce.inference.regression.hazard_formula import HazardFormula
from sottovoce.inference.regression.hazard_looks import HazardLooks
from sottovoce.inference.regression.hazard_posterior import HazardGlance
from sottovoce.inference.regression.precision_forecast import PrecisionForecast
from sottovoce.inference.regression.released_look import ReleasedHazardLook
from sottovoce.inference.regression.simulated_forecast import check_varied, records_imagined, simulated
from sottovoce.privacy.numbers import Floats
from sottovoce.records.facts.assumed_distribution import AssumedDistribution
from sottovoce.records.readings import HazardLook
from sottovoce.records.readings.in_memory_records import as_columns

__all__ = ["foresee_hazards"]

_SUBJECTS = 2048
"""So many are imagined, each for as many as it takes."""
_EFFECT = 0.3
"""By so much a column moves the log hazard over its spread, as in every plan of a regression."""
_UNCUT, _UNWEIGHED = 30.0, 1e3


def foresee_hazards(
    mechanism: HazardLooks, said: AssumedDistribution, n: int | None, level: float
) -> list[PrecisionForecast]:
    """Return how wide the interval of each term will be, baselines included; nothing is read."""
    count = records_imagined(mechanism, n)
    rows, theta, *outcomes = _subjects(mechanism.system, said)
    known, each = np.ones(len(rows), dtype=bool), count * said.kept / len(rows)

    def looked(look: Any) -> Floats:
        return np.asarray(look.of_rows(rows, known, *outcomes) * each)

    return simulated(mechanism, looked, _plain(mechanism, looked, theta), level)


def _subjects(system: HazardFormula, said: AssumedDistribution) -> tuple[Floats, ...]:
    """Return rows, the log hazards and slopes that their times were made by, and events, times and starts."""
    said.check(system.facts)
    said, encoding = evenly_spread(system, said), system.encoding
    rng = np.random.default_rng(1)
    drawn = [said.values(name, system.facts[name], _SUBJECTS)[rng.permutation(_SUBJECTS)] for name in encoding.names]
    rows, _ = encoding.rows(as_columns(encoding.columns, drawn), _SUBJECTS)
    check_varied(rows, encoding)
    spread = np.where(encoding.ones, 1.0, np.maximum(rows.std(axis=0), 1e-6))
    slopes = np.resize([_EFFECT, -_EFFECT], rows.shape[1]) / spread
    share = float(np.clip(said.shares(system.event, system.facts[system.event])[1], 1e-6, 1 - 1e-6))
    last = system.cuts[-1]
    level = math.log(-math.log1p(-share) / last) - float((rows @ slopes).mean())
    places = (rng.permutation(_SUBJECTS) + 0.5) / _SUBJECTS
    times = -np.log(places) * np.exp(-level - rows @ slopes)
    theta = np.concatenate([np.full(system.baseline, level), slopes])
    outcomes = [(times <= last).astype(float), np.minimum(times, last)]
    if system.start is not None:
        late = said.values(system.start, system.facts[system.start], _SUBJECTS)[rng.permutation(_SUBJECTS)]
        outcomes.append(np.asarray(late, dtype=np.float64))
    return rows, theta, *outcomes


def _plain(mechanism: HazardLooks, looked: Callable[[HazardLook], Floats], theta: Floats) -> Floats:
    """Return the standard deviations of all terms without privacy."""
    first, J = mechanism.reading, mechanism.system.baseline
    shape = np.array(first.shape)
    centre = np.concatenate([theta[:J] + theta[J:] @ np.array(first.about), np.linalg.solve(shape.T, theta[J:])])
    look = replace(first, centre=tuple(centre.tolist()), norm=_UNWEIGHED, limit=_UNCUT)
    none = {"score": 0.0, "information": 0.0}
    glance = HazardGlance(ReleasedHazardLook(look, none, 1.0, looked(look)))
    G = glance.expected(np.zeros(len(theta)))[1]
    to_terms = mechanism.system.units[0] @ glance.back
    return np.sqrt(np.diag(to_terms @ np.linalg.inv(G) @ to_terms.T))
