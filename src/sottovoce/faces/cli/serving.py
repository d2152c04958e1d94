"""`sottovoce serve`, `tokens` and `receipt`: run the server, let people in and out, check what it signed."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from sottovoce.faces.cli.console import AsJson, console, emit, escape, table
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import json_object
from sottovoce.privacy.shares import percent

__all__ = ["receipt_app", "serve", "tokens_app"]

LIFETIME_DAYS = 90.0
ConfigFile = Annotated[Path, typer.Argument(help="The server's configuration, a TOML file.")]

tokens_app = typer.Typer(help="Create, list and revoke the tokens of a server.", no_args_is_help=True)
receipt_app = typer.Typer(help="Check a receipt that a server signed.", no_args_is_help=True)


def serve(
    config: ConfigFile,
    check: Annotated[bool, typer.Option(help="Read the file, open everything once, and stop.")] = False,
    as_json: AsJson = False,
) -> None:
    """Answer questions over HTTP until stopped. Logs are JSON, one line a request, on standard error."""
    from sottovoce.faces.server import Service, read_config  # noqa: PLC0415 - an extra
    from sottovoce.faces.server.running import check_address  # noqa: PLC0415
    from sottovoce.faces.server.running import serve as run  # noqa: PLC0415

    settings = read_config(config)
    scheme = "http" if settings.tls is None else "https"
    facts = {
        "address": f"{scheme}://{settings.host}:{settings.port}",
        "datasets": sorted(settings.datasets),
        "analysts": sorted(settings.analysts),
        "workers": settings.workers,
        "ledger": re.sub(r"//[^/@]*@", "//…@", settings.ledger),
    }
    if check:
        Service(settings).close()
    else:
        check_address(settings)
    if as_json:
        emit(facts)
    else:
        console.print(f"[bold]{escape(settings.title)}[/] {'is in order' if check else 'at ' + str(facts['address'])}")
        who = ", ".join(settings.analysts) or "none"
        console.print(f"  data sets {', '.join(settings.datasets)} · analysts {who}", markup=False)
    if not check:
        run(settings)


@tokens_app.command("create")
def create(
    config: ConfigFile,
    analyst: Annotated[str, typer.Option(help="Whose token it is; an analyst of the configuration.")],
    scope: Annotated[
        list[str] | None, typer.Option(help="read, plan, ask or admin; repeat it. (By default read plan ask.)")
    ] = None,
    dataset: Annotated[list[str] | None, typer.Option(help="Reach only this data set; repeat it.")] = None,
    days: Annotated[float, typer.Option(help="Expire after so many days.")] = LIFETIME_DAYS,
    forever: Annotated[bool, typer.Option("--forever", help="Never expire; only revoking ends it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Create a token and show it, this once: the server keeps only its hash."""
    from sottovoce.faces.server import read_config  # noqa: PLC0415 - an extra
    from sottovoce.faces.server.tokens import Tokens  # noqa: PLC0415

    settings = read_config(config)
    if analyst not in settings.analysts:
        raise InvalidValue(f"no analyst is called {analyst!r}; {config} has {', '.join(settings.analysts) or 'none'}")
    for name in dataset or ():
        if name not in settings.datasets:
            raise InvalidValue(f"no data set is called {name!r}; {config} has {', '.join(settings.datasets)}")
    if not 0 < days < 36_525:
        raise InvalidValue(f"a token lives for some time, at most a hundred years. Got {days:g} days")
    lifetime = None if forever else datetime.timedelta(days=days)
    with Tokens(settings.tokens) as tokens:
        token, secret = tokens.create(analyst, scope or ("read", "plan", "ask"), dataset or (), lifetime)
    if as_json:
        emit(token.to_dict() | {"token": secret})
        return
    end = "never expires" if token.expires is None else f"expires {token.expires[:10]}"
    console.print(f"token {token.id} for [bold]{escape(analyst)}[/], scopes {', '.join(sorted(token.scopes))}, {end}:")
    console.print(secret, soft_wrap=True)
    console.print("[dim]It is not shown again.[/]")


