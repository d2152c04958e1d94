"""How often 95 % intervals hold the truth, when the statistic behind them is noisy and its records were clipped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from papers.registry import Finding, Outcome, Setting, experiment
from sottovoce.inference.figures import figure, write_csv
from sottovoce.mechanisms import NoisyStatistics
from sottovoce.mechanisms.conjugate import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NormalMean,
)
from sottovoce.privacy.promises import PureDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.readings import Statistics

__all__ = ["CLIPPED", "cover", "cover_clipped", "cover_commonest"]

SIZES = (10, 100, 1000)
EPSILONS = (0.1, 0.5, 1.0)


@dataclass(frozen=True)
class Clipped:
    """A system whose bound clips about a known share of its records, and a truth that its prior finds odd."""

    system: Any
    truth: Callable[[np.random.Generator], float]
    records: Callable[[np.random.Generator, float, int], Any]
    awkward: float


def _poisson(rng: np.random.Generator, theta: float, n: int) -> Any:
    return rng.poisson(theta, n)


def _waits(rng: np.random.Generator, theta: float, n: int) -> Any:
    return rng.exponential(1 / theta, n)


def _numbers(rng: np.random.Generator, theta: float, n: int) -> Any:
    return rng.normal(theta, 2.0, n)


CLIPPED = {
    "counts, none clipped": Clipped(GammaPoisson(8, 2, high=30), lambda g: g.gamma(8) / 2, _poisson, 7.0),
    "counts, 37 % clipped": Clipped(GammaPoisson(8, 2, high=4), lambda g: g.gamma(8) / 2, _poisson, 7.0),
    "waits, 3 % clipped": Clipped(GammaExponential(20, 20, high=3.5), lambda g: g.gamma(20) / 20, _waits, 1.5),
    "waits, 20 % clipped": Clipped(GammaExponential(20, 20, high=1.6), lambda g: g.gamma(20) / 20, _waits, 1.5),
    "waits, 42 % clipped": Clipped(GammaExponential(20, 20, high=0.87), lambda g: g.gamma(20) / 20, _waits, 0.6),
    "numbers, 5 % clipped": Clipped(NormalMean(4.0, 1.0, bounds=(-4, 4)), lambda g: g.normal(), _numbers, 2.0),
    "numbers, 40 % clipped": Clipped(NormalMean(4.0, 1.0, bounds=(-2, 1.5)), lambda g: g.normal(), _numbers, 2.0),
}


def cover_clipped(case: Clipped, n: int, epsilon: float, repeats: int, seed: int) -> tuple[float, float]:
    """Return how often noise-aware 95 % intervals hold a truth from the prior, and one awkward truth."""
    rng, hits = seeded_rng(seed), np.zeros(2)
    mechanism = NoisyStatistics.calibrate(case.system, n, PureDP(epsilon), noise="laplace")
    for _ in range(repeats):
        for which, truth in enumerate((case.truth(rng), case.awkward)):
            posterior: Any = mechanism.release(case.records(rng, truth, n), rng).value
            hits[which] += 0.025 < posterior.noise_aware.cdf(truth) < 0.975
    average, awkward = hits / repeats
    return float(average), float(awkward)


def cover_commonest(n: int, epsilon: float, alpha: float, repeats: int, seed: int) -> float:
    """Return how often the interval of the commonest of ten categories, nine tenths of all records, holds it."""
    rng, hits = seeded_rng(seed), 0
    theta = np.append(0.9, np.full(9, 0.1 / 9))
    mechanism = NoisyStatistics.calibrate(DirichletCategorical(np.full(10, alpha)), n, PureDP(epsilon), noise="laplace")
    for _ in range(repeats):
        counts = rng.multinomial(n, theta).astype(np.float64)
        noisy = mechanism.noisy_totals(Statistics(n, counts), rng)[0]
        posterior: Any = mechanism.posterior_from(noisy, rng).noise_aware
        hits += 0.025 < posterior.marginal(0).cdf(0.9) < 0.975
    return hits / repeats


def cover(n: int, epsilon: float, repeats: int, seed: int) -> tuple[float, float]:
    """Return how often noise-aware and plug-in 95 % intervals hold the true proportion.

    Each time θ comes from the prior, the records from θ, the noise from its own law. An equal-tailed
    interval holds θ when
    the posterior puts between 2.5 % and 97.5 % below it.
    """
    rng = seeded_rng(seed)
    mechanism = NoisyStatistics.calibrate(BetaBernoulli(1, 1), n, PureDP(epsilon), noise="laplace")
    hits, truths = np.zeros(2), rng.uniform(size=repeats)
    ones, seen = rng.binomial(n, truths), np.empty(repeats)
    for count in np.unique(ones):  # data sets with as many ones are released together
        mine = ones == count
        seen[mine] = mechanism.noisy_totals(Statistics(n, np.array([float(count)])), rng, int(mine.sum()))[:, 0]
    for total in np.unique(seen):  # and what looks the same has one posterior
        posterior: Any = mechanism.posterior_from(np.array([total]))
        below = np.array([law.cdf(truths[seen == total]) for law in (posterior.noise_aware, posterior.plug_in)])
        hits += ((below > 0.025) & (below < 0.975)).sum(axis=1)
    aware, plug_in = hits / repeats
    return float(aware), float(plug_in)


@experiment("coverage", "Intervals that keep their level through noise", source="ours")
def run(setting: Setting) -> Outcome:
    """Measure the coverage in every cell and draw it."""
    repeats = 150 if setting.quick else 4000
    rows: list[dict[str, Any]] = []
    cells = [(n, epsilon) for n in SIZES for epsilon in EPSILONS]
    for index, (n, epsilon) in enumerate(cells):
        aware, plug_in = cover(n, epsilon, repeats, setting.seed + index)
        rows.append({"n": n, "epsilon": epsilon, "noise_aware": aware, "plug_in": plug_in, "repeats": repeats})
        setting.advance((index + 1) / len(cells))
    table = write_csv(setting.output / "coverage.csv", tuple(rows[0]), [tuple(row.values()) for row in rows])
    files = setting.save(_draw(rows), "coverage")
    clipped = _clipped(setting)
    others = write_csv(
        setting.output / "coverage_clipped.csv", tuple(clipped[0]), [tuple(row.values()) for row in clipped]
    )
    slack = 3 * (0.95 * 0.05 / repeats) ** 0.5
    levels = [row["noise_aware"] for row in rows]
    worst = min(row["plug_in"] for row in rows)
    return Outcome(
        (*files, table, others),
        (
            *_findings(clipped),
            Finding(
                "noise-aware 95 % intervals cover 93-97 % in every cell",
                min(levels) >= 0.94 - slack and max(levels) <= 0.96 + slack,
                f"{min(levels):.3f} to {max(levels):.3f} over {len(rows)} cells, {repeats} repeats each",
            ),
            Finding("plug-in intervals cover far less at small n·ε", worst < 0.6, f"as little as {worst:.3f}"),
        ),
    )


def _clipped(setting: Setting) -> list[dict[str, Any]]:
    """Measure the coverage of clipped systems and of the commonest category."""
    repeats = 10 if setting.quick else 1000
    sizes, epsilons = ((1000,), (0.5,)) if setting.quick else ((8, 50, 1000, 5000), (0.1, 0.5, 2.0))
    rows: list[dict[str, Any]] = []
    for n in sizes:
        for epsilon in epsilons:
            for name, case in CLIPPED.items():
                average, awkward = cover_clipped(case, n, epsilon, repeats, setting.seed + len(rows))
                rows.append({"case": name, "n": n, "epsilon": epsilon, "prior": average, "awkward": awkward})
                rows[-1]["repeats"] = repeats
            common = cover_commonest(n, epsilon, 0.1, repeats, setting.seed + len(rows))
            rows.append({"case": "commonest of ten, alpha 1/10", "n": n, "epsilon": epsilon, "prior": np.nan})
            rows[-1] |= {"awkward": common, "repeats": repeats}
    return rows


def _findings(rows: list[dict[str, Any]]) -> tuple[Finding, ...]:
    slack = 3.5 * (0.95 * 0.05 / rows[0]["repeats"]) ** 0.5
    levels = [row["prior"] for row in rows if not np.isnan(row["prior"])]
    large = [row["awkward"] for row in rows if row["n"] >= 1000 and row["epsilon"] >= 0.5]
    return (
        Finding(
            "intervals cover 93-97 % on average over the prior, whatever share of the records is clipped",
            min(levels) >= 0.94 - slack and max(levels) <= 0.96 + slack,
            f"{min(levels):.3f} to {max(levels):.3f} over {len(levels)} cells",
        ),
        Finding(
            "and 90 % or more at awkward truths once n·ε is 500",
            min(large) >= 0.92 - slack,
            f"{min(large):.3f} or more over {len(large)} cells",
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
