"""One proportion, six ways: what is sampled or released, and what each promises."""

from __future__ import annotations

from typing import Any

import numpy as np

from papers.registry import Finding, Outcome, Setting, experiment
from sottovoce.inference.figures import figure, write_csv
from sottovoce.mechanisms import (
    ConcentratedPosterior,
    DiffusedPosterior,
    DirectPosterior,
    NoisyStatistics,
    StatisticalQuery,
    TemperedPosterior,
)
from sottovoce.mechanisms.conjugate import BetaBernoulli
from sottovoce.privacy.promises import ApproxDP
from sottovoce.records.readings import Statistics

__all__ = ["laws"]

N, ONES = 200, 60
TARGET = ApproxDP(1.0, 1e-6)


def laws() -> dict[str, tuple[Any, Any]]:
    """Return each mechanism, calibrated to one promise, with the distribution that it samples or releases."""
    system, statistics = BetaBernoulli(6, 12), Statistics(N, np.array([float(ONES)]))
    diffused = DiffusedPosterior.calibrate(system, N, TARGET)
    concentrated = ConcentratedPosterior.calibrate(system, N, TARGET)
    tempered = TemperedPosterior.calibrate(system, N, TARGET)
    noisy = NoisyStatistics.calibrate(system, N, TARGET)
    query = StatisticalQuery.calibrate(system, N, TARGET, predicate=float)
    return {
        "direct (breaks the promise)": (DirectPosterior(system, N), system.posterior(statistics)),
        "diffused": (diffused, system.posterior(statistics, diffused.data_weight)),
        "concentrated": (concentrated, system.posterior(statistics, 1.0, concentrated.prior_weight)),
        "tempered": (tempered, system.tempered(statistics, tempered.temperature, tempered.truncation)),
        "noisy statistics": (noisy, noisy.posterior_from([ONES + 1.0]).noise_aware),
        "statistical query": (query, query.system.posterior(statistics, query.data_weight)),
    }


@experiment("six-ways", "One proportion, six ways", source="ours")
def run(setting: Setting) -> Outcome:
    """Draw the six laws and the six exact curves."""
    theta = np.linspace(0.001, 0.7, 100 if setting.quick else 400)
    epsilon = np.linspace(0, 2.5, 40 if setting.quick else 120)
    drawing, (left, right) = figure(2)
    rows, keeps = [], {}
    for name, (mechanism, law) in laws().items():
        style = "--" if name == "statistical query" else "-"
        density, delta = np.exp(law.log_density(theta)), mechanism.profile.delta(epsilon)
        left.plot(theta, density, style, label=name)
        right.plot(epsilon, np.where(delta > 1e-13, delta, np.nan), style)
        keeps[name] = mechanism.profile.satisfies(TARGET)
        rows += [("density", name, x, y) for x, y in zip(theta, density, strict=True)]
        rows += [("delta", name, x, y) for x, y in zip(epsilon, delta, strict=True)]
    right.plot(TARGET.epsilon, TARGET.delta, "k*", markersize=11)
    right.annotate("the promise", (TARGET.epsilon, TARGET.delta), (1.12, 2e-6))
    left.set(xlabel="θ", ylabel="density", title="What is sampled or released", ylim=(0, None))
    left.legend(loc="upper right", frameon=False, fontsize=8)
    right.set(yscale="log", ylim=(1e-12, 1), xlabel="ε", ylabel="δ(ε)", title="What is promised")
    files = setting.save(drawing, "six_ways")
    table = write_csv(setting.output / "six_ways.csv", ("kind", "mechanism", "x", "y"), rows)
    setting.advance(1.0)
    return Outcome(
        (*files, table),
        (
            Finding(
                "five ways keep the promise; the direct sample does not",
                [name for name, kept in keeps.items() if not kept] == ["direct (breaks the promise)"],
                str(keeps),
            ),
        ),
    )
