"""`sottovoce again`: an answer that was paid for, told again from the ledger alone."""

import csv
import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sottovoce.faces.cli import application
from sottovoce.mechanisms import NoisyStatistics
from sottovoce.mechanisms.conjugate import BetaBernoulli
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import PureDP, parse_promise
from sottovoce.service.answers import Answer, Regression
from sottovoce.service.answers.contrast_parser import parse_contrast
from sottovoce.service.curator import Curator
from sottovoce.service.ledger import Ledger


def run(*words: object) -> str:
    said = [str(word) for word in words]
    return CliRunner().invoke(application(said[0]), said, catch_exceptions=False).stdout


@pytest.fixture
def asked(data: Path) -> dict[str, dict[str, object]]:
    """A share by ward and a regression, which were paid for; then the data are gone: nothing can be read."""
    budget = (data, "--budget", "approx:1,1e-6", "--json", "--spend", "20%")
    said = {
        "rows": json.loads(run("ask", *budget, "proportion of smoker by ward", "--idempotency-key", "wards")),
        "terms": json.loads(run("regress", *budget, "smoker ~ sbp + ward")),
    }
    data.unlink()
    data.with_suffix(".facts.toml").unlink()
    return said


def test_an_answer_is_told_again_without_the_data_and_for_nothing(data: Path, asked: dict, tmp_path: Path) -> None:
    place = data.with_suffix(".ledger")
    before = run("ledger", "show", place, "--json")
    for told in asked.values():
        again = json.loads(run("again", place, told["entry"], "--json"))
        assert {name: again[name] for name in ("question", "table", "release", "share", "entry")} == {
            name: told[name] for name in ("question", "table", "release", "share", "entry")
        }
    assert json.loads(run("again", place, "--idempotency-key", "wards", "--json"))["entry"] == asked["rows"]["entry"]
    wide, narrow = (asked["rows"]["table"], json.loads(run("again", place, 3, "--level", "50%", "--json"))["table"])
    assert all(n["high"] - n["low"] < 0.5 * (w["high"] - w["low"]) for w, n in zip(wide, narrow, strict=True))
    files = (tmp_path / "a.csv", tmp_path / "a.png")
    said = run("again", place, 3, "--csv", files[0], "--plot", files[1])
    assert "nothing was spent" in " ".join(said.split()) and "cost 20 % of the budget" in " ".join(said.split())
    assert [row["ward"] for row in csv.DictReader(files[0].read_text(encoding="utf-8").splitlines())] == ["A", "B"]
    assert files[1].stat().st_size > 1000
    assert run("ledger", "show", place, "--json") == before


def test_groups_are_told_pooled_of_what_was_released(data: Path, asked: dict) -> None:
    place = data.with_suffix(".ledger")
    pooled = json.loads(run("again", place, asked["rows"]["entry"], "--pool", "--json"))
    assert pooled["question"] == "pooled proportion of smoker by ward"
    with pytest.raises(InvalidValue, match="--pool is for an answer with groups"):
        run("again", place, asked["terms"]["entry"], "--pool")


def test_shares_beyond_a_value_are_told_of_every_group_with_their_intervals(data: Path) -> None:
    run("ask", data, "median of sbp by ward", "--budget", "approx:1,1e-6", "--spend", "20%")
    place, words = data.with_suffix(".ledger"), ("--probability", "sbp > 120", "--probability", "A > B")
    values = json.loads(run("again", place, 3, *words, "--json"))
    assert [row["group"] for row in values["shares"]] == [["A"], ["B"]]
    assert all(0 <= row["low"] <= row["estimate"] <= row["high"] <= 1 for row in values["shares"])
    assert [claim["claim"] for claim in values["probabilities"]] == ["A > B"]
    said = run("again", place, 3, *words).splitlines()
    assert [line.partition(":")[0] for line in said[-3:]] == ["sbp > 120, A", "sbp > 120, B", "A > B"]
    assert "of the records (" in said[-3] and "probability" in said[-1]


