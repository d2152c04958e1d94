"""Intervals of cells by noisy counts alone, beside closed forms; and how often those of rare cells hold."""

import numpy as np
import pytest
from scipy import stats

from sottovoce.inference.synthesis.field_fit import FieldFit
from sottovoce.inference.synthesis.linear_evidence import LinearEvidence, non_negative_interval, share_interval
from sottovoce.inference.synthesis.noisy_marginal import NoisyMarginal


def test_draws_of_one_table_are_those_of_the_closed_form():
    counts, n, variance = np.array([900.0, 600.0, 380.0, 120.0]), 2000, 400.0
    fit = FieldFit({"a": 2, "b": 2}, n, (NoisyMarginal.of_table(("a", "b"), counts, variance),))
    draws = LinearEvidence(fit, 3).draws(("a", "b"), np.arange(4), 4)
    wanted = np.sqrt(variance * (1 - 1 / 4) + counts * (1 - counts / n))
    assert np.abs(draws.mean(axis=0) - counts).max() < 4 * wanted.max() / 1000**0.5
    assert np.abs(draws.std(axis=0) / wanted - 1).max() < 0.1


def test_a_sum_of_two_coarse_counts_is_weighed_by_their_noise():
    """A count under a condition, of which another table tells the same with more noise: inverse variances."""
    table = NoisyMarginal.of_table(("a", "b"), [400.0, 200.0, 300.0, 100.0], 900.0)
    coarse = NoisyMarginal(("a", "b"), np.array([0, 1, 1, 1]), np.array([430.0, 570.0]), np.array([100.0, 100.0]))
    sizes, n = {"a": 2, "b": 2}, 1000
    place = np.array([0, 1, 1, 1])
    only = LinearEvidence(FieldFit(sizes, n, (coarse,)), 1).draws(("a", "b"), place, 2)
    assert only.mean(axis=0) == pytest.approx([430, 570], abs=3)
    assert only[:, 0].std() == pytest.approx(np.sqrt(100 / 2 + 1000 * 0.43 * 0.57), rel=0.1)  # both, and n is known
    assert only.sum(axis=1) == pytest.approx(n, abs=1e-3)
    both = LinearEvidence(FieldFit(sizes, n, (table, coarse)), 1).draws(("a", "b"), np.arange(4), 4)
    assert both.mean(axis=0) == pytest.approx([400, 200, 300, 100], abs=6)


def test_what_counts_do_not_tell_is_not_made_up():
    coarse = NoisyMarginal(("a", "b"), np.array([0, 1, 1, 1]), np.array([430.0, 570.0]), np.array([100.0, 100.0]))
    fit = FieldFit({"a": 2, "b": 2}, 1000, (coarse,))
    assert LinearEvidence(fit, 1).draws(("a", "b"), np.arange(4), 4) is None


def test_intervals_of_rare_cells_hold():
    """A sparse table, most of whose cells are hardly above the noise or empty, with a margin released beside it."""
    law = np.array([0.5, 0.3, 0.15, 0.04] + [0.002] * 4 + [0.0005] * 4 + [0.0] * 12)
    n, deviation, rng, hits = 4000, 20.0, np.random.default_rng(8), []
    for seed in range(40):
        counts = rng.multinomial(n, law).reshape(4, 6)
        table = counts + rng.normal(0, deviation, (4, 6))
        margin = counts.sum(axis=1) + rng.normal(0, deviation, 4)
        released = (("a", "b"), table), (("a",), margin)
        marginals = tuple(NoisyMarginal.of_table(clique, seen, deviation**2) for clique, seen in released)
        draws = LinearEvidence(FieldFit({"a": 4, "b": 6}, n, marginals), seed).draws(("a", "b"), np.arange(24), 24)
        low, high = non_negative_interval(draws, 0.95)
        assert np.all(low < high)
        hits.append((low <= n * law) & (n * law <= high))
    held = np.mean(hits, axis=0)
    assert held[:4].mean() > 0.92
    assert held[4:].mean() > 0.94
    assert held.min() > 0.82  # 40 repeats: .95 less nearly four standard errors


@pytest.mark.parametrize("away", [-300.0, -40.0, -3.0, 0.0, 2.0, 30.0])
def test_an_interval_is_the_usual_one_and_never_empty(away):
    draws = away + np.random.default_rng(0).standard_normal((20_000, 1))
    low, high = non_negative_interval(draws, 0.95)
    usual = away + stats.norm.ppf([0.025, 0.975])
    assert low[0] == pytest.approx(max(usual[0], 0), abs=0.05)
    assert high[0] > max(usual[1], 0) - 0.05
    if away == 30:
        assert high[0] == pytest.approx(usual[1], abs=0.05)
    first, last = share_interval(draws, 0.95)
    assert 0 <= first[0] <= last[0] <= 1
