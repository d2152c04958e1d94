"""Explanations: true numbers in plain words."""

import json
import math
import sys

import pyarrow as pa
import pytest

import sottovoce as sv
from sottovoce.faces.cli import main
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.privacy.risk import success


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
    assert told.after / told.people >= success(promise, baseline) - 1e-9
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
        assert "releases so far: 1" in str(sv.explain(ledger))


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


def test_the_command(tmp_path, monkeypatch, capsys):
    picture = tmp_path / "icons.png"
    monkeypatch.setattr(sys, "argv", ["sottovoce", "explain", "approx:1,1e-6", "--json", "--plot", str(picture)])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 0
    assert json.loads(capsys.readouterr().out)["after"] == 28
    assert picture.stat().st_size > 5000


def test_a_ledger_so_far_is_the_exact_composition_of_what_was_released(tmp_path):
    data = pa.table({"x": [True, False] * 50})
    with sv.Curator(data, tmp_path / "l", sv.ApproxDP(2.0, 1e-6), dataset="d") as curator:
        told = sv.explain(curator)
        assert (told.so_far, told.before) == (10, 10) and "Nothing was released" in str(told)
        mechanism = sv.DiffusedPosterior.calibrate(sv.BetaBernoulli(6, 12), 100, sv.ApproxDP(0.3, 1e-6))
        for _ in range(3):
            curator.release(mechanism, "x")
        together = 3 * mechanism.profile
        told = sv.explain(curator, baseline=0.05)
        assert told.so_far == math.ceil(1000 * success(together, 0.05))
        assert told.so_far < told.after
        assert sv.explain(curator.budget).so_far is None


def test_next_to_no_protection_is_said():
    assert "next to no protection" in str(sv.explain(sv.PureDP(50.0)))
    assert "next to no protection" not in str(sv.explain(sv.PureDP(1.0)))


@pytest.mark.parametrize(
    ("baseline", "promise"), [(1e-9, sv.PureDP(1.0)), (1e-9, sv.PureDP(30.0)), (0.5, sv.PureDP(30.0))]
)
def test_pictures_hold_at_most_a_thousand_dots(baseline, promise):
    told = sv.explain(promise, baseline=baseline)
    dots = told.icons
    assert sum(dots.counts) <= 1001 and min(dots.counts) >= 0
    assert (dots.anyway + dots.more) * dots.each >= told.after  # never fewer people than it says
    assert told._repr_html_().count("M") >= sum(dots.counts)
    assert sum(map(len, dots.lines())) == sum(dots.counts)
    assert told.plot().axes[0].get_legend() is not None


def test_every_text_is_used_and_filled_in():
    """A text that a language forgot, or a number that nobody gives, would show."""
    told = sv.explain(sv.MaxAdvantage(0.1))
    assert set(told.parts) == {"guess", "toss", "sure", "alone", "who", "against", "public", "not_promised"}
    assert "{" not in str(told)


def test_a_server_is_explained_by_its_configuration(tmp_path, monkeypatch, capsys):
    pytest.importorskip("fastapi")
    (tmp_path / "s.toml").write_text(
        '[datasets.a]\nsource = "a.parquet"\nbudget = "pure:1"\n[datasets.a.columns.x]\nkind = "flag"\n'
        '[datasets.b]\nsource = "b.parquet"\nbudget = "pure:2"\n[datasets.b.columns.x]\nkind = "flag"\n'
    )
    for words, code in (([], 2), (["--dataset", "b", "--json"], 0), (["--dataset", "c"], 2)):
        monkeypatch.setattr(sys, "argv", ["sottovoce", "explain", str(tmp_path / "s.toml"), *words])
        with pytest.raises(SystemExit) as left:
            main()
        said = capsys.readouterr()
        assert left.value.code == code
        if code == 0:
            assert json.loads(said.out)["after"] == sv.explain(sv.PureDP(2.0)).after
        else:
            assert "a, b" in said.err
