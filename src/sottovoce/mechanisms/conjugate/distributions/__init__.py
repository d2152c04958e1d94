"""Distributions of a parameter: Beta, Dirichlet, Gamma, Normal, their mixtures and truncations, and tables."""

from sottovoce.mechanisms.conjugate.distributions.base import Distribution, ScalarDistribution
from sottovoce.mechanisms.conjugate.distributions.beta import Beta
from sottovoce.mechanisms.conjugate.distributions.dirichlet import Dirichlet
from sottovoce.mechanisms.conjugate.distributions.gamma import Gamma
from sottovoce.mechanisms.conjugate.distributions.mixture import DirichletMixture, Mixture
from sottovoce.mechanisms.conjugate.distributions.normal import Normal, NormalVector
from sottovoce.mechanisms.conjugate.distributions.tabulated import Tabulated
from sottovoce.mechanisms.conjugate.distributions.truncated import Truncated

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
