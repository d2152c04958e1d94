"""Where no line fits, intervals hold the coefficients of an ordinary regression, though long rows weigh less."""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
import pytest
from benchmarks.fitting import fit_all
from scipy import special

from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks
from sottovoce.inference.regression.floating_sums import quick_sums
from sottovoce.inference.regression.formula import Formula
from sottovoce.inference.regression.misspecification import apart, doubt, lost, mean_squares, thick
from sottovoce.inference.regression.sampler_settings import SamplerSettings
from sottovoce.privacy.promises import ApproxDP
from sottovoce.records.facts import Category, Count, Facts, Flag, Number
from sottovoce.records.facts.encodings import Encoding

N = 20_000
BENT = Facts(y=Number(0, 100), flag=Flag(), age=Number(0, 110), sex=Flag())


def test_what_is_missed_moves_the_score_by_as_much_as_a_formula_can_miss() -> None:
    """Every q that no line explains, of so many units along each direction, is tried one by one."""
    rng = np.random.default_rng(1)
    z = np.column_stack([np.ones(40), rng.standard_t(4, (40, 2))])
    records, slopes, v = rng.uniform(1, 3, 40), rng.uniform(0.1, 1, 40), rng.uniform(0.2, 1, 40)
    root = np.sqrt(records * slopes)[:, None]
    explained = np.linalg.qr(root * z)[0]
    left = root * z * v[:, None]
    left = left - explained @ (explained.T @ left)
    directions = np.linalg.qr(left)[0]  # orthonormal over records
    moves = [np.sqrt(records.sum()) * (root * z * v[:, None]).T @ one for one in directions.T]
    _, _, moved = doubt(z, records, slopes, v[None])
    np.testing.assert_allclose(moved[0], sum(np.outer(one, one) for one in moves), rtol=1e-6)


@pytest.mark.parametrize("kind", ["all alike", "a level each"])
def test_nothing_is_missed_where_rows_weigh_alike_or_every_kind_has_its_coefficient(kind: str) -> None:
    rng = np.random.default_rng(2)
    levels = np.repeat(np.arange(3), [60, 30, 6])
    z = np.column_stack([levels == k for k in range(3)]).astype(float)
    v = np.array([0.3, 0.9, 0.1])[levels]
    if kind == "all alike":
        z, v = np.column_stack([np.ones(96), rng.standard_normal((96, 2))]), np.full(96, 0.4)
    _, own, moved = doubt(z, np.ones(96), rng.uniform(0.5, 1, 96) if kind == "all alike" else np.ones(96), v[None])
    assert np.abs(moved).max() < 1e-5 * np.abs(own).max()


def test_imagined_rows_are_long_as_real_ones_are_and_seem_as_long_as_was_seen() -> None:
    rng = np.random.default_rng(3)
    encoding = Encoding(("a", "b"), (Number(-30, 30), Number(-30, 30)), ((), ((0, -1),), ((1, -1),)))
    normal = rng.standard_normal((128, 2)) / 30
    rows = np.column_stack([np.ones(256), np.concatenate([normal, -normal])])

    def seen(x: np.ndarray) -> np.ndarray:
        return 1 / np.maximum(((30 * x[:, 1:]) ** 2).sum(axis=1) / 2, 1.0)

    x, many = thick(rows, np.full(256, 4.0), encoding, seen)
    assert np.abs(x).max() <= 1.0 and np.all(x[:, 0] == 1)
    told = many * seen(x)
    weighed = told @ x[:, 1:] ** 2 / told.sum()
    np.testing.assert_allclose(weighed.sum(), (rows[:, 1:] ** 2).mean(axis=0).sum(), rtol=0.06)
    far = many[((30 * x[:, 1:]) ** 2).sum(axis=1) > 2 * 25].sum() / many.sum()
    assert far > 1e-3  # of normal rows as long as these seem 1e-11


