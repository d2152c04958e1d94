"""Regressions with groups, `(1 | ward)`: levels that add up to one cost what levels beside a first one cost."""

import numpy as np
import pytest

from sottovoce.inference.regression import AdaptiveLooks, Formula
from sottovoce.inference.regression.coefficients import Coefficients
from sottovoce.inference.regression.floating_sums import quick_sums
from sottovoce.inference.regression.moment_draws import MomentSamples
from sottovoce.inference.regression.noisy_score_information import NoisyScoreInformation
from sottovoce.inference.regression.pseudo_row_moments import PseudoRowMoments
from sottovoce.privacy.promises import ApproxDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Count, Facts, Flag, Number
from support.side_by_side import released

N, WARDS = 5000, list("ABCDEF")
FACTS = Facts(ward=Category(WARDS), age=Number(18, 100), sex=Flag(), ill=Flag(), days=Number(0, 40))


def records() -> dict[str, list]:
    rng = np.random.default_rng(4)
    ward, sex = rng.integers(0, 6, N), rng.random(N) < 0.5
    age = rng.normal(55, 15, N).clip(18, 99)
    t = 0.02 * (age - 50) + np.array([0, 0.3, 0.8, 0.4, -0.9, 0.1])[ward] + 0.3 * sex
    ill, days = rng.random(N) < 1 / (1 + np.exp(2 - t)), (20 + t + rng.normal(0, 2, N)).clip(0, 40)
    named = {"ward": np.array(WARDS)[ward], "age": age, "sex": sex, "ill": ill, "days": days}
    return {name: column.tolist() for name, column in named.items()}


def fitted(response: str, wards: str, epsilon: float = 3.0) -> Coefficients:
    formula = Formula(f"{response} ~ age + sex + {wards}", FACTS)
    mechanism = AdaptiveLooks.calibrate(formula, N, ApproxDP(epsilon, 1e-6))
    found: Coefficients = mechanism.release(records(), seeded_rng(5)).value
    return found


@pytest.mark.parametrize("response", ["ill", "days"])
def test_slopes_beside_groups_are_known_as_well_as_beside_levels(response: str) -> None:
    """Nothing is ever seen across levels that add up to one; stretched as if noise hid it, it made rows seem long."""
    levels, groups = (np.ptp(fitted(response, wards).interval()[1:3], axis=1) for wards in ("ward", "(1 | ward)"))
    assert np.all(groups < 1.5 * levels)


def test_what_privacy_added_is_told_at_the_coefficients_that_were_found() -> None:
    """Without its noise the score of groups led far away, where records tell little: privacy seemed to cost nothing."""
    little, much = fitted("ill", "(1 | ward)", 1.0), fitted("ill", "ward", 30.0)
    assert little.plain_sd[1:3] == pytest.approx(much.plain_sd[1:3], rel=0.4)


def test_rare_groups_and_columns_beside_them_weigh_what_was_seen_of_them() -> None:
    """Freed of its noise as a whole, the information had both weigh as much as the mean of all that noise hides."""
    names = [f"w{k}" for k in range(20)]
    formula = Formula("y ~ x + (1 | g)", Facts(y=Flag(), x=Number(-1, 1), g=Category(names)))
    look, rng = formula.look(4000), np.random.default_rng(1)
    g = rng.choice(20, 4000, p=0.8 ** np.arange(20) / (0.8 ** np.arange(20)).sum())
    rows, _ = formula.encoding.rows([rng.uniform(-1, 1, 4000), g.astype(float)], 4000)
    exact, scales = quick_sums(look, rows, rng.random(4000).round()), dict.fromkeys(look.parts, 2e10)
    noise = np.concatenate([np.full(k, 2e10 if "off" not in name else 14e9) for name, k in look.sizes.items()])
    back = np.linalg.inv(look.matrix)
    truth = np.diag(back @ look.split(exact)["information"] @ back.T) / look.factors[1] ** 2
    glances = [
        NoisyScoreInformation.of(look, 4000, exact + noise * rng.standard_normal(noise.size), scales) for _ in range(20)
    ]
    known, levelled = (
        np.array([np.diag(back @ getattr(glance, name) @ back.T) for glance in glances])
        for name in ("known", "levelled")
    )
    rare = slice(14, None)
    assert np.abs(levelled - truth)[:, rare].mean() < 0.5 * np.abs(known - truth)[:, rare].mean()
    assert levelled[:, :2].mean(axis=0) == pytest.approx(truth[:2], rel=0.03)
    assert abs(known[:, 1].mean() / truth[1] - 1) > 0.1


