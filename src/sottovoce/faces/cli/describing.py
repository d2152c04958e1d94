"""`sottovoce describe`: Table 1 of a table, several questions paid by one share of the budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from sottovoce.faces.cli import shared
from sottovoce.faces.cli.answer_output import paper_files
from sottovoce.faces.cli.console import console, emit, table, waiting
from sottovoce.faces.cli.option_groups import grouped
from sottovoce.faces.cli.output_files import written
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.shares import read_share


@dataclass(frozen=True)
class Described(shared.Paying):
    """A table that is described for one price."""

    spend: Annotated[str, typer.Option(help="What all of it may cost: a share of the budget, such as 20%.")] = "20%"


@grouped
def describe(
    source: Described,
    column: Annotated[list[str] | None, typer.Option(help="A column to describe; repeat for several.")] = None,
    by: shared.By = None,
    where: shared.Where = None,
    *,
    output: shared.Printed,
) -> None:
    """Describe columns by group, as the Table 1 of a paper: means, medians, shares, and what is missing.

    Numbers come as mean (SD) and median (IQR), flags and categories as n (%). The budget is charged, durably, for each
    of the questions that it is made of, before any record is read; all of them together cost what --spend says.
    """
    from sottovoce.service.answers.description_questions import table_questions  # noqa: PLC0415 - needs the data extra

    share, certain = read_share("--spend", source.spend), output.checked(*source.places)
    columns, groups = tuple(column or ()), tuple(by or ())
    if not columns:
        raise InvalidValue("say what to describe: --column age --column smoker")
    # no more than all of it may cost is asked of a budget that is not open yet
    check = shared.of_questions(lambda known: table_questions(columns, groups, known, where), share)
    with source.curator(check) as curator:
        with waiting("asking"):
            answer = curator.describe(columns, by=groups, where=where, spend=share, level=certain, **source.named)
        remaining = curator.left()

    said = {"methods": answer.methods()} if output.methods else {}
    with written((output.csv, lambda file: answer.table.to_csv(file, index=False)), *paper_files(answer, output)):
        if output.as_json:
            emit(answer.to_dict() | {"notes": answer.notes, "dataset": curator.dataset, "left": remaining} | said)
        else:
            header, rows = answer.paper_lines()
            console.print(table(answer.describe(), header, rows, left=1))
            console.print(f"{answer.footing()}. {remaining}.", markup=False)
            for text in said.values():
                console.print(f"\n{text}", markup=False)
