"""Means with smooth tails of groups and where n is a secret: sensitivity by brute force, cost, coverage, and words."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sottovoce as sv
from sottovoce.inference.cells.cell_mechanisms import mechanism_kind
from sottovoce.inference.cells.noisy_cells import NoisyCells
from sottovoce.inference.cells.questions import Question
from sottovoce.inference.cells.smooth_group_means import SmoothGroupMeans, _Table
from sottovoce.inference.cells.smooth_groups_posterior import SmoothGroupsPosterior
from sottovoce.inference.cells.smooth_means import SmoothMeans
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.errors import InvalidValue, SottovoceError
from sottovoce.privacy.promises import ApproxDP, PureDP, ZeroConcentratedDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.privacy.relation import ADD_REMOVE, REPLACE_ONE
from sottovoce.records.facts import Category, Facts, Number, Person
from sottovoce.records.readings import HeldRecords

LOW, HIGH = -500.0, 4000.0
FACTS = Facts(x=Number(LOW, HIGH), g=Category(("A", "B", "C")))
PARTS = (0.5, 0.4, 0.1)


def asked(by: tuple[str, ...] = ("g",), facts: Facts = FACTS) -> Question:
    return Question("mean", ("x",), facts, by=by, tails="smooth")


def table(rng: np.random.Generator, n: int) -> dict[str, Any]:
    groups = rng.choice(["A", "B", "C"], n, p=PARTS)
    return {"x": np.where(groups == "B", 2.0, 1.0) * 4 * np.exp(rng.normal(0, 1, n)), "g": groups.tolist()}


def searched(n: int | None = 6000, scale: float = 3.0, by: tuple[str, ...] = ("g",)) -> SmoothGroupsPosterior:
    mechanism = SmoothGroupMeans(asked(by), n, scale)
    value: SmoothGroupsPosterior = mechanism.release(table(seeded_rng(2), 6000), seeded_rng(1)).value
    return value


def test_no_record_moves_the_last_look_further_than_it_is_charged() -> None:
    """By brute force over every pair of records, in a group each, in one group, and in none: edges and all between."""
    parts = searched().parts
    assert len({part.window.ends for part in parts}) > 1
    one = SmoothGroupMeans(asked(), 1, 3.0)
    marks = np.unique(np.concatenate([np.r_[part.octaves, part.window.ends] for part in parts]))
    values = np.concatenate([marks, marks - 1e-9, np.linspace(LOW, HIGH, 15), [LOW - 9, HIGH + 9]])
    values = np.concatenate([values, *(np.linspace(*part.window.ends, 12) for part in parts)])
    scales = np.concatenate([one.sum_scales(part, 1.0) for part in parts])
    rows = [(None, "A"), *((x, g) for g in ("A", "B", "C", "none such") for x in values.tolist())]
    places = np.array([np.concatenate(one.sums(parts, _Table(one, HeldRecords(([g], [x]))))) / scales for x, g in rows])
    assert not places[0].any()
    slack = 1 + 2.0**-14
    assert 0.49 < (places**2).sum(axis=1).max() <= 0.5 * slack
    farthest = max(float(((places - row) ** 2).sum(axis=1).max()) for row in places)
    assert 0.98 < farthest <= slack


def test_looks_that_were_taken_cost_no_more_than_all_of_them() -> None:
    """The ρ of each group for one record more, from the noise of its looks alone, is within half of the profile's."""
    scale = 40.0
    for n, relation in ((6000, REPLACE_ONE), (None, ADD_REMOVE)):
        mechanism = SmoothGroupMeans(asked(), n, scale)
        kinds = set()
        for part in searched(n, scale).parts:
            assert part.sums is not None
            kinds.add(tuple(look.kind for look in part.looks))
            rho = sum(1 / (2 * look.scale**2) for look in part.looks) + 0.5 / (2 * part.sums.scale**2)
            assert 0.45 / (2 * scale**2) <= rho <= 0.5 / (2 * scale**2) * (1 + 1e-9)
        assert len(kinds) > 1
        total = (0.5 if n is None else 1.0) / (2 * scale**2)
        promise = (
            ZeroConcentratedDP(total * 1.02)
            if relation is None
            else ZeroConcentratedDP(total * 1.02, relation=relation)
        )
        assert mechanism.profile.satisfies(promise)
        less = ZeroConcentratedDP(total * 0.9, relation=relation)
        assert not mechanism.profile.satisfies(less)


