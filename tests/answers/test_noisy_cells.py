"""What one record can move, by brute force over neighbours, and what the claim says of it."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

from sottovoce.inference.cells.cell_noise import cell_noises
from sottovoce.inference.cells.noisy_cells import _scale
from sottovoce.mechanisms import Mechanism, Release
from sottovoce.privacy.errors import InvalidData, PromiseUnreachable
from sottovoce.privacy.promises import ApproxDP, GaussianDP, PureDP, RenyiDP, ZeroConcentratedDP
from sottovoce.privacy.randomness import secure_rng, seeded_rng
from sottovoce.privacy.relation import ADD_REMOVE, REPLACE_ONE
from sottovoce.records.facts import Category, Count, Facts, Flag, Number
from sottovoce.records.readings import Reading
from sottovoce.service.answers import NoisyCells, Question

FACTS = Facts(
    smoker=Flag(),
    ward=Category(["A", "B", "C"]),
    sbp=Number(60, 250),
    whole=Number(-1, 1, missing=0.0),
    visits=Count(20),
    years=Number(0, 5),
)
QUESTIONS = {
    "proportion": Question("proportion", ("smoker",), FACTS, ("ward",)),
    "counts": Question("counts", ("ward", "smoker"), FACTS),
    "mean": Question("mean", ("sbp",), FACTS),
    "mean by": Question("mean", ("sbp",), FACTS, ("ward",)),
    "mean of all": Question("mean", ("whole",), FACTS),
    "rate": Question("rate", ("visits",), FACTS, ("ward",)),
    "exposed": Question("rate", ("visits",), FACTS, ("ward",), exposure="years"),
    "quantiles": Question("quantiles", ("sbp",), FACTS, ("ward",), at=(0.5,)),
}


def records(question: Question) -> list[tuple[Any, ...]]:
    """Every kind of record that matters: each group, missing values, both ends and steps between."""
    choices = []
    for name in question.columns:
        column = FACTS[name]
        if isinstance(column, Category):
            choices.append(["A", "B", None])
        elif isinstance(column, Flag):
            choices.append([True, False, None])
        else:
            low, high = (0, column.high) if isinstance(column, Count) else (column.low, column.high)
            choices.append([*np.linspace(low, high, 41 if len(question.columns) < 3 else 9), np.nan])
    return list(itertools.product(*choices))


def furthest(question: Question, noise: str, scale: float, power: int) -> float:
    """How far apart the readings of two single records lie, beside the scales of the noise."""
    reading = question.reading
    scales = np.repeat([n.scale for n in cell_noises(reading, noise, scale)], reading.sizes)  # type: ignore[arg-type]
    rows = np.array([reading.read([[v] for v in record]).total / scales for record in records(question)])
    return max(float((np.abs(rows - row) ** power).sum(axis=1).max()) for row in rows)


@pytest.mark.parametrize("name", QUESTIONS)
def test_no_pair_of_records_moves_cells_further_than_the_claim(name: str) -> None:
    question = QUESTIONS[name]
    gaussian = NoisyCells(question, 10, "gaussian", 50.0).profile.zcdp()
    moved = furthest(question, "gaussian", 50.0, 2) / 2
    assert moved * (1 - 1e-9) <= gaussian <= moved * 1.02
    laplace = NoisyCells(question, 10, "laplace", 50.0).profile.pure()
    moved = furthest(question, "laplace", 50.0, 1)
    assert moved * (1 - 1e-9) <= laplace <= moved * 1.02


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize(
    "target", [PureDP(0.5), ApproxDP(0.5, 1e-6), RenyiDP(20, 0.05), ZeroConcentratedDP(0.01)], ids=str
)
def test_calibration_keeps_the_promise_and_wastes_little(name: str, target: Any) -> None:
    mechanism = NoisyCells.calibrate(QUESTIONS[name], 1000, target)
    assert mechanism.profile.excess(target) <= 0
    louder = NoisyCells(mechanism.system, 1000, mechanism.noise, mechanism.scale / 1.1)
    assert louder.profile.excess(target) > 0


def test_no_two_noises_share_a_scale_that_is_kept() -> None:
    """Each is asked for among all the others, and is what it is without them."""
    promises = [PureDP(1), PureDP(2), ApproxDP(1, 1e-6), ApproxDP(1, 1e-5), GaussianDP(1), ZeroConcentratedDP(1)]
    asked = [
        (QUESTIONS[name].reading.for_size(n), n, promise.under(relation), kind, relation)
        for name in ("counts", "mean by")
        for n, relation in ((100, REPLACE_ONE), (None, ADD_REMOVE), (100, REPLACE_ONE.of_person()))
        for promise, kind in itertools.product(promises, ("laplace", "gaussian"))
        if kind == "laplace" or not isinstance(promise, PureDP)
    ]
    _scale.cache_clear()
    found = [[_scale(*one) for one in asked] for _ in range(2)]  # type: ignore[arg-type]
    assert (_scale.cache_info().misses, _scale.cache_info().hits) == (len(asked), len(asked))
    assert found == [[_scale.__wrapped__(*one) for one in asked]] * 2


def test_a_budget_of_gaussian_privacy_can_be_spent_on_counts_and_on_means() -> None:
    for name in ("proportion", "mean by"):
        mechanism = NoisyCells.calibrate(QUESTIONS[name], 1000, GaussianDP(0.3))
        assert mechanism.profile.excess(GaussianDP(0.3)) <= 0


def test_counting_groups_and_squaring_cost_nothing_beside_the_sums() -> None:
    mechanism = NoisyCells(QUESTIONS["mean by"], 10, "gaussian", 10.0)
    assert 1 <= mechanism.profile.zcdp() / (2**2 / (2 * 10.0**2)) < 1.005


def test_an_unreachable_promise_says_so() -> None:
    with pytest.raises(PromiseUnreachable):
        NoisyCells.calibrate(QUESTIONS["mean"], 100, PureDP(1e-12))


@pytest.mark.parametrize("name", QUESTIONS)
def test_what_is_written_can_be_read_back(name: str) -> None:
    question = QUESTIONS[name]
    mechanism = NoisyCells.calibrate(question, 4, PureDP(1.0))
    data = {"smoker": [True, False, None, True], "ward": ["A", "B", "C", "?"], "sbp": [100.0, 120, np.nan, 300]}
    data |= {"whole": [0.0, 0.5, np.nan, 2], "visits": [0, 3, None, 99], "years": [1.0, 2, 3, None]}
    made = mechanism.release(data, seeded_rng(1))
    back = Release.from_json(made.to_json())
    assert back.value == made.value
    assert np.array_equal(back.value.draws, made.value.draws)
    assert Mechanism.from_dict(mechanism.to_dict()).to_dict() == mechanism.to_dict()
    assert Reading.from_dict(mechanism.reading.to_dict()) == mechanism.reading


def test_secure_noise_of_the_largest_scale_fits() -> None:
    mechanism = NoisyCells(QUESTIONS["mean by"], 2, "gaussian", 2.0**29)
    made = mechanism.release({"sbp": [60.0, 250.0], "ward": ["A", "B"]}, secure_rng())
    assert np.all(np.isfinite(made.value.mean))


@pytest.mark.parametrize("name", ["proportion", "mean by", "exposed"])
def test_the_worst_pair_is_as_far_apart_as_any(name: str) -> None:
    mechanism = NoisyCells(QUESTIONS[name], 3, "gaussian", 5.0)
    first, second = mechanism.worst_pair()
    scales = np.repeat([n.scale for n in mechanism.noises], mechanism.reading.sizes)
    apart = float((((first.total - second.total) / scales) ** 2).sum()) / 2
    assert 0.95 * mechanism.profile.zcdp() < apart <= mechanism.profile.zcdp() * (1 + 1e-12)
    ratio = mechanism.log_ratio((first, second))(first.total)
    assert float(ratio) == pytest.approx(apart, rel=1e-6)


def test_statistics_of_other_records_are_refused() -> None:
    mechanism = NoisyCells(QUESTIONS["proportion"], 3, "gaussian", 5.0)
    bad = mechanism.reading.gathered(3, np.full(6, 3.0), [])
    with pytest.raises(InvalidData):
        mechanism.release(bad, seeded_rng(1))


def test_no_record_makes_the_reading_fail() -> None:
    reading = QUESTIONS["mean by"].reading
    odd = [None, float("nan"), float("inf"), -float("inf"), 1e308, 5e-324, "text", [1], 10**400, object(), True, 2 + 1j]
    seen = reading.read([["A"] * len(odd), odd])
    assert seen.n == len(odd)
    assert reading.check(seen).total[:4].sum() == len(odd)
    assert reading.read([odd, [100.0] * len(odd)]).total[3] == len(odd)


def test_bins_grow_with_what_the_noise_lets_one_tell() -> None:
    few = NoisyCells.calibrate(QUESTIONS["quantiles"], 100, PureDP(0.1)).system.bins
    many = NoisyCells.calibrate(QUESTIONS["quantiles"], 100_000, PureDP(1.0)).system.bins
    assert few == 8
    assert many > 32
    assert math.log2(many).is_integer()
