"""Forecasts of ordinal regressions: the looks at imagined records whose log-odds the columns move a little."""

from __future__ import annotations

import numpy as np
from scipy import special

from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks
from sottovoce.inference.regression.assumed_rows import evenly_spread
from sottovoce.inference.regression.ordinal_formula import OrdinalFormula
from sottovoce.inference.regression.precision_forecast import PrecisionForecast
from sottovoce.inference.regression.simulated_forecast import records_imagined, simulated
from sottovoce.privacy.numbers import Floats
from sottovoce.records.facts.assumed_distribution import AssumedDistribution
from sottovoce.records.readings import OrdinalLook
from sottovoce.records.readings.in_memory_records import as_columns

__all__ = ["foresee_ordinal"]

_RECORDS = 2048
"""So many are imagined, each for as many as it takes."""
_EFFECT = 0.3
"""By so much a column moves the log-odds over its spread, as in every plan of a regression."""
_NEVER = 1e-4
"""A value that is imagined never is met by so few."""


def foresee_ordinal(
    mechanism: AdaptiveLooks, said: AssumedDistribution, n: int | None, level: float
) -> list[PrecisionForecast]:
    """Return how wide the interval of each term will be; nothing is read."""
    system, count = mechanism.system, records_imagined(mechanism, n)
    assert isinstance(system, OrdinalFormula)
    rows, t, places = _records(system, said)
    known, each = np.ones(len(rows), dtype=bool), count * said.kept / len(rows)
    plain = np.sqrt(np.diag(system.units[0] @ _covariance(rows, t, each) @ system.units[0].T))

    def looked(look: OrdinalLook) -> Floats:
        return np.asarray(look.of_rows(rows, known, places) * each)

    return simulated(mechanism, looked, plain, level)


def _records(system: OrdinalFormula, said: AssumedDistribution) -> tuple[Floats, Floats, Floats]:
    """Return rows, their log-odds at each cut, and the places of their responses."""
    said.check(system.facts)
    said, encoding = evenly_spread(system, said), system.design
    rng = np.random.default_rng(1)
    drawn = [said.values(name, system.facts[name], _RECORDS)[rng.permutation(_RECORDS)] for name in encoding.names]
    rows, _ = encoding.rows(as_columns(encoding.columns, drawn), _RECORDS)
    spread = np.where(encoding.ones, 1.0, np.maximum(rows.std(axis=0), 1e-6))
    moves = (rows - rows.mean(axis=0)) @ (np.resize([_EFFECT, -_EFFECT], rows.shape[1]) / spread)
    name, values = system.parsed.response, np.array(system.values)
    met = said.values(name, system.response, _RECORDS)
    above = np.array([np.mean(np.isin(met, values[k + 1 :])) for k in range(system.cuts)])
    t = moves[:, None] + special.logit(np.clip(above, _NEVER, 1 - _NEVER))
    even = (rng.permutation(_RECORDS) + 0.5) / _RECORDS
    return rows, t, (even[:, None] < special.expit(t)).sum(axis=1).astype(np.float64)


def _covariance(rows: Floats, t: Floats, each: float) -> Floats:
    """Return H⁻¹JH⁻¹ of stacked logits without privacy."""
    K, p = t.shape[1], special.expit(t)
    at = np.vstack([np.zeros(K - 1), np.eye(K - 1)])
    x = np.stack([np.hstack([rows, np.tile(part, (len(rows), 1))]) for part in at])
    information = each / K * np.einsum("krd,rk,kre->de", x, p * (1 - p), x, optimize=True)
    together = np.minimum(p[:, :, None], p[:, None]) - p[:, :, None] * p[:, None]
    meat = each / K**2 * np.einsum("jrd,rjk,kre->de", x, together, x, optimize=True)
    inverse = np.linalg.pinv(information)
    return np.asarray(inverse @ meat @ inverse)
