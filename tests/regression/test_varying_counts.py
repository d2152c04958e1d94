"""Counts that vary more than a Poisson law's keep their slopes."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.fitting import fit_all

import sottovoce as sv
from sottovoce.inference.regression import Formula
from sottovoce.inference.regression.noisy_score_information import NoisyScoreInformation
from sottovoce.inference.regression.overdispersion import Overdispersion, variation_look
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts.columns import Count
from sottovoce.records.readings.families import PoissonFamily
from support.side_by_side import released


@pytest.mark.weekly
def test_slopes_of_counts_with_rates_that_vary_are_held() -> None:
    facts = sv.Facts(age=sv.Number(0, 110), falls=sv.Count(10))
    formula = sv.regression.Formula("falls ~ age", facts, family="poisson")
    n, tables = 20_000, []
    made = sv.regression.AdaptiveLooks.calibrate(formula, n, sv.ApproxDP(1, 1e-6))
    for seed in range(12):
        rng = np.random.default_rng(seed)
        age = rng.gamma(8, 7, n).clip(0, 110)
        falls = np.minimum(rng.poisson(np.exp(-1.5 + 0.015 * age) * rng.exponential(1.0, n)), 10)
        tables.append({"age": age, "falls": falls})
    found = released(made, tables, map(seeded_rng, range(12)))
    held = sum(bool(low <= 0.015 <= high) for low, high in (one.interval(0.95)[1] for one in found))
    assert held >= 9  # of slopes cut at two, one in twenty is held
    assert abs(np.mean([one.mean[1] for one in found]) - 0.015) < 0.0008


def test_levels_of_counts_are_held_where_one_in_fifty_has_most_of_them() -> None:
    """No gamma law: cut at seven, their mean was told a seventh too small, and held in one table of twenty."""
    formula = Formula("k ~ x", sv.Facts(x=sv.Number(-6, 6), k=sv.Count(60)), "poisson")
    rng, n, tables = np.random.default_rng(5), 20_000, []
    for _ in range(16):
        x = rng.normal(0, 1, n).clip(-6, 6)
        rates = np.where(rng.random(n) < 0.02, 20.0, 0.6 / 0.98)
        k = np.minimum(rng.poisson(np.exp(-0.8 + 0.3 * x) * rates), 60)
        tables.append((np.column_stack([np.ones(n), x / 6]), k.astype(float)))
    found = fit_all(sv.regression.AdaptiveLooks.calibrate(formula, n, sv.ApproxDP(3, 1e-6)), tables, rng)
    ends = np.array([one.interval().T for one in found])
    held = (ends[:, 0] <= [-0.8, 0.3]) & (ends[:, 1] >= [-0.8, 0.3])
    assert held.sum(axis=0).min() >= 12


def test_levels_and_slopes_are_as_uncertain_as_counts_vary_where_there_is_little_noise() -> None:
    """Rates of variance 10/3: told with .75 and .64 of the deviation that they have over tables, and held in .82 and
    .68 of 60; noise hid how much their scores vary, though it was known how much counts do.
    """
    formula = Formula("k ~ x", sv.Facts(x=sv.Number(-6, 6), k=sv.Count(60)), "poisson")
    rng, n, tables, sds = np.random.default_rng(8), 20_000, [], []
    for _ in range(4):
        x = rng.normal(0, 1, n).clip(-6, 6)
        mean = np.exp(1.0 + 0.3 * x)
        k = np.minimum(rng.poisson(mean * rng.gamma(0.3, 1 / 0.3, n)), 60)
        tables.append((np.column_stack([np.ones(n), x / 6]), k.astype(float)))
        rows = np.column_stack([np.ones(n), x])
        bread = np.linalg.inv(rows.T @ (rows * mean[:, None]))
        varies = rows.T @ (rows * (mean + mean**2 / 0.3)[:, None])
        sds.append(np.sqrt(np.diag(bread @ varies @ bread)))
    found = fit_all(sv.regression.AdaptiveLooks.calibrate(formula, n, sv.ApproxDP(10, 1e-5)), tables, rng)
    told = np.array([np.diff(one.interval(), axis=1)[:, 0] for one in found]) / 3.92 / sds
    assert told.min() > 0.9
    assert told.max() < 1.8


@pytest.mark.weekly
def test_counts_of_which_most_reach_their_public_bound_are_held() -> None:
    """A Poisson law: looked for by another α its level was told too high, and held in one table of seven."""
    formula = Formula("k ~ x", sv.Facts(x=sv.Number(-6, 6), k=sv.Count(3)), "poisson")
    rng, n, tables = np.random.default_rng(7), 20_000, []
    for _ in range(12):
        x = rng.normal(0, 1, n).clip(-6, 6)
        k = np.minimum(rng.poisson(np.exp(1.0 + 0.3 * x)), 3)
        tables.append((np.column_stack([np.ones(n), x / 6]), k.astype(float)))
    found = fit_all(sv.regression.AdaptiveLooks.calibrate(formula, n, sv.ApproxDP(1, 1e-6)), tables, rng)
    ends = np.array([one.interval().T for one in found])
    held = (ends[:, 0] <= [1.0, 0.3]) & (ends[:, 1] >= [1.0, 0.3])
    assert held.sum(axis=0).min() >= 10


def test_how_much_counts_vary_is_told_about_a_centre_that_was_found_by_another_alpha() -> None:
    """Counts of one mean, 2.5, cut at 4; by an α of one half the same cut mean is that of a higher level."""
    formula, n, rng = Formula("k ~ 1", sv.Facts(k=sv.Count(4)), "poisson"), 40_000, np.random.default_rng(3)
    for alpha in (0.0, 1.5):
        k = rng.negative_binomial(1 / alpha, 1 / (1 + alpha * 2.5), n) if alpha else rng.poisson(2.5, n)
        before, levels = PoissonFamily(Count(4), 4, 0.5), np.linspace(-2, 4, 60_001)
        centre = levels[[np.searchsorted(before.mean(levels), np.minimum(k, 4).mean())]]
        look = variation_look(formula, n, centre, 4)
        glance = NoisyScoreInformation.of(
            look, n, look.read([k.tolist()]).total, dict.fromkeys(look.parts, 2.0**look.bits)
        )
        rows, some = np.ones((8, 1)), (np.full(8, n / 8), np.zeros(8))
        told, astray = Overdispersion.of(glance, rows, *some, before), Overdispersion.of(glance, rows, *some)
        assert abs(told.mean - alpha) < 2 * told.sd + 0.02
        assert abs(told.mean - alpha) < abs(astray.mean - alpha)


def test_what_counts_lose_falls_as_they_are_cut_farther_out_and_is_none_where_they_are_whole() -> None:
    family, t = PoissonFamily(Count(60), 60, 0.5), np.linspace(-2.0, 1.0, 7)
    for extra in (Overdispersion(0.5, 0.5), Overdispersion(30.0, 4.0)):
        _, lost = extra.shifts(family, t)
        part = lost / family.by_cap(t)[1]  # alike for all, in units of the linear predictor
        np.testing.assert_allclose(part, part[:, :1] * np.ones(7), rtol=1e-12)
        np.testing.assert_allclose(part[:, 0] / part[0, 0], (60 / np.arange(1, 61) - 1) / 59, atol=1e-12)
        at_last = extra.shift(replace(family, cap=7), t)
        assert at_last == pytest.approx(np.array([rows[6] for rows in extra.shifts(family, t)]), rel=1e-9)


@pytest.mark.parametrize("text", ["k ~ x", "k ~ 0 + g"])
@pytest.mark.parametrize("alpha", [0.0, 0.4, 1.5])
def test_how_much_counts_vary_is_told_by_a_look_with_little_noise(text: str, alpha: float) -> None:
    """Negative binomial counts made by numpy's own law; the look at the truth, with next to no noise."""
    facts = sv.Facts(k=sv.Count(40), x=sv.Number(-2, 2), g=sv.Category(["a", "b"]))
    formula, n, rng = Formula(text, facts, "poisson"), 40_000, np.random.default_rng(3)
    columns = {"x": rng.uniform(-2, 2, n), "g": rng.choice(["a", "b"], n)}
    theta = np.array([0.2, 1.0]) if "x" in text else np.array([0.5, -0.5])
    name = formula.columns[0]
    rows = formula.encoding.rows([columns["x"]] if name == "x" else [(columns["g"] == "b").astype(float)])[0]
    mean = np.exp(rows @ theta)
    k = rng.negative_binomial(1 / alpha, 1 / (1 + alpha * mean)) if alpha else rng.poisson(mean)
    look = variation_look(formula, n, theta, 20)
    total = look.read([columns[name].tolist(), k.tolist()]).total
    scales = dict.fromkeys(look.parts, 2.0**look.bits)
    glance = NoisyScoreInformation.of(look, n, total, scales)
    some = np.arange(0, n, 40)
    told = Overdispersion.of(glance, rows[some], np.full(len(some), 40.0), np.zeros(len(some)))
    assert abs(told.mean - alpha) < 3 * told.sd + 0.05
    assert told.sd < 0.35
    hidden = replace(glance, tau=1e9, tau_meat=1e9)
    blind = Overdispersion.of(hidden, rows[some], np.full(len(some), 40.0), np.zeros(len(some)))
    assert blind.mean == pytest.approx(0.5, abs=0.1) and blind.sd == pytest.approx(0.86, abs=0.1)


