"""Models with scikit-learn's manners: each fit is one release of a mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce.privacy.lazy_imports import lazily

if TYPE_CHECKING:
    from sottovoce.faces.estimators.estimator_protocol import EveryFitSpends
    from sottovoce.faces.estimators.linear import LinearRegression, LinearSVC, LogisticRegression, ProbitRegression
    from sottovoce.faces.estimators.naive_bayes import NaiveBayes
    from sottovoce.faces.estimators.poisson import PoissonRegression
    from sottovoce.faces.estimators.public_steps import PublicEncoder, PublicFunction, PublicScaler, private_pipeline
    from sottovoce.faces.estimators.search import PrivateSearchCV
    from sottovoce.faces.estimators.sgd import SGDLogisticRegression

__all__ = [
    "EveryFitSpends",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "NaiveBayes",
    "PoissonRegression",
    "PrivateSearchCV",
    "ProbitRegression",
    "PublicEncoder",
    "PublicFunction",
    "PublicScaler",
    "SGDLogisticRegression",
    "private_pipeline",
]

__getattr__ = lazily(__name__)  # each needs scikit-learn, and most need JAX
