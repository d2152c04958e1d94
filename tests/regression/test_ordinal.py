"""Ordinal regressions: bounded pulls, proportional odds as anyone fits them, and the same at every door."""

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmarks.ordinal_coverage import FACTS, TRUTH, maximum_likelihood, patients
from scipy import optimize, special, stats
from typer.testing import CliRunner

import sottovoce as sv
from sottovoce.faces.cli import application
from sottovoce.inference.regression import AdaptiveLooks, OrdinalFormula
from sottovoce.inference.regression.coefficients import Coefficients
from sottovoce.inference.regression.joint_posterior import JointRegression
from sottovoce.mechanisms import Mechanism
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Count, Facts, Number, Person
from sottovoce.records.facts.encodings import Encoding
from sottovoce.records.readings import OrdinalLook
from sottovoce.records.readings.ordinal_look import stacked_encoding
from sottovoce.records.tables import open_table
from sottovoce.service.answers.catalogue import CATALOGUE

FORMULA = OrdinalFormula("pain ~ age + frail + C(ward)", FACTS, "ordinal")
SLOPES = slice(1, 5)


def a_look(rng: np.random.Generator) -> tuple[OrdinalLook, list[Any]]:
    """Return a look anywhere, and records at its ends and beyond."""
    cuts, p, n = int(rng.integers(2, 5)), int(rng.integers(1, 4)), 300
    entries = ((), *(((k, -1),) for k in range(p)))
    encoding = stacked_encoding(Encoding(tuple("abc"[:p]), (Number(-1, 1),) * p, entries), cuts)
    D = encoding.size
    T = rng.normal(0, 1, (D, D))
    T[:, p + 1 :] *= rng.choice([1, 0.01])  # where cuts are as good as one, what they give adds up
    shape = tuple(map(tuple, T.tolist()))
    centre, norm = tuple(rng.normal(0, 1, D).tolist()), float(rng.uniform(0.5, 4))
    response = Count(cuts) if rng.random() < 0.5 else Category(tuple("uvwxyz"[: cuts + 1]))
    look = OrdinalLook(encoding, response, "ordinal", centre, shape, norm, bits=8)
    columns = [np.where(rng.random(n) < 0.5, rng.choice([-1, 1, 0, 9], n), rng.uniform(-1, 1, n)) for _ in range(p)]
    y = rng.integers(cuts + 1, size=n)
    return look, [*columns, y if isinstance(response, Count) else np.array(list(response.categories))[y]]


def each_record(look: OrdinalLook, columns: list[Any]) -> list[dict[str, np.ndarray]]:
    rows, _ = look.plain.rows(columns[:-1])
    codes = (
        columns[-1] if isinstance(look.response, Count) else [look.response.categories.index(v) for v in columns[-1]]
    )
    return [look.split(total) for total in look.stacked(rows, np.array(codes, dtype=float)).T]


def test_no_record_pulls_farther_than_is_said_and_some_nearly_as_far() -> None:
    rng, nearest = np.random.default_rng(7), dict.fromkeys(("score", "information"), 0.0)
    for _ in range(60):
        look, columns = a_look(rng)
        each = each_record(look, columns)
        scales = {"score": float(rng.uniform(1, 9)), "information": float(rng.uniform(1, 2000))}
        joint = look.joint(scales)
        for part, most in look.lengths.items():
            lengths = [float(np.linalg.norm(item[part])) for item in each]
            assert max(lengths) <= most
            nearest[part] = max(nearest[part], max(lengths) / most)
        for first, second in itertools.pairwise(each):
            gaps = {part: float(np.linalg.norm(first[part] - second[part])) for part in scales}
            assert all(gap <= look.moves[part] for part, gap in gaps.items())
            assert math.hypot(*(gap / scales[part] for part, gap in gaps.items())) <= joint
    assert min(nearest.values()) > 0.95


def test_what_a_record_gives_is_the_average_of_its_cuts_as_a_logistic_look_has_them() -> None:
    """The oracle: scores and information of every cut written out, one record after the other."""
    rng = np.random.default_rng(2)
    look, columns = a_look(rng)
    K, T, theta = look.cuts, np.array(look.shape), np.array(look.centre)
    codes = (
        columns[-1] if isinstance(look.response, Count) else [look.response.categories.index(v) for v in columns[-1]]
    )
    for k, total in enumerate(each_record(look, columns)[:40]):
        x = np.array([1.0, *(np.clip(column[k], -1, 1) for column in columns[:-1])])
        score, information = np.zeros(len(T)), np.zeros((len(T),) * 2)
        for cut in range(K):
            z = T @ np.concatenate([x, np.arange(1, K) == cut])
            v, p = min(1.0, look.norm**2 / (z @ z)), special.expit(theta @ z)
            score += v * z * ((codes[k] > cut) - p) / K
            information += v * p * (1 - p) * np.outer(z, z) / K
        pull, lean = look.factors
        assert np.abs(total["score"] - pull * score).max() <= 0.5001
        assert np.abs(total["information"] - lean**2 * information).max() <= 0.5001


