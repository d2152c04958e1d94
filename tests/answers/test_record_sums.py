"""Totals and standard deviations of the records themselves: limits, draws and words against independent oracles."""

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy import integrate, stats

import sottovoce as sv
from sottovoce.inference.cells.noisy_cells import NoisyCells
from sottovoce.inference.cells.questions import Question
from sottovoce.inference.cells.record_sums import noise_quantile, sum_draws, total_limits
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import ApproxDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Count, Facts, Flag, Number
from sottovoce.service.answers.question_parser import parse_question


@pytest.mark.parametrize("tail", [0.2, 0.0225, 1e-3])
@pytest.mark.parametrize("scales", [(1.0, 1.0), (3.0, 0.5), (1.0, 1e-4)])
def test_two_laplace_noises_exceed_their_quantile_as_often_as_said(tail: float, scales: tuple[float, float]) -> None:
    reach = noise_quantile(tail, (2 * scales[0] ** 2, 2 * scales[1] ** 2), "laplace")
    held = integrate.quad(
        lambda x: stats.laplace.pdf(x, scale=scales[1]) * stats.laplace.sf(reach - x, scale=scales[0]),
        -80 * scales[1],
        80 * scales[1],
        points=[0.0],
        limit=400,
    )[0]
    assert held == pytest.approx(tail, rel=2e-4)


SHAPES = {
    "all at the low end": np.full(300, -1.0),
    "all in the middle": np.zeros(300),
    "a few far out": np.r_[np.full(297, -1.0), 1.0, 1.0, 0.3],
    "at both ends": np.r_[np.full(150, -1.0), np.full(150, 1.0)],
    "even": np.linspace(-1, 1, 300),
}


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("shape", SHAPES)
def test_limits_of_totals_hold_whatever_the_records_are(shape: str, kind: str) -> None:
    t, rng, tables, noise = SHAPES[shape], seeded_rng(3), 4000, (400.0, 200.0)
    middle, half = 40.0, 50.0

    def noises(variance: float) -> np.ndarray:
        drawn = rng.standard_normal(tables) if kind == "gaussian" else rng.laplace(size=tables) / math.sqrt(2)
        return np.asarray(math.sqrt(variance) * drawn)

    sums = t.sum() + noises(noise[0]), (t * t).sum() + noises(noise[1])
    limits = total_limits((300 + noises(100.0), 100.0), sums, noise, (middle, half), 0.9, kind)  # type: ignore[arg-type]
    total = (middle + half * t).sum()
    low, high = (limits[:, 0] > total + 1e-6).mean(), (limits[:, 1] < total - 1e-6).mean()
    assert max(low, high) <= 0.05 + 3.5 * math.sqrt(0.05 * 0.95 / tables)


def test_squares_narrow_a_total_near_a_bound() -> None:
    known, noise = (np.array([5000.0]), 0.0), (900.0, 480.0)
    beside = np.array([-4990.0]), np.array([4980.0])
    low, high = total_limits(known, beside, noise, (50.0, 50.0), 0.95, "gaussian")[0]
    alone = total_limits(known, (beside[0], np.array([5e4])), (900.0, 1e12), (50.0, 50.0), 0.95, "gaussian")[0]
    assert high - low < 0.8 * (alone[1] - alone[0])


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_draws_of_sums_follow_their_posterior_on_a_grid(kind: str) -> None:
    """The oracle is a plain grid over (S, Q), as likely beforehand as any that N records can have."""
    number, seen, noise = 50.0, (-30.0, 20.0), (64.0, 36.0)
    drawn = sum_draws(
        np.full((40_000, 1), number),
        (np.array([seen[0]]), np.array([seen[1]])),
        noise,
        kind,  # type: ignore[arg-type]
        seeded_rng(1),
    )
    s, q = np.meshgrid(np.linspace(-number, number, 801), np.linspace(0, number, 801), indexing="ij")
    law = stats.norm if kind == "gaussian" else stats.laplace
    spread = [math.sqrt(v if kind == "gaussian" else v / 2) for v in noise]
    weight = law.pdf(seen[0] - s, scale=spread[0]) * law.pdf(seen[1] - q, scale=spread[1]) * (q >= s * s / number)
    weight /= weight.sum()
    assert np.all(drawn[1] ** 2 / number <= drawn[2] + 1e-9)
    assert np.all(drawn[2] <= number)
    for draws, grid in ((drawn[1], s), (drawn[2], q), (drawn[2] - drawn[1] ** 2 / number, q - s * s / number)):
        mean = float((weight * grid).sum())
        spread_of = math.sqrt(float((weight * (grid - mean) ** 2).sum()))
        assert float(draws.mean()) == pytest.approx(mean, abs=0.05 * spread_of)
        assert float(draws.std()) == pytest.approx(spread_of, rel=0.05)


