"""What residuals lose that are cut is measured by a look of its own: levels hold beside long tails to one side."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchmarks.fitting import fit_all

from sottovoce.facts import Category, Facts, Flag, Number
from sottovoce.privacy.promises import ApproxDP
from sottovoce.readings import HeldRecords, PersonLook
from sottovoce.regression.adaptive_looks import AdaptiveLooks
from sottovoce.regression.formula import Formula
from sottovoce.regression.quick_sums import quick_sums
from sottovoce.regression.shares import TAILS
from sottovoce.regression.tails import Tail, tail_look

N = 20_000
FACTS = Facts(y=Number(60, 250), age=Number(0, 110), g=Category(("a", "b", "c")), f=Flag())


def table(formula: Formula, sd: float, sigma: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return rows, and responses with log-normal residuals about a line in age and a level for each g."""
    age, g = rng.normal(50, 15, N).clip(0, 110), rng.choice(3, N, p=[0.6, 0.3, 0.1])
    mean, wide = math.exp(sigma**2 / 2), math.exp(sigma**2 / 2) * math.sqrt(math.exp(sigma**2) - 1)
    off = (np.exp(sigma * rng.standard_normal(N)) - mean) / wide
    y = (107 + 0.3 * (age - 50) + np.array([0.0, 4.0, -3.0])[g] + sd * off).clip(60, 250)
    columns = {"age": age, "g": g.astype(float)}
    rows, _ = formula.encoding.rows([columns[name] for name in formula.encoding.names], N)
    return rows, formula.model.outcome(y)


def ordinary(formula: Formula, sd: float, sigma: float) -> np.ndarray:
    """Return the ordinary coefficients of very many such records, by their rows and mean responses."""
    rows, y = zip(*(table(formula, sd, sigma, np.random.default_rng([9, k])) for k in range(100)), strict=True)
    A, b = formula.units
    return A @ np.linalg.lstsq(np.concatenate(rows), np.concatenate(y), rcond=None)[0] + b


@pytest.mark.parametrize(("text", "sigma"), [("y ~ age", 1.0), ("y ~ age", 1.5), ("y ~ age + g", 1.5)])
def test_levels_and_differences_hold_beside_long_tails_to_one_side(text: str, sigma: float) -> None:
    """Levels of such tables were held in a third of them: what is cut off was guessed, and the guess too short."""
    formula = Formula(text, FACTS)
    truth, rng = ordinary(formula, 6.0, sigma), np.random.default_rng(41)
    mechanism = AdaptiveLooks.calibrate(formula, N, ApproxDP(3.0, 1e-6))
    fits = fit_all(mechanism, [table(formula, 6.0, sigma, rng) for _ in range(60)], rng)
    level = np.zeros(len(truth))
    level[:2] = 1.0, 50.0
    asked = [level, *np.eye(len(truth))[1:]]
    held = np.array(
        [[low <= row @ truth <= high for row in asked for *_, low, high in [one.combined(row)]] for one in fits]
    )
    assert held[:, 0].mean() >= 0.85  # of 60 with 95 %, one in 400 times fewer
    assert held.mean() >= 0.9


def test_the_look_adds_up_what_is_cut_off_of_every_record_alike() -> None:
    """Long rows and short: each weighs the same, and gives what it has between the cuts."""
    for text, averaged in (("y ~ age*g", False), ("y ~ 0 + g + age", False)):
        formula, rng = Formula(text, FACTS), np.random.default_rng(3)
        rows, y = table(formula, 15.0, 1.0, rng)
        last = formula.look_at(N, 0.2 * rng.normal(size=rows.shape[1]), np.eye(rows.shape[1]), 0.4, ("score",), 0.15)
        look = tail_look(formula, N, last, 0.9)
        off = y - rows @ (last.matrix.T @ last.predictors[0])
        meant = np.sum(np.clip(off, -0.9, 0.9) - np.clip(off, -0.15, 0.15))
        total = look.of_rows(rows, np.ones(N, dtype=bool), y)
        row = formula.encoding.wholes[0][0]
        assert abs(meant) > 20
        assert total[row] / look.pull == pytest.approx(meant, rel=1e-3)
        assert np.abs(np.delete(total, row)).max() < 1e-2 * abs(total[row])
        assert look.parts == ("score",) and isinstance(look, PersonLook) is averaged


