"""`sottovoce ask`: a question in words or in options, a table in the terminal."""

import csv
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sottovoce.faces.cli import application
from sottovoce.privacy.errors import BudgetExceeded, InvalidValue


def ask(*arguments: str) -> str:
    return CliRunner().invoke(application("ask"), ["ask", *arguments], catch_exceptions=False).stdout


def test_a_question_in_words_is_answered_by_a_table(data: Path, tmp_path: Path) -> None:
    files = ("--csv", str(tmp_path / "a.csv"), "--plot", str(tmp_path / "a.png"))
    said = ask(str(data), "mean of sbp by ward", "--budget", "approx:1,1e-6", "--spend", "5%", *files)
    assert said.splitlines()[0].strip() == "mean of sbp by ward"
    assert "95 % left: about 19 more like the last" in " ".join(said.split())
    with (tmp_path / "a.csv").open(encoding="utf-8") as file:
        assert [row["ward"] for row in csv.DictReader(file)] == ["A", "B"]
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_options_say_the_same_and_json_holds_the_answer(data: Path) -> None:
    options = ("--verb", "quantiles", "--column", "sbp", "--by", "ward", "--at", "0.5", "--spend", "0.2", "--json")
    told = json.loads(ask(str(data), "--budget", "pure:1", *options))
    assert told["question"] == "median of sbp by ward"
    assert told["left"] == "80 % left: about 4 more like the last"
    assert [row["ward"] for row in told["table"]] == ["A", "B"]


def test_months_of_several_years_are_asked_for_over_time_and_over_seasons(tmp_path: Path) -> None:
    """By the calendar, as periods are; the options and the words are the same question."""
    table, facts = tmp_path / "stays.csv", tmp_path / "facts.toml"
    days = [f"{year}-{month:02}-{day:02}" for year in (2023, 2024) for month in range(1, 13) for day in range(1, 29)]
    table.write_text("seen,high\n" + "".join(f"{day},{k % 3 == 0}\n" for k, day in enumerate(days)), encoding="utf-8")
    facts.write_text(
        '[high]\nkind = "flag"\n[seen]\nkind = "day"\nfirst = "2023-01-01"\nlast = "2024-12-31"\n', encoding="utf-8"
    )
    spent = ("--facts", str(facts), "--budget", "approx:1,1e-6", "--spend", "20%", "--json")
    told = json.loads(ask(str(table), "proportion of high by seen: monthly", "--over-seasons", *spent))
    assert told["question"] == "pooled over seasons proportion of high by yearmonth(seen)"
    assert [row["yearmonth(seen)"] for row in told["table"]][::23] == ["2023-01", "2024-12"]
    walk = json.loads(ask(str(table), "proportion of high by yearmonth(seen)", "--over-time", *spent))
    assert walk["question"] == "pooled over time proportion of high by yearmonth(seen)"
    with pytest.raises(InvalidValue, match="groups of days are seen: monthly, yearly"):
        ask(str(table), "--verb", "proportion", "--column", "high", "--by", "seen: weekly", *spent)


def test_levels_and_quantiles_are_said_in_percent_too(data: Path) -> None:
    spent = (str(data), "--budget", "approx:1,1e-6", "--spend", "10%", "--json")
    told = json.loads(ask(*spent, "quantiles 10%, 0.9 of sbp", "--level", "99.9%"))
    assert told["level"] == 0.999  # the very number that 0.999 is
    assert told["question"] == json.loads(ask(*spent, "quantiles of sbp", "--at", "0.1", "--at", "90%"))["question"]
    regress = ["regress", str(data), "smoker ~ sbp", "--level", "80%", "--json"]
    assert json.loads(CliRunner().invoke(application("regress"), regress).stdout)["level"] == 0.8


