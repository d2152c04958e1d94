"""Competing risks: the share who had each kind of event, beside Aalen and Johansen's without privacy."""

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sottovoce as sv
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.randomness import seeded_rng

Opened = Callable[..., sv.Curator]
KINDS = ["alive", "relapse", "death"]
FACTS = sv.Facts(days=sv.Count(120), end=sv.Category(KINDS), ward=sv.Category(["A", "B"]), died=sv.Flag())
RATES = {"A": (1 / 60, 1 / 120), "B": (1 / 120, 1 / 40)}
CUTS = [20, 40, 60, 90]


def records(n: int, seed: int = 1) -> pd.DataFrame:
    rng = seeded_rng(seed)
    ward = rng.choice(["A", "B"], n)
    rates = np.array([RATES[name] for name in ward])
    times, followed = rng.exponential(1 / rates), rng.uniform(10, 300, n)
    first = times.min(axis=1)
    end = np.where(followed < first, 0, 1 + times.argmin(axis=1))
    days = np.ceil(np.minimum(first, followed)).clip(0, 120)
    end = np.where(np.minimum(first, followed) > 120, 0, end)
    return pd.DataFrame({"days": days.astype(int), "end": np.array(KINDS)[end], "ward": ward, "died": end > 0})


def aalen_johansen(frame: pd.DataFrame, kind: str, time: float) -> float:
    """Return the share who had a kind of event before a time, a day at a time."""
    surviving, result = 1.0, 0.0
    for day in range(int(time)):
        here = frame["days"] == day
        risk = int((frame["days"] >= day).sum())
        result += surviving * ((here & (frame["end"] == kind)).sum() / risk)
        surviving *= 1 - (here & (frame["end"] != "alive")).sum() / risk
    return result


def truth(ward: str, kind: int, time: float) -> float:
    rates = RATES[ward]
    return float(rates[kind] / sum(rates) * -np.expm1(-sum(rates) * time))


@pytest.fixture
def curator(tmp_path: Path) -> Opened:
    """Open a data set with a ledger of its own."""
    number = itertools.count()

    def opened(frame: pd.DataFrame, budget: str) -> sv.Curator:
        place = tmp_path / f"{next(number)}.ledger"
        return sv.Curator(frame, facts=FACTS, ledger=place, budget=budget, dataset="trial")

    return opened


def test_with_next_to_no_noise_incidences_are_those_of_aalen_and_johansen(curator: Opened) -> None:
    frame = records(20_000)
    with curator(frame, "zcdp:1000") as asked:
        answer = asked.survival("days", event="end", by="ward", cuts=CUTS, spend=0.9)
    table = answer.incidences
    assert list(table.columns) == ["ward", "end", "days", "estimate", "low", "high"] and len(table) == 16
    for row in table.itertuples():
        plain = aalen_johansen(frame[frame["ward"] == row.ward], row.end, row.days)
        assert row.estimate == pytest.approx(plain, abs=0.004), row
    shares = table.groupby(["ward", "days"])["estimate"].sum().to_numpy()
    assert shares + answer.table["estimate"].to_numpy() == pytest.approx(1, abs=0.003)


def test_intervals_of_incidences_hold(curator: Opened) -> None:
    held, count = 0, 0
    for seed in range(25):
        with curator(records(3000, seed), "approx:1,1e-6") as asked:
            answer = asked.survival("days", event="end", by="ward", cuts=CUTS, spend=0.3)
        for row in answer.incidence_rows:
            held += row["low"] <= truth(row["ward"], KINDS.index(row["end"]) - 1, row["days"]) <= row["high"]
            count += 1
    assert held / count > 0.9


def test_a_flag_has_one_kind_of_event_and_its_incidence_is_what_the_curve_falls_by(
    curator: Opened,
) -> None:
    with curator(records(4000), "approx:1,1e-6") as asked:
        answer = asked.survival("days", event="died", cuts=CUTS, spend=0.5)
    one = answer.incidence(True, at=60)
    assert one.estimate == pytest.approx(1 - answer.at(60)["estimate"][0], abs=1e-9)


def test_figures_and_refusals_of_incidences(curator: Opened) -> None:
    with curator(records(2000), "approx:1,1e-6") as asked:
        answer = asked.survival("days", event="end", by="ward", cuts=CUTS, spend=0.5)
        again = asked.again(answer.entry)
    assert again.incidence_rows == answer.incidence_rows
    (axes,) = answer.plot_incidence("A").axes
    lines = {line.get_label(): line.get_ydata() for line in axes.lines}
    assert list(lines) == ["relapse", "death"]
    assert lines["death"][2] == pytest.approx(answer.incidence("death", "A", at=40).estimate)
    assert "any end" in answer.summary()
    with pytest.raises(InvalidValue, match="has the kinds relapse, death"):
        answer.incidence("alive", "A", at=40)
    with pytest.raises(InvalidValue, match="told at the cuts"):
        answer.incidence("death", "A", at=41)
