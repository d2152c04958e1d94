"""Explanations: true numbers in plain words."""

import json
import subprocess
import sys

import pyarrow as pa
import pytest

import sottovoce as sv
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.privacy.risk import promised_success


@pytest.mark.parametrize(
    "promise",
    [
        sv.PureDP(1.0),
        sv.ApproxDP(1.0, 1e-6),
        sv.RenyiDP(4, 0.5),
        sv.ZeroConcentratedDP(0.1),
        sv.GaussianDP(0.5),
        sv.MaxAdvantage(0.1),
        sv.MaxSuccess(0.05, baseline=0.01),
    ],
)
@pytest.mark.parametrize("baseline", [1e-5, 0.01, 0.3])
def test_the_sentence_never_says_less_than_the_promise(promise, baseline):
    told = sv.explain(promise, baseline=baseline)
    assert told.after / told.people >= promised_success(promise, baseline) - 1e-9
    assert told.before <= told.after <= told.people
    assert f"{told.after:,}" in str(told)
    assert told.to_dict()["after"] == told.after


def test_the_worked_example():
    """(1, 1e-6): e·10 + 0.001 of 1,000 is 27.2, rounded up to 28 people."""
    told = sv.explain(sv.ApproxDP(1.0, 1e-6))
    assert (told.people, told.before, told.after) == (1000, 10, 28)
    assert told.right == 73.2  # 1/(1 + 1/e) = 0.7311, rounded up


def test_releases_profiles_and_ledgers_are_explained(tmp_path):
    mechanism = sv.DiffusedPosterior.calibrate(sv.BetaBernoulli(6, 12), 100, sv.ApproxDP(0.5, 1e-6))
    release = mechanism.release([0, 1] * 50, seeded_rng(1))
    assert sv.explain(release).after == sv.explain(mechanism.profile).after
    data = pa.table({"x": [True, False] * 50})
    with sv.Curator(data, tmp_path / "l", sv.ApproxDP(2.0, 1e-6), dataset="d") as curator:
        curator.release(mechanism, "x")
        assert sv.explain(curator.budget).after == sv.explain(sv.ApproxDP(2.0, 1e-6)).after
    with sv.Ledger(tmp_path / "l") as ledger:
        assert "by 1 release(s)" in str(sv.explain(ledger))


@pytest.mark.parametrize(
    "bad",
    [
        lambda: sv.explain(3),
        lambda: sv.explain(sv.PureDP(1.0), baseline=0.0),
        lambda: sv.explain(sv.PureDP(1.0), baseline=2),
        lambda: sv.explain(sv.PureDP(1.0), language="xx"),
    ],
)
def test_what_cannot_be_explained_is_refused(bad):
    with pytest.raises(InvalidValue):
        bad()


def test_the_command(tmp_path):
    picture = tmp_path / "icons.png"
    told = subprocess.run(
        [sys.executable, "-m", "sottovoce", "explain", "approx:1,1e-6", "--json", "--plot", picture],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(told.stdout)["after"] == 28
    assert picture.stat().st_size > 5000
