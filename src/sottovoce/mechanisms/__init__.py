"""Mechanisms: built from public things alone, then shown the statistics once."""

from typing import TYPE_CHECKING

from sottovoce.privacy.lazy_imports import lazily

if TYPE_CHECKING:
    from sottovoce.mechanisms.approximate import ApproximateSample as ApproximateSample
    from sottovoce.mechanisms.choice_chain import ChoiceChain as ChoiceChain
    from sottovoce.mechanisms.concentrated import ConcentratedPosterior as ConcentratedPosterior
    from sottovoce.mechanisms.diffused import DiffusedPosterior as DiffusedPosterior
    from sottovoce.mechanisms.direct import DirectPosterior as DirectPosterior
    from sottovoce.mechanisms.exponential_choice import ExponentialChoice as ExponentialChoice
    from sottovoce.mechanisms.exponential_choice import Outcomes as Outcomes
    from sottovoce.mechanisms.forecast import Forecast as Forecast
    from sottovoce.mechanisms.function_statistic import FunctionOf as FunctionOf
    from sottovoce.mechanisms.function_statistic import NoisyValue as NoisyValue
    from sottovoce.mechanisms.integer_noise import IntegerNoise as IntegerNoise
    from sottovoce.mechanisms.mechanism import Mechanism as Mechanism
    from sottovoce.mechanisms.noisy_posterior import NoisyPosterior as NoisyPosterior
    from sottovoce.mechanisms.noisy_statistics import NoisyStatistics as NoisyStatistics
    from sottovoce.mechanisms.release import Release as Release
    from sottovoce.mechanisms.statistical_query import StatisticalQuery as StatisticalQuery
    from sottovoce.mechanisms.tempered import TemperedPosterior as TemperedPosterior

__getattr__ = lazily(__name__)
