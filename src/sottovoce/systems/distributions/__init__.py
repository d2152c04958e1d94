"""Distributions of a parameter: Beta, Dirichlet, Gamma, Normal, their mixtures and truncations, and tables."""

from sottovoce.systems.distributions.base import Distribution, ScalarDistribution
from sottovoce.systems.distributions.beta import Beta
from sottovoce.systems.distributions.dirichlet import Dirichlet
from sottovoce.systems.distributions.gamma import Gamma
from sottovoce.systems.distributions.mixture import DirichletMixture, Mixture
from sottovoce.systems.distributions.normal import Normal, NormalVector
from sottovoce.systems.distributions.tabulated import Tabulated
from sottovoce.systems.distributions.truncated import Truncated

__all__ = [
    "Beta",
    "Dirichlet",
    "DirichletMixture",
    "Distribution",
    "Gamma",
    "Mixture",
    "Normal",
    "NormalVector",
    "ScalarDistribution",
    "Tabulated",
    "Truncated",
]
