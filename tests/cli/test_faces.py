"""What every registered system shows on the command line, a stranger's too; facts; a light start."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

from sottovoce.faces.cli import COMMANDS
from sottovoce.mechanisms import Release
from sottovoce.mechanisms.conjugate.named_systems import SYSTEMS
from support.nursery import told_by

from .test_cli import run

FACTS = """
[age]
kind = "number"
low = 0
high = 80
missing = 40
[ward]
kind = "category"
categories = ["A", "B"]
[smoker]
kind = "flag"
"""
STRANGER = """
from dataclasses import dataclass
from typing import ClassVar
from sottovoce.mechanisms.conjugate import BetaBernoulli

@dataclass(frozen=True, eq=False)
class TwoSided(BetaBernoulli):
    word: ClassVar[str] = "two-sided share"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    columns = {"age": [20, None, 60, 90] * 50, "ward": ["A", "B", "?", "B"] * 50, "smoker": [True, False] * 100}
    pq.write_table(pa.table(columns), tmp_path / "p.parquet")
    (tmp_path / "facts.toml").write_text(FACTS)
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_all_says_what_the_command_says(name: str) -> None:
    place, about = COMMANDS[name]
    module, _, attribute = place.partition(":")
    found = getattr(import_module(f"sottovoce.faces.cli.{module}"), attribute)
    said = found.info.help if isinstance(found, typer.Typer) else inspect.getdoc(found)
    assert " ".join(said.split()).startswith(about)


HEAVY = {"numpy", "scipy", "jax", "sqlalchemy", "ibis", "sottovoce.privacy"}
EACH = """
import contextlib, io, json, sys
from sottovoce.faces.cli import main
told = []
for words in json.loads(sys.argv[1]):
    sys.argv = ["sottovoce", *words]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            main()
        except SystemExit as end:
            told.append([end.code, out.getvalue()])
print(json.dumps(told))
"""
INSTALLED = """
import os, sys
sys.path.insert(0, sys.argv[2])
os.environ["COLUMNS"] = "200"
"""


