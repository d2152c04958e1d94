"""The confidence bounds against exact binomial probabilities: how often they are wrong, and how near they come."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sottovoce.audit.bounds import Counts, Epsilon, Excess, Mu, clopper_pearson, counted, exceeded, lower_bound


def test_clopper_pearson_is_the_beta_quantile_and_knows_its_ends() -> None:
    low, high = clopper_pearson([0, 3, 10], 10, 0.05)
    assert low[0] == 0.0
    assert high[2] == 1.0
    assert low[1] == pytest.approx(stats.beta.ppf(0.05, 3, 8))
    assert high[1] == pytest.approx(stats.beta.isf(0.05, 4, 7))


@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.6, 0.8), (0.05, 1.0), (1.0, 1.0)])
@pytest.mark.parametrize(
    ("measure", "p", "q"),
    [(Epsilon(0.05), 0.4, 0.2), (Epsilon(0.0), 0.1, 0.02), (Mu(), 0.7, 0.3), (Excess(0.5), 0.6, 0.25)],
)
def test_the_bound_is_wrong_no_more_often_than_it_says(measure, p, q, weights) -> None:  # type: ignore[no-untyped-def]
    """Summed over every outcome of two binomials, so that the coverage is exact."""
    draws, error = 24, 0.05
    x = np.arange(draws + 1)
    chance = np.outer(stats.binom.pmf(x, draws, p), stats.binom.pmf(x, draws, q))
    truth = float(measure.value(p, q))
    wrong = lower_bound(measure, Counts(x[:, None], draws, x, draws), error, weights) > truth
    assert chance[wrong].sum() <= error


def test_the_bound_beats_two_clopper_pearson_bounds_when_the_noise_is_shared() -> None:
    draws, error = 10**6, 0.01
    counts = Counts(8_000, draws, 3_000, draws)
    p, q = 0.008, 0.003
    weights = (1e-3 * np.sqrt(p) / (p - 1e-3), 1e-3 * np.sqrt(q) / q)
    box = np.log((clopper_pearson(8_000, draws, error / 2)[0] - 1e-3) / clopper_pearson(3_000, draws, error / 2)[1])
    ours, truth = lower_bound(Epsilon(1e-3), counts, error, weights), np.log(7 / 3)
    assert box < ours < truth
    assert (truth - ours) < 0.75 * (truth - box)


def test_certain_events_have_finite_bounds() -> None:
    counts = Counts(1000, 1000, 0, 1000)
    assert 4 < lower_bound(Epsilon(1e-3), counts, 0.01, (1.0, 1.0)) < 8
    assert 3 < lower_bound(Mu(), counts, 0.01, (1.0, 1.0)) < 7
    nothing = Counts(0, 1000, 1000, 1000)
    assert lower_bound(Epsilon(1e-3), nothing, 0.01, (1.0, 1.0)) < 0


@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.6, 0.8), (0.001, 1.0), (1.0, 1.0)])
@pytest.mark.parametrize("measure", [Epsilon(0.0), Epsilon(1e-3), Mu(), Excess(0.0), Excess(2.0)], ids=str)
@pytest.mark.parametrize("error", [0.01, 1e-9])
def test_no_bound_lies_above_what_was_counted(measure, weights, error) -> None:  # type: ignore[no-untyped-def]
    some = np.array([0, 1, 3, 40, 400, 960, 997, 999, 1000])
    counts = Counts(some[:, None], 1000, some, 1000)
    assert not np.any(lower_bound(measure, counts, error, weights) > counted(measure, counts))


def test_bounds_of_several_events_are_those_of_each() -> None:
    hits, others = np.array([[20], [500]]), np.array([0, 3, 400])
    together = lower_bound(Mu(), Counts(hits, 1000, others, 1000), 0.01, (0.6, 0.8))
    alone = [
        [lower_bound(Mu(), Counts(i, 1000, j, 1000), 0.01, (0.6, 0.8)) for j in others.tolist()] for i in (20, 500)
    ]
    assert together.tolist() == alone


@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.6, 0.8), (0.001, 1.0)])
@pytest.mark.parametrize("error", [0.01, 0.9])  # of a large one nothing but the box is left
def test_a_bound_is_exceeded_where_it_lies_above(error: float, weights: tuple[float, float]) -> None:
    for counts in (Counts(i, 1000, j, 1000) for i in (0, 40, 600, 1000) for j in (0, 30, 990)):
        bound = float(lower_bound(Excess(0.5), counts, error, weights))
        assert exceeded(Excess(0.5), counts, error, weights, bound - 1e-9)
        assert not exceeded(Excess(0.5), counts, error, weights, bound)
