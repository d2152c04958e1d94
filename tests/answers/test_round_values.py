"""Quantiles of columns of round numbers, of which bins tell that they are round."""

import numpy as np
import pyarrow as pa
import pytest

import sottovoce as sv
from sottovoce.inference.cells.bin_quantiles import are_heaped
from sottovoce.privacy.errors import InvalidValue

AT = (0.25, 0.5, 0.75)


def test_quartiles_of_pressures_in_steps_of_five_are_held(tmp_path) -> None:
    """As if they lay evenly in their bins, the third quartile was held in none of 24 tables."""
    rng, held = np.random.default_rng(0), []
    facts = sv.Facts(sbp=sv.Number(60, 250))
    for place in range(8):
        values = 5 * np.round(rng.normal(130, 18, 9_000) / 5)
        ledger, budget = tmp_path / f"{place}.ledger", sv.ApproxDP(0.3, 1e-6)
        with sv.Curator(pa.table({"sbp": values}), ledger, budget, facts=facts, dataset="d") as curator:
            answer = curator.quantiles("sbp", AT, spend=1.0)
        truth = np.quantile(values, AT, method="inverted_cdf")
        held.append([row["low"] <= one <= row["high"] for row, one in zip(answer.rows, truth, strict=True)])
    assert np.mean(held, axis=0).min() > 0.8


@pytest.mark.parametrize(
    ("law", "round_"),
    [
        (lambda rng, n: rng.normal(50, 15, n), False),
        (lambda rng, n: rng.exponential(12, n), False),
        (lambda rng, n: np.where(rng.random(n) < 0.5, 0, rng.gamma(2, 12, n)), False),
        (lambda rng, n: 5 * np.round(rng.normal(10, 3, n)), True),
        (
            lambda rng, n: np.where(rng.random(n) < 0.5, 10 * np.round(rng.normal(5, 1.5, n)), rng.normal(50, 15, n)),
            True,
        ),
    ],
)
@pytest.mark.parametrize(("n", "bins", "noise"), [(9_000, 32, 16.0), (9_000, 64, 5.0), (10**6, 128, 2.0)])
def test_round_values_are_told_from_smooth_ones(law, round_: bool, n: int, bins: int, noise: float) -> None:
    rng = np.random.default_rng(3)
    counts = np.array([np.histogram(law(rng, n).clip(0, 100), bins, (0, 100))[0] for _ in range(10)])
    told = are_heaped(counts + rng.normal(0, noise, counts.shape), noise**2)
    assert told.mean() == round_


def test_few_values_are_answered_and_bins_are_refused(tmp_path) -> None:
    facts, table = sv.Facts(sbp=sv.Number(60, 250), ward=sv.Category(["A", "B"])), {"sbp": [100.0, 140.0] * 50}
    asked = pa.table(table | {"ward": ["A"] * 100})
    with sv.Curator(asked, tmp_path / "q.ledger", sv.ApproxDP(1, 1e-6), facts=facts, dataset="d") as curator:
        for by in (None, "ward"):
            with pytest.raises(InvalidValue, match="leave bins out"):
                curator.quantiles("sbp", [0.5], by=by, bins=4, spend=0.2)
            answer = curator.quantiles("sbp", [0.5], by=by, spend=0.2)
            assert all(60 <= row["low"] <= row["high"] <= 250 for row in answer.rows)
