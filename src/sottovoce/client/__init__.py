"""The client: ask a server as one asks a curator. Needs nothing but the library itself."""

from sottovoce.client.client import Client
from sottovoce.client.errors import (
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
    "Client",
    "NotAllowed",
    "NotAuthenticated",
    "NotFound",
    "ServerStopping",
    "ServerUnreachable",
    "TooManyRequests",
]
