"""No sentence, row or signature says less than is so."""

import base64
import json
import re

import numpy as np
import pytest

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import ApproxDP, GaussianDP, PureDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.privacy.risk import predictive_value, success
from sottovoce.records.facts import Category, Count, Facts, Flag, Number, Person
from sottovoce.service.answers import Answer, NoisyCells, Question
from sottovoce.service.answers.card import _digits, _factor, card
from sottovoce.service.answers.display import drawn_rows
from sottovoce.service.answers.explanations import explain
from sottovoce.service.answers.priced_option import people
from sottovoce.service.ledger import Ledger


@pytest.mark.parametrize("promise", [PureDP(1.0), ApproxDP(0.5, 1e-3), GaussianDP(0.7)], ids=str)
@pytest.mark.parametrize("baseline", [0.0015, 0.0016, 0.0035, 0.0106, 0.3335, 2.6e-7])
def test_the_sentence_is_true_of_the_numbers_in_it(promise, baseline):
    told = explain(promise, baseline=baseline)
    said = told.before / told.people
    assert told.after >= told.people * success(promise, said) - 1e-6
    assert told.sure >= 100 * predictive_value(promise, 0.5, said) - 1e-6


def test_one_release_is_said_to_stand_alone_and_records_of_one_person_to_add_up():
    told = explain(PureDP(1.0))
    assert "alone" in told.parts
    assert "several records of one person" in told.parts["not_promised"]
    # What is learnt of everybody is no promise: the guess beforehand has seen the release, too.
    assert "place of theirs" in told.parts["guess"]


def test_numbers_in_words_are_rounded_to_the_less_private_side():
    chances = np.random.default_rng(0).uniform(0.01, 1.0, 200)
    said = [float(people(chance, 0.01).split()[0].replace(",", "")) for chance in chances]
    assert np.all(said >= 1000 * chances * (1 - 1e-11))
    assert [people(chance, 0.01).split()[0] for chance in (0.01, 1.0, 0.0143401)] == ["10", "1,000", "14.4"]
    assert _factor(1e4) == "10^4343"
    assert (_digits(7.000000000000001), _digits(1.2345612), _digits(1.2345678, up=False)) == ("7", "1.23457", "1.23456")


def test_no_letter_of_a_signature_can_change(tmp_path):
    pytest.importorskip("cryptography")
    from sottovoce.faces.server.cards import sign_card, verify_card
    from sottovoce.faces.server.receipts import Signer

    signer = Signer(tmp_path / "key.pem")
    with Ledger(tmp_path / "l", create=True) as ledger:
        ledger.open_budget("patients", PureDP(1.0), n=100, schema={"smoker": "boolean"})
        page = sign_card(card(ledger), signer)
    verify_card(page, signer.public_key)
    found = re.search(r'id="signature">([^<]*)</script>', page)
    document = json.loads(found[1])
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    signature = document["signature"]
    twin = signature[:-3] + alphabet[alphabet.index(signature[-3]) ^ 1] + "=="
    assert base64.b64decode(twin) == base64.b64decode(signature)
    others = [{"signature": twin}, {"key": "f" * 32}, {"note": "checked by an authority"}]
    texts = [json.dumps(document | other) for other in others] + [found[1] + " ", "[" * 100_000]
    for text in texts:
        with pytest.raises(InvalidValue):
            verify_card(page[: found.start(1)] + text + page[found.end(1) :], signer.public_key)


def by_ward_and_month() -> Answer:
    months = [f"2024-{month:02d}" for month in range(1, 13)]
    facts = Facts(ill=Flag(), ward=Category(["A", "B/C"]), month=Category(months))
    mechanism = NoisyCells(Question("proportion", ("ill",), facts, by=("ward", "month")), 480, "gaussian", 1.0)
    records = {"ill": np.arange(480) % 3 == 0, "ward": np.repeat(["A", "B/C"], 240), "month": np.tile(months, 40)}
    return Answer(mechanism.release(records, seeded_rng(3)))


def test_a_row_goes_by_the_name_that_it_is_shown_under():
    answer = by_ward_and_month()
    shown = answer.summary().splitlines()[14].split(": ")[0].strip()
    assert shown == "B/C / 2024-02"
    wanted = answer.draws("B/C", "2024-02")
    for name in (shown, "B/C, 2024-02", "B/C/2024-02"):
        assert np.array_equal(answer.draws(name), wanted)
        assert answer.difference(name, ("A", "2024-01")).estimate == np.median(wanted - answer.draws("A / 2024-01"))
    assert answer.probability("B/C / 2024-02 >= 0") == 1


def test_rows_that_are_there_are_not_told_as_if_they_were_all():
    with pytest.raises(InvalidValue, match=r"'A'; there are A / 2024-01, .* and 12 more$"):
        by_ward_and_month().draws("A")


