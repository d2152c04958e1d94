"""Chains of exponential mechanisms: the law of the whole path by enumeration, against what is charged."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.mechanisms import (
    ApproximateSample,
    ChoiceChain,
    ExponentialChoice,
    FunctionOf,
    Mechanism,
    NoisyStatistics,
    Outcomes,
    choice_chain,
)
from sottovoce.mechanisms.approximate import barker_distance
from sottovoce.privacy.errors import InvalidValue, SottovoceError
from sottovoce.privacy.promises import ApproxDP, PureDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.readings import FunctionRows, FunctionSum

COINS = (sv.Flag(),)
OUTCOMES = ("no", "yes")


def _votes(record):
    return [not record, record]


def _path_law(records, windows, part, candidates, outcomes, score):
    """The law of the path of a chain, by brute force over parts, proposals and picks: plain floats, no code shared."""
    n, size = len(records), outcomes
    parts = list(itertools.combinations(range(n), part))
    law = {(): (1.0, 0)}
    for window in windows:
        after = {}
        for path, (chance, state) in law.items():
            others = [k for k in range(size) if k != state]
            for chosen in itertools.combinations(others, candidates):
                places = [state, *chosen]
                for some in parts:
                    totals = [sum(score(records[i])[k] for i in some) for k in places]
                    weights = [math.exp(window / 2 * t) for t in totals]
                    for place, weight in zip(places, weights, strict=True):
                        share = chance / len(parts) / math.comb(len(others), candidates) * weight / sum(weights)
                        key = (*path, place)
                        after[key] = (after.get(key, (0.0, 0))[0] + share, place)
        law = after
    return {path: chance for path, (chance, _) in law.items()}


def _metropolis_kernel(totals, base, window, size):
    """The matrix of a lazy Metropolis step with uniform proposals: plain floats, no code shared."""
    kernel = np.zeros((size, size))
    for i, j in itertools.permutations(range(size), 2):
        ratio = base[j] / base[i] * math.exp(window / 2 * (totals[j] - totals[i]))
        kernel[i, j] = min(1.0, ratio) / 2 / (size - 1)
    return kernel + np.diag(1 - kernel.sum(axis=1))


THREE = ("a", "b", "c")
BASE = (1.0, 0.5, 2.0)


def _nearness(record):
    return [1.0 if record == k else 0.0 for k in range(3)]


def _totals(records):
    return np.sum([_nearness(x) for x in records], axis=0)


def test_metropolis_leaves_the_stationary_law_in_closed_form_and_draws_its_kernel():
    window, records = 1.5, [0, 0, 1, 2]
    kernel = _metropolis_kernel(_totals(records), BASE, window, 3)
    law = np.array(BASE) * np.exp(window / 2 * _totals(records))
    law /= law.sum()
    np.testing.assert_allclose(law @ kernel, law, rtol=1e-12)
    scores = FunctionRows(_nearness, (sv.Count(2),), 0, 1, 3)
    for start in range(3):
        chain = ChoiceChain(Outcomes(THREE, scores, BASE), 4, (window,), candidates=1, start=start, rule="metropolis")
        draws = chain.outputs(chain.see(records), seeded_rng(start), 6000)[:, 0].astype(int)
        np.testing.assert_allclose(np.bincount(draws, minlength=3) / 6000, kernel[start], atol=0.03)


def test_a_metropolis_step_costs_its_window_and_half_is_the_most_that_is_so():
    window = 0.8
    scores = FunctionRows(lambda x: [x, 1 - x], (sv.Number(0, 1),), 0, 1, 2)
    chain = ChoiceChain(Outcomes(OUTCOMES, scores), 3, (window,), candidates=1, rule="metropolis")
    worst, unhalved, curve = 0.0, 0.0, 0.0
    for rest in np.linspace(-2, 2, 81):  # u(1) − u(0) of the other records
        rows = []
        for mine in (1.0, -1.0):
            taken = min(1.0, math.exp(window / 2 * (rest + mine))) / 2
            rows.append(np.array([taken, 1 - taken]))
        worst = max(worst, float(np.abs(np.log(rows[0] / rows[1])).max()))
        with np.errstate(divide="ignore"):
            wider = [np.array([2 * 0.9 * row[0], 1 - 2 * 0.9 * row[0]]) for row in rows]
            unhalved = max(unhalved, float(np.abs(np.log(wider[0] / wider[1])).max()))
        curve = max(curve, *(_hockey(dict(enumerate(p)), dict(enumerate(q)), 0.3) for p, q in (rows, rows[::-1])))
    assert 0.99 * window < worst <= window * (1 + 1e-12) == pytest.approx(chain.profile.pure())
    assert curve <= chain.profile.delta(0.3)
    assert unhalved > 1.5 * window


def test_metropolis_is_charged_more_than_barker_and_refused_for_many_candidates():
    scores = FunctionRows(_nearness, (sv.Count(2),), 0, 1, 3)
    both = [
        ChoiceChain(Outcomes(THREE, scores), 9, (0.5,) * 20, candidates=1, rule=r).profile for r in choice_chain.RULES
    ]
    assert both[0].pure() == both[1].pure() == 10.0
    assert both[0].epsilon(1e-6) < both[1].epsilon(1e-6)
    chain = ChoiceChain.calibrate(Outcomes(THREE, scores), 9, PureDP(1.0), steps=4, candidates=1, rule="metropolis")
    assert chain.windows[0] == pytest.approx(0.25, rel=1e-6)
    assert Mechanism.from_dict(chain.to_dict()).rule == "metropolis"
    assert set(chain.release([0] * 9).value) <= set(THREE)


def test_the_annealed_importance_weight_estimates_the_normalizer():
    """E exp(w) = Z/Z₀ over every start, proposal and pick, and a record moves w by half the windows' rise at most."""
    windows, records = (0.7, 1.6, 2.5), [0, 0, 1]
    scores = FunctionRows(_nearness, (sv.Count(2),), 0, 1, 3)
    mean = 0.0
    for start in range(3):
        chain = ChoiceChain(Outcomes(THREE, scores), 3, windows, candidates=1, start=start)
        law = {(start,): 1.0}
        for window in windows:
            after = {}
            for path, chance in law.items():
                for other in {0, 1, 2} - {path[-1]}:
                    here, there = (math.exp(window / 2 * _totals(records)[k]) for k in (path[-1], other))
                    for place, weight in ((path[-1], here), (other, there)):
                        key = (*path, place)
                        after[key] = after.get(key, 0.0) + chance / 2 * weight / (here + there)
            law = after
        for path, chance in law.items():
            reading = chain.importance_weight([THREE[k] for k in path[1:]])
            mean += chance / 3 * math.exp(float(reading.read(records).total[0]))
            assert reading.high - reading.low == pytest.approx(1.25)
    truth = np.exp(2.5 / 2 * _totals(records)).sum() / 3
    assert mean == pytest.approx(truth, rel=1e-5)  # the reading's grid rounds down
    chain = ChoiceChain(Outcomes(THREE, scores), 3, windows, candidates=1)
    noisy = NoisyStatistics(FunctionOf(chain.importance_weight(chain.release(records).value)), 3, "laplace", 1.25)
    assert noisy.profile.pure() == pytest.approx(1.0, rel=1e-5)
    with pytest.raises(InvalidValue, match="path"):
        chain.importance_weight(["a", "b"])


