"""Generalized linear models: posterior samples whose privacy is certified at every step of the chain.

Needs the `regression` extra (JAX). Nothing here changes JAX's global settings: double precision is switched on
inside the sampler only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce.privacy.lazy_imports import lazily

if TYPE_CHECKING:
    from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks
    from sottovoce.inference.regression.best_of import BestRegression
    from sottovoce.inference.regression.certificate import Chain, largest_step, mixing_steps
    from sottovoce.inference.regression.choosing import choose
    from sottovoce.inference.regression.coefficients import Coefficients
    from sottovoce.inference.regression.custom_loss import CustomLoss
    from sottovoce.inference.regression.design import Design
    from sottovoce.inference.regression.device_looks import DeviceRecords
    from sottovoce.inference.regression.device_placement import Placement, placed
    from sottovoce.inference.regression.filtered import FilteredRegression
    from sottovoce.inference.regression.formula import Formula
    from sottovoce.inference.regression.gaussian_posterior import GaussianPosterior
    from sottovoce.inference.regression.localised import LocalisedRegression
    from sottovoce.inference.regression.losses import (
        ComplementaryLogLog,
        Huber,
        Logistic,
        Loss,
        Poisson,
        Probit,
        SmoothedHinge,
        Squared,
    )
    from sottovoce.inference.regression.noisy_moments import NoisyMoments
    from sottovoce.inference.regression.pac_bayes_bound import PacBayes, pac_bayes
    from sottovoce.inference.regression.posterior import ConcentratedRegression, DiffusedRegression
    from sottovoce.inference.regression.predictive import posterior_predictive
    from sottovoce.inference.regression.refined import RefinedRegression
    from sottovoce.inference.regression.regression_plan import RegressionPlan, plan_looks
    from sottovoce.inference.regression.softmax import Softmax, SoftmaxPosterior
    from sottovoce.inference.regression.tempered import TemperedRegression

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
