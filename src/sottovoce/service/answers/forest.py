"""Forest plots: one interval a row, and of a row that noise hides its range alone, as far as the axis goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sottovoce.inference.figures import COLOURS, figure, plain_powers, words
from sottovoce.privacy.numbers import Floats

_MARGIN = 0.05
"""Of the axis, beyond the outermost end: Matplotlib's own."""
_LETTER, _ROOM = 0.075, 24
"""The width of a letter in inches, and so many letters that a figure has room for."""


def view(ends: Floats, reference: float, unknown: tuple[float, float]) -> tuple[float, float]:
    """Return where an axis begins and ends that shows all these intervals and the reference; else what is `unknown`.

    >>> view(np.array([[1.0, 5.0], [2.0, 9.0]]), 0.0, (-1.0, 1.0))
    (-0.45, 9.45)
    >>> view(np.zeros((0, 2)), 0.0, (-1.0, 1.0))
    (-1.0, 1.0)
    """
    low, high = min(ends.min(initial=reference), reference), max(ends.max(initial=reference), reference)
    margin = _MARGIN * (high - low)
    return (float(low - margin), float(high + margin)) if margin > 0 else unknown


def forest(
    names: Sequence[str],
    middle: Floats,
    ends: Floats,
    *,
    width: float,
    limits: tuple[float, float] | None = None,
    ratios: bool = False,
    ax: object = None,
) -> tuple[Any, Any]:
    """Return a figure and its axes with an interval for every row, the first on top.

    Of a row whose middle is NaN the range alone is drawn, and that it is not known is written there. Where there are
    `limits`, the axis ends there. `ratios` draws e to the power of what is given, on a logarithmic axis.
    """
    longest = max(map(len, names), default=0)
    width += _LETTER * max(longest - _ROOM, 0)  # else long names leave intervals no room
    drawing, axes = figure(width=width, height=max(1.6, 0.9 + 0.32 * len(names)), ax=ax)
    places = np.arange(len(names))[::-1]
    hidden = np.isnan(middle)
    low, high = (ends if limits is None else np.clip(ends, *limits)).T
    shown = np.exp if ratios else np.asarray
    for which, kind in ((~hidden, "interval"), (hidden, "not known")):
        axes.hlines(places[which], shown(low[which]), shown(high[which]), color=COLOURS[0], gid=kind)
    drawn = ~hidden
    axes.plot(shown(middle[drawn]), places[drawn], "o", color=COLOURS[0], gid="estimate")
    caps = shown(np.concatenate([low[drawn], high[drawn]]))
    axes.plot(caps, np.tile(places[drawn], 2), "|", color=COLOURS[0], markersize=7, gid="ends")
    for x, y in zip(shown((low + high)[hidden] / 2), places[hidden], strict=True):
        axes.text(x, y, "not known", ha="center", va="center", backgroundcolor=axes.get_facecolor(), size="small")
    axes.set_yticks(places, list(map(words, names)))
    axes.set_ylim(-0.7, len(names) - 0.3)
    if limits is not None:
        axes.set_xlim(*shown(np.array(limits)))  # first: a scale that is sought for numbers near the last overflows
    if ratios:
        axes.set_xscale("log")
        plain_powers(axes.xaxis)
    return drawing, axes