def test_a_number_that_does_not_vary_makes_rows_no_longer() -> None:
    rng = np.random.default_rng(7)
    normal = rng.standard_normal(128) / 30
    one = np.column_stack([np.ones(256), np.concatenate([normal, -normal])])
    numbers = (Number(-30, 30), Number(-30, 30))
    alone = Encoding(("a",), numbers[:1], ((), ((0, -1),)))
    beside = Encoding(("a", "b"), numbers, ((), ((0, -1),), ((1, -1),)))

    def seen(x: np.ndarray) -> np.ndarray:
        return 1 / np.maximum((30 * x[:, 1]) ** 2, 1.0)

    x, _ = thick(one, np.ones(256), alone, seen)
    same, _ = thick(np.column_stack([one, np.full(256, 0.25)]), np.ones(256), beside, seen)
    np.testing.assert_allclose(same, np.column_stack([x, np.full(256, 0.25)]), rtol=1e-12)


def test_residuals_lose_what_those_with_long_tails_do_and_nothing_at_their_end() -> None:
    rng = np.random.default_rng(4)
    r = rng.standard_t(3, 4_000_000) / np.sqrt(3)
    for cap in (3.5, 5.0, 8.0):
        assert np.maximum(np.abs(r) - cap, 0).mean() == pytest.approx(lost(1.0, cap, np.inf), rel=0.3)
    assert lost(2.0, 5.0, 5.0) == lost(2.0, 6.0, 5.0) == 0.0


def test_two_looks_point_as_far_apart_as_what_is_missed_moves_each() -> None:
    """Every q of one unit along each direction, orthogonal over records, is given to both ways to weigh."""
    rng = np.random.default_rng(8)
    z = np.column_stack([np.ones(30), rng.standard_t(4, (30, 2))])
    many, before, now = rng.uniform(0.1, 2, 30), rng.uniform(0.1, 1, 30), rng.uniform(0.5, 1, 30)
    known, found = apart(z, many, before, now)
    moves = np.zeros((3, 3))
    for q in np.eye(30) / np.sqrt(many):  # in units of the response's own deviation, of records with this information
        first, second = (
            np.linalg.solve((z.T * (many * v)) @ z, z.T @ (many * v * q)) for v in (before, now)
        )  # the answers of two weighed regressions of q
        moves += np.outer(known @ (second - first), known @ (second - first))
    np.testing.assert_allclose(found, moves, rtol=1e-6)


@pytest.mark.parametrize("size", [0.0, 0.5, 5.0, 1e6])
@pytest.mark.parametrize("bent", [0, 1, 2])
def test_how_much_is_missed_is_the_mean_over_its_law_given_how_far_apart_looks_are(size: float, bent: int) -> None:
    """By quadrature, of all coordinates together and of each alone: the larger is taken."""
    gap, noise, moved = size * np.array([[1.0, -2.0], [0.5, 1.0]]), np.array([2.0, 0.5]), np.array([900.0, 30.0])
    gap[:, :bent] /= 50

    # Twenty nodes of Gauss's rule on each of many parts, ever shorter ones at the end, where a law is steep.
    ends = np.unique([*np.linspace(-4.5, 4.5, 91), *(4.5 - 0.5 ** np.arange(4, 45))])
    nodes, weights = special.roots_legendre(20)
    places = ((ends[1:, None] + ends[:-1, None]) + np.diff(ends)[:, None] * nodes).ravel() / 2
    parts, squares = (np.diff(ends)[:, None] * weights).ravel() / 2, np.exp(2 * (np.log(0.15) - 1 + places))

    def mean(which: list[int]) -> float:
        logs = -(places**2) / 2
        for k in which:
            whole = noise[k] + squares * moved[k]
            logs -= sum(np.log(whole) + row[k] ** 2 / whole for row in gap) / 2
        mass = parts * np.exp(logs - logs.max())
        return float(squares @ mass / mass.sum())

    found = mean_squares(0.15, np.diag(moved), np.diag(noise), gap)
    expected = np.maximum([mean([0]), mean([1])], mean([0, 1]))
    np.testing.assert_allclose(found, expected, rtol=1e-3 if size < 1e3 else 0.2)