def test_counts_are_looked_at_once_more_and_pay_for_it_unless_persons_are_averaged() -> None:
    facts = sv.Facts(k=sv.Count(12), x=sv.Number(-2, 2))
    made = sv.regression.AdaptiveLooks(Formula("k ~ x", facts, "poisson"), 500, 0.3)
    assert [tuple(parts) for _, parts in made.plan].count(("information", "meat")) == 1
    assert sum(share for share, _ in made.plan) == pytest.approx(1.0)
    assert sum(made.paid(look, scales) for look, scales in made.path) <= 0.3
    assert [look.parts for look, _ in made.path][2] == ("information", "meat")
    of_persons = sv.Facts(k=sv.Count(12), x=sv.Number(-2, 2), who=sv.Person())
    averaged = sv.regression.AdaptiveLooks(Formula("k ~ x", of_persons, "poisson"), 500, 0.3)
    assert all("score" in parts for _, parts in averaged.plan)


@pytest.mark.parametrize("extra", [1e-25, 1e-17, 1e-14, 1e-9, 2.0**-10, 0.8, 5.0, 50.0])
@pytest.mark.parametrize("cap", [1, 7, 120])
def test_bounds_hold_however_little_or_much_counts_vary(extra: float, cap: int) -> None:
    family = PoissonFamily(Count(360), cap, extra)
    t = np.linspace(-35.0, 35.0, 4001)
    mean = family.mean(t)
    assert mean.min() >= -1e-9 and mean.max() <= cap * (1 + 1e-12)
    assert family.slope(t).min() >= 0 and family.slope(t).max() <= family.steepest
    for reach in (1e-6, 0.1, 1.0, 5.0, 30.0):
        inside = family.mean(np.linspace(-reach, reach, 501))
        assert max(inside.max(), cap - inside.min()) <= family.bound(reach)


