"""Noise saved by asking for a risk: the noise that keeps it, beside that of the (ε, δ) which is known to imply it."""

from __future__ import annotations

import math
from collections.abc import Callable

from benchmarks.timing import show
from sottovoce.mechanisms import DiffusedPosterior
from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.conjugate import BetaBernoulli
from sottovoce.privacy import GaussianProfile, LaplaceProfile, Profile, compose
from sottovoce.privacy.promises import ApproxDP, MaxAdvantage, MaxSuccess, Promise

DELTA = 1e-6
RISKS: dict[str, Promise] = {
    "1 in 1,000 becomes at most 5": MaxSuccess(0.005, 0.001),
    "10 in 1,000 become at most 20": MaxSuccess(0.02, 0.01),
    "10 in 1,000 become at most 50": MaxSuccess(0.05, 0.01),
    "50 in 100 become at most 60": MaxSuccess(0.6, 0.5),
    "advantage at most 0.1": MaxAdvantage(0.1),
    "advantage at most 0.3": MaxAdvantage(0.3),
}
NOISES: dict[str, Callable[[float], Profile]] = {
    "Gaussian noise": GaussianProfile,
    "Laplace noise": lambda inverse: LaplaceProfile(1 / inverse),
    "ten counts, Laplace noise": lambda inverse: compose([LaplaceProfile(1 / inverse)], [10]),
}
"""What one record, moved by 1, shows beside noise of scale 1/inverse."""


def implied(risk: Promise) -> ApproxDP:
    """Return the weakest (ε, δ) from which the risk follows, for the usual δ."""
    match risk:
        case MaxSuccess(most, known):
            one = math.log((most - DELTA) / known)
            other = math.log((1 - DELTA - known) / (1 - most))
            return ApproxDP(max(one, other), DELTA)
        case MaxAdvantage(most):
            return ApproxDP(math.log((1 + most - 2 * DELTA) / (1 - most)), DELTA)
    raise TypeError(risk)


def scale(profile: Callable[[float], Profile], target: Promise) -> float:
    """Return the least scale of noise that keeps the promise."""
    return 1 / largest_keeping(profile, target, high=1e3, low=1e-6, name="1/scale")


def main(quick: bool = False) -> None:
    """Print the table."""
    rows = []
    for name, risk in list(RISKS.items())[:: 3 if quick else 1]:
        detour = implied(risk)
        row = [name, f"{detour.epsilon:.2f}"]
        for profile in NOISES.values():
            mine, theirs = scale(profile, risk), scale(profile, detour)
            row.append(f"{mine:.3g} / {theirs:.3g} ({1 - mine / theirs:.0%})")
        weights = [
            DiffusedPosterior.calibrate(BetaBernoulli(2, 2), 1000, target).data_weight for target in (risk, detour)
        ]
        row.append(f"{weights[0]:.3g} / {weights[1]:.3g}")
        rows.append(row)
    show(
        "Noise for a risk, and for the (ε, 1e-6) that implies it",
        ["risk", "ε", *NOISES, "posterior sample: weight of the data"],
        rows,
        "Scales of the noise on something that one record moves by 1; in brackets what is saved. Of a posterior sample "
        "the weight that the data keep, of 1,000 records: more is better.",
    )