def test_a_plan_learns_what_looks_tell_on_average_where_the_formula_fits() -> None:
    noise, moved = np.diag([2.0, 0.5, 1.0]), np.diag([900.0, 30.0, 400.0])
    gaps = np.random.default_rng(11).standard_normal((400, 1, 3)) * np.sqrt(np.diag(noise))
    drawn = [mean_squares(0.15, moved, noise, gap) for gap in gaps]
    planned = mean_squares(0.15, moved, noise, 1)
    assert np.all((np.quantile(drawn, 0.3, axis=0) < planned) & (planned < np.quantile(drawn, 0.85, axis=0)))


def test_one_column_that_bends_is_not_outvoted_by_those_that_do_not() -> None:
    """Of twelve columns that each tell little, one points elsewhere by more than noise: that one is doubted."""
    noise, moved, gap = np.eye(12), 60.0 * np.eye(12), np.zeros((1, 12))
    gap[0, 3] = 4.0
    taus = np.sqrt(mean_squares(0.15, moved, noise, gap))
    assert taus[3] > 0.2 and np.delete(taus, 3).max() < 0.12


_TOTALS = ("noise", "a million times noise", "zeros", "below zero", "all that records could give")


def test_what_is_missed_is_a_number_though_digits_left_a_direction_less_noise_than_none() -> None:
    noise, gap = np.array([[4.0, 0.0], [0.0, -1e-17]]), np.array([[1.0, 0.0]])
    for some in (gap, 1):
        assert np.isfinite(mean_squares(0.15, np.eye(2), noise, some)).all()


@pytest.mark.parametrize("family", ["linear", "logistic", "poisson", "probit", "multinomial"])
@pytest.mark.parametrize(
    ("n", "rho", "wide"), [(0, 1e-6, 1e12), (1, 1e6, 1e-12), (None, 0.05, 1.0), (10**7, 1e-6, 1.0)]
)
def test_whatever_was_released_is_doubted_by_finite_numbers_and_costs_no_more(
    family: str, n: int | None, rho: float, wide: float
) -> None:
    """Totals that no table gives, too: warnings are errors here."""
    response = {"linear": Number(0, wide), "poisson": Count(40), "multinomial": Category(("a", "b", "c"))}
    facts = Facts(y=response.get(family, Flag()), x=Number(-wide, wide), g=Category(("p", "q")))
    mechanism, rng = AdaptiveLooks(Formula("y ~ x + g", facts, family), n, rho), np.random.default_rng(12)
    paid = dict.fromkeys(_TOTALS, 0.0)

    def shown(kind: str, look: Any, scales: Any) -> np.ndarray:
        paid[kind] += mechanism.paid(look, scales)
        noises = zip(mechanism.noises(look, scales), look.sizes.values(), strict=True)
        noise = np.concatenate([np.full(size, one.scale) for one, size in noises])
        drawn, most = noise * rng.standard_normal(noise.size), 4.0**look.bits * (10**7 if n is None else n)
        return np.array([drawn, 1e6 * drawn, 0 * drawn, -100 * np.abs(drawn), most + 0 * drawn])[_TOTALS.index(kind)]

    with np.errstate(all="raise", under="ignore"):
        paths = mechanism.walk_all([partial(shown, kind) for kind in _TOTALS])
        told = mechanism.conclude_all(
            paths, SamplerSettings(guesses=6)
        )  # of what noise hides, where a release makes 48
    for path, found in zip(paths, told, strict=True):
        missed, misses = path[-1][0].missed, path[-1][0].misses
        assert missed is not None and misses is not None and np.isfinite(misses) and misses >= 0
        values = np.linalg.eigvalsh(missed)
        assert np.all(np.isfinite(values)) and values[0] >= -1e-9 * max(values[-1], 0.0)
        assert np.all(np.isfinite(found.median)) and np.all(np.isfinite(found.sd))
    assert max(paid.values()) <= rho


