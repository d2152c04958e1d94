"""Quantiles of days are told as dates, whatever shows them, and hold what the records say."""

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sottovoce as sv
from sottovoce.inference.cells.questions import Question
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.records.facts import Category, Facts
from sottovoce.service.answers import Answer
from sottovoce.service.answers.display import drawn_rows, scale_of

FIRST, N = datetime.date(2020, 1, 1), 4000
FACTS = Facts(
    {"ward": sv.Category(["A", "B"]), "came in": sv.Day(FIRST, "2026-12-31"), "gap": sv.Day(FIRST, "2020-12-31")}
)


@pytest.fixture(scope="module")
def records() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    ward = rng.choice(["A", "B"], N)
    days = rng.integers(200, 500, N) + 300 * (ward == "B")
    gap = [None if k % 4 == 0 else FIRST + datetime.timedelta(days=int(k % 100)) for k in range(N)]
    gap[1], gap[2] = datetime.date(1, 1, 1), datetime.date(9999, 12, 31)  # count as the first and the last day
    came = [FIRST + datetime.timedelta(days=int(day)) for day in days]
    return pd.DataFrame({"ward": ward, "came in": came, "gap": gap})


@pytest.fixture
def curator(records: pd.DataFrame, tmp_path: Path) -> Any:
    options: dict[str, Any] = {"budget": "approx:8,1e-6", "dataset": "stays"}
    with sv.Curator(records, facts=FACTS, ledger=tmp_path / "ledger", **options) as opened:
        yield opened


def test_quartiles_are_dates_that_hold_those_of_the_records(curator: Any, records: pd.DataFrame) -> None:
    answer = curator.quantiles("came in", by="ward", spend=0.5)
    for row in answer.rows:
        true = records.loc[records.ward == row["ward"], "came in"].sort_values().reset_index(drop=True)
        quantile = true[int(np.ceil(row["quantile"] * len(true))) - 1]
        assert row["low"] <= quantile.isoformat() <= row["high"]
        assert row["low"] <= row["estimate"] <= row["high"]
        width = datetime.date.fromisoformat(row["high"]) - datetime.date.fromisoformat(row["low"])
        assert width.days < 60  # of 2,557 days
    assert str(answer.table["estimate"].dtype).startswith("datetime64")
    assert answer.rows[0]["estimate"] in answer.summary() and answer.rows[0]["low"] in answer.to_markdown()
    assert any("days before 2020-01-01 count as 2020-01-01" in note for note in answer.notes)
    again = Answer.from_dict(json.loads(json.dumps(answer.to_dict())))
    assert again.rows == answer.rows == curator.again(answer.entry).rows


def test_what_follows_is_of_days_and_dates(curator: Any, records: pd.DataFrame) -> None:
    median = curator.quantiles("came in", 0.5, by="ward", spend=0.5)
    later = median.difference("B", "A")
    assert later.low < 300 < later.high and later.high - later.low < 60
    assert median.probability("B > A") > 0.99 and median.probability("A > '2020-10-01'") > 0.99
    assert median.compare("B", "A").factor is None
    share = median.share_of("came in >= 2021-05-15", "B")
    there = records.loc[records.ward == "B", "came in"]
    assert share[1] <= np.mean(there >= datetime.date(2021, 5, 15)) <= share[2]
    curve = median.ecdf("B")
    assert curve.below("2021-05-15")[0] == pytest.approx(1 - share[0])
    assert curve.rows[0]["value"] == "2020-01-01" and curve.rows[-1] == {
        "value": "2027-01-01",
        "estimate": 1.0,
        "low": 1.0,
        "high": 1.0,
    }
    for claim in ("came in > 3", "A > soon"):
        with pytest.raises(InvalidValue, match="is compared with a date, such as 2020-01-01"):
            median.probability(claim, *(("A",) if "came" in claim else ()))
    with pytest.raises(InvalidValue, match="one day over another has no meaning"):
        median.ratio("A", "B")


def test_pictures_have_dates_on_their_axes(curator: Any) -> None:
    pytest.importorskip("matplotlib")
    answer = curator.quantiles("came in", 0.5, by="ward", spend=0.5)
    for drawing in (answer.plot(), answer.plot(densities=True), answer.ecdf("A").plot()):
        drawing.canvas.draw()
        assert any(label.get_text().startswith("202") for label in drawing.axes[0].get_xticklabels())
    _, drawn, scale = drawn_rows(answer.rows)
    assert drawn[0].estimate == answer.rows[0]["estimate"] and "202" in scale.axis()
    same = [dict(row, low=row["estimate"], high=row["estimate"]) for row in answer.rows[:1]]
    assert scale_of(same).high - scale_of(same).low == 2  # a day to either side


def test_missing_days_are_left_out_and_those_beyond_count_as_the_ends(curator: Any) -> None:
    answer = curator.quantiles("gap", [0.25, 0.5, 0.75], spend=0.5)
    there = np.sort([k % 100 for k in range(N) if k % 4 and k > 2])
    for row, p in zip(answer.rows, (0.25, 0.5, 0.75), strict=True):
        true = FIRST + datetime.timedelta(days=int(there[int(p * there.size)]))
        assert row["low"] <= true.isoformat() <= row["high"]


def test_days_are_planned_and_asked_in_words_and_other_verbs_name_quantiles(curator: Any) -> None:
    assert 0 < curator.plan('median of "came in"').width < 2557
    closer = curator.balance('median of "came in"', imagined=["came in=0.02"]).at(0.05).width
    assert closer < curator.balance('median of "came in"').at(0.05).width
    said = curator.ask('median of "came in" by ward', spend=0.1)
    assert said.question.describe() == 'median of "came in" by ward' and said.rows[0]["estimate"] > "2020"
    for verb in ("mean", "sd"):
        with pytest.raises(InvalidValue, match="is a day; ask for its quantiles"):
            getattr(curator, verb)("came in", spend=0.1)


def test_a_question_of_days_reads_a_derived_column_of_whole_days() -> None:
    facts = Facts(day=sv.Day("2024-01-01", "2024-01-31"), ward=Category(("A", "B")))
    question = Question("quantiles", ("day",), facts, by=("ward",), at=(0.5,))
    assert question.columns == ["ward", "day - '2024-01-01'"] and question.whole
    assert (question.value_axis.low, question.value_axis.high) == (-0.5, 30.5)
    assert Question.from_dict(question.to_dict()) == question


def test_days_that_are_text_are_read_or_refused_in_a_line_before_anything_is_charged(tmp_path: Path) -> None:
    days = [(FIRST + datetime.timedelta(days=k % 300)).isoformat() for k in range(N)]
    written = pd.DataFrame({"came in": days})
    written.to_parquet(tmp_path / "stays.parquet")
    written.to_csv(tmp_path / "stays.csv", index=False)
    facts = Facts({"came in": sv.Day(FIRST, "2026-12-31")})
    for k, source in enumerate((written, tmp_path / "stays.csv", tmp_path / "stays.parquet")):
        options: dict[str, Any] = {"facts": facts, "budget": "approx:1,1e-6", "dataset": "stays"}
        with sv.Curator(source, ledger=tmp_path / f"{k}.ledger", **options) as curator:
            asked = (
                lambda c=curator: c.quantiles("came in", spend=0.5),
                lambda c=curator: c.counts("month(`came in`)"),
            )
            for ask in asked:
                if k < 2:
                    assert ask().rows[0]["estimate"] is not None
                    continue
                with pytest.raises(InvalidData, match=r"holds text, .* keep it as days; texts such as") as refused:
                    ask()
                assert "\n" not in str(refused.value) and not curator.history()
