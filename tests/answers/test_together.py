"""Answers told together: narrower than each, and holding the truth as often as they say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sottovoce as sv
from sottovoce.privacy.errors import InvalidValue
from sottovoce.service.answers import Answer

FACTS = sv.Facts(stay=sv.Number(0, 60), smoker=sv.Flag(), ward=sv.Category(["N", "S"]))
LEDGER = sv.ZeroConcentratedDP(1e6)
"""A budget without end: what is tried is what is said of the answers."""


def records(n: int = 1500) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {"stay": rng.gamma(2.0, 4.0, n), "smoker": rng.random(n) < 0.3, "ward": rng.choice(["N", "S"], n)}
    )


@pytest.fixture
def curator(tmp_path: Path) -> Any:
    with sv.Curator(records(), tmp_path / "ledger", LEDGER, facts=FACTS, dataset="stays") as opened:
        yield opened


@pytest.mark.parametrize("promise", [sv.ZeroConcentratedDP(0.002), sv.PureDP(0.1)], ids=["gaussian", "laplace"])
@pytest.mark.parametrize("verb", ["counts", "proportion", "mean", "quantiles"])
def test_together_is_narrower_and_holds(curator: Any, verb: str, promise: Any) -> None:
    held = records()
    truths = {
        "counts": held["ward"].value_counts()[["N", "S"]].tolist(),
        "proportion": [held["smoker"].mean()],
        "mean": held.groupby("ward")["stay"].mean().tolist(),
        "quantiles": np.quantile(held["stay"], [0.25, 0.5, 0.75]).tolist(),
    }[verb]
    asked: dict[str, Any] = {
        "counts": {"columns": "ward"},
        "proportion": {"column": "smoker"},
        "mean": {"column": "stay", "by": "ward"},
        "quantiles": {"column": "stay"},
    }[verb]
    tables, inside, ratios = 6 if verb == "quantiles" else 20, [], []
    for _ in range(tables):
        each = [
            getattr(curator, verb)(*asked.values(), spend=promise)
            if len(asked) == 1
            else getattr(curator, verb)(asked["column"], by=asked["by"], spend=promise)
            for _ in range(3)
        ]
        both = curator.together([answer.entry for answer in each])
        each = [curator.again(answer.entry) for answer in each]  # which are told alone
        widths = [np.mean([row["high"] - row["low"] for row in answer.rows]) for answer in each]
        ratios.append(np.mean([row["high"] - row["low"] for row in both.rows]) / np.mean(widths))
        inside += [row["low"] <= truth <= row["high"] for row, truth in zip(both.rows, truths, strict=True)]
    assert np.mean(inside) >= 0.8  # .95 is said; rows of one table go together, and tables are few
    assert np.median(ratios) < 0.9  # 1/√3 where noise is all that is not known


def test_what_does_not_go_together_is_refused(curator: Any, tmp_path: Path) -> None:
    cheap = sv.ZeroConcentratedDP(0.01)
    first = curator.counts("ward", spend=cheap).entry
    other = curator.counts("ward", where="stay > 3", spend=cheap).entry
    fit = curator.regress("smoker ~ stay", spend=cheap).entry
    for entries, said in (
        ([first, other], "answers to one question"),
        ([first, fit], "is a regression"),
        ([first], "two entries or more"),
        ([first, first], "each once"),
        ([first, 10**6], "no answer of"),
        ("12", "name the entries"),
        (first, "name the entries"),
    ):
        with pytest.raises(InvalidValue, match=said):
            curator.together(entries)


def test_answers_about_versions_are_not_put_together(tmp_path: Path) -> None:
    place, entries = tmp_path / "stays.parquet", []
    for n in (100, 120):
        records(n).to_parquet(place)
        with sv.Curator(place, tmp_path / "ledger", LEDGER, facts=FACTS, grows=True) as curator:
            entries.append(curator.counts("ward", spend=sv.ZeroConcentratedDP(0.1)).entry)
    with (
        sv.Curator(place, tmp_path / "ledger", facts=FACTS) as curator,
        pytest.raises(InvalidValue, match="different versions of the data"),
    ):
        curator.together(entries)


def test_a_loud_and_a_quiet_answer_are_as_good_as_the_quiet_one(curator: Any) -> None:
    quiet = curator.counts("ward", spend=sv.ZeroConcentratedDP(50.0))
    loud = curator.counts("ward", spend=sv.ZeroConcentratedDP(1e-6))
    both = curator.together([loud.entry, quiet.entry])
    for row, known in zip(both.rows, quiet.rows, strict=True):
        assert row["estimate"] == pytest.approx(known["estimate"], abs=1)
        assert row["high"] - row["low"] <= known["high"] - known["low"] + 3
    assert both.share == pytest.approx((loud.share or 0) + (quiet.share or 0))
    assert "in 2 answers" in both.methods()
    assert Answer.from_dict(both.to_dict()).rows == both.rows


def test_the_command_line(curator: Any, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from sottovoce.faces.cli import application

    entries = [curator.counts("ward", spend=sv.ZeroConcentratedDP(0.01)).entry for _ in range(3)]
    command = ["again", str(tmp_path / "ledger"), str(entries[0]), "--with", str(entries[1]), "--with", str(entries[2])]
    said = CliRunner().invoke(application("again"), [*command, "--json"], catch_exceptions=False)
    assert json.loads(said.stdout)["table"] == curator.together(entries).rows
    wrong = CliRunner().invoke(application("again"), [*command[:4], str(entries[0])])
    assert wrong.exit_code != 0


@pytest.mark.parametrize("verb", ["mean", "quantiles"])
def test_a_question_asked_again_is_told_with_all_that_earlier_answers_know(curator: Any, verb: str) -> None:
    asked = [getattr(curator, verb)("stay", spend=sv.ZeroConcentratedDP(0.002)) for _ in range(3)]
    entries = [answer.entry for answer in asked]
    assert [answer.together for answer in asked] == [(), tuple(entries[:2]), tuple(entries)]
    assert asked[2].rows == curator.together(entries).rows
    assert asked[2].rows != curator.again(entries[2]).rows
    assert "told here too" in asked[2].notes[-1] and asked[2].share == asked[0].share
    assert Answer.from_json(asked[2].to_json()).rows == asked[2].rows


def test_of_two_kinds_of_noise_quantiles_are_told_alone(curator: Any) -> None:
    curator.quantiles("stay", spend=sv.ZeroConcentratedDP(0.002))
    second = curator.quantiles("stay", spend=sv.PureDP(0.1))
    assert second.together == () and second.rows == curator.again(second.entry).rows
