"""What counts have beyond where they are cut is measured by a look of its own: levels hold where a few have most."""

from __future__ import annotations

import itertools
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from benchmarks.fitting import fit, fit_all
from scipy import stats

from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks
from sottovoce.inference.regression.budget_allocation import TAILS
from sottovoce.inference.regression.censored_counts import _LENGTHS, FarCounts, _longer, _Sum, far_look
from sottovoce.inference.regression.coefficients import Coefficients
from sottovoce.inference.regression.floating_sums import quick_sums
from sottovoce.inference.regression.formula import Formula
from sottovoce.inference.regression.misspecification import learned
from sottovoce.inference.regression.overdispersion import Overdispersion
from sottovoce.inference.regression.residual_tails import ResidualTail
from sottovoce.privacy.promises import ApproxDP
from sottovoce.records.facts import Category, Count, Facts, Flag, Number
from sottovoce.records.readings import HeldRecords, Look
from sottovoce.records.readings.families import PoissonFamily

FACTS = Facts(k=Count(40), x=Number(-6, 6), g=Category(("a", "b")), f=Flag())
COUNTS: list[Any] = [0, 3, 4, 9, 15, 16, 40, 41, 10**9, -7, 2.5, 39.9, 1e308, -1e308, float("inf"), float("nan"), None]
ROWS: dict[str, list[Any]] = {"x": [-6, 6, 0.3, 1e308, float("-inf"), None], "g": ["a", "b", "c", None], "f": [True]}