def test_a_comparison_has_the_digits_that_its_interval_bears_out_and_no_end_where_it_has_none():
    answer = by_ward_and_month()
    gap = answer.difference("A / 2024-01", "A / 2024-02")
    assert re.search(r": [-\d.]{3,5} \([-\d.]{3,5} to [-\d.]{3,5}\)$", repr(gap))
    facts = Facts(ill=Flag(), ward=Category(["A", "B"]))
    mechanism = NoisyCells(Question("proportion", ("ill",), facts, by=("ward",)), 400, "gaussian", 5.0)
    records = {"ill": np.arange(400) < 60, "ward": np.repeat(["A", "B"], [200, 200])}
    factor = Answer(mechanism.release(records, seeded_rng(4))).ratio("A", "B")
    assert repr(factor).endswith(" to ∞)") and "e+" not in repr(factor)


@pytest.mark.parametrize(
    ("verb", "column", "by", "rows", "said"),
    [
        ("proportion", "ill", ("ward",), None, "average of their rows in the group that most of these are in"),
        ("mean", "days", (), None, "average of their rows"),
        ("proportion", "ward", (), None, "one row of each person"),
        ("counts", "ward", (), None, "the part of their rows"),
        ("counts", "ward", (), 3, "at most 3 rows of a person"),
        ("mean", "days", ("ward",), 1, "one row of each person"),
    ],
)
def test_an_answer_says_what_a_person_counts_as(verb, column, by, rows, said):
    facts = {"ill": Flag(), "ward": Category(["A", "B"]), "days": Count(60)}
    assert Question(verb, (column,), Facts(facts), by=by).whose is None
    told = Question(verb, (column,), Facts(facts, patient=Person(rows=rows)), by=by).whose
    assert told is not None and said in told
    assert ("group" in told) == (by == ("ward",) and rows is None)


@pytest.mark.parametrize(
    ("verb", "pool"),
    [("proportion", False), ("mean", False), ("rate", False), ("proportion", True), ("mean", True), ("rate", True)],
)
def test_noise_that_does_little_is_not_told_as_none(verb, pool):
    """Of 50,000 records little noise is hardly seen, and by chance of the draws had been told as 0 %."""
    n, rng = 50_000, np.random.default_rng(3)
    facts = Facts(race=Category(list("ABCD")), ward=Category(list("XYZ")), sbp=Number(60, 250), visits=Count(9))
    column = {"proportion": "race", "rate": "visits"}.get(verb, "sbp")
    question = Question(verb, (column,), facts, by=("ward",), pool=pool)
    records = {"race": rng.choice(list("ABCD"), n), "ward": rng.choice(list("XYZ"), n)}
    records |= {"sbp": rng.normal(130, 20, n), "visits": rng.poisson(2, n)}
    little = Answer(NoisyCells(question, n, "laplace", 0.5).release(records, seeded_rng(1)))
    much = Answer(NoisyCells(question, n, "laplace", 2000.0).release(records, seeded_rng(1)))
    assert all(0 < row["privacy_share"] < 0.2 for row in little.rows)
    told = [row["privacy_share"] for row in much.rows if row["estimate"] is not None]
    assert told and all(0.5 < share < 1 for share in told)
    assert all(row.privacy != "0 %" for row in drawn_rows(little.rows)[1])
    if verb == "proportion" and not pool:
        assert "less than 1 %" in [row.privacy for row in drawn_rows(little.rows)[1]]


def test_of_a_range_without_width_nothing_is_privacy():
    question = Question("quantiles", ("visits",), Facts(visits=Count(9)), at=(0.5,))
    release = NoisyCells(question.with_bins(5000, 2.0), 5000, "gaussian", 2.0).release(
        {"visits": np.repeat([3, 4, 5], [1000, 3000, 1000])}, seeded_rng(1)
    )
    (row,) = Answer(release).rows
    assert (row["low"], row["high"], row["privacy_share"]) == (4.0, 4.0, None)
    assert drawn_rows([row])[1][0].privacy == "–"


@pytest.mark.parametrize(
    ("columns", "records", "told"),
    [(["ward", "day"], 60, True), (["ward", "day"], 60_000, False), (["day"], 60, False)],
)
def test_small_cells_are_not_to_be_added_up(columns: list[str], records: int, told: bool) -> None:
    """Each is told by a prior of its own, which none can fall below zero by: their sum comes to too much."""
    facts = Facts(ward=Category(["A", "B"]), day=Category([str(day) for day in range(15)]))
    cells = Question("counts", tuple(columns), facts)
    data = {"ward": ["A", "B"] * (records // 2), "day": [str(k % 15) for k in range(records)]}
    answer = Answer(NoisyCells(cells, records, "gaussian", 20.0).release(data, seeded_rng(5)), None, 0.1)
    assert any(note.startswith("do not add rows up") for note in answer.notes) == told
