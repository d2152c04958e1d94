"""What makes no sense, or could not be kept, opens no budget, costs nothing and leaves every file as it was."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from sottovoce.__main__ import main as from_the_start
from sottovoce.faces.cli import application, main
from sottovoce.privacy.errors import BudgetExceeded, InvalidValue, LedgerUnavailable, SottovoceError
from sottovoce.privacy.promises import PureDP
from sottovoce.service.ledger import Ledger


def refused(data: Path, word: str, *arguments: str, budget: str = "approx:1,1e-6") -> str:
    """Return what a command says that must refuse; whatever lies beside the data must stay as it is."""
    before = {file: file.read_bytes() for file in data.parent.iterdir() if file.is_file()}
    command = [word, str(data), *arguments, "--budget", budget]
    with pytest.raises(SottovoceError) as caught:
        CliRunner().invoke(application(word), command, catch_exceptions=False)
    assert {file: file.read_bytes() for file in data.parent.iterdir() if file.is_file()} == before
    return str(caught.value)


ASKED = {"ask": ("mean of sbp",), "regress": ("smoker ~ sbp",)}
RELEASE = ("--column", "smoker", "--system", "beta-bernoulli:alpha=1,beta=1", "--ledger")


@pytest.mark.parametrize("word", ASKED)
@pytest.mark.parametrize("where", ["ward > 3", "ward = 'Z'", "sbp = 'x'", "smoker = 'x'", "nobody = 1", "sbp >"])
def test_a_condition_that_the_table_cannot_be_asked(data: Path, word: str, where: str) -> None:
    refused(data, word, *ASKED[word], "--where", where)


@pytest.mark.parametrize("word", ASKED)
@pytest.mark.parametrize("spend", ["0%", "0", "-5%", "500%", "nan", "inf", "nonsense:1", "approx:0.1", ""])
def test_a_share_that_is_none(data: Path, word: str, spend: str) -> None:
    refused(data, word, *ASKED[word], "--spend", spend)


@pytest.mark.parametrize("word", ASKED)
@pytest.mark.parametrize("level", ["0%", "100%", "80", "nan", "inf%", "much", "%", ""])
def test_a_level_that_is_none(data: Path, word: str, level: str) -> None:
    assert "level" in refused(data, word, *ASKED[word], "--level", level)


@pytest.mark.parametrize("word", ASKED)
@pytest.mark.parametrize("n", [(), ("--n", "private")])
def test_a_budget_that_could_not_pay(data: Path, word: str, n: tuple[str, ...]) -> None:
    assert "does not cover it" in refused(data, word, *ASKED[word], "--spend", "approx:5,1e-6", *n)
    release = (*RELEASE, str(data.with_suffix(".ledger")), "--target", "approx:5,1e-6")
    assert "does not cover it" in refused(data, "release", *release, *n)


@pytest.mark.parametrize("word", [*ASKED, "release"])
def test_a_budget_that_could_not_pay_in_a_ledger_of_others(data: Path, word: str) -> None:
    place = data.with_suffix(".ledger")
    with Ledger(place, create=True) as ledger:
        ledger.open_budget("others", PureDP(1.0), n=100, schema={"smoker": "boolean"})
    asked = ASKED.get(word, (*RELEASE, str(place)))
    option = "--target" if word == "release" else "--spend"
    command = [word, str(data), *asked, option, "approx:5,1e-6", "--budget", "approx:1,1e-6"]
    with pytest.raises(BudgetExceeded, match="nothing was spent"):
        CliRunner().invoke(application(word), command, catch_exceptions=False)
    with Ledger(place) as ledger:
        assert [budget.dataset for budget in ledger.budgets()] == ["others"]


def test_a_release_is_priced_as_its_budget_counts(data: Path) -> None:
    ledger = str(data.with_suffix(".ledger"))  # of the noises that keep the promise, one fits this budget, one does not
    command = ("release", str(data), *RELEASE, ledger, "--target", "approx:1,1e-7", "--budget", "gaussian:1")
    made = CliRunner().invoke(application("release"), [*command, "--draws", "3"], catch_exceptions=False)
    assert made.exit_code == 0


def test_a_pure_budget_cannot_pay_for_normal_noise(data: Path) -> None:
    assert "another kind of promise" in refused(data, "regress", *ASKED["regress"], budget="pure:1")


@pytest.mark.parametrize("word", ASKED)
def test_a_number_of_records_that_is_no_secret(data: Path, word: str) -> None:
    assert "private" in refused(data, word, *ASKED[word], "--n", "5")


@pytest.mark.parametrize("option", ["--csv", "--plot"])
@pytest.mark.parametrize("word", ASKED)
def test_no_answer_replaces_what_it_was_asked_of(data: Path, word: str, option: str, tmp_path: Path) -> None:
    for name in ("patients.parquet", "patients.facts.toml", "../" + tmp_path.name + "/patients.parquet"):
        assert "holds the data" in refused(data, word, *ASKED[word], option, str(tmp_path / name))
    (tmp_path / "link.png").symlink_to(data)
    assert "holds the data" in refused(data, word, *ASKED[word], option, str(tmp_path / "link.png"))


def test_no_answer_replaces_the_ledger_that_an_address_names(data: Path, tmp_path: Path) -> None:
    place = tmp_path / "kept.ledger"
    place.write_bytes(b"")
    said = refused(data, "ask", *ASKED["ask"], "--ledger", f"sqlite:///{place}", "--csv", str(place))
    assert "holds the data" in said


def test_no_answer_replaces_a_file_of_a_folder(data: Path, tmp_path: Path) -> None:
    pattern = str(tmp_path / "*.parquet")
    with pytest.raises(InvalidValue, match="holds the data"):
        CliRunner().invoke(
            application("ask"),
            ["ask", pattern, "mean of sbp", "--facts", str(data.with_suffix(".facts.toml")), "--csv", str(data)],
            catch_exceptions=False,
        )


@pytest.mark.parametrize("option", ["--csv", "--plot"])
@pytest.mark.parametrize("word", ASKED)
def test_a_folder_takes_no_answer(data: Path, word: str, option: str, tmp_path: Path) -> None:
    (tmp_path / "a.png").mkdir()
    assert "nothing was spent" in refused(data, word, *ASKED[word], option, str(tmp_path / "a.png"))
    long = str(tmp_path / ("a" * 300 + ".png"))
    assert "nothing was spent" in refused(data, word, *ASKED[word], option, long)


@pytest.mark.parametrize(
    "wrong",
    [
        ("--spend", "approx:0.5,1e-6"),
        ("--spend", "0%"),
        ("--spend", "300%"),
        ("--target", "approx:0.1,1e-6", "--draws", "0"),
        ("--target", "approx:0.1,1e-6", "--n", "5"),
        ("--target", "approx:0.1,1e-6", "--where", "ward > 3"),
    ],
    ids=" ".join,
)
def test_a_release_that_makes_no_sense(data: Path, wrong: tuple[str, ...]) -> None:
    refused(data, "release", *RELEASE, str(data.with_suffix(".ledger")), *wrong)


def test_a_release_replaces_nothing(data: Path, tmp_path: Path) -> None:
    sane = (*RELEASE, str(data.with_suffix(".ledger")), "--target", "approx:0.1,1e-6")
    assert "holds the data" in refused(data, "release", *sane, "--output", str(data))
    assert "nothing was spent" in refused(data, "release", *sane, "--output", str(tmp_path))


def test_files_are_written_though_nobody_reads_the_answer(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`| head -1` ends what is shown; what was asked for and paid is kept."""

    def closed(*_: object, **__: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("sottovoce.faces.cli.answer_output.console.print", closed)
    csv, plot = data.with_suffix(".csv"), data.with_suffix(".png")
    command = ["ask", str(data), "mean of sbp", "--budget", "pure:1", "--csv", str(csv), "--plot", str(plot)]
    assert isinstance(CliRunner().invoke(application("ask"), command).exception, BrokenPipeError | SystemExit)
    assert csv.read_text(encoding="utf-8").startswith("estimate")
    assert plot.stat().st_size > 1000


@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_whoever_interrupts_is_told_that_it_may_be_charged(
    data: Path, extra: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sottovoce.faces.cli.shared.paid", interrupted)
    monkeypatch.setattr("sys.argv", ["sottovoce", "ask", str(data), "mean of sbp", *extra])
    with pytest.raises(SystemExit) as left:
        main()
    said = capsys.readouterr().err
    assert (left.value.code, said.count("\n"), "stays so" in said) == (130, 1, True)


class Loading(ModuleType):
    """A module whose names cannot be had, for somebody interrupts."""

    def __getattr__(self, name: str) -> object:
        raise KeyboardInterrupt


def test_whoever_interrupts_while_the_command_line_is_loaded_leaves_by_the_same_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "sottovoce.faces.cli", Loading("sottovoce.faces.cli"))
    monkeypatch.setattr(gc, "set_threshold", lambda _: None)  # this process goes on
    with pytest.raises(SystemExit) as left:
        from_the_start()
    assert (left.value.code, capsys.readouterr().err) == (130, "")


@pytest.mark.parametrize("asked", [None, "4"])
def test_matrices_are_worked_on_by_one_thread_unless_someone_asks_for_more(
    asked: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", {} if asked is None else {"OMP_NUM_THREADS": asked})
    monkeypatch.setattr("sottovoce.faces.cli.main", lambda: None)
    monkeypatch.setattr(gc, "set_threshold", lambda _: None)  # this process goes on
    from_the_start()
    assert os.environ["OMP_NUM_THREADS"] == (asked or "1")


@pytest.mark.parametrize("command", [("ledger", "verify"), ("ledger", "show"), ("explain",)])
def test_a_ledger_that_is_not_there_is_said_not_to_be_there(command: tuple[str, ...], tmp_path: Path) -> None:
    place = tmp_path / "none.ledger"
    with pytest.raises(LedgerUnavailable, match=f"there is no ledger at {place}; whoever asks first"):
        CliRunner().invoke(application(command[0]), [*command, str(place)], catch_exceptions=False)
    assert not place.exists()


def test_a_formula_is_sent_to_its_verb(data: Path) -> None:
    assert "asked by `regress`" in refused(data, "ask", "smoker ~ sbp")
    assert "--where" in refused(data, "regress", "smoker ~ sbp where sbp > 3")


@pytest.mark.parametrize("option", [("--within", "0.1"), ("--column", "sbp"), ("--mean", "3"), ("--mechanism", "x")])
@pytest.mark.parametrize("question", ["smoker ~ sbp", "mean of sbp"])
def test_a_plan_of_a_question_passes_over_nothing(question: str, option: tuple[str, str]) -> None:
    with pytest.raises(InvalidValue, match=option[0]):
        CliRunner().invoke(application("plan"), ["plan", question, "--n", "9", *option], catch_exceptions=False)


@pytest.mark.parametrize(
    ("asked", "slip"),
    [(("ask", "mean of sbpp"), "sbpp"), (("regress", "smoker ~ sbpp"), "sbpp")],
    ids=["ask", "regress"],
)
def test_a_slip_in_a_name_is_told_before_the_table_is_opened(data: Path, asked: tuple[str, str], slip: str) -> None:
    """To open a table takes seconds: of one that is no table at all, the slip is what is told."""
    data.write_bytes(b"no table")
    assert f"the facts name no column {slip!r}" in refused(data, *asked)
    assert "cannot be read as Parquet" in refused(data, asked[0], asked[1].replace(slip, "sbp"))


def test_what_can_hardly_be_paid_with_is_refused_with_what_to_do(data: Path) -> None:
    for word, asked in ASKED.items():
        said = refused(data, word, *asked, "--spend", "1e-30")
        assert said.endswith("spend more (a looser promise, a larger share) or use another mechanism")


def test_an_entry_is_closed_with_a_note_that_says_why(data: Path) -> None:
    place = data.with_suffix(".ledger")
    command = ["ask", str(data), "mean of sbp", "--budget", "approx:1,1e-6"]
    CliRunner().invoke(application("ask"), command, catch_exceptions=False)
    for more, said in (
        ((), "says why an entry is closed, such as"),
        (("--note", " "), "says why an entry is closed, such as"),
        (("--note", "lost"), r"entry 3 was closed already \(commit\); there is nothing left to recover"),
    ):
        with pytest.raises(InvalidValue, match=said):
            CliRunner().invoke(
                application("ledger"), ["ledger", "recover", str(place), "3", *more], catch_exceptions=False
            )


def test_files_say_how_many_columns_they_have(tmp_path: Path) -> None:
    for many, said in ((1, "1 column in"), (2, "2 columns in")):
        file = tmp_path / f"{many}.toml"
        file.write_text("".join(f'[c{k}]\nkind = "flag"\n' for k in range(many)), encoding="utf-8")
        assert f"sound: {said}" in CliRunner().invoke(application("facts"), ["facts", str(file)]).stdout