def rates(law: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return rates of mean 1."""
    if law == "one in fifty":
        return np.where(rng.random(n) < 0.02, 20.0, 0.6 / 0.98)
    return 5.0 * (rng.random(n) < 0.2)


@pytest.mark.weekly
@pytest.mark.parametrize(
    ("law", "n", "epsilon"), [("one in fifty", 6_000, 1.0), ("one in fifty", 20_000, 0.3), ("none or five", 6_000, 0.3)]
)
def test_levels_are_held_where_noise_is_large_beside_what_few_records_have(law: str, n: int, epsilon: float) -> None:
    """They were held in 5, 10 and 59 of a hundred tables; now in 97, 96 and 89."""
    formula = Formula("k ~ x", Facts(x=Number(-6, 6), k=Count(60)), "poisson")
    rng, tables = np.random.default_rng(15), []
    for _ in range(30):
        x = rng.normal(0, 1, n).clip(-6, 6)
        k = np.minimum(rng.poisson(np.exp(-0.8 + 0.3 * x) * rates(law, n, rng)), 60)
        tables.append((np.column_stack([np.ones(n), x / 6]), k.astype(float)))
    found = fit_all(AdaptiveLooks.calibrate(formula, n, ApproxDP(epsilon, 1e-5)), tables, rng)
    ends = np.array([one.interval().T for one in found])
    held = (ends[:, 0] <= [-0.8, 0.3]) & (ends[:, 1] >= [-0.8, 0.3])
    assert held.sum(axis=0).min() >= 22


@pytest.mark.weekly
def test_counts_of_rows_far_out_are_not_taken_for_a_tail_of_all_counts() -> None:
    """Few counts lie beyond a cut, most of them of rows longer than a look sees: levels were told 1.3 sd too high."""
    rng, n, off = np.random.default_rng(21), 200_000, []
    formula = Formula("k ~ x + z", Facts(x=Number(-20, 20), z=Number(-20, 20), k=Count(12)), "poisson")
    mechanism = AdaptiveLooks.calibrate(formula, n, ApproxDP(1.0, 1e-5))
    for _ in range(12):
        rows = (rng.standard_t(3, (n, 2)) / np.sqrt(3)).clip(-20, 20)
        k = rng.poisson(np.exp((-1.0 + 0.4 * rows.sum(axis=1)).clip(max=6))).clip(max=12)
        found = fit(mechanism, np.column_stack([np.ones(n), rows / 20]), k.astype(float), rng)
        off.append((found.mean[0] + 1.0) / found.sd[0])
    assert abs(np.mean(off)) < 0.7 and np.abs(off).max() < 2.5


@pytest.mark.parametrize("text", ["k ~ x", "k ~ 0 + g", "k ~ x + g + f"])
def test_the_look_adds_up_what_lies_between_both_cuts_whatever_the_rows_are(text: str) -> None:
    formula, rng, n = Formula(text, FACTS, "poisson"), np.random.default_rng(3), 500
    k, x = rng.negative_binomial(0.3, 0.05, n), rng.normal(0, 3, n)
    columns = {"k": k.tolist(), "x": x.tolist(), "g": rng.choice(["a", "b"], n).tolist(), "f": [True] * n}
    look = far_look(formula, n, 4, 16)
    total = look.read([columns[name] for name in formula.columns]).total / look.pull
    assert total[look.encoding.wholes[0][0]] == pytest.approx((np.clip(k, 4, 16) - 4).sum(), rel=1e-3)
    assert look.diameter == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("n", [7, None])
@pytest.mark.parametrize("text", ["k ~ x", "k ~ 0 + g", "k ~ x + g + f", "k ~ x*g"])
def test_no_record_moves_it_farther_than_its_noise_is_made_for(text: str, n: int | None) -> None:
    """All pairs of awkward records, and each that is there or not: as far as is claimed, and no farther."""
    formula = Formula(text, FACTS, "poisson")
    mechanism, look = AdaptiveLooks(formula, n, 0.3), far_look(formula, n, 4, 16)
    scales = mechanism.scales(look, TAILS)
    names = formula.columns[:-1]
    records = list(itertools.product(*(ROWS[name] for name in names), COUNTS))
    each = np.array([look.read(look.arranged([record])).total for record in records])
    gaps = [np.linalg.norm(each - one, axis=1).max() for one in each] if n else np.linalg.norm(each, axis=1)
    moved = (max(gaps) / scales["score"]) ** 2 / 2
    assert moved <= mechanism.rho * TAILS[0]
    assert moved > 0.99 * mechanism.rho * TAILS[0]


def test_rows_that_are_no_constant_are_not_taken_for_one() -> None:
    """Rows that may point anywhere lie twice as far apart: the box knows, whatever the shape is."""
    rng = np.random.default_rng(4)
    encoding = Formula("k ~ x + g + f", FACTS, "poisson").encoding
    for _ in range(20):
        shape = rng.normal(size=(encoding.size,) * 2)
        look = Look(encoding, Count(40), "poisson", (0.0,) * encoding.size, tuple(map(tuple, shape.tolist())), 1.5)
        look = replace(look, parts=("score",), cap=16, beyond=4)
        records = list(itertools.product(ROWS["x"], ROWS["g"], [False, True], [0, 4, 9, 40]))
        each = np.array([look.read(look.arranged([record])).total for record in records])
        farthest = max(np.linalg.norm(each - one, axis=1).max() for one in each)
        assert farthest <= look.moves["score"]


def test_it_is_paid_for_and_its_share_goes_to_the_last_look_where_nothing_lies_beyond() -> None:
    rng, n = np.random.default_rng(1), 20_000
    x = rng.normal(0, 1, n).clip(-6, 6)
    rows, k = np.column_stack([np.ones(n), x / 6]), rng.negative_binomial(0.5, 0.4, n)
    for high, far in ((40, True), (1, False)):
        formula = Formula("k ~ x", Facts(x=Number(-6, 6), k=Count(high)), "poisson")
        mechanism, seen = AdaptiveLooks(formula, n, 0.05), []

        def shown(look: Look, scales: Any, seen: Any = seen, mechanism: Any = mechanism) -> Any:
            seen.append((look, mechanism.paid(look, scales) / mechanism.rho))
            return quick_sums(look, rows, look.model.outcome(k.astype(float)))

        mechanism.walk(shown)
        assert [bool(look.beyond) for look, _ in seen] == [False] * 4 + [True] * far
        assert 1 - 1e-3 < sum(share for _, share in seen) <= 1
    assert TAILS not in AdaptiveLooks(Formula("k ~ 0 + x", FACTS, "poisson"), n, 0.05).plan


@pytest.mark.parametrize(("family", "response"), [("poisson", Count(40)), ("linear", Number(0, 40))])
def test_a_mechanism_that_was_used_is_the_same_in_another_process(family: str, response: Count | Number) -> None:
    """Its plan was kept with it, and the share of this look was told from others by which object it is."""
    mechanism = AdaptiveLooks(Formula("k ~ x", Facts(x=Number(-6, 6), k=response), family), 50, 0.5)
    rng = np.random.default_rng(1)
    records = {"x": rng.normal(size=50), "k": rng.poisson(3.0, 50)}
    first = mechanism.release(records, np.random.default_rng(2)).value
    again = pickle.loads(pickle.dumps(mechanism)).release(records, np.random.default_rng(2)).value
    np.testing.assert_array_equal(again.interval(), first.interval())


@pytest.mark.parametrize("n", [0, 1, 3])
def test_few_records_have_an_answer(n: int) -> None:
    mechanism = AdaptiveLooks(Formula("k ~ x + g", FACTS, "poisson"), n, 0.5)
    held = HeldRecords(([1.0] * n, ["a"] * n, [40] * n))
    found = mechanism.release(held, np.random.default_rng(1)).value
    assert np.all(np.isfinite(found.interval()))


def test_half_of_the_records_missing_moves_no_level() -> None:
    formula, rng, n = Formula("k ~ x", FACTS, "poisson"), np.random.default_rng(5), 40_000
    x = rng.normal(0, 1, n).clip(-6, 6)
    rows = np.column_stack([np.ones(n), x / 6])
    k = np.minimum(rng.poisson(np.exp(-0.8 + 0.3 * x) * rates("one in fifty", n, rng)), 40).astype(float)
    found = []
    for some in (slice(None), rng.random(n) < 0.5):
        mechanism = AdaptiveLooks(formula, n, 0.5)
        path = mechanism.walk(lambda look, _, some=some: quick_sums(look, rows[some], look.model.outcome(k[some])))
        found.append(mechanism.conclude(path).median[0])
    assert found == pytest.approx([-0.8, -0.8], abs=0.08)


def test_what_longer_rows_have_beyond_a_cut_is_what_such_rows_have() -> None:
    """Numbers by a t₃ law as far spread as imagined, levels as they are: against a million of them."""
    formula = Formula("k ~ x + f", Facts(x=Number(-20, 20), f=Flag(), k=Count(40)), "poisson")
    look, rng, n = far_look(formula, 1_000, 5, 12), np.random.default_rng(6), 1_000_000
    place = [one or ((-1, -1),) for one in formula.encoding.entries].index(((0, -1),))
    x = np.tile([[1.0, 0.0, 0.0]], (4_000, 1))
    x[:, place] = rng.normal(0.05, 0.05, 4_000)  # in twentieths
    x[:, 3 - place] = rng.random(4_000) < 0.3
    theta = np.zeros(3)
    theta[[0, place, 3 - place]] = -1.0, 10.0, 0.3
    longer = _longer(look, x[None], np.ones((1, 4_000)))[:, 0] @ theta
    spread = x[:, place].std() / np.sqrt(3)
    drawn = (x[:, place].mean() + spread * rng.standard_t(3, n)).clip(-1, 1)
    truth = rng.poisson(np.exp((-1 + 10 * drawn + 0.3 * (rng.random(n) < 0.3)).clip(max=7)))
    family = PoissonFamily(formula.response, 5)
    beyond = replace(family, cap=12).mean(longer) - family.mean(longer)
    assert _LENGTHS @ beyond.mean(axis=1) == pytest.approx((truth.clip(5, 12) - 5).mean(), rel=0.25)


def test_what_is_told_is_the_normal_law_given_the_sum() -> None:
    """θ, what counts vary by, λ before the second cut and after it, and the sum: conditioned as one big normal law."""
    rng = np.random.default_rng(2)
    tail = ResidualTail(4.0, 16.0, 0.03, 0.001, 0.004)
    far = FarCounts(tail, 900.0, 60.0, Overdispersion(), 5_000, False)
    mean, one = np.array([[-0.7, 0.2, 0.1]]), np.array([1.0, 0.0, 0.0])
    turned, beside = np.array([[0.02, 0.01, 0.0]]), np.array([35.0])
    law = _Sum(np.array([500.0]), rng.normal(300, 50, (1, 3)), np.array([2_000.0]), turned, beside, np.array([260.0]))
    root = 0.05 * rng.normal(size=(3, 3))
    guessed = (tail.before + tail.after) / 16
    own = root @ root.T + 0.01 * np.eye(3)
    covariance = own + guessed * np.outer(one, one) + turned.T @ turned
    found, left = far._updated(law, one, mean, covariance[None])
    # θ = θ₀ + own + turned·a + one·((1 + g)λ₁ + λ₂); the sum is what θ makes of it, and beside·a + told·λ₁ and noise.
    on = 1 + tail.goes_on
    ways = np.column_stack([np.linalg.cholesky(own), turned[0], on * one, one])
    varies = 60.0**2 + 12 * 500.0 + 260.0**2
    sums = law.rises[0] @ ways + [0, 0, 0, 35.0, 2_000.0, 0]
    base = sums[:4] @ sums[:4] + varies
    value = sums[4] ** 2 * tail.before + sums[5] ** 2 * tail.after
    times = learned(1.0, np.array([value / base]), 1, varies=1.5)[0]
    own_sds = np.array([1, 1, 1, 1, times * tail.before, times * tail.after])
    joint = np.vstack([ways, sums]) * own_sds @ np.vstack([ways, sums]).T
    joint[3, 3] += varies
    gain = joint[:3, 3] / joint[3, 3]
    np.testing.assert_allclose(found[0], mean[0] + gain * (900.0 - 500.0), rtol=1e-9)
    np.testing.assert_allclose(left[0], joint[:3, :3] - np.outer(gain, joint[3, :3]), rtol=1e-6, atol=1e-12)


def test_counts_that_mostly_reach_their_bound_say_so_and_old_answers_are_read() -> None:
    rng, n = np.random.default_rng(3), 6_000
    x = rng.normal(0, 1, n).clip(-6, 6)
    full = []
    for high in (5, 30):
        formula = Formula("k ~ x", Facts(x=Number(-6, 6), k=Count(high)), "poisson")
        mechanism = AdaptiveLooks.calibrate(formula, n, ApproxDP(1.0, 1e-5))
        found = mechanism.release({"x": x, "k": rng.binomial(5, 0.7, n)}, rng).value
        state = found.to_dict()
        assert Coefficients.from_dict(state).full == found.full
        assert Coefficients.from_dict({name: part for name, part in state.items() if name != "full"}).full is None
        full.append(found.full)
    assert full[0] > 0.2 and full[1] < 1e-3


def test_counts_that_vary_so_that_much_would_lie_beyond_their_bound_say_so() -> None:
    """Nine in ten have none and all others 13 or so of at most 15: rates were told three times too high, unsaid."""
    rng, n, full = np.random.default_rng(4), 20_000, []
    for high in (15, 60):
        formula = Formula("k ~ 1", Facts(k=Count(high)), "poisson")
        k = np.minimum(rng.poisson(13.5 * (rng.random(n) < 0.1)), high)
        found = AdaptiveLooks.calibrate(formula, n, ApproxDP(3.0, 1e-5)).release({"k": k}, rng).value
        full.append(found.full)
    assert full[0] > 0.15 and full[1] < 0.05


@pytest.mark.parametrize("high", [1, 2, 15, 200])
@pytest.mark.parametrize("extra", [0.0, 0.3, 9.0])
def test_what_lies_beyond_a_bound_is_that_of_the_law(high: int, extra: float) -> None:
    family, t, far = PoissonFamily(Count(high), high, extra), np.array([-1.0, 1.0, 3.0]), np.arange(20_000)
    mean = np.exp(t)[:, None]
    law = stats.nbinom(1 / extra, 1 / (1 + extra * mean)) if extra else stats.poisson(mean)
    chances = law.pmf(far)
    beyond = chances @ np.maximum(far - high, 0) / mean[:, 0]
    np.testing.assert_allclose(family.full(t), np.maximum(chances @ (far >= high), beyond), rtol=1e-6, atol=1e-12)