def _hockey(p, q, epsilon):
    return sum(max(p[k] - math.exp(epsilon) * q[k], 0.0) for k in p)


@pytest.mark.parametrize(("part", "windows"), [(1, (3.0, 3.0)), (2, (1.0, 4.0)), (3, (2.0, 0.5, 2.0))])
def test_the_path_costs_no_more_than_is_charged_by_enumeration(part, windows):
    scores = FunctionRows(_votes, COINS, 0, 1, 2)
    chain = ChoiceChain(Outcomes(OUTCOMES, scores), 3, windows, part=part, candidates=1)
    points = np.array([0.0, 0.3, 0.8, 1.5])
    worst, pure = np.zeros(4), 0.0
    for ones in range(3):
        first, second = [True] * ones + [False] * (3 - ones), [True] * (ones + 1) + [False] * (2 - ones)
        p, q = (_path_law(x, windows, part, 1, 2, _votes) for x in (first, second))
        for a, b in ((p, q), (q, p)):
            worst = np.maximum(worst, [_hockey(a, b, e) for e in points])
            pure = max(pure, *(math.log(a[k] / b[k]) for k in a))
    assert np.all(chain.profile.delta(points) >= worst * (1 - 1e-9))
    assert pure <= chain.profile.pure() * (1 + 1e-12)
    assert pure > 0.3 * chain.profile.pure()  # votes for both at once: the charge is not idle


