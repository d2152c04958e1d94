"""Models with scikit-learn's manners: each fit is one release of a mechanism."""

from __future__ import annotations

from sottovoce.privacy.lazily import lazily

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

__getattr__ = lazily(__name__, _PLACES)
