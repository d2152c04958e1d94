"""Models with scikit-learn's manners: each fit is one release of a mechanism."""

from __future__ import annotations

from sottovoce.privacy.lazily import lazily

_HOMES = {
    "linear": ("LinearRegression", "LinearSVC", "LogisticRegression", "PoissonRegression", "ProbitRegression"),
    "manners": ("EveryFitSpends",),
    "naive_bayes": ("NaiveBayes",),
    "public_steps": ("PublicEncoder", "PublicScaler", "private_pipeline"),
    "search": ("PrivateSearchCV",),
    "sgd": ("SGDLogisticRegression",),
}
"""Imported when first used: each needs scikit-learn, and most need JAX."""

__all__ = [name for names in _HOMES.values() for name in names]

__getattr__ = lazily(__name__, _HOMES)
