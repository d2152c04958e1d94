"""The number of Langevin steps a convergence bound demands before it promises privacy, beside ours, which demands none.

Theorem 21 of Minami et al. (after Dalalyan) makes the chain γ-close to the posterior in total variation, and
Proposition 12 then adds (e^ε + 1)γ to δ. Logistic regression with rows of norm 1 and β = 1e-3 on the three data sets.
Our certificate holds after every step; the dashed line is the number of steps after which each chain has forgotten all
but 5 % of its start, which concerns accuracy alone.
"""

from __future__ import annotations

import numpy as np

from papers.registry import Finding, Outcome, Setting, experiment
from sottovoce.inference.figures import COLOURS, figure, write_csv
from sottovoce.inference.regression.certificate import Chain, mixing_steps
from sottovoce.inference.regression.convergence import demanded_steps

__all__ = ["demanded_steps"]

DATA = {"abalone": (2784, 9), "mnist": (7988, 784), "adult": (32561, 104)}
BETA = 1e-3
FLOPS = 1e15
"""A generous machine: a thousand million million operations a second."""

_FOREVER = 2**53
"""By then μ has long stopped moving in double precision."""


@experiment(
    "langevin-steps",
    "Steps a convergence bound demands, and a certificate that demands none",
    source="Minami et al. 2016, Theorem 21, and ours",
)
def run(setting: Setting) -> Outcome:
    """Draw the demanded number of steps against γ."""
    gammas = np.geomspace(1e-8, 0.4, 9 if setting.quick else 60)
    drawing, axis = figure(width=5.8, height=3.8)
    rows, demanded, ours, mus = [], {}, {}, {}
    for colour, (name, (n, d)) in zip(COLOURS, DATA.items(), strict=False):
        m = BETA * n
        M = m + n / 4
        steps = [demanded_steps(gamma, d, m, M) for gamma in gammas.tolist()]
        demanded[name], ours[name] = demanded_steps(1e-6, d, m, M), mixing_steps(m, 1 / M)
        mus[name] = [Chain(m, M, 2.0, step=1 / M, n_steps=min(t, _FOREVER)).mu for t in (1, ours[name], demanded[name])]
        axis.plot(gammas, steps, color=colour, label=f"{name}, Theorem 21")
        rows += [(name, f"{g:.4g}", f"{t:.6g}", ours[name]) for g, t in zip(gammas, steps, strict=True)]
    axis.set(xscale="log", yscale="log", xlabel="γ, distance from the posterior", ylabel="steps", ylim=(100, None))
    axis.axhline(max(ours.values()), color="#222222", ls="--", lw=1)
    axis.text(
        gammas[0], 1.6 * max(ours.values()), "the certificate: any number; here, all but 5 % forgotten", fontsize=8
    )
    axis.legend(frameon=False)
    header = ("data", "gamma", "steps by Theorem 21", "steps of our chain")
    table = write_csv(setting.output / "langevin-steps.csv", header, rows)
    files = setting.save(drawing, "langevin-steps")
    setting.advance(1.0)
    least = min(demanded, key=lambda name: demanded[name])
    n, d = DATA[least]
    years = demanded[least] * 4 * n * d / FLOPS / 3.15e7
    largest = max(mu[1] / mu[2] for mu in mus.values())
    findings = (
        Finding(
            "ours: at γ = 1e-6, which adds about 2e-6 to δ, Theorem 21 demands a number of steps no machine can take",
            years > 100,
            f"{demanded[least]:.1e} steps on {least}: {years:.0e} years at 10¹⁵ operations a second",
        ),
        Finding(
            "ours: our chain is certified after one step and after any other number, and later never costs less",
            all(mu[0] < mu[1] <= mu[2] for mu in mus.values()),
            ", ".join(f"{name} μ = {mu[0]:.3f} after 1, {mu[1]:.3f} after {ours[name]}" for name, mu in mus.items()),
        ),
        Finding(
            "ours: by then it has spent nearly all of what an exact sample costs",
            largest > 0.9,
            f"{100 * largest:.0f} % of its μ after at most {max(ours.values())} steps",
        ),
    )
    return Outcome((*files, table), findings)
