"""`sottovoce ledger`: open a budget, look at it, check it, export it, close what a crash left."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from sottovoce.faces.cli import shared
from sottovoce.faces.cli.console import AsJson, console, emit, escape, table
from sottovoce.faces.cli.specs import parse_types
from sottovoce.mechanisms.conjugate.named_systems import FORMULAS, system_from
from sottovoce.privacy.errors import InvalidValue, SottovoceError
from sottovoce.privacy.filter import GAUSSIAN, Order
from sottovoce.privacy.promises import ApproxDP, parse_promise
from sottovoce.privacy.shares import percent
from sottovoce.service.answers.period_words import left_in_words, listed
from sottovoce.service.ledger import Budget, DataVersion, Entry, Ledger
from sottovoce.service.ledger.hash_chain import EMPTY, Head

__all__ = ["app"]

app = typer.Typer(help="Open, show, verify and export a ledger.", no_args_is_help=True)

Place = Annotated[str, typer.Argument(help="The ledger: a path, sqlite:///…, or postgresql+psycopg://…")]
Elsewhere = Annotated[
    str | None, typer.Option("--anchor", help="Also check the note kept there: a path, or the URL of another ledger.")
]


@app.command("open")
def open_budget(
    place: Place,
    data: Annotated[str, typer.Option(help="The data whose budget this is.")],
    budget: Annotated[str, typer.Option(help="Such as approx:1,1e-6. It never changes.")],
    facts: shared.PublicFacts = None,
    protect: shared.Protect = None,
    grows: shared.Grows = None,
    period: shared.Period = None,
    dataset: shared.DatasetName = None,
    n: shared.SecretN = None,
    types: Annotated[str | None, typer.Option(help="The types of a CSV file's columns, such as age=int64.")] = None,
    order: Annotated[
        str | None, typer.Option(help="Rényi order that an approx budget is counted at, or gaussian to count μ².")
    ] = None,
    anchor: Elsewhere = None,
    as_json: AsJson = False,
) -> None:
    """Open the budget of a data set, creating the ledger if need be."""
    from sottovoce.service.curator import Curator  # noqa: PLC0415 - needs the data extra

    near = shared.beside(data, ".facts.toml")
    options: dict[str, Any] = {
        "facts": near if facts is None and near.is_file() else facts,
        "protect": protect,
        "grows": grows,
        "period": period,
        "dataset": dataset,
        "n": n,
        "types": parse_types(types),
        "order": _order(order),
        "anchor": anchor,
    }
    with Curator(data, place, parse_promise(budget), **options) as curator:
        opened = curator.budget
    if as_json:
        emit({"dataset": opened.dataset, "n": opened.n, "schema": dict(opened.schema)} | dict(opened.filter))
        return
    size = "n a secret" if opened.n is None else f"n = {opened.n}"
    whose = f"[bold]{escape(opened.dataset)}[/] ({size}) in {escape(place)}"
    console.print(f"budget [bold]{opened.promise}[/] opened for {whose}")
    console.print(f"it counts {opened.counted}, fixed for good")


def _order(text: str | None) -> Order | None:
    if text is None or text == GAUSSIAN:
        return text
    try:
        return float(text)
    except ValueError:
        raise InvalidValue(f"--order is a number > 1, or {GAUSSIAN}. Got {text!r}") from None


@app.command()
def show(place: Place, anchor: Elsewhere = None, as_json: AsJson = False) -> None:
    """Show budgets, what is left of them, and every entry."""
    with Ledger(place, anchor=anchor) as ledger:
        budgets, entries = ledger.budgets(), ledger.entries()
        versions = {b.id: ledger.versions(b) for b in budgets}
        remaining = {b.id: ledger.remaining(b) for b in budgets}
        shares = {b.id: max(0.0, 1 - b.share(float(ledger.spent(b)))) for b in budgets}
        divisions = {b.id: ledger.division(b) for b in budgets}
        periods = {
            b.id: {name: max(0.0, 1 - b.share(float(total))) for name, total in ledger.spent_by_period(b).items()}
            for b in budgets
        }
    if as_json:
        emit(
            {
                "budgets": [
                    {"dataset": b.dataset, "promise": str(b.promise), "n": b.n, "limit": b.limit, "at": b.at}
                    | {"remaining": str(remaining[b.id]), "left": shares[b.id]}
                    | {"filter": dict(b.filter), "counted": b.counted}
                    | {"versions": [asdict(version) for version in versions[b.id]]}
                    | (
                        {}
                        if (division := divisions[b.id]) is None
                        else {"period": division.by, "periods": periods[b.id]}
                    )
                    for b in budgets
                ],
                "entries": [entry.to_dict() for entry in entries],
            }
        )
        return
    each = {b.id: percent(shares[b.id]) + (" or more" if divisions[b.id] else "") for b in budgets}
    rows = [(b.dataset, _budget(b, budgets), each[b.id], _n(b, versions[b.id]), _minute(b.at)) for b in budgets]
    console.print(table("Budgets", ("data set", "budget", "left", "n", "opened"), rows, left=3))
    for b in budgets:
        if (division := divisions[b.id]) is not None:
            console.print(f"{escape(b.dataset)} by {escape(division.by)}: {escape(left_in_words(periods[b.id]))}")
    ways = dict.fromkeys(b.counted for b in budgets)
    console.print(f"counted: {', '.join(ways)}")
    console.print()
    by_number = {b.id: b for b in budgets}
    columns: tuple[str, ...] = ("entry", "state", "what", "who", "when", "cost", "basis")
    lines: list[tuple[str, ...]] = [_row(e, by_number) for e in entries]
    if any(divisions.values()):
        columns = (*columns, "periods")
        lines = [(*line, listed(e.periods or ())) for line, e in zip(lines, entries, strict=True)]
    console.print(table("Entries", columns, lines, left=5))
    if any(e.state == "pending" for e in entries):
        console.print(
            "\n[yellow]pending entries count as spent; close one left by a crash with[/] sottovoce ledger recover"
        )


def _n(budget: Budget, versions: Sequence[DataVersion]) -> str:
    """Return how many records there are, or were each time where data grow: first and last."""
    if budget.n is None:
        return "secret"
    if versions and versions[-1].n == budget.n:
        return f"{budget.n}, may grow"
    return str(budget.n) if not versions else f"{budget.n} → {versions[-1].n}"


def _minute(at: str) -> str:
    return at[:16].replace("T", " ")


def _what(request: Mapping[str, Any]) -> str:
    """Return a question in words: those it was asked in, or the mechanism, the columns, the condition."""
    mechanism, column = request.get("mechanism") or {}, request.get("column")
    asked = mechanism.get("system") if isinstance(mechanism, Mapping) else None
    if isinstance(asked, Mapping) and asked.get("system") in ("question", *FORMULAS):
        with contextlib.suppress(SottovoceError, ImportError):  # a formula needs an extra
            return str(system_from(asked).describe())
    name = mechanism.get("mechanism", "?") if isinstance(mechanism, Mapping) else str(mechanism)
    about, where, draws = column, request.get("where"), request.get("draws", 1)
    if isinstance(column, list | tuple):
        system = mechanism.get("system", {}) if isinstance(mechanism, Mapping) else {}
        about = f"{system.get('system', 'columns')} ({', '.join(map(str, column))})"
    words = [
        name,
        f"of {about}" if about else "",
        f"where {where}" if where else "",
        f"× {draws}" if draws != 1 else "",
    ]
    return " ".join(filter(None, words))


def _budget(budget: Budget, budgets: Sequence[Budget]) -> str:
    """Return the promise, or the share of a whole that is counted alike."""
    full = next((b for b in budgets if b.id == budget.whole), None)
    if full is not None and full.counted == budget.counted and not isinstance(budget.promise, ApproxDP):
        return f"{percent(full.share(budget.limit))} of {full.dataset}"
    return str(budget.promise)


def _row(entry: Entry, budgets: Mapping[int, Budget]) -> tuple[str, ...]:
    what = _what(entry.request)
    if len(budgets) > 1:
        what = f"{entry.dataset}: {what}"
    cost = percent(budgets[entry.budget].share(entry.cost))
    return (str(entry.id), str(entry.state), what, entry.who, _minute(entry.at), cost, str(entry.basis))


@app.command()
def verify(
    place: Place,
    anchor: Elsewhere = None,
    since_checkpoint: Annotated[
        bool, typer.Option("--since-checkpoint", help="Only what came after the last checkpoint, as on opening.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check the whole hash chain; fails with exit code 6 on any alteration, gap or truncation.

    A long ledger then has a checkpoint, sealed for its owner, from which it opens at once.
    """
    with Ledger(place, anchor=anchor) as ledger:
        since, head = ledger.opened
        if since.count and not since_checkpoint:
            since, head = EMPTY, ledger.verify()
    verified = head.count - since.count
    if as_json:
        emit({"ok": True, "events": head.count, "head": head.hash, "verified": verified, "checkpoint": since.count})
        return
    if since.count:
        console.print(
            f"[green]sound since its checkpoint[/]: {verified} of {head.count} events verified; the {since.count} "
            f"before it were verified when it was sealed, and not now; head {head.hash}"
        )
        return
    console.print(f"[green]sound[/]: {head.count} events, all of them verified, head {head.hash}")


