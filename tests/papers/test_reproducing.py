"""`python -m papers`: what it prints, keeps, draws again and takes into the gallery."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest
import typer
from papers.reproducing import reproduce
from papers.runner import Failure

from papers import reproducing
from sottovoce.privacy.errors import InvalidValue

pytest.importorskip("matplotlib", reason="figures need matplotlib")

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "figures" / "verb-coverage.csv"


def test_the_command_lists_runs_and_refuses_in_one_line(tmp_path, capsys, monkeypatch):
    reproduce(["list"], as_json=True)
    assert "conversions" in [e["name"] for e in json.loads(capsys.readouterr().out)]
    reproduce(["conversions"], quick=True, output=tmp_path, jobs=1, as_json=True)
    outcome = json.loads(capsys.readouterr().out)["conversions"]
    assert all(f["holds"] for f in outcome["findings"])
    assert all(Path(f).exists() for f in outcome["files"])
    monkeypatch.setattr(sys, "argv", ["papers", "nothing"])
    with pytest.raises(SystemExit) as refused:
        runpy.run_path(str(ROOT / "papers" / "__main__.py"), run_name="__main__")
    assert (refused.value.code, capsys.readouterr().err.count("\n")) == (2, 1)


def test_a_second_run_is_answered_from_the_first(tmp_path, capsys):
    for expected in (False, True):
        reproduce(["profile-couplet"], quick=True, output=tmp_path, jobs=1, as_json=True)
        assert json.loads(capsys.readouterr().out)["profile-couplet"]["cached"] is expected
    reproduce(["profile-couplet"], quick=True, output=tmp_path, jobs=1)
    told = " ".join(capsys.readouterr().out.split())
    assert "done before" in told
    assert "seen" in told


def test_a_figure_is_drawn_again_from_a_table_and_taken_into_a_gallery(tmp_path, capsys):
    gallery = tmp_path / "gallery"
    reproduce(["verb-coverage"], output=tmp_path / "out", jobs=1, drawn_from=TABLE, gallery=gallery, as_json=True)
    answer = json.loads(capsys.readouterr().out)["verb-coverage"]
    assert "Drawn from the table of an earlier run" in answer["notes"]
    assert (gallery / "figures" / "verb-coverage.png").exists()
    assert "#verb-coverage" in (gallery / "ours.md").read_text()
    with pytest.raises(InvalidValue, match="name it"):
        reproduce(["all"], output=tmp_path, jobs=1, drawn_from=TABLE)


@pytest.mark.parametrize("as_json", [False, True])
def test_a_failure_is_told_in_one_line_and_ends_with_1(tmp_path, capsys, monkeypatch, as_json):
    fails = {"conversions": Failure("conversions", "ValueError: no [numbers]")}
    monkeypatch.setattr(reproducing, "run_experiments", lambda names, request, report: fails)
    with pytest.raises(typer.Exit) as raised:
        reproduce(["conversions"], output=tmp_path, jobs=1, as_json=as_json)
    assert raised.value.exit_code == 1
    assert "ValueError: no [numbers]" in capsys.readouterr().out
