"""`sottovoce ask`: a question in words, answered from a table and charged to its ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sottovoce.faces.cli import shared
from sottovoce.faces.cli.answer_output import deliver, of_rows, row_places
from sottovoce.faces.cli.console import waiting
from sottovoce.faces.cli.cut_words import cut_words
from sottovoce.faces.cli.option_groups import grouped
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.shares import read_share

if TYPE_CHECKING:
    from sottovoce.records.facts import Facts
    from sottovoce.service.answers import Question


@grouped
def ask(
    source: shared.Paying,
    question: Annotated[
        str | None, typer.Argument(help="Such as 'mean of sbp by ward where age >= 40'; or say it with the options.")
    ] = None,
    *,
    verb: Annotated[
        str | None, typer.Option(help="proportion, mean, total, sd, rate, counts, quantiles or survival.")
    ] = None,
    column: Annotated[list[str] | None, typer.Option(help="The column asked about; repeat it for counts.")] = None,
    by: shared.By = None,
    where: shared.Where = None,
    event: Annotated[
        str | None, typer.Option(help="For survival: the flag that says whether a time ended in it.")
    ] = None,
    exposure: Annotated[str | None, typer.Option(help="Divide a rate by the sum of this column.")] = None,
    at: Annotated[list[str] | None, typer.Option(help="Which quantile, such as 90%; repeat for several.")] = None,
    cut: Annotated[
        list[str] | None,
        typer.Option(help="How counts and survival cut a column: age=12 (cells) or days=0,7,30 (edges); may repeat."),
    ] = None,
    missing_cell: Annotated[bool, typer.Option(help="Count missing values in cells of their own.")] = False,
    pool: Annotated[bool, typer.Option(help="Let groups share strength.")] = False,
    over_time: Annotated[
        bool, typer.Option("--over-time", help="Let groups of the first --by lie near those before them, as months do.")
    ] = False,
    seasons: Annotated[
        bool,
        typer.Option("--over-seasons", help="As --over-time, of months that are alike from year to year."),
    ] = False,
    tails: Annotated[
        str | None, typer.Option(help="What a mean assumes of its tail: any (nothing), or smooth where bounds are far.")
    ] = None,
    compare: shared.Compare = None,
    output: shared.Output,
) -> None:
    """Answer a question with an interval in every row. The budget is charged, durably, before any record is read."""
    from sottovoce.inference.cells.questions import make_question  # noqa: PLC0415 - needs the data extra
    from sottovoce.records.facts import Cells, Facts  # noqa: PLC0415

    wanted = tuple(read_share("--at", item) for item in at or ())
    given: dict[str, Any] = {
        "by": tuple(by or ()),
        "where": where,
        "exposure": exposure,
        "at": wanted,
        "event": event,
        "tails": tails,
    }
    given["pool"] = "season" if seasons else "time" if over_time else pool
    asked = _parts_of(question, verb, column, {name: value for name, value in given.items() if value})
    paid, level = source.paid, output.checked(*source.places)

    def asking_of(known: Facts) -> Question:
        parts = dict(asked)
        if parts["verb"] == "survival" and cut:
            if "cuts" in parts:
                raise InvalidValue("the question has times of its own; say them there, and leave out --cut")
            parts["cuts"] = cut_words(parts["columns"], cut)
        elif cut or missing_cell:
            missing = "cell" if missing_cell else "out"
            parts["cells"] = Cells.parse(known, parts["columns"], "; ".join(cut or []), missing)
        return make_question(parts.pop("verb"), parts.pop("columns"), known, **parts)

    check = shared.of_questions(
        lambda known: [asking_of(known)], paid, lambda asking: compare and row_places(asking, compare)
    )
    with source.curator(check) as curator:
        with waiting("asking"):
            answer = curator.answer(asking_of(curator.facts or Facts({})), spend=paid, level=level, **source.named)
        deliver(answer, of_rows(answer, compare), output, curator)


def _parts_of(
    question: str | None, verb: str | None, column: list[str] | None, asked: dict[str, Any]
) -> dict[str, Any]:
    """Return the parts of a question that is said in words, or by options."""
    from sottovoce.service.answers import parse_question  # noqa: PLC0415 - needs the data extra

    if question is not None:
        if verb or column:
            raise InvalidValue("say the question in words or with --verb and --column, not both")
        words = parse_question(question)
        if twice := [name for name in ("by", "where", "exposure", "event") if name in words and name in asked]:
            raise InvalidValue(f"the question has a {twice[0]!r} of its own; say it there, and leave out --{twice[0]}")
        return words | asked
    if not (verb and column):
        raise InvalidValue("ask a question, such as 'mean of sbp by ward', or give --verb and --column")
    at = {"at": (0.25, 0.5, 0.75)} if verb == "quantiles" else {}
    return at | asked | {"verb": verb, "columns": tuple(column)}
