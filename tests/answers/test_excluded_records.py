"""Files whose words are not those of the facts: the released counts tell, and nothing else does."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sottovoce as sv
from sottovoce.mechanisms.integer_noise import NoiseKind
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.service.answers import Answer, NoisyCells, Question
from sottovoce.service.answers.excluded_records import left_out_note

FACTS = sv.Facts(ward=sv.Category(["A", "B", "C"]), sex=sv.Flag(), sbp=sv.Number(60, 250), age=sv.Number(0, 110))
N = 2000
IN_NO_ROW = "are in no row"


def records(**written: Any) -> dict[str, Any]:
    rng = seeded_rng(0)
    told: dict[str, Any] = {"ward": rng.choice(["A", "B", "C"], N).tolist(), "sex": rng.random(N) < 0.5}
    return told | {"sbp": rng.normal(130, 20, N), "age": rng.uniform(0, 90, N)} | written


def note(question: Question, given: dict[str, Any], n: int | None = N, noise: NoiseKind = "gaussian") -> str | None:
    return left_out_note(NoisyCells(question, n, noise, 10.0).release(given, seeded_rng(1)).value)


QUESTIONS = [
    Question("proportion", ("sex",), FACTS, by=("ward",)),
    Question("counts", ("ward",), FACTS),
    Question("mean", ("sbp",), FACTS, by=("ward",)),
    Question("quantiles", ("sbp",), FACTS, by=("ward", "age: under 40, 40+"), at=(0.5,), bins=8),
]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: q.describe())
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("n", [N, None])
def test_words_that_are_not_the_facts_are_told_of_and_those_that_are_are_not(
    question: Question, noise: NoiseKind, n: int | None
) -> None:
    some = [None if k % 10 == 0 else ward for k, ward in enumerate(records()["ward"])]  # a tenth is really missing
    assert note(question, records(), n, noise) is None
    assert note(question, records(ward=some), n, noise) is None
    said = note(question, records(ward=[ward.lower() for ward in records()["ward"]]), n, noise)
    assert said is not None and said.startswith("nearly all of ") and "ward" in said and IN_NO_ROW in said
    third = note(question, records(ward=["c" if ward == "C" else ward for ward in records()["ward"]]), n, noise)
    assert third is not None and "nearly all" not in third and IN_NO_ROW in third


def test_a_flag_in_other_words_is_told_of_by_its_name() -> None:
    given = records(sex=np.where(records()["sex"], "M", "F").astype(object))
    said = note(Question("proportion", ("sex",), FACTS), given)
    assert said is not None and said.startswith("nearly all of 2,000 records are in no row: sex is missing")
    assert (
        note(Question("proportion", ("sex",), sv.Facts(sex=sv.Flag(missing=False))), given) is None
    )  # they count as no


def test_noise_that_hides_all_is_not_taken_for_other_words() -> None:
    question, told = Question("proportion", ("sex",), FACTS, by=("ward",)), 0
    for seed in range(300):
        for given in (records(), records(ward=["a"] * N)):
            made = NoisyCells(question, N, "laplace", 2000.0).release(given, seeded_rng(seed)).value
            told += left_out_note(made) is not None
    assert told <= 2  # five deviations of Laplace noise: once in two thousand


def test_a_condition_that_nobody_meets_is_told_of_at_every_door(tmp_path: Path) -> None:
    table = pa.table(records(ward=[ward.lower() for ward in records()["ward"]]))
    with sv.Curator(table, tmp_path / "a", sv.ApproxDP(1, 1e-6), facts=FACTS, dataset="a") as curator:
        none = curator.mean("sbp", where="ward = 'A'", spend=0.5)
        some = curator.mean("sbp", where="age >= 85", spend=0.4)
    said = none.notes[0]
    assert said.startswith("perhaps no record is meant, ") and "of 2,000 records at most" in said
    assert not any("no record" in note for note in some.notes)
    assert said in none.footing() and said.split(",")[0] in none.summary()
    assert Answer.from_dict(none.to_dict()).notes == none.notes  # and so on the other side of a wire


def test_persons_are_counted_as_persons_and_places_that_they_leave_are_not(tmp_path: Path) -> None:
    persons = [f"p{k % 500}" for k in range(N)]
    for rows, told in ((None, True), (1, True), (20, False)):
        facts = sv.Facts({**FACTS, "who": sv.Person() if rows is None else sv.Person(rows=rows)})
        table = pa.table(records(ward=["a"] * N, who=persons))
        place = tmp_path / f"{rows}"
        with sv.Curator(table, place, sv.ApproxDP(1, 1e-6), facts=facts, dataset="a") as curator:
            notes = curator.counts("ward", spend=1.0).notes
        assert [one for one in notes if IN_NO_ROW in one] == (
            [one for one in notes if one.startswith("nearly all of 500 persons")] if told else []
        )
        assert any(IN_NO_ROW in one for one in notes) == told
