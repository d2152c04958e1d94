"""`sottovoce describe`: Table 1 of a table, several questions paid by one share of the budget."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sottovoce.faces.cli import shared
from sottovoce.faces.cli.console import AsJson, console, emit, table, waiting
from sottovoce.faces.cli.output_files import check_places, written
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.shares import read_share

if TYPE_CHECKING:
    from collections.abc import Callable

    from sottovoce.mechanisms import Mechanism
    from sottovoce.service.answers.paid_verbs import PaidVerbs
    from sottovoce.service.curator.privacy_unit import Protected
    from sottovoce.service.curator.readable_records import Records


def describe(
    data: shared.Data,
    column: Annotated[list[str] | None, typer.Option(help="A column to describe; repeat for several.")] = None,
    facts: shared.PublicFacts = None,
    ledger: shared.Beside = None,
    budget: shared.Opening = None,
    n: shared.SecretN = None,
    protect: shared.Protect = None,
    spend: Annotated[str, typer.Option(help="What all of it may cost: a share of the budget, such as 20%.")] = "20%",
    by: Annotated[
        list[str] | None,
        typer.Option(help="Group by this column, or by bands such as 'age: under 18, 18-64, 65+'; repeat for several."),
    ] = None,
    where: Annotated[str | None, typer.Option(help="Describe only records for which this holds.")] = None,
    level: shared.Level = "95%",
    dataset: shared.DatasetName = None,
    again: shared.Again = False,
    who: shared.Who = None,
    purpose: shared.Purpose = None,
    csv: shared.Csv = None,
    latex: Annotated[Path | None, typer.Option(help="Also write the table in LaTeX into this file.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Also write the table in Markdown into this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Describe columns by group, as the Table 1 of a paper: means, medians, shares, and what is missing.

    Numbers come as mean (SD) and median (IQR), flags and categories as n (%). The budget is charged, durably, for each
    of the questions that it is made of, before any record is read; all of them together cost what --spend says.
    """
    from sottovoce.inference.cells.intervals import checked_level  # noqa: PLC0415 - needs the data extra
    from sottovoce.records.facts import Facts  # noqa: PLC0415
    from sottovoce.service.answers.description import table_questions  # noqa: PLC0415

    share, certain = read_share("--spend", spend), checked_level(read_share("--level", level))
    columns, groups = tuple(column or ()), tuple(by or ())
    if not columns:
        raise InvalidValue("say what to describe: --column age --column smoker")
    check_places(csv, latex, markdown, kept=shared.places(data, facts, ledger))

    def check(whom: Protected) -> Callable[[Records], Callable[[PaidVerbs], Mechanism]]:
        questions = table_questions(columns, groups, whom.facts or Facts({}), where)

        def with_records(records: Records) -> Callable[[PaidVerbs], Mechanism]:
            for question in questions:
                records.check(question, question.columns, where=question.where, **whom.asked)
            return lambda purse: purse.mechanism_for(questions[0], share)  # no more than all of it may cost

        return with_records

    options: dict[str, Any] = {"dataset": dataset, "n": n, "protect": protect, "who": who}
    with shared.curator_beside(data, facts, ledger, budget, check, **options) as curator:
        named: dict[str, Any] = {"purpose": purpose, "again": again, "level": certain}
        with waiting("asking"):
            answer = curator.describe(columns, by=groups, where=where, spend=share, **named)
        remaining = curator.left()

    files: list[tuple[Path | None, Callable[[Path], Any]]] = [
        (csv, lambda file: answer.table.to_csv(file, index=False)),
        (latex, lambda file: file.write_text(answer.to_latex(), encoding="utf-8")),
        (markdown, lambda file: file.write_text(answer.to_markdown(), encoding="utf-8")),
    ]
    with written(*files):
        if as_json:
            emit(answer.to_dict() | {"notes": answer.notes, "dataset": curator.dataset, "left": remaining})
        else:
            header, rows = answer.paper_lines()
            console.print(table(answer.describe(), header, rows, left=1))
            console.print(f"{answer.footing()}. {remaining}.", markup=False)
