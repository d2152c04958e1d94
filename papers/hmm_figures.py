"""The drawings of the hidden Markov study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import optimize

from papers.event_logs import EventLog
from sottovoce.inference.figures import COLOURS, figure
from sottovoce.inference.latent import HiddenMarkovPosterior

__all__ = ["draw_held_out", "draw_maps", "draw_printed", "draw_printed_maps", "draw_profiles", "matched"]

ROUTES = {
    "none": ("no promise", "#333333", "--"),
    "laplace": ("Laplace", COLOURS[0], "-"),
    "aware": ("Laplace, noise-aware", COLOURS[7], "-"),
    "gaussian": ("Gaussian, δ=1e-6", COLOURS[2], "-"),
    "tempered": ("tempered, proven", COLOURS[1], "-"),
    "converged": ("tempered, if converged", COLOURS[4], ":"),
}


def matched(states: Any, reference: HiddenMarkovPosterior, posterior: HiddenMarkovPosterior) -> Any:
    """Return states (chain, step) renamed to the reference's: the pairing with the nearest emissions."""
    pairs = zip(reference.emissions, posterior.emissions, strict=True)
    cost = sum(np.abs(a.mean(axis=0)[:, None] - b.mean(axis=0)[None]).sum(axis=-1) for a, b in pairs)
    rows, columns = optimize.linear_sum_assignment(cost)
    names = np.empty(len(rows), dtype=np.int64)
    names[columns] = rows
    return names[states]