@pytest.mark.parametrize(("shape", "low", "high"), [("rises and falls", 1.2, 2.0), ("line", 0.4, 0.9)])
def test_intervals_are_wider_where_looks_differ_and_narrower_where_they_agree(
    shape: str, low: float, high: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside what they would be if nothing were learned of how much the formula misses, by the last look alone."""
    monkeypatch.setattr(AdaptiveLooks, "conclude_jointly", lambda *_: None)

    rng, tables = np.random.default_rng(10), []
    for _ in range(5):
        if shape == "line":
            x = rng.standard_t(3, (N, 4)).clip(-20, 20)
            facts = Facts({"y": Number(-40, 40)} | {f"x{k}": Number(-20, 20) for k in range(4)})
            asked, y = Formula("y ~ x0 + x1 + x2 + x3", facts), x.sum(axis=1) / 2 + rng.standard_normal(N)
        else:
            x = (17 + rng.gamma(2.5, 9.0, (N, 1))).clip(0, 110)
            asked, y = Formula("y ~ age", BENT), 45 - 0.02 * (x[:, 0] - 42) ** 2 + 12 * rng.standard_normal(N)
        tables.append((asked.encoding.rows(list(x.T), N)[0], asked.model.outcome(y)))
    mechanism = AdaptiveLooks.calibrate(asked, N, ApproxDP(0.5, 1e-6))

    def width() -> float:
        return float(np.median([found.sd[1] for found in fit_all(mechanism, tables, deepcopy(rng))]))

    learned = width()
    monkeypatch.setattr(
        "sottovoce.inference.regression.misspecification.mean_squares",
        lambda tau, moved, *_: np.full(len(moved), tau**2),
    )
    assert low < learned / width() < high


@pytest.mark.weekly
@pytest.mark.parametrize(("family", "epsilon"), [("linear", 0.5), ("linear", 2.0), ("logistic", 1.0)])
def test_intervals_hold_the_ordinary_coefficients_of_what_rises_and_falls_again(family: str, epsilon: float) -> None:
    """Weighed as before, the slope by age was that of the middle: 5 to 9 standard deviations off."""
    rng = np.random.default_rng(5)
    age, sex = (17 + rng.gamma(2.5, 9.0, N)).clip(0, 110), rng.random(N) < 0.6
    hump = 45 - 0.02 * (age - 42) ** 2 + 4 * sex
    y = (hump + 12 * rng.standard_normal(N)).clip(0, 100)
    asked = Formula(("y" if family == "linear" else "flag") + " ~ age + sex", BENT, family)
    outcome = asked.model.outcome(y if family == "linear" else rng.random(N) < special.expit((hump - 45) / 8))
    rows, _ = asked.encoding.rows([{"age": age, "sex": sex.astype(float)}[name] for name in asked.encoding.names], N)
    best = np.zeros(3)
    for _ in range(1 if family == "linear" else 25):
        mean, slope = asked.model.mean_and_slope(rows @ best)
        best = best + np.linalg.solve((rows.T * slope) @ rows, rows.T @ (outcome - mean))
    A, b = asked.units
    mechanism = AdaptiveLooks.calibrate(asked, N, ApproxDP(epsilon, 1e-6))
    ends = [found.interval().T for found in fit_all(mechanism, [(rows, outcome)] * 12, rng)]
    held = np.mean([(low <= A @ best + b) & (A @ best + b <= high) for low, high in ends], axis=0)
    assert held.min() > 0.7 and held.mean() > 0.9


def test_levels_alone_are_told_no_more_widely_than_noise_and_records_ask_for() -> None:
    """They fit whatever rows weigh: nothing is doubted."""
    rng = np.random.default_rng(6)
    facts = Facts(y=Flag(), ward=Category(("a", "b", "c")))
    asked = Formula("y ~ C(ward)", facts)
    ward = rng.choice(3, N, p=[0.5, 0.4, 0.1])
    rows, _ = asked.encoding.rows([ward.astype(float)], N)
    path = AdaptiveLooks(asked, N, 0.05).walk(lambda look, scales: _sums(look, rows, rng))
    own = path[-1][0].information
    assert path[-1][0].missed is not None and own is not None
    assert np.abs(path[-1][0].missed).max() < 1e-4 * np.abs(own).max()


def _sums(look, rows, rng):
    return quick_sums(look, rows, (rng.random(len(rows)) < 0.3).astype(float))
