"""The forest plot of a regression: coefficients or their ratios, as far as something is known of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sottovoce.inference.figures import titled
from sottovoce.service.answers.forest import forest, view
from sottovoce.service.answers.ratios import FAR, is_intercept, ratio_is_told

_ALONE = math.log(10.0)
"""Where no ratio is told, the axis goes from a tenth to ten."""


def coefficient_plot(table: Sequence[Mapping[str, Any]], ratio: str | None, title: str, ax: object) -> Any:
    """Return a forest plot of the rows of a regression; see `Regression.plot`."""
    ratios = ratio is not None
    hidden = [row["note"] is not None or (ratios and not ratio_is_told(row)) for row in table]
    kept = [k for k, row in enumerate(table) if not is_intercept(row["term"])]
    kept = kept or list(range(len(hidden)))
    rows = [table[k] for k in kept]
    ends = np.array([[row["low"], row["high"]] for row in rows])
    middle = np.array([math.nan if hidden[k] else table[k]["estimate"] for k in kept])
    alone = (-_ALONE, _ALONE) if ratios else view(ends, 0.0, (-1.0, 1.0))
    nearest = np.clip(0.0, ends[:, 0], ends[:, 1])  # so that some of every range is seen
    limits = view(np.where(np.isnan(middle)[:, None], nearest[:, None], ends), 0.0, alone)
    drawing, axes = forest(
        [row["term"] for row in rows],
        middle,
        ends,
        width=6.4,
        limits=(max(limits[0], -FAR), min(limits[1], FAR)) if ratios else limits,
        ratios=ratios,
        ax=ax,
    )
    axes.axvline(1.0 if ratios else 0.0, color="#5b6770", linewidth=0.9, zorder=0, gid="reference")
    axes.set_xlabel(ratio or "coefficient")
    titled(drawing, title, ax)
    return drawing
