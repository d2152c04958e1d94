"""Table 1: the numbers of the data where noise is next to nothing, one price, and odd tables are refused."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

import sottovoce as sv
from sottovoce.privacy.errors import BudgetExceeded, InvalidValue
from sottovoce.service.answers.description_plan import equal_widths
from sottovoce.service.answers.word_table import word_document

WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"

N = 4000
FACTS = sv.Facts(
    age=sv.Number(18, 90),
    smoker=sv.Flag(),
    grade=sv.Category(["mild", "severe"]),
    ward=sv.Category(["A", "B"]),
    seen=sv.Day("2024-01-01", "2024-12-31"),
)


def patients() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    ward = rng.choice(["A", "B"], N, p=[0.3, 0.7])
    age = np.clip(rng.normal(np.where(ward == "A", 60, 50), 10), 18, 90)
    smoker = np.array(
        [None if gone else bool(yes) for gone, yes in zip(rng.random(N) < 0.1, rng.random(N) < 0.3, strict=True)]
    )
    grade = rng.choice(["mild", "severe"], N, p=[0.8, 0.2])
    return pd.DataFrame(
        {"age": np.where(rng.random(N) < 0.05, np.nan, age), "smoker": smoker, "grade": grade, "ward": ward}
    ).assign(seen=pd.Timestamp("2024-02-01"))


@pytest.fixture
def curator(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[sv.Curator]:
    budget = getattr(request, "param", sv.ApproxDP(2.0, 1e-6))
    with sv.Curator(patients(), tmp_path / "l", budget, facts=FACTS, dataset="p") as opened:
        yield opened


@pytest.mark.parametrize("curator", [sv.PureDP(300.0)], indirect=True)
def test_next_to_no_noise_leaves_the_numbers_of_the_data(curator: sv.Curator) -> None:
    table, frame = curator.describe(["age", "smoker", "grade"], by="ward", spend=0.9).table, patients()
    for ward, held in frame.groupby("ward"):
        age, smoker = held["age"].dropna(), held["smoker"].dropna().astype(bool)
        wanted = {
            ("age", "mean"): (age.mean(), 0.2),
            ("age", "sd"): (age.std(), 0.3),
            ("age", "median"): (age.median(), 0.5),
            ("age", "quantile 0.25"): (age.quantile(0.25), 0.5),
            ("age", "quantile 0.75"): (age.quantile(0.75), 0.5),
            ("age", "missing"): (held["age"].isna().sum(), 2),
            ("smoker", "missing"): (held["smoker"].isna().sum(), 1),
            ("grade", "missing"): (0, 1),
        }
        held_rows = table[table["ward"] == ward]
        told = dict(
            zip(zip(held_rows["column"], held_rows["statistic"], strict=True), held_rows["estimate"], strict=True)
        )
        for (column, statistic), (truth, off) in wanted.items():
            assert abs(told[column, statistic] - truth) <= off, (column, statistic)
        yes = table[(table["ward"] == ward) & (table["column"] == "smoker") & (table["value"] == True)]  # noqa: E712
        assert abs(yes["estimate"].iloc[0] - smoker.sum()) <= 1
        assert abs(yes["estimate"].iloc[1] - smoker.mean()) < 0.01
    assert (table["low"] <= table["estimate"] + 1e-9).all() and (table["estimate"] <= table["high"] + 1e-9).all()


def test_one_price_is_split_and_every_question_has_an_entry(curator: sv.Curator) -> None:
    described = curator.describe(["age", "smoker", "grade"], by="ward", spend="20%")
    assert curator.share_left() == pytest.approx(0.8, abs=1e-6)
    assert curator.share_left() >= 0.8 - 1e-9
    assert described.share == pytest.approx(0.2, abs=1e-6)
    assert len(set(described.entries)) == len(described.answers) == 5
    again = curator.describe(["age", "smoker", "grade"], by="ward", spend="20%", again=True)
    assert again.entries == described.entries and curator.share_left() == pytest.approx(0.8, abs=1e-6)
    assert again.rows == described.rows
    head, body = described.paper_lines()
    assert head == ["", "A", "B", "B less A", "P(sign)"]
    assert [line[0] for line in body] == [
        "age, mean (SD)",
        "age, median [IQR]",
        "age: missing, n",
        "smoker, n (%)",
        "smoker: missing, n",
        "grade: mild, n (%)",
        "grade: severe, n (%)",
        "grade: missing, n",
    ]
    assert "age, mean (SD)" in described.to_markdown() and r"\toprule" in described.to_latex(label="t")
    assert "<table>" in described._repr_html_() and "entries" in described.summary()
    json.dumps(described.to_dict(), allow_nan=False)


@pytest.mark.parametrize("curator", [sv.PureDP(300.0)], indirect=True)
def test_groups_are_compared_and_it_is_said_how_many_differences_were(curator: sv.Curator) -> None:
    described = curator.describe(["age", "smoker", "grade"], by="ward", spend=0.9)
    apart = {(row["column"], row["value"]): row for row in described.differences}
    assert list(apart) == [("age", None), ("smoker", True), ("grade", "mild"), ("grade", "severe")]
    frame = patients()
    means, shares = (
        frame.groupby("ward")["age"].mean(),
        frame.groupby("ward")["grade"].agg(lambda g: np.mean(g == "mild")),
    )
    age, mild = apart["age", None], apart["grade", "mild"]
    assert age["group"] == "B" and age["beside"] == "A" and age["probability"] > 0.999
    assert age["estimate"] == pytest.approx(means["B"] - means["A"], abs=0.3)
    assert mild["estimate"] == pytest.approx(shares["B"] - shares["A"], abs=0.01)
    assert mild["low"] < mild["estimate"] < mild["high"]
    assert mild["probability"] == pytest.approx(apart["grade", "severe"]["probability"], abs=1e-9)
    assert any("4 differences between groups were compared" in note for note in described.notes)
    line = next(line for line in described.paper_lines()[1] if line[0] == "age, mean (SD)")
    assert line[3].startswith("-") and line[4] == ">0.999"
    assert described.to_dict()["differences"] == described.differences


def test_more_than_two_groups_are_set_beside_the_first(curator: sv.Curator) -> None:
    described = curator.describe("grade", by=["ward", "age: under 50, 50+"], spend=0.2)
    groups = [row["group"] for row in described.differences if row["value"] == "mild"]
    assert groups == ["A / 50 and over", "B / under 50", "B / 50 and over"]
    assert "P(sign)" not in described.paper_lines()[0]
    assert curator.describe("grade", spend=0.1).differences == []


def test_the_table_is_written_for_word_and_for_great_tables(curator: sv.Curator, tmp_path: Path) -> None:
    described = curator.describe(["age", "grade"], by="ward", spend=0.2)
    described.to_docx(tmp_path / "t.docx")
    with zipfile.ZipFile(tmp_path / "t.docx") as archive:
        assert archive.testzip() is None
        tree = ElementTree.fromstring(archive.read("word/document.xml"))
    cells = ["".join(cell.itertext()) for cell in tree.iter(f"{WORD}tc")]
    head, body = described.paper_lines()
    assert cells == [cell for line in [head, *body] for cell in line]
    gt = pytest.importorskip("great_tables")
    typeset = described.as_gt()
    assert isinstance(typeset, gt.GT) and "age, mean (SD)" in typeset.as_raw_html()
    said = described.methods()
    assert f"The {len(described.answers)} releases together cost ε = " in said and "rounds" in said
    assert said.count("discrete Gaussian noise") == 2 and said.count("Canonne") == 1 and "one record replaced" in said
    regression = curator.regress("smoker ~ age", spend=0.2)
    assert "odds ratio" in regression.as_gt().as_raw_html()
    regression.to_docx(tmp_path / "r.docx")
    assert zipfile.is_zipfile(tmp_path / "r.docx")


def test_a_word_document_holds_whatever_a_name_may_be() -> None:
    document = word_document("a & <b>\x00", ["\ud800", "n"], [["]]>", "1"]], ["note"], 1)
    with zipfile.ZipFile(io.BytesIO(document)) as archive:
        text = "".join(ElementTree.fromstring(archive.read("word/document.xml")).itertext())
    assert text == "a & <b>n]]>1Note."
    assert document == word_document("a & <b>\x00", ["\ud800", "n"], [["]]>", "1"]], ["note"], 1)


def test_nothing_is_asked_unless_all_is_covered_and_a_part_that_was_charged_is_said(
    curator: sv.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    curator.proportion("smoker", spend=0.5)
    with pytest.raises(BudgetExceeded, match="nothing was spent"):
        curator.describe(["age", "smoker"], spend=0.6)
    assert curator.share_left() == pytest.approx(0.5, abs=1e-6)
    answer, asked = type(curator).answer, []

    def failing(self: Any, question: Any, **options: Any) -> Any:
        asked.append(question)
        if len(asked) == 3:
            raise OSError("the disk is full")
        return answer(self, question, **options)

    monkeypatch.setattr(type(curator), "answer", failing)
    with pytest.raises(OSError, match="full") as caught:
        curator.describe(["age", "smoker"], spend=0.1)
    entries = [entry.id for entry in curator.history() if str(entry.state) != "void"][-2:]
    assert f"entries {entries[0]}, {entries[1]}" in caught.value.__notes__[0]


def test_without_groups_and_with_a_condition(curator: sv.Curator) -> None:
    bare = curator.describe(["age", "smoker"], spend=0.1)
    missing = next(row for row in bare.rows if (row["column"], row["statistic"]) == ("age", "missing"))
    assert missing["low"] <= patients()["age"].isna().sum() <= missing["high"]
    some = curator.describe("smoker", by="age: under 50, 50+", where="grade = 'mild'", spend=0.1)
    assert some.paper_lines()[0] == ["", "under 50", "50 and over", "50 and over less under 50", "P(sign)"]
    one = curator.describe("grade", by="ward", where="ward = 'A'", spend=0.05)
    assert one.paper_lines()[0] == ["", "A"]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"columns": []}, "name the columns"),
        ({"columns": ["age", "age"]}, "once"),
        ({"columns": ["seen"]}, "is a day"),
        ({"columns": ["ward"], "by": "ward"}, "leave it out"),
        ({"columns": ["age"], "spend": 0}, "share of the budget"),
        ({"columns": ["age"], "spend": "approx:1,1e-6"}, "share of the budget"),
        ({"columns": ["age"], "spent": 0.1}, "did you mean"),
        ({"columns": 3}, "named by texts. Got 3"),
        ({"columns": [["age"]]}, "named by texts"),
        ({"columns": {"age": "smoker"}}, "named by texts"),
    ],
)
def test_odd_descriptions_are_refused(curator: sv.Curator, asked: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        curator.describe(**asked)
    assert curator.share_left() == 1


def test_no_question_starves() -> None:
    assert sum(equal_widths([1e9, 1.0, 1.0], 0.3)) == pytest.approx(0.3)
    assert min(equal_widths([1e9, 1.0, 1.0], 0.3)) > 0.3 / 3 / 4 / 1.5
    assert sum(equal_widths([0.0, 0.0], 0.2)) <= 0.2


@pytest.mark.parametrize("middle", [-2.0, -5.0, -12.0])
def test_noise_far_below_zero_does_not_make_it_sure_that_none_is_missing(middle: float) -> None:
    """The law of a number from zero on given a normal observation is a truncated normal law, here by quadrature."""
    from sottovoce.service.answers.description import _count_row

    spread = 30.0
    draws = np.random.default_rng(1).normal(spread * middle, spread, (4000, 1))
    grid = np.arange(0, 400)
    odds = np.exp(-(((grid - spread * middle) / spread) ** 2) / 2 + middle**2 / 2)
    wanted = grid[np.searchsorted(np.cumsum(odds) / odds.sum(), 0.975)]
    row = _count_row(draws, 0.95)
    assert row["low"] == 0 and row["high"] > 0
    assert row["high"] == pytest.approx(wanted, rel=0.15, abs=1.5)
