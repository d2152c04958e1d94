"""Gibbs sampling with privacy: count tables, their noise, and models on top of them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sottovoce.gibbs.bounded import Bounded
from sottovoce.gibbs.count_tables import CountTables
from sottovoce.gibbs.fields import ChainGrid, Field
from sottovoce.gibbs.hidden_markov import HiddenMarkovModel
from sottovoce.gibbs.hidden_markov_posterior import HiddenMarkovPosterior
from sottovoce.gibbs.latent_counts import LatentCounts
from sottovoce.gibbs.network import BayesianNetwork
from sottovoce.gibbs.network_posterior import NetworkPosterior
from sottovoce.gibbs.noisy_counts import NoisyCounts
from sottovoce.gibbs.noisy_tables import NoisyTables
from sottovoce.gibbs.tempered import TemperedUpdates
from sottovoce.gibbs.tempered_hidden_markov import TemperedHiddenMarkov
from sottovoce.gibbs.tempered_network import TemperedNetwork

if TYPE_CHECKING:
    from sottovoce.gibbs.naive_bayes import NaiveBayes

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
        return importlib.import_module("sottovoce.gibbs.naive_bayes").NaiveBayes
    raise AttributeError(f"module 'sottovoce.gibbs' has no attribute {name!r}")
