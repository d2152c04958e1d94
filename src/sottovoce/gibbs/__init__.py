"""Gibbs sampling with privacy: count tables, their noise, and models on top of them."""

from sottovoce.gibbs.count_tables import CountTables
from sottovoce.gibbs.fields import ChainGrid, Field
from sottovoce.gibbs.hidden_markov import HiddenMarkovModel
from sottovoce.gibbs.hidden_markov_posterior import HiddenMarkovPosterior
from sottovoce.gibbs.latent_counts import LatentCounts
from sottovoce.gibbs.noisy_counts import NoisyCounts
from sottovoce.gibbs.noisy_tables import NoisyTables
from sottovoce.gibbs.tempered_hidden_markov import TemperedHiddenMarkov

__all__ = [
    "ChainGrid",
    "CountTables",
    "Field",
    "HiddenMarkovModel",
    "HiddenMarkovPosterior",
    "LatentCounts",
    "NoisyCounts",
    "NoisyTables",
    "TemperedHiddenMarkov",
]