def test_it_is_taken_where_something_is_cut_and_its_share_goes_to_the_last_look_elsewhere() -> None:
    formula = Formula("y ~ age", FACTS)
    for sd, cut in ((5.0, True), (80.0, False)):
        rows, y = table(formula, sd, 0.5, np.random.default_rng(1))
        mechanism, seen = AdaptiveLooks(formula, N, 20.0 if not cut else 0.05), []

        def shown(look, scales, seen=seen, rows=rows, y=y, mechanism=mechanism):
            seen.append((look, mechanism.paid(look, scales) / mechanism.rho))
            return quick_sums(look, rows, y)

        mechanism.walk(shown)
        assert len(seen) == 4 + cut and any(look.beyond for look, _ in seen) is cut
        assert sum(share for _, share in seen) == pytest.approx(1.0, rel=1e-3)
        assert seen[3][1] == pytest.approx(0.52 if cut else 0.58, rel=1e-3)


def test_a_line_through_zero_has_no_level_and_no_such_look() -> None:
    formula = Formula("y ~ 0 + age", Facts(y=Number(0, 250), age=Number(0, 110)))
    assert TAILS not in AdaptiveLooks(formula, N, 0.1).plan
    assert TAILS in AdaptiveLooks(Formula("y ~ 0 + g", FACTS), N, 0.1).plan
    assert TAILS not in AdaptiveLooks(Formula("f ~ age", FACTS), N, 0.1).plan


@pytest.mark.parametrize("n", [0, 1, 3])
def test_few_records_have_an_answer(n: int) -> None:
    mechanism = AdaptiveLooks(Formula("y ~ age + g", FACTS), n, 0.5)
    held = HeldRecords(([50.0] * n, ["a"] * n, [200.0] * n))
    found = mechanism.release(held, np.random.default_rng(1)).value
    assert np.all(np.isfinite(found.interval()))


def test_what_is_measured_replaces_the_guess_as_far_as_its_noise_allows() -> None:
    tail = Tail(0.4, 1.2, 1e-5, 1e-6, 1e-7)
    few, many = tail.told(0.02, 1e3), tail.told(0.02, 1e9)
    assert 0.018 < few[0] == many[0] < 0.02
    assert few[1] > many[1] > 1e-7
    blind = Tail(0.4, 1.2, 1e-5, 1e3, 1e-7)
    mean, variance = blind.told(0.5, 1e9)
    assert abs(mean) < 1e-6 and 0.9e-5 < variance < 1.1e-5
    assert tail.told(0.0, 1e9)[1] < tail.left < tail.told(0.01, 1e9)[1]  # long tails are longer farther out too
    for wild in (-1e300, 1e300, math.inf):
        mean, variance = tail.told(wild, 1.0)
        assert abs(mean) <= 0.8 and math.isfinite(variance)


@pytest.mark.parametrize("sd", [1e-6, 1e-2, 1.0])
@pytest.mark.parametrize("noise", [0.0, 1e-9, 1e-3, 1e6])
def test_the_second_cut_leaves_no_more_than_none_would(sd: float, noise: float) -> None:
    caps = np.geomspace(1e-5, 2.0, 40)
    tail = Tail.of(sd, caps, 1.7, noise)
    assert np.all((tail.farther >= tail.cap) & (tail.farther <= 1.7) & (tail.cap <= 1.7))
    assert np.all(tail.left <= (tail.before + tail.after) * (1 + 1e-12))
    assert np.all(np.diff(tail.before + tail.after) <= 0) and tail.left[-1] == 0
    if noise == 0:
        assert np.all(tail.left <= 1e-300)
