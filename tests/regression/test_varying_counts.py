"""Counts that vary more than a Poisson law's keep their slopes."""

import numpy as np

import sottovoce as sv
from sottovoce.regression.adaptive_looks import _least_cap


def test_slopes_of_counts_with_rates_that_vary_are_held() -> None:
    facts = sv.Facts(age=sv.Number(0, 110), falls=sv.Count(10))
    formula = sv.regression.Formula("falls ~ age", facts, family="poisson")
    n, held, found = 20_000, 0, []
    made = sv.regression.AdaptiveLooks.calibrate(formula, n, sv.ApproxDP(1, 1e-6))
    for seed in range(12):
        rng = np.random.default_rng(seed)
        age = rng.gamma(8, 7, n).clip(0, 110)
        falls = np.minimum(rng.poisson(np.exp(-1.5 + 0.015 * age) * rng.exponential(1.0, n)), 10)
        value = made.release({"age": age, "falls": falls}).value
        low, high = value.interval(0.95)[1]
        held += bool(low <= 0.015 <= high)
        found.append(value.mean[1])
    assert held >= 9  # of slopes cut at two, one in twenty is held
    assert abs(np.mean(found) - 0.015) < 0.0008


def test_the_least_cut_leaves_a_trace_of_a_geometric_law() -> None:
    means, records, k = np.array([0.3, 2.0]), np.array([3.0, 1.0]), np.arange(5000)
    cap = _least_cap(means, records, 20_000)
    lost = [
        sum(r * (1 / (1 + m) * (m / (1 + m)) ** k) @ np.maximum(k - c, 0) for m, r in zip(means, records, strict=True))
        for c in (cap, cap - 1)
    ]
    assert lost[0] <= 0.005 * (means @ records) < lost[1]
    assert _least_cap(means, records, 2_000_000) > cap
    assert _least_cap(means, records, None) == cap
