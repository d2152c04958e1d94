"""Hazard regressions: a bounded pull, weights that see the columns alone, and the same model as anyone's."""

import itertools
import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmarks.hazard_coverage import CUTS, FACTS, TRUTH, HazardCell, newton, subjects
from scipy import optimize, stats
from typer.testing import CliRunner

import sottovoce as sv
from sottovoce.faces.cli import application
from sottovoce.inference.regression import HazardFormula, HazardLooks
from sottovoce.inference.regression.coefficients import Coefficients
from sottovoce.inference.regression.regression_plan import plan_looks
from sottovoce.mechanisms import Mechanism
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Facts, Flag, Number, Person
from sottovoce.records.facts.encodings import Encoding
from sottovoce.records.readings import HazardLook, HeldRecords
from sottovoce.records.tables import open_table
from sottovoce.service.answers.catalogue import CATALOGUE

FORMULA = HazardFormula("days ~ age + frail + C(ward)", FACTS, event="died", cuts=CUTS)


def records(n: int, seed: int = 1, censored: str = "much", baseline: str = "falling") -> dict[str, Any]:
    X, days, died = subjects(HazardCell(baseline, censored, n, 1.0), seeded_rng(seed))
    wards = np.array(["A", "B", "C"])[(X[:, 2] + 2 * X[:, 3]).astype(int)]
    return {"age": X[:, 0], "frail": X[:, 1] == 1, "ward": wards, "died": died, "days": days}