def test_the_linear_rule_of_the_thesis_would_claim_less_than_the_truth():
    """Slip 8, on a chain: one of ten records is looked at, in a step of window 8."""
    window, n = 8.0, 10
    p = _path_law([True] + [False] * 9, (window,), 1, 1, 2, _votes)
    q = _path_law([False] * 10, (window,), 1, 1, 2, _votes)
    truth = max(abs(math.log(p[k] / q[k])) for k in p)
    chain = ChoiceChain(Outcomes(OUTCOMES, FunctionRows(_votes, COINS, 0, 1, 2)), n, (window,), part=1)
    assert truth <= chain.profile.pure()
    assert chain.profile.pure() == pytest.approx(math.log1p(math.expm1(window) / n), rel=1e-9)
    assert 2 * window / n < chain.profile.pure()


@pytest.mark.parametrize(("part", "candidates"), [(2, 1), (None, None), (3, 1)])
def test_the_chain_draws_the_law_it_states(part, candidates):
    windows, records = (0.5, 1.0), [True, True, True, False]  # no tie: there any slope gives a half
    chain = ChoiceChain(
        Outcomes(OUTCOMES, FunctionRows(_votes, COINS, 0, 1, 2)), 4, windows, part=part, candidates=candidates
    )
    law = _path_law(records, windows, 4 if part is None else part, 1, 2, _votes)
    seen, rng = chain.see(records), seeded_rng(4)
    paths = [tuple(map(int, row)) for row in chain.outputs(seen, rng, 3000)]
    for path, chance in law.items():
        assert paths.count(path) / 3000 == pytest.approx(chance, abs=0.03)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3, 0.5)])
def test_a_step_weighs_scores_by_half_its_window_over_their_width(low, high, monkeypatch):
    """What the chain hands to its exact sampler, against every neighbour: the loss ends at the charge, not beyond."""
    handed = []
    monkeypatch.setattr(choice_chain, "choose", lambda weights, rng, base: handed.append(weights) or 0)
    window = 0.5
    scores = FunctionRows(lambda yes: [low, high] if yes else [high, low], COINS, low, high, 2)
    chain = ChoiceChain(Outcomes(OUTCOMES, scores), 3, (window,))
    laws = []
    for yes in range(4):
        chain.release([True] * yes + [False] * (3 - yes), seeded_rng(1))
        weights = np.exp(np.array([float(w) for w in handed[-1]]))
        laws.append(np.log(weights / weights.sum()))
    worst = max(float(np.ptp(a - b)) for a, b in itertools.pairwise(laws))
    assert worst == pytest.approx(window, rel=1e-9)
    assert max(float(np.abs(a - b).max()) for a, b in itertools.pairwise(laws)) <= chain.profile.pure()


def test_calibration_finds_the_widest_windows_and_more_records_cost_more():
    system = Outcomes(OUTCOMES, FunctionRows(_votes, COINS, 0, 1, 2))
    few = ChoiceChain.calibrate(system, 100, PureDP(2.0), steps=5, part=5)
    every = ChoiceChain.calibrate(system, 100, PureDP(2.0), steps=5)
    assert few.windows[0] > 5 * every.windows[0]
    assert few.profile.pure() == pytest.approx(2.0, rel=1e-6)
    assert every.windows[0] == pytest.approx(0.4, rel=1e-6)
    path = few.release([True] * 100).value
    assert len(path) == 5
    assert set(path) <= set(OUTCOMES)
    loose = ChoiceChain.calibrate(system, 100, ApproxDP(1.0, 1e-5), steps=5, part=5)
    assert loose.profile.delta(1.0) <= 1e-5


