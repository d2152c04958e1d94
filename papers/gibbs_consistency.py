"""A Gibbs posterior at β = 0.012 as the records grow: consistency and asymptotic variance, Example 17 simulated.

Bernoulli records with p = 0.3, θ = logit p, prior N(0, 1): G(θ|D) ∝ π(θ)·p(D|θ)^β on a grid fine enough to be exact.
Theorem 16 says the posterior concentrates at rate 1/√n and approaches a normal of variance 1/(nβ·p(1−p)). As printed
the normal is centred at the truth θ₀; the usual theorem centres it at the maximum likelihood estimate, and both
distances are measured.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from papers.registry import Finding, Outcome, Setting, experiment
from sottovoce.inference.figures import COLOURS, figure, write_csv
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import seeded_rng

__all__ = ["Measured", "gibbs_moments"]

BETA, P = 0.012, 0.3
THETA = math.log(P / (1 - P))
INFORMATION = P * (1 - P)
Measured = dict[str, float]


def gibbs_moments(ones: Floats, n: int, points: int = 801) -> Measured:
    """Return the error of one draw, the spread, and two distances from normality, over data sets with these ones.

    Means over the data sets of: |draw − θ₀| (an expectation), n·Var, and the total variation from
    N(θ₀, 1/nβI) and from N(θ̂, 1/nβI).
    """
    deviation = 1 / math.sqrt(n * BETA * INFORMATION)
    estimate = special.logit((ones + 0.5) / (n + 1))
    # The prior's pull is of the order of one posterior deviation at small nβ.
    reach = np.linspace(-12, 12, points) * min(deviation, 1.0)
    theta = np.where(n * BETA < 20, THETA, estimate)[:, None] + reach
    log = BETA * (ones[:, None] * theta - n * np.logaddexp(0, theta)) - theta**2 / 2
    weights = np.exp(log - log.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    mean = (weights * theta).sum(axis=1, keepdims=True)
    step = reach[1] - reach[0]

    def variation(centre: Floats | float) -> float:
        normal = np.exp(-(((theta - centre) / deviation) ** 2) / 2) * step / (deviation * math.sqrt(2 * math.pi))
        return float(np.abs(weights - normal).sum(axis=1).mean() / 2)

    return {
        "error": float((weights * np.abs(theta - THETA)).sum(axis=1).mean()),
        "scaled variance": float((weights * (theta - mean) ** 2).sum(axis=1).mean()) * n,
        "distance from N(θ₀, ·)": variation(THETA),
        "distance from N(θ̂, ·)": variation(estimate[:, None]),
    }


@experiment(
    "gibbs-consistency",
    "A Gibbs posterior as the records grow",
    source="Minami et al. 2016, Theorem 16 and Example 17",
)
def run(setting: Setting) -> Outcome:
    """Draw error, variance and distance from normality against n."""
    repeats = 200 if setting.quick else 2000
    sizes = np.geomspace(1e3, 1e9, 7 if setting.quick else 25).round().astype(int)
    rng, measured = seeded_rng(setting.seed), []
    for k, n in enumerate(sizes.tolist()):
        measured.append(gibbs_moments(rng.binomial(n, P, repeats).astype(np.float64), n))
        setting.advance((k + 1) / (sizes.size + 1))
    lines = {name: np.array([m[name] for m in measured]) for name in measured[0]}
    limit = 1 / (BETA * INFORMATION)
    drawing, (left, middle, right) = figure(3, width=3.5, height=3.1)
    left.plot(sizes, lines["error"], "o-", ms=3, color=COLOURS[0], label="one draw")
    rate = math.sqrt(2 / math.pi) * np.sqrt((1 + BETA) * limit / sizes)
    left.plot(sizes, rate, ":", color="#777777", label="$\\sqrt{2(1+\\beta)/(\\pi n\\beta I)}$")
    left.set(yscale="log", ylabel="mean |θ − θ₀|")
    middle.plot(sizes, lines["scaled variance"], "o-", ms=3, color=COLOURS[0], label="n · variance")
    middle.axhline(limit, color="#777777", ls=":", label="1/(βp(1−p))")
    middle.set(ylabel="n · variance", ylim=(0, 1.2 * limit))
    for colour, name in zip((COLOURS[1], COLOURS[0]), list(lines)[2:], strict=True):
        right.plot(sizes, lines[name], "o-", ms=3, color=colour, label=name)
    right.set(yscale="log", ylabel="total variation")
    for axis in (left, middle, right):
        axis.set(xscale="log", xlabel="records n")
        axis.legend(frameon=False, fontsize=8)
    rows = zip(sizes, *([f"{v:.6g}" for v in line] for line in lines.values()), strict=True)
    table = write_csv(setting.output / "gibbs-consistency.csv", ("n", *lines), rows)
    files = setting.save(drawing, "gibbs-consistency")
    setting.advance(1.0)
    return Outcome((*files, table), _findings(sizes, lines, limit))


def _findings(sizes: Floats, lines: dict[str, Floats], limit: float) -> tuple[Finding, ...]:
    error, variance, truth, estimate = lines.values()
    slope = np.polyfit(np.log(sizes[-4:]), np.log(error[-4:]), 1)[0]
    return (
        Finding(
            "the posterior is consistent, at rate 1/√n",
            bool(np.all(np.diff(error) < 0) and abs(slope + 0.5) < 0.05),
            f"mean |θ − θ₀| falls from {error[0]:.2f} to {error[-1]:.1e}, with slope {slope:.3f} on log scales",
        ),
        Finding(
            "the asymptotic variance is 1/(βp(1−p)), at least 83 times the Bayesian one",
            bool(abs(variance[-1] / limit - 1) < 0.02),
            f"n·Var = {variance[-1]:.1f} at the end; 1/(βp(1−p)) = {limit:.1f}, {1 / BETA:.1f} times 1/p(1−p)",
        ),
        Finding(
            "the posterior approaches a normal around the maximum likelihood estimate",
            bool(estimate[-1] < 1e-3),
            f"total variation {estimate[0]:.2f} at n = {sizes[0]}, {estimate[-1]:.1e} at the end",
        ),
        Finding(
            "the posterior approaches a normal around the truth (as printed)",
            bool(truth[-1] < 1e-3),
            f"total variation stays at {truth[-1]:.3f}: the centre wanders by 1/√(nI), as far as the normal is wide "
            "times √β",
        ),
    )
