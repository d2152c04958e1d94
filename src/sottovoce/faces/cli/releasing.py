"""`sottovoce release`: one release from a table, charged to its ledger."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sottovoce.faces.cli import shared
from sottovoce.faces.cli.console import AsJson, console, emit, escape, number, table
from sottovoce.faces.cli.option_groups import grouped
from sottovoce.faces.cli.output_files import check_places, written
from sottovoce.faces.cli.specs import facts_of, model_for, parse_types, read_spec, releasing_mechanism
from sottovoce.mechanisms import Mechanism
from sottovoce.mechanisms.conjugate.named_systems import SYSTEMS
from sottovoce.mechanisms.mechanism_choice import CONJUGATE
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.numbers import whole
from sottovoce.privacy.promises import ApproxDP, Promise, parse_promise
from sottovoce.privacy.relation import ADD_REMOVE

if TYPE_CHECKING:
    from sottovoce.service.answers.paid_verbs import PaidVerbs


@dataclass(frozen=True)
class Stated:
    """What a release may be told, on the command line or in a file."""

    data: Annotated[str | None, typer.Argument(help="A Parquet, CSV or Arrow file, or a database address.")] = None
    column: Annotated[list[str] | None, typer.Option(help="The column to read; repeat for a vector.")] = None
    target: Annotated[str | None, typer.Option(help="The promise of this release, such as approx:0.5,1e-6.")] = None
    spend: Annotated[str | None, typer.Option(help="Instead of a promise: a share of the budget such as 5%.")] = None
    mechanism: Annotated[
        str | None,
        typer.Option(
            help=f"Of one column {', '.join(CONJUGATE)}. (By default the whole posterior with the least noise.)"
        ),
    ] = None
    facts: Annotated[Path | None, typer.Option(help="The facts of the columns, a TOML file.")] = None
    ledger: Annotated[str | None, typer.Option(help="The ledger: a path or a database address.")] = None
    anchor: Annotated[
        str | None, typer.Option(help="Note elsewhere how far the ledger has come: a path, or another ledger's URL.")
    ] = None
    budget: shared.Opening = None
    n: shared.SecretN = None
    dataset: shared.DatasetName = None
    types: Annotated[
        str | None, typer.Option(help="The types of a CSV file's columns, such as age=int64; the others are text.")
    ] = None
    where: Annotated[str | None, typer.Option(help="A condition; records it does not hold for count as missing.")] = (
        None
    )
    protect: shared.Protect = None
    grows: shared.Grows = None
    period: shared.Period = None
    missing: Annotated[str | None, typer.Option(help="What a missing value counts as.")] = None
    idempotency_key: shared.Key = None
    who: shared.Who = None
    purpose: Annotated[str | None, typer.Option(help="What it is for; recorded, and on the privacy card.")] = None

    def beside(self, file: Mapping[str, Any]) -> dict[str, Any]:
        """Return what was told, of which the command line has the last word; None of what was not."""
        options = {name: value for name, value in vars(self).items() if value is not None and value not in ((), [])}
        return dict.fromkeys(vars(self)) | {name.replace("-", "_"): value for name, value in file.items()} | options


@grouped
def release(
    stated: Stated,
    system: Annotated[
        str | None, typer.Option(help=f"Such as beta-bernoulli:alpha=6,beta=12; one of {', '.join(SYSTEMS.kinds)}.")
    ] = None,
    draws: Annotated[int, typer.Option(help="How many samples; each costs as much as the first.")] = 1,
    accept_unproven: Annotated[bool, typer.Option(help="Accept a claim that rests on convergence.")] = False,
    spec: Annotated[Path | None, typer.Option(help="A TOML file with a table system and these options.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Also write the release to this JSON file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Release a posterior from a table. The budget is charged, durably, before any record is read."""
    from sottovoce.records.tables import open_table  # noqa: PLC0415
    from sottovoce.service.curator import Curator  # noqa: PLC0415 - needs the data extra
    from sottovoce.service.curator.privacy_unit import Protected  # noqa: PLC0415
    from sottovoce.service.ledger.charging import price  # noqa: PLC0415

    given = read_spec(spec)
    options = stated.beside(given)
    source, place, promise, share = options["data"], options["ledger"], options["target"], options["spend"]
    if promise is not None and share is not None:
        raise InvalidValue("say what a release may cost once: a promise (--target) or a share of the budget (--spend)")
    paid = promise if share is None else share
    whole("draws", draws, 1)
    missing_options = [
        name for name, value in (("DATA", source), ("--ledger", place), ("--target or --spend", paid)) if value is None
    ]
    if system is None and "system" not in given:
        missing_options.append("--system")
    if missing_options:
        raise InvalidValue(f"release needs {', '.join(missing_options)} (or --spec FILE with them)")
    limit, known, columns = options["budget"], facts_of(options["facts"]), options["column"] or None
    check_places(output, kept=[file for file in (source, place, options["facts"], spec) if file is not None])
    model = model_for(system, given.get("system"), known, columns)
    with contextlib.ExitStack() as opened:
        records = opened.enter_context(open_table(source, types=parse_types(options["types"]), facts=known))

        def made_for(target: Promise, count: int | None, price: Any = None) -> Mechanism:
            shown = target.under(replace(target.relation, unit="record"))  # of a person too, it is shown one record
            return releasing_mechanism(options["mechanism"], model, count, shown, price)

        def priced(purse: PaidVerbs, count: int | None) -> Mechanism:
            # A share is of the budget as it is counted, and so is the price of the noise.
            return made_for(
                purse.share(str(share) if share is not None else parse_promise(promise)),
                count,
                lambda profile: price(purse.budget, purse.claimed(profile)),
            )

        first = _first_look(str(share), limit) if share is not None else parse_promise(promise)
        said = first if limit is None else parse_promise(limit)
        secret = None if isinstance(text := options["n"], int) else text  # a plan's file may say how many to plan for
        hidden = secret is not None or said.relation.hides_n
        first = first.under(ADD_REMOVE) if hidden else first
        built = made_for(first, None if hidden else records.count())
        columns = built.columns if columns is None else columns
        columns = columns[0] if isinstance(columns, list) and len(columns) == 1 else columns
        asked: dict[str, Any] = {"where": options["where"], "missing": _number_or_text(options["missing"])}
        records.check(built, columns, **asked)  # a question that makes no sense opens no budget
        if limit is not None:
            whom = Protected.of(known, options["protect"])
            shared.check_payable(
                source,
                options["dataset"],
                records,
                place,
                said,
                whom,
                secret,
                lambda purse: priced(purse, None if hidden else records.count(whom.person)),
                draws,
            )
        opening = {name: options[name] for name in ("dataset", "protect", "grows", "period", "who", "anchor")}
        bought = None if limit is None else parse_promise(limit)
        curator = opened.enter_context(Curator(records, place, bought, facts=known, n=secret, **opening))
        built = priced(curator, curator.n)  # its budget may have been opened long ago
        release_made = curator.release(
            built,
            columns,
            **asked,
            draws=draws,
            idempotency_key=options["idempotency_key"],
            purpose=options["purpose"],
            accept_unproven=accept_unproven,
        )
        remaining, share_left, protects = curator.remaining(), curator.left(), curator.whom
    answer = (
        release_made.to_dict()
        | {"dataset": curator.dataset, "remaining": remaining.to_dict(), "left": share_left}
        | {"protects": protects}
    )
    with written((output, lambda file: file.write_text(release_made.to_json(indent=2) + "\n", encoding="utf-8"))):
        if as_json:
            emit(answer)
        else:
            _print(release_made, built.describe(), f"{share_left}. {protects}")