def maximum_likelihood(data: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    X = np.stack([data["age"], data["frail"], data["ward"] == "B", data["ward"] == "C"], axis=1).astype(float)
    estimate, covariance = newton(X, data["days"], data["died"])
    return estimate, np.sqrt(np.diag(covariance))


def a_look(rng: np.random.Generator, limit: float) -> tuple[HazardLook, list[Any]]:
    """Return a look anywhere, and records at its ends, on its cuts and beyond."""
    J, p, n = int(rng.integers(1, 4)), int(rng.integers(1, 4)), 300
    encoding = Encoding(tuple("abc"[:p]), (Number(-1, 1),) * p, tuple(((k, -1),) for k in range(p)))
    cuts = tuple(np.cumsum(rng.exponential(1, J)).tolist())
    norm = float(rng.uniform(0.5, 3))
    constant = norm / math.sqrt(2) * float(rng.choice([0.999999, 0.5, 0.1]))
    centre, shape = tuple(rng.normal(0, 2, J + p).tolist()), tuple(map(tuple, rng.normal(0, 2, (p, p)).tolist()))
    about = tuple(rng.normal(0, 0.5, p).tolist())
    late = Number(0, 50) if rng.random() < 0.5 else None
    look = HazardLook(
        encoding, Flag(), Number(0, 50), cuts, centre, shape, about, constant, norm, limit, bits=8, start=late
    )
    columns = [np.where(rng.random(n) < 0.5, rng.choice([-1, 1, 0, 9], n), rng.uniform(-1, 1, n)) for _ in range(p)]
    time = np.where(rng.random(n) < 0.3, rng.choice([*cuts, 0.0, 99.0], n), rng.exponential(1, n))
    start = np.where(rng.random(n) < 0.3, rng.choice([*cuts, 0.0, 99.0], n), rng.exponential(0.5, n))
    return look, [*columns, rng.random(n) < 0.5, time, *([] if late is None else [start])]


@pytest.mark.parametrize("limit", [0.5, 1.0, 1.5, 4.0])
def test_no_record_pulls_farther_than_is_said_and_some_nearly_as_far(limit: float) -> None:
    rng, nearest = np.random.default_rng(7), dict.fromkeys(("score", "information"), 0.0)
    scales = {"score": 3.0, "information": 11.0}
    for _ in range(60):
        look, columns = a_look(rng, limit)
        first = look.encoding.size
        rows, _ = look.encoding.rows(columns[:first])
        each = [look.split(c) for c in look.contributions(rows, *(c.astype(float) for c in columns[first:])).T]
        for part, most in look.lengths.items():
            lengths = [float(np.linalg.norm(item[part])) for item in each]
            assert max(lengths) <= most
            nearest[part] = max(nearest[part], max(lengths) / most)
        joint = look.joint(scales)
        for first, second in itertools.pairwise(each):
            gaps = {part: float(np.linalg.norm(first[part] - second[part])) for part in scales}
            assert all(gap <= look.moves[part] for part, gap in gaps.items())
            assert math.hypot(*(gap / scales[part] for part, gap in gaps.items())) <= joint
    assert min(nearest.values()) > 0.95


def test_sums_of_an_engine_are_those_of_memory_to_the_step() -> None:
    rng = np.random.default_rng(3)
    for limit in (1.0, 2.0, 1.5, 1.0, 3.0):
        look, columns = a_look(rng, limit)
        frame = pd.DataFrame(dict(zip([*look.encoding.names, *"ets"], columns, strict=False)))
        frame.loc[::17, frame.columns[-1]] = np.nan
        frame.loc[::23, "a"] = np.nan
        table = open_table(frame)
        held = look.read([frame[name].to_numpy() for name in frame])
        asked = table.read(look, list(frame))
        assert asked.n == held.n == len(frame)
        assert np.abs(asked.total - held.total).max() <= 1  # an exponential may differ in its last digit


def test_records_without_a_value_and_odd_ones_give_zeros_or_bounded_steps() -> None:
    look = HazardLook.example()
    odd = [[None, 1e300, -1e300, 0.5], [True, False, None, True], [True, True, True, None], [1.0, math.inf, -5.0, 2.0]]
    each = [look.read([[column[k]] for column in odd]).total for k in range(4)]
    assert not each[0].any() and not each[2].any() and not each[3].any()
    assert np.all(np.isfinite(each[1]))


@pytest.mark.filterwarnings("error")
def test_times_without_end_count_as_those_just_outside_in_memory_and_on_an_engine() -> None:
    """No difference of the largest doubles overflows, and an event before all time is one of the first interval."""
    look, most = replace(HazardLook.example(), start=Number(0, 4)), sys.float_info.max
    ends = [-math.inf, -most, -5e-324, 4.0, most, math.inf]

    def held(look: HazardLook, *times: float) -> list[float]:
        return look.read([[value] for value in (0.5, 1.0, 1.0, *times)]).total.tolist()

    def asked(look: HazardLook, *times: float) -> list[float]:
        frame = pd.DataFrame([[0.5, 1.0, 1.0, *times]], columns=list("abets")[: 3 + len(times)])
        return open_table(frame).read(look, list(frame)).total.tolist()

    for time, start in itertools.product(ends, ends):
        within = held(look, min(max(time, 0.0), 5.0), min(max(start, 0.0), 5.0))
        assert asked(look, time, start) == held(look, time, start) == within
    look = replace(look, start=None)
    early = held(look, 0.0)
    assert early[0] > 0 and all(read(look, time) == early for read in (held, asked) for time in (-math.inf, -1.0))


def test_the_score_is_zero_on_average_at_the_truth_however_short_the_limit() -> None:
    """Weights see the columns alone, and follow-up ends by the centre: a weight by what was lived would bias it."""
    n = 60_000
    data = records(n, baseline="even", censored="little")
    A, _ = FORMULA.units
    alpha = np.log(np.full(5, 1 / 900)) - 60 * TRUTH[0]
    theta = np.linalg.solve(A, np.concatenate([alpha, TRUTH]))
    p = FORMULA.encoding.size
    for limit, norm in ((0.3, 1.5), (1.0, 1.5), (3.0, 9.0)):
        look = FORMULA.hazard_look(n, theta, np.eye(p), np.zeros(p), 1.0, norm, limit)
        sums = look.split(look.read([data[name] for name in FORMULA.columns]).total)
        pull, lean = look.factors
        z = sums["score"] / pull / np.sqrt(np.diag(sums["information"]) / lean**2)
        assert np.abs(z).max() < 4, (limit, z)


def test_with_next_to_no_noise_it_is_the_piecewise_exponential_model() -> None:
    data = records(20_000)
    found = HazardLooks(FORMULA, 20_000, 1e9).release(data, seeded_rng(2)).value
    estimate, error = maximum_likelihood(data)
    off = (found.mean - estimate) / error
    assert np.abs(off).max() < 1 / 20, off
    assert found.sd[5:] == pytest.approx(error[5:], rel=0.02)


def test_intervals_hold_and_are_not_far_wider_than_without_privacy() -> None:
    mechanism = HazardLooks.calibrate(FORMULA, 20_000, sv.ApproxDP(1.0, 1e-6))
    held, ratios = [], []
    for seed in range(20):
        data = records(20_000, seed)
        found = mechanism.release(data, seeded_rng(100 + seed)).value
        ends = found.interval(0.95)[5:]
        held.append((ends[:, 0] <= TRUTH) & (ends[:, 1] >= TRUTH))
        ratios.append((ends[:, 1] - ends[:, 0]) / (2 * 1.96 * maximum_likelihood(data)[1][5:]))
    assert stats.binom.sf(int(np.sum(~np.array(held))), 80, 0.07) > 0.001
    assert np.median(ratios) < 1.6


def test_a_release_is_read_back_with_its_looks_and_its_question() -> None:
    release = HazardLooks(FORMULA, 500, 5.0).release(records(500), seeded_rng(1))
    state = json.loads(json.dumps(release.value.to_dict()))
    again = Coefficients.from_dict(state)
    assert again.formula == FORMULA and np.array_equal(again.means, release.value.means)
    assert [look.look for look in again.looks] == [look.look for look in release.value.looks]
    assert sum(look.share for look in again.looks) == pytest.approx(1, rel=1e-6)
    mechanism = Mechanism.from_dict(json.loads(json.dumps(HazardLooks(FORMULA, 9, 1.0).to_dict())))
    assert mechanism.system == FORMULA
    given = CATALOGUE["regress"].arguments_of(FORMULA)
    assert CATALOGUE["regress"].question(FACTS, given) == FORMULA
    look = release.value.looks[-1].look
    assert HazardLook.from_dict(json.loads(json.dumps(look.to_dict()))) == look


def test_what_looks_cost_is_what_was_paid_where_n_is_a_secret_too() -> None:
    for n in (500, None):
        mechanism = HazardLooks(FORMULA, n, 0.7)
        paid = [mechanism.paid(look, scales) for look, scales in mechanism.path]
        assert sum(paid) == pytest.approx(0.7, rel=1e-6) and sum(paid) <= 0.7
    held = HeldRecords(tuple(records(40)[name] for name in FORMULA.columns))
    assert HazardLooks(FORMULA, None, 50.0).release(held, seeded_rng(1)).value.terms == FORMULA.terms


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("days ~ age", {"event": "age"}, "an event is a flag"),
        ("days ~ age", {"event": "gone"}, "names a flag"),
        ("frail ~ age", {"event": "died"}, "explains a time"),
        ("days ~ age + died", {"event": "died"}, "is the event, and explains nothing"),
        ("days ~ 0 + age", {"event": "died"}, "baseline of its own"),
        ("days ~ 1", {"event": "died"}, "nothing explains the hazard"),
        ("days ~ age + (1 | ward)", {"event": "died"}, "groups"),
        ("days ~ age", {"event": "died", "family": "poisson"}, "no family"),
        ("days ~ age", {"event": "died", "misses": 0.1}, "no misses="),
        ("days ~ age", {"event": "died", "start": "frail"}, "number or a count from 0 on"),
        ("days ~ age", {"event": "died", "start": "days"}, "number or a count from 0 on"),
        ("days ~ age", {"event": "died", "start": "age"}, "is when follow-up began, and explains nothing"),
        ("days ~ age", {"event": "died", "start": "came"}, "no column 'came'"),
        ("died ~ age", {"start": "days"}, "names its event"),
        ("days ~ age", {"event": "died", "cuts": 25}, "1 to 24 cells of time"),
        ("days ~ age", {"event": "died", "cuts": [90, 30]}, "rising times"),
        ("days ~ age", {"event": "died", "cuts": [90, 3000]}, "bounds of 'days'"),
    ],
)
def test_what_is_no_hazard_regression_is_refused_in_a_line(text: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidValue, match=words) as refused:
        sv.regression.formula_of(text, FACTS, **options)
    assert "\n" not in str(refused.value)