def test_sums_of_an_engine_are_those_of_memory_to_the_step() -> None:
    rng = np.random.default_rng(3)
    for _ in range(3):
        look, columns = a_look(rng)
        frame = pd.DataFrame(dict(zip([*look.plain.names, "y"], columns, strict=True)))
        frame["y"] = frame["y"].astype(object)
        frame.loc[::17, "y"] = None
        frame.loc[::23, "a"] = np.nan
        if isinstance(look.response, Count):
            frame["y"] = frame["y"].astype(float)
        held, asked = look.read([frame[name].to_numpy() for name in frame]), open_table(frame).read(look, list(frame))
        assert asked.n == held.n == len(frame)
        assert np.abs(asked.total - held.total).max() <= 2  # an exponential may differ in its last digit


def test_odd_records_give_zeros_or_bounded_steps() -> None:
    look = OrdinalLook.example()
    odd = [[None, 1e300, -1e300, 0.5], [True, False, None, True], ["low", "high", "low", "unheard of"]]
    each = [look.read([[column[k]] for column in odd]).total for k in range(4)]
    assert not each[0].any() and not each[2].any() and not each[3].any()
    assert np.all(np.isfinite(each[1])) and each[1].any()


def stacked_estimate(data: dict[str, Any]) -> np.ndarray:
    """Return the estimate of independence estimating equations: a logistic regression of all cuts of all records."""
    X = np.stack([data["age"] / 100, data["frail"], data["ward"] == "B", data["ward"] == "C"], axis=1).astype(float)
    y = np.array([FACTS["pain"].categories.index(value) for value in data["pain"]])
    above = y[:, None] > np.arange(4)

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        t = (X @ theta[4:])[:, None] + theta[:4]
        off = special.expit(t) - above
        return float((np.logaddexp(0, t) - above * t).sum()), np.concatenate([off.sum(axis=0), X.T @ off.sum(axis=1)])

    found = optimize.minimize(loss, np.zeros(8), jac=True, method="BFGS", options={"gtol": 1e-6 * len(y)}).x
    return found[4:] / np.array([100, 1, 1, 1])


def test_with_next_to_no_noise_it_is_the_stacked_model_and_near_to_likelihood() -> None:
    data = patients(20_000, seeded_rng(1))
    found = AdaptiveLooks(FORMULA, 20_000, 1e9).release(data, seeded_rng(2)).value
    likeliest, error = maximum_likelihood(data)
    assert np.abs((found.mean[SLOPES] - stacked_estimate(data)) / error).max() < 1 / 10
    assert np.abs((found.mean[SLOPES] - likeliest) / error).max() < 0.6  # it is another estimator, hardly less precise
    assert found.sd[SLOPES] == pytest.approx(error, rel=0.06)


def test_intervals_hold_and_are_not_far_wider_than_without_privacy() -> None:
    mechanism = AdaptiveLooks.calibrate(FORMULA, 20_000, sv.ApproxDP(1.0, 1e-6))
    held, ratios = [], []
    for seed in range(12):
        data = patients(20_000, seeded_rng(seed))
        ends = mechanism.release(data, seeded_rng(100 + seed)).value.interval(0.95)[SLOPES]
        held.append((ends[:, 0] <= TRUTH) & (ends[:, 1] >= TRUTH))
        ratios.append((ends[:, 1] - ends[:, 0]) / (2 * 1.96 * maximum_likelihood(data)[1]))
    assert stats.binom.sf(int(np.sum(~np.array(held))), 48, 0.07) > 0.001
    assert np.median(ratios) < 1.6


