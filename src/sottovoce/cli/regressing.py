"""`sottovoce regress`: a regression by its formula, from a table, charged to its ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sottovoce.cli.asking import facts_beside, written
from sottovoce.cli.console import AsJson, console, emit, escape, table
from sottovoce.privacy.promises import parse_promise

__all__ = ["regress"]


def regress(
    data: Annotated[str, typer.Argument(help="A Parquet, CSV or Arrow file, or a database address.")],
    formula: Annotated[str, typer.Argument(help="Such as 'smoker ~ age + C(ward) + age:sex'.")],
    family: Annotated[
        str | None,
        typer.Option(
            help="logistic, probit, linear, poisson or multinomial. (By default by the kind of what is explained.)"
        ),
    ] = None,
    facts: Annotated[
        Path | None,
        typer.Option(help="The TOML file that says what is public of the columns. (By default beside DATA.)"),
    ] = None,
    ledger: Annotated[
        str | None, typer.Option(help="The ledger: a path or a database address. (By default beside DATA.)")
    ] = None,
    budget: Annotated[str | None, typer.Option(help="Opens the budget the first time, such as approx:1,1e-6.")] = None,
    n: Annotated[
        str | None, typer.Option(help="'private' where how many records there are is a secret; fixed with the budget.")
    ] = None,
    protect: Annotated[
        str | None,
        typer.Option(help="'rows' where a row is to be protected, not a person, though the facts say whose it is."),
    ] = None,
    spend: Annotated[str, typer.Option(help="A share of the budget such as 5%, or a promise.")] = "5%",
    where: Annotated[str | None, typer.Option(help="Only records for which this holds.")] = None,
    prior: Annotated[float | None, typer.Option(help="Prior standard deviation of the linear predictor.")] = None,
    level: Annotated[float, typer.Option(help="How often intervals are to hold the truth.")] = 0.95,
    dataset: Annotated[str | None, typer.Option(help="The name of the data in the ledger.")] = None,
    idempotency_key: Annotated[
        str | None, typer.Option(help="A name for this request: asked again under it, it is answered and charged once.")
    ] = None,
    who: Annotated[str | None, typer.Option(help="Who asks. (By default your user name.)")] = None,
    plot: Annotated[Path | None, typer.Option(help="Also draw a forest plot into this file (PNG, SVG, PDF).")] = None,
    csv: Annotated[Path | None, typer.Option(help="Also write the table to this CSV file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print a regression table with an interval in every row. It is charged once, before any record is read."""
    from sottovoce.answers import parse_spend  # noqa: PLC0415 - needs the data extra
    from sottovoce.curator import Curator  # noqa: PLC0415

    paid, beside = parse_spend(spend), Path(data)
    curator = Curator(
        data,
        ledger=str(beside.with_suffix(".ledger")) if ledger is None else ledger,
        budget=None if budget is None else parse_promise(budget),
        facts=facts_beside(beside) if facts is None else facts,
        dataset=dataset,
        n=n,  # type: ignore[arg-type]  # what is neither is refused there
        protect=protect,
        who=who,
    )
    with curator:
        answer = curator.regress(
            formula,
            family=family,
            where=where,
            prior=prior,
            spend=parse_promise(paid) if isinstance(paid, str) else paid,
            level=level,
            idempotency_key=idempotency_key,
        )
        left, whom = curator.left(), curator.whom
    if csv is not None:
        written(lambda: answer.table.to_csv(csv, index=False), csv)
    if plot is not None:
        written(lambda: answer.plot().savefig(plot), plot)
    if as_json:
        emit(answer.to_dict() | {"dataset": curator.dataset, "left": left, "protects": whom or "a record"})
        return
    header, rows = answer.lines()
    console.print(table(answer.question.describe(), header, [[escape(cell) for cell in row] for row in rows], left=1))
    console.print(f"{answer.footing()}. {left}." + ("" if whom is None else f" {whom}."))
