"""The audit attacks what persons are promised: the worst person, with all rows at the extreme."""

import pytest

import sottovoce as sv
from audit.checks import run_check
from sottovoce.audit import audit
from sottovoce.inference.cells.noisy_cells import NoisyCells
from sottovoce.inference.cells.questions import Question
from sottovoce.mechanisms.mechanism import Mechanism
from sottovoce.privacy.relation import REPLACE_ONE

COLUMNS = {"ward": sv.Category(["A", "B", "C"]), "stay": sv.Number(0, 10), "ill": sv.Flag()}


def mechanism(verb, columns, rows, noise, by=()):
    facts = sv.Facts(COLUMNS | {"patient": sv.Person(rows=rows)})
    question = Question(verb, columns, facts, by=by)
    target = sv.PureDP(1.0) if noise == "laplace" else sv.GaussianDP(1.0)
    return NoisyCells.calibrate(question, 4, target.under(REPLACE_ONE.of_person()), noise)


@pytest.mark.parametrize(
    ("verb", "columns", "rows", "noise"),
    [
        ("counts", ("ward",), 3, "laplace"),
        ("counts", ("ward",), 3, "gaussian"),
        ("counts", ("ward",), None, "laplace"),
        ("mean", ("stay",), None, "gaussian"),
    ],
)
def test_the_attack_finds_nearly_all_that_is_claimed_of_a_person_and_no_more(verb, columns, rows, noise):
    made = mechanism(verb, columns, rows, noise)
    assert made.relation == made.profile.relation == REPLACE_ONE.of_person()
    report = audit(
        made,
        draws=60_000 if verb == "counts" else 10_000,
        delta=0.0 if noise == "laplace" else 1e-3,
        seed=3,
        early_stop=False,
    )
    bound = report.epsilon if noise == "laplace" else report.mu
    assert report.verdict == "holds", report
    assert not bound.exceeded
    if verb == "counts":
        assert bound.ratio >= 0.9, bound


def test_mechanisms_for_persons_read_back():
    for verb, columns in (("counts", ("ward",)), ("mean", ("stay",)), ("proportion", ("ill",))):
        made = mechanism(verb, columns, None, "gaussian")
        again = Mechanism.from_dict(made.to_dict())
        assert again.to_dict() == made.to_dict()
        assert again.profile.relation == REPLACE_ONE.of_person()


@pytest.mark.parametrize(
    "name", ["a person moves an answer no farther than is claimed", "rows of a person are chosen by what they hold"]
)
def test_the_checks_of_persons_pass(name):
    assert run_check(name).passed
