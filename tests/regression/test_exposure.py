"""Exposures in regressions of counts: the same model as anyone's, a bounded pull, and every record has one."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sottovoce.faces.cli import application
from sottovoce.inference.regression import AdaptiveLooks, Formula
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Count, Facts, Flag, Number
from sottovoce.records.readings import Look
from sottovoce.records.tables import open_table
from sottovoce.service.answers.catalogue import CATALOGUE
from sottovoce.service.answers.predictions import expected, predict

FACTS = Facts(
    visits=Count(60),
    age=Number(18, 90),
    ward=Category(("A", "B", "C")),
    days=Number(1, 365),
    died=Flag(),
    z=Number(0, 1),
)

TOML = (
    "[visits]\nkind='count'\nhigh=60\n[age]\nkind='number'\nlow=18\nhigh=90\n"
    "[ward]\nkind='category'\ncategories=['A','B','C']\n[days]\nkind='number'\nlow=1\nhigh=365\n"
)


def records(n: int, seed: int = 1) -> dict[str, np.ndarray]:
    rng = seeded_rng(seed)
    age, ward = rng.normal(50, 12, n).clip(18, 90), rng.choice(list("ABC"), n)
    days = np.exp(rng.normal(3.5, 1, n)).clip(1, 365)
    y = rng.poisson(days * np.exp(-4 + 0.02 * (age - 50) + 0.5 * (ward == "B") - 0.3 * (ward == "C")))
    return {"visits": y, "age": age, "ward": ward, "log(coalesce(days, 1))": np.log(days)}


def maximum_likelihood(data: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return a Poisson regression with an offset, by Newton's steps, and its standard errors."""
    ward, off, y = data["ward"], data["log(coalesce(days, 1))"], data["visits"]
    X = np.stack([np.ones(len(y)), data["age"], ward == "B", ward == "C"], axis=1).astype(float)
    b = np.array([math.log(y.sum() / np.exp(off).sum()), 0.0, 0.0, 0.0])
    for _ in range(30):
        mu = np.exp(X @ b + off)
        H = X.T @ (X * mu[:, None])
        b = b + np.linalg.solve(H, X.T @ (y - mu))
    return b, np.sqrt(np.diag(np.linalg.inv(H)))


def test_without_noise_it_is_the_poisson_regression_with_an_offset() -> None:
    data = records(20_000)
    formula = Formula("visits ~ age + C(ward)", FACTS, "poisson", exposure="days", misses=0)
    found = AdaptiveLooks(formula, 20_000, 1e9).release(data, seeded_rng(2)).value
    estimate, error = maximum_likelihood(data)
    off = (found.median[:4] - estimate) / error
    assert np.abs(off).max() < 1, off
    assert np.all(found.sd[:4] < 1.5 * error)
    assert found.median[4] == pytest.approx(1, abs=1e-4)


def test_an_offset_in_the_text_is_the_same_question() -> None:
    written = Formula("visits ~ age + offset(log(days)) + C(ward)", FACTS)
    named = Formula("visits ~ age + C(ward)", FACTS, exposure="days")
    assert written == named and written.to_dict() == named.to_dict()
    assert Formula.from_dict(named.to_dict()) == named
    assert named.terms[-1] == "offset(log(days))" and "exposure days" in named.describe()
    assert "exposure" not in Formula("visits ~ age", FACTS).to_dict()
    given = CATALOGUE["regress"].arguments_of(named)
    assert CATALOGUE["regress"].question(FACTS, given) == named


@pytest.mark.parametrize(
    ("text", "family", "exposure", "said"),
    [
        ("visits ~ age", "", "z", "bounds above zero"),
        ("visits ~ age", "", "died", "bounds above zero"),
        ("died ~ age", "", "days", "family='poisson'"),
        ("visits ~ age + offset(log(days))", "", "days", "one exposure"),
        ("visits ~ age", "", "nobody", "nobody"),
    ],
)
def test_what_is_no_exposure_is_refused(text: str, family: str, exposure: str, said: str) -> None:
    with pytest.raises(InvalidValue, match=said):
        Formula(text, FACTS, family, exposure=exposure)


def test_an_exposure_that_is_missing_or_below_its_bounds_is_the_least() -> None:
    import pandas as pd

    facts = Facts(visits=Count(9), age=Number(0, 1), days=Number(2, 50))
    formula = Formula("visits ~ age", facts, exposure="days")
    look = formula.look(10)
    odd = [None, math.nan, 0.0, -3.0, -math.inf, 1e-320, 1e300, math.inf, 7.0, 2.0]
    plain = [2.0] * 6 + [50.0] * 2 + [7.0, 2.0]
    ages, visits = np.linspace(0, 1, 10), np.arange(10)
    sums = []
    for days in (odd, plain):
        frame = pd.DataFrame({"visits": visits, "age": ages, "days": pd.Series(days, dtype="Float64")})
        with open_table(frame, facts=facts) as table:
            sums.append(table.know(facts).read(look, formula.columns))
    assert [s.n for s in sums] == [10, 10]
    np.testing.assert_array_equal(sums[0].total, sums[1].total)
    held = look.read([ages, np.log(plain), visits])
    np.testing.assert_allclose(sums[1].total, held.total, atol=2.0)  # an exponential's last digit may round a step away


