"""Conjugate systems: statistics, posterior, log-partition, worst neighbouring pairs."""

from typing import TYPE_CHECKING

from sottovoce.privacy.lazily import lazily

if TYPE_CHECKING:
    from sottovoce.systems.beta_bernoulli import BetaBernoulli
    from sottovoce.systems.conjugate import Conjugate
    from sottovoce.systems.dirichlet_categorical import DirichletCategorical
    from sottovoce.systems.distributions import (
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
    from sottovoce.systems.exponential_family import ExponentialFamily
    from sottovoce.systems.gamma_exponential import GammaExponential
    from sottovoce.systems.gamma_poisson import GammaPoisson
    from sottovoce.systems.normal_mean import NormalMean
    from sottovoce.systems.system import ClippedSystem, NoiseAwareSystem, System, TemperableSystem

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
]

__getattr__ = lazily(__name__)
