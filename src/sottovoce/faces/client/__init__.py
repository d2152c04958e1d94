"""The client: ask a server as one asks a curator. Needs nothing but the library itself."""

from sottovoce.faces.client.async_client import AsyncClient
from sottovoce.faces.client.client import Client
from sottovoce.faces.client.errors import (
    AnswerLost,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    ServerStopping,
    ServerUnreachable,
    TooManyRequests,
)

__all__ = [
    "AnswerLost",
    "AsyncClient",
    "Client",
    "NotAllowed",
    "NotAuthenticated",
    "NotFound",
    "ServerStopping",
    "ServerUnreachable",
    "TooManyRequests",
]