def test_rows_are_compared_as_in_python(data: Path, asked: dict) -> None:
    answer = Answer.from_dict(asked["rows"])
    claims = ("--probability", "A > B", "--probability", "A < 0.3")
    told = json.loads(
        run("again", data.with_suffix(".ledger"), 3, "--level", "80%", "--compare", "A", "B", *claims, "--json")
    )
    low, high = answer.difference("A", "B").interval(0.8)
    assert told["comparison"]["difference"]["low"] == pytest.approx(low)
    assert told["comparison"]["difference"]["high"] == pytest.approx(high)
    assert told["comparison"]["ratio"]["estimate"] == pytest.approx(answer.ratio("A", "B").estimate)
    assert [one["probability"] for one in told["probabilities"]] == pytest.approx(
        [answer.probability("A > B"), answer.probability("A < 0.3")]
    )
    said = run("again", data.with_suffix(".ledger"), 3, "--compare", "B", "A", *claims)
    assert "B less A: " in said and "A < 0.3: probability 0." in said and "Bayes factor" in said
    with pytest.raises(InvalidValue, match="--trend is for an answer with rows"):
        run("again", data.with_suffix(".ledger"), 5, "--trend")


def test_terms_are_combined_and_rows_expected_as_in_python(data: Path, asked: dict) -> None:
    fit, place = Regression.from_dict(asked["terms"]), data.with_suffix(".ledger")
    words = ("--contrast", "sbp=10, ward[T.B]", "--contrast", "Intercept - sbp", "--predict", "sbp=140, ward=A")
    told = json.loads(run("again", place, fit.entry, *words, "--json"))
    for said, found in zip(
        told["contrasts"], (fit.contrast({"sbp": 10, "ward[T.B]": 1}), fit.contrast("Intercept", "sbp")), strict=True
    ):
        assert (said["estimate"], said["low"], said["high"]) == pytest.approx((found.estimate, found.low, found.high))
        assert said["probability"] == pytest.approx(found.probability)
    (row,) = told["predicted"][0]["expected"]
    (frame,) = fit.predict({"sbp": [140], "ward": ["A"]}).to_dict("records")
    assert row == pytest.approx(frame)
    averages = json.loads(run("again", place, fit.entry, "--average", "ward", "--json"))["average_effects"]
    for row, found in zip(averages, fit.average_effects("ward").to_dict("records"), strict=True):
        assert {name: row[name] for name in ("effect", "over")} == {name: found[name] for name in ("effect", "over")}
        assert [row[name] for name in ("estimate", "low")] == pytest.approx(
            [found[name] for name in ("estimate", "low")]
        )
    text = " ".join(run("again", place, fit.entry, "--average", "sbp").split())
    assert "sbp, per unit on smoker, on average: " in text and "P(sign)" in text
    said = " ".join(run("again", place, fit.entry, *words).split())
    assert "10·sbp + ward[T.B]: " in said and "odds ratio" in said and "expected smoker 0." in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "say which answer"),
        ((3, "--idempotency-key", "wards"), "say which answer"),
        ((99,), "no answer of .* has the entry 99"),
        ((0,), "numbered from 1"),
        ((10**30,), "has the entry"),
        (("--idempotency-key", "other"), "the key 'other'"),
        ((3, "--dataset", "others"), "no budget for 'others'"),
        ((3, "--level", "95"), "95"),
        ((3, "--compare", "A", "Z"), "no row of this answer is called 'Z'"),
        ((3, "--compare", "A", "A"), "two different rows"),
        ((3, "--probability", "A is more"), "a claim compares"),
        ((3, "--predict", "sbp=1, ward=A"), "--compare, --probability"),
        ((3, "--contrast", "sbp"), "--compare, --probability"),
        ((5, "--compare", "A", "B"), "--predict, --contrast"),
        ((3, "--average", "sbp"), "--compare, --probability"),
        ((5, "--average", "age"), "no column 'age'"),
        ((5, "--predict", "sbp=1"), "lacks ward"),
        ((5, "--contrast", "age=10"), "of the terms Intercept, sbp, ward"),
        ((3, "--csv", "none/a.csv"), "no folder"),
    ],
)
def test_what_makes_no_sense_is_refused(data: Path, asked: dict, words: tuple, said: str) -> None:
    with pytest.raises(InvalidValue, match=said):
        run("again", data.with_suffix(".ledger"), *words)


