"""`sottovoce regress`: a regression by its formula, from a table, charged to its ledger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sottovoce.faces.cli import shared
from sottovoce.faces.cli.answer_output import deliver, of_regression
from sottovoce.faces.cli.console import AsJson, waiting
from sottovoce.faces.cli.output_files import check_places
from sottovoce.privacy.shares import read_share

if TYPE_CHECKING:
    from collections.abc import Callable

    from sottovoce.mechanisms import Mechanism
    from sottovoce.service.answers.paid_verbs import PaidVerbs
    from sottovoce.service.curator.privacy_unit import Protected
    from sottovoce.service.curator.readable_records import Records


def regress(
    data: shared.Data,
    formula: Annotated[str, typer.Argument(help="Such as 'smoker ~ age + C(ward) + age:sex'.")],
    family: Annotated[
        str | None,
        typer.Option(
            help="logistic, probit, linear, poisson or multinomial. (By default by the kind of what is explained.)"
        ),
    ] = None,
    facts: shared.PublicFacts = None,
    ledger: shared.Beside = None,
    budget: shared.Opening = None,
    n: shared.SecretN = None,
    protect: shared.Protect = None,
    grows: shared.Grows = None,
    period: shared.Period = None,
    spend: shared.Spend = "5%",
    where: Annotated[str | None, typer.Option(help="Only records for which this holds.")] = None,
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
    level: shared.Level = "95%",
    dataset: shared.DatasetName = None,
    idempotency_key: shared.Key = None,
    again: shared.Again = False,
    who: shared.Who = None,
    purpose: shared.Purpose = None,
    predict: shared.Predicting = None,
    contrast: shared.Contrasts = None,
    plot: Annotated[Path | None, typer.Option(help="Also draw a forest plot into this file (PNG, SVG, PDF).")] = None,
    csv: shared.Csv = None,
    as_json: AsJson = False,
) -> None:
    """Print a regression table with an interval in every row. It is charged once, before any record is read."""
    from sottovoce.inference.cells.intervals import checked_level  # noqa: PLC0415
    from sottovoce.records.facts import Facts  # noqa: PLC0415
    from sottovoce.records.facts.condition_parser import check_levels  # noqa: PLC0415
    from sottovoce.records.readings import ClippedSum  # noqa: PLC0415
    from sottovoce.service.answers.contrast_parser import parse_contrast  # noqa: PLC0415 - needs the data extra
    from sottovoce.service.answers.predictions import parse_rows  # noqa: PLC0415
    from sottovoce.service.answers.verbs import regression_room  # noqa: PLC0415

    paid = shared.paid(spend)
    check_places(csv, plot=plot, kept=shared.places(data, facts, ledger))
    certain = checked_level(read_share("--level", level))
    asked: dict[str, Any] = {"family": family, "where": where, "prior": prior, "misses": misses}
    asked["exposure"] = exposure
    said = {name: value for name, value in asked.items() if value is not None}
    options: dict[str, Any] = {"dataset": dataset, "n": n, "protect": protect, "who": who, "grows": grows}
    options["period"] = period

    def check(whom: Protected) -> Callable[[Records], Callable[[PaidVerbs], Mechanism]]:
        known = whom.facts or Facts({})
        asking = regression_room().Formula(formula, known, **said)
        check_levels(where, known)
        parse_rows(asking, predict or ())
        for item in contrast or ():
            parse_contrast(item, asking.terms)

        def with_records(records: Records) -> Callable[[PaidVerbs], Mechanism]:
            if where is not None:
                records.check(ClippedSum(0, 1), where=where, **whom.asked)
            return lambda purse: purse.looks_for(asking, paid)

        return with_records

    with shared.curator_beside(data, facts, ledger, budget, check, **options) as curator:
        named: dict[str, Any] = {"idempotency_key": idempotency_key, "purpose": purpose, "again": again}
        with waiting("looking at the records"):
            answer = curator.regress(formula, **said, spend=paid, level=certain, **named)
        remaining, whom = curator.left(), curator.whom
    beside = of_regression(answer, predict or (), contrast or ())
    shown = {"dataset": curator.dataset, "left": remaining, "protects": whom}
    after = f"{remaining}." + ("" if curator.person is None else f" {whom}.")
    deliver(answer, beside, shown, after, (csv, plot), as_json=as_json)
