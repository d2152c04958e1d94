"""Conjugate systems: statistics, posterior, log-partition, worst neighbouring pairs."""

from typing import TYPE_CHECKING

from sottovoce.privacy.lazy_imports import lazily

if TYPE_CHECKING:
    from sottovoce.mechanisms.conjugate.beta_bernoulli import BetaBernoulli as BetaBernoulli
    from sottovoce.mechanisms.conjugate.conjugate import Conjugate as Conjugate
    from sottovoce.mechanisms.conjugate.dirichlet_categorical import DirichletCategorical as DirichletCategorical
    from sottovoce.mechanisms.conjugate.distributions import Beta as Beta
    from sottovoce.mechanisms.conjugate.distributions import Dirichlet as Dirichlet
    from sottovoce.mechanisms.conjugate.distributions import DirichletMixture as DirichletMixture
    from sottovoce.mechanisms.conjugate.distributions import Distribution as Distribution
    from sottovoce.mechanisms.conjugate.distributions import Gamma as Gamma
    from sottovoce.mechanisms.conjugate.distributions import Mixture as Mixture
    from sottovoce.mechanisms.conjugate.distributions import Normal as Normal
    from sottovoce.mechanisms.conjugate.distributions import NormalVector as NormalVector
    from sottovoce.mechanisms.conjugate.distributions import ScalarDistribution as ScalarDistribution
    from sottovoce.mechanisms.conjugate.distributions import Tabulated as Tabulated
    from sottovoce.mechanisms.conjugate.distributions import Truncated as Truncated
    from sottovoce.mechanisms.conjugate.exponential_family import ExponentialFamily as ExponentialFamily
    from sottovoce.mechanisms.conjugate.gamma_exponential import GammaExponential as GammaExponential
    from sottovoce.mechanisms.conjugate.gamma_poisson import GammaPoisson as GammaPoisson
    from sottovoce.mechanisms.conjugate.normal_mean import NormalMean as NormalMean
    from sottovoce.mechanisms.conjugate.system import ClippedSystem as ClippedSystem
    from sottovoce.mechanisms.conjugate.system import NoiseAwareSystem as NoiseAwareSystem
    from sottovoce.mechanisms.conjugate.system import System as System
    from sottovoce.mechanisms.conjugate.system import TemperableSystem as TemperableSystem
    from sottovoce.mechanisms.conjugate.two_statistic_family import TwoStatisticFamily as TwoStatisticFamily

__getattr__ = lazily(__name__)