def test_cuts_of_one_record_are_not_taken_for_as_many_records() -> None:
    """Were they, intervals of slopes would be too narrow by the square root of what the cuts have in common."""
    found = AdaptiveLooks(FORMULA, 5000, 1e9).release(patients(5000, seeded_rng(4)), seeded_rng(2)).value
    data = patients(5000, seeded_rng(4))
    apart = []
    for k in range(4):
        X = np.stack([data["age"], data["frail"], data["ward"] == "B", data["ward"] == "C", np.ones(5000)], axis=1)
        p = special.expit(X[:, :4] @ TRUTH - 60 * TRUTH[0] - [-1.0, 0.3, 1.5, 3.0][k])
        apart.append((X.T * (p * (1 - p))) @ X)
    naive = np.zeros((8, 8))
    for k, part in enumerate(np.asarray(apart, dtype=float)):
        naive[:4, :4] += part[:4, :4]
        naive[4 + k, 4 + k] = part[4, 4]
        naive[:4, 4 + k] = naive[4 + k, :4] = part[:4, 4]
    as_many_records = np.sqrt(np.diag(np.linalg.inv(naive)))[:4]
    assert np.all(found.sd[SLOPES] > 1.3 * as_many_records)


def test_a_release_is_read_back_with_its_looks_and_its_question() -> None:
    release = AdaptiveLooks(FORMULA, 500, 5.0).release(patients(500, seeded_rng(1)), seeded_rng(1))
    again = Coefficients.from_dict(json.loads(json.dumps(release.value.to_dict())))
    assert again.formula == FORMULA and np.array_equal(again.means, release.value.means)
    assert [look.look for look in again.looks] == [look.look for look in release.value.looks]
    assert sum(look.share for look in again.looks) == pytest.approx(1, rel=1e-6)
    mechanism = Mechanism.from_dict(json.loads(json.dumps(AdaptiveLooks(FORMULA, 9, 1.0).to_dict())))
    assert mechanism.system == FORMULA and mechanism.system.family == "ordinal"
    given = CATALOGUE["regress"].arguments_of(FORMULA)
    assert CATALOGUE["regress"].question(FACTS, given) == FORMULA
    look = release.value.looks[-1].look
    assert OrdinalLook.from_dict(json.loads(json.dumps(look.to_dict()))) == look


def test_all_looks_tell_where_n_is_a_secret_too_and_cost_what_was_paid() -> None:
    assert JointRegression.knows(FORMULA, 500) and JointRegression.knows(FORMULA, None)
    data = patients(4000, seeded_rng(5))
    found = AdaptiveLooks(FORMULA, None, 2.0).release(data, seeded_rng(1)).value
    off = (found.mean[SLOPES] - TRUTH) / found.sd[SLOPES]
    assert np.abs(off).max() < 4 and found.sd[SLOPES][1] < 0.3
    assert sum(look.share for look in found.looks) <= 1 + 1e-9


def test_a_count_is_ordered_as_it_is() -> None:
    data = patients(6000, seeded_rng(3))
    codes = np.array([FACTS["pain"].categories.index(value) for value in data["pain"]])
    facts = Facts(dict(FACTS) | {"pain": Count(4)})
    formula = OrdinalFormula("pain ~ age + frail + C(ward)", facts, "ordinal")
    as_count = AdaptiveLooks(formula, 6000, 1.0).release(data | {"pain": codes}, seeded_rng(8)).value
    as_category = AdaptiveLooks(FORMULA, 6000, 1.0).release(data, seeded_rng(8)).value
    assert formula.values == [0, 1, 2, 3, 4] and formula.terms[0] == "pain > 0"
    assert np.allclose(as_count.mean, as_category.mean)


@pytest.mark.parametrize(
    ("text", "facts", "options", "words"),
    [
        ("frail ~ age", {}, {}, "category of 3 to 12 values.*Of two values it is the logistic one"),
        ("age ~ frail", {}, {}, "category of 3 to 12 values"),
        ("pain ~ age", {"pain": Count(40)}, {}, "count up to 11"),
        ("pain ~ 0 + age", {}, {}, "cuts of its own"),
        ("pain ~ 1", {}, {}, "nothing explains"),
        ("pain ~ age + (1 | ward)", {}, {}, "groups"),
        ("pain ~ age", {"days": Number(1, 30)}, {"exposure": "days"}, "takes no exposure"),
        ("pain ~ age", {"id": Person()}, {}, "Person\\(rows=1\\)"),
    ],
)
def test_what_is_no_ordinal_regression_is_refused_in_a_line(
    text: str, facts: dict[str, Any], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidValue, match=words) as refused:
        sv.regression.formula_of(text, Facts(dict(FACTS) | facts), family="ordinal", **options)
    assert "\n" not in str(refused.value)


