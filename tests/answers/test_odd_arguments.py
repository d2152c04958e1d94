"""What nobody means to ask with is refused in one line of ours, and costs nothing."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sottovoce as sv

FACTS = sv.Facts(age=sv.Number(0, 100), ward=sv.Category(["A", "B"]), smoker=sv.Flag(), visits=sv.Count(9))
ODD = [
    *(None, 3, -1, "", "x", float("nan"), float("inf"), [], {}, (), object(), b"x", ["age", "age"], pd.NA, 1j),
    *(np.array([1, 2]), decimal.Decimal(1), datetime.date(2020, 1, 1), 10**400, "age " * 200, lambda: 1),
]


def frame() -> pa.Table:
    rng = np.random.default_rng(1)
    ages, wards = rng.uniform(0, 100, 200), rng.choice(list("AB"), 200)
    visits = rng.integers(0, 9, 200)
    return pa.table({"age": ages, "ward": wards, "smoker": rng.random(200) < 0.3, "visits": visits})


@pytest.fixture(scope="module")
def curator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sv.Curator]:
    place = tmp_path_factory.mktemp("odd") / "l"
    with sv.Curator(frame(), place, sv.ApproxDP(1.0, 1e-6), facts=FACTS, dataset="p") as opened:
        yield opened


@pytest.mark.parametrize("odd", ODD, ids=lambda value: repr(value)[:16])
def test_odd_arguments_are_refused_in_one_line(
    curator: sv.Curator, odd: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a ledger may be called x
    before, budget = curator.share_left(), sv.ApproxDP(1.0, 1e-6)

    def opened(**changes: Any) -> None:
        given = {"data": frame(), "ledger": tmp_path / "q", "budget": budget, "dataset": "q", "facts": FACTS} | changes
        sv.Curator(given.pop("data"), given.pop("ledger"), given.pop("budget"), **given).close()

    asked = [
        *(lambda verb=verb: getattr(curator, verb)(odd, spend=1e-9) for verb in ("mean", "counts", "rate", "ask")),
        *(lambda name=name: curator.mean("age", spend=1e-9, **{name: odd}) for name in ("by", "pool", "purpose")),
        lambda: curator.rate("visits", exposure=odd, spend=1e-9),
        lambda: curator.quantiles("age", at=odd, spend=1e-9),
        lambda: curator.plan(odd),
        lambda: curator.plan("mean of age", imagined=odd),
        lambda: curator.share_for(odd, 1.0),
        lambda: curator.balance(odd),
        lambda: sv.Day(odd, odd),
        *(lambda name=name: opened(**{name: odd}) for name in ("ledger", "dataset", "data")),
    ]
    for ask in asked:
        try:
            ask()
        except sv.SottovoceError as error:
            assert "\n" not in str(error)
    assert before - curator.share_left() < 1e-6


def test_names_in_an_array_are_names(curator: sv.Curator) -> None:
    assert len(curator.mean("age", by=np.array(["ward"]), spend=0.001).rows) == 2
    assert len(curator.counts(np.array(["ward", "smoker"]), spend=0.001).rows) == 4
