"""Mechanisms: built from public things alone, then shown the statistics once."""

from typing import TYPE_CHECKING

from sottovoce.privacy.lazy_imports import lazily

if TYPE_CHECKING:
    from sottovoce.mechanisms.approximate import ApproximateSample
    from sottovoce.mechanisms.choice_chain import ChoiceChain
    from sottovoce.mechanisms.concentrated import ConcentratedPosterior
    from sottovoce.mechanisms.diffused import DiffusedPosterior
    from sottovoce.mechanisms.direct import DirectPosterior
    from sottovoce.mechanisms.exponential_choice import ExponentialChoice, Outcomes
    from sottovoce.mechanisms.forecast import Forecast
    from sottovoce.mechanisms.function_statistic import FunctionOf, NoisyValue
    from sottovoce.mechanisms.integer_noise import IntegerNoise
    from sottovoce.mechanisms.mechanism import Mechanism
    from sottovoce.mechanisms.noisy_posterior import NoisyPosterior
    from sottovoce.mechanisms.noisy_statistics import NoisyStatistics
    from sottovoce.mechanisms.release import Release
    from sottovoce.mechanisms.statistical_query import StatisticalQuery
    from sottovoce.mechanisms.tempered import TemperedPosterior

__all__ = [
    "ApproximateSample",
    "ChoiceChain",
    "ConcentratedPosterior",
    "DiffusedPosterior",
    "DirectPosterior",
    "ExponentialChoice",
    "Forecast",
    "FunctionOf",
    "IntegerNoise",
    "Mechanism",
    "NoisyPosterior",
    "NoisyStatistics",
    "NoisyValue",
    "Outcomes",
    "Release",
    "StatisticalQuery",
    "TemperedPosterior",
]

__getattr__ = lazily(__name__)
