"""Intervals of draws: as much left out on either side, drawn out to where noise hides a row."""

import itertools
import math

import numpy as np
import pytest

from sottovoce.inference.cells.intervals import central, to_the_ends
from sottovoce.inference.cells.noisy_cells import NoisyCells
from sottovoce.inference.cells.questions import Question
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import PureDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Count, Facts, Flag, Number
from sottovoce.service.answers.answer import Answer


def test_the_central_interval_leaves_out_as_much_on_either_side_and_hugs_the_edge() -> None:
    draws = seeded_rng(1).exponential(size=(4000, 1))
    low, high = central(draws, 0.9)[0]
    assert low == pytest.approx(-math.log(0.95), rel=0.1)
    assert high == pytest.approx(-math.log(0.05), rel=0.1)
    assert np.mean(draws < low) == np.mean(draws > high) == pytest.approx(0.05, abs=1e-3)
    assert to_the_ends(draws, 0.9, 0.0, math.inf)[0].tolist() == [0.0, high]
    with pytest.raises(InvalidValue, match="level"):
        central(draws, 1.0)


@pytest.mark.parametrize(("draws", "level"), [(1, 0.95), (20, 0.95), (200, 0.95), (400, 0.9)])
def test_central_intervals_of_few_draws_hold_their_level_or_are_all_of_them(draws: int, level: float) -> None:
    drawn = seeded_rng(2).random((draws, 4000))
    low, high = central(drawn, level).T
    assert np.mean(high - low) == pytest.approx(min(level, (draws - 1) / (draws + 1)), abs=0.004)


def test_intervals_of_lopsided_posteriors_hold_a_fixed_truth() -> None:
    # The shortest intervals, which leave out the long side alone, hold the common ones of these shares 87 % of times.
    kinds, shares, rng = np.array(list("abcde")), np.array([0.6, 0.25, 0.1, 0.04, 0.01]), seeded_rng(3)
    question = Question("proportion", ("kind",), Facts(kind=Category(list(kinds))))
    mechanism = NoisyCells.calibrate(question, 30, PureDP(0.5))
    tables = [{"kind": np.repeat(kinds, counts)} for counts in rng.multinomial(30, shares, 150)]
    ends = np.stack([mechanism.release(table, rng).value.interval() for table in tables])
    held = np.mean((ends[:, :, 0] <= shares) & (shares <= ends[:, :, 1]), axis=0)
    assert held[:2].mean() >= 0.91


@pytest.mark.parametrize("n", [30, 2000])
def test_where_all_have_nothing_an_interval_begins_at_nothing(n: int) -> None:
    facts, rng = Facts(cost=Number(0, 100), ill=Flag(), visits=Count(20)), seeded_rng(3)
    records = {"cost": np.zeros(n), "ill": np.zeros(n, bool), "visits": np.zeros(n, int)}
    for verb, column in (("mean", "cost"), ("proportion", "ill"), ("rate", "visits")):
        mechanism = NoisyCells.calibrate(Question(verb, (column,), facts), n, PureDP(1.0))
        lows = [mechanism.release(records, rng).value.interval()[0, 0] for _ in range(8)]
        assert np.mean(np.equal(lows, 0.0)) >= 0.85


def test_an_interval_of_a_group_that_noise_hides_goes_to_the_ends_of_the_range() -> None:
    rng = np.random.default_rng(5)
    flat, known = rng.random((2000, 40)), rng.beta(30, 70, (2000, 40))
    ends = to_the_ends(flat, 0.95, 0.0, 1.0)
    assert (ends[:, 0] < 0.002).all() and (ends[:, 1] > 0.998).all()  # no chance which end is left out
    assert (to_the_ends(known, 0.95, 0.0, 1.0) == central(known)).all()


@pytest.mark.parametrize("level", [0.2, 0.5, 0.8, 0.95])
def test_what_is_known_at_95_percent_is_known_at_lower_levels(level: float) -> None:
    """A share of .06 that lies clear of zero: intervals of half of the draws began at zero, and held three quarters."""
    rng = np.random.default_rng(6)
    known, flat = rng.beta(6, 94, (4000, 20)), rng.random((4000, 20))
    assert np.array_equal(to_the_ends(known, level, 0.0, 1.0), central(known, level))
    assert (to_the_ends(flat, level, 0.0, 1.0) == [0.0, 1.0]).all()  # a row that noise hides stays hidden


def test_intervals_lie_within_those_of_higher_levels_and_go_to_the_ends_that_one_of_95_percent_goes_to() -> None:
    """A quantile in an end bin that may hold all at its edge, a row near an end, hidden ones: none is half open."""
    rng = np.random.default_rng(7)
    heap = np.where(rng.random((4000, 1)) < 0.06, 0.0, rng.uniform(0, 0.1, (4000, 1)))
    draws = np.hstack([heap, *(rng.beta(a, 20, (4000, 8)) for a in (0.6, 2, 3, 4, 6))])
    for flat in (0.25, 0.06):
        found = [to_the_ends(draws, level, 0.0, 1.0, flat) for level in (0.2, 0.5, 0.8, 0.95, 0.999)]
        for inner, outer in itertools.pairwise(found):
            assert (outer[:, 0] <= inner[:, 0]).all() and (inner[:, 1] <= outer[:, 1]).all()
        for inner, outer in itertools.pairwise(found[:-1]):
            assert ((inner == 0) == (outer == 0)).all()
        assert found[0][0, 0] == 0


