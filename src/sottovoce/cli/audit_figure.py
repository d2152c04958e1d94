"""The figure of an audit: the attack's trade-off curve with its band, against the claim."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sottovoce.answers.style import COLOURS, figure
from sottovoce.audit import AuditReport, trade_off
from sottovoce.privacy.errors import InvalidValue

__all__ = ["draw_trade_off", "trade_off_figure"]


def draw_trade_off(report: AuditReport) -> Any:
    """Return a figure of both errors of the attack, and of its hits among few false alarms, where (ε, δ) is decided."""
    try:
        drawing, (errors, hits) = figure(2, width=4.9, height=3.7)
    except ImportError:
        raise InvalidValue("drawing needs the plots extra: pip install 'sottovoce[plots]'") from None
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
    found = f"ε ≥ {report.epsilon.lower:.3g} found, {report.epsilon.claimed:.3g} claimed at δ = {report.delta:g}"
    drawing.suptitle(f"{report.name}: {report.verdict}\n{found}", fontsize=10, x=0.01, ha="left")
    return drawing


def trade_off_figure(report: AuditReport, path: Path) -> None:
    """Draw an audit into a file."""
    drawing = draw_trade_off(report)
    try:
        drawing.savefig(path, dpi=130)
    except (OSError, ValueError) as error:
        raise InvalidValue(f"cannot write the figure to {path}: {error}") from None
