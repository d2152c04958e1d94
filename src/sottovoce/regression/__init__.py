"""Generalized linear models: posterior samples whose privacy is certified at every step of the chain.

Needs the `regression` extra (JAX). Nothing here changes JAX's global settings: double precision is switched on
inside the sampler only.
"""

from __future__ import annotations

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

__all__ = [
    "MECHANISMS",
    "Chain",
    "ComplementaryLogLog",
    "ConcentratedGaussianPrior",
    "CustomLoss",
    "Design",
    "DiffusePosterior",
    "GaussianPosterior",
    "Huber",
    "LocalisedPosterior",
    "Logistic",
    "Loss",
    "NoisyQuadratic",
    "PacBayes",
    "Placement",
    "Poisson",
    "Probit",
    "RefinedPosterior",
    "SmoothedHinge",
    "Squared",
    "TemperedGLM",
    "choose",
    "largest_step",
    "mixing_steps",
    "pac_bayes",
    "posterior_predictive",
]
