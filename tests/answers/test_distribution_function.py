"""What comes with quantiles for free: the distribution, other quantiles, shares beyond a value."""

import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import sottovoce as sv
from sottovoce.privacy.errors import InvalidValue
from sottovoce.service.answers.answer import Answer


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, Answer, Answer, Answer]:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"days": np.ceil(rng.lognormal(2, 1, 8000)).clip(0, 365).astype(int)})
    frame["ward"] = rng.choice(["A", "B"], 8000)
    facts = sv.Facts(days=sv.Count(3650), ward=sv.Category(["A", "B"]))
    place: Path = tmp_path_factory.mktemp("ecdf") / "days.ledger"
    with sv.Curator(frame, facts=facts, ledger=place, budget=sv.ApproxDP(4.0, 1e-6), dataset="d") as curator:
        answers = [curator.quantiles("days", [0.25, 0.5, 0.9], by=by, spend=0.3) for by in (None, "ward")]
        return frame, answers[0], answers[1], curator.mean("days", spend=0.1)


def test_the_distribution_is_held_by_its_band(asked) -> None:
    frame, answer, by_ward, _ = asked
    for known, days in ((answer.ecdf(), frame.days), (by_ward.ecdf("B"), frame.days[frame.ward == "B"])):
        table = known.table
        assert table.value.is_monotonic_increasing and table.estimate.is_monotonic_increasing
        truth = np.array([(days < value).mean() for value in table.value])
        held = (table.low - 1e-9 <= truth) & (truth <= table.high + 1e-9)
        assert held.mean() > 0.85
        plt.close(known.plot())


@pytest.mark.parametrize("claim", ["days > 30", "days >= 31", "days <= 5", "days < 6", "days > 1e9"])
def test_shares_beyond_a_value(asked, claim: str) -> None:
    frame, answer, *_ = asked
    assert answer.probability(claim) == pytest.approx(frame.eval(claim).mean(), abs=0.03)
    with pytest.raises(InvalidValue):
        answer.probability(claim.replace("days", "other"))


def test_shares_beyond_a_value_in_a_group_and_their_intervals(asked) -> None:
    frame, answer, by_ward, mean = asked
    for known, days, group in ((answer, frame.days, ()), (by_ward, frame.days[frame.ward == "B"], ("B",))):
        for claim in ("days > 30", "days <= 5"):
            share, low, high = known.share_of(claim, *group)
            assert share == known.probability(claim, *group)
            assert low - 1e-9 <= _held(days, claim) <= high + 1e-9
            assert low <= share <= high and high - low < 0.1
    for refused, said in (
        (lambda: by_ward.probability("days > 30"), "say of which group, after what is asked: 'A'; 'B'. Got none"),
        (lambda: by_ward.ecdf("C"), "say of which group, after what is asked: 'A'; 'B'. Got 'C'"),
        (lambda: answer.ecdf("A"), "no groups; leave the group out. Got A"),
        (lambda: mean.share_of("days > 30"), "follows from quantiles of a column"),
        (lambda: mean.probability("days > 30"), "one row, which is called 'mean'. Got 'days'"),
        (lambda: by_ward.probability("A > B", "A"), "a group goes with quantiles"),
    ):
        with pytest.raises(InvalidValue, match=re.escape(said)):
            refused()
    assert mean.probability("mean > 1") == mean.probability("mean of days > 1") == 1.0


def _held(days: pd.Series, claim: str) -> float:
    return float(pd.DataFrame({"days": days}).eval(claim).mean())


def test_other_quantiles_of_the_same_release_are_free(asked) -> None:
    frame, answer, by_ward, mean = asked
    other = answer.quantiles(["40%", 0.75])
    assert other.entry == answer.entry and [row["quantile"] for row in other.rows] == [0.4, 0.75]
    for row in other.rows:
        assert row["low"] <= np.quantile(frame.days, row["quantile"], method="inverted_cdf") <= row["high"]
    assert len(by_ward.quantiles(0.5).rows) == 2
    assert answer.quantiles([0.25, 0.5, 0.9]).rows == answer.rows
    for refused in (mean.ecdf, lambda: mean.quantiles(0.5), lambda: by_ward.ecdf("C"), lambda: answer.quantiles(2)):
        with pytest.raises(InvalidValue):
            refused()