def test_cuts_without_an_event_and_rows_averaged_by_person_are_refused() -> None:
    with pytest.raises(InvalidValue, match="names its event"):
        sv.regression.formula_of("died ~ age", FACTS, cuts=[30])
    with pytest.raises(InvalidValue, match="Person\\(rows=1\\)"):
        HazardFormula("days ~ age", Facts(dict(FACTS) | {"id": Person()}), event="died")


def test_every_door_takes_it(tmp_path: Path) -> None:
    data = records(6000)
    frame, place, ledger = pd.DataFrame(data), tmp_path / "stays.parquet", tmp_path / "stays.ledger"
    frame.to_parquet(place)
    with sv.Curator(place, facts=FACTS, ledger=ledger, budget="approx:3,1e-6") as curator:
        plan = curator.plan("days ~ age + C(ward)", event="died", cuts=CUTS, spend=0.5)
        fit = curator.regress("days ~ age + C(ward)", event="died", cuts=CUTS, spend=0.5)
        assert [row["term"] for row in plan.rows] == [row["term"] for row in fit.rows] == fit.posterior.terms[5:]
        row = fit.table.set_index("term").loc["age"]
        assert row["hazard_ratio_low"] < math.exp(TRUTH[0]) < row["hazard_ratio_high"]
        assert "hazard ratio" in fit.summary() and "same at all times" in fit.summary()
        assert "hazard ratio" in str(fit.contrast("age=10"))
        baseline = fit.baseline()
        assert list(baseline["time"]) == FORMULA.intervals and (baseline["low"] < baseline["hazard"]).all()
        curves = fit.survival({"age": [50, 80], "ward": ["A", "A"]}, at=[30, 730])
        early, late = (curves[curves["time"] == time]["estimate"].to_numpy() for time in (30, 730))
        assert np.all(early > late) and early[0] > early[1]
        assert fit.predict({"age": [80], "ward": ["A"]})["estimate"][0] == pytest.approx(late[1], abs=0.02)
        assert (fit.average_effects("ward")["estimate"].iloc[0]) < 0
        again = curator.again(fit.entry)
        assert again.rows == fit.rows and again.question == fit.question
    words = ["days ~ age", "--event", "died", "--cut", "30,90", "--spend", "20%", "--json", "--facts"]
    toml = tmp_path / "facts.toml"
    toml.write_text(
        "[days]\nkind='number'\nlow=0\nhigh=730\n[died]\nkind='flag'\n[age]\nkind='number'\nlow=18\nhigh=100\n"
        "[frail]\nkind='flag'\n[ward]\nkind='category'\ncategories=['A','B','C']\n"
    )
    runner = CliRunner()
    planned = runner.invoke(
        application("plan"), ["plan", *words, str(toml), "--n", "6000", "--budget", "approx:3,1e-6"]
    )
    assert planned.exit_code == 0, planned.output
    assert [item["term"] for item in json.loads(planned.stdout)["terms"]] == ["age"]
    asked = runner.invoke(application("regress"), ["regress", str(place), *words, str(toml), "--ledger", str(ledger)])
    assert asked.exit_code == 0, asked.output
    assert json.loads(asked.stdout)["table"][0]["term"] == "age"


