"""`sottovoce regress`: a regression by its formula, from a table, charged to its ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sottovoce.faces.cli import shared
from sottovoce.faces.cli.answer_output import deliver, of_regression
from sottovoce.faces.cli.console import waiting
from sottovoce.faces.cli.cut_words import hazard_cuts
from sottovoce.faces.cli.option_groups import grouped

if TYPE_CHECKING:
    from collections.abc import Callable

    from sottovoce.service.curator.privacy_unit import Protected
    from sottovoce.service.curator.readable_records import Records


@grouped
def regress(
    source: shared.Paying,
    formula: Annotated[str, typer.Argument(help="Such as 'smoker ~ age + C(ward) + age:sex'.")],
    *,
    family: Annotated[
        str | None,
        typer.Option(
            help="logistic, probit, linear, poisson, multinomial or ordinal. (By default by the kind of response.)"
        ),
    ] = None,
    where: shared.Where = None,
    prior: Annotated[float | None, typer.Option(help="Prior standard deviation of the linear predictor.")] = None,
    misses: Annotated[
        float | None,
        typer.Option(
            help="How much the formula may miss, beside how far responses vary (0.1 or 0.15 by default). 0 takes it to "
            "be right: intervals are mostly narrower then, and too narrow if it is not."
        ),
    ] = None,
    exposure: Annotated[
        str | None,
        typer.Option(help="Of counts: the column that says how long, or of how many, each was counted."),
    ] = None,
    event: Annotated[
        str | None,
        typer.Option(
            help="Of a time: the flag that says whether it ended in the event. The table is of hazard ratios."
        ),
    ] = None,
    cut: Annotated[
        list[str] | None,
        typer.Option(help="With --event: a time at which the hazard may change, or into how many intervals to cut."),
    ] = None,
    start: Annotated[
        str | None, typer.Option(help="With --event: the column that says when follow-up began, where not at 0.")
    ] = None,
    predict: shared.Predicting = None,
    contrast: shared.Contrasts = None,
    output: shared.Output,
) -> None:
    """Print a regression table with an interval in every row. It is charged once, before any record is read."""
    from sottovoce.records.facts import Facts  # noqa: PLC0415
    from sottovoce.records.facts.condition_parser import check_levels  # noqa: PLC0415
    from sottovoce.records.readings import ClippedSum  # noqa: PLC0415
    from sottovoce.service.answers.contrast_parser import parse_contrast  # noqa: PLC0415 - needs the data extra
    from sottovoce.service.answers.planned_verbs import regression_room  # noqa: PLC0415
    from sottovoce.service.answers.predictions import parse_rows  # noqa: PLC0415

    paid, level = source.paid, output.checked(*source.places)
    asked: dict[str, Any] = {"family": family, "where": where, "prior": prior, "misses": misses}
    asked |= {"exposure": exposure, "event": event, "cuts": hazard_cuts(formula, cut), "start": start}
    said = {name: value for name, value in asked.items() if value is not None}

    def check(whom: Protected) -> Callable[[Records], shared.Payable]:
        known = whom.facts or Facts({})
        asking = regression_room().formula_of(formula, known, **said)
        check_levels(where, known)
        parse_rows(asking, predict or ())
        for item in contrast or ():
            parse_contrast(item, asking.terms)

        def with_records(records: Records) -> shared.Payable:
            if where is not None:
                records.check(ClippedSum(0, 1), where=where, **whom.asked)
            return lambda purse: purse.looks_for(asking, paid)

        return with_records

    with source.curator(check) as curator:
        with waiting("looking at the records"):
            answer = curator.regress(formula, **said, spend=paid, level=level, **source.named)
        deliver(answer, of_regression(answer, predict or (), contrast or ()), output, curator)
