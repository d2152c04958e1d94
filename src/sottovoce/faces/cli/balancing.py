"""`sottovoce balance`: how a question's accuracy, its share of the budget and its risk go together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sottovoce.faces.cli import shared
from sottovoce.faces.cli.console import AsJson, console, emit, table
from sottovoce.faces.cli.output_files import save_figure
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import parse_promise
from sottovoce.privacy.shares import percent, read_share


def balance(
    question: Annotated[str, typer.Argument(help="Such as 'proportion of smoker by ward'.")],
    facts: Annotated[Path, typer.Option(help="The facts, a TOML file: bounds and categories.")],
    n: Annotated[int, typer.Option(help="The number of records, which is public.")],
    budget: Annotated[str, typer.Option(help="The whole budget, such as approx:1,1e-6.")],
    width: Annotated[
        str | None, typer.Option(help="Wanted accuracy: ± so much; of a proportion 2% or 0.02, of a mean in its units.")
    ] = None,
    risk: Annotated[
        str | None, typer.Option(help="Wanted risk: a guess comes true at most so often, such as 1.5%.")
    ] = None,
    spend: Annotated[str | None, typer.Option(help="A share of the budget, such as 5%.")] = None,
    baseline: shared.Baseline = "1%",
    share: Annotated[str, typer.Option(help="Imagined: how often a flag is set.")] = "50%",
    spread: Annotated[str, typer.Option(help="Imagined: standard deviation as a part of the range.")] = "25%",
    kept: shared.Kept = "100%",
    smallest: Annotated[str | None, typer.Option(help="Imagined: the part that the smallest group has.")] = None,
    imagine: Annotated[
        list[str] | None, typer.Option(help="Imagined of a column: smoker=20%, ward:B=5%, age=0.1; one a column.")
    ] = None,
    level: shared.Level = "95%",
    protect: shared.Protect = None,
    plot: Annotated[Path | None, typer.Option(help="Draw both curves into this PNG or SVG file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say what share of a budget an accuracy or a risk takes, and what it brings. Reads nothing, spends nothing."""
    from sottovoce.inference.cells.questions import make_question  # noqa: PLC0415
    from sottovoce.records.facts import read_facts  # noqa: PLC0415
    from sottovoce.records.facts.assumed_distribution import parse_imagined  # noqa: PLC0415
    from sottovoce.service.answers import parse_question, parse_spend  # noqa: PLC0415 - needs the data extra
    from sottovoce.service.answers.trade_off import TradeOff  # noqa: PLC0415
    from sottovoce.service.curator.privacy_unit import Protected  # noqa: PLC0415

    if sum(item is not None for item in (width, risk, spend)) > 1:
        raise InvalidValue("say one of --width, --risk and --spend: each follows from the others")
    asked, guessed = parse_question(question), read_share("--baseline", baseline)
    known = read_facts(facts)
    whom = Protected.of(known, protect)
    public = whom.facts or known
    about = make_question(asked.pop("verb"), asked.pop("columns"), public, **asked)
    parts = {"share": share, "spread": spread, "kept": kept, "smallest": smallest}
    others = {name: read_share(f"--{name}", part) for name, part in parts.items() if part is not None}
    said = parse_imagined(imagine or (), about.grouped_facts, **others)
    result = TradeOff(
        about,
        n,
        whom.meant(parse_promise(budget)),
        baseline=guessed,
        imagined=said,
        level=read_share("--level", level),
    )
    chosen, note = None, None
    if width is not None:
        chosen = result.for_width(width)
    elif risk is not None:
        most = read_share("--risk", risk)
        chosen = result.for_risk(most)
        if chosen.share == 1 and chosen.success < most:
            note = "Even the whole budget stays below that risk."
    elif spend is not None:
        given = parse_spend(spend)
        if isinstance(given, str):
            raise InvalidValue(f"say a share of the budget such as 5%. Got {spend!r}")
        chosen = result.at(given)
    if plot is not None:
        save_figure(result.plot(chosen), plot)
    if as_json:
        picked = None if chosen is None else chosen.to_dict()
        shown = {"question": result.question.describe(), "level": result.level, "chosen": picked, "note": note}
        emit(shown | {"curve": [offer.to_dict() for offer in result.curve(points=7)]})
        return
    head, rows = result.lines(chosen)
    console.print(table(result.question.describe(), head, rows))
    imagined = f"{whom.many(n)} as imagined"
    console.print(
        f"\nForecast for {imagined}, {percent(result.level)} intervals, the widest row. A budget of {budget}."
    )
    for sentence in filter(None, (note, result.change)):
        console.print(sentence)
