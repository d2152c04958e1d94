"""Beside riskcal, whose numbers `benchmarks/peers/riskcal_table.py` wrote down in an environment of its own."""

import json
from pathlib import Path

import numpy as np
import pytest

from sottovoce.privacy import GaussianProfile, LaplaceProfile, compose
from sottovoce.privacy.risk import advantage, success, trade_off

GOLDEN = json.loads(Path(__file__).with_name("riskcal.json").read_text())


@pytest.mark.parametrize("row", GOLDEN["rows"], ids=lambda row: row["name"])
def test_the_same_trade_off_as_riskcal(row):
    kinds = {"gaussian": GaussianProfile, "laplace": LaplaceProfile}
    parts = [kinds[kind](number) for kind, number, _ in row["parts"]]
    profile = compose(parts, [count for *_, count in row["parts"]])
    assert advantage(profile) == pytest.approx(row["advantage"], abs=1e-6)
    found = trade_off(profile, GOLDEN["alphas"])
    np.testing.assert_allclose(found, row["beta"], rtol=0, atol=1e-6)
    assert success(profile, GOLDEN["alphas"][1]) == pytest.approx(1 - found[1], abs=1e-12)
