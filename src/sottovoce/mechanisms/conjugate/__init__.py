"""Conjugate systems: statistics, posterior, log-partition, worst neighbouring pairs."""

from typing import TYPE_CHECKING

from sottovoce.privacy.lazy_imports import lazily

if TYPE_CHECKING:
    from sottovoce.mechanisms.conjugate.beta_bernoulli import BetaBernoulli
    from sottovoce.mechanisms.conjugate.conjugate import Conjugate
    from sottovoce.mechanisms.conjugate.dirichlet_categorical import DirichletCategorical
    from sottovoce.mechanisms.conjugate.distributions import (
        Beta,
        Dirichlet,
        DirichletMixture,
        Distribution,
        Gamma,
        Mixture,
        Normal,
        NormalVector,
        ScalarDistribution,
        Tabulated,
        Truncated,
    )
    from sottovoce.mechanisms.conjugate.exponential_family import ExponentialFamily
    from sottovoce.mechanisms.conjugate.gamma_exponential import GammaExponential
    from sottovoce.mechanisms.conjugate.gamma_poisson import GammaPoisson
    from sottovoce.mechanisms.conjugate.normal_mean import NormalMean
    from sottovoce.mechanisms.conjugate.system import ClippedSystem, NoiseAwareSystem, System, TemperableSystem
    from sottovoce.mechanisms.conjugate.two_statistic_family import TwoStatisticFamily

__all__ = [
    "Beta",
    "BetaBernoulli",
    "ClippedSystem",
    "Conjugate",
    "Dirichlet",
    "DirichletCategorical",
    "DirichletMixture",
    "Distribution",
    "ExponentialFamily",
    "Gamma",
    "GammaExponential",
    "GammaPoisson",
    "Mixture",
    "NoiseAwareSystem",
    "Normal",
    "NormalMean",
    "NormalVector",
    "ScalarDistribution",
    "System",
    "Tabulated",
    "TemperableSystem",
    "Truncated",
    "TwoStatisticFamily",
]

__getattr__ = lazily(__name__)