def held(verb: str, values: np.ndarray, by: np.ndarray | None, tables: int) -> float:
    low, high = math.floor(values.min()), math.ceil(values.max() + 1)
    groups = {} if by is None else {"g": Category(("A", "B"))}
    facts = Facts(x=Number(low, high, missing=None if groups else low), **groups)
    question = Question(verb, ("x",), facts, by=tuple(groups))
    mechanism, rng = NoisyCells.calibrate(question, len(values), ApproxDP(0.2, 1e-6), "gaussian"), seeded_rng(11)
    records = {"x": values.tolist()} | ({} if by is None else {"g": by.tolist()})
    parts = [values] if by is None else [values[by == "A"], values[by == "B"]]
    truth = np.array([part.sum() if verb == "total" else part.std() for part in parts])
    inside = []
    for _ in range(tables):
        ends = mechanism.release(records, rng).value.interval()
        inside.append((ends[:, 0] <= truth + 0.01) & (truth - 0.01 <= ends[:, 1]))
    return float(np.mean(inside))


@pytest.mark.parametrize("verb", ["total", "sd"])
@pytest.mark.parametrize("shape", ["normal", "skewed", "flags", "one value"])
def test_intervals_hold_what_the_records_have(verb: str, shape: str) -> None:
    rng, n = seeded_rng(2), 1500
    by = rng.choice(["A", "B"], n, p=[0.8, 0.2])
    values = {
        "normal": rng.normal(120, 18, n),
        "skewed": 4 * np.exp(rng.normal(0, 1, n)),
        "flags": (rng.random(n) < 0.1) * 1.0,
        "one value": np.full(n, 37.0),
    }[shape]
    assert held(verb, values, None, 120) >= 0.89
    assert held(verb, values, by, 60) >= 0.89


@pytest.fixture
def curator(tmp_path: Path) -> sv.Curator:
    rng, n = np.random.default_rng(1), 4000
    table = pa.table({"cost": rng.exponential(300, n), "ward": rng.choice(["A", "B"], n), "visits": rng.poisson(2, n)})
    facts = Facts(cost=Number(0, 5000), ward=Category(("A", "B")), visits=Count(20))
    budget = ApproxDP(1.0, 1e-6)
    return sv.Curator(table, ledger=str(tmp_path / "l.ledger"), budget=budget, facts=facts, dataset="d")


def test_one_payment_tells_mean_spread_and_total(curator: sv.Curator) -> None:
    mean = curator.mean("cost", by="ward", spend=0.2, pool=True)
    before, spread, total = curator.left(), mean.sd(), mean.total()
    assert curator.left() == before
    assert [spread.entry, total.entry] == [mean.entry] * 2
    assert spread.question.describe() == "sd of cost by ward"
    assert all(row["low"] < 450 and row["high"] > 200 for row in spread.rows)
    for whole, each in zip(total.rows, mean.rows, strict=True):
        assert whole["estimate"] == pytest.approx(2000 * each["estimate"], rel=0.25)
    assert spread.mean().rows == total.mean().rows
    assert "these very records" in spread.summary()
    assert sv.service.answers.Answer.from_dict(total.to_dict()).rows == total.rows
    with pytest.raises(InvalidValue, match="one column's sums"):
        curator.counts("ward", spend=0.1).sd()
    with pytest.raises(InvalidValue, match="one column's sums"):
        curator.quantiles("cost", spend=0.1).total()
    with pytest.raises(InvalidValue, match="one column's sums"):
        curator.rate("visits", exposure="cost", spend=0.1).total()


def test_verbs_and_words_ask_the_same(curator: sv.Curator) -> None:
    paid = curator.total("cost", by="ward", spend=0.1)
    again = curator.ask("sum of cost by ward", spend=0.1, again=True)
    assert (again.entry, again.rows) == (paid.entry, paid.rows)
    assert curator.sd("cost", spend=0.1).rows[0]["low"] < 450
    assert curator.plan("standard deviation of cost", spend=0.1).width > 0
    assert curator.rate("visits", spend=0.1).total().rows[0]["low"] < 9000


@pytest.mark.parametrize(
    ("text", "verb", "column"),
    [
        ("total cost", "total", "cost"),
        ("sums of cost", "total", "cost"),
        ("standard deviations of cost", "sd", "cost"),
        ("SD of cost", "sd", "cost"),
    ],
)
def test_words_of_a_sum(text: str, verb: str, column: str) -> None:
    assert parse_question(text) == {"verb": verb, "columns": (column,)}


def test_what_makes_no_total_is_refused() -> None:
    facts = Facts(smoker=Flag(), cost=Number(0, 10))
    with pytest.raises(InvalidValue, match="ask for its counts"):
        Question("total", ("smoker",), facts)
    with pytest.raises(InvalidValue, match="not pooled"):
        Question("sd", ("cost",), facts, pool=True)


