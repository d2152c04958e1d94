"""What an answer says of bounds that are far away, and whether closer ones do what it says."""

import re

import numpy as np
import pytest

from sottovoce.inference.cells.noisy_cells import NoisyCells
from sottovoce.inference.cells.questions import Question
from sottovoce.privacy.promises import ApproxDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Facts, Number
from sottovoce.service.answers.answer import Answer


def answered(high: float, seed: int = 1) -> Answer:
    facts = Facts(cost=Number(0, high, missing=0.0))
    mechanism = NoisyCells.calibrate(Question("mean", ("cost",), facts), 20_000, ApproxDP(0.5, 1e-6), "gaussian")
    records = {"cost": seeded_rng(7).exponential(10, 20_000)}
    return Answer(mechanism.release(records, seeded_rng(seed)))


def said_of(answer: Answer) -> str | None:
    return next((note for note in answer.notes if "most of the width" in note), None)


def test_a_far_bound_is_told_with_the_width_that_a_closer_one_gives() -> None:
    far = answered(20_000)
    note = said_of(far)
    assert note is not None
    assert 'tails="smooth"' in note
    found = re.search(r"one of ([\d,.]+) would make it about ± ([\d.e+-]+) in place of ± ([\d.e+-]+)", note)
    assert found is not None
    bound, width, before = (float(text.replace(",", "")) for text in found.groups())
    closer = [answered(bound, seed).rows[0] for seed in range(5)]
    assert np.median([(row["high"] - row["low"]) / 2 for row in closer]) == pytest.approx(width, rel=0.6)
    assert before == pytest.approx((far.rows[0]["high"] - far.rows[0]["low"]) / 2, rel=0.1)
    assert width < before / 2


def test_close_bounds_are_not_told() -> None:
    assert said_of(answered(100)) is None
    assert said_of(answered(100).sd()) is None
