"""How well one released sample θ predicts 100 held-out records, −log p(X_H|θ), over 10,000 runs.

X and X_H are 100 Bernoulli(ρ) records each, drawn anew in every run. The first figure has the prior Beta(6, 12) and
ρ = ½ at λ = 2 and 15. The second has λ = 15 and a prior that fits (ρ = ⅓), misleads (½) or points the other way (⅔),
and the uniform prior with ρ = 0.2. Mean and standard deviation over the runs; the Gaussian baseline has the paper's
noise and, dashed, the half as large variance that is enough.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from papers.beta_posteriors import GAUSSIAN, GAUSSIAN_RIGHT, ONE, THREE, TWO, Released
from papers.registry import Finding, Outcome, Setting, experiment
from sottovoce.inference.figures import COLOURS, figure, write_csv
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import seeded_rng

__all__ = ["Panel", "losses"]

N = 100
NAMES = (ONE, TWO, THREE, GAUSSIAN, GAUSSIAN_RIGHT)


@dataclass(frozen=True)
class Panel:
    """One panel: the order, the prior, and the truth."""

    order: float
    rho: float
    alpha: float = 6.0
    beta: float = 12.0

    @property
    def title(self) -> str:
        """Its heading."""
        truth = {1 / 3: "⅓", 2 / 3: "⅔", 0.5: "½"}.get(self.rho, f"{self.rho:g}")
        prior = "" if (self.alpha, self.beta) == (6.0, 12.0) else ", uniform prior"
        return f"λ = {self.order:g}, ρ = {truth}{prior}"


ORDERS = (Panel(2.0, 0.5), Panel(15.0, 0.5))
PRIORS = (Panel(15.0, 1 / 3), Panel(15.0, 0.5), Panel(15.0, 2 / 3), Panel(15.0, 0.2, 1.0, 1.0))
Losses = dict[str, tuple[Floats, Floats]]


def losses(panel: Panel, epsilons: Floats, runs: int, seed: int) -> Losses:
    """Return mean and deviation of −log p(X_H|θ) at every ε, by mechanism."""
    rng = seeded_rng(seed)
    ones, held_out = (rng.binomial(N, panel.rho, (2, runs))).astype(np.float64)
    found: dict[str, list[Floats]] = {name: [] for name in NAMES}
    for epsilon in epsilons.tolist():
        made = Released.at(panel.alpha, panel.beta, N, panel.order, epsilon)
        for name, kept in found.items():
            theta = rng.beta(*made.parameters(name, ones, rng))
            theta = np.clip(theta, 1e-300, 1 - 2.0**-53)  # a draw that rounds to 0 or 1 would predict with certainty
            kept.append(-held_out * np.log(theta) - (N - held_out) * np.log1p(-theta))
    return {name: (np.mean(kept, axis=1), np.std(kept, axis=1)) for name, kept in found.items()}


@experiment(
    "held-out-likelihood",
    "Prediction of held-out records against ε",
    source="Geumlek et al. 2017, Figure 2 (c, d); Geumlek 2020, Figures 5.5 and 5.6",
)
def run(setting: Setting) -> Outcome:
    """Draw the loss at λ = 2 and λ = 15."""
    epsilons, found, files = _measure("held-out-likelihood", ORDERS, setting)
    two, fifteen = found.values()
    free = epsilons >= 0.1912902268
    closest = max(float(np.abs(two[name][0] - two[ONE][0])[free].max()) for name in (TWO, THREE))
    point = N * -(math.log(1 / 3) + math.log(2 / 3)) / 2
    flat = epsilons >= 10  # where only the Gaussian mechanism still gains, and hardly
    gap = {name: float((fifteen[name][0] - fifteen[ONE][0])[flat].mean()) for name in (TWO, THREE, GAUSSIAN)}
    findings = (
        Finding(
            "at λ = 2 Algorithms 2 and 3 are as good as the true posterior once direct sampling is possible",
            closest < 0.3,
            f"means within {closest:.2f} of its {two[ONE][0].mean():.2f} for ε ≥ 0.19",
        ),
        Finding(
            "at λ = 15 they stay short of the true posterior, while the Gaussian mechanism reaches it",
            min(gap[TWO], gap[THREE]) > 0.12 > abs(gap[GAUSSIAN]),
            ", ".join(f"{name.split(' (')[0].split(',')[0]} {value:+.2f}" for name, value in gap.items())
            + " for ε ≥ 10",
        ),
        Finding(
            "Algorithm 3 degrades only to the likelihood under the mode of the scaled prior, ⅓",
            abs(fifteen[THREE][0][0] - point) < 0.5,
            f"{fifteen[THREE][0][0]:.2f} at ε = {epsilons[0]:g}; θ = ⅓ has {point:.2f}",
        ),
        Finding(
            "which is more favourable to it than the divergence was: it beats Algorithm 2 and the Gaussian as ε → 0",
            bool(fifteen[THREE][0][0] < fifteen[TWO][0][0] < fifteen[GAUSSIAN][0][0]),
            ", ".join(f"{fifteen[name][0][0]:.1f}" for name in (THREE, TWO, GAUSSIAN)),
        ),
    )
    return Outcome(files, findings)


@experiment(
    "held-out-priors",
    "Prediction when the prior fits, misleads, or knows nothing",
    source="Geumlek et al. 2017, appendix Figures 1 and 2; Geumlek 2020, Figures 5.7 and 5.8",
)
def run_priors(setting: Setting) -> Outcome:
    """Draw the loss for four pairs of prior and truth."""
    _, found, files = _measure("held-out-priors", PRIORS, setting)
    excess = {
        panel: {name: float(lines[name][0][0] - lines[ONE][0].mean()) for name in NAMES}
        for panel, lines in zip(PRIORS, found.values(), strict=True)
    }
    fits, uniform = excess[PRIORS[0]], excess[PRIORS[3]]
    direct = Released.at(1.0, 1.0, N, 1.99, 1e6).data_weight, Released.at(1.0, 1.0, N, 2.01, 1e6).data_weight
    findings = (
        Finding(
            "where the prior fits (ρ = ⅓) even the limit of high privacy has high utility",
            fits[THREE] < 0.5 and fits[TWO] < 2.0,
            f"loss above the true posterior's as ε → 0: Algorithm 2 {fits[TWO]:+.2f}, Algorithm 3 {fits[THREE]:+.2f}",
        ),
        Finding(
            "the less the prior fits, the more the proposed methods lose",
            all(excess[PRIORS[k]][name] < excess[PRIORS[k + 1]][name] for k in (0, 1) for name in (TWO, THREE)),
            "; ".join(f"{panel.title}: {excess[panel][TWO]:+.1f}, {excess[panel][THREE]:+.1f}" for panel in PRIORS[:3]),
        ),
        Finding(
            "in all cases they act conservatively: the Gaussian mechanism loses more at high privacy",
            all(excess[panel][GAUSSIAN] > max(excess[panel][TWO], excess[panel][THREE]) for panel in PRIORS[:3]),
            f"the Gaussian mechanism loses {min(excess[panel][GAUSSIAN] for panel in PRIORS[:3]):.0f} or more",
        ),
        Finding(
            "the uniform prior has λ* = 2: privacy is difficult",
            direct[0] == 1.0 > direct[1],
            f"largest r at λ = 1.99: {direct[0]:g}; at λ = 2.01: {direct[1]:.4f}",
        ),
        Finding(
            "scaled up, the uniform prior becomes concentrated around 0.2 (as printed)",
            abs(uniform[THREE] - _excess_at(0.2)) < 0.5,
            f"its loss as ε → 0 is {uniform[THREE]:+.1f}, that of θ = ½ ({_excess_at(0.5):+.1f}), not of θ = 0.2 "
            f"({_excess_at(0.2):+.1f}): Beta(1/m, 1/m) concentrates around ½, which is why it predicts badly",
        ),
    )
    return Outcome(files, findings)


def _excess_at(theta: float, rho: float = 0.2) -> float:
    """Return the expected loss of θ for Bernoulli(ρ) records above that of a sample of the posterior, about one nat."""
    return N * (rho * math.log(rho / theta) + (1 - rho) * math.log((1 - rho) / (1 - theta))) - 1.0


def _measure(
    name: str, panels: tuple[Panel, ...], setting: Setting
) -> tuple[Floats, dict[str, Losses], tuple[Path, ...]]:
    epsilons = np.geomspace(1e-4, 1e2, 13 if setting.quick else 25)
    runs = 1000 if setting.quick else 10_000
    found = {}
    for k, panel in enumerate(panels):
        found[panel.title] = losses(panel, epsilons, runs, setting.seed + k)
        setting.advance((k + 1) / (len(panels) + 1))
    rows = [
        (title, f"{epsilon:.6g}", mechanism, f"{mean:.4f}", f"{sd:.4f}")
        for title, lines in found.items()
        for mechanism, (means, sds) in lines.items()
        for epsilon, mean, sd in zip(epsilons, means, sds, strict=True)
    ]
    table = write_csv(setting.output / f"{name}.csv", ("panel", "epsilon", "mechanism", "mean", "sd"), rows)
    files = setting.save(_draw(epsilons, found), name)
    setting.advance(1.0)
    return epsilons, found, (*files, table)


def _draw(epsilons: Floats, found: dict[str, Losses]) -> Any:
    rows = len(found) // 2
    drawing, grid = figure(2, rows, height=3.0)
    colours = dict(zip(NAMES, ("#222222", COLOURS[0], COLOURS[1], COLOURS[5], COLOURS[5]), strict=True))
    for axis, (title, lines) in zip(np.ravel(grid), found.items(), strict=True):
        for name, (mean, sd) in lines.items():
            dash = {ONE: ":", GAUSSIAN_RIGHT: "--"}.get(name, "-")
            axis.plot(epsilons, mean, color=colours[name], ls=dash, label=name)
            if name not in (ONE, GAUSSIAN_RIGHT):
                axis.fill_between(epsilons, mean - sd, mean + sd, color=colours[name], alpha=0.12, lw=0)
        best = lines[ONE][0].mean()
        axis.set(xscale="log", ylim=(best - 15, best + 60), xlabel="ε", ylabel="$-\\log\\,p(X_H|\\theta)$")
        axis.set_title(title)
    drawing.legend(*np.ravel(grid)[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return drawing
