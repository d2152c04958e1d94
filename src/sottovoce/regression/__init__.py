"""Generalized linear models: posterior samples whose privacy is certified at every step of the chain.

Needs the `glm` extra (JAX, scikit-learn). Nothing here changes JAX's global settings: double precision is switched on
inside the sampler only.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sottovoce.regression.certificate import Chain, largest_step, mixing_steps
from sottovoce.regression.choose import MECHANISMS, choose
from sottovoce.regression.custom_loss import CustomLoss
from sottovoce.regression.design import Design
from sottovoce.regression.gaussian_posterior import GaussianPosterior
from sottovoce.regression.localised import LocalisedPosterior
from sottovoce.regression.losses import (
    ComplementaryLogLog,
    Huber,
    Logistic,
    Loss,
    Poisson,
    Probit,
    SmoothedHinge,
    Squared,
)
from sottovoce.regression.noisy_quadratic import NoisyQuadratic
from sottovoce.regression.pac_bayes import PacBayes, pac_bayes
from sottovoce.regression.posterior import ConcentratedGaussianPrior, DiffusePosterior
from sottovoce.regression.predictive import posterior_predictive
from sottovoce.regression.refined import RefinedPosterior
from sottovoce.regression.rows import Placement
from sottovoce.regression.tempered import TemperedGLM

if TYPE_CHECKING:
    from sottovoce.estimators.linear import (
        EveryFitSpends,
        LinearRegression,
        LinearSVC,
        LogisticRegression,
        PoissonRegression,
        ProbitRegression,
    )
    from sottovoce.estimators.public_steps import PublicEncoder, PublicScaler, private_pipeline

__all__ = [
    "MECHANISMS",
    "Chain",
    "ComplementaryLogLog",
    "ConcentratedGaussianPrior",
    "CustomLoss",
    "Design",
    "DiffusePosterior",
    "EveryFitSpends",
    "GaussianPosterior",
    "Huber",
    "LinearRegression",
    "LinearSVC",
    "LocalisedPosterior",
    "Logistic",
    "LogisticRegression",
    "Loss",
    "NoisyQuadratic",
    "PacBayes",
    "Placement",
    "Poisson",
    "PoissonRegression",
    "Probit",
    "ProbitRegression",
    "PublicEncoder",
    "PublicScaler",
    "RefinedPosterior",
    "SmoothedHinge",
    "Squared",
    "TemperedGLM",
    "choose",
    "largest_step",
    "mixing_steps",
    "pac_bayes",
    "posterior_predictive",
    "private_pipeline",
]

_LAZY = dict.fromkeys(
    ("EveryFitSpends", "LinearRegression", "LinearSVC", "LogisticRegression", "PoissonRegression", "ProbitRegression"),
    "sottovoce.estimators.linear",
) | dict.fromkeys(("PublicEncoder", "PublicScaler", "private_pipeline"), "sottovoce.estimators.public_steps")
"""Imported when first used: the rest of the room needs no scikit-learn."""


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'sottovoce.regression' has no attribute {name!r}")