def test_plans_take_levels_and_widths_in_percent(data: Path) -> None:
    known = ["--facts", str(data.with_suffix(".facts.toml")), "--n", "2000", "--budget", "approx:1,1e-6"]

    def plan(*words: str) -> str:
        return CliRunner().invoke(application("plan"), ["plan", *words, *known], catch_exceptions=False).stdout

    usual, narrow = (json.loads(plan("mean of sbp", "--level", level, "--json")) for level in ("0.95", "80%"))
    assert narrow["level"] == 0.8 and narrow["width"] < 0.75 * usual["width"]
    assert "in 80 of 100 answers" in " ".join(plan("mean of sbp", "--level", "80%").split())
    foreseen = json.loads(plan("smoker ~ sbp", "--level", "80%", "--spend", "50%", "--json"))
    assert foreseen["level"] == 0.8
    assert "a quarter of an even part" in " ".join(plan("mean of sbp by ward").split())
    assert "a quarter of an even part" not in " ".join(plan("counts of smoker by ward", "--n", "90000").split())
    assert plan("proportion of smoker", "--width", "5%") == plan("proportion of smoker", "--width", "0.05")
    with pytest.raises(InvalidValue, match="in the units of the answer, such as 2"):
        plan("mean of sbp", "--width", "5%")
    little, much = (json.loads(plan("median of sbp", "--spend", share, "--json")) for share in ("10%", "100%"))
    assert much["width"] < 0.8 * little["width"]
    with pytest.raises(InvalidValue, match="--exposure, --event, --cut, --start and --level go with a question"):
        plan("--system", "beta-bernoulli:alpha=1,beta=1", "--target", "pure:1", "--level", "80%")


def test_quantiles_are_those_that_are_asked_for(data: Path) -> None:
    spent = (str(data), "quantiles of sbp", "--at", "10%", "--at", "0.5", "--budget", "approx:1,1e-6", "--spend", "20%")
    answer = json.loads(ask(*spent, "--json"))
    assert [row["quantile"] for row in answer["table"]] == [0.1, 0.5]
    assert answer["release"]["value"]["posterior"] == "quantile search"


def test_groups_may_be_bands_of_a_number(data: Path) -> None:
    spent = (str(data), "--budget", "pure:1", "--spend", "20%", "--json")
    rows = json.loads(ask(*spent, "proportion of smoker by sbp: under 120, 120-139, 140+"))["table"]
    assert [row["sbp"] for row in rows] == ["under 120", "120 to under 140", "140 and over"]
    asked = ("--verb", "counts", "--column", "ward", "--by", "sbp: under 120, 120-139, 140+", "--by", "smoker")
    told = json.loads(ask(*spent, *asked, "--compare", "under 120 / yes / A", "140 and over / no / B"))
    assert len(told["table"]) == 12 and told["compared"]
    plan = ["--facts", str(data.with_suffix(".facts.toml")), "--n", "2000", "--budget", "approx:1,1e-6", "--json"]
    plan += ["--imagine", "sbp:140 and over=5%"]
    for command in ("plan", "balance"):
        said = CliRunner().invoke(
            application(command), [command, "proportion of smoker by sbp: under 120, 120-139, 140+", *plan]
        )
        assert json.loads(said.stdout)["question"].endswith("140+")
    with pytest.raises(InvalidValue, match="overlap"):
        ask(*spent, "proportion of smoker by sbp: under 120, 110+")
    for option, value in (("by", "ward"), ("where", "sbp > 100")):
        with pytest.raises(InvalidValue, match=f"leave out --{option}"):
            ask(*spent, "proportion of smoker by sbp: under 120, 120+ where sbp > 90", f"--{option}", value)


def test_two_rows_are_compared_and_rows_that_are_not_there_are_refused_before_anything_is_spent(data: Path) -> None:
    question = (str(data), "mean of sbp by ward", "--budget", "pure:1", "--spend", "10%")
    for rows, said in ((("A", "Z"), "no row"), (("A", "A"), "two different rows")):
        with pytest.raises(InvalidValue, match=said):
            ask(*question, "--compare", *rows)
    assert not data.with_suffix(".ledger").exists()
    assert "A less B: " in ask(*question, "--compare", "A", "B")
    assert json.loads(ask(*question, "--compare", "B", "A", "--json"))["compared"][0].startswith("B less A: ")


def test_what_makes_no_sense_is_refused_before_anything_is_spent(data: Path) -> None:
    for wrong, error in ((("men of sbp",), InvalidValue), ((), InvalidValue), (("mean of weight",), InvalidValue)):
        with pytest.raises(error):
            ask(str(data), *wrong, "--budget", "pure:1")
    assert not data.with_suffix(".ledger").exists()
    ask(str(data), "mean of sbp", "--budget", "pure:1", "--spend", "100%")
    with pytest.raises(BudgetExceeded):
        ask(str(data), "mean of sbp", "--spend", "1%")


@pytest.mark.parametrize(
    ("name", "said"), [("none/a.png", "no folder"), ("a.docx", "no PNG"), ("none/a.csv", "no folder")]
)
def test_a_file_that_cannot_be_written_costs_nothing(data: Path, tmp_path: Path, name: str, said: str) -> None:
    option = "--csv" if name.endswith("csv") else "--plot"
    with pytest.raises(InvalidValue, match=said):
        ask(str(data), "mean of sbp", "--budget", "pure:1", option, str(tmp_path / name))
    assert not data.with_suffix(".ledger").exists()