@pytest.mark.parametrize(
    ("n", "imagined", "said"),
    [(0, (), "n must be a whole number >= 1"), (5000, ("age=0",), "age is imagined not to vary")],
)
def test_a_plan_of_nothing_is_refused_in_words(n: int, imagined: tuple[str, ...], said: str) -> None:
    facts = Facts(days=Number(1, 730), died=Flag(), age=Number(18, 100))
    promise = sv.ApproxDP(1.0, 1e-6)
    looks = HazardLooks.calibrate(HazardFormula("days ~ age", facts, event="died"), 5000, promise)
    with pytest.raises(InvalidValue, match=said):
        plan_looks(looks, promise, n=n, imagined=imagined)


def test_a_plan_says_about_what_comes() -> None:
    n, promise = 20_000, sv.ApproxDP(1.0, 1e-6)
    formula = HazardFormula("days ~ age + frail", FACTS, event="died", cuts=CUTS)
    mechanism = HazardLooks.calibrate(formula, n, promise)
    plan = sv.regression.plan_looks(mechanism, promise, imagined=["age=0.146", "frail=30%", "died=50%"])
    data = records(n, 3, censored="little", baseline="even")
    ends = mechanism.release(data, seeded_rng(5)).value.interval(0.95)[5:]
    for term, (low, high) in zip(plan.terms, ends, strict=True):
        assert 0.6 < (high - low) / 2 / term.width < 1.6
    assert plan.rare is None