@pytest.mark.parametrize(
    "build",
    [
        lambda: ChoiceChain(Outcomes(OUTCOMES, FunctionSum(_votes, COINS, 0, 1, 2)), 4, (1.0,)),
        lambda: ChoiceChain(Outcomes(OUTCOMES, FunctionRows(_votes, COINS, 0, 1, 2)), 4, ()),
        lambda: ChoiceChain(Outcomes(OUTCOMES, FunctionRows(_votes, COINS, 0, 1, 2)), 4, (-1.0,)),
        lambda: ChoiceChain(Outcomes(OUTCOMES, FunctionRows(_votes, COINS, 0, 1, 2)), 4, (1.0,), part=5),
        lambda: ChoiceChain(Outcomes(OUTCOMES, FunctionRows(_votes, COINS, 0, 1, 2)), 4, (1.0,), candidates=2),
        lambda: ChoiceChain(Outcomes(OUTCOMES, FunctionRows(_votes, COINS, 0, 1, 2)), 4, (1.0,), start=2),
        lambda: ExponentialChoice(Outcomes(OUTCOMES, FunctionRows(_votes, COINS, 0, 1, 2)), 4, 1.0),
        lambda: FunctionRows.example().movement(3),
        lambda: ChoiceChain(Outcomes(OUTCOMES, FunctionRows(_votes, COINS, 0, 1, 2)), 4, (1.0,), rule="gibbs"),
        lambda: ChoiceChain(Outcomes(OUTCOMES, FunctionRows(_votes, COINS, 0, 1, 2)), 4, (1.0,), rule="metropolis"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(build):
    with pytest.raises(SottovoceError) as caught:
        build()
    assert "\n" not in str(caught.value)


# A sampler of anybody's.


def test_the_proven_distance_of_barkers_chain_holds_and_the_charge_covers_its_law():
    """The chain's law after t steps by powers of its matrix, for every table of four counts."""
    exact = ExponentialChoice.example()
    size, laws = 3, {}
    for records in itertools.combinations_with_replacement(range(3), 4):
        utility = np.sum([exact.reading.function(x) for x in records], axis=0)
        weights = np.exp(utility / 2)
        kernel = np.zeros((size, size))
        for i, j in itertools.permutations(range(size), 2):
            kernel[i, j] = weights[j] / (weights[i] + weights[j]) / size
        kernel += np.diag(1 - kernel.sum(axis=1))
        right = weights / weights.sum()
        for steps in (1, 5, 12):
            after = np.linalg.matrix_power(kernel, steps)
            assert np.abs(after - right).sum(axis=1).max() / 2 <= barker_distance(exact, steps)
        laws[records] = np.linalg.matrix_power(kernel, 12)[0]
    near = ApproximateSample.example()
    claims = {epsilon: near.profile.delta(epsilon) for epsilon in (0.0, 0.5, 1.0)}
    for first, law in laws.items():
        for place, other in itertools.product(range(4), range(3)):
            second = tuple(sorted((*first[:place], other, *first[place + 1 :])))
            for epsilon, claim in claims.items():
                assert np.maximum(law - math.exp(epsilon) * laws[second], 0.0).sum() <= claim
    draws = near.outputs(near.see([0, 0, 1, 2]), seeded_rng(1), 2000)
    for place in range(3):
        assert np.mean(draws == place) == pytest.approx(laws[0, 0, 1, 2][place], abs=0.035)


def test_an_approximation_reads_back_without_its_function():
    near = ApproximateSample.example()
    again = Mechanism.from_dict(near.to_dict())
    assert again.profile.delta(0.5) == near.profile.delta(0.5)
    with pytest.raises(InvalidValue, match="only the name"):
        again.release([0, 1, 1, 2])
    assert near.release([0, 1, 1, 2]).value in (0.0, 1.0, 2.0)
    assert near.release([0, 1, 1, 2], seeded_rng(1), draws=3).profile.slack == pytest.approx(3 * near.distance)
    for wrong in (-0.1, 1.0, math.nan):
        with pytest.raises(InvalidValue, match="distance"):
            ApproximateSample.of(near.exact, wrong, near.sampler)
    with pytest.raises(InvalidValue, match="those of the exact"):
        ApproximateSample(near.system, 5, near.exact, 0.1, near.sampler)
