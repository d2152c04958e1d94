"""Gibbs sampling with privacy: count tables, their noise, and models on top of them."""

from __future__ import annotations

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

__all__ = [
    "BayesianNetwork",
    "Bounded",
    "ChainGrid",
    "CountTables",
    "Field",
    "HiddenMarkovModel",
    "HiddenMarkovPosterior",
    "LatentCounts",
    "NetworkPosterior",
    "NoisyCounts",
    "NoisyTables",
    "TemperedHiddenMarkov",
    "TemperedNetwork",
    "TemperedUpdates",
]
