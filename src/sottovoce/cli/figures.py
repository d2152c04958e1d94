"""The figures the command line draws: privacy curves beside forecasts, posteriors, a budget."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sottovoce.answers.style import COLOURS
from sottovoce.mechanisms.choices import Choice
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import ApproxDP, Promise

__all__ = ["budget_figure", "choices_figure", "density_figure", "draw_choices", "interval_figure", "svg_text"]


def _axes(columns: int, width: float = 4.8, height: float = 3.3) -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
    except ImportError:
        raise InvalidValue("drawing needs the plots extra: pip install 'sottovoce[plots]'") from None
    figure = Figure(figsize=(width * columns, height), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)[0]
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25, linewidth=0.6)
    return figure, axes


def svg_text(figure: Any) -> str:
    """Return a figure as SVG to stand inside a page."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def draw_choices(found: Sequence[Choice], promise: Promise) -> Any:
    """Return a figure of δ(ε) and of the forecast widths of every reachable mechanism."""
    figure, (curves, bars) = _axes(2)
    reachable = [(c, c.mechanism, c.forecast) for c in found if c.mechanism is not None and c.forecast is not None]
    reach = max((min(m.profile.epsilon(1e-9), 20.0) for _, m, _ in reachable), default=1.0)
    epsilon = np.linspace(0, reach, 201)
    for index, (c, mechanism, _) in enumerate(reachable):
        delta = mechanism.profile.delta(epsilon)
        colour = COLOURS[index % len(COLOURS)]
        curves.plot(epsilon, np.where(delta > 0, delta, np.nan), label=c.name, color=colour, linewidth=1.8)
    if isinstance(promise, ApproxDP) and promise.delta > 0:
        curves.plot(promise.epsilon, promise.delta, "k*", markersize=11, label=f"promise {promise}")
    curves.set(yscale="log", ylim=(1e-9, 1.2), xlim=(0, None), xlabel="ε", ylabel="δ(ε)")
    curves.set_title("What each mechanism does", loc="left", fontweight="bold", fontsize=11)
    curves.legend(frameon=False, fontsize=9)
    names = [c.name for c, _, _ in reachable][::-1]
    widths = [f.interval_width for _, _, f in reachable][::-1]
    colours = [COLOURS[i % len(COLOURS)] for i in range(len(reachable))][::-1]
    bars.barh(names, widths, color=colours, height=0.6)
    if reachable:
        exact = reachable[0][2].exact_width
        bars.axvline(exact, color="black", linestyle="--", linewidth=1)
        bars.annotate(" without privacy", (exact, -0.78), fontsize=9, va="bottom")
        bars.set_ylim(-0.85, len(reachable) - 0.55)  # room for the words below the last bar
    bars.set(xlabel="expected width of a 95 % interval", xlim=(0, None))
    bars.set_title("What to expect", loc="left", fontweight="bold", fontsize=11)
    return figure


def choices_figure(found: Sequence[Choice], promise: Promise, path: Path) -> None:
    """Draw the choices into a file."""
    figure = draw_choices(found, promise)
    try:
        figure.savefig(path, dpi=130)
    except (OSError, ValueError) as error:
        raise InvalidValue(f"cannot write the figure to {path}: {error}") from None


def density_figure(
    posteriors: Sequence[tuple[str, Any]], low: float, high: float, label: str, marks: Sequence[tuple[str, float]] = ()
) -> Any:
    """Return a figure of densities over an interval, with marked values."""
    figure, (axis,) = _axes(1, width=7.2, height=3.0)
    grid = np.linspace(low, high, 600)
    for index, (name, posterior) in enumerate(posteriors):
        density = np.exp(posterior.log_density(grid))
        colour = COLOURS[index % len(COLOURS)]
        axis.plot(grid, density, label=name, color=colour, linewidth=1.8)
        axis.fill_between(grid, density, color=colour, alpha=0.12)
    for index, (name, value) in enumerate(marks):
        axis.axvline(value, color=COLOURS[(len(posteriors) + index) % len(COLOURS)], linewidth=1.8, label=name)
    axis.set(xlabel=label, ylabel="density", ylim=(0, None), xlim=(low, high))
    axis.legend(frameon=False, fontsize=9)
    return figure


def budget_figure(names: Sequence[str], costs: Sequence[float], limit: float, unit: str) -> Any:
    """Return a figure of a budget drawn down release by release; the last may be refused."""
    figure, (axis,) = _axes(1, width=9.2, height=1.8)
    start = 0.0
    for index, (name, cost) in enumerate(zip(names, costs, strict=True)):
        refused = start + cost > limit
        colour = "none" if refused else COLOURS[index % len(COLOURS)]
        edge = "#b3261e" if refused else "white"
        axis.barh(0, cost, left=start, color=colour, edgecolor=edge, height=0.5, hatch="///" if refused else None)
        axis.text(start + cost / 2, -0.32, str(index + 1), ha="center", va="top", fontsize=9)
        label = f"{index + 1}  {name}" + ("  (refused)" if refused else "")
        axis.plot([], [], "s", color=edge if refused else colour, label=label)
        start += cost
    axis.axvline(limit, color="black", linewidth=1.6)
    axis.text(limit, 0.32, "budget", ha="center", va="bottom", fontsize=9)
    axis.set(xlabel=unit, yticks=[], ylim=(-0.6, 0.6), xlim=(0, max(start, limit) * 1.06))
    axis.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))
    axis.grid(visible=False)
    axis.spines["left"].set_visible(False)
    return figure


def interval_figure(names: Sequence[str], means: Any, interval: tuple[Any, Any], truth: Any) -> Any:
    """Return a figure of one interval a category, with the true values beside them."""
    figure, (axis,) = _axes(1, width=7.2, height=0.55 * len(names) + 1.1)
    rows = np.arange(len(names))[::-1]
    means, low, high = (np.asarray(x, dtype=np.float64) for x in (means, *interval))
    axis.errorbar(
        means, rows, xerr=[means - low, high - means], fmt="o", color=COLOURS[0], capsize=4, label="released, 95 %"
    )
    axis.plot(np.asarray(truth), rows, "|", color="black", markersize=16, markeredgewidth=1.6, label="truth")
    axis.set(yticks=rows, yticklabels=list(names), xlabel="share", xlim=(0, None), ylim=(-0.6, len(names) - 0.4))
    axis.legend(frameon=False, fontsize=9, loc="lower right")
    return figure
