"""Checks of what stands between the records and a private fit: no row may know of another."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler, scale

from sottovoce.audit.checks.result import check, verdict
from sottovoce.faces.estimators import EveryFitSpends, LinearRegression, PublicFunction, PublicScaler
from sottovoce.privacy.errors import UnprovenPrivacy
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.promises import ApproxDP

__all__ = ["rows_know_of_no_other"]

_N, _CHANGED = 12, 4
_X = np.add.outer(np.arange(_N) % 5, np.arange(3)) / 8.0


class _Noted(LinearRegression):
    """A regression that keeps what reaches it, and releases nothing."""

    def _given(self, mechanism: Any, X: Floats, y: Any) -> Any:
        self.reached.append(np.column_stack([X, y]))
        raise EOFError

    reached: list[Floats] = []  # noqa: RUF012


def _before(model: Any) -> dict[str, Any]:
    steps = {
        "a scaler that learns": StandardScaler(),
        "a function of all rows": FunctionTransformer(scale),
        "a normalizer": Normalizer(),
        "a frozen function of all rows": FrozenEstimator(FunctionTransformer(scale)),
        "a union": FeatureUnion([("a", FunctionTransformer(scale)), ("b", PublicScaler([(0, 2)] * 3))]),
        "a function of one column": ColumnTransformer(
            [("a", FunctionTransformer(scale), [0])], remainder="passthrough"
        ),
        "a column chosen by its range": ColumnTransformer([("a", "passthrough", _widest)]),
        "a public scaler": PublicScaler([(0, 2)] * 3),
        "a public function": PublicFunction([np.log1p] * 3),
    }
    wrapped = TransformedTargetRegressor(model, transformer=StandardScaler())
    return {
        **{name: make_pipeline(step, model) for name, step in steps.items()},
        "a scaled response": wrapped,
        "a scaled response in a pipeline": make_pipeline(PublicScaler([(0, 2)] * 3), wrapped),
    }


def _widest(X: Floats) -> list[int]:
    return [int(np.argmax(np.ptp(X, axis=0)))]


def _reaches(fitted: Any, X: Floats, y: Floats) -> Floats | None:
    """Return the other rows as they reach the private fit, or None where it is refused."""
    _Noted.reached.clear()
    try:
        fitted.fit(X, y)
    except UnprovenPrivacy:
        return None
    except EOFError:
        return np.delete(_Noted.reached[-1], _CHANGED, axis=0)
    raise AssertionError("the fit was not reached")


@check("no row that reaches a private fit knows of another record")
def rows_know_of_no_other() -> tuple[bool, str]:
    """One record is changed in front of pipelines and wrappers of scikit-learn, and every other row looked at."""
    problems, passed, refused = [], 0, 0
    y = np.linspace(-1, 1, _N)
    X_other, y_other = _X.copy(), y.copy()
    X_other[_CHANGED], y_other[_CHANGED] = [0.0, 2.0, 0.0], 1.0
    model = _Noted(target=ApproxDP(1.0, 1e-6), data_norm=2.0, response_bound=1.0)
    for name, fitted in _before(model).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EveryFitSpends)
            rows, others = _reaches(fitted, _X, y), _reaches(fitted, X_other, y_other)
        if rows is None or others is None:
            refused += 1
        elif rows.shape != others.shape or not np.array_equal(rows, others):
            problems.append(f"one record moves other rows behind {name}")
        else:
            passed += 1
    if passed < 2:
        problems.append(f"{passed} of 2 public pipelines are let through")
    return verdict(problems, f"{passed} pipelines of public steps pass, {refused} that learn are refused")
