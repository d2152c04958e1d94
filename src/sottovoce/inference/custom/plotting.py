"""Noisy counts, and what a model says of them, as a figure."""

from __future__ import annotations

from typing import Any

import numpy as np

from sottovoce.inference.custom.observation import Observed
from sottovoce.inference.figures import COLOURS, figure, words
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.shares import percent


def plot_cells(seen: Observed, shares: Floats, title: str, level: float) -> Any:
    """Draw the noisy counts with a band of their noise, and the model's expected counts with their interval."""
    if not 0 < level < 1:
        raise InvalidValue(f"level lies between 0 and 1. Got {level!r}")
    expected = shares[:, : seen.size] * seen.n
    low, middle, high = np.quantile(expected, [(1 - level) / 2, 0.5, (1 + level) / 2], axis=0)
    reach = _noise_reach(seen, level)
    drawing, axes = figure(width=7.0, height=3.8)
    place = np.arange(seen.size)
    axes.errorbar(
        place,
        seen.counts,
        yerr=reach,
        fmt="o",
        ms=4,
        lw=1.2,
        color=COLOURS[5],
        label=f"noisy count ± {percent(level)} of noise",
    )
    axes.fill_between(place, low, high, step="mid", alpha=0.35, color=COLOURS[0], label=f"model, {percent(level)}")
    axes.step(place, middle, where="mid", color=COLOURS[0])
    if seen.cells is not None and seen.size <= 40:
        labels = [" / ".join(map(words, label)) for label in seen.cells.labels]
        axes.set_xticks(place, labels, rotation=60, ha="right", fontsize=7)
    axes.set_ylabel("records")
    axes.set_title(words(title))
    axes.legend()
    return drawing


def _noise_reach(seen: Observed, level: float) -> float:
    """Return the half width that holds `level` of the noise."""
    if seen.noise == "laplace":
        return float(-seen.scale * np.log(1 - level))
    from scipy.special import ndtri  # noqa: PLC0415

    return float(seen.scale * ndtri((1 + level) / 2))
