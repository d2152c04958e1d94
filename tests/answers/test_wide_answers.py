"""What would make an answer narrower is said with forecasts, and the forecasts come true."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sottovoce as sv
from sottovoce.privacy.errors import InvalidValue
from sottovoce.service.answers import Answer

WARDS = [f"w{k}" for k in range(12)]
FACTS = sv.Facts(ward=sv.Category(WARDS), pair=sv.Category(list("abcdef")), smoker=sv.Flag(), sbp=sv.Number(60, 250))


def records(n: int = 3000) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    place = rng.permutation(np.arange(n) % 12)
    ward, pair = np.array(WARDS)[place], np.array(list("abcdef"))[place // 2]
    return pd.DataFrame({"ward": ward, "pair": pair, "smoker": rng.random(n) < 0.3, "sbp": rng.normal(130, 15, n)})


@pytest.fixture
def curator(tmp_path: Path) -> Any:
    with sv.Curator(records(), tmp_path / "ledger", "approx:1,1e-6", facts=FACTS, dataset="wards") as opened:
        yield opened


def width(answer: Any) -> float:
    return float(np.median([row["high"] - row["low"] for row in answer.rows])) / 2


def said(answer: Any) -> str:
    return next((note for note in answer.notes if note.startswith("most of the ±")), "")


def forecast(note: str, way: str) -> float:
    """Read the width that follows a way in a note."""
    return float(note.partition(way)[2].partition("± ")[2].split(maxsplit=1)[0].strip(",;"))


@pytest.mark.parametrize("verb", ["proportion", "mean"])
def test_each_way_gives_about_what_was_said(curator: Any, verb: str) -> None:
    column = "smoker" if verb == "proportion" else "sbp"
    ask = getattr(curator, verb)
    share = 0.02 if verb == "proportion" else 0.1  # of less, spreads are not known and forecasts are too wide
    answer = ask(column, by="ward", spend=share)
    note = said(answer)
    pooled = answer.pooled()
    place = sorted(range(12), key=lambda at: answer.rows[at]["high"] - answer.rows[at]["low"])[6]
    exact = (pooled.rows[place]["high"] - pooled.rows[place]["low"]) / 2
    assert forecast(note, "groups pooled") == pytest.approx(exact, rel=0.06)
    assert exact < 0.95 * width(answer) and pooled.question.pool is True and pooled.cost == answer.cost
    assert forecast(note, "twice as many records") == pytest.approx(width(ask(column, by="pair", spend=share)), rel=0.3)
    assert forecast(note, "twice the share") == pytest.approx(width(ask(column, by="ward", spend=2 * share)), rel=0.3)
    assert curator.again(answer.entry).pooled().rows == pooled.rows  # nothing else was released


def test_it_is_said_where_noise_does_most_and_only_there(curator: Any) -> None:
    assert said(curator.proportion("smoker", by="ward", spend=0.02))
    alone = said(curator.proportion("smoker", spend=0.005))
    assert "twice the share" in alone and "groups" not in alone
    assert not said(curator.proportion("smoker", spend=0.5))
    assert "groups pooled" not in said(curator.proportion("smoker", by="ward", pool=True, spend=0.02))


def test_one_row_and_other_verbs_are_not_pooled(curator: Any) -> None:
    for answer, why in (
        (curator.proportion("smoker", spend=0.05), "there is one row"),
        (curator.quantiles("sbp", by="pair", spend=0.05), "groups are pooled of proportion"),
        (curator.sd("sbp", by="pair", spend=0.05), "groups are pooled of proportion"),
    ):
        with pytest.raises(InvalidValue, match=why):
            answer.pooled()


def test_an_answer_pooled_reads_back(curator: Any) -> None:
    pooled = curator.mean("sbp", by="ward", spend=0.05).pooled()
    assert Answer.from_dict(pooled.to_dict()).rows == pooled.rows
