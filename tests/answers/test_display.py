"""What people see of answers, curators and releases: the numbers as they are, escaped, well formed, at extremes too."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from sottovoce.mechanisms import DiffusedPosterior, NoisyStatistics, Release
from sottovoce.mechanisms.conjugate import BetaBernoulli
from sottovoce.privacy.promises import ApproxDP, RenyiDP
from sottovoce.privacy.pure import PureProfile
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Facts, Flag, Number
from sottovoce.service.answers.digits import formatted
from sottovoce.service.answers.display import drawn_rows, html_table, plain_words, scale_of
from sottovoce.service.curator import Curator

TRAP = '"><script>alert(1)</script>'


def row(estimate: float | None, low: float, high: float, noise: float = 0.5, **labels: Any) -> dict[str, Any]:
    return labels | {"estimate": estimate, "low": low, "high": high, "privacy_share": noise}


ROWS = [
    [row(0.5, 0.25, 0.75)],
    [row(3.0, 3.0, 3.0)],
    [row(0.0, 0.0, 0.0)],
    [row(-2.0, -3.0, -1.0), row(1e9, 1.0, 2e9)],
    [row(1e-300, 0.0, 1e-299)],
    [row(1.0, 0.0, math.inf), row(math.nan, 0.0, 1.0)],
    [row(5.0, 4.0, 6.0, noise=0.0), row(5.0, 4.0, 6.0, noise=1.0)],
]


def test_the_middle_of_a_row_that_noise_hides_is_neither_told_nor_drawn() -> None:
    """Of 0 to 50,000 the middle is no estimate, and nobody knows where a range without privacy would lie."""
    rows = [row(None, 0.0, 50_000.0), row(3_000.0, 2_000.0, 4_000.0), row(25_000.0, 0.0, 49_000.0)]
    _, found, _ = drawn_rows(rows)
    assert [one.estimate for one in found] == ["?", "3,000", "25,000"]
    assert [one.low + one.high for one in found] == ["050,000", "2,0004,000", "049,000"]
    assert [one.picture.count('class="dot"') for one in found] == [0, 1, 1]
    assert [one.picture.count('class="plain"') for one in found] == [0, 1, 1]
    assert [one.picture.count("dasharray") for one in found] == [1, 0, 0]


def test_a_row_that_noise_hides_leaves_the_others_their_room() -> None:
    """Nobody sees where means of 1 to 3 lie on a scale up to 10,000; alone, its range is the scale."""
    known, hidden = row(2.0, 1.0, 3.0), row(None, 0.0, 10_000.0)
    assert scale_of([known, hidden]) == scale_of([known])
    assert scale_of([hidden]).high >= 10_000
    (_, dashed), ends = drawn_rows([known, hidden])[1], re.compile(r'x1="([\d.]+)%" x2="([\d.]+)%"')
    assert [float(x) for x in ends.findall(dashed.picture)[0]] == [0.0, 100.0]


@pytest.mark.parametrize("rows", ROWS)
def test_every_number_lies_on_the_scale_at_its_place(rows: list[dict[str, Any]]) -> None:
    scale = scale_of(rows)
    assert scale.low < scale.high and 1 <= len(scale.ticks) <= 9
    finite = [one[name] for one in rows for name in ("low", "high") if math.isfinite(one[name])]
    places = [scale.place(value) for value in sorted(finite)]
    assert places == sorted(places) and all(0 <= place <= 100 for place in places)
    _, drawn, _ = drawn_rows(rows)
    for one in drawn:
        if one.picture:
            numbers = [float(n) for n in re.findall(r'(?:x1|x2|cx)="([\d.]+)%"', one.picture)]
            assert all(0 <= n <= 100 for n in numbers)
            ElementTree.fromstring(one.picture)


def test_scales_reach_to_the_end_of_doubles_and_write_millions_short() -> None:
    ends = {"estimate": 0.0, "low": -1.7e308, "high": 1.7e308}
    scale = scale_of([ends])
    assert (scale.place(-1.7e308), scale.place(0.0), scale.place(1.7e308)) == (0.0, 50.0, 100.0)
    assert all(math.isfinite(tick) for tick in scale.ticks) and len(scale.ticks) > 2
    millions = scale_of([{"estimate": 1.5e7, "low": 0.0, "high": 2.1e7}]).axis()
    assert ">20M<" in millions and "e+" not in millions


def test_a_picture_shows_the_interval_and_the_part_that_is_not_noise() -> None:
    _, (drawn,), scale = drawn_rows([row(2.0, 1.0, 4.0, noise=0.75)])
    rest, plain = re.findall(r'x1="([\d.]+)%" x2="([\d.]+)%"', drawn.picture)
    assert [float(n) for n in rest] == pytest.approx([scale.place(1.0), scale.place(4.0)], abs=0.01)
    wide, narrow = (float(b) - float(a) for a, b in (rest, plain))
    assert narrow / wide == pytest.approx(0.25, abs=0.01)
    assert (drawn.estimate, drawn.low, drawn.high, drawn.privacy) == ("2.0", "1.0", "4.0", "75 %")


def test_numbers_have_the_digits_that_the_interval_bears_out() -> None:
    assert formatted({"estimate": 1234.5678, "low": 1234.0, "high": 1235.0}) == ["1,234.6", "1,234.0", "1,235.0"]
    assert formatted({"estimate": 12.4, "low": 2.0, "high": 40.0}, counts=True) == ["12", "2", "40"]
    assert formatted({"estimate": None, "low": -math.inf, "high": math.inf}) == ["?", "-∞", "∞"]
    assert formatted({"estimate": -0.001, "low": -0.4, "high": 0.4}) == ["0.00", "-0.40", "0.40"]


def test_what_is_shown_is_escaped() -> None:
    shown = html_table([row(0.5, 0.2, 0.8, **{TRAP: TRAP})], TRAP, TRAP)
    assert "<script" not in shown
    ElementTree.fromstring(f"<div>{shown}</div>")


def test_the_words_say_how_often_and_why() -> None:
    assert plain_words(0.9, 3).startswith("In 90 of 100 answers like this one, the true number of a row")
    assert "to hide any one person in the answer as well as the budget promises" in plain_words(0.95, 1)


@pytest.fixture
def curator(tmp_path: Path) -> Curator:
    facts = Facts(smoker=Flag(), ward=Category(["A", "<b>"]), age=Number(0, 110))
    return Curator(facts.dummy(300), tmp_path / "x.ledger", ApproxDP(1.0, 1e-6), facts=facts, dataset="patients <1>")


def test_a_curator_shows_itself_also_when_it_is_closed(curator: Curator) -> None:
    assert repr(curator) == "Curator('patients <1>', n=300, budget approx:1,1e-06)"
    assert "Nothing was asked yet" in curator._repr_html_()
    curator.mean("age", by="ward", spend=0.25)
    mechanism = DiffusedPosterior.calibrate(BetaBernoulli(6, 12), 300, RenyiDP(20, 0.001))
    curator.release(mechanism, "smoker", where="age > 40")
    shown = curator._repr_html_()
    assert "mean of age by ward" in shown and "diffused posterior of smoker where age &gt; 40" in shown
    assert "% left: about" in shown and "patients &lt;1&gt;" in shown and "<b>" not in shown
    ElementTree.fromstring(shown.replace("<br>", "<br/>"))
    curator.close()
    assert "patients &lt;1&gt;" in curator._repr_html_() and "n=300" in repr(curator)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.25, "0.25"),
        (np.array(0.25), "0.25"),
        (np.zeros(7), "7 samples"),
        (np.zeros((7, 2, 3)), "7 samples of 2 by 3 numbers"),
        ({"query": TRAP}, "query"),
    ],
)
def test_a_release_is_short_in_words(value: Any, said: str) -> None:
    release = Release(value, PureProfile(0.1), {"mechanism": "test"})
    assert said in repr(release) and len(repr(release)) < 160 and "never to publish" not in repr(release)
    assert "<script" not in release._repr_html_() and "ε = 0.1" in release._repr_html_()


def test_a_release_of_a_posterior_shows_its_interval_and_that_it_was_seeded() -> None:
    mechanism = NoisyStatistics.calibrate(BetaBernoulli(1, 1), 100, ApproxDP(1.0, 1e-6), noise="gaussian")
    release = mechanism.release([True] * 30 + [False] * 70, seeded_rng(1))
    assert re.search(r"theta: 0\.\d+ \(0\.\d+ to 0\.\d+\), by noisy statistics, made with a seed", repr(release))
    assert re.search(r"ε = (1\.00\d*|1) at δ = 1e-6", release._repr_html_())