def test_every_door_takes_it(tmp_path: Path) -> None:
    data = patients(6000, seeded_rng(11))
    frame, place, ledger = pd.DataFrame(data), tmp_path / "stays.parquet", tmp_path / "stays.ledger"
    frame.to_parquet(place)
    with sv.Curator(place, facts=FACTS, ledger=ledger, budget="approx:3,1e-6") as curator:
        plan = curator.plan("pain ~ age + C(ward)", family="ordinal", spend=0.5)
        fit = curator.regress("pain ~ age + C(ward)", family="ordinal", spend=0.5)
        assert [row["term"] for row in plan.rows] == [row["term"] for row in fit.rows]
        assert [row["term"] for row in fit.rows] == ["age", "C(ward)[T.B]", "C(ward)[T.C]"]
        row = fit.table.set_index("term").loc["age"]
        assert row["odds_ratio_low"] < math.exp(0.03) < row["odds_ratio_high"]
        assert "odds ratio" in fit.summary() and "proportional odds" in fit.summary()
        assert "none < mild < moderate < severe < worst" in fit.methods()
        assert not any("is likelier" in note for note in fit.notes)  # as of two values
        baseline = fit.baseline()
        assert list(baseline["cut"]) == FORMULA.cut_names and (np.diff(baseline["share"]) < 0).all()
        shares = fit.predict({"age": [40, 90], "ward": ["A", "A"]})
        each = shares["estimate"].to_numpy().reshape(2, 5)
        assert each.sum(axis=1) == pytest.approx([1, 1]) and each[1, 4] > each[0, 4] and each[1, 0] < each[0, 0]
        met = np.mean(frame["pain"][(frame["ward"] == "A") & (abs(frame["age"] - 60) < 3)] == "none")
        at = fit.predict({"age": [60], "ward": ["A"]})["estimate"][0]
        assert at == pytest.approx(met, abs=0.08)
        effects = fit.average_effects("ward")
        assert set(effects["pain"]) == set(FACTS["pain"].categories)
        assert len(fit.effect("age")) == 41 * 5 and fit.plot_effect("age") is not None
        again = curator.again(fit.entry)
        assert again.rows == fit.rows and again.question == fit.question
    words = ["pain ~ age", "--family", "ordinal", "--spend", "20%", "--json", "--facts"]
    toml = tmp_path / "facts.toml"
    toml.write_text(
        "[age]\nkind='number'\nlow=18\nhigh=100\n[frail]\nkind='flag'\n[ward]\nkind='category'\ncategories=['A','B','C']\n"
        "[pain]\nkind='category'\ncategories=['none','mild','moderate','severe','worst']\n"
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


def test_a_plan_says_about_what_comes() -> None:
    n, promise = 20_000, sv.ApproxDP(1.0, 1e-6)
    formula = OrdinalFormula("pain ~ age + frail", FACTS, "ordinal")
    mechanism = AdaptiveLooks.calibrate(formula, n, promise)
    met = ["pain:mild=24%", "pain:moderate=23%", "pain:severe=16%", "pain:worst=9%"]
    plan = sv.regression.plan_looks(mechanism, promise, imagined=["age=0.146", "frail=30%", *met])
    ends = mechanism.release(patients(n, seeded_rng(3)), seeded_rng(5)).value.interval(0.95)[1:3]
    for term, (low, high) in zip(plan.terms, ends, strict=True):
        assert 0.6 < (high - low) / 2 / term.width < 1.6
    assert plan.rare is None


def test_of_all_pairs_of_records_with_extreme_answers_none_moves_a_look_farther_than_is_said() -> None:
    rng, nearest = np.random.default_rng(11), 0.0
    for _ in range(30):
        look, columns = a_look(rng)
        rows = np.repeat(look.plain.rows(columns[:-1])[0][:80], 2, axis=0)
        each = look.stacked(rows, np.tile([0.0, float(look.cuts)], 80))
        D = look.dimension
        for beside in (0.03, 0.3, 1.0, 3.0, 30.0):
            scales = {"score": 1.0, "information": 2.0**look.bits * beside}
            parts = (
                each[:D],
                each[D : 2 * D] / scales["information"],
                each[2 * D :] * math.sqrt(2) / scales["information"],
            )
            scaled = np.vstack(parts)
            lengths = (scaled**2).sum(axis=0)
            gap = math.sqrt(float((lengths[:, None] + lengths - 2 * scaled.T @ scaled).max()))
            assert gap <= look.joint(scales)
            nearest = max(nearest, gap / look.joint(scales))
    assert nearest > 0.98