@pytest.mark.parametrize("text", ["ill ~ age + (1 | one)", "ill ~ (1 | ward)", "ill ~ 0 + (1 | ward)"])
def test_groups_of_one_level_or_alone_are_no_fault(text: str) -> None:
    facts = Facts(ward=Category(WARDS), one=Category(["A"]), age=Number(18, 100), ill=Flag())
    table = {"ward": WARDS * 5, "one": ["A"] * 30, "age": [40] * 30, "ill": [True, False, False] * 10}
    mechanism = AdaptiveLooks.calibrate(Formula(text, facts), 30, ApproxDP(1.0, 1e-6))
    assert np.isfinite(mechanism.release(table, seeded_rng(1)).value.interval()).all()


def test_levels_without_an_intercept_are_known_as_well_as_beside_one() -> None:
    """Imagined as normal columns they had responses beyond the bounds, so that looks stayed away from the answer."""
    rng, facts = np.random.default_rng(3), Facts(y=Number(0, 40), g=Category(list("abc")))
    g = rng.integers(0, 3, 4000)
    table = {"g": np.array(list("abc"))[g].tolist(), "y": (36 + 0.5 * g + rng.normal(0, 0.5, 4000)).tolist()}
    widths = []
    for text in ("y ~ 0 + g", "y ~ g"):
        mechanism = AdaptiveLooks.calibrate(Formula(text, facts), 4000, ApproxDP(3.0, 1e-6))
        widths.append(float(np.ptp(mechanism.release(table, seeded_rng(6)).value.interval()[0])))
    assert widths[0] < 1.5 * widths[1]


def test_at_the_last_look_the_mean_bends_along_a_rare_group_as_on_its_records() -> None:
    """On levels imagined as normal columns it hardly bends: counts e times as many seemed 1.7 from the centre."""
    formula = Formula("y ~ (1 | g)", Facts(y=Count(40), g=Category(WARDS)), "poisson")
    rng = np.random.default_rng(2)
    rows, _ = formula.encoding.rows([rng.choice(6, N, p=[0.4, 0.3, 0.15, 0.08, 0.05, 0.02]).astype(float)], N)
    look = formula.look(N)
    exact = quick_sums(look, rows, rng.poisson(1.0, N).clip(0, 40).astype(float))
    glance = NoisyScoreInformation.of(look, N, exact, dict.fromkeys(look.parts, 1.0))
    theta = np.zeros(rows.shape[1])
    theta[formula.encoding.wholes[-1][-1]] = 1.0
    mean = MomentSamples.of([glance], several=False, last=True)[0].mean
    z, goal = rows @ look.matrix.T, np.linalg.solve(look.matrix.T, theta)
    v = look.weights((z * z).sum(axis=1))
    sums = (v * (look.model.mean(z @ goal) - look.model.mean(0 * v))) @ z
    seems = np.linalg.pinv((z.T * (v * look.model.slope(0 * v))) @ z) @ sums
    told, normal = (
        (z @ PseudoRowMoments.of([glance], [mean], last=last).way(goal[None])[0][0])[rows @ theta == 1].mean()
        for last in (True, False)
    )
    there = (z @ seems)[rows @ theta == 1].mean()
    assert abs(told - there) < 0.25 * abs(normal - there)


def test_slopes_beside_groups_are_known_as_well_as_beside_levels_where_residuals_fill_the_bounds() -> None:
    """A guess that groups hardly differ had led far from what was seen, and was excused by the doubt that it made."""
    rng, facts = np.random.default_rng(7), Facts(y=Number(60, 250), age=Number(0, 110), ward=Category(WARDS))
    ward, age = rng.integers(0, 6, 4 * N), rng.normal(50, 15, 4 * N).clip(0, 110)
    y = 155 + 0.3 * (age - 50) + np.array([-20, -8, 0, 3, 10, 15])[ward] + rng.normal(0, 47.5, 4 * N)
    table = {"ward": np.array(WARDS)[ward].tolist(), "age": age.tolist(), "y": y.clip(60, 250).tolist()}
    widths = []
    for text in ("y ~ age + ward", "y ~ age + (1 | ward)"):
        mechanism = AdaptiveLooks(Formula(text, facts), 4 * N, 0.1)
        found = released(mechanism, [table] * 3, map(seeded_rng, range(3)))
        widths.append([float(np.ptp(one.interval()[1])) for one in found])
    assert max(widths[1]) < 1.5 * min(widths[0])
