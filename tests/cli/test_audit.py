"""`sottovoce audit`: tables, JSON, figures, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import sottovoce as sv
from audit.cases import all_cases
from sottovoce.audit import audit, subject_of
from sottovoce.audit.cases import _REGISTER, Case
from sottovoce.faces.cli import auditing
from sottovoce.faces.cli.figures import draw_trade_off
from sottovoce.faces.cli.output_files import save_figure
from sottovoce.privacy.errors import InvalidValue

app = typer.Typer()
app.command()(auditing.audit)
BETA = ["--system", "beta-bernoulli:alpha=6,beta=12", "--n", "20", "--target", "approx:1,1e-3"]


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False, env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result.output


def test_a_planned_mechanism_is_audited() -> None:
    shown = run(*BETA, "--draws", "20000", "--mechanism", "diffused")
    assert "diffused posterior of beta-bernoulli" in shown
    assert "holds" in shown
    assert "20,000 draws" in shown


def test_json_is_the_report() -> None:
    state = json.loads(
        run(*BETA, "--draws", "5000", "--seed", "3", "--confidence", "0.95", "--delta", "0.01", "--json")
    )
    assert state["verdict"] == "holds"
    assert (state["draws"], state["seed"], state["confidence"]) == (5000, 3, 0.95)
    assert state["epsilon"]["delta"] == 0.01
    assert json.loads(run(*BETA, "--draws", "2000", "--secure", "--json"))["seed"] is None


def test_a_spec_file_says_the_same(tmp_path: Path) -> None:
    spec = tmp_path / "audit.toml"
    system = '[system]\nkind = "beta-bernoulli"\nalpha = 6\nbeta = 12\n'
    spec.write_text(f'n = 20\ntarget = "pure:1"\nmechanism = "tempered"\n{system}')
    assert "tempered posterior" in run("--spec", str(spec), "--draws", "3000")


def test_the_curves_are_drawn(tmp_path: Path) -> None:
    target = tmp_path / "curves.png"
    assert str(target) in run(*BETA, "--mechanism", "gaussian", "--draws", "5000", "--plot", str(target)).replace(
        "\n", ""
    )
    assert target.stat().st_size > 5000


def test_a_figure_that_cannot_be_written_is_an_error_before_anything_is_drawn(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="there is no folder"):
        run(*BETA, "--draws", "100000000", "--plot", str(tmp_path / "none" / "curves.png"))


def test_a_figure_of_no_known_kind_is_an_error(tmp_path: Path) -> None:
    noisy = sv.NoisyStatistics.calibrate(sv.BetaBernoulli(6, 12), 20, sv.ZeroConcentratedDP(0.1))
    report = audit(subject_of(noisy), draws=1000)
    with pytest.raises(InvalidValue, match="cannot write the figure"):
        save_figure(draw_trade_off(report), tmp_path / "curves.nothing")


def test_cases_are_listed_and_audited_by_name() -> None:
    shown = run("--case", "list")
    assert "local: smooth categorical" in shown
    assert "one in" in shown
    listed = json.loads(run("--case", "list", "--json"))
    assert {"name": "statistical query", "tight": True, "slow": False} in listed
    assert "holds" in run("--case", "statistical query", "--draws", "5000", "--test", "scan")


def _noiseless(data, rng):  # type: ignore[no-untyped-def]
    return float(sum(data))


def test_a_violation_has_an_exit_code_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = subject_of(_noiseless, ([0, 1], [0, 0]), sv.PureDP(1.0))
    monkeypatch.setitem(_REGISTER, "broken", Case("broken", lambda: broken))
    shown = run("--case", "broken", "--draws", "2000", code=auditing.VIOLATED)
    assert "violated" in shown


def test_all_cases_are_audited_in_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {name: all_cases()[name] for name in ("direct, beta-bernoulli", "local: smooth one bit")}
    broken = subject_of(_noiseless, ([0, 1], [0, 0]), sv.PureDP(1.0), name="broken")
    monkeypatch.setattr("sottovoce.audit.cases._REGISTER", kept)
    monkeypatch.setattr("sottovoce.audit.cases._examples", lambda word: iter(()))
    shown = run("--all", "--quick", "--draws", "3000")
    assert "direct, beta-bernoulli" in shown
    assert "holds 2" in shown
    kept["broken"] = Case("broken", lambda: broken)
    state = json.loads(run("--all", "--draws", "3000", "--json", code=auditing.VIOLATED))
    assert [entry["verdict"] for entry in state] == ["holds", "holds", "violated"]
    assert state[0]["tight"] is True


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([], "audit needs one of"),
        (["--all", *BETA], "audit needs one of"),
        (BETA[:4], "needs --system, --n and --target"),
        (["--all", "--plot", "x.png"], "--plot draws one audit"),
        (["--case", "nobody"], "no audited case"),
        ([*BETA, "--draws", "10"], "draws must be"),
        ([*BETA, "--mechanism", "magic"], "no mechanism for this is called"),
        ([*BETA, "--test", "magic"], "test must be one of"),
    ],
)
def test_wrong_arguments(arguments: list[str], word: str) -> None:
    with pytest.raises(InvalidValue, match=word):
        run(*arguments)
