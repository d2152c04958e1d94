"""How often 95 % intervals hold the truth, when the count behind them is noisy."""

from __future__ import annotations

from typing import Any

import numpy as np

from papers.registry import Finding, Outcome, Setting, experiment
from papers.style import figure, save, write_csv
from sottovoce.mechanisms import NoisyStatistics
from sottovoce.privacy.promises import PureDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.systems import BetaBernoulli

__all__ = ["cover"]

SIZES = (10, 100, 1000)
EPSILONS = (0.1, 0.5, 1.0)


def cover(n: int, epsilon: float, repeats: int, seed: int) -> tuple[float, float]:
    """Return how often noise-aware and plug-in 95 % intervals hold the true proportion.

    Each time θ comes from the prior, the records from θ, the noise from its own law. An equal-tailed
    interval holds θ when
    the posterior puts between 2.5 % and 97.5 % below it.
    """
    rng = seeded_rng(seed)
    mechanism = NoisyStatistics.calibrate(BetaBernoulli(1, 1), n, PureDP(epsilon), noise="laplace")
    hits = np.zeros(2)
    for theta in rng.uniform(size=repeats):
        records = rng.uniform(size=n) < theta
        posterior: Any = mechanism.release(records, rng).value
        below = np.array([posterior.noise_aware.cdf(theta), posterior.plug_in.cdf(theta)])
        hits += (below > 0.025) & (below < 0.975)
    aware, plug_in = hits / repeats
    return float(aware), float(plug_in)


@experiment("coverage", "Intervals that keep their level through noise", source="ours")
def run(setting: Setting) -> Outcome:
    """Measure the coverage in every cell and draw it."""
    repeats = 300 if setting.quick else 4000
    rows: list[dict[str, Any]] = []
    cells = [(n, epsilon) for n in SIZES for epsilon in EPSILONS]
    for index, (n, epsilon) in enumerate(cells):
        aware, plug_in = cover(n, epsilon, repeats, setting.seed + index)
        rows.append({"n": n, "epsilon": epsilon, "noise_aware": aware, "plug_in": plug_in, "repeats": repeats})
        setting.advance((index + 1) / len(cells))
    table = write_csv(setting.output / "coverage.csv", tuple(rows[0]), [tuple(row.values()) for row in rows])
    files = save(_draw(rows), setting.output / "coverage")
    slack = 3 * (0.95 * 0.05 / repeats) ** 0.5
    levels = [row["noise_aware"] for row in rows]
    worst = min(row["plug_in"] for row in rows)
    return Outcome(
        (*files, table),
        (
            Finding(
                "noise-aware 95 % intervals cover 93-97 % in every cell",
                min(levels) >= 0.94 - slack and max(levels) <= 0.96 + slack,
                f"{min(levels):.3f} to {max(levels):.3f} over {len(rows)} cells, {repeats} repeats each",
            ),
            Finding("plug-in intervals cover far less at small n·ε", worst < 0.6, f"as little as {worst:.3f}"),
        ),
    )


def _draw(rows: list[dict[str, Any]]) -> Any:
    drawing, axes = figure(len(SIZES), width=2.7, height=3.0)
    for axis, n in zip(axes, SIZES, strict=True):
        mine = [row for row in rows if row["n"] == n]
        x = [row["epsilon"] for row in mine]
        axis.axhspan(0.93, 0.97, color="#dfe6e2", label="93 to 97 %")
        axis.plot(x, [row["noise_aware"] for row in mine], "o-", label="noise-aware")
        axis.plot(x, [row["plug_in"] for row in mine], "s--", label="plug-in")
        axis.set(xscale="log", ylim=(0.3, 1.0), xlabel="ε", title=f"n = {n}")
        axis.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
        axis.minorticks_off()
    axes[0].set_ylabel("coverage of 95 % intervals")
    axes[-1].legend(loc="lower right", frameon=False)
    return drawing
