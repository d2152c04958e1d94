"""Gibbs sampling with privacy: count tables, their noise, and models on top of them."""

from sottovoce.gibbs.count_tables import CountTables
from sottovoce.gibbs.fields import ChainGrid, Field
from sottovoce.gibbs.latent_counts import LatentCounts
from sottovoce.gibbs.noisy_counts import NoisyCounts
from sottovoce.gibbs.noisy_tables import NoisyTables

__all__ = ["ChainGrid", "CountTables", "Field", "LatentCounts", "NoisyCounts", "NoisyTables"]