def test_outer_quantiles_of_a_few_records_that_noise_hides_are_held_at_the_other_end() -> None:
    # Of 250 times these hold 94 and 88 %; drawn out to the ends only as other rows are, 73 and 26 %.
    facts, rng, sizes = Facts(visits=Count(40), ward=Category(["A", "B", "C"])), seeded_rng(4), [700, 15, 6]
    question = Question("quantiles", ("visits",), facts, by=("ward",), at=(0.05, 0.95))
    mechanism = NoisyCells.calibrate(question, sum(sizes), PureDP(0.5))
    records = {"ward": np.repeat(["A", "B", "C"], sizes), "visits": np.repeat([9, 0, 40], sizes)}
    ends = np.stack([mechanism.release(records, rng).value.interval() for _ in range(30)])
    assert np.mean(ends[:, 3, 0] == 0) >= 0.85  # the .95 quantile of B, where nobody has any
    assert np.mean(ends[:, 4, 1] == 40) >= 0.75  # the .05 quantile of C, where all have the most
    assert np.mean(np.ptp(ends[:, :2], axis=2)) < 12  # and what is known stays known


@pytest.mark.parametrize(("n", "epsilon", "shares"), [(30, 0.1, [18, 7, 3, 1, 1]), (200, 0.5, [1, 1, 0, 0, 0])])
def test_intervals_of_counts_that_noise_hides_hold_the_largest(n: int, epsilon: float, shares: list[int]) -> None:
    # Told by a composition of all counts alone, the first was held 77 % of times, and each of two halves 89 to 94 %.
    kinds, rng = np.array(list("abcde")), seeded_rng(8)
    question = Question("counts", ("kind",), Facts(kind=Category(list(kinds))))
    mechanism = NoisyCells.calibrate(question, n, PureDP(epsilon))
    truths = rng.multinomial(n, np.array(shares) / sum(shares), 100)
    ends = np.stack([mechanism.release({"kind": np.repeat(kinds, t)}, rng).value.interval() for t in truths])
    held = (ends[:, :, 0] <= truths) & (truths <= ends[:, :, 1])
    assert held[:, 0].mean() >= 0.92 and held.mean() >= 0.95


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_a_count_that_all_records_have_is_held_and_small_noise_leaves_intervals_as_they_were(epsilon: float) -> None:
    rng, question = seeded_rng(9), Question("counts", ("kind",), Facts(kind=Category(list("abcde"))))
    mechanism = NoisyCells.calibrate(question, 5000, PureDP(epsilon))
    every = {"kind": np.repeat("a", 5000)}
    assert np.mean([mechanism.release(every, rng).value.interval()[0, 1] == 5000 for _ in range(40)]) >= 0.85
    even = mechanism.release({"kind": np.tile(list("abcde"), 1000)}, rng).value
    assert np.array_equal(even.interval(), central(even.draws))


@pytest.mark.parametrize("draw", [0.0, 5e-324, 3.0, 1e9, 1e308])
@pytest.mark.parametrize("high", [1e9, 1e308, math.inf])
def test_draws_that_are_all_one_number_are_their_interval(draw: float, high: float) -> None:
    """A count that is known, within bounds as far off as can be: nothing overflows."""
    draws = np.full((400, 1), draw)
    assert to_the_ends(draws, 0.95, 0.0, high).tolist() == [[draw, draw]]


def test_comparisons_with_a_group_that_noise_hides_are_drawn_out_as_far_as_the_group_is() -> None:
    # Both groups have a share of .02; ten records of the second are lost in the noise. Draws alone hold 57 %.
    facts, rng = Facts(ill=Flag(), ward=Category(["large", "small"])), seeded_rng(11)
    mechanism = NoisyCells.calibrate(Question("proportion", ("ill",), facts, by=("ward",)), 810, PureDP(0.25))
    ward = np.repeat(["large", "small"], [800, 10])
    held = []
    for _ in range(60):
        answer = Answer(mechanism.release({"ill": rng.random(810) < 0.02, "ward": ward}, rng))
        gap, factor = answer.difference("large", "small"), answer.ratio("large", "small")
        held.append([gap.low <= 0 <= gap.high, factor.low <= 1 <= factor.high])
    assert np.mean(held, axis=0).min() >= 0.93


@pytest.mark.parametrize("n", [400, 5000])
def test_what_all_records_have_is_held_apart_from_what_none_has_and_counts_are_whole(n: int) -> None:
    # The difference is the largest there can be, and draws of neither count reach their ends at once.
    rng, question = seeded_rng(12), Question("counts", ("kind",), Facts(kind=Category(list("abcde"))))
    mechanism, table = NoisyCells.calibrate(question, n, PureDP(0.2)), {"kind": np.repeat("a", n)}
    gaps = []
    for _ in range(40):
        answer = Answer(mechanism.release(table, rng))
        gaps.append(answer.difference("a", "b").interval())
        assert np.array_equal(answer.posterior.draws, np.rint(answer.posterior.draws))
    assert np.mean(np.max(gaps, axis=1) == n) >= 0.85
    assert np.array_equal(gaps, np.rint(gaps))


def test_a_ratio_to_nothing_ends_without_a_warning() -> None:
    question = Question("counts", ("kind",), Facts(kind=Category(["a", "b"])))
    mechanism = NoisyCells.calibrate(question, 50, PureDP(20.0))
    factor = Answer(mechanism.release({"kind": np.repeat("a", 50)}, seeded_rng(13))).ratio("a", "b")
    assert repr(factor).endswith("to ∞)")
    assert math.isfinite(factor.estimate) and factor.low <= factor.estimate <= factor.high
