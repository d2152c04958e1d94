"""Mechanisms: built from public things alone, then shown the statistics once."""

from sottovoce.mechanisms.concentrated import ConcentratedPosterior
from sottovoce.mechanisms.diffused import DiffusedPosterior
from sottovoce.mechanisms.direct import DirectPosterior
from sottovoce.mechanisms.forecast import Forecast
from sottovoce.mechanisms.mechanism import Mechanism
from sottovoce.mechanisms.release import Release

__all__ = [
    "ConcentratedPosterior",
    "DiffusedPosterior",
    "DirectPosterior",
    "Forecast",
    "Mechanism",
    "Release",
]