def draw_maps(log: EventLog, maps: Mapping[str, Any]) -> Any:
    """Draw the state of every district and month, one panel a way of fitting."""
    from matplotlib.colors import ListedColormap

    states = max(int(m.max()) for m in maps.values()) + 1
    columns = min(len(maps), 2)
    drawing, axes = figure(columns, -(-len(maps) // columns), width=5.4, height=3.1)
    years = [label[0] for label in log.grid.step_labels if label[1] == 1]  # type: ignore[index]
    districts = log.grid.chains.categories
    for place, (axis, (title, states_map)) in enumerate(zip(np.ravel(axes), maps.items(), strict=False)):
        axis.imshow(
            states_map, aspect="auto", interpolation="nearest", cmap=ListedColormap(COLOURS[:states]), vmin=-0.5,
            vmax=states - 0.5,
        )  # fmt: skip
        axis.set_title(title)
        # Named once: districts beside a row, years under a column.
        beside = districts if place % columns == 0 else ()
        axis.set_yticks(range(len(beside)), beside, fontsize=6.5)
        under = years if place + columns >= len(maps) else []
        axis.set_xticks(np.arange(len(under)) * 12 - 0.5, under, fontsize=8)
        axis.grid(visible=False)
        axis.tick_params(length=0)
    for axis in np.ravel(axes)[len(maps) :]:
        axis.set_visible(False)
    handles = [_patch(COLOURS[s]) for s in range(states)]
    labels = [f"state {s + 1}" for s in range(states)]
    drawing.legend(handles, labels, loc="outside lower center", ncols=states, frameon=False, fontsize=9)
    return drawing


def _patch(colour: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(facecolor=colour)


def draw_profiles(log: EventLog, posterior: HiddenMarkovPosterior) -> Any:
    """Draw each state's probabilities, a panel a field, with 95 % intervals."""
    columns = 3 if len(log.fields) > 4 else 2
    drawing, axes = figure(columns, -(-len(log.fields) // columns), width=3.9, height=2.6)
    states = posterior.initial.shape[1]
    width = 0.8 / states
    for axis, field in zip(np.ravel(axes), log.fields, strict=False):
        mean = posterior.emission(field.name).mean(axis=0)
        low, high = np.moveaxis(posterior.interval(name=field.name), -1, 0)
        at = np.arange(field.size)
        for s in range(states):
            shift = at + (s - (states - 1) / 2) * width
            ends = np.stack([np.maximum(mean[s] - low[s], 0), np.maximum(high[s] - mean[s], 0)])
            axis.bar(shift, mean[s], width, color=COLOURS[s], label=f"state {s + 1}")
            axis.errorbar(shift, mean[s], ends, fmt="none", ecolor="#333333", elinewidth=0.9, capsize=0)
        names = [str(c).replace("-carriageway", "\ncarriageway").replace("-rain", "\nrain") for c in field.categories]
        axis.set_xticks(at, names, fontsize=7.5)
        axis.set_title(field.name.replace("_class", "").replace("_", " "))
        axis.set_ylim(0, 1)
        axis.grid(visible=False, axis="x")
    for axis in np.ravel(axes)[len(log.fields) :]:
        axis.set_visible(False)
    handles = [_patch(COLOURS[s]) for s in range(states)]
    labels = [f"state {s + 1}" for s in range(states)]
    drawing.legend(handles, labels, loc="outside lower center", ncols=states, frameon=False, fontsize=9)
    return drawing


def draw_held_out(epsilons: Sequence[float], scores: Mapping[tuple[str, str], Any], title: str) -> Any:
    """Draw the log-likelihood of a held-out event against ε; `scores` maps (model, route) to (ε, split).

    Some splits are harder than others for every model. The bands, one standard deviation over the splits, are those of
    the difference from the model without a promise on the same split.
    """
    drawing, axes = figure(2, width=4.9, height=3.8)
    for axis, model in zip(axes, ("naive Bayes", "hidden Markov, 10 states"), strict=True):
        for route, (label, colour, line) in ROUTES.items():
            values = scores.get((model, route))
            if values is None:
                continue
            level = scores[model, "none"]
            gap = values - level[:, : values.shape[1]]
            mean, spread = level.mean() + gap.mean(axis=1), gap.std(axis=1)
            axis.plot(epsilons, mean, line, color=colour, label=label, marker="o" if route != "none" else "", ms=3.5)
            axis.fill_between(epsilons, mean - spread, mean + spread, color=colour, alpha=0.12, lw=0)
        axis.set_xscale("log")
        axis.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
        axis.minorticks_off()
        axis.set(title=f"{title}: {model}", xlabel="ε", ylabel="log-likelihood of a held-out event")
        axis.legend(loc="lower right", frameon=False, fontsize=8)
    return drawing


PRINTED = {
    "none": ("no promise", "#333333", "--"),
    "laplace": ("Laplace, as printed", COLOURS[0], "-"),
    "M = 10": ("OPS, M = 10, if converged", COLOURS[1], ":"),
    "M = 100": ("OPS, M = 100, if converged", COLOURS[4], ":"),
    "aware": ("Laplace, ours, aware", COLOURS[7], "-"),
}


def draw_printed(scores: Mapping[tuple[str, str, str], Mapping[float, Sequence[float]]]) -> Any:
    """Draw the held-out log-likelihood of every log, naive Bayes above, hidden Markov below."""
    logs = list(dict.fromkeys(key[0] for key in scores))
    drawing, axes = figure(len(logs), 2, width=3.6, height=3.0)
    for row, model in enumerate(("naive Bayes", "hidden Markov")):
        for axis, log in zip(np.ravel(axes)[row * len(logs) :], logs, strict=False):
            epsilons = sorted(scores[log, model, "laplace"])
            for route, (label, colour, line) in PRINTED.items():
                values = scores.get((log, model, route))
                if values is None:
                    continue
                mean = [np.mean(values[min(values, key=lambda v, e=e: abs(v - e))]) for e in epsilons]  # type: ignore[misc]
                axis.plot(epsilons, mean, line, color=colour, label=label, marker="o" if route != "none" else "", ms=3)
            axis.set_xscale("log")
            axis.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
            axis.minorticks_off()
            axis.set(title=f"{log}: {model}", xlabel="ε")
    np.ravel(axes)[-1].legend(loc="lower right", frameon=False, fontsize=7.5)
    np.ravel(axes)[0].set_ylabel("log-likelihood of a held-out event")
    return drawing


def draw_printed_maps(maps: Mapping[str, Mapping[str, Any]]) -> Any:
    """Draw the regimes and the states found at ε = 5, a column a log."""
    from matplotlib.colors import ListedColormap

    routes = list(next(iter(maps.values())))
    drawing, axes = figure(len(maps), len(routes), width=4.6, height=1.15)
    grid = np.reshape(np.ravel(axes), (len(routes), len(maps)))
    for column, (log, shown) in zip(grid.T, maps.items(), strict=True):
        truth = shown["truth"]
        for axis, route in zip(column, routes, strict=True):
            table = [[-np.sum((truth == a) & (shown[route] == b)) for b in range(3)] for a in range(3)]
            rows, columns = optimize.linear_sum_assignment(np.array(table))
            names = np.empty(3, dtype=np.int64)
            names[columns] = rows
            colours = ListedColormap(COLOURS[:3])
            axis.imshow(names[shown[route]], aspect="auto", interpolation="nearest", cmap=colours, vmin=-0.5, vmax=2.5)
            axis.set_title(f"{log}: {PRINTED.get(route, (route,))[0]}", fontsize=8)
            axis.set_yticks([])
            years = range(2004, 2010) if route == routes[-1] else ()
            axis.set_xticks(np.arange(len(years)) * 12 - 0.5, years, fontsize=7)
            axis.grid(visible=False)
    return drawing