def test_groups_or_a_secret_n_have_a_mechanism_of_their_own() -> None:
    assert mechanism_kind(asked(), 50) is SmoothGroupMeans
    assert mechanism_kind(asked(()), None) is SmoothGroupMeans
    assert mechanism_kind(asked(()), 50) is SmoothMeans
    made = SmoothGroupMeans.calibrate(asked(), 5000, ApproxDP(0.3, 1e-6))
    assert not SmoothGroupMeans(made.system, 5000, made.scale * 0.99).profile.satisfies(ApproxDP(0.3, 1e-6))
    secret = SmoothGroupMeans.calibrate(asked(), None, ApproxDP(0.3, 1e-6, relation=ADD_REMOVE))
    assert secret.scale == pytest.approx(made.scale / math.sqrt(2), rel=1e-3)
    with pytest.raises(SottovoceError, match="Gaussian"):
        SmoothGroupMeans.calibrate(asked(), 5000, PureDP(0.3))
    with pytest.raises(SottovoceError, match="Gaussian"):
        SmoothMeans.calibrate(asked(()), 5000, PureDP(0.3))


@pytest.mark.parametrize("n", [6000, pytest.param(None, marks=pytest.mark.weekly)])
def test_means_of_groups_hold_and_are_narrower(n: int | None) -> None:
    promise = ApproxDP(0.2, 1e-6) if n else ApproxDP(0.2, 1e-6, relation=ADD_REMOVE)
    smooth = SmoothGroupMeans.calibrate(asked(), n, promise)
    plain = NoisyCells.calibrate(Question("mean", ("x",), FACTS, by=("g",)), n, promise, "gaussian")
    truth, rng, held, widths = 4 * math.exp(0.5) * np.array([1, 2, 1]), seeded_rng(5), [], []
    for _ in range(12):
        records = table(rng, 6000)
        ends, wide = (m.release(records, rng).value.interval() for m in (smooth, plain))
        held.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
        widths.append(np.diff(ends)[:, 0] / np.diff(wide)[:, 0])
    assert np.mean(held) >= 0.85
    assert np.all(np.median(widths, axis=0)[:2] <= 0.6)


def test_a_release_is_read_back_and_draws_of_groups_are_apart() -> None:
    for n in (6000, None):
        known = searched(n)
        again = SmoothGroupsPosterior.from_dict(known.to_dict())
        assert again == known
        np.testing.assert_array_equal(again.interval(), known.interval())
        assert np.all(np.abs(np.corrcoef(known.draws.T) - np.eye(3)) < 0.1)
        np.testing.assert_allclose(known.noisy_counts()[0][:3], 6000 * np.array(PARTS), atol=150)
    single = searched(None, by=())
    assert single.interval().shape == (1, 2)


def test_it_is_asked_by_groups_of_a_table(tmp_path: Path) -> None:
    records = table(np.random.default_rng(1), 6000) | {"old": [k % 2 == 0 for k in range(6000)]}
    facts = Facts(FACTS, old=sv.Flag())
    for name, options in {"public": {}, "secret": {"n": "private"}}.items():
        options |= {"ledger": str(tmp_path / name), "budget": ApproxDP(1, 1e-6), "facts": facts, "dataset": "d"}
        with sv.Curator(pa.table(records), **options) as curator:
            answer = curator.ask("smooth mean of x by g where old", spend=0.5)
            assert [row["g"] for row in answer.rows] == ["A", "B", "C"]
            assert all(row["low"] < 20 and row["high"] > 5 for row in answer.rows)
            assert "records of a group far beyond" in answer.summary()
            assert "generalized Pareto" in answer.methods()
            assert Release.from_dict(answer.release.to_dict()).value == answer.release.value
            assert curator.plan("smooth mean of x by g", spend=0.2, records=6000).width > 0
            assert curator.ask("smooth mean of x", spend=0.2).rows[0]["high"] > 5


def test_persons_count_with_one_row() -> None:
    facts = Facts(FACTS, who=Person(rows=1))
    assert asked(facts=facts).rows == 1
    with pytest.raises(InvalidValue, match=r"Person\(rows=1\)"):
        asked(facts=Facts(FACTS, who=Person()))
    with pytest.raises(InvalidValue, match="not pooled"):
        Question("mean", ("x",), FACTS, by=("g",), tails="smooth", pool=True)
