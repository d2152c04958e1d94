"""What public data buys, and what a breach leaves."""

from __future__ import annotations

import numpy as np

from papers.registry import Finding, Outcome, Setting, experiment
from sottovoce.inference.figures import figure, write_csv
from sottovoce.mechanisms import DiffusedPosterior
from sottovoce.mechanisms.conjugate import BetaBernoulli
from sottovoce.privacy.promises import ApproxDP
from sottovoce.records.readings import Statistics

__all__ = ["run"]

N, MEAN, DELTA = 500, 0.3, 1e-6


@experiment("public-data", "What public data buys, and what a breach leaves", source="ours")
def run(setting: Setting) -> Outcome:
    """Draw the data weight that public records buy, and the ε that protects the others after a breach."""
    system, target = BetaBernoulli(1, 1), ApproxDP(1.0, DELTA)
    public = np.unique(np.round(np.geomspace(1, 120, 8 if setting.quick else 24))).astype(int)
    weights = []
    for count in public:
        better = system.with_public(Statistics(int(count), np.array([MEAN * count])))
        weights.append(DiffusedPosterior.calibrate(better, N, target).data_weight)
    setting.advance(0.5)
    mechanism = DiffusedPosterior.calibrate(system, N, target)
    known = np.linspace(0, N - 1, 8 if setting.quick else 24).astype(int)
    left_over = [
        mechanism.with_known_records(Statistics(int(k), np.array([MEAN * k]))).profile.epsilon(DELTA) for k in known
    ]
    drawing, (left, right) = figure(2)
    left.plot(public, weights, "o-", markersize=4)
    left.set(
        xscale="log",
        ylim=(0, 1.05),
        xlabel="public records",
        ylabel="data weight r",
        title="Public records let the private ones count",
    )
    right.plot(known, left_over, "o-", color="#d1603d", markersize=4)
    right.set(
        ylim=(0, 1.05),
        xlabel=f"records an attacker knows, of {N}",
        ylabel="ε for the others, δ = 1e-6",
        title="A breach does not expose the others",
    )
    files = setting.save(drawing, "public_data")
    rows = [("public", *row) for row in zip(public, weights, strict=True)]
    rows += [("known", *row) for row in zip(known, left_over, strict=True)]
    table = write_csv(setting.output / "public_data.csv", ("kind", "records", "value"), rows)
    setting.advance(1.0)
    return Outcome(
        (*files, table),
        (
            Finding(
                "public records raise the data weight",
                bool(np.all(np.diff(weights) >= 0)),
                f"{weights[0]:.3f} to {weights[-1]:.3f}",
            ),
            Finding(
                "the others are never worse off",
                max(left_over) <= 1.0 + 1e-9,
                f"ε from {left_over[0]:.3f} to {left_over[-1]:.3f}",
            ),
        ),
    )
