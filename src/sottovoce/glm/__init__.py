"""Generalized linear models: posterior samples whose privacy is certified at every step of the chain.

Needs the `glm` extra (JAX, scikit-learn). Nothing here changes JAX's global settings: double precision is switched on
inside the sampler only.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sottovoce.glm.certificate import Chain, largest_step, mixing_steps
from sottovoce.glm.choose import MECHANISMS, choose
from sottovoce.glm.custom_loss import CustomLoss
from sottovoce.glm.design import Design
from sottovoce.glm.gaussian_posterior import GaussianPosterior
from sottovoce.glm.localised import LocalisedPosterior
from sottovoce.glm.losses import (
    ComplementaryLogLog,
    Huber,
    Logistic,
    Loss,
    Poisson,
    Probit,
    SmoothedHinge,
    Squared,
)
from sottovoce.glm.noisy_quadratic import NoisyQuadratic
from sottovoce.glm.pac_bayes import PacBayes, pac_bayes
from sottovoce.glm.posterior import ConcentratedGaussianPrior, DiffusePosterior
from sottovoce.glm.predictive import posterior_predictive
from sottovoce.glm.refined import RefinedPosterior
from sottovoce.glm.rows import Placement
from sottovoce.glm.tempered import TemperedGLM

if TYPE_CHECKING:
    from sottovoce.glm.estimators import (
        EveryFitSpends,
        LinearRegression,
        LinearSVC,
        LogisticRegression,
        PoissonRegression,
        ProbitRegression,
    )
    from sottovoce.glm.public_steps import PublicEncoder, PublicScaler, private_pipeline

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
    "sottovoce.glm.estimators",
) | dict.fromkeys(("PublicEncoder", "PublicScaler", "private_pipeline"), "sottovoce.glm.public_steps")
"""Imported when first used: the rest of the room needs no scikit-learn."""


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'sottovoce.glm' has no attribute {name!r}")