def _first_look(text: str, budget: str | None) -> Promise:
    """Return a promise for a first look at a question, before its budget is open: one that any mechanism keeps."""
    from sottovoce.service.answers import parse_spend  # noqa: PLC0415 - needs the data extra

    share = parse_spend(text)
    if isinstance(share, str):
        raise InvalidValue(f"--spend is a share of the budget such as 5%; say a promise with --target. Got {text!r}")
    return ApproxDP(100.0, 1e-3) if budget is None else PrivacyFilter(parse_promise(budget)).share(share)


def _number_or_text(text: Any) -> Any:
    try:
        return float(text) if isinstance(text, str) else text
    except ValueError:
        return text


def _print(made: Any, described: str, left: str) -> None:
    value = made.value
    console.print(f"[bold]{escape(described)}[/]")
    if hasattr(value, "interval") and hasattr(value, "mean") and not hasattr(value, "summary"):
        low, high = value.interval(0.95)
        rows = [("mean", _show(value.mean)), ("95 % interval", f"{_show(low)} to {_show(high)}")]
    elif hasattr(value, "summary"):
        rows = [(str(name), _words(item)) for name, item in _rows(value.summary())]
    else:
        rows = [(made.parameter, _show(value))]
    profile = made.profile
    rows += [
        ("basis", str(profile.basis)),
        ("cost", f"ε = {number(profile.epsilon(1e-6))} at δ = 1e-06, R = {number(profile.renyi(2.0))} at order 2"),
        ("budget", left),
    ]
    console.print(table("", ("", ""), rows, left=2))


def _rows(summary: Any) -> list[tuple[Any, Any]]:
    """Return a summary row by row: a mapping's entries, a frame's rows, lines of text."""
    if hasattr(summary, "iterrows"):
        return [(name, dict(row)) for name, row in summary.iterrows()]
    if isinstance(summary, Mapping):
        return list(summary.items())
    return [("", line) for line in str(summary).splitlines()]


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_words(item)}" for name, item in value.items())
    return _show(value) if isinstance(value, list | float | int) or hasattr(value, "tolist") else str(value)


def _show(value: Any) -> str:
    shown = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(shown, list):
        return "(" + ", ".join(_show(v) for v in shown[:12]) + (", …" if len(shown) > 12 else "") + ")"
    return f"{shown:.5g}"