def test_categories_of_which_one_is_never_met_are_said_to_be_hidden() -> None:
    facts = Facts(dict(FACTS) | {"ward": Category(("A", "B", "C", "D"))})
    formula = HazardFormula("days ~ C(ward)", facts, event="died", cuts=CUTS)
    found = HazardLooks.calibrate(formula, 3000, sv.ApproxDP(1.0, 1e-6)).release(records(3000), seeded_rng(1)).value
    assert np.isnan(found.plain_sd[-1]) and not np.isnan(found.plain_sd[-3])


def test_a_look_of_another_norm_or_limit_is_the_same_elsewhere() -> None:
    look = HazardLook.example()
    assert look.of_norm(3.0) == replace(look, norm=3.0) and look.of_limit(2.0).bound == 2.0
    with pytest.raises(InvalidValue, match="constant²"):
        look.of_norm(1.0)


def test_ratios_that_change_are_told_by_two_regressions_and_nothing_else_is_compared(tmp_path: Path) -> None:
    rng, n = seeded_rng(4), 12_000
    X, _, _ = subjects(HazardCell("even", "much", n, 1.0), rng)
    old, exponential = X[:, 1] == 1, rng.exponential(1, n) * 400
    days = np.where(exponential > 180, 180 + (exponential - 180) / np.exp(1.2 * old), exponential)  # from 180 on
    ends = rng.uniform(100, 730, n)
    wards = np.array(["A", "B", "C"])[(X[:, 2] + 2 * X[:, 3]).astype(int)]
    data = {"age": X[:, 0], "frail": old, "ward": wards, "died": days <= ends, "days": np.minimum(days, ends)}
    ledger = tmp_path / "stays.ledger"
    with sv.Curator(pd.DataFrame(data), facts=FACTS, ledger=ledger, budget="approx:4,1e-6", dataset="stays") as curator:
        early = curator.regress("days ~ frail", event="died", cuts=[60, 180], spend=0.3)
        late = curator.regress("days ~ frail", event="died", cuts=[180, 365, 730], where="days > 180", spend=0.3)
        whole = curator.regress("days ~ frail", event="died", cuts=[180, 365, 730], spend=0.1)
        change = late.changed_since(early).iloc[0]
        assert change["term"] == "frail" and change["low"] < 1.2 < change["high"] and change["low"] > 0.3
        sd = math.hypot(early.posterior.sd[-1], late.posterior.sd[-1])
        assert change["estimate"] == pytest.approx(late.posterior.mean[-1] - early.posterior.mean[-1], abs=0.05 * sd)
        assert change["high"] - change["low"] == pytest.approx(2 * 1.96 * sd, rel=0.05)
        assert change["times_low"] == pytest.approx(math.exp(change["low"]))
        for wrong in (whole, early):  # the same events told twice
            with pytest.raises(InvalidValue, match="later times begin where"):
                wrong.changed_since(early)
    told = CliRunner().invoke(
        application("again"), ["again", str(ledger), str(late.entry), "--since", str(early.entry)]
    )
    assert told.exit_code == 0 and "times that of earlier times" in told.output, told.output
    refused = CliRunner().invoke(application("again"), ["again", str(ledger), str(early.entry), "--since", "2"])
    assert refused.exit_code != 0


def entering(n: int, seed: int) -> dict[str, Any]:
    """Return subjects who are seen from a day of their own on: who died before is never met."""
    rng, data = seeded_rng(seed), records(3 * n, seed, censored="little", baseline="even")
    data["came"] = rng.uniform(0, 500, 3 * n)
    met = np.flatnonzero(data["days"] > data["came"])[:n]
    return {name: np.asarray(column)[met] for name, column in data.items()}


