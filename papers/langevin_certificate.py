"""What a private chain gives away after each step, and how well it predicts by then.

Logistic regression on Abalone at μ = 0.5. One chain is stopped after t steps; beside it, a chain calibrated for t steps
spends all of μ by then. Privacy never waits for convergence.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from papers.registry import Finding, Outcome, Setting, experiment
from papers.regression_data import Regression, load_regression
from sottovoce.inference.figures import COLOURS, figure, write_csv
from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.losses import Logistic
from sottovoce.inference.regression.posterior import DiffusedRegression
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.promises import GaussianDP
from sottovoce.privacy.randomness import seeded_rng

__all__ = ["trace"]

_MU = 0.5


@experiment("langevin-certificate", "Privacy and accuracy of a chain, step by step", source="ours")
def run(setting: Setting) -> Outcome:
    """Write μ_t and the test error against t as CSV and PNG."""
    data = load_regression("abalone")
    steps = np.unique(np.geomspace(1, 300 if setting.quick else 10_000, 9 if setting.quick else 17).astype(int))
    mus, errors, tuned = trace(data, steps, chains=10 if setting.quick else 40, seed=setting.seed, setting=setting)
    rows = [
        [t, f"{m:.6f}", *(f"{v:.4f}" for e in (a, b) for v in (e.mean(), e.std()))]
        for t, m, a, b in zip(steps, mus, errors, tuned, strict=True)
    ]
    header = ("steps", "mu", "error", "sd", "error of a chain calibrated to this length", "sd")
    table = write_csv(setting.output / "langevin-certificate.csv", header, rows)
    files = setting.save(_draw(steps, mus, errors, tuned), "langevin-certificate")
    return Outcome((*files, table), _findings(steps, mus, errors))


def trace(
    data: Regression, steps: Floats, *, chains: int, seed: int, setting: Setting
) -> tuple[list[float], list[Floats], list[Floats]]:
    """Return μ_t of one mechanism, its errors after t steps, and those of a mechanism calibrated for t steps."""
    n, d = data.X.shape
    design, target = Design(Logistic(), dimension=d, data_norm=1.0), GaussianDP(_MU)
    # The weight an exact sample may have: μ = 2ρ/√m.
    m = d / 10.0**2
    fixed = DiffusedRegression(design, n, m, _MU * np.sqrt(m) / 2)
    start = np.zeros((chains, d))
    mus, errors, tuned = [], [], []
    for k, t in enumerate(int(t) for t in steps):
        cut = replace(fixed, n_steps=t)
        own = DiffusedRegression.calibrate(design, n, target, prior_precision=m, n_steps=t, data_weight=100.0)
        mus.append(cut.chain.mu)
        errors.append(data.error(cut.draw(data.X, data.y, start, seeded_rng(seed + k))))
        tuned.append(data.error(own.draw(data.X, data.y, start, seeded_rng(seed + 1000 + k))))
        setting.advance((k + 1) / len(steps))
    return mus, errors, tuned


def _draw(steps: Floats, mus: list[float], errors: list[Floats], tuned: list[Floats]) -> Any:
    drawing, (left, right) = figure(2)
    left.plot(steps, mus, "o-", ms=4, color=COLOURS[0], label=r"certified $\mu_t$ of this chain")
    left.axhline(_MU, color="0.4", ls="--", label="an exact posterior sample")
    left.set(xscale="log", xlabel="steps t", ylabel=r"privacy cost $\mu$", ylim=(0, 1.12 * _MU))
    left.legend(frameon=False, loc="lower right")
    for values, colour, label in (
        (errors, COLOURS[0], "this chain"),
        (tuned, COLOURS[1], r"a chain that spends all of $\mu$ by step t"),
    ):
        mean, sd = np.array([e.mean() for e in values]), np.array([e.std() for e in values])
        right.plot(steps, mean, "o-", ms=4, color=colour, label=label)
        right.fill_between(steps, mean - sd, mean + sd, color=colour, alpha=0.15, lw=0)
    right.set(xscale="log", xlabel="steps t", ylabel="test error (Abalone)", ylim=(0.2, 0.45))
    right.legend(frameon=False)
    return drawing


def _findings(steps: Floats, mus: list[float], errors: list[Floats]) -> tuple[Finding, ...]:
    most = max(mus)
    seen = f"largest μ_t = {most:.6f}, exact μ = {_MU}"
    never = Finding("no chain costs more than an exact sample", bool(most <= _MU), seen)
    last = errors[-1].mean()
    early = next(int(t) for t, e in zip(steps, errors, strict=True) if e.mean() <= last + 0.01)
    at = mus[list(steps).index(early)]
    flat = Finding(
        "the error is flat before the privacy cost is",
        bool(at < 0.99 * mus[-1]),
        f"within 0.01 of the end at t = {early}, μ_t = {at:.3f}",
    )
    return (never, flat)
