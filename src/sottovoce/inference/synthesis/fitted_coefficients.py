"""Coefficients of an estimator of scikit-learn with variances, by a jackknife that leaves out groups of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.randomness import seeded_rng

__all__ = ["coefficients"]

_GROUPS = 20
"""Groups of rows: so many degrees of freedom of each table's variance, less one (Kott 2001 takes 15 and more)."""
_SEED = 1958
"""Which rows are in which group, the same whenever it is asked."""


def coefficients(estimator: Any, table: Any, label: str) -> tuple[dict[str, float], dict[str, float]]:
    r"""Return the coefficients of an estimator fitted to a table by name, and their variances.

    .. math:: v = \frac{G-1}{G} \sum_g (q_{(g)} - \bar q)^2

    of the fits without each group (Tukey 1958; Kott 2001). Rows with a missing value are left out.
    """
    from sklearn.base import clone  # noqa: PLC0415 - an extra

    if label not in table:
        raise InvalidValue(f"there is no column {label!r} to explain")
    rows = table.dropna()
    features, answers = rows.drop(columns=label), rows[label].to_numpy()
    if answers.dtype.kind == "O":  # flags that could have been missing
        answers = np.array(answers.tolist())
    groups = seeded_rng(_SEED).permutation(len(rows)) % _GROUPS

    def fitted(kept: Any) -> dict[str, float]:
        model = clone(estimator).fit(features[kept], answers[kept])
        return _named(model, list(features.columns))

    known = fitted(np.ones(len(rows), dtype=bool))
    without = [fitted(groups != group) for group in range(_GROUPS)]
    if any(set(item) != set(known) for item in without):
        raise InvalidValue("a category is so rare that a fit without some rows has no term for it; name its categories")
    spread = {name: np.var([item[name] for item in without]) * (_GROUPS - 1) for name in known}
    return known, {name: float(value) for name, value in spread.items()}


def _named(model: Any, columns: list[str]) -> dict[str, float]:
    last, names = model, columns
    if hasattr(model, "steps"):
        last = model.steps[-1][1]
        names = list(model[:-1].get_feature_names_out()) if len(model.steps) > 1 else columns
    if not hasattr(last, "coef_"):
        raise InvalidValue(f"estimators with coef_ are combined. Got a {type(last).__name__}")
    values = np.atleast_2d(np.asarray(last.coef_, dtype=np.float64))
    starts = np.broadcast_to(np.asarray(getattr(last, "intercept_", 0.0), dtype=np.float64), (len(values),))
    classes = [f" ({name})" for name in getattr(last, "classes_", ())] if len(values) > 1 else [""]
    result: dict[str, float] = {}
    for row, start, of in zip(values, starts, classes, strict=True):
        result |= {f"intercept{of}": float(start)}
        result |= {f"{name}{of}": float(value) for name, value in zip(names, row, strict=True)}
    return result
