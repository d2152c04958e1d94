"""`sottovoce mcp`: let an agent ask a data set, within a part of its budget, by the Model Context Protocol."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from sottovoce.faces.cli import shared
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.shares import read_share

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_LAST_PORT = 2**16 - 1


def mcp(
    source: Annotated[str, typer.Argument(help="A server's address (https://...), or the data themselves.")],
    token_file: Annotated[Path | None, typer.Option(help="Of a server: the file with the agent's token.")] = None,
    dataset: shared.DatasetName = None,
    facts: shared.PublicFacts = None,
    ledger: shared.Beside = None,
    budget: shared.Opening = None,
    part: Annotated[
        str | None,
        typer.Option(help="Of data: the agent's part of the budget, such as agent=20%. It cannot spend more."),
    ] = None,
    approve_above: Annotated[
        str | None, typer.Option(help="A question that costs a larger share needs a person's approval, such as 5%.")
    ] = None,
    http: Annotated[str | None, typer.Option(help="Serve HTTP on this host and port, such as 127.0.0.1:8765.")] = None,
) -> None:
    """Let an agent ask, within a part of the budget, over standard input or HTTP."""
    from sottovoce.faces.agents.mcp_server import agent_server  # noqa: PLC0415 - an extra
    from sottovoce.faces.agents.tools import AgentAccess  # noqa: PLC0415

    most = None if approve_above is None else read_share("--approve-above", approve_above)
    if most is not None and not 0 < most <= 1:
        raise InvalidValue(f"--approve-above is a share above 0 and at most 1, such as 5%. Got {approve_above!r}")
    door = None if http is None else _door(http)  # a part that is opened for nothing stays open
    with contextlib.ExitStack() as opened:
        if source.startswith(("http://", "https://")):
            if token_file is None or part is not None:
                raise InvalidValue(
                    "of a server say --token-file FILE, whose token has a part of its own, and no --part"
                )
            access = AgentAccess(_client(source, token_file, dataset), None, most)
        else:
            access = _local(opened, source, dataset, facts, ledger, budget, part, most)
        from importlib.metadata import version  # noqa: PLC0415

        server = agent_server(access, version("sottovoce"))
        if door is None:
            server.run("stdio")
        else:
            server.run("streamable-http", host=door[0], port=door[1])


def _door(http: str) -> tuple[str, int]:
    """Return host and port of an address of this machine."""
    host, _, port = http.rpartition(":")
    number = int(port) if re.fullmatch(r"[0-9]{1,5}", port) else 0
    if host not in _LOOPBACK or not 0 < number <= _LAST_PORT:
        raise InvalidValue(
            f"--http is a port of this machine, such as 127.0.0.1:8765: it asks nobody who they are. Got {http!r}"
        )
    return host, number


def _client(url: str, token_file: Path, dataset: str | None) -> Any:
    from sottovoce.faces.client import Client  # noqa: PLC0415

    try:
        token = token_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue(f"--token-file {token_file} cannot be read: {error}") from None
    return Client(url, token, dataset)


def _local(
    opened: contextlib.ExitStack,
    source: str,
    dataset: str | None,
    facts: Path | None,
    ledger: str | None,
    budget: str | None,
    part: str | None,
    most: float | None,
) -> Any:
    from sottovoce.faces.agents.tools import AgentAccess  # noqa: PLC0415 - an extra
    from sottovoce.privacy.promises import parse_promise  # noqa: PLC0415
    from sottovoce.service.curator import Curator  # noqa: PLC0415 - opens databases

    name, _, share = (part or "").partition("=")
    if not name or not share:
        raise InvalidValue("say --part NAME=SHARE, such as agent=20%: an agent never has all of a budget")
    _, known, kept = shared.places(source, facts, ledger)
    if not known.exists():
        raise InvalidValue(
            f"there are no facts at {known}; sottovoce facts {source} -o {known} writes a template to fill in"
        )
    promise = None if budget is None else parse_promise(budget)
    curator = opened.enter_context(Curator(source, kept, promise, facts=known, dataset=dataset, who=name))
    own_part = curator.open_part(name, read_share("--part", share))
    return AgentAccess(curator, own_part, most)
