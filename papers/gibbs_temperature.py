"""How much of the data a Gibbs posterior may use at (ε, δ) = (0.1, 0.001): the paper's numbers, and the exact ones.

Gaussian mean of records with |x| ≤ 1 and a flat prior: the posterior is Gaussian, its rules are (B.8) of the paper, the
textbook Gaussian mechanism (B.7), and the exact curve δ(ε) of a Gaussian. Bernoulli with a logit-normal prior
(Example 17): the rule (C.1) with Lipschitz constant 1, and what a Gaussian curve allows; replacing one record moves
the gradient by 1, not by twice the Lipschitz constant.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from papers.registry import Finding, Outcome, Setting, experiment
from sottovoce.inference.figures import COLOURS, figure, write_csv
from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.losses import Logistic
from sottovoce.inference.regression.posterior import DiffusedRegression
from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.promises import ApproxDP

__all__ = ["allowed_mu", "bernoulli_rules", "gaussian_rules", "routed_beta"]

EPSILON, DELTA = 0.1, 1e-3
PAPER, TEXTBOOK, EXACT = "(B.8), the paper", "(B.7), the Gaussian mechanism", "exact"


def allowed_mu(epsilon: float = EPSILON, delta: float = DELTA) -> float:
    """Return the largest μ whose Gaussian curve keeps (ε, δ)."""
    return largest_keeping(GaussianProfile, ApproxDP(epsilon, delta), high=10.0, name="mu")


def gaussian_rules(epsilon: float = EPSILON, delta: float = DELTA) -> dict[str, float]:
    """Return the largest β/n of each rule, for records of norm at most 1 and a flat prior."""
    odds = math.log(1 / delta)
    eta = epsilon + 2 * odds - 2 * math.sqrt(odds * (epsilon + odds))
    # The mean moves by 2β/nβ under a deviation 1/√(nβ): μ = 2√(β/n).
    return {
        PAPER: eta / 2,
        TEXTBOOK: epsilon**2 / (8 * math.log(2 / delta)),
        EXACT: allowed_mu(epsilon, delta) ** 2 / 4,
    }


def bernoulli_rules(epsilon: float = EPSILON, delta: float = DELTA) -> dict[str, float]:
    """Return the largest β of each rule for Example 17 with prior variance 1."""
    mu = allowed_mu(epsilon, delta)
    return {
        "(C.1), the paper": epsilon / 2 / math.sqrt(1 + 2 * math.log(1 / delta)),
        "Gaussian curve, 2βL": mu / 2,
        "Gaussian curve, the gradient's own step": mu,
    }


def routed_beta(n: int = 1000) -> float:
    """Return the β that `DiffusedRegression` takes for Example 17: logistic regression on an intercept, precision 1."""
    design = Design(Logistic(), dimension=1, data_norm=1.0)
    return DiffusedRegression.calibrate(design, n, ApproxDP(EPSILON, DELTA), prior_precision=1.0).data_weight


@experiment(
    "gibbs-temperature",
    "How much data a private Gibbs posterior may use",
    source="Minami et al. 2016, supplement B and Example 17",
)
def run(setting: Setting) -> Outcome:
    """Draw the allowed β against n, and against ε."""
    mean, coin = gaussian_rules(), bernoulli_rules()
    sizes = np.geomspace(10, 1e5, 60)
    epsilons = np.geomspace(0.01, 3, 6 if setting.quick else 60)
    by_epsilon = [bernoulli_rules(e) for e in epsilons.tolist()]
    rows: list[tuple[Any, ...]] = [("Gaussian mean, β/n", name, EPSILON, f"{v:.6g}") for name, v in mean.items()]
    rows += [
        ("Bernoulli, β", name, f"{e:.5g}", f"{value:.6g}")
        for e, rules in zip(epsilons, by_epsilon, strict=True)
        for name, value in rules.items()
    ]
    table = write_csv(setting.output / "gibbs-temperature.csv", ("model", "rule", "epsilon", "value"), rows)
    drawing, (left, right) = figure(2)
    for colour, (name, slope) in zip((COLOURS[1], COLOURS[5], COLOURS[0]), mean.items(), strict=True):
        left.plot(sizes, np.minimum(slope * sizes, 1.0), color=colour, label=name)
    left.axhline(EPSILON / 8, color="#777777", ls=":", label="ε/8, exponential mechanism")
    left.set(xscale="log", yscale="log", xlabel="records n", ylabel="β", title="Gaussian mean")
    left.legend(frameon=False, fontsize=8)
    for colour, name in zip((COLOURS[1], COLOURS[5], COLOURS[0]), coin, strict=True):
        right.plot(epsilons, [rules[name] for rules in by_epsilon], color=colour, label=name)
    right.plot([EPSILON], [0.012], "o", color="#222222", ms=4, label="0.012, Example 17")
    right.set(xscale="log", yscale="log", xlabel="ε (δ = 0.001)", ylabel="β", title="Bernoulli, logit-normal prior")
    right.legend(frameon=False, fontsize=8)
    files = setting.save(drawing, "gibbs-temperature")
    setting.advance(1.0)
    return Outcome((*files, table), _findings(mean, coin))


def _findings(mean: dict[str, float], coin: dict[str, float]) -> tuple[Finding, ...]:
    slope, rule = mean[PAPER], coin["(C.1), the paper"]
    crossing, own = EPSILON / 8 / slope, coin["Gaussian curve, the gradient's own step"]
    return (
        Finding(
            "the Gaussian posterior is private for β < 1.79e-4·n",
            1.79e-4 <= slope < 1.8e-4,
            f"{slope:.4e}·n by (B.8)",
        ),
        Finding(
            "for n > 5600 the posterior itself (β = 1) is private",
            1 / slope < 5600,
            f"from n = {math.ceil(1 / slope)} on",
        ),
        Finding(
            "this beats the exponential mechanism's ε/8 if n ≥ 15 (as printed)",
            crossing <= 15,
            f"1.79e-4·n exceeds {EPSILON / 8:g} from n = {math.ceil(crossing)} on",
        ),
        Finding(
            "the Gaussian mechanism's bound (B.7) is 1.26e-4·n (as printed)",
            abs(mean[TEXTBOOK] / 1.26e-4 - 1) < 0.01,
            f"ε²/(8·log(2/δ)) is {mean[TEXTBOOK]:.3e}",
        ),
        Finding("Example 17: β = 0.012 is private", rule >= 0.012, f"(C.1) allows {rule:.5f}"),
        Finding(
            "its variance is at least 83 times the Bayesian one",
            83 <= 1 / 0.012 < 84,
            f"1/0.012 = {1 / 0.012:.1f}",
        ),
        Finding(
            "ours: the exact curve allows more in both",
            mean[EXACT] > slope and own > rule,
            f"β up to {mean[EXACT]:.3e}·n instead of {slope:.2e}·n, n = {math.ceil(1 / mean[EXACT])} is enough; "
            f"in Example 17 β = {own:.4f} instead of {rule:.4f} if it is known that only y can change; by the "
            f"library's own route, a certified chain for n = 1000 rows of norm 1 whose x may change too, β = "
            f"{routed_beta():.4f}",
        ),
    )