def test_more_variation_than_any_count_has_is_refused() -> None:
    with pytest.raises(InvalidValue, match="extra"):
        PoissonFamily(Count(360), 5, 1e6)


@pytest.mark.parametrize("extra", [0.0, 0.3, 4.0])
def test_counts_cut_anywhere_are_those_of_each_cut_alone(extra: float) -> None:
    t, most = np.linspace(-9.0, 4.0, 23), 40
    found = PoissonFamily(Count(99), most, extra).by_cap(t)
    for cap in (1, 2, 3, 17, most):
        alone = PoissonFamily(Count(99), cap, extra)
        some = t < alone.farthest  # beyond, one alone is cut
        for all_of_them, one in zip(found, (alone.mean(t), alone.slope(t), alone.variance(t)), strict=True):
            np.testing.assert_allclose(all_of_them[cap - 1][some], one[some], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("extras", [(0.0, 0.0, 0.0), (0.3, 4.0, 0.01), (0.0, 0.3, 4.0)])
def test_laws_side_by_side_are_those_of_each_alone(extras: tuple[float, ...]) -> None:
    """To the last digit: what a release tells does not depend on those beside it."""
    families = [PoissonFamily(Count(99), cap, extra) for cap, extra in zip((1, 7, 40), extras, strict=True)]
    t, counts = np.random.default_rng(1).normal(0, 3, (6, 50)), (1, 3, 2)
    found = PoissonFamily.moments(families, counts, t)
    parts = np.split(t, np.cumsum(counts)[:-1])
    alone = [family.mean_and_slope(part) for family, part in zip(families, parts, strict=True)]
    for all_of_them, each in zip(found, zip(*alone, strict=True), strict=True):
        assert np.array_equal(all_of_them, np.concatenate(each))
    means, variances = families[1].means_and_variances(t[0], extras)
    for extra, mean, variance in zip(extras, means, variances, strict=True):
        one = replace(families[1], extra=extra)
        np.testing.assert_allclose(mean, one.mean(t[0]), rtol=1e-14)
        np.testing.assert_allclose(variance, one.variance(t[0]), rtol=1e-14)
