"""Generalized linear models: posterior samples whose privacy is certified at every step of the chain.

Needs the `regression` extra (JAX). Nothing here changes JAX's global settings: double precision is switched on
inside the sampler only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce.privacy.lazily import lazily

if TYPE_CHECKING:
    from sottovoce.regression.adaptive_looks import AdaptiveLooks
    from sottovoce.regression.best_of import BestRegression
    from sottovoce.regression.certificate import Chain, largest_step, mixing_steps
    from sottovoce.regression.choosing import choose
    from sottovoce.regression.coefficients import Coefficients
    from sottovoce.regression.custom_loss import CustomLoss
    from sottovoce.regression.design import Design
    from sottovoce.regression.device_looks import DeviceRecords
    from sottovoce.regression.filtered import FilteredRegression
    from sottovoce.regression.formula import Formula
    from sottovoce.regression.gaussian_posterior import GaussianPosterior
    from sottovoce.regression.localised import LocalisedRegression
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
    from sottovoce.regression.noisy_moments import NoisyMoments
    from sottovoce.regression.pac_bayes_bound import PacBayes, pac_bayes
    from sottovoce.regression.placement import Placement, placed
    from sottovoce.regression.planned import RegressionPlan, plan_looks
    from sottovoce.regression.posterior import ConcentratedRegression, DiffusedRegression
    from sottovoce.regression.predictive import posterior_predictive
    from sottovoce.regression.refined import RefinedRegression
    from sottovoce.regression.softmax import Softmax, SoftmaxPosterior
    from sottovoce.regression.tempered import TemperedRegression

__all__ = [
    "AdaptiveLooks",
    "BestRegression",
    "Chain",
    "Coefficients",
    "ComplementaryLogLog",
    "ConcentratedRegression",
    "CustomLoss",
    "Design",
    "DeviceRecords",
    "DiffusedRegression",
    "FilteredRegression",
    "Formula",
    "GaussianPosterior",
    "Huber",
    "LocalisedRegression",
    "Logistic",
    "Loss",
    "NoisyMoments",
    "PacBayes",
    "Placement",
    "Poisson",
    "Probit",
    "RefinedRegression",
    "RegressionPlan",
    "SmoothedHinge",
    "Softmax",
    "SoftmaxPosterior",
    "Squared",
    "TemperedRegression",
    "choose",
    "largest_step",
    "mixing_steps",
    "pac_bayes",
    "placed",
    "plan_looks",
    "posterior_predictive",
]

__getattr__ = lazily(__name__)  # most files need JAX, and looks do not
