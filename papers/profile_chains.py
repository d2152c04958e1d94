"""Figures 7.5–7.8: what an observer sees of a chain of Bernoulli profiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from papers.registry import Finding, Outcome, Setting, experiment
from sottovoce.inference.figures import figure, write_csv
from sottovoce.privacy.numbers import Floats
from sottovoce.theory.local import OneBitCluster, ProfileGraph, RandomizedResponse, SmoothOneBit

__all__ = ["bernoulli_chain", "run_6", "run_21"]


def bernoulli_chain(size: int) -> ProfileGraph:
    """Return Bernoulli-Chain: parameters evenly spaced on [0, 1], an edge between successive profiles."""
    parameters = np.linspace(0, 1, size)
    return ProfileGraph.bernoulli(dict(enumerate(parameters)), [(i, i + 1) for i in range(size - 1)])


@experiment("profile-chain-6", "A chain of 6 Bernoulli profiles", source="Geumlek 2020, Figures 7.5 and 7.7")
def run_6(setting: Setting) -> Outcome:
    """Draw Pr(output = 1) of each profile of Bernoulli-Chain-6, for the baseline and the smooth mechanism."""
    return _run(setting, 6)


@experiment("profile-chain-21", "A chain of 21 Bernoulli profiles", source="Geumlek 2020, Figures 7.6 and 7.8")
def run_21(setting: Setting) -> Outcome:
    """Draw Pr(output = 1) of each profile of Bernoulli-Chain-21, for the baseline and the smooth mechanism."""
    return _run(setting, 21)


def _run(setting: Setting, size: int) -> Outcome:
    graph = bernoulli_chain(size)
    epsilons = np.linspace(0.02, 2.0, 12 if setting.quick else 100).round(6)
    kinds: dict[str, Any] = {
        "randomized response": RandomizedResponse,
        "one-bit cluster": OneBitCluster,
        "smooth one-bit": SmoothOneBit,
    }
    seen: dict[str, Floats] = {name: np.empty((epsilons.size, size)) for name in kinds}
    for t, epsilon in enumerate(epsilons):
        for name, kind in kinds.items():
            seen[name][t] = kind.calibrate(graph, float(epsilon)).output_distributions[:, 1]
        setting.advance(0.9 * (t + 1) / epsilons.size)
    name = f"profile-chain-{size}"
    header = ("mechanism", "epsilon", *(f"profile_{i}" for i in range(size)))
    rows = [(kind, e, *row) for kind, out in seen.items() for e, row in zip(epsilons, out, strict=True)]
    table = write_csv(setting.output / f"{name}.csv", header, rows)
    files = (*setting.save(_draw(size, epsilons, seen), name), table)
    spread = {name: out.max(axis=1) - out.min(axis=1) for name, out in seen.items()}
    at = int(np.flatnonzero(epsilons == 0.2)[0])
    local, cluster, smooth = (spread[name] for name in kinds)
    findings = (
        Finding(
            "at low ε every profile's output is close to a fair coin, for both",
            bool(max(np.abs(seen[name][0] - 0.5).max() for name in kinds) < 0.3),
            f"at ε = {epsilons[0]:g} spreads are {local[0]:.3f} (randomized response) and {smooth[0]:.3f} (smooth)",
        ),
        Finding(
            "at higher ε the profiles spread out again",
            bool(np.all(np.diff(smooth) > -1e-7) and np.all(np.diff(local) > 0)),
            f"smooth spread grows from {smooth[0]:.3f} to {smooth[-1]:.3f}",
        ),
        Finding(
            "the smooth mechanism spreads them more than randomized response at every ε",
            bool(np.all(smooth >= local - 1e-8)),
            f"at ε = 0.2: {smooth[at]:.3f} against {local[at]:.3f}",
        ),
        Finding(
            "one flip probability for the whole chain already beats randomized response, and smoothing beats that",
            bool(np.all(cluster >= local - 1e-8) and np.all(smooth >= cluster - 1e-8)),
            f"at ε = 0.2: {local[at]:.3f}, cluster {cluster[at]:.3f}, smooth {smooth[at]:.3f}",
        ),
    )
    return Outcome(files, findings)


def _draw(size: int, epsilons: Floats, seen: dict[str, Floats]) -> Any:
    import matplotlib as mpl

    drawing, axes = figure(3, width=3.5)
    colours = mpl.colormaps["viridis"](np.linspace(0.05, 0.9, size))
    for axis, (name, out) in zip(axes, seen.items(), strict=True):
        for column, colour in zip(out.T, colours, strict=True):
            axis.plot(epsilons, column, color=colour, linewidth=1.3)
        axis.axvline(0.2, color="0.4", linewidth=0.9, linestyle=":")
        axis.set(xlabel="ε", ylim=(-0.02, 1.02), title=name[0].upper() + name[1:])
    axes[0].set_ylabel("Pr(output = 1), a line a profile")
    return drawing
