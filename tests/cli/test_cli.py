"""The command line as a user meets it: its output, its exit code."""

import contextlib
import io
import json
import logging
import math
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import warnings
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest
from rich.console import Console

pa = pytest.importorskip("pyarrow", reason="the data extra is not installed")
import pyarrow.parquet as pq  # noqa: E402

from sottovoce.faces.cli import console, main  # noqa: E402
from sottovoce.mechanisms import Mechanism  # noqa: E402
from sottovoce.privacy.gaussian import GaussianProfile  # noqa: E402
from sottovoce.privacy.promises import parse_promise  # noqa: E402
from sottovoce.service.ledger import Ledger  # noqa: E402

BETA = ["--system", "beta-bernoulli:alpha=6,beta=12"]


class Ended(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def run(*arguments: str | Path) -> Ended:
    """Run the command in this process, as `main` would run it."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["sottovoce", *map(str, arguments)]),
        mock.patch.dict(os.environ, {"COLUMNS": "100", "NO_COLOR": "1"}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as end,
    ):
        main()
    assert isinstance(end.value.code, int)
    return Ended(end.value.code, out.getvalue(), err.getvalue())


def test_the_installed_command_runs_by_itself() -> None:
    command = [sys.executable, "-m", "sottovoce", "plan", *BETA, "--n", "50", "--target", "pure:-1"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.count("\n") == 1


@pytest.fixture
def patients(tmp_path: Path) -> Path:
    path = tmp_path / "patients.parquet"
    pq.write_table(pa.table({"smoker": [1, 0, 0, 1] * 25, "name": ["x"] * 100}), path)
    return path


def release(patients: Path, *more: str) -> Ended:
    ledger = patients.with_suffix(".ledger")
    where = [] if "--column" in more else ["--column", "smoker"]
    return run(
        *("release", patients, *BETA, "--ledger", ledger, "--budget", "pure:1"),
        *("--mechanism", "laplace", *where, *more),
    )


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_warning_is_one_line_without_a_place_in_our_code(
    patients: Path, more: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a warning and of what is logged: the data were moved, and the ledger is open to others."""
    assert release(patients, "--target", "pure:0.1").returncode == 0
    ledger, moved = patients.with_suffix(".ledger"), patients.rename(patients.with_name("moved.parquet"))
    ledger.chmod(0o644)
    monkeypatch.setattr(logging.root, "handlers", [])  # as in a process of its own
    asked = ("release", moved, *BETA, "--ledger", ledger, "--dataset", patients, "--column", "smoker")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        ended = run(*asked, "--mechanism", "laplace", "--target", "pure:0.1", *more)
    assert ended.returncode == 0
    begins = '{"warning": "' if more else "beware: "
    known = (f"{begins}'{patients}' lies in another place", f"{begins}the ledger {ledger} is open to")
    assert all(line.startswith(known) for line in ended.stderr.splitlines())
    assert "lies in another place" in ended.stderr and "chmod 600" in ended.stderr
    assert all(json.loads(line)["warning"] for line in ended.stderr.splitlines() if more)


def test_what_is_pending_is_told_in_one_line(patients: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many entries there are, and though `release --budget` opens the ledger twice."""
    ledger, asked = patients.with_suffix(".ledger"), ("--budget", "approx:1,1e-6", "--ledger")
    assert run("ledger", "open", ledger, "--data", patients, *asked[:2]).returncode == 0
    with Ledger(str(ledger)) as left:
        for _ in range(3):
            left.reserve(left.budget(str(patients)), GaussianProfile(0.1), {"mechanism": {}})
    monkeypatch.setattr(logging.root, "handlers", [])  # as in a process of its own
    released = ("--column", "smoker", "--target", "pure:0.1", "--mechanism", "laplace")
    ended = run("release", patients, *BETA, *asked, ledger, *released)
    (told,) = [line for line in ended.stderr.splitlines() if "has not ended" in line]
    assert ended.returncode == 0 and "nor have 2 more" in told and "sottovoce ledger recover" in told


@pytest.mark.parametrize(("budget", "weak"), [("approx:1,1e-6", False), ("pure:20.25", True), ("gaussian:1e152", True)])
def test_who_opens_a_budget_that_protects_hardly_anybody_is_warned(
    patients: Path, budget: str, weak: bool, caplog: pytest.LogCaptureFixture
) -> None:
    ended = run("ledger", "open", patients.with_suffix(".ledger"), "--data", patients, "--budget", budget)
    assert ended.returncode == 0 and ("next to no protection" in caplog.text) == weak


def test_plan_refuses_a_number_of_records_below_zero() -> None:
    answer = run("plan", *BETA, "--n", "-3", "--target", "approx:1,1e-6")
    assert answer.returncode == 2 and "n must be a whole number >= 0. Got -3" in answer.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("balance", "mean of x"), "Missing option '--facts'"),
        (("ledger", "open", "x.ledger"), "Missing option '--data'"),
        (("plan", "--n", "many"), "'--n'"),
    ],
)
def test_a_wrong_option_is_named_as_it_is_typed(arguments: tuple[str, ...], said: str) -> None:
    answer = run(*arguments)
    assert answer.returncode == 2 and said in answer.stderr and len(answer.stderr.splitlines()) == 1


def test_a_heading_gives_way_before_a_name_does(monkeypatch: pytest.MonkeyPatch) -> None:
    columns, rows = ("term", "odds ratio"), [("ward[T.Orthopaedics]", "1.021")]

    def lines(width: int) -> list[str]:
        monkeypatch.setattr(console, "console", Console(width=width))
        with console.console.capture() as shown:
            console.console.print(console.table("", columns, rows))
        return [line.rstrip() for line in shown.get().splitlines()]

    assert lines(40)[0].endswith("odds ratio")
    assert lines(28)[-1] == "ward[T.Orthopaedics]  1.021" and lines(28)[0].endswith("odds")


def test_help_names_every_system_once() -> None:
    said = " ".join(run("plan", "--help").stdout.replace("│", " ").split())
    assert "count tables" in said and "count-tables" not in said
    answer = run("plan", "--system", "guess", "--n", "3", "--target", "approx:1,1e-6")
    assert "count tables" in answer.stderr and "count-tables" not in answer.stderr


def test_a_system_that_is_named_without_its_parts_is_a_wrong_argument() -> None:
    answer = run("plan", "--system", "outcomes", "--n", "3", "--target", "approx:1,1e-6")
    assert answer.returncode == 2 and "cannot read outcomes: 'outcomes'" in answer.stderr


def test_plan_needs_no_data_and_prints_the_worked_calibration() -> None:
    answer = run("plan", *BETA, "--n", "100", "--target", "renyi:15,0.1", "--json")
    assert answer.returncode == 0, answer.stderr
    plan = json.loads(answer.stdout)
    found = {c["name"]: c for c in plan["choices"]}
    assert found["diffused"]["mechanism"]["data_weight"] == pytest.approx(0.2278734087, rel=1e-8)
    assert 1 / found["concentrated"]["mechanism"]["prior_weight"] == pytest.approx(0.05782745247, rel=1e-8)
    assert "unreachable" in found["direct"]
    assert found["diffused"]["epsilon"]["0"] is None


def test_plan_prints_tables_and_writes_a_figure(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the plots extra is not installed")
    answer = run("plan", *BETA, "--n", "100", "--target", "approx:1,1e-6", "--plot", tmp_path / "plan.svg")
    assert answer.returncode == 0, answer.stderr
    assert "What the promise buys" in answer.stdout
    assert "diffused" in answer.stdout
    assert (tmp_path / "plan.svg").read_text().count("<path") > 20


def test_plan_ends_with_the_code_of_a_promise_out_of_reach() -> None:
    for more in ((), ("--json",)):
        answer = run("plan", *BETA, "--n", "1", "--target", "pure:1e-300", *more)
        assert answer.returncode == 7, answer.stderr
        assert "direct" in answer.stdout and "no mechanism keeps pure:1e-300" in answer.stderr
    assert run("plan", *BETA, "--n", "50", "--width", "1e-9", "--mechanism", "direct").returncode == 7
    near = run("plan", *BETA, "--n", "50", "--width", "0.02", "--mechanism", "diffused")
    assert near.returncode == 7 and re.search(r"gives ± [\d.]+ \(diffused\), and n = 8,\d{3} would do", near.stderr)
    told = run("plan", *BETA, "--n", "50", "--width", "1e-9", "--json")
    assert told.returncode == 7 and all(one["share"] is None for one in json.loads(told.stdout)["needed"])


def test_the_curves_of_a_plan_fit_a_terminal_that_would_break_numbers_in_two() -> None:
    answer = run("plan", *BETA, "--n", "3", "--target", "approx:0.0001,1e-12", "--mechanism", "concentrated")
    curves = answer.stdout.partition("What each does")[2].splitlines()[1:]
    assert [len(line.split()) for line in curves if line.strip()] == [8, 9], answer.stdout
    assert max(map(len, curves)) <= 80


def test_the_plan_of_a_regression_names_no_error_that_it_does_not_know(tmp_path: Path) -> None:
    spec = tmp_path / "plan.toml"
    facts = tmp_path / "facts.toml"
    facts.write_text('[age]\nkind = "number"\nlow = 0\nhigh = 110\n[ill]\nkind = "flag"\n', encoding="utf-8")
    system = '[system]\nkind = "regression"\nfeatures = ["age"]\nlabel = "ill"\nfamily = "logistic"\n'
    start = f'n = 20000\ntarget = "approx:1,1e-6"\nfacts = "{facts}"\n'
    spec.write_text(start + system, encoding="utf-8")
    said = run("plan", "--spec", spec, "--mechanism", "localised").stdout
    assert "What the promise buys" in said
    assert "least expected error" not in said and "95 % width" not in said and "{" not in said
    near = run("plan", "--spec", spec, "--within", "1e-9")
    assert near.returncode == 7 and "within=1e-09 takes more steps than can be counted" in near.stderr


def test_the_plan_of_a_formula_names_the_looks_and_the_width_of_every_term(tmp_path: Path) -> None:
    facts = tmp_path / "facts.toml"
    facts.write_text(
        '[age]\nkind = "number"\nlow = 0\nhigh = 110\n[falls]\nkind = "count"\nhigh = 9\n', encoding="utf-8"
    )
    asked = ("plan", "falls ~ age", "--facts", facts, "--n", "2000")
    told = json.loads(run(*asked, "--spend", "100%", "--json").stdout)
    assert told["mechanism"]["mechanism"] == "adaptive looks" and told["question"].startswith("poisson")
    assert [one["term"] for one in told["terms"]] == ["Intercept", "age"]
    assert all(0 < one["plain"] < one["width"] <= one["widest"] for one in told["terms"])
    assert told["rare"][1]["width"] > 2 * told["terms"][1]["width"]  # nobody said how far ages spread
    imagined = json.loads(
        run(*asked, "--spend", "100%", "--imagine", "age=0.02", "--imagine", "falls=2", "--json").stdout
    )
    assert imagined["rare"] is None and imagined["terms"][1]["width"] > told["terms"][1]["width"]
    assert run(*asked, "--imagine", "age=3").returncode == 2
    assert "nothing can be imagined of 'wage'" in run(*asked, "--imagine", "wage=0.1").stderr
    said = run(*asked, "--family", "linear").stdout
    assert "linear regression falls ~ age" in said and "5 adaptive looks" in said and "5% of approx:1" in said
    one = run("plan", "--system", "formula:formula=falls~age", *asked[2:], "--target", "approx:1,1e-6").stdout
    assert "5 adaptive looks" in one and "if even" in one
    some = " ".join(run(*asked, "--where", "age > 40", "--kept", "0.25").stdout.split())
    assert "falls ~ age where age > 40" in some and "The condition holds for 25 % of them." in some
    assert "nobody" in run(*asked, "--where", "nobody > 40").stderr
    sure = json.loads(run(*asked, "--spend", "100%", "--prior", "0.01", "--json").stdout)["terms"]
    assert all(one["width"] < 0.5 * other["width"] for one, other in zip(sure, told["terms"], strict=True))
    assert "prior" in run(*asked, "--prior", "-1").stderr
    whole = run(*asked, "--target", "approx:1,1e-6").stdout
    assert whole.split()[-60:] == one.split()[-60:] and "5%" not in whole
    for passed_over in (("--target", "approx:1,1e-6", "--spend", "5%"), ("--mechanism", "laplace"), ("--mean", "1")):
        assert run(*asked, *passed_over).returncode == 2
    assert run(*asked, "--width", "3").returncode == 2


def test_plan_loads_nothing_that_it_does_not_use() -> None:
    heavy = ("jax", "scipy.stats", "scipy.optimize", "scipy.fft", "randomgen", "ibis", "numpy.f2py.crackfortran")
    heavy += ("pydantic",)  # which the command line would bring along to read words
    heavy += (
        "sottovoce.records.readings.look",
        "sottovoce.mechanisms.conjugate.normal_mean",
        "sottovoce.mechanisms.choice_chain",
    )
    code = (
        "import sys; from sottovoce.faces.cli import main; sys.argv[1:] = 'plan --system beta-bernoulli:alpha=1,beta=1 "
        "--n 9 --target approx:1,1e-6'.split()\ntry: main()\nexcept SystemExit as end: assert end.code == 0\n"
        f"print([m for m in {heavy} if m in sys.modules], file=sys.stderr)\n"
        "import numpy; numpy.testing.assert_equal(1, 1); assert numpy.f2py.get_include()"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr) == (0, "[]\n")


def test_plan_reads_a_spec_file(tmp_path: Path) -> None:
    spec = tmp_path / "model.toml"
    spec.write_text('n = 50\ntarget = "pure:0.5"\n[system]\nkind = "dirichlet-categorical"\nalpha = [1.0, 2.0, 3.0]\n')
    answer = run("plan", "--spec", spec, "--mechanism", "laplace", "--json")
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["choices"][0]["epsilon"]["0"] == pytest.approx(0.5, rel=1e-9)


def test_releases_are_charged_until_the_budget_is_gone(patients: Path) -> None:
    first = release(patients, "--target", "pure:0.6", "--json")
    assert first.returncode == 0, first.stderr
    made = json.loads(first.stdout)
    assert made["reproducible"] is False
    assert made["remaining"]["epsilon"] == pytest.approx(0.4, rel=1e-9)
    again = release(patients, "--target", "pure:0.6")
    assert again.returncode == 3
    assert again.stdout == ""
    assert again.stderr.count("\n") == 1
    assert "0.4" in again.stderr
    shown = run("ledger", "show", patients.with_suffix(".ledger"), "--json")
    assert [e["state"] for e in json.loads(shown.stdout)["entries"]] == ["committed"]
    assert "Budgets" in run("ledger", "show", patients.with_suffix(".ledger")).stdout
    assert run("ledger", "verify", patients.with_suffix(".ledger")).returncode == 0


def test_a_retry_with_its_key_is_answered_once(patients: Path) -> None:
    asked = ("--target", "pure:0.6", "--idempotency-key", "monday", "--json")
    first, second = release(patients, *asked), release(patients, *asked)
    assert first.returncode == second.returncode == 0, second.stderr
    assert json.loads(first.stdout)["value"] == json.loads(second.stdout)["value"]
    assert json.loads(second.stdout)["remaining"]["epsilon"] == pytest.approx(0.4, rel=1e-9)


def test_every_system_and_mechanism_releases(patients: Path) -> None:
    # Of those that sample a posterior one alone draws twice: the composed curve of two takes as long as the rest.
    draws_of = {"diffused": "2", "concentrated": "1", "tempered": "1", "laplace": "2", "gaussian": "2"}
    for mechanism, draws in draws_of.items():
        answer = run(
            *(
                "release",
                patients,
                *BETA,
                "--column",
                "smoker",
                "--target",
                "approx:0.9,1e-4",
                "--mechanism",
                mechanism,
            ),
            *("--ledger", patients.parent / f"{mechanism}.ledger", "--budget", "approx:9,1e-4", "--draws", draws),
        )
        assert answer.returncode == 0, (mechanism, answer.stderr)
        assert "% left" in answer.stdout


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        (("--target", "pure:-1"), 2, "must be >= 0"),
        (("--target", "nonsense"), 2, "cannot read the promise"),
        (("--target", "pure:0.1", "--column", "nope"), 2, "nope"),
        (("--target", "pure:0.1", "--column", "name"), 2, "name"),
        (("--target", "pure:0.1", "--mechanism", "magic"), 2, "no mechanism for this is called"),
        (("--target", "pure:0.1", "--mechanism", "diffused"), 7, "never gives that kind of privacy"),
        (("--target", "pure:0.1", "--budget", "pure:2"), 2, "never changes"),
        (("--target", "pure:0.1", "--where", "__import__('os')"), 2, ""),
    ],
)
def test_mistakes_are_one_line_and_an_exit_code(patients: Path, more: tuple[str, ...], code: int, words: str) -> None:
    assert release(patients, "--target", "pure:0.1").returncode == 0
    answer = release(patients, *more)
    assert answer.returncode == code, answer.stderr
    assert words in answer.stderr
    assert "Traceback" not in answer.stderr
    assert len(answer.stderr.strip().splitlines()) == 1
    with_json = release(patients, *more, "--json")
    assert json.loads(with_json.stderr)["exit"] == code
    shown = json.loads(run("ledger", "show", patients.with_suffix(".ledger"), "--json").stdout)
    assert len([e for e in shown["entries"] if e["state"] == "committed"]) == 1


@pytest.mark.parametrize(
    "arguments", ["ledger --help", f"plan {' '.join(BETA)} --n 50 --target pure:1 --mechanism laplace --json"]
)
def test_who_has_read_enough_is_no_error(arguments: str) -> None:
    """Nobody reads any more, at the first word already; and what is left to write at the end goes nowhere."""
    reader, writer = os.pipe()
    os.close(reader)
    with (
        mock.patch.object(sys, "argv", ["sottovoce", *arguments.split()]),
        os.fdopen(writer, "w", encoding="utf-8") as out,
        contextlib.redirect_stdout(out),
        pytest.raises(SystemExit) as end,
    ):
        try:
            main()
        finally:
            print("more", flush=True)
    assert end.value.code == 0


def test_csv_with_types_given_and_without(tmp_path: Path) -> None:
    path = tmp_path / "patients.csv"
    path.write_text("smoker,age\n" + "1,44\n" * 99 + "n/a\n")
    for more in ((), ("--types", "smoker=int64, age=float64")):
        ledger = tmp_path / f"{len(more)}.ledger"
        asked = [*BETA, "--ledger", ledger, "--budget", "pure:1", "--target", "pure:1", "--mechanism", "laplace"]
        assert run("release", path, *asked, "--column", "smoker", *more).returncode == 0
    with Ledger(ledger) as opened:
        assert opened.budgets()[0].schema == {"smoker": "int64", "age": "float64"}
    for wrong in ("smoker", "smoker=year", "height=int64"):
        answer = run("ledger", "open", tmp_path / "x.ledger", "--data", path, "--budget", "pure:1", "--types", wrong)
        assert answer.returncode == 2, answer.stderr


@pytest.mark.parametrize("more", [("--column", "smokes"), ("--where", "smokes = 1"), ("--column", "name")])
def test_a_question_that_makes_no_sense_opens_no_budget(patients: Path, more: tuple[str, ...]) -> None:
    assert release(patients, "--target", "pure:0.1", *more).returncode == 2
    assert not patients.with_suffix(".ledger").exists()


def test_missing_files_and_options(tmp_path: Path, patients: Path) -> None:
    lost = release(tmp_path / "nowhere.parquet", "--target", "pure:0.1")
    assert lost.returncode == 2
    assert "nowhere.parquet" in lost.stderr
    assert run("release").returncode == 2
    assert "--ledger" in run("release", patients, *BETA, "--target", "pure:1").stderr
    assert run("plan").returncode == 2
    assert run("ledger", "show", tmp_path / "none.ledger").returncode != 0
    assert run("plan", "--spec", tmp_path / "none.toml").returncode == 2
    assert run("plan", "--system", "beta-bernoulli:alpha", "--n", "5", "--target", "pure:1").returncode == 2
    assert run("plan", "--system", "beta-bernoulli:gamma=1", "--n", "5", "--target", "pure:1").returncode == 2
    assert run("plan", "--system", "cauchy", "--n", "5", "--target", "pure:1").returncode == 2
    assert run("frobnicate").returncode == 2


def test_an_anchor_elsewhere_finds_a_restored_ledger(patients: Path, tmp_path: Path) -> None:
    office, note = tmp_path / "office", tmp_path / "note"
    office.mkdir()
    ledger = office / "p.ledger"
    assert run("ledger", "open", ledger, "--data", patients, "--budget", "pure:1", "--anchor", note).returncode == 0
    shutil.copytree(office, tmp_path / "backup")
    asked = (
        "release",
        patients,
        *BETA,
        "--column",
        "smoker",
        "--mechanism",
        "tempered",
        "--target",
        "pure:0.1",
        "--ledger",
        ledger,
    )
    done = run(*asked, "--anchor", note)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(office)
    shutil.copytree(tmp_path / "backup", office)
    assert run("ledger", "verify", ledger).returncode == 0  # nothing in the folder can tell
    for command in ("verify", "show", "export"):
        found = run("ledger", command, ledger, "--anchor", note)
        assert found.returncode == 6 and "was once written" in found.stderr


def test_a_damaged_ledger_is_refused(patients: Path) -> None:
    assert release(patients, "--target", "pure:0.1").returncode == 0
    ledger = patients.with_suffix(".ledger")
    with sqlite3.connect(ledger) as connection:
        (table,) = next(
            row
            for row in connection.execute("select name from sqlite_master where type = 'table' and name like '%event%'")
        )
        connection.execute("pragma writable_schema = 1")
        for (trigger,) in connection.execute("select name from sqlite_master where type = 'trigger'").fetchall():
            connection.execute(f"drop trigger {trigger}")
        connection.execute(f"delete from {table} where rowid = (select max(rowid) from {table})")
    connection.close()
    for command in (("ledger", "verify", ledger), ("ledger", "show", ledger)):
        answer = run(*command)
        assert answer.returncode == 6, answer.stderr
        assert len(answer.stderr.strip().splitlines()) == 1
    assert release(patients, "--target", "pure:0.1").returncode == 6


def test_export_and_open(patients: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "fresh.ledger"
    opened = run("ledger", "open", ledger, "--data", patients, "--budget", "approx:1,1e-6", "--order", "16")
    assert opened.returncode == 0, opened.stderr
    exported = run("ledger", "export", ledger, "--output", tmp_path / "ledger.json")
    assert exported.returncode == 0, exported.stderr
    content = json.loads((tmp_path / "ledger.json").read_text())
    assert content["budgets"][0]["filter"]["order"] == 16
    assert content["head"]["count"] >= 1


def test_help_names_every_command_and_exit_code() -> None:
    text = run("--help").stdout
    for word in ("facts", "plan", "release", "ledger", "audit", "serve", "demo", "Exit codes"):
        assert word in text
    assert run("--version").stdout.startswith("sottovoce ")


def test_the_demo_tells_its_story_and_writes_its_page(tmp_path: Path) -> None:
    answer = run("demo", "--output", tmp_path / "out", "--json")
    assert answer.returncode == 0, answer.stderr
    told = json.loads(answer.stdout)
    assert [a["refused"] is None for a in told["answers"]] == [True, True, True, False]
    page = (tmp_path / "out" / "report.html").read_text()
    rows = [row for told in told["answers"] if told["answer"] for row in told["answer"]["table"]]
    assert len(rows) == 4 + 9 + 3
    assert page.count('class="interval"') == page.count('class="true"') == len(rows)
    inside = [row for row in rows if row["low"] <= row["estimate"] <= row["high"]]
    assert len(inside) == len(rows)
    assert "http://" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    )
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    assert run("demo", "--output", tmp_path / "mine").returncode == 2
    assert (tmp_path / "mine" / "thesis.txt").exists()


def test_a_missing_extra_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    missing = ModuleNotFoundError("No module named 'fastapi.routing'", name="fastapi.routing")
    assert console.fail(missing, as_json=False) == 2
    assert "pip install 'sottovoce[server]'" in " ".join(capsys.readouterr().err.split())
    assert console.fail(ModuleNotFoundError("No module named 'sottovoce.x'", name="sottovoce.x"), as_json=False) == 1


def test_plan_leaves_with_a_code_where_nothing_is_within_reach() -> None:
    for more in ((), ("--json",)):
        ended = run("plan", *BETA, "--n", 100, "--target", "pure:0", *more)
        assert ended.returncode == 7
        assert ended.stdout


def test_plan_finds_a_chain_that_is_proven_near(tmp_path: Path) -> None:
    facts = tmp_path / "f.toml"
    facts.write_text('[ill]\nkind = "flag"\n' + "".join(f'[{c}]\nkind = "number"\nlow = 0\nhigh = 1\n' for c in "ab"))
    asked = ("plan", "--system", "regression:features=a/b,label=ill", "--facts", facts, "--n", 100)
    promise = ("--target", "gaussian:0.2", "--precision", 1)
    told = json.loads(run(*asked, *promise, "--within", 0.5, "--json").stdout)
    assert told["within"] <= 0.5
    assert told["distance"] == pytest.approx(told["within"] * math.sqrt(3))  # two slopes and an intercept
    made = Mechanism.from_dict(told["mechanism"])
    assert made.profile.satisfies(parse_promise("gaussian:0.2"))
    assert told["steps"] == made.n_steps
    said = " ".join(run(*asked, *promise, "--within", 0.5).stdout.split())
    assert f"{told['steps']:,} of " in said
    far = run(*asked, *promise, "--within", 1e-4)
    assert far.returncode == 7
    (reached,) = re.findall(r"In reach: within=([\d.]+)", far.stderr)
    assert run(*asked, *promise, "--within", reached).returncode == 0
    assert run(*asked, *promise, "--within", 0.95 * float(reached)).returncode == 7
    assert run("plan", *BETA, "--n", 100, "--target", "gaussian:0.2", "--within", 0.5).returncode == 2


def test_what_a_plan_tells_people_to_type_can_be_typed(tmp_path: Path) -> None:
    facts = tmp_path / "f.toml"
    facts.write_text('[ill]\nkind = "flag"\n["age group"]\nkind = "category"\ncategories = ["<40", "80 and over"]\n')
    said = run("plan", 'proportion of ill by "age group"', "--facts", facts, "--n", 900, "--spend", "5%").stdout
    (hint,) = re.findall(r"say --imagine ('[^']*') if you know", " ".join(said.split()))
    assert shlex.split(hint) == ["age group:80 and over=10%"]


def test_plan_says_what_an_accuracy_costs(tmp_path: Path) -> None:
    facts = tmp_path / "f.toml"
    facts.write_text(
        '[sbp]\nkind = "number"\nlow = 60\nhigh = 250\n[ward]\nkind = "category"\ncategories = ["A", "B"]\n'
    )
    asked = ("plan", "mean of sbp by ward", "--facts", facts, "--n", 20_000)
    told = json.loads(run(*asked, "--width", 2, "--json").stdout)
    assert 0.005 < told["share"] < 0.1
    assert told["width"] <= 2
    assert "if all are of one size" in " ".join(run(*asked, "--spend", "5%").stdout.split())
    assert told["rare"] > 2 * told["width"]  # nobody said that wards are equal
    few = json.loads(run(*asked, "--width", 2, "--imagine", "ward:B=20%", "--json").stdout)
    assert few["rare"] is None
    assert few["share"] > 2 * told["share"]  # a small group takes more
    assert "such as ward:B=5%" in run(*asked, "--imagine", "ward=5%").stderr
    assert "--n and --facts" in run("plan", "mean of sbp").stderr
    assert run(*asked, "--width", 1e-9).returncode == 7
    beta = ("plan", "--system", "beta-bernoulli:alpha=1,beta=1", "--n", 5000)
    first = json.loads(run(*beta, "--width", 0.02, "--json").stdout)["needed"][0]
    assert first["name"] == "gaussian"
    warned = run(*beta, "--target", "approx:12,0.1").stdout
    assert "protects" in warned
    assert "more than one in n" in warned.replace("\n", " ")


def test_a_share_of_the_budget_may_be_released(patients: Path) -> None:
    asked = (
        "release",
        patients,
        *BETA,
        "--column",
        "smoker",
        "--ledger",
        patients.parent / "s.ledger",
        "--dataset",
        "p",
    )
    first = run(*asked, "--spend", "10%", "--budget", "approx:1,1e-6")
    assert first.returncode == 0, first.stderr
    assert "90 % left: about 9 more" in first.stdout.replace("\n", " ")
    assert "noisy statistics" in first.stdout
    assert json.loads(run(*asked, "--spend", "0.2", "--json").stdout)["left"].startswith("70 % left")
    assert "once" in run(*asked, "--spend", "10%", "--target", "pure:1").stderr
    shown = run("ledger", "show", patients.parent / "s.ledger").stdout
    assert "70 %" in shown
    opened = run(
        "ledger",
        "open",
        patients.parent / "g.ledger",
        "--data",
        patients,
        "--budget",
        "approx:1,1e-6",
        "--order",
        "gaussian",
    )
    assert "μ² of Gaussian privacy" in opened.stdout
    assert (
        run(
            "ledger",
            "open",
            patients.parent / "x.ledger",
            "--data",
            patients,
            "--budget",
            "approx:1,1e-6",
            "--order",
            "x",
        ).returncode
        == 2
    )
