"""Callers: who asks, and how far their token reaches."""

from __future__ import annotations

from dataclasses import dataclass

from sottovoce.faces.server.config import Config
from sottovoce.faces.server.errors import NotAuthenticated
from sottovoce.faces.server.tokens import Token


@dataclass(frozen=True)
class Caller:
    """Who asks: an analyst, and how far their token reaches."""

    analyst: str
    token: str
    scopes: frozenset[str]
    datasets: frozenset[str]


def caller_of(token: Token | None, config: Config) -> Caller:
    """Return whose token this is, if it may be used now and its analyst is still in the configuration.

    An analyst reaches the data sets they have a budget on, an administrator all of them; a token may reach fewer.
    """
    analyst = None if token is None else config.analysts.get(token.analyst)
    if token is None or not token.valid or analyst is None:
        raise NotAuthenticated("the token is missing, unknown, expired or revoked")
    reach = frozenset(config.datasets if "admin" in token.scopes else analyst.budgets)
    return Caller(analyst.name, token.id, token.scopes, reach & (token.datasets or reach))
