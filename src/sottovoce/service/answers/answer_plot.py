"""Figures of an answer: its rows with their intervals, over time where they follow one another, or their posteriors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sottovoce.inference.cells.questions import Question
from sottovoce.inference.figures import COLOURS, dates, figure, titled, words
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.shares import percent
from sottovoce.service.answers.forest import forest
from sottovoce.service.answers.series_plot import series_plot


def forest_of(
    question: Question, names: Sequence[str], rows: Sequence[Mapping[str, Any]], level: float, ax: Any = None
) -> Any:
    """Return a forest plot of the rows, or a series where groups follow one another."""
    if question.is_series:
        drawing, axes = series_plot(question.labels, rows, ax=ax)
        axes.set_ylabel(words(question.parameter))
    else:
        ends = np.array([[row["low"], row["high"]] for row in rows])
        middle = np.array([math.nan if row["estimate"] is None else row["estimate"] for row in rows])
        start = 0.0 if question.first_day is None else dates(question.first_day)
        drawing, axes = forest(names, start + middle, start + ends, width=6.0, ax=ax)
        if question.first_day is not None:
            axes.xaxis_date()
        axes.set_xlabel(words(question.parameter))
    titled(drawing, f"{question.describe()} ({percent(level)} intervals)", ax)
    return drawing


def densities_of(question: Question, names: Sequence[str], known: Sequence[bool], draws: Floats, ax: Any = None) -> Any:
    """Return a figure of the posterior densities of the first rows, of those that noise does not hide."""
    drawing, axes = figure(width=6.0, height=3.6, ax=ax)
    first = question.first_day
    start = 0.0 if first is None else dates(first)
    if first is not None:
        axes.xaxis_date()
    for place, name in enumerate(names[: len(COLOURS)]):
        if not known[place]:
            axes.plot([], [], label=words(f"{name}: not known"), color=COLOURS[place])
            continue
        heights, edges = np.histogram(start + draws[:, place], bins=30, density=True)
        axes.plot((edges[1:] + edges[:-1]) / 2, heights, label=words(name), color=COLOURS[place])
    axes.set_xlabel(words(question.parameter))
    few = f" (the first {len(COLOURS)} of {len(names)} rows)" if len(names) > len(COLOURS) else ""
    titled(drawing, question.describe() + few, ax)
    axes.legend()
    return drawing
