"""One likelihood over all looks of persons, groups, several classes and lines through zero, beside independent sums."""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from sottovoce.inference.regression import AdaptiveLooks, Formula
from sottovoce.inference.regression.coefficients import Coefficients
from sottovoce.inference.regression.joint_likelihood import LONG, JointLikelihood
from sottovoce.inference.regression.joint_posterior import JointRegression
from sottovoce.inference.regression.person_averages import PersonAverages
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Count, Facts, Flag, Number, Person

N = 3000
COLUMNS: dict[str, Any] = {
    "y": Flag(),
    "k": Count(40),
    "z": Number(-4, 4),
    "c": Category(("low", "middle", "high")),
    "x": Number(-3, 3),
    "w": Number(0, 6),
    "f": Flag(),
    "g": Category(("a", "b", "c", "d")),
}
FACTS, PERSONS = Facts(COLUMNS), Facts(COLUMNS | {"p": Person()})
EFFECTS = np.array([0.5, -0.6, 0.3, -0.2])


def table(seed: int, rows: int = 1) -> dict[str, np.ndarray]:
    rng, p = np.random.default_rng(seed), np.repeat(np.arange(N), rows)
    x, w = rng.normal(size=len(p)).clip(-3, 3), rng.normal(3, 1, len(p)).clip(0, 6)
    f, g = rng.random(len(p)) < 0.3, rng.integers(0, 4, len(p))
    own = rng.normal(size=N)[p] * math.sqrt(0.5) + rng.normal(size=len(p)) * math.sqrt(0.5)
    t, u = -0.5 + 0.8 * x + 0.4 * f + EFFECTS[g], special.ndtr(own)
    odds = np.exp(np.column_stack([0 * t, 0.3 + 0.8 * x, -0.2 - 0.5 * x]))
    places = (u[:, None] > np.cumsum(odds, axis=1)[:, :-1] / odds.sum(axis=1, keepdims=True)).sum(axis=1)
    return {
        "y": u < special.expit(t),
        "k": stats.poisson.ppf(u, np.exp(t)).clip(0, 40),
        "z": np.clip(t + own, -4, 4),
        "c": np.array(["low", "middle", "high"])[places],
        "x": x,
        "w": w,
        "f": f,
        "g": np.array(list("abcd"))[g],
        "p": p,
    }


def released(text: str, facts: Facts = FACTS, rho: float = 0.5, seed: int = 3, rows: int = 1) -> Coefficients:
    found = AdaptiveLooks(Formula(text, facts), N, rho).release(table(seed, rows), seeded_rng(seed)).value
    assert isinstance(found, Coefficients)
    return found


CASES = [
    ("y ~ x + f", PERSONS),
    ("z ~ x + f", PERSONS),
    ("y ~ x + (1 | g)", FACTS),
    ("z ~ f + (1 | g)", PERSONS),
    ("c ~ x + f", FACTS),
    ("c ~ x", PERSONS),
    ("y ~ 0 + x + w", FACTS),
    ("z ~ 0 + g + w", FACTS),
]


@pytest.mark.parametrize(("text", "facts"), CASES)
def test_derivatives_are_those_of_the_moments(text: str, facts: Facts) -> None:
    found = released(text, facts, rows=1 + (facts is PERSONS))
    model = JointLikelihood(found.formula, N, found.looks)
    unmeasured = bool(found.formula.groups) and found.formula.family != "logistic"
    assert JointRegression.knows(found.formula, N) == (bool(found.formula.encoding.wholes) and not unmeasured)
    u = np.random.default_rng(2).normal(size=model.size) / 2
    model.aim(u)
    at, step = model.moments(u), 1e-6
    for k in range(model.size):
        e = step * (np.arange(model.size) == k)
        up, down = model.moments(u + e, slopes=False), model.moments(u - e, slopes=False)
        for name, slopes in (("scores", at.score_slopes), ("matrices", at.matrix_slopes), ("theta", at.theta_slopes)):
            assert slopes is not None
            moved = (getattr(up, name) - getattr(down, name)) / (2 * step)
            assert np.allclose(slopes[:, k], moved, rtol=1e-5, atol=1e-5 * np.abs(slopes).max())


def test_scores_of_averages_vary_as_design_effects_say() -> None:
    """Averages of four rows of each person, a column of their own and one that changes: simulated beside G J G'."""
    rng, persons, m, alike, draws = np.random.default_rng(1), 2000, 4, 0.6, 400
    own, row = rng.normal(0.5, 1, persons), rng.normal(-0.3, 1, (persons, m))
    x = np.stack([np.ones((persons, m)), np.repeat(own[:, None], m, axis=1), row], axis=2)
    scores = []
    for _ in range(draws):
        shared = rng.normal(size=(persons, 1)) * math.sqrt(alike)
        residual = shared + rng.normal(size=(persons, m)) * math.sqrt(1 - alike)
        scores.append((x * residual[:, :, None]).mean(axis=1).sum(axis=0))
    seen = np.cov(np.array(scores).T)
    between, within = 1 / m + (1 - 1 / m) * alike, 1 / m
    averages = PersonAverages(slice(0, 3), 0)
    averages.mean = x.mean(axis=(0, 1))
    turn = averages.turn(special.ndtri(np.array([between, between, within])))
    single = np.einsum("pri,prj->ij", x, x) / m
    assert np.allclose(turn @ single @ turn.T, seen, atol=0.2 * seen.max())
    assert np.allclose(np.diag(turn @ single @ turn.T), np.diag(seen), rtol=0.2)


