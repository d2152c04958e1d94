"""Models of classes, states and tables: count tables and what is learnt from them, through noise or by tempering."""

from __future__ import annotations

from sottovoce.latent.class_posterior import ClassPosterior
from sottovoce.latent.count_tables import CountTables, NoisyTables
from sottovoce.latent.fields import Bounded, ChainGrid, Field, fields_of
from sottovoce.latent.hidden_markov import HiddenMarkovModel
from sottovoce.latent.hidden_markov_posterior import HiddenMarkovPosterior
from sottovoce.latent.latent_counts import LatentCounts
from sottovoce.latent.naive_bayes import NaiveBayesModel
from sottovoce.latent.network import BayesianNetwork
from sottovoce.latent.network_posterior import NetworkPosterior
from sottovoce.latent.random_field import MarkovRandomField
from sottovoce.latent.random_field_posterior import RandomFieldPosterior
from sottovoce.latent.tempered import TemperedUpdates
from sottovoce.latent.tempered_hidden_markov import TemperedHiddenMarkov
from sottovoce.latent.tempered_naive_bayes import TemperedNaiveBayes
from sottovoce.latent.tempered_network import TemperedNetwork

__all__ = [
    "BayesianNetwork",
    "Bounded",
    "ChainGrid",
    "ClassPosterior",
    "CountTables",
    "Field",
    "HiddenMarkovModel",
    "HiddenMarkovPosterior",
    "LatentCounts",
    "MarkovRandomField",
    "NaiveBayesModel",
    "NetworkPosterior",
    "NoisyTables",
    "RandomFieldPosterior",
    "TemperedHiddenMarkov",
    "TemperedNaiveBayes",
    "TemperedNetwork",
    "TemperedUpdates",
    "fields_of",
]