@pytest.mark.parametrize(("low", "high"), [(1.0, 365.0), (1e-6, 1e9), (1e3, 1.0001e3)])
def test_no_record_moves_a_look_farther_than_is_said(low: float, high: float) -> None:
    facts = Facts(visits=Count(20), age=Number(-5, 5), days=Number(low, high))
    formula = Formula("visits ~ age", facts, exposure="days")
    first = formula.look(2)
    looks = [first, first.of_cap(20), first.of_cap(3, 0.7), first.of_norm(0.3)]
    centre = formula.prior_mean + np.array([-1.0, 3.0, 0.0])
    looks.append(formula.look_at(2, centre, formula.first_frame[0], 1.1, first.parts, 5, 0.5))
    times = [low, high, math.sqrt(low * high), 0.0, 1e-300]
    values = (
        [-5.0, 5.0, 0.0, math.nan, 1e300],
        [math.log(max(t, 1e-300)) for t in times] + [math.nan],
        [0, 1, 3, 20, 10**9, math.nan],
    )
    every = list(itertools.product(*values))
    for look in looks:
        assert isinstance(look, Look)
        parts = [look.split(look.read([[value] for value in record]).total) for record in every]
        for part, most in look.moves.items():
            flat = np.array([item[part].ravel() for item in parts])
            farthest = max(float(np.linalg.norm(flat - item, axis=1).max()) for item in flat)
            assert farthest <= most, (part, farthest, most)


def test_what_is_expected_grows_with_the_exposure() -> None:
    data = records(3000)
    formula = Formula("visits ~ age + C(ward)", FACTS, exposure="days")
    found = AdaptiveLooks(formula, 3000, 50.0).release(data, seeded_rng(3)).value
    frame = {"age": [50.0, 50.0, 50.0], "ward": ["A"] * 3}
    rate = predict(found, frame, 0.95)["estimate"].to_numpy()
    more = predict(found, frame | {"days": [2.0, 10.0, 900.0]}, 0.95)["estimate"].to_numpy()
    np.testing.assert_allclose(more, rate * [2.0, 10.0, 900.0], rtol=1e-4)  # the coefficient is known to a millionth
    said = expected(found, ["age=50, ward=A", "age=50, ward=A, days=10"], 0.95)
    assert said[1]["expected"][0]["estimate"] == pytest.approx(10 * said[0]["expected"][0]["estimate"], rel=1e-4)
    with pytest.raises(InvalidData, match="above zero"):
        predict(found, frame | {"days": [0.0, 1.0, 1.0]}, 0.95)


def test_the_command_line_plans_with_an_exposure(tmp_path: Path) -> None:
    (tmp_path / "facts.toml").write_text(TOML)
    words = ["plan", "visits ~ age", "--n", "5000", "--facts", str(tmp_path / "facts.toml"), "--json"]
    said = CliRunner().invoke(application("plan"), [*words, "--exposure", "days"])
    assert said.exit_code == 0, said.output
    plan = json.loads(said.stdout)
    assert "exposure days" in plan["question"] and [item["term"] for item in plan["terms"]] == ["Intercept", "age"]


def test_the_command_line_takes_an_exposure(tmp_path: Path) -> None:
    data = records(2000)
    days = np.exp(data["log(coalesce(days, 1))"])
    lines = [f"{y},{a},{w},{d}" for y, a, w, d in zip(data["visits"], data["age"], data["ward"], days, strict=True)]
    (tmp_path / "d.csv").write_text("visits,age,ward,days\n" + "\n".join(lines))
    (tmp_path / "d.facts.toml").write_text(TOML)
    words = [
        "regress",
        str(tmp_path / "d.csv"),
        "visits ~ age + ward",
        "--exposure",
        "days",
        "--budget",
        "approx:3,1e-6",
        "--json",
    ]
    said = CliRunner().invoke(application("regress"), [*words, "--spend", "50%", "--predict", "age=50, ward=A"])
    assert said.exit_code == 0, said.output
    shown = json.loads(said.stdout)
    assert "exposure days" in shown["question"]
    assert [row["term"] for row in shown["table"]] == ["Intercept", "age", "ward[T.B]", "ward[T.C]"]


def test_exposures_of_two_values_far_apart_lead_nobody_astray() -> None:
    rng, n = seeded_rng(11), 20_000
    data = records(n, 5)
    days = np.where(rng.random(n) < 0.5, 14.0, 365.0)
    age, ward = data["age"], data["ward"]
    mean = days * np.exp(-6 + 0.02 * age + 0.5 * (ward == "B") - 0.3 * (ward == "C"))
    data |= {"visits": rng.poisson(mean), "log(coalesce(days, 1))": np.log(days)}
    formula = Formula("visits ~ age + C(ward)", FACTS, exposure="days")
    found = AdaptiveLooks(formula, n, 0.2).release(data, seeded_rng(12)).value
    ends = found.interval(0.999)[:4]
    truth = np.array([-6.0, 0.02, 0.5, -0.3])
    assert np.all((ends[:, 0] <= truth) & (ends[:, 1] >= truth)), ends
    assert found.sd[1] < 0.01
