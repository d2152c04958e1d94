"""`sottovoce know` and `sottovoce synthesize`: what all released counts tell together, and tables drawn from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sottovoce.faces.cli import shared
from sottovoce.faces.cli.console import AsJson, console, emit, escape, waiting
from sottovoce.faces.cli.option_groups import grouped
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import whole
from sottovoce.privacy.shares import read_share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.service.curator.privacy_unit import Protected


@grouped
def know(
    source: shared.Source,
    question: Annotated[str, typer.Argument(help="Such as 'share of smoker by ward where age >= 65'.")],
    level: shared.Level = "95%",
    as_json: AsJson = False,
) -> None:
    """Answer a share or a count from what was released before: no record is read, and nothing is spent."""
    from sottovoce.inference.cells.intervals import checked_level  # noqa: PLC0415 - needs the data extra

    wanted = checked_level(read_share("--level", level))
    with source.curator(shared.unpaid) as curator, waiting("putting together what was released"):
        answer = curator.know(question, level=wanted)
    if as_json:
        emit(answer.to_dict())
    else:
        console.print(escape(answer.summary()), soft_wrap=True)


@grouped
def synthesize(
    source: shared.Source,
    out: Annotated[Path, typer.Option("--out", help="The folder that the tables are written into.")],
    columns: Annotated[
        str | None, typer.Option(help="Which columns, such as 'ward, age'. (By default all that is known of.)")
    ] = None,
    sets: Annotated[int, typer.Option(help="How many tables: an analysis needs several.")] = 20,
    size: Annotated[int | None, typer.Option(help="Their rows. (By default as many as the data have.)")] = None,
    spend: Annotated[
        str, typer.Option(help="What may be spent to learn relations first: a share of the budget, or a promise.")
    ] = "0",
    bins: Annotated[int, typer.Option(help="Into how many parts numbers are cut to be learnt.")] = 16,
    as_csv: Annotated[bool, typer.Option("--csv", help="Write CSV files instead of Parquet.")] = False,
    idempotency_key: shared.Key = None,
    who: shared.Who = None,
    purpose: shared.Purpose = None,
    as_json: AsJson = False,
) -> None:
    """Write synthetic tables of what was released: for nothing, unless relations are to be learnt first."""
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    free = spend.strip() in ("0", "0%")
    given = {"idempotency_key": idempotency_key, "purpose": purpose}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    options["spend"] = 0 if free else shared.paid(spend)
    whole("--sets", sets, 2)
    _check_folder(out)
    with source.curator(_unpaid(names or ()), who=who) as curator:
        synthesis = curator.synthesize(names, sets=sets, size=size, bins=bins, **options)
        with waiting(f"drawing {sets} tables"):
            paths = (synthesis.to_csv if as_csv else synthesis.to_parquet)(out)
            synthesis.to_html(out / "report.html")
        report, remaining = synthesis.to_dict(), curator.left()
        if not as_json:
            console.print(
                escape(f"{synthesis.report()}\n{len(paths)} tables and report.html in {out}. {remaining}."),
                soft_wrap=True,
            )
    if as_json:
        emit(report | {"files": list(map(str, paths)), "report": str(out / "report.html"), "left": remaining})


def _check_folder(out: Path) -> None:
    """Refuse a folder that tables cannot be written into, before anything is paid for them."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        taken = next(out.glob("synthetic*"), None)
    except OSError as error:
        raise InvalidValue(f"--out names a folder that tables are written into: {error}") from None
    if taken is not None:
        raise InvalidValue(f"{out} has synthetic tables already, such as {taken.name}; name another folder with --out")


def _unpaid(names: Sequence[str]) -> shared.Check:
    """Return what checks names of columns beside the facts; no budget is opened for what was released."""

    def check(whom: Protected) -> Any:
        known = list(whom.facts or ())
        for name in names:
            if name not in known:
                raise InvalidValue(f"there is no column {name!r}; the facts name {', '.join(known)}")
        return shared.unpaid(whom)

    return check