@app.command()
def export(
    place: Place,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The JSON file to write. (By default standard output.)")
    ] = None,
    anchor: Elsewhere = None,
) -> None:
    """Write every budget and entry as JSON, with the verified head of the chain."""
    with Ledger(place, anchor=anchor) as ledger:
        head = ledger.verify()
        content = {
            "head": {"count": head.count, "hash": head.hash},
            "budgets": [{"dataset": b.dataset, "who": b.who, "at": b.at} | b.facts() for b in ledger.budgets()],
            "entries": [entry.to_dict() for entry in ledger.entries()],
        }
    if output is None:
        emit(content)
        return
    try:
        output.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise InvalidValue(f"cannot write {output}: {error.strerror}") from None
    console.print(f"{len(content['entries'])} entries written to {output}", markup=False)


@app.command()
def recover(
    place: Place,
    entry: Annotated[int, typer.Argument(help="The number of the pending entry.")],
    note: Annotated[str | None, typer.Option(help="Why it is closed: needed, and kept in the ledger.")] = None,
    anchor: Elsewhere = None,
    as_json: AsJson = False,
) -> None:
    """Close an entry that a dead process left pending. It stays spent."""
    with Ledger(place, anchor=anchor) as ledger:
        ledger.recover(entry, note=note or "")
    if as_json:
        emit({"entry": entry, "state": "lost"})
        return
    console.print(f"entry {entry} closed; its cost stays spent")


