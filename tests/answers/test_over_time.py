"""Groups that follow one another: draws of a random walk beside the exact posterior, coverage, and the figure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sottovoce as sv
from sottovoce.inference.cells.questions import Question
from sottovoce.inference.cells.time_series import seasonal, walked
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.randomness import seeded_rng

MONTHS = [f"2024-{month:02}" for month in range(1, 13)]
FACTS = sv.Facts(
    month=sv.Category(MONTHS),
    ward=sv.Category(["A", "B"]),
    smoker=sv.Flag(),
    age=sv.Number(0, 100),
    season=sv.Category(["cold", "warm"]),
)


def test_draws_are_those_of_the_exact_posterior() -> None:
    """Beside one big Gaussian over all times, weighed on a grid of steps of its own."""
    rng = seeded_rng(1)
    seen, variances = rng.normal(0.1, 0.3, (6, 1)), rng.uniform(0.01, 0.2, (6, 1))
    drawn = walked(seen, variances, -1.0, 1.0, 200_000, rng)[:, :, 0]
    log, means, covariances = [], [], []
    steps = np.geomspace(1e-5, 1.0, 4000)
    for step in steps:
        prior = 1.0 + step**2 * np.minimum.outer(np.arange(6), np.arange(6))
        total = prior + np.diag(variances[:, 0])
        inverse = np.linalg.inv(total)
        sign, size = np.linalg.slogdet(total)
        log.append(-0.5 * (size + seen[:, 0] @ inverse @ seen[:, 0]) + np.log(step) - np.log1p(step**2))
        means.append(prior @ inverse @ seen[:, 0])
        covariances.append(prior - prior @ inverse @ prior)
        assert sign == 1
    weights = np.exp(np.array(log) - max(log))
    weights /= weights.sum()
    mean = weights @ np.array(means)
    spread = np.einsum("k,kij->ij", weights, np.array(covariances)) + np.cov(
        np.array(means).T, aweights=weights, ddof=0
    )
    assert drawn.mean(axis=0) == pytest.approx(mean, abs=0.01)
    assert np.cov(drawn.T) == pytest.approx(spread, rel=0.08, abs=2e-3)


def test_draws_with_a_season_are_those_of_the_exact_posterior() -> None:
    """Beside a finer grid, and the joint law of level and effects written out as a linear model."""
    rng = seeded_rng(4)
    seasons, times = [0, 1, 0, 1, 0, 1], np.arange(6)
    seen, variances = rng.normal(0.0, 0.3, (6, 1)), rng.uniform(0.01, 0.1, (6, 1))
    drawn = seasonal(seen, variances, seasons, -1.0, 1.0, 200_000, rng)[:, :, 0]
    design = np.hstack([np.ones((6, 1)), np.tril(np.ones((6, 6)))[:, 1:], np.eye(2)[seasons]])  # begin, steps, effects
    log, means, covariances = [], [], []
    for step in np.geomspace(1e-4, 1.0, 70):
        for spread in np.geomspace(1e-4, 1.0, 70):
            prior = np.diag([1.0, *[step**2] * 5, spread**2, spread**2])
            precision = np.linalg.inv(prior) + design.T @ (design / variances)
            total = design @ prior @ design.T + np.diag(variances[:, 0])
            log.append(
                -0.5 * (np.linalg.slogdet(total)[1] + seen[:, 0] @ np.linalg.solve(total, seen[:, 0]))
                + np.log(step) - np.log1p(step**2) + np.log(spread) - np.log1p(spread**2)
            )  # fmt: skip
            known = np.linalg.inv(precision)
            means.append(design @ known @ design.T @ (seen / variances)[:, 0])
            covariances.append(design @ known @ design.T)
    weights = np.exp(np.array(log) - max(log))
    weights /= weights.sum()
    mean = weights @ np.array(means)
    spread = np.einsum("k,kij->ij", weights, np.array(covariances)) + np.cov(
        np.array(means).T, aweights=weights, ddof=0
    )
    assert drawn.mean(axis=0) == pytest.approx(mean, abs=0.012)
    assert np.cov(drawn.T) == pytest.approx(spread, rel=0.1, abs=3e-3)
    assert times.size == 6


@pytest.mark.parametrize("amplitude", [0.0, 0.15])
def test_a_season_makes_intervals_narrower_and_where_there_is_none_little_is_lost(amplitude: float) -> None:
    """Shares of 48 months, seen with errors: intervals hold, beside a walk that knows of no season."""
    rng = seeded_rng(6)
    months, held, widths = np.arange(48), [], []
    for _ in range(40):
        truth = 0.4 + amplitude * np.sin(2 * np.pi * months / 12) + np.cumsum(rng.normal(0, 0.004, 48))
        seen, errors = truth + 0.06 * rng.standard_normal(48), np.full((48, 1), 0.06**2)
        series = [
            seasonal(seen[:, None], errors, list(months % 12), 0.0, 1.0, 400, rng),
            walked(seen[:, None], errors, 0.0, 1.0, 400, rng),
        ]
        ends = [np.quantile(draws[:, :, 0], (0.025, 0.975), axis=0) for draws in series]
        held.append(np.mean((ends[0][0] <= truth) & (truth <= ends[0][1])))
        widths.append([float(np.mean(high - low)) for low, high in ends])
    season, walk = np.mean(widths, axis=0)
    assert 0.93 < np.mean(held) < (0.98 if amplitude else 0.995)  # a season may always be there, and is allowed for
    assert season < (0.85 if amplitude else 1.3) * walk


def test_a_walk_that_stands_still_and_one_that_leaps() -> None:
    rng = seeded_rng(2)
    still = walked(
        np.full((12, 1), 0.3) + 0.02 * rng.standard_normal((12, 1)), np.full((12, 1), 0.02**2), 0, 1, 4000, rng
    )
    assert still.std(axis=0).mean() < 0.75 * 0.02
    steps = np.where(np.arange(12) < 6, 0.2, 0.8)[:, None]
    leaps = walked(steps, np.full((12, 1), 0.01**2), 0, 1, 4000, rng)
    assert abs(leaps.mean(axis=0)[:, 0] - steps[:, 0]).max() < 0.01
    series = walked(np.zeros((12, 3)), np.full((12, 3), 1e6), 0, 1, 500, rng)  # of which nothing is known
    assert series.shape == (500, 12, 3) and series.std() > 0.2


def table(rng: np.random.Generator, n: int = 4000) -> tuple[pd.DataFrame, np.ndarray]:
    shares = 1 / (1 + np.exp(1 - np.cumsum(rng.normal(0, 0.15, 12))))
    month = rng.integers(0, 12, n)
    frame = {
        "month": np.array(MONTHS)[month],
        "ward": rng.choice(["A", "B"], n),
        "smoker": rng.random(n) < shares[month],
        "age": np.clip(rng.normal(30 + 40 * shares[month], 12), 0, 100),
        "season": "cold",
    }
    return pd.DataFrame(frame), shares


@pytest.mark.parametrize(("verb", "column"), [("proportion", "smoker"), ("mean", "age")])
def test_intervals_hold_and_are_narrower(verb: str, column: str, tmp_path: Path) -> None:
    held, widths = [], []
    for life in range(12):
        frame, shares = table(np.random.default_rng(life))
        truths = shares if verb == "proportion" else 30 + 40 * shares
        options = {"facts": FACTS, "dataset": "t"}
        with sv.Curator(frame, tmp_path / f"{verb}{life}", sv.ApproxDP(1, 1e-6), **options) as curator:  # type: ignore[arg-type]
            answer = getattr(curator, verb)(column, by="month", pool="time", spend=0.1)
            alone = getattr(curator, verb)(column, by="month", spend=0.1)
        held += [row["low"] <= truth <= row["high"] for row, truth in zip(answer.rows, truths, strict=True)]
        widths.append(
            np.mean([row["high"] - row["low"] for row in answer.rows])
            / np.mean([row["high"] - row["low"] for row in alone.rows])
        )
    assert np.mean(held) > 0.92
    assert np.mean(widths) < 0.9


def test_a_series_is_drawn_and_told_in_words(tmp_path: Path) -> None:
    frame, _ = table(np.random.default_rng(5))
    with sv.Curator(frame, tmp_path / "ledger", sv.ApproxDP(1, 1e-6), facts=FACTS, dataset="t") as curator:
        answer = curator.ask("pooled over time proportion of smoker by month and ward", spend=0.2)
        assert answer.question.pool == "time"
        assert answer.question.describe() == "pooled over time proportion of smoker by month, ward"
        assert Question.from_dict(answer.question.to_dict()) == answer.question
        assert curator.again(answer.entry).rows == answer.rows
        drawing = answer.plot()
        (axes,) = drawing.axes
        assert len(axes.lines) == 2 and len(axes.collections) == 2
        assert [text.get_text() for text in axes.get_legend().get_texts()] == ["A", "B"]
        drawing.savefig(tmp_path / "series.svg")
        assert curator.ask("pooled proportion of smoker by month", spend=0.1).question.pool is True


def test_months_of_several_years_are_pooled_over_seasons(tmp_path: Path) -> None:
    """Said by the calendar, as periods are; told again alike, and drawn as a series."""
    rng = np.random.default_rng(8)
    days = np.datetime64("2021-01-01") + rng.integers(0, 3 * 365, 5000)
    high = rng.random(5000) < 0.4 + 0.2 * np.sin(2 * np.pi * days.astype("datetime64[M]").astype(int) / 12)
    facts = sv.Facts(seen=sv.Day("2021-01-01", "2023-12-31"), high=sv.Flag())
    with sv.Curator(
        pd.DataFrame({"seen": days, "high": high}), tmp_path / "ledger", sv.ApproxDP(1, 1e-6), facts=facts, dataset="t"
    ) as curator:
        answer = curator.proportion("high", by="seen: monthly", pool="season", spend=0.3)
        assert answer.question.describe() == "pooled over seasons proportion of high by yearmonth(seen)"
        assert curator.ask(answer.question.describe(), spend=0.1, again=True).entry == answer.entry
        assert Question.from_dict(answer.question.to_dict()) == answer.question
        assert curator.again(answer.entry).rows == answer.rows and len(answer.rows) == 36
        assert len(answer.plot().axes[0].lines) == 1
        with pytest.raises(InvalidValue, match="groups of days are seen: monthly, yearly"):
            curator.proportion("high", by="seen: weekly", spend=0.1)


@pytest.mark.parametrize(
    ("verb", "column", "asked", "said"),
    [
        ("proportion", "smoker", {}, "three groups or more"),
        ("proportion", "smoker", {"by": "season"}, "three groups or more"),
        ("proportion", "ward", {"by": "month"}, "the share of a flag"),
        ("counts", "ward", {"by": "month"}, "the share of a flag"),
        ("mean", "age", {"by": "month", "pool": "season"}, "months or quarters of more than one year"),
        ("mean", "age", {"by": "ward", "pool": "season"}, "three groups or more"),
        ("mean", "age", {"by": "month", "pool": "space"}, "pool= is True, False, 'time' or 'season'"),
    ],
)
def test_what_has_no_order_is_refused(verb: str, column: str, asked: dict[str, object], said: str) -> None:
    from sottovoce.inference.cells.questions import make_question

    with pytest.raises(InvalidValue, match=said):
        make_question(verb, column, FACTS, **({"pool": "time"} | asked))
