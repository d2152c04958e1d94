"""The figures the command line draws: privacy curves beside forecasts, an audit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sottovoce.inference.figures import COLOURS, figure
from sottovoce.mechanisms.mechanism_choice import Choice
from sottovoce.privacy.promises import ApproxDP, Promise


def draw_choices(found: Sequence[Choice], promise: Promise) -> Any:
    """Return a figure of δ(ε) and of the forecast widths of every reachable mechanism."""
    drawing, (curves, bars) = figure(2, width=4.8, height=3.3)
    reachable = [(c, c.mechanism, c.forecast) for c in found if c.mechanism is not None and c.forecast is not None]
    starred = isinstance(promise, ApproxDP) and promise.delta > 0
    least = min(1e-9, promise.delta / 10) if starred else 1e-9  # type: ignore[attr-defined]
    reach = max((min(m.profile.epsilon(least), 20.0) for _, m, _ in reachable), default=1.0)
    epsilon = np.linspace(0, reach, 201)
    for index, (c, mechanism, _) in enumerate(reachable):
        delta = mechanism.profile.delta(epsilon)
        colour = COLOURS[index % len(COLOURS)]
        curves.plot(epsilon, np.where(delta > 0, delta, np.nan), label=c.name, color=colour, linewidth=1.8)
    if isinstance(promise, ApproxDP) and starred:
        curves.plot(promise.epsilon, promise.delta, "k*", markersize=11, label=f"promise {promise}")
    curves.set(yscale="log", ylim=(least, 1.2), xlim=(0, None), xlabel="ε", ylabel="δ(ε)")
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
    return drawing


def draw_trade_off(report: Any) -> Any:
    """Return a figure of both errors of the attack, and of its hits among few false alarms, where (ε, δ) is decided."""
    from sottovoce.audit import trade_off  # noqa: PLC0415 - only here

    drawing, (errors, hits) = figure(2, width=4.9, height=3.7)
    band = report.band
    rates = np.concatenate([np.geomspace(1e-7, 1e-2, 200), np.linspace(1e-2, 1.0, 300)])
    claim, certified = trade_off(report.claim, rates), band.certified(rates)
    edge = np.concatenate([band.fpr_low, band.fpr_high[::-1]]), np.concatenate([band.fnr_low, band.fnr_high[::-1]])
    sure = f"certified, {report.confidence:.4g} confidence"
    for axis, start, sign in ((errors, 0.0, 1.0), (hits, 1.0, -1.0)):  # misses, and one less misses
        axis.plot(rates, start + sign * claim, color="black", linewidth=1.4, label="claim")
        axis.plot(band.fpr, start + sign * band.fnr, ".", color=COLOURS[0], markersize=5, label="attack, as seen")
        axis.fill(edge[0], start + sign * edge[1], color=COLOURS[0], alpha=0.25, linewidth=0, label="its band")
        axis.plot(rates, start + sign * certified, color=COLOURS[1], linewidth=1.6, label=sure)
        axis.set_xlabel("false alarms")
    errors.plot([0, 1], [1, 0], linestyle=":", color="grey", linewidth=1)
    errors.text(0.52, 0.5, "blind guess", color="grey", fontsize=8)
    errors.set(xlim=(0, 1), ylim=(0, 1), ylabel="misses")
    errors.set_title("No attack may come below the claim", loc="left", fontsize=10)
    least = max(float(band.fpr[band.fpr > 0].min(initial=1.0)) / 2, 1e-7)
    hits.plot([least, 1], [least, 1], linestyle=":", color="grey", linewidth=1)
    hits.set(xscale="log", yscale="log", xlim=(least, 1), ylim=(least, 1.3), ylabel="hits")
    hits.set_title("Few false alarms: none may rise above it", loc="left", fontsize=10)
    hits.legend(fontsize=8, loc="lower right", frameon=False)
    result = f"ε ≥ {report.epsilon.lower:.3g} found, {report.epsilon.claimed:.3g} claimed at δ = {report.delta:g}"
    drawing.suptitle(f"{report.name}: {report.verdict}\n{result}", fontsize=10, x=0.01, ha="left")
    return drawing