@app.command()
def backup(
    place: Place,
    target: Annotated[Path, typer.Argument(help="Where the copy goes; nothing may be there.")],
    anchor: Elsewhere = None,
    as_json: AsJson = False,
) -> None:
    """Copy a ledger that is in use, verify the copy, and say how far it reaches: note that elsewhere, too."""
    from sottovoce.service.ledger.backup import back_up  # noqa: PLC0415

    head = back_up(place, target, anchor=anchor)
    _copied(head, f"{target} is a verified copy", as_json=as_json)


@app.command()
def restore(
    copy: Annotated[Path, typer.Argument(metavar="BACKUP", help="The copy.")],
    place: Place,
    anchor: Elsewhere = None,
    as_json: AsJson = False,
) -> None:
    """Put a copy in the place of a ledger that was lost; refused where an anchor says that it had come further."""
    from sottovoce.service.ledger.backup import restore as put_back  # noqa: PLC0415

    head = put_back(copy, place, anchor=anchor)
    _copied(head, f"{place} is what {copy} was", as_json=as_json)


def _copied(head: Head, said: str, *, as_json: bool) -> None:
    if as_json:
        emit({"events": head.count, "head": head.hash})
        return
    console.print(f"{said}: {head.count} events. Its anchor, to be noted elsewhere:", markup=False)
    print(head)  # which no console wraps
