"""A series over time: a line of estimates in a band, for every group of the other columns."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from sottovoce.inference.figures import COLOURS, figure, words

_TICKS = 12
"""About so many times are named on the axis."""

_CHARACTERS = 80
"""So many characters of the axis' font lie side by side on seven inches; names that are longer together are slanted."""


def series_plot(
    labels: Sequence[tuple[Hashable, ...]], rows: Sequence[Mapping[str, object]], *, ax: object = None
) -> tuple[Any, Any]:
    """Return a figure and its axes with a line and a band for every series; the first label of a row is its time.

    Where noise hides a row, the line is interrupted and the band goes on.
    """
    times = list(dict.fromkeys(label[0] for label in labels))
    names = list(dict.fromkeys(label[1:] for label in labels))
    drawing, axes = figure(width=7.0, height=3.6, ax=ax)
    for place, name in enumerate(names[: len(COLOURS)]):
        mine = [(times.index(label[0]), row) for label, row in zip(labels, rows, strict=True) if label[1:] == name]
        at = np.array([time for time, _ in mine])
        low, high = (np.array([row[end] for _, row in mine], dtype=float) for end in ("low", "high"))
        middle = np.array([np.nan if row["estimate"] is None else row["estimate"] for _, row in mine], dtype=float)
        colour, called = COLOURS[place], words(" / ".join(map(str, name)))
        axes.fill_between(at, low, high, color=colour, alpha=0.18, linewidth=0, gid="band")
        axes.plot(at, middle, "o-", color=colour, markersize=3.5, linewidth=1.6, label=called, gid="series")
    every = -(-len(times) // _TICKS)
    shown = range(0, len(times), every)
    ticks = [words(str(times[place])) for place in shown]
    slant = {"rotation": 45, "ha": "right"} if sum(map(len, ticks)) + len(ticks) > _CHARACTERS else {}
    axes.set_xticks(list(shown), ticks, **slant)
    axes.margins(x=0.02)
    if names != [()]:
        axes.legend()
    return drawing, axes
