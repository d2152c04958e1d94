"""What would make a regression's intervals narrower, and by how much: a plan of what was released alone."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sottovoce as sv
from sottovoce.inference.regression import AdaptiveLooks, Formula
from sottovoce.inference.regression.coefficients import Coefficients
from sottovoce.inference.regression.narrowing import narrowings
from sottovoce.inference.regression.precision_forecast import expected_widths, foresee
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Count, Facts, Flag, Number
from sottovoce.records.facts.assumed_distribution import parse_imagined
from sottovoce.service.answers.regression import Regression

N, RHO = 4000, 0.005
FACTS = Facts(
    x=Number(0, 100), z=Number(0, 100), k=Count(60), c=Category(("a", "b", "d")), y=Flag(), t=Number(0, 10), s=Count(20)
)


def released(
    text: str, spread: float = 1.0, rho: float = RHO, facts: Facts = FACTS
) -> tuple[AdaptiveLooks, Coefficients]:
    rng = np.random.default_rng(5)
    z = rng.normal(50, 20, N).clip(0, 100)
    table = {
        "x": rng.normal(50, spread, N).clip(0, 100),
        "z": z,
        "k": rng.poisson(3, N),
        "c": rng.choice(["a", "b", "d"], N, p=[0.5, 0.3, 0.2]),
        "y": rng.random(N) < 0.3,
        "t": rng.normal(4 + z / 50, 1, N).clip(0, 10),
        "s": rng.poisson(1.5, N).clip(0, 20),
    }
    looks = AdaptiveLooks(Formula(text, facts), N, rho)
    value = looks.release(table, seeded_rng(3)).value
    assert isinstance(value, Coefficients)
    return looks, value


def said(value: Coefficients) -> dict[str, float]:
    assert value.rows is not None
    return {text.rpartition("=")[0]: float(text.rpartition("=")[2]) for text in value.rows.said}


def test_the_records_are_told_as_a_plan_imagines_them() -> None:
    told = said(released("y ~ x + z + k + c", spread=15.0, rho=5.0)[1])
    assert told["x"] == pytest.approx(0.15, rel=0.1) and told["z"] == pytest.approx(0.196, rel=0.1)
    assert told["y"] == pytest.approx(0.3, abs=0.03)
    assert told["c:b"] == pytest.approx(0.3, abs=0.04) and told["c:d"] == pytest.approx(0.2, abs=0.04)
    assert told["k"] == pytest.approx(3.0, rel=0.3)
    line = said(released("t ~ z", rho=5.0)[1])
    assert line["t"] == pytest.approx(np.hypot(1.0, 19.6 / 50) / 10, rel=0.15)
    assert said(released("s ~ z", rho=5.0)[1])["s"] == pytest.approx(1.5, rel=0.1)


def test_each_width_is_the_plan_s_of_the_question_that_is_named() -> None:
    looks, value = released("y ~ x + z")
    assert value.rows is not None
    ways = narrowings(value, looks.to_dict(), [1], 0.2)[1]
    widths = {way.way: way.width for way in ways}
    imagined, records = parse_imagined(value.rows.said, FACTS), value.rows.records
    now = expected_widths(looks, imagined, records)[1]

    def foreseen(other: AdaptiveLooks, n: int = records, change: Any = None) -> float:
        return float(expected_widths(other, imagined if change is None else change, n)[1])

    dearer = foreseen(AdaptiveLooks(looks.system, N, 2 * RHO))
    right = foreseen(AdaptiveLooks(Formula("y ~ x + z", FACTS, misses=0), N, RHO))
    many = foreseen(AdaptiveLooks(looks.system, 2 * N, RHO), 2 * records)
    about_x = parse_imagined([text for text in value.rows.said if text[0] in "xy"], FACTS)
    alone = foreseen(AdaptiveLooks(Formula("y ~ x", FACTS), N, RHO), change=about_x)
    closer = Facts(FACTS.said | {"x": Number(25, 75)})
    doubled = [f"x={2 * said(value)['x']!r}" if text.startswith("x=") else text for text in value.rows.said]
    nearer = foreseen(AdaptiveLooks(Formula("y ~ x + z", closer), N, RHO), records, parse_imagined(doubled, closer))
    expected = {
        "with bounds of x half as wide, which is free": nearer,
        "asked alone": alone,
        "with misses=0, if the formula is right": right,
        "with 40 % of the budget": dearer,
        "of twice as many records": many,
    }
    kept = {way: width for way, width in expected.items() if width < 0.9 * now}
    assert widths == pytest.approx(kept) and list(widths) == list(kept) and len(kept) >= 2


def test_the_walk_of_a_forecast_is_near_the_plan() -> None:
    looks = AdaptiveLooks(Formula("y ~ x + z", FACTS), N, 0.05)
    imagined = parse_imagined(["x=0.15", "z=0.2", "y=0.3"], FACTS)
    plan = [item.width for item in foresee(looks, imagined=imagined)]
    np.testing.assert_allclose(expected_widths(looks, imagined), plan, rtol=0.25)


@pytest.mark.parametrize("text", ["t ~ z", "s ~ z", "c ~ z", "y ~ z*c"])
def test_every_family_has_ways_and_none_that_does_not_narrow(text: str) -> None:
    looks, value = released(text)
    now = expected_widths(looks, parse_imagined(value.rows.said, FACTS), value.rows.records)  # type: ignore[union-attr]
    for place, ways in narrowings(value, looks.to_dict(), [1, len(now) - 1], 1.0).items():
        assert all(0 < way.width < 0.9 * now[place] for way in ways)
        assert not any("budget" in way.way for way in ways)  # it was all spent


def test_an_answer_says_them_in_its_notes_and_its_json_and_reads_them_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    columns = {"x": rng.normal(50, 0.3, N), "z": rng.normal(50, 20, N).clip(0, 100), "y": rng.random(N) < 0.3}
    facts = sv.Facts(x=sv.Number(0, 100), z=sv.Number(0, 100), y=sv.Flag())
    with sv.Curator(
        pa.table(columns), tmp_path / "n.ledger", sv.ApproxDP(1.0, 1e-6), facts=facts, dataset="narrow"
    ) as curator:
        answer = curator.regress("y ~ x + z", spend=0.2)
        spent = curator.left()
        state = json.loads(answer.to_json())
        assert curator.left() == spent
    (note,) = (note for note in answer.notes if note.startswith("x: "))
    assert note.startswith("x: not known at this budget; foreseen ± ")
    row = next(row for row in state["table"] if row["term"] == "x")
    assert note == f"x: {row['note']}"
    widths = [way["width"] for way in state["narrower"]["x"]]
    assert widths and all(f"± {float(f'{width:.2g}'):g}" in note for width in widths)
    back = Regression.from_json(answer.to_json())
    assert back.narrowings == answer.narrowings and back.notes == answer.notes
    del state["release"]["value"]["rows"]  # as an earlier version wrote it
    earlier = Regression.from_dict(state)
    assert not earlier.narrowings
    words = next(row["note"] for row in earlier.rows if row["term"] == "x")
    assert words.startswith("not known at this budget; state closer bounds of x")
