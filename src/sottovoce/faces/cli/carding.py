"""`sottovoce card`: the privacy card of a data set, and whether one is genuine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from sottovoce.faces.cli import shared
from sottovoce.faces.cli.console import AsJson, console, emit, escape, table
from sottovoce.faces.cli.specs import facts_of
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.shares import percent, read_share


def card(
    place: Annotated[str | None, typer.Argument(metavar="LEDGER", help="The ledger: a path or an address.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Whose card, where the ledger has several budgets.")] = None,
    facts: shared.FactsFile = None,
    issuer: Annotated[str, typer.Option(help="Who hands the card out.")] = "",
    title: Annotated[str, typer.Option(help="What people call the data.")] = "",
    baseline: shared.Baseline = "1%",
    out: Annotated[
        Path,
        typer.Option(
            "--output", "--out", "-o", help="The HTML file to write; print it from a browser for paper or PDF."
        ),
    ] = Path("privacy-card.html"),
    key: Annotated[
        Path | None,
        typer.Option(help="The key to sign with, made where there is none; with --verify the public key, a PEM file."),
    ] = None,
    anchor: Annotated[
        str | None, typer.Option(help="Also check the note kept there: a path, or the URL of another ledger.")
    ] = None,
    verify: Annotated[Path | None, typer.Option(help="Check this card instead of making one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write the privacy card of a data set: its budget, every release, what it means. Reads no data, spends nothing."""
    if verify is not None:
        _verify(verify, key, place, as_json=as_json)
        return
    if place is None:
        raise InvalidValue("say which LEDGER, or --verify CARD.html --key PUBLIC.pem to check a card")
    from sottovoce.faces.server.cards import sign_card  # noqa: PLC0415 - an extra
    from sottovoce.faces.server.receipts import Signer  # noqa: PLC0415
    from sottovoce.service.answers.card import card as made  # noqa: PLC0415 - opens a database
    from sottovoce.service.ledger import Ledger  # noqa: PLC0415

    with Ledger(place, anchor=anchor) as ledger:
        known = None if facts is None else facts_of(facts)
        guessed = read_share("--baseline", baseline)
        result = made(ledger, dataset, facts=known, issuer=issuer, title=title, baseline=guessed)
    secret = _key_for(place) if key is None else key
    signer = Signer(secret)
    public = secret.with_name(f"{secret.name.removesuffix('.pem')}.pub.pem")
    _write(out, sign_card(result, signer))
    _write(public, signer.public_key.decode())
    if as_json:
        emit({"card": str(out), "key": signer.fingerprint, "public_key": str(public), "content": dict(result.content)})
        return
    titled = escape(str(result.content["title"]))
    console.print(f"card of [bold]{titled}[/] written to {escape(str(out))}", soft_wrap=True)
    console.print(f"signed by key {signer.fingerprint}; check it with", soft_wrap=True)
    console.print(f"  sottovoce card --verify {out} --key {public}", soft_wrap=True, markup=False)


def _key_for(place: str) -> Path:
    """Return where the key of a ledger's cards lies: beside the ledger."""
    path = Path(re.sub(r"^sqlite:///", "", place))
    if "://" in str(path) or not path.exists():
        raise InvalidValue("this ledger is no file; say --key FILE for the key to sign with")
    return path.with_name(f"{path.name}.key.pem")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise InvalidValue(f"cannot write {path}: {error.strerror}") from None


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise InvalidValue(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidValue(f"{path} is no text") from None


def _verify(page: Path, key: Path | None, place: str | None, *, as_json: bool) -> None:
    from sottovoce.faces.server.cards import verify_card  # noqa: PLC0415 - an extra
    from sottovoce.service.answers.card import superseded  # noqa: PLC0415 - opens a database
    from sottovoce.service.ledger import Ledger  # noqa: PLC0415
    from sottovoce.service.ledger.hash_chain import Head  # noqa: PLC0415

    if key is None:
        raise InvalidValue("say --key PUBLIC.pem, the issuer's public key: a card is checked with one that you trust")
    said: dict[str, Any] = verify_card(_read(page), _read(key).encode())
    if place is not None:
        with Ledger(place) as ledger:
            ledger.verify(Head(int(said["head"]["count"]), str(said["head"]["hash"])))
    promise = Promise.from_dict(said["budget"]["promise"])
    wrong = superseded(said["card"], promise)
    if as_json:
        emit({"good": True, "ledger_checked": place is not None, "superseded": wrong, "statement": said})
        return
    console.print("[green]good[/]: signed by the owner of this key, and no letter of the page was changed")
    if wrong is not None:
        console.print(f"[yellow]superseded[/]: {escape(wrong)}", soft_wrap=True)
    units = f"{promise.relation.unit}s"
    size = f"a secret number of {units}" if said["n"] is None else f"{said['n']:,} {units}"
    rows = [
        ("issuer", str(said["issuer"] or "not named")),
        ("data set", f"{said['title']} ({size})"),
        ("made", str(said["made"])),
        ("releases", str(sum(item["state"] == "committed" for item in said["releases"]))),
        ("spent", f"{percent(said['spent'])} of the budget"),
        ("ledger", "passes through the card's head" if place is not None else "not given, and not checked"),
    ]
    console.print(table("", ("", ""), rows, left=2))
