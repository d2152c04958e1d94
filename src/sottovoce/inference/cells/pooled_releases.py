"""Several releases of one question about the same records as one posterior: free post-processing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sottovoce.inference.cells.cell_noise import cell_noises
from sottovoce.inference.cells.cells_posterior import CellsPosterior
from sottovoce.inference.cells.quantile_posterior import QuantilePosterior
from sottovoce.mechanisms.integer_noise import IntegerNoise, NoiseKind
from sottovoce.privacy.errors import InvalidValue

_ROUNDING = 1 / 12
"""The variance of rounding a mean of whole numbers to a whole number."""


def pooled(posteriors: Sequence[Any]) -> CellsPosterior | QuantilePosterior:
    """Return the posterior given all of some releases of one question, of the same records.

    Searches for quantiles have one likelihood over all their rounds, so theirs are put in one row. Noisy cells are
    averaged with weights inverse to the variance of their noise: of Gaussian noise the average is sufficient, of
    Laplace noise it is taken as Laplace of the variance it has, whose tails are the heavier.
    """
    first = posteriors[0]
    if not all(type(item) is type(first) for item in posteriors):
        raise InvalidValue("these answers were released in two ways, before quantiles were searched for and since")
    if isinstance(first, QuantilePosterior):
        if len({item.noise for item in posteriors}) > 1:
            raise InvalidValue(
                "one of these answers has Laplace noise and another Gaussian: their rounds do not go together"
            )
        return replace(first, rounds=tuple(rounds for item in posteriors for rounds in item.rounds))
    if not isinstance(first, CellsPosterior):
        raise InvalidValue(
            "counts, shares, means, rates, totals and quantiles go together; these answers are of another kind"
        )
    gaussian = all(item.noise == "gaussian" for item in posteriors)
    parts = [_by_noise(item) for item in posteriors]
    cells, ratios = [], []
    for block in zip(*parts, strict=True):
        variances = [noise.variance for _, noise in block]
        weights = np.array([1 / max(variance, _ROUNDING) for variance in variances])
        cells.append(np.rint(sum(w * values for w, (values, _) in zip(weights, block, strict=True)) / weights.sum()))
        ratios.append((1 / weights.sum() + _ROUNDING) / block[0][1].variance)
    kind: NoiseKind = "gaussian" if gaussian else "laplace"
    # Noises of one release are in fixed proportions, and so are those of several: the largest ratio is the safe one.
    scale = _scale(first, kind, max(ratios))
    return replace(first, noise=kind, scale=scale, cells=np.concatenate(cells).astype(np.int64))


def _by_noise(posterior: CellsPosterior) -> list[tuple[Any, IntegerNoise]]:
    """Return the cells that bear each noise."""
    return list(zip(posterior.reading.split(posterior.cells), posterior.noises, strict=True))


def _scale(first: CellsPosterior, kind: NoiseKind, ratio: float) -> float:
    """Return the scale at which the first noise has `ratio` times its variance."""
    wanted = [ratio * noise.variance for noise in first.noises]
    low, high = 1e-3, 2.0**29
    for _ in range(80):
        middle = math.sqrt(low * high)
        noises = cell_noises(first.reading, kind, middle)
        if all(noise.variance >= least for noise, least in zip(noises, wanted, strict=True)):
            high = middle
        else:
            low = middle
    return high