def test_an_answer_is_shown_though_its_file_cannot_be_written(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its place may be lost, or full, by the time that it is there."""
    monkeypatch.setattr("sottovoce.faces.cli.output_files._try", lambda _: None)
    monkeypatch.setattr("sottovoce.service.answers.Answer.plot", lambda _: 1 / 0)  # or its drawing may fail
    for option, place in (("--csv", tmp_path), ("--plot", tmp_path / "a.png")):
        command = ["ask", str(data), "mean of sbp", "--budget", "pure:1", option, str(place)]
        found = CliRunner().invoke(application("ask"), command)
        assert "95 % intervals" in found.stdout and "in the ledger, but" in str(found.exception)


def test_a_folder_may_be_named_by_a_dot_and_data_need_a_name(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder := data.parent / "visits").mkdir()
    data.rename(folder / "one.parquet")
    (data.parent / "visits.facts.toml").write_text(data.with_suffix(".facts.toml").read_text(), encoding="utf-8")
    monkeypatch.chdir(folder)
    assert "95 % left" in " ".join(ask(".", "mean of sbp", "--budget", "pure:1").split())
    assert (data.parent / "visits.ledger").is_file()
    for nothing in ("", "/"):
        with pytest.raises(InvalidValue, match="name the data"):
            ask(nothing, "mean of sbp", "--budget", "pure:1")


def test_words_in_brackets_stand_as_they_are(data: Path) -> None:
    facts = data.with_suffix(".facts.toml")
    facts.write_text(facts.read_text().replace('"B"', '"[/b]B"'), encoding="utf-8")
    assert "[/b]B" in ask(str(data), "mean of sbp by ward", "--budget", "pure:1")
    assert "'[/b]B'" in ask(str(data), "mean of sbp where ward = '[/b]B'")
    shown = CliRunner().invoke(
        application("ledger"), ["ledger", "show", str(data.with_suffix(".ledger"))], catch_exceptions=False
    )
    assert "'[/b]B'" in shown.stdout


def test_cells_are_cut_on_the_command_line_and_read_by_a_process_that_imported_nothing(
    data: Path, tmp_path: Path
) -> None:
    cuts = ("--cut", "sbp=60,120,140,inf", "--budget", "pure:1", "--spend", "50%", "--json")
    told = ask(str(data), "counts of sbp, ward", *cuts)
    assert [row["sbp"] for row in json.loads(told)["table"]][::2] == ["60 to 120", "120 to 140", "140 or more"]
    place = tmp_path / "answer.json"
    place.write_text(told, encoding="utf-8")
    read = f"from sottovoce.inference.custom import observed\nseen = observed({str(place)!r})\n"
    code = read + "print(seen.size, seen.n, round(seen.scale, 6))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=_paths())
    assert done.stdout.split() == ["6", "2000", "4.0"]


def test_cuts_that_make_no_sense_are_refused(data: Path) -> None:
    for cut in ("sbp", "age=3", "sbp=many", "sbp=60,50", "ward=3"):
        with pytest.raises(InvalidValue):
            ask(str(data), "counts of sbp, ward", "--cut", cut, "--budget", "pure:1")
    with pytest.raises(InvalidValue, match="goes with counts"):
        ask(str(data), "mean of sbp", "--cut", "sbp=3", "--budget", "pure:1")


def _paths() -> dict[str, str]:
    """The environment of a fresh process that finds what this one imports."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}


def test_a_plan_says_of_which_group_its_width_is(data: Path) -> None:
    known = ["--facts", str(data.with_suffix(".facts.toml")), "--n", "2000", "--budget", "approx:1,1e-6"]
    said = CliRunner().invoke(application("plan"), ["plan", "average sbp per ward", *known]).stdout
    assert "each group known to" in said and "for each of the 2 groups, if all are of one size" in " ".join(
        said.split()
    )
    alone = CliRunner().invoke(application("plan"), ["plan", "mean of sbp", *known]).stdout
    assert "group" not in alone


def test_words_that_are_not_those_of_the_data_are_told_of_in_words_and_in_json(data: Path) -> None:
    facts = data.with_suffix(".facts.toml")
    facts.write_text(facts.read_text(encoding="utf-8").replace('["A", "B"]', '["a", "b"]'), encoding="utf-8")
    spent = (str(data), "mean of sbp by ward", "--budget", "approx:1,1e-6", "--spend", "40%")
    said, *rest = json.loads(ask(*spent, "--json"))["notes"]
    assert said.startswith("nearly all of 2,000 records are in no row: ward or sbp is missing")
    assert "nearly all of 2,000 records are in no row" in " ".join(ask(*spent).split())
    again = ["again", str(data.with_suffix(".ledger")), "3", "--json"]
    assert json.loads(CliRunner().invoke(application("again"), again).stdout)["notes"] == [said, *rest]


def test_survival_is_asked_in_words_and_in_options(data: Path, tmp_path: Path) -> None:
    spent = (str(data), "--budget", "approx:1,1e-6", "--spend", "20%", "--json")
    words = json.loads(ask(*spent, "survival of sbp (event smoker) at 120, 180 by ward"))
    parts = ("--verb", "survival", "--column", "sbp", "--event", "smoker", "--by", "ward", "--cut", "sbp=120,180")
    options = json.loads(ask(*spent, *parts, "--plot", str(tmp_path / "a.svg")))
    assert words["question"] == options["question"] == "survival of sbp (event smoker) at 120, 180 by ward"
    assert [row["sbp"] for row in options["table"]] == [120, 180, 120, 180]
    assert any(note.startswith("median sbp: A") for note in options["notes"])
    with pytest.raises(InvalidValue, match="is cut in itself, such as sbp="):
        ask(*spent, *parts[:-1], "ward=40")
    with pytest.raises(InvalidValue, match="has times of its own"):
        ask(*spent, "survival of sbp (event smoker) at 120", "--cut", "sbp=180")


def test_an_answer_is_written_for_a_paper_and_so_is_one_told_again(data: Path, tmp_path: Path) -> None:
    first, later = tmp_path / "first", tmp_path / "later"
    for place, words in (
        (first, ["ask", str(data), "mean of sbp by ward", "--spend", "20%", "--budget", "approx:1,1e-6"]),
        (later, ["again", str(data.with_suffix(".ledger")), "3"]),
    ):
        files = [item for kind in ("latex", "markdown", "docx") for item in (f"--{kind}", f"{place}.{kind}")]
        run = CliRunner().invoke(application(words[0]), [*words, *files, "--json", "--methods"], catch_exceptions=False)
        assert '"mean of sbp by ward", of 2,000 records' in json.loads(run.stdout)["methods"]
        assert "95 \\% interval" in Path(f"{place}.latex").read_text()
    for kind in ("latex", "markdown", "docx"):
        assert Path(f"{first}.{kind}").read_bytes() == Path(f"{later}.{kind}").read_bytes()
    with pytest.raises(InvalidValue, match="holds the data, their facts or their ledger"):
        ask(str(data), "mean of sbp", "--docx", str(data))


def test_table_1_is_one_command(data: Path, tmp_path: Path) -> None:
    def describe(*words: str) -> str:
        return CliRunner().invoke(application("describe"), ["describe", *words], catch_exceptions=False).stdout

    files = ("--csv", str(tmp_path / "a.csv"), "--latex", str(tmp_path / "a.tex"), "--markdown", str(tmp_path / "a.md"))
    asked = (str(data), "--column", "sbp", "--column", "smoker", "--by", "ward", "--budget", "approx:1,1e-6")
    files += ("--docx", str(tmp_path / "a.docx"), "--methods")
    said = " ".join(describe(*asked, "--spend", "20%", *files).split())
    assert "The 4 releases together cost" in said and zipfile.is_zipfile(tmp_path / "a.docx")
    assert "sbp, mean (SD)" in said and "80 % left" in said
    assert "smoker, n" in (tmp_path / "a.tex").read_text() and "smoker, n" in (tmp_path / "a.md").read_text()
    told = json.loads(describe(*asked, "--spend", "20%", "--again", "--json"))
    assert told["left"].startswith("80 % left") and len(told["entries"]) == 4
    with pytest.raises(InvalidValue, match="say what to describe"):
        describe(str(data))
    planned = ("describe sbp, smoker by ward", "--facts", str(data.parent / "patients.facts.toml"), "--n", "400")
    plan = CliRunner().invoke(application("plan"), ["plan", *planned, "--spend", "20%"], catch_exceptions=False).stdout
    assert "quantiles" in plan and "Nothing was read" in " ".join(plan.split())