def test_a_ratio_is_a_rate_of_any_numbers(curator: sv.Curator) -> None:
    paid = curator.ratio("cost", "visits", by="ward", spend=0.3)
    assert paid.question.describe() == "rate of cost per visits by ward"
    assert all(row["low"] < 220 and row["high"] > 100 for row in paid.rows)
    assert curator.ask("ratio of cost to visits by ward", spend=0.3, again=True).rows == paid.rows
    assert "these very records" not in paid.summary()
    for odd in ("ratio of cost", "mean of cost to visits", "ratio of cost to ward and visits"):
        with pytest.raises(InvalidValue):
            curator.ask(odd, spend=1e-9)
    with pytest.raises(InvalidValue, match="ask for its mean"):
        curator.rate("cost", spend=1e-9)


def test_ratios_of_what_may_be_negative_hold_those_of_the_records() -> None:
    rng, n = seeded_rng(4), 2000
    years = rng.uniform(0, 10, n)
    gain = (rng.normal(-1, 3, n) * years).clip(-50, 50)
    facts = Facts(gain=Number(-50, 50), years=Number(0, 10))
    asked = Question("rate", ("gain",), facts, exposure="years")
    mechanism = NoisyCells.calibrate(asked, n, ApproxDP(0.3, 1e-6), "gaussian")
    records, truth = {"gain": gain.tolist(), "years": years.tolist()}, gain.sum() / years.sum()
    ends = [mechanism.release(records, rng).value.interval()[0] for _ in range(80)]
    assert np.mean([low <= truth <= high for low, high in ends]) >= 0.87


def _ratios(values: np.ndarray, exposures: np.ndarray) -> NoisyCells:
    facts = Facts(y=Number(0, 100), e=Number(0, 10, missing=0))
    return NoisyCells(Question("rate", ("y",), facts, exposure="e"), len(values), "gaussian", 4.0)


def test_ratios_hold_those_of_the_population_where_exposures_vary() -> None:
    """With every cost alike, all that is uncertain of a ratio is how exposures vary: it was left out."""
    rng, held, posteriors = seeded_rng(8), [], []
    for _ in range(150):
        exposures = rng.exponential(1.0, 900).clip(0, 10)
        values = np.full(900, 30.0)
        release = _ratios(values, exposures).release({"y": values.tolist(), "e": exposures.tolist()}, rng)
        posteriors.append(release.value)
        held.append(np.prod(release.value.interval()[0] - 30 / (1 - math.exp(-10))) <= 0)
    assert 0.89 <= np.mean(held) <= 0.995
    again = posteriors[0].from_dict(posteriors[0].to_dict())
    assert again.interval().tolist() == posteriors[0].interval().tolist()
    low, high = again.interval()[0]
    assert np.quantile(again.draws, [0.025, 0.975]).tolist() == pytest.approx([low, high], rel=0.1)


def test_a_ratio_to_nearly_nothing_has_no_end_above() -> None:
    posterior = _ratios(np.ones(50), np.ones(50)).release({"y": [9.0] * 50, "e": [0.0] * 50}, seeded_rng(1)).value
    assert posterior.interval()[0, 1] == math.inf
    assert np.all(np.isfinite(posterior.draws))


def test_rates_of_before_tell_of_the_exposures_of_their_records() -> None:
    facts = Facts(y=Number(0, 100), e=Number(0, 10))
    before = Question("rate", ("y",), facts, exposure="e", crossed=False)
    assert "crossed" not in before.to_dict()
    assert Question.from_dict(before.to_dict()) == before
    assert "these very records" in str(before.certain_of)
    assert before.reading.moments == 3
    release = NoisyCells(before, 40, "gaussian", 2.0).release({"y": [9.0] * 40, "e": [3.0] * 40}, seeded_rng(1))
    low, high = release.value.interval()[0]
    assert low <= 3 <= high


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("grouped", [False, True])
def test_no_two_records_move_products_farther_than_their_profile_says(kind: str, grouped: bool) -> None:
    """By brute force over pairs of records on a grid, in their cells, in another, and in none."""
    groups = ("g",) if grouped else ()
    facts = Facts(y=Number(-1, 1, missing=None), e=Number(0, 2), g=Category(("A", "B")))
    mechanism = NoisyCells(Question("rate", ("y",), facts, by=groups, exposure="e"), 1, kind, 1.0)  # type: ignore[arg-type]
    reading, power = mechanism.reading, 1 if kind == "laplace" else 2
    unit = np.repeat([noise.scale for noise in mechanism.noises], reading.sizes)
    grid = [*np.linspace(-1, 1, 9), None]
    rows = [
        reading.read([*([[g]] if grouped else []), [y], [None if y is None else e]]).total / unit
        for g in ("A", "B")[: 1 + grouped]
        for y in grid
        for e in np.linspace(0, 2, 9)
    ]
    table = np.array(rows)
    farthest = max(float((np.abs(table - row) ** power).sum(axis=1).max()) for row in table)
    claimed = {"laplace": 5.4 if grouped else 4.0, "gaussian": 8.0}[kind]
    assert farthest <= claimed * (1 + 1e-5)
    assert farthest >= 0.99 * claimed or kind == "laplace"
