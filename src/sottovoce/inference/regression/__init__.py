"""Generalized linear models: posterior samples whose privacy is certified at every step of the chain.

Needs the `regression` extra (JAX). Nothing here changes JAX's global settings: double precision is switched on
inside the sampler only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce.privacy.lazy_imports import lazily

if TYPE_CHECKING:
    from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks as AdaptiveLooks
    from sottovoce.inference.regression.best_of import BestRegression as BestRegression
    from sottovoce.inference.regression.certificate import Chain as Chain
    from sottovoce.inference.regression.certificate import largest_step as largest_step
    from sottovoce.inference.regression.certificate import mixing_steps as mixing_steps
    from sottovoce.inference.regression.choosing import choose as choose
    from sottovoce.inference.regression.coefficients import Coefficients as Coefficients
    from sottovoce.inference.regression.custom_loss import CustomLoss as CustomLoss
    from sottovoce.inference.regression.design import Design as Design
    from sottovoce.inference.regression.device_looks import DeviceRecords as DeviceRecords
    from sottovoce.inference.regression.device_placement import Placement as Placement
    from sottovoce.inference.regression.device_placement import placed as placed
    from sottovoce.inference.regression.filtered import FilteredRegression as FilteredRegression
    from sottovoce.inference.regression.formula import Formula as Formula
    from sottovoce.inference.regression.formula_kinds import formula_of as formula_of
    from sottovoce.inference.regression.gaussian_posterior import GaussianPosterior as GaussianPosterior
    from sottovoce.inference.regression.hazard_formula import HazardFormula as HazardFormula
    from sottovoce.inference.regression.hazard_looks import HazardLooks as HazardLooks
    from sottovoce.inference.regression.hazard_looks import looks_of as looks_of
    from sottovoce.inference.regression.localised import LocalisedRegression as LocalisedRegression
    from sottovoce.inference.regression.losses import ComplementaryLogLog as ComplementaryLogLog
    from sottovoce.inference.regression.losses import Huber as Huber
    from sottovoce.inference.regression.losses import Logistic as Logistic
    from sottovoce.inference.regression.losses import Loss as Loss
    from sottovoce.inference.regression.losses import Poisson as Poisson
    from sottovoce.inference.regression.losses import Probit as Probit
    from sottovoce.inference.regression.losses import SmoothedHinge as SmoothedHinge
    from sottovoce.inference.regression.losses import Squared as Squared
    from sottovoce.inference.regression.noisy_moments import NoisyMoments as NoisyMoments
    from sottovoce.inference.regression.ordinal_formula import OrdinalFormula as OrdinalFormula
    from sottovoce.inference.regression.pac_bayes_bound import PacBayes as PacBayes
    from sottovoce.inference.regression.pac_bayes_bound import pac_bayes as pac_bayes
    from sottovoce.inference.regression.posterior import ConcentratedRegression as ConcentratedRegression
    from sottovoce.inference.regression.posterior import DiffusedRegression as DiffusedRegression
    from sottovoce.inference.regression.predictive import posterior_predictive as posterior_predictive
    from sottovoce.inference.regression.refined import RefinedRegression as RefinedRegression
    from sottovoce.inference.regression.regression_plan import RegressionPlan as RegressionPlan
    from sottovoce.inference.regression.regression_plan import plan_looks as plan_looks
    from sottovoce.inference.regression.softmax import Softmax as Softmax
    from sottovoce.inference.regression.softmax import SoftmaxPosterior as SoftmaxPosterior
    from sottovoce.inference.regression.tempered import TemperedRegression as TemperedRegression

__getattr__ = lazily(__name__)  # most files need JAX, and looks do not
