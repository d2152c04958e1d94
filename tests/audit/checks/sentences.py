"""What is said of a promise, held to Gaussian noise, of which all chances have closed forms."""

from __future__ import annotations

import math
import re

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from sottovoce.audit.checks.result import check, verdict
from sottovoce.privacy.promises import ApproxDP
from sottovoce.service.answers import card

__all__ = ["ADDED", "EXCEEDING", "least_noise", "sentences", "true_of"]

# "exceptions with a chance of at most δ": a bound on how often the privacy loss exceeds ε.
EXCEEDING = re.compile(
    r"(?P<factor>[\d.,e+]+) times (as likely|likelier).*(but for|except)\D* (a )?chance of( at most)?"
    r" 1 in (?P<rare>[\d,]+)"
)
# "at most e^ε times what it would be, plus δ": a bound on the chance of every event.
ADDED = re.compile(r"for every set of .*at most (?P<factor>[\d.,e+]+) times .*, plus 1 in (?P<rare>[\d,]+)")


def least_noise(epsilon: float, delta: float) -> float:
    """Return μ of the least Gaussian noise that keeps (ε, δ)."""

    def excess(mu: float) -> float:
        return float(norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) - delta)

    return float(brentq(excess, 1e-3, 50.0, xtol=1e-15, rtol=1e-14))


def true_of(sentence: str, mu: float) -> bool:
    """Say whether a sentence is true of N(0, 1) beside N(μ, 1); one of no known form is not."""
    for form in (EXCEEDING, ADDED):
        said = form.search(sentence)
        if said is None:
            continue
        factor, rare = float(said["factor"].replace(",", "")), 1 / float(said["rare"].replace(",", ""))
        if form is EXCEEDING:
            return bool(norm.cdf(mu / 2 - math.log(factor) / mu) <= rare)  # the loss is N(μ²/2, μ²)
        ends = np.linspace(-40, 40, 20_001)
        return bool(np.all(norm.cdf(ends + mu) <= factor * norm.cdf(ends) + rare))  # half-lines are the worst sets
    return False


@check("what a card says of its budget is true of Gaussian noise")
def sentences() -> tuple[bool, str]:
    """The least noise that keeps each promise, against the sentence that the card says of it."""
    problems, tried = [], 0
    for epsilon in (0.1, 1.0, 3.0):
        for delta in (1e-9, 1e-6, 1e-3):
            promise, mu = ApproxDP(epsilon, delta), least_noise(epsilon, delta)
            tried += 1
            if not true_of(card.in_words(promise), mu):
                more = float(norm.cdf(mu / 2 - epsilon / mu))
                problems.append(f"{promise}: the loss exceeds ε with a chance of {more:.3g}: {card.in_words(promise)}")
    return verdict(problems, f"{tried} promises, each as it is said")