def imported(*asked: tuple[str, ...]) -> set[str]:
    """Return what a process has imported that was asked all of this, and nothing else."""
    code = EACH + "print(*sys.modules, file=sys.stderr)"
    here = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(
        [sys.executable, "-c", code, json.dumps(asked)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=here,
    )
    assert [told[0] for told in json.loads(ended.stdout)] == [0] * len(asked)
    return set(ended.stderr.split())


def test_help_starts_light() -> None:
    assert not HEAVY & imported(("--help",))


def test_the_systems_in_help_are_those_of_the_registry_and_need_no_jax() -> None:
    for command in ("plan", "release"):
        shown = " ".join(run(command, "--help").stdout.replace("│", " ").split())
        assert all(word in shown for word in SYSTEMS.kinds)
    assert "jax" not in imported(("plan", "--help"), ("release", "--help"))


class TestFacts:
    def test_a_template_holds_names_and_types_and_nothing_of_a_record(self, folder: Path) -> None:
        text = run("facts", folder / "p.parquet").stdout
        assert "[age]" in text and 'kind = "flag"' in text
        assert "90" not in text and '"A"' not in text
        assert json.loads(run("facts", folder / "p.parquet", "--json").stdout)["columns"]["ward"] == "string"

    def test_numbers_are_offered_where_text_would_be_read_as_numbers(self, folder: Path) -> None:
        (folder / "p.csv").write_text("ward\nA\n", encoding="utf-8")
        typed, untyped = (
            next(line for line in run("facts", folder / f"p.{ending}").stdout.splitlines() if "[ward]" in line)
            for ending in ("parquet", "csv")
        )
        assert "flag" in typed and "number" not in typed and "count" not in typed
        assert "number (low, high)" in untyped and "count (high)" in untyped

    def test_it_is_written_once_and_must_be_filled_in(self, folder: Path) -> None:
        written = folder / "new.toml"
        assert run("facts", folder / "p.parquet", "-o", written).returncode == 0
        assert "there already" in run("facts", folder / "p.parquet", "-o", written).stderr
        filled = folder / "filled.toml"
        filled.write_text(
            '[ward]\nkind = "category"\ncategories = ["A", "B"]\n[age]\nkind = "number"\nlow = 0\nhigh = 9\n'
        )
        made = run("facts", filled, "--dummy", 5, "--seed", 1).stdout
        assert made.splitlines()[0] == "ward,age" and len(made.splitlines()) == 6
        assert run("facts", filled, "--dummy", 5, "--seed", 1, "-o", folder / "d.csv").returncode == 0
        assert (folder / "d.csv").read_text(encoding="utf-8") == made
        assert "from facts alone" in run("facts", folder / "p.parquet", "--dummy", 5).stderr
        assert "there already" in run("facts", filled, "--dummy", 5, "-o", folder / "d.csv").stderr
        assert "still needs low, high" in run("facts", written).stderr
        assert "sound" in run("facts", folder / "facts.toml").stdout

    def test_a_release_takes_bounds_and_missing_values_from_them(self, folder: Path) -> None:
        ledger = ["--ledger", folder / "l", "--budget", "pure:20", "--facts", folder / "facts.toml"]
        asked = ["--system", "normal-mean", "--column", "age", "--mechanism", "laplace", "--target", "pure:9"]
        answer = json.loads(run("release", folder / "p.parquet", *asked, *ledger, "--json").stdout)
        assert answer["mechanism"]["system"]["bounds"] == [0, 80]
        mean = Release.from_dict({k: answer[k] for k in ("value", "profile", "mechanism", "parameter", "reproducible")})
        assert mean.value.mean == pytest.approx((20 + 40 + 60 + 80) / 4, abs=5)

    def test_a_plan_takes_them_too(self, folder: Path) -> None:
        plan = ["plan", "--system", "dirichlet-categorical", "--facts", folder / "facts.toml", "--column", "ward"]
        told = json.loads(run(*plan, "--n", "200", "--target", "zcdp:0.1", "--json").stdout)
        assert told["system"]["categories"] == ["A", "B"]


class TestCountTables:
    def spec(self, folder: Path) -> Path:
        path = folder / "tables.toml"
        path.write_text(
            f'n = 200\ntarget = "pure:2"\nbudget = "pure:4"\n'
            f'facts = "{folder / "facts.toml"}"\nledger = "{folder / "l"}"\n'
            '[system]\nkind = "count tables"\ntables = [["ward"], ["ward", "smoker"]]\n'
        )
        return path

    def test_a_plan_names_both_noises(self, folder: Path) -> None:
        shown = run("plan", "--spec", self.spec(folder)).stdout
        assert "laplace" in shown and "gaussian" in shown

    def test_a_release_is_shown_here_and_in_the_ledger(self, folder: Path) -> None:
        shown = run("release", folder / "p.parquet", "--spec", self.spec(folder))
        assert "ward × smoker" in shown.stdout, shown.stderr
        assert "noisy statistics" in " ".join(run("ledger", "show", folder / "l").stdout.split())


class TestRegressions:
    def spec(self, folder: Path, more: str = "") -> Path:
        path = folder / "regression.toml"
        path.write_text(
            f'n = 200\ntarget = "approx:2,1e-6"\nbudget = "approx:8,1e-5"\n{more}'
            f'facts = "{folder / "facts.toml"}"\nledger = "{folder / "l"}"\n'
            '[system]\nkind = "regression"\nfeatures = ["age", "ward"]\nlabel = "smoker"\nfamily = "logistic"\n'
        )
        return path

    def test_a_plan_names_what_serves_it(self, folder: Path) -> None:
        shown = run("plan", "--spec", self.spec(folder))
        assert all(name in shown.stdout for name in ("refined", "noisy-moments", "sgd")), shown.stderr

    def test_a_release_is_shown_by_its_terms_and_in_the_ledger(self, folder: Path) -> None:
        spec = self.spec(folder, 'mechanism = "noisy-moments"\n')
        shown = run("release", folder / "p.parquet", "--spec", spec)
        assert "noisy moments of regression" in shown.stdout, shown.stderr
        told = " ".join(run("ledger", "show", folder / "l").stdout.split())
        assert "noisy moments" in told


def test_a_strangers_system_by_an_entry_point_shows_up_everywhere(folder: Path) -> None:
    (folder / "strange.py").write_text(STRANGER)
    info = folder / "strange-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: strange\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sottovoce.systems]\ntwo-sided share = strange:TwoSided\n")
    system = ["--system", "two-sided share:alpha=2,beta=2"]

    data = [folder / "p.parquet", "--column", "smoker", "--ledger", folder / "l", "--budget", "renyi:2,1"]
    expected = {
        ("plan", "--help"): "two-sided share",
        ("plan", *system, "--n", 200, "--target", "renyi:2,0.1"): "diffused",
        ("release", *data, *system, "--target", "renyi:2,0.1"): "two-sided share",
        ("audit", *system, "--n", 5, "--target", "renyi:2,0.5", "--draws", 2000): "holds",
        ("ledger", "show", folder / "l"): "noisy statistics of smoker",
    }
    asked = json.dumps([[str(word) for word in words] for words in expected])
    told = json.loads(told_by(INSTALLED + EACH, asked, folder))
    for (code, shown), said in zip(told, expected.values(), strict=True):
        assert (code, said in " ".join(shown.replace("│", " ").split())) == (0, True), shown


def test_no_help_text_has_brackets_that_rich_would_swallow() -> None:
    import typer.main

    from sottovoce.faces.cli import COMMANDS, application

    for word in COMMANDS:
        command = typer.main.get_command(application(word)).commands[word]  # type: ignore[attr-defined]
        for one in [command, *getattr(command, "commands", {}).values()]:
            for parameter in one.params:
                assert "[" not in (getattr(parameter, "help", None) or ""), (word, one.name, parameter.name)
