"""A table of counts and its margin, asked apart, are known together: they add up, and hold the truth."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sottovoce as sv

FACTS = sv.Facts(ward=sv.Category(["A", "B", "C"], missing="C"), smoker=sv.Flag(missing=False))
"""Nobody is elsewhere, so that a margin is the sum of its cells and of nothing else."""


def test_counts_by_ward_and_in_all_add_up(tmp_path: Path) -> None:
    rng, n = np.random.default_rng(4), 4000
    data = pd.DataFrame({"ward": rng.choice(["A", "B", "C"], n, p=[0.6, 0.3, 0.1]), "smoker": rng.random(n) < 0.3})
    budget = sv.ApproxDP(1.0, 1e-6)
    with sv.Curator(data, tmp_path / "x.ledger", budget, facts=FACTS, dataset="people") as curator:
        cells = curator.counts(["ward", "smoker"], spend=0.01)
        margin = curator.counts("smoker", spend=0.01)
        asked_apart = [
            sum(row["estimate"] or 0.0 for row in cells.rows if row["smoker"] == yes) for yes in (False, True)
        ]
        assert abs(asked_apart[1] - margin.rows[1]["estimate"]) > 1  # the noise of two releases
        known, total = (curator.know(words).rows for words in ("counts of ward, smoker", "counts of smoker"))
        assert sum(row["estimate"] for row in known) == pytest.approx(n, abs=1)
        for row in total:
            inner = [cell for cell in known if cell["smoker"] == row["smoker"]]
            assert sum(cell["estimate"] for cell in inner) == pytest.approx(row["estimate"], abs=1)
            assert row["low"] <= (data["smoker"] == row["smoker"]).sum() <= row["high"]
        widths = [[row["high"] - row["low"] for row in rows] for rows in (total, margin.rows)]
        assert np.mean(widths[0]) <= 1.02 * np.mean(widths[1])