def test_who_enters_late_tells_nothing_of_the_time_before() -> None:
    """The oracle: the piecewise exponential likelihood from entry on, by BFGS, without privacy."""
    n, facts = 20_000, Facts(dict(FACTS) | {"came": Number(0, 730)})
    data = entering(n, 8)
    formula = HazardFormula("days ~ age + frail + C(ward)", facts, event="died", cuts=CUTS, start="came")
    found = HazardLooks(formula, n, 1e9).release(data, seeded_rng(2)).value
    X = np.stack([data["age"] / 100, data["frail"], data["ward"] == "B", data["ward"] == "C"], axis=1).astype(float)
    ends = np.array([0.0, *CUTS])
    lived = np.clip(np.minimum(data["days"][:, None], ends[1:]) - np.maximum(data["came"][:, None], ends[:-1]), 0, None)
    which = np.searchsorted(ends, data["days"], side="left") - 1
    died = np.asarray(data["died"], dtype=float)
    hit = np.eye(5)[np.clip(which, 0, 4)] * died[:, None]

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        hazard = lived * np.exp(theta[:5] - 6 + (X @ theta[5:])[:, None])
        off = hazard - hit
        value = hazard.sum() - (hit * (theta[:5] - 6)).sum() - died @ (X @ theta[5:])
        return float(value), np.concatenate([off.sum(axis=0), X.T @ off.sum(axis=1)])

    best = optimize.minimize(loss, np.zeros(9), jac=True, method="BFGS", options={"gtol": 1e-2}).x[5:]
    likeliest = best / np.array([100, 1, 1, 1])
    assert np.abs((found.mean[5:] - likeliest) / found.sd[5:]).max() < 1 / 10
    assert np.abs((found.mean[5:] - TRUTH) / found.sd[5:]).max() < 4
    from_zero = HazardLooks(FORMULA, n, 1e9).release(data, seeded_rng(2)).value
    assert from_zero.mean[0] < found.mean[0] - 0.5  # taken for followed from 0 on, nobody dies early


def test_a_late_start_is_taken_by_every_door(tmp_path: Path) -> None:
    data, facts = entering(3000, 9), Facts(dict(FACTS) | {"came": Number(0, 730)})
    frame, ledger = pd.DataFrame(data), tmp_path / "late.ledger"
    options: dict[str, Any] = {"event": "died", "cuts": [180, 365, 730], "start": "came"}
    with sv.Curator(frame, facts=facts, ledger=ledger, budget="approx:3,1e-6", dataset="late") as curator:
        plan = curator.plan("days ~ frail", **options, spend=0.3)
        assert "came" in plan.unsaid and "from came on" in plan.question
        fit = curator.regress("days ~ frail", **options, spend=0.3)
        assert fit.question.describe() == plan.question and curator.again(fit.entry).question == fit.question
        assert CATALOGUE["regress"].question(facts, CATALOGUE["regress"].arguments_of(fit.question)) == fit.question
    words = ["days ~ frail", "--event", "died", "--cut", "180,730", "--start", "came", "--json", "--facts"]
    toml = tmp_path / "facts.toml"
    toml.write_text(
        "[days]\nkind='number'\nlow=0\nhigh=730\n[died]\nkind='flag'\n[frail]\nkind='flag'\n"
        "[came]\nkind='number'\nlow=0\nhigh=730\n"
    )
    place = tmp_path / "late.parquet"
    frame.to_parquet(place)
    runner = CliRunner()
    planned = runner.invoke(
        application("plan"), ["plan", *words, str(toml), "--n", "3000", "--budget", "approx:3,1e-6"]
    )
    assert planned.exit_code == 0 and "from came on" in planned.output, planned.output
    ledger = tmp_path / "cli.ledger"
    opened = ["regress", str(place), *words, str(toml), "--ledger", str(ledger), "--budget", "approx:3,1e-6"]
    asked = runner.invoke(application("regress"), opened)
    assert asked.exit_code == 0 and "from came on" in asked.output, asked.output