@tokens_app.command("list")
def list_tokens(config: ConfigFile, as_json: AsJson = False) -> None:
    """List every token, without its secret."""
    result = [token.to_dict() | {"valid": token.valid} for token in _tokens(config)]
    if as_json:
        emit({"tokens": result})
        return
    rows = [
        (
            t["id"],
            t["analyst"],
            " ".join(t["scopes"]),
            " ".join(t["datasets"]) or "all",
            t["created"][:10],
            (t["expires"] or "never")[:10],
            "valid" if t["valid"] else "revoked" if t["revoked"] else "expired",
        )
        for t in result
    ]
    columns = ("token", "analyst", "scopes", "data sets", "created", "expires", "state")
    dated = ("created", "expires", "state")
    console.print(table("Tokens", columns, rows, left=len(columns), whole=dated))


def _tokens(config: Path) -> list[Any]:
    from sottovoce.faces.server import read_config  # noqa: PLC0415 - an extra
    from sottovoce.faces.server.tokens import Tokens  # noqa: PLC0415

    with Tokens(read_config(config).tokens) as tokens:
        return tokens.list()


@tokens_app.command("revoke")
def revoke(
    config: ConfigFile,
    token: Annotated[str, typer.Argument(help="The token's identity, as listed; not its secret.")],
    as_json: AsJson = False,
) -> None:
    """Refuse a token from now on, in every server process at once."""
    from sottovoce.faces.server import read_config  # noqa: PLC0415 - an extra
    from sottovoce.faces.server.tokens import Tokens  # noqa: PLC0415

    with Tokens(read_config(config).tokens) as tokens:
        revoked = tokens.revoke(token)
    if as_json:
        emit(revoked.to_dict())
        return
    console.print(f"token {revoked.id} of {revoked.analyst} is refused since {revoked.revoked}", markup=False)


@receipt_app.command("verify")
def verify(
    receipt: Annotated[Path, typer.Argument(help="The receipt, or a whole answer, as JSON.")],
    key: Annotated[Path, typer.Option(help="The server's public key: the `key` of /api/v1/key, a PEM file.")],
    as_json: AsJson = False,
) -> None:
    """Check a receipt's signature; of a whole answer, also that the receipt is about this very release."""
    from sottovoce.faces.server.receipts import verify_receipt  # noqa: PLC0415 - an extra
    from sottovoce.service.answers.notebook_repr import asked_in_words  # noqa: PLC0415 - numpy

    content = json_object(_read(receipt), "a receipt")
    result = content.get("receipt", content)
    if not isinstance(result, dict):
        raise InvalidValue("a receipt is a JSON object with `signed` and `signature`")
    release = content.get("release")
    statement = verify_receipt(result, _read(key).encode(), release)
    if as_json:
        emit({"good": True, "release_checked": release is not None, "statement": statement})
        return
    console.print(f"[green]good[/]: signed by key {result.get('key')}")
    question, shares = statement["question"], statement.get("share")  # early receipts have no shares
    query = [("query", str(question["query"]))] if question.get("query") else []
    cost = "not said as a share"
    if shares:
        cost = f"{percent(shares['yours'])} of the analyst's budget, {percent(shares['whole'])} of the whole"
    rows = [
        ("issuer", str(statement["issuer"])),
        ("data set", f"{statement['dataset']} (n = {statement['n']})"),
        ("asked by", f"{statement['analyst']}, {statement['at']}"),
        ("entry", str(statement["entry"])),
        ("question", asked_in_words(question)),
        *query,
        ("mechanism", str(question["mechanism"]["mechanism"])),
        ("basis", str(statement["profile"]["basis"])),
        ("cost", cost),
        ("release", "is the one it is about" if release is not None else "not given, and not checked"),
    ]
    console.print(table("", ("", ""), rows, left=2))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidValue(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidValue(f"{path} is no text") from None
