"""Groups that follow one another: draws of a random walk beside the exact posterior, coverage, and the figure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sottovoce as sv
from sottovoce.inference.cells.questions import Question
from sottovoce.inference.cells.time_series import walked
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


@pytest.mark.parametrize(
    ("verb", "column", "asked", "said"),
    [
        ("proportion", "smoker", {}, "three groups or more"),
        ("proportion", "smoker", {"by": "season"}, "three groups or more"),
        ("proportion", "ward", {"by": "month"}, "the share of a flag"),
        ("counts", "ward", {"by": "month"}, "the share of a flag"),
        ("mean", "age", {"by": "month", "pool": "space"}, "pool= is True, False or 'time'"),
    ],
)
def test_what_has_no_order_is_refused(verb: str, column: str, asked: dict[str, object], said: str) -> None:
    from sottovoce.inference.cells.questions import make_question

    with pytest.raises(InvalidValue, match=said):
        make_question(verb, column, FACTS, **({"pool": "time"} | asked))
