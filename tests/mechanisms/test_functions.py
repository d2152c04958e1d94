"""Anybody's function with exact noise, and a choice among anybody's outcomes, against enumeration of small tables."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

import sottovoce as sv
from sottovoce.audit import check_mechanism, check_reading
from sottovoce.mechanisms import ExponentialChoice, FunctionOf, NoisyStatistics, Outcomes, Release
from sottovoce.mechanisms.exponential_choice import choose
from sottovoce.privacy.errors import InvalidData, InvalidValue, SottovoceError
from sottovoce.privacy.promises import ApproxDP, PureDP, ZeroConcentratedDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.readings import FunctionSum, FunctionValue, Reading, Statistics

COINS = (sv.Count(2),)


_COUNTER = itertools.count()


def _span(records):
    return max(records) - min(records)


def _share(records):
    return sum(x > 1 for x in records) / len(records)


def _hockey(p, q, epsilon):
    return sum(max(a - math.exp(epsilon) * b, 0.0) for a, b in zip(p, q, strict=True))


def _neighbours(values, n):
    for first in itertools.product(values, repeat=n):
        for other in values:
            yield first, (*first[:-1], other)


@pytest.mark.parametrize(
    ("function", "sensitivity", "n", "words"),
    [
        (lambda x: float(np.median(x)), 1.0, 11, "moves <lambda> by 2"),
        (lambda x: float(np.median(x)), 1.0, 2001, "moves <lambda> by 2"),
        (_share, 0.01, 11, "beyond the declared sensitivity of 0.01"),
        (lambda x: x[0] / (len(x) - x.count(0)), 0.5, 7, "beyond the declared"),
        (lambda x: 1 / 0, 1.0, 5, "fails on every generated data set"),
        (lambda x: [1.0, 2.0], 1.0, 5, "something else than 1"),
        (lambda x: next(_COUNTER) % 2, 2.0, 5, "in two ways"),
    ],
)
def test_a_sensitivity_that_is_visibly_wrong_is_refused_before_any_data(function, sensitivity, n, words):
    reading = FunctionValue(function, COINS, 0, 2, sensitivity=sensitivity)
    with pytest.raises(InvalidValue, match=words):
        NoisyStatistics(FunctionOf(reading), n, "laplace", 1.0)


@pytest.mark.parametrize(("function", "sensitivity", "n"), [(_span, 2.0, 9), (_share, 1 / 40, 40), (len, 1e-3, 100)])
def test_a_sensitivity_that_holds_is_taken(function, sensitivity, n):
    reading = FunctionValue(function, COINS, 0, 2, sensitivity=sensitivity)
    mech = NoisyStatistics(FunctionOf(reading), n, "laplace", 4 * sensitivity)
    assert mech.profile.pure() == pytest.approx(0.25, rel=2e-3)
    assert mech.profile.pure() >= 0.25


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_noise_on_a_function_costs_no_more_than_its_profile_by_enumeration(noise):
    """Every table of three coins and every neighbour of it; the law of the noise is written down here again."""
    reading = FunctionValue(_span, COINS, 0, 2, sensitivity=2.0, integer=True)
    mech = NoisyStatistics(FunctionOf(reading), 3, noise, 1.7)
    k = np.arange(-60, 61)

    def law(centre):
        x = (k - centre) / 1.7
        weights = np.exp(-np.abs(x) if noise == "laplace" else -x * x / 2)
        return weights / weights.sum()

    worst = np.zeros(4)
    for first, second in _neighbours(range(3), 3):
        p, q = law(_span(first)), law(_span(second))
        worst = np.maximum(worst, [_hockey(p, q, e) for e in (0.0, 0.3, 0.7, 1.1)])
    claimed = mech.profile.delta(np.array([0.0, 0.3, 0.7, 1.1]))
    np.testing.assert_allclose(claimed, worst, rtol=1e-9, atol=1e-12)  # sensitivity 2 is reached: exact
    assert np.all(claimed >= worst * (1 - 1e-12))


def test_many_queries_at_once_are_charged_together():
    """Three queries that one record moves together: a Gaussian of √3 times the shift, by its own formula."""
    reading = FunctionSum(lambda x: [x, x, x], (sv.Flag(),), 0, 1, entries=3)
    mech = NoisyStatistics(FunctionOf(reading), 2, "gaussian", 3.0)
    mu = math.sqrt(3) / 3
    for epsilon in (0.1, 0.5, 0.9):
        phi = [0.5 * math.erfc(-x / math.sqrt(2)) for x in (mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu)]
        assert mech.profile.delta(epsilon) >= phi[0] - math.exp(epsilon) * phi[1]
    calibrated = NoisyStatistics.calibrate(FunctionOf(reading), 2, ApproxDP(1.0, 1e-6))
    assert calibrated.profile.satisfies(ApproxDP(1.0, 1e-6))
    assert NoisyStatistics(FunctionOf(reading), 2, "laplace", 3.0).profile.pure() == pytest.approx(1.0)


def test_an_interval_holds_the_value_as_often_as_it_says():
    reading = FunctionValue(_share, COINS, 0, 1, sensitivity=1 / 20)
    records = [0] * 13 + [2] * 7
    for noise, scale in (("laplace", 0.05), ("gaussian", 0.08), ("laplace", 0.4)):
        mech = NoisyStatistics(FunctionOf(reading), 20, noise, scale)
        seen, inside = mech.see(records), 0
        for seed in range(400):
            value = mech.release(seen, seeded_rng(seed)).value
            low, high = value.interval(0.9)
            inside += low <= 0.35 <= high
        assert 0.86 <= inside / 400 <= 0.945


def test_a_noisy_value_reads_back():
    mech = NoisyStatistics(FunctionOf(FunctionSum.example()), 4, "gaussian", 3.0)
    release = mech.release([0.1, -0.5, 2.0, None], seeded_rng(1))
    again = Release.from_json(release.to_json()).value
    np.testing.assert_array_equal(again.values, release.value.values)
    np.testing.assert_array_equal(again.interval(0.5), release.value.interval(0.5))


def test_of_a_function_read_back_only_the_name_is_known():
    again = Reading.from_dict(FunctionValue.example().to_dict())
    assert again.name == "_different"
    with pytest.raises(InvalidValue, match="only the name"):
        again.read([1, 2])
    mech = NoisyStatistics.from_dict(NoisyStatistics(FunctionOf(FunctionValue.example()), 4, "laplace", 1.0).to_dict())
    assert mech.profile.pure() == 1.0


@pytest.mark.parametrize(
    "reading",
    [
        FunctionSum(lambda x: x, (sv.Number(0, 1e9),), 0, 1e9),
        FunctionSum(lambda x: x, (sv.Number(0, 1e-6),), 0, 1e-6),
        FunctionSum(lambda x: x, (sv.Number(1e6, 1e6 + 1),), 1e6, 1e6 + 1),
        FunctionValue(lambda x: sum(x) / 1e3, (sv.Number(-1, 1),), -3, 5, sensitivity=0.1),
        FunctionValue(lambda rows: [len(rows), sum(b == "x" for _, b in rows)], (sv.Flag(), sv.Category(["x", "y"])),
                      0, 9, entries=2, sensitivity=1.0, norm="l1", integer=True),
        FunctionValue(lambda x: [math.sin(sum(x)), math.cos(sum(x))], (sv.Number(0, 0.5),), -1, 1, entries=2,
                      sensitivity=0.5, norm="l2"),
    ],
    ids=["wide", "narrow", "far from zero", "mean", "two columns", "circle"],
)  # fmt: skip
def test_functions_with_odd_bounds_are_readings_like_any_other(reading):
    assert [result for result in check_reading(reading) if not result.passed] == []


@pytest.mark.parametrize(
    "build",
    [
        lambda: FunctionValue(3, COINS, 0, 1),
        lambda: FunctionValue(len, (), 0, 1),
        lambda: FunctionValue(len, (sv.Person(),), 0, 1),
        lambda: FunctionValue(len, COINS, 1, 0),
        lambda: FunctionValue(len, COINS, 0, 1, sensitivity=0.0),
        lambda: FunctionValue(len, COINS, 0, 1, sensitivity=math.nan),
        lambda: FunctionValue(len, COINS, 0, 1e9, sensitivity=1e-9),
        lambda: FunctionValue(len, COINS, 0, 1, norm="l3"),
        lambda: FunctionValue(len, COINS, 0, 1.5, integer=True),
        lambda: FunctionOf(sv.readings.ClippedSum(0, 1)),
        lambda: Outcomes((), FunctionSum.example()),
        lambda: Outcomes(("a", "a"), FunctionSum.example()),
        lambda: Outcomes(("a",), FunctionSum.example()),
        lambda: Outcomes(("a", "b"), FunctionSum.example(), (1.0, 0.0)),
        lambda: ExponentialChoice(Outcomes(("a", "b"), FunctionSum.example()), 3, -1.0),
        lambda: ExponentialChoice(FunctionSum.example(), 3, 1.0),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(build):
    with pytest.raises(SottovoceError) as caught:
        build()
    assert "\n" not in str(caught.value)


def test_through_the_curator_a_function_sees_tame_columns(tmp_path):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"ward": ["A", None, "B", "B", "zzz"], "age": [20.0, float("nan"), 4e9, -3.0, 50.0]})
    seen = []

    def oldest(rows):
        seen.append(list(rows))
        return max(age for _, age in rows)

    facts = (sv.Category(["A", "B"]), sv.Number(0, 100))
    reading = FunctionValue(oldest, facts, 0, 100, sensitivity=100.0)
    mech = NoisyStatistics.calibrate(FunctionOf(reading), 5, PureDP(50.0), noise="laplace")
    with sv.Curator(table, tmp_path / "l.ledger", PureDP(100.0), dataset="d") as curator:
        answer = curator.release(mech, ["ward", "age"])
        part = curator.release(mech, ["ward", "age"], where="ward = 'A'")
    everyone, some = seen[-2:]
    assert everyone == [("A", 20.0), ("A", 50.0), ("B", 100.0), ("B", 0.0), ("A", 50.0)]
    assert some == [("A", 20.0), *[("A", 50.0)] * 4]
    assert abs(answer.value.mean - 100) < 60
    assert abs(part.value.mean - 50) < 60


def test_a_function_with_too_few_columns_is_refused():
    reading = FunctionValue(lambda rows: 0.0, (sv.Flag(), sv.Flag()), 0, 1)
    with pytest.raises(InvalidData, match="takes 2 columns"):
        reading.read([[True, False]])


# The exponential mechanism.


def _votes(record):
    return [record == 0, record == 1, record == 2]


def _loss(record):
    return [-abs(record - guess) / 2 for guess in (0, 1, 2)]


@pytest.mark.parametrize("scores", [FunctionSum(_votes, COINS, 0, 1, 3), FunctionSum(_loss, COINS, -1, 0, 3)])
@pytest.mark.parametrize("base", [None, (1.0, 0.2, 3.0)])
@pytest.mark.parametrize("window", [1e-6, 0.5, 4.0])
def test_a_choice_costs_no_more_than_its_window_by_enumeration(scores, base, window):
    mech = ExponentialChoice(Outcomes(("a", "b", "c"), scores, base), 3, window)
    prior, points = np.array(base or (1.0, 1.0, 1.0)), (0.0, window / 3, 0.8 * window)

    def law(records):
        utility = np.sum([scores.function(x) for x in records], axis=0)
        weights = prior * np.exp(window / 2 * utility)
        return weights / weights.sum()

    worst = np.zeros(3)
    for first, second in _neighbours(range(3), 3):
        p, q = law(first), law(second)
        np.testing.assert_allclose(mech.probabilities(mech.see(list(first))), p, rtol=1e-9)
        worst = np.maximum(worst, [_hockey(p, q, e) for e in points])
        assert np.log(p / q).max() - np.log(p / q).min() <= window * (1 + 1e-9)
    assert np.all(mech.profile.delta(np.array(points)) >= worst * (1 - 1e-9))
    if scores.function is _votes and base is None and window == 4.0:
        assert worst[0] > 0.5 * mech.profile.delta(0.0)  # the window is no idle bound


def test_the_choice_is_drawn_exactly():
    """Bits by hand: the least and the largest U with a known first part fall into the cells that fractions say."""

    class Fixed:
        def __init__(self, start):
            self.left = [start]

        def bytes(self, length):
            return (self.left.pop(0) if self.left else 0).to_bytes(length, "big")

    # Weights 1, 1, 2 (log 2 is no fraction, so by the base): cells [0, 1/4), [1/4, 1/2), [1/2, 1).
    base, zero = [Fraction(1), Fraction(1), Fraction(2)], [Fraction(0)] * 3
    quarter = 2**62
    edges = [(0, 0), (quarter - 1, 0), (quarter, 1), (2 * quarter - 1, 1), (2 * quarter, 2), (4 * quarter - 1, 2)]
    for start, cell in edges:
        if start % quarter:  # strictly inside, so that balls can decide; an edge itself never ends
            assert choose(zero, Fixed(start), base) == cell
    # Nearer to an edge than doubles can tell: the weights e^(1/3) and 1, the edge in 40 digits.
    with mp.workdps(60):
        edge = int(mp.floor(mp.mpf(2) ** 128 / (1 + mp.exp(mp.mpf(1) / 3))))
    for offset, cell in ((-(2**40), 0), (2**40, 1)):
        bits = Fixed((edge + offset) >> 64)
        bits.left.append((edge + offset) & (2**64 - 1))
        assert choose([Fraction(0), Fraction(1, 3)], bits) == cell
    log_weights = [Fraction(0), Fraction(1, 3), Fraction(-50)]
    draws = [choose(log_weights, seeded_rng(k)) for k in range(2000)]
    assert np.mean(np.equal(draws, 1)) == pytest.approx(math.exp(1 / 3) / (1 + math.exp(1 / 3)), abs=0.035)
    assert choose([Fraction(-(10**9)), Fraction(0)], seeded_rng(1)) == 1


def test_calibration_and_composition_use_the_window():
    outcomes = Outcomes((0.1, 0.5, 0.9), FunctionSum(_votes, COINS, 0, 1, 3))
    assert ExponentialChoice.calibrate(outcomes, 9, PureDP(0.8)).window == pytest.approx(0.8)
    assert ExponentialChoice.calibrate(outcomes, 9, ZeroConcentratedDP(0.02)).window == pytest.approx(0.4)
    loose = ExponentialChoice.calibrate(outcomes, 9, ApproxDP(0.8, 1e-2))
    assert loose.window > 0.8
    assert loose.cost(10).zcdp() == pytest.approx(10 * loose.window**2 / 8)
    assert loose.release([2] * 9, seeded_rng(3), draws=3).value == [0.9, 0.9, 0.9]
    assert isinstance(loose.release([2] * 9).value, float)


def test_extreme_scores_pass_the_checks():
    scores = FunctionSum(lambda x: [x, -x], (sv.Number(0, 1e6),), -1e6, 1e6, 2)
    mech = ExponentialChoice(Outcomes(("up", "down"), scores), 3, 700.0)
    assert [
        r for r in check_mechanism(mech, draws=None, fresh=False) if r.name.startswith("no record") and not r.passed
    ] == []
    assert mech.release([1e6, 1e9, math.inf]).value == "up"


@pytest.mark.parametrize("size", [1e308, 5e-324])
def test_choices_among_huge_or_tiny_weights(size):
    base = [Fraction(size), Fraction(size)]
    first = [choose([Fraction(0), Fraction(-1, 10)], seeded_rng(k), base) for k in range(400)]
    assert 140 < sum(first) < 240  # 190 expected
    assert 0 < sum(choose([Fraction(0), Fraction(-1)], seeded_rng(k), base) for k in range(100)) < 50


@pytest.mark.parametrize("exponent", [-738, -745, -750, -1400])
def test_choices_of_which_a_huge_weight_makes_up_for_a_tiny_exponential(exponent):
    """base·e^w is what counts, even where e^w alone is no double: two outcomes of equal mass are equally likely."""
    with mp.workdps(60):
        mantissa, power = (mp.mpf(10) ** 300 * mp.exp(exponent)).man_exp
    base = [Fraction(int(mantissa)) * Fraction(2) ** power, Fraction(10) ** 300]
    rng = seeded_rng(5)
    picked = [choose([Fraction(0), Fraction(exponent)], rng, base) for _ in range(400)]
    assert 140 < sum(picked) < 260  # 200 expected, a deviation is 10
    assert {choose([Fraction(0), Fraction(exponent)], rng, [base[0] / 10**20, base[1]]) for _ in range(20)} == {1}


def test_choices_among_weights_that_are_no_doubles():
    rng, huge = seeded_rng(6), Fraction(10) ** 400
    assert {choose([Fraction(0), -huge], rng) for _ in range(20)} == {0}
    assert 60 < sum(choose([Fraction(0)] * 2, rng, [huge, huge]) for _ in range(200)) < 140  # 100 expected
    probabilities = ExponentialChoice(
        Outcomes(("a", "b"), FunctionSum(_up_down, (sv.Number(0, 1),), -1, 1, 2), (1e-30, 1e300)), 1, 2000.0
    ).probabilities(Statistics(1, np.array([1.0, -1.0])))
    with mp.workdps(40):
        odds = mp.mpf(1e300) * mp.exp(-1000) / mp.mpf(1e-30)
        assert probabilities.tolist() == pytest.approx([float(1 / (1 + odds)), float(odds / (1 + odds))])


def _up_down(x):
    return [x, -x]