def test_what_is_no_answer_is_told_as_what_it_is(data: Path) -> None:
    place = data.with_suffix(".ledger")
    with Curator(data, place, PureDP(1.0), facts=data.with_suffix(".facts.toml"), keep_values=False) as curator:
        curator.proportion("smoker", spend=0.1)
        with pytest.raises(InvalidValue, match="only the hash of entry 3"):
            curator.again(3)
    with Curator(data, place, facts=data.with_suffix(".facts.toml")) as curator:
        given = NoisyStatistics.calibrate(BetaBernoulli(6, 12), n=2000, target=PureDP(0.1))
        curator.release(given, "smoker")
        paid = curator.reserve(given, "smoker", idempotency_key="left")
        answer = curator.proportion("smoker", by="ward", spend=0.1, part=curator.open_part("ada", 0.5))
        assert curator.again(answer.entry, level="80%").rows == Answer(answer.release, level=0.8).rows
        assert curator.again(answer.entry).share == pytest.approx(0.1)  # of the part
    for entry, said in ((5, "is a release, and no answer"), (paid.reservation.entry, "is under way")):
        with pytest.raises(InvalidValue, match=said):
            run("again", place, entry)
    with Ledger(place) as ledger:
        ledger.recover(paid.reservation.entry, note="left")
    with pytest.raises(InvalidValue, match="lost with the process"):
        run("again", place, "--idempotency-key", "left")


def test_one_key_of_two_data_sets_is_told_apart_by_name(data: Path) -> None:
    place, facts = data.with_suffix(".ledger"), data.with_suffix(".facts.toml")
    for name, column in (("one", "smoker"), ("two", "ward")):
        frame = data.with_name(f"{name}.parquet")
        frame.write_bytes(data.read_bytes())
        with Curator(frame, place, parse_promise("pure:1"), facts=facts, dataset=name) as curator:
            curator.proportion(column, spend=0.1, idempotency_key="same")
    with pytest.raises(InvalidValue, match="say which: one, two"):
        run("again", place, "--idempotency-key", "same")
    told = json.loads(run("again", place, "--idempotency-key", "same", "--dataset", "two", "--json"))
    assert told["question"] == "proportion of ward" and told["dataset"] == "two"


def test_a_contrast_costs_nothing_where_it_makes_no_sense(data: Path) -> None:
    formula = (data, "smoker ~ sbp + ward", "--budget", "approx:1,1e-6", "--spend", "20%")
    with pytest.raises(InvalidValue, match="a contrast reads like"):
        run("regress", *formula, "--contrast", "age=10")
    assert not data.with_suffix(".ledger").exists()
    assert "10·sbp: " in run("regress", *formula, "--contrast", "sbp=10")


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("age", {"age": 1.0}),
        (" age = -1e1 ,a - b=.5,", {"age": -10.0, "a - b": 0.5}),
        ("age - a - b", {"age": 1.0, "a - b": -1.0}),
        ("C(w)[T.x, age=1] - age", {"C(w)[T.x, age=1]": 1.0, "age": -1.0}),
    ],
)
def test_a_contrast_in_words_names_terms_as_they_are(text: str, weights: dict[str, float]) -> None:
    assert parse_contrast(text, ["age", "age:sex", "a - b", "C(w)[T.x, age=1]"]) == weights


@pytest.mark.parametrize("text", ["", ",", "age=", "age=x", "age=1 sex=2", "age, age", "age - age", "x" * 20_000])
def test_a_contrast_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        parse_contrast(text, ["age", "sex"])


@pytest.mark.parametrize(
    "words", [("ask", "median of sbp by ward"), ("regress", "smoker ~ sbp", "--where", "sbp > 100")]
)
def test_who_asks_the_same_twice_is_told_that_the_first_answer_is_free(
    data: Path, words: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    verb, question, *rest = words

    def told(*more: str) -> list[str]:
        caplog.clear()
        run(verb, str(data), question, *rest, "--spend", "2%", *more)
        return [record.getMessage().split(" before;")[0] for record in caplog.records]

    other = "mean of sbp" if verb == "ask" else "smoker ~ ward"
    run(verb, str(data), other, *rest, "--budget", "approx:1,1e-6")
    assert told() == []  # another question
    assert told("--spend", "3%") == ["entry 5 answered this very question"]
    assert told("--idempotency-key", "k") == []
    assert told("--protect", "rows") == ["entry 7 answered this very question"]  # the dearest
    os.utime(data, ns=(1, 1))
    with pytest.warns(UserWarning, match="written again"):
        assert told() == []  # of other records, for all that is known
