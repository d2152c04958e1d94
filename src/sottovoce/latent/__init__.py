"""Gibbs sampling with privacy: count tables, their noise, and models on top of them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sottovoce.latent.bounded import Bounded
from sottovoce.latent.count_tables import CountTables
from sottovoce.latent.fields import ChainGrid, Field
from sottovoce.latent.hidden_markov import HiddenMarkovModel
from sottovoce.latent.hidden_markov_posterior import HiddenMarkovPosterior
from sottovoce.latent.latent_counts import LatentCounts
from sottovoce.latent.network import BayesianNetwork
from sottovoce.latent.network_posterior import NetworkPosterior
from sottovoce.latent.noisy_counts import NoisyCounts
from sottovoce.latent.noisy_tables import NoisyTables
from sottovoce.latent.tempered import TemperedUpdates
from sottovoce.latent.tempered_hidden_markov import TemperedHiddenMarkov
from sottovoce.latent.tempered_network import TemperedNetwork

if TYPE_CHECKING:
    from sottovoce.estimators.naive_bayes import NaiveBayes

__all__ = [
    "BayesianNetwork",
    "Bounded",
    "ChainGrid",
    "CountTables",
    "Field",
    "HiddenMarkovModel",
    "HiddenMarkovPosterior",
    "LatentCounts",
    "NaiveBayes",
    "NetworkPosterior",
    "NoisyCounts",
    "NoisyTables",
    "TemperedHiddenMarkov",
    "TemperedNetwork",
    "TemperedUpdates",
]


def __getattr__(name: str) -> Any:
    if name == "NaiveBayes":  # imported when first used: the rest of the room needs no scikit-learn
        return importlib.import_module("sottovoce.estimators.naive_bayes").NaiveBayes
    raise AttributeError(f"module 'sottovoce.latent' has no attribute {name!r}")
