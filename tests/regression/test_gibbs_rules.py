"""Gibbs posteriors of hinge and other losses on a line, by quadrature; PAC-Bayes bounds by simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from sottovoce.inference.regression.gibbs_rules import (
    gibbs_profile,
    hinge_hoeffding,
    joint_temperature,
    largest_temperature,
    minami_temperature,
    oracle_bound,
    risk_bound,
)
from sottovoce.mechanisms import ExponentialChoice, Outcomes
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import ApproxDP, GaussianDP
from sottovoce.records.facts.columns import Number
from sottovoce.records.readings import FunctionSum

THETA = np.linspace(-30, 30, 60_001)


def _hinge(theta, x):
    return np.maximum(0.0, 1 - x * theta)


def _logit(theta, x):
    return np.log1p(np.exp(-np.abs(theta))) + np.maximum(theta, 0) - x * theta


def _square(theta, x):
    return np.where(np.abs(theta - x) < 40, (theta - x) ** 2 / 2, np.inf)


def _law(loss, data, beta, m):
    logs = -m * THETA**2 / 2 - beta * sum(loss(THETA, x) for x in data)
    law = np.exp(logs - logs.max())
    return law / law.sum()


@pytest.mark.parametrize(("loss", "values"), [(_hinge, (-1.0, 0.3, 1.0)), (_logit, (0.0, 1.0))])
@pytest.mark.parametrize(("beta", "m"), [(0.1, 1.0), (1.0, 0.5), (0.7, 4.0)])
def test_an_exact_sample_costs_no_more_even_of_a_loss_with_a_kink(loss, values, beta, m):
    profile = gibbs_profile(beta, 1.0, m)
    worst = np.zeros(4)
    for rest in itertools.combinations_with_replacement(values, 2):
        for x, y in itertools.permutations(values, 2):
            p, q = (_law(loss, (*rest, z), beta, m) for z in (x, y))
            worst = np.maximum(worst, [np.maximum(p - math.exp(e) * q, 0).sum() for e in (0.0, 0.2, 0.5, 1.0)])
    claimed = profile.delta(np.array([0.0, 0.2, 0.5, 1.0]))
    assert np.all(claimed >= worst - 1e-9)


def test_a_strongly_convex_loss_is_exact_for_squares():
    """Theorem 10 for ℓ = (θ−x)²/2 with x in [-r, r]: the posterior is Gaussian, and 2βr/√(m + nβ) its very distance."""
    beta, m, n, r = 0.4, 1.5, 3, 0.8
    p, q = (_law(_square, (0.1, 0.2, x), beta, m) for x in (r, -r))
    mean = [law @ THETA for law in (p, q)]
    spread = math.sqrt(p @ THETA**2 - mean[0] ** 2)
    # The gradient of the difference of two squares is x' − x: a Lipschitz constant r for each.
    assert gibbs_profile(beta, r, m, loss_convexity=1.0, n=n).mu == pytest.approx(
        (mean[0] - mean[1]) / spread, rel=1e-4
    )
    assert gibbs_profile(beta, r, m, loss_convexity=1.0, n=n).mu < gibbs_profile(beta, r, m).mu


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.001), (1.0, 1e-6), (0.01, 0.1)])
def test_minamis_rule_is_implied_and_ours_allows_more(epsilon, delta):
    rule = minami_temperature(epsilon, delta, 2.0, 3.0)
    assert gibbs_profile(rule, 2.0, 3.0).satisfies(ApproxDP(epsilon, delta))
    ours = largest_temperature(ApproxDP(epsilon, delta), 2.0, 3.0)
    assert ours > 1.08 * rule
    assert gibbs_profile(ours, 2.0, 3.0).delta(epsilon) == pytest.approx(delta, rel=1e-6)


def test_example_seventeen():
    """A coin by its logit, prior variance 1: their rule, ours, and ours where only the label can change."""
    promise = ApproxDP(0.1, 0.001)
    assert minami_temperature(0.1, 0.001, 1.0, 1.0) == pytest.approx(0.01299, abs=1e-5)
    assert largest_temperature(promise, 1.0, 1.0) == pytest.approx(0.0287, abs=1e-4)
    # −xθ + log(1 + e^θ) for x = 0 and 1 differ by θ: a slope of 1, not of 2L.
    beta = largest_temperature(promise, 0.5, 1.0)
    assert beta == pytest.approx(0.0575, abs=1e-4)
    p, q = (_law(_logit, (1.0, 0.0, x), beta, 1.0) for x in (0.0, 1.0))
    assert np.maximum(p - math.exp(0.1) * q, 0).sum() <= 0.001


def test_the_gibbs_map_minimises_its_bound():
    """(C.4): no law has a smaller E R_n + KL/b than `ExponentialChoice`, whose exponent is −b·R_n under the base π."""
    rng, data = np.random.default_rng(1), [0.3, -0.5, 1.0]
    theta, window = np.linspace(-3, 3, 61), 2.0
    base = np.exp(-(theta**2) / 2)

    def losses(x):
        return np.minimum(np.maximum(0.0, 1 - x * theta), 4.0)

    scores = FunctionSum(lambda x: list(-losses(x)), (Number(-1, 1),), -4.0, 0.0, theta.size)
    choice = ExponentialChoice(Outcomes(tuple(theta.tolist()), scores, tuple(base.tolist())), 3, window)
    gibbs = choice.probabilities(choice.see(data))
    prior, risk = base / base.sum(), np.mean([losses(x) for x in data], axis=0)
    b = len(data) * window / (2 * 4.0)  # of the mean loss, whose records move it by 4/n at most

    def value(law):
        kept = law > 0
        return law @ risk + (law[kept] @ np.log(law[kept] / prior[kept])) / b

    least = value(gibbs)
    assert least == pytest.approx(-math.log(prior @ np.exp(-b * risk)) / b, abs=1e-6)  # Donsker and Varadhan
    for _ in range(500):
        other = gibbs * np.exp(rng.normal(0, rng.choice([0.01, 0.3, 2.0]), theta.size))
        assert value(other / other.sum()) >= least - 1e-9


def test_hinge_hoeffding_bounds_the_integral_and_is_no_larger_than_it_need_be():
    """(C.5) by quadrature over θ and the two margins of a coin: log E_π E exp(±b(R − R_n)) ≤ f(b, n)."""
    n, precision = 12, 8.0
    theta = np.linspace(-12, 12, 24_001)
    prior = np.exp(-precision * theta**2 / 2)
    prior /= prior.sum()
    f = hinge_hoeffding(1.0, precision)
    for b in (1.0, 6.0, 14.0):
        logs = []
        for chance, sign in itertools.product((0.2, 0.5), (1, -1)):
            losses = [np.maximum(0.0, 1 - side * theta) for side in (1.0, -1.0)]
            risk = chance * losses[0] + (1 - chance) * losses[1]
            each = sum(
                p * np.exp(sign * b / n * (risk - loss)) for p, loss in zip((chance, 1 - chance), losses, strict=True)
            )
            logs.append(math.log(prior @ each**n))
        assert max(logs) <= f(b, n)
        assert max(logs) > 0.2 * f(b, n)
        exact = b**2 / (4 * n) - math.log(1 - b**2 / (4 * precision * n)) / 2  # λ = precision/n
        assert f(b, n) == pytest.approx(exact, rel=1e-12)


def test_the_two_risk_bounds_are_what_is_printed():
    """(C.6) with confidence 1 − α, (C.7) with twice the slack and confidence 1 − 2α."""
    slack = 0.7 + 0.3 + math.log(1 / 0.1)
    assert risk_bound(0.25, 0.3, 8.0, 50, lambda b, n: 0.7, 0.9) == pytest.approx(0.25 + slack / 8, rel=1e-12)
    assert oracle_bound(0.25, 0.3, 8.0, 50, lambda b, n: 0.7, 0.8) == pytest.approx(0.25 + 2 * slack / 8, rel=1e-12)
    counted = []
    risk_bound(0.25, 0.3, 8.0, 50, lambda b, n: counted.append((b, n)) or 0.7)
    oracle_bound(0.25, 0.3, 8.0, 50, lambda b, n: counted.append((b, n)) or 0.7)
    assert counted == [(8.0, 50)] * 2


def test_the_risk_bounds_hold_as_often_as_they_say():
    """Hinge loss on a line, 300 tables of 40 records, the true risk by a million: (C.6) and (C.7) at 90 %."""
    rng, n, precision, beta = np.random.default_rng(2), 40, 2.0, 0.05
    theta = np.linspace(-6, 6, 401)
    prior = np.exp(-precision * theta**2 / 2)
    prior /= prior.sum()
    f, b = hinge_hoeffding(1.0, precision), n * beta

    def draw(size):
        y = np.where(rng.random(size) < 0.5, -1.0, 1.0)
        return np.clip(y * 0.6 + rng.normal(0, 0.4, size), -1, 1) * y  # y·z, all that the loss sees

    def risks(margins):
        return np.maximum(0, 1 - np.multiply.outer(theta, margins)).mean(axis=1)

    true = np.mean([risks(draw(20_000)) for _ in range(5)], axis=0)
    held = 0
    best = prior * np.exp(-b * true)
    best /= best.sum()
    oracle = oracle_bound(best @ true, best @ np.log(best / prior), b, n, f, 0.9)
    for _ in range(300):
        seen = risks(draw(n))
        gibbs = prior * np.exp(-b * seen)
        gibbs /= gibbs.sum()
        kl = gibbs @ np.log(gibbs / prior)
        held += gibbs @ true <= risk_bound(gibbs @ seen, kl, b, n, f, 0.9)
        assert gibbs @ true <= oracle
    assert held / 300 >= 0.9


def test_the_joint_rule_keeps_both():
    f = hinge_hoeffding(1.0, 100 * 0.5)
    beta = joint_temperature(ApproxDP(1.0, 1e-5), 100, 1.0, 100 * 0.5, f)
    assert gibbs_profile(beta, 1.0, 50.0).satisfies(ApproxDP(1.0, 1e-5))
    assert math.isfinite(f(100 * beta, 100))
    loose = joint_temperature(GaussianDP(1e3), 100, 1.0, 50.0, f)
    assert 100 * loose < 2 * 100 * math.sqrt(0.5)  # below b*, however loose the promise
    assert f(2.01 * 100 * math.sqrt(0.5), 100) == math.inf
    # The printed b* = 2√(λn)/r lies far inside of where the logarithm ends.
    assert math.isfinite(f(2 * math.sqrt(0.5 * 100) * 1.5, 100))


@pytest.mark.parametrize("wrong", [(-1.0, 1.0, 1.0), (1.0, math.nan, 1.0), (1.0, 1.0, 0.0), (1.0, 1.0, -1.0)])
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(InvalidValue):
        gibbs_profile(*wrong)
    with pytest.raises(InvalidValue):
        minami_temperature(0.1, 1.5, 1.0, 1.0)
    with pytest.raises(InvalidValue):
        risk_bound(0.1, 0.2, 0.0, 10, hinge_hoeffding(1.0, 1.0))
