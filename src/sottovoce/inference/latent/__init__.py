"""Models of classes, states and tables: count tables and what is learnt from them, through noise or by tempering."""

from __future__ import annotations

from sottovoce.inference.latent.class_posterior import ClassPosterior
from sottovoce.inference.latent.count_tables import CountTables, NoisyTables
from sottovoce.inference.latent.fields import Bounded, ChainGrid, Field, fields_of
from sottovoce.inference.latent.hidden_markov import HiddenMarkovModel
from sottovoce.inference.latent.hidden_markov_posterior import HiddenMarkovPosterior
from sottovoce.inference.latent.latent_counts import LatentCounts
from sottovoce.inference.latent.naive_bayes import NaiveBayesModel
from sottovoce.inference.latent.network import BayesianNetwork
from sottovoce.inference.latent.network_posterior import NetworkPosterior
from sottovoce.inference.latent.random_field import MarkovRandomField
from sottovoce.inference.latent.random_field_posterior import RandomFieldPosterior
from sottovoce.inference.latent.tempered import TemperedUpdates
from sottovoce.inference.latent.tempered_hidden_markov import TemperedHiddenMarkov
from sottovoce.inference.latent.tempered_tables import TemperedNaiveBayes, TemperedNetwork

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
