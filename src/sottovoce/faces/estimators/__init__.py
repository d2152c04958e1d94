"""Models with scikit-learn's manners: each fit is one release of a mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce.privacy.lazy_imports import lazily

if TYPE_CHECKING:
    from sottovoce.faces.estimators.estimator_protocol import EveryFitSpends as EveryFitSpends
    from sottovoce.faces.estimators.linear import LinearRegression as LinearRegression
    from sottovoce.faces.estimators.linear import LinearSVC as LinearSVC
    from sottovoce.faces.estimators.linear import LogisticRegression as LogisticRegression
    from sottovoce.faces.estimators.linear import ProbitRegression as ProbitRegression
    from sottovoce.faces.estimators.naive_bayes import NaiveBayes as NaiveBayes
    from sottovoce.faces.estimators.poisson import PoissonRegression as PoissonRegression
    from sottovoce.faces.estimators.public_steps import PublicEncoder as PublicEncoder
    from sottovoce.faces.estimators.public_steps import PublicFunction as PublicFunction
    from sottovoce.faces.estimators.public_steps import PublicScaler as PublicScaler
    from sottovoce.faces.estimators.public_steps import private_pipeline as private_pipeline
    from sottovoce.faces.estimators.search import PrivateSearchCV as PrivateSearchCV
    from sottovoce.faces.estimators.sgd import SGDLogisticRegression as SGDLogisticRegression

__getattr__ = lazily(__name__)  # each needs scikit-learn, and most need JAX