def test_the_spread_of_groups_is_half_cauchy() -> None:
    found = released("y ~ x + (1 | g)")
    coefficients = JointLikelihood(found.formula, N, found.looks).coefficients
    for u in (-3.0, -0.7, 0.0, 1.2, 3.0):
        sd, slope = coefficients.group_spread(u)
        assert stats.halfcauchy.cdf(sd) == pytest.approx(stats.norm.cdf(u), rel=1e-9)
        ahead, behind = (math.log(coefficients.group_spread(u + h)[0]) for h in (1e-5, -1e-5))
        assert slope == pytest.approx((ahead - behind) / 2e-5, rel=1e-6)


@pytest.mark.parametrize(
    ("text", "facts", "truth"),
    [
        ("y ~ x + f", PERSONS, None),
        ("c ~ x", FACTS, np.array([0.3, 0.8, -0.2, -0.5])),
        ("y ~ 0 + g + x + f", FACTS, np.concatenate([EFFECTS - 0.5, [0.8, 0.4]])),
    ],
)
def test_all_looks_tell_more_than_the_last_and_hold_the_truth(text: str, facts: Facts, truth: Any) -> None:
    narrower, held = [], []
    for seed in range(4):
        rows = 1 + 2 * (facts is PERSONS)
        mechanism = AdaptiveLooks(Formula(text, facts), N, 0.03)
        seen, rng = mechanism.see(table(seed, rows)), seeded_rng(seed)
        path = mechanism.walk(partial(mechanism._noisy, seen, rng=rng))
        found = mechanism.conclude_jointly(path)
        assert found is not None
        (last,) = mechanism.conclude_last([path])
        narrower.append(np.log(np.diff(found.interval()) / np.diff(last.interval())).mean())
        if truth is not None:
            low, high = found.interval(0.95).T
            held += ((low <= truth) & (truth <= high)).tolist()
    assert np.mean(narrower) < -0.1
    assert not held or np.mean(held) > 0.85


def test_rows_that_are_held_move_nothing_and_all_else_as_before() -> None:
    """Of rows longer than `LONG` grids are walked with the law of rows held."""
    names = [f"x{k}" for k in range(LONG)]
    formula = Formula("y ~ " + " + ".join(names), Facts(dict.fromkeys(names, Number(-3, 3)) | {"y": Flag()}))
    rng = np.random.default_rng(0)
    columns = {name: rng.normal(size=N).clip(-3, 3) for name in names}
    looks = AdaptiveLooks(formula, N, 2.0).release(columns | {"y": rng.random(N) < 0.4}, seeded_rng(1)).value.looks
    model = JointLikelihood(formula, N, looks)
    assert len(model.matrices) == 2 * (LONG + 1) * (LONG + 2) // 2
    u = rng.normal(size=model.size) / 3
    model.aim(u)
    every, held = model.moments(u), model.moments(u, rows_held=True)
    assert np.allclose(every.scores, held.scores) and np.allclose(every.matrices, held.matrices)
    assert every.score_slopes is not None and held.score_slopes is not None
    beyond = slice(model.law.size, None)
    assert np.allclose(every.score_slopes[:, beyond], held.score_slopes[:, beyond])
    assert not held.score_slopes[:, : model.law.size].any()


def test_groups_of_as_many_levels_as_were_measured_are_told_by_all_looks() -> None:
    """Of eight tables: intervals hold, and of slopes are narrower than by the last look."""
    formula = Formula("y ~ x + f + (1 | g)", FACTS)
    mechanism, held, widths = AdaptiveLooks(formula, N, 0.02), [], []
    truth = np.concatenate([[-0.5, 0.8, 0.4], EFFECTS])
    for seed in range(8):
        seen, rng = mechanism.see(table(seed)), seeded_rng(seed)
        path = mechanism.walk(lambda look, scales, seen=seen, rng=rng: mechanism._noisy(seen, look, scales, rng))  # type: ignore[misc]
        joint, (last,) = mechanism.conclude_jointly(path), mechanism.conclude_last([path])
        assert joint is not None
        held.append((joint.interval()[:, 0] <= truth) & (truth <= joint.interval()[:, 1]))
        widths.append(np.log(np.diff(joint.interval(), axis=1) / np.diff(last.interval(), axis=1))[1:3].mean())
    assert np.mean(held) > 0.85  # errors of effects are shared within a table
    assert np.exp(np.mean(widths)) < 0.98
    many = Facts(FACTS.said | {"g": Category([f"g{k}" for k in range(21)])})
    assert not JointRegression.knows(Formula("y ~ x + (1 | g)", many), N)
    assert not JointRegression.knows(Formula("z ~ x + (1 | g)", FACTS), N)
