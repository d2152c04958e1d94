"""Models with scikit-learn's manners: each fit is one release of a mechanism."""

from __future__ import annotations

import importlib
from typing import Any

_PLACES = {
    "EveryFitSpends": "manners",
    "LinearRegression": "linear",
    "LinearSVC": "linear",
    "LogisticRegression": "linear",
    "NaiveBayes": "naive_bayes",
    "PoissonRegression": "poisson",
    "PrivateSearchCV": "search",
    "ProbitRegression": "linear",
    "PublicEncoder": "public_steps",
    "PublicScaler": "public_steps",
    "SGDLogisticRegression": "sgd",
    "private_pipeline": "public_steps",
}
"""Imported when first used: each needs scikit-learn, and most need JAX."""

__all__ = list(_PLACES)


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(importlib.import_module(f"sottovoce.estimators.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'sottovoce.estimators' has no attribute {name!r}")
